"""jax.experimental.pallas.ops.gpu.decode_attention: refused, and says what to use instead. This module only hands names on."""

from ....._experimental.pallas.refused_operators import gqa as gqa
from ....._experimental.pallas.refused_operators import mqa as mqa
