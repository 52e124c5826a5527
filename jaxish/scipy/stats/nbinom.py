"""jax.scipy.stats.nbinom: the negative binomial distribution. This module only hands names on."""

from ..._scipy.stats.nbinom import logpmf as logpmf
from ..._scipy.stats.nbinom import pmf as pmf
