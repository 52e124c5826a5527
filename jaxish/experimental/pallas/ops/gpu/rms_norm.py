"""jax.experimental.pallas.ops.gpu.rms_norm: refused, and says what to use instead. This module only hands names on."""

from ....._experimental.pallas.refused_operators import rms_norm as rms_norm
