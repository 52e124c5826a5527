"""jax.scipy.stats.betabinom: the beta-binomial distribution. This module only hands names on."""

from ..._scipy.stats.betabinom import logpmf as logpmf
from ..._scipy.stats.betabinom import pmf as pmf
