"""jax.experimental.xla_metadata: notes to XLA. This module only hands names on."""

from .._experimental.annotated import set_xla_metadata as set_xla_metadata
