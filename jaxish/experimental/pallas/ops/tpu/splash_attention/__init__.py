"""jax.experimental.pallas.ops.tpu.splash_attention: refused, and says what to use instead. This module only hands names on."""

from ......_experimental.pallas.refused_operators import BlockSizes as BlockSizes
from ......_experimental.pallas.refused_operators import CausalMask as CausalMask
from ......_experimental.pallas.refused_operators import FullMask as FullMask
from ......_experimental.pallas.refused_operators import LocalMask as LocalMask
from ......_experimental.pallas.refused_operators import Mask as Mask
from ......_experimental.pallas.refused_operators import MultiHeadMask as MultiHeadMask
from ......_experimental.pallas.refused_operators import NumpyMask as NumpyMask
from ......_experimental.pallas.refused_operators import QKVLayout as QKVLayout
from ......_experimental.pallas.refused_operators import SegmentIds as SegmentIds
from ......_experimental.pallas.refused_operators import make_causal_mask as make_causal_mask
from ......_experimental.pallas.refused_operators import make_local_attention_mask as make_local_attention_mask
from ......_experimental.pallas.refused_operators import make_masked_mha_reference as make_masked_mha_reference
from ......_experimental.pallas.refused_operators import make_masked_mqa_reference as make_masked_mqa_reference
from ......_experimental.pallas.refused_operators import make_random_mask as make_random_mask
from ......_experimental.pallas.refused_operators import make_splash_mha as make_splash_mha
from ......_experimental.pallas.refused_operators import make_splash_mha_single_device as make_splash_mha_single_device
from ......_experimental.pallas.refused_operators import make_splash_mqa as make_splash_mqa
from ......_experimental.pallas.refused_operators import make_splash_mqa_single_device as make_splash_mqa_single_device
