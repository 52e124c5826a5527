"""jax.experimental.pallas.ops.tpu.megablox: refused, and says what to use instead. This module only hands names on."""

from ......_experimental.pallas.refused_operators import gmm as gmm
