"""jax.scipy.stats.poisson: the Poisson distribution. This module only hands names on."""

from ..._scipy.stats.poisson import cdf as cdf
from ..._scipy.stats.poisson import entropy as entropy
from ..._scipy.stats.poisson import logpmf as logpmf
from ..._scipy.stats.poisson import pmf as pmf
