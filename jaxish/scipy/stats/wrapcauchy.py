"""jax.scipy.stats.wrapcauchy: the wrapped Cauchy distribution of angles. This module only hands names on."""

from ..._scipy.stats.wrapcauchy import logpdf as logpdf
from ..._scipy.stats.wrapcauchy import pdf as pdf
