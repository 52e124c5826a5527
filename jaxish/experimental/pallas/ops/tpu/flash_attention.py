"""jax.experimental.pallas.ops.tpu.flash_attention: refused, and says what to use instead. This module only hands names on."""

from ....._experimental.pallas.refused_operators import BlockSizes as BlockSizes
from ....._experimental.pallas.refused_operators import SegmentIds as SegmentIds
from ....._experimental.pallas.refused_operators import flash_attention as flash_attention
from ....._experimental.pallas.refused_operators import mha_reference as mha_reference
