"""jax.experimental.compute_on: where a part of a program is computed. This module only hands names on."""

from .._experimental.annotated import compute_on as compute_on
from .._experimental.annotated import compute_on2 as compute_on2
