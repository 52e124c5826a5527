"""jax.experimental.pallas.ops.gpu.paged_attention: refused, and says what to use instead. This module only hands names on."""

from ....._experimental.pallas.refused_operators import paged_attention as paged_attention
