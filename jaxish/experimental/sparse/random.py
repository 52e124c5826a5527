"""jax.experimental.sparse.random: sparse arrays of random numbers. This module only hands names on."""

from ..._experimental.sparse.creation import random_bcoo as random_bcoo
