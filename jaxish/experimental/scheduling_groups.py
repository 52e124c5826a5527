"""jax.experimental.scheduling_groups: calls with notes to XLA. This module only hands names on."""

from .._experimental.annotated import scheduling_group as scheduling_group
from .._experimental.annotated import xla_metadata_call as xla_metadata_call
