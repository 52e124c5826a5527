"""jax.scipy.stats.laplace: the Laplace distribution. This module only hands names on."""

from ..._scipy.stats.laplace import cdf as cdf
from ..._scipy.stats.laplace import logpdf as logpdf
from ..._scipy.stats.laplace import pdf as pdf
