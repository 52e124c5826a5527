"""jax.experimental.pallas.ops.gpu.softmax: refused, and says what to use instead. This module only hands names on."""

from ....._experimental.pallas.refused_operators import softmax as softmax
