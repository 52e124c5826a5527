"""jax.scipy.stats.gennorm: the generalized normal distribution. This module only hands names on."""

from ..._scipy.stats.gennorm import cdf as cdf
from ..._scipy.stats.gennorm import logpdf as logpdf
from ..._scipy.stats.gennorm import pdf as pdf
