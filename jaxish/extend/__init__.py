"""jax.extend: for those who build on the library's inner parts."""

from . import core as core
from . import random as random
