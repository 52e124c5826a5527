"""jax.experimental.pallas.ops.tpu.splash_attention.splash_attention_mask: refused, and says what to use instead. This module only hands names on."""

from ......_experimental.pallas.refused_operators import CausalMask as CausalMask
from ......_experimental.pallas.refused_operators import ChunkedCausalMask as ChunkedCausalMask
from ......_experimental.pallas.refused_operators import FullMask as FullMask
from ......_experimental.pallas.refused_operators import LocalMask as LocalMask
from ......_experimental.pallas.refused_operators import LogicalAnd as LogicalAnd
from ......_experimental.pallas.refused_operators import LogicalOr as LogicalOr
from ......_experimental.pallas.refused_operators import Mask as Mask
from ......_experimental.pallas.refused_operators import MultiHeadMask as MultiHeadMask
from ......_experimental.pallas.refused_operators import NumpyMask as NumpyMask
from ......_experimental.pallas.refused_operators import make_causal_mask as make_causal_mask
from ......_experimental.pallas.refused_operators import make_chunk_attention_mask as make_chunk_attention_mask
from ......_experimental.pallas.refused_operators import make_local_attention_mask as make_local_attention_mask
from ......_experimental.pallas.refused_operators import make_random_mask as make_random_mask
