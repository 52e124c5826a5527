"""jax.experimental.pallas.ops.tpu.ragged_paged_attention: refused, and says what to use instead. This module only hands names on."""

from ......_experimental.pallas.refused_operators import ragged_paged_attention as ragged_paged_attention
