"""jax.scipy.stats.multivariate_normal: the normal distribution of vectors. This module only hands names on."""

from ..._scipy.stats.multivariate_normal import logpdf as logpdf
from ..._scipy.stats.multivariate_normal import pdf as pdf
