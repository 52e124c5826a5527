"""jax.experimental.pallas.ops.gpu.attention: refused, and says what to use instead. This module only hands names on."""

from ....._experimental.pallas.refused_operators import BlockSizes as BlockSizes
from ....._experimental.pallas.refused_operators import mha as mha
from ....._experimental.pallas.refused_operators import mha_reference as mha_reference
