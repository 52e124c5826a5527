"""jax.experimental.pallas.ops.gpu.layer_norm: refused, and says what to use instead. This module only hands names on."""

from ....._experimental.pallas.refused_operators import layer_norm as layer_norm
