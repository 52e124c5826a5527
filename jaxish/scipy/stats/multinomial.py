"""jax.scipy.stats.multinomial: the multinomial distribution. This module only hands names on."""

from ..._scipy.stats.multinomial import logpmf as logpmf
from ..._scipy.stats.multinomial import pmf as pmf
