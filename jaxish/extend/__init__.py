"""jax.extend: for those who build on the library's inner parts."""

from . import random as random
