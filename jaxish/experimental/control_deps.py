"""jax.experimental.control_deps: an order of operations. This module only hands names on."""

from .._experimental.without_xla import control_dep as control_dep
from .._experimental.without_xla import schedule as schedule
