"""jax.scipy.stats.binom: the binomial distribution. This module only hands names on."""

from ..._scipy.stats.binom import logpmf as logpmf
from ..._scipy.stats.binom import pmf as pmf
