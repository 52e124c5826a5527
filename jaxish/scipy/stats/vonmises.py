"""jax.scipy.stats.vonmises: the von Mises distribution of angles. This module only hands names on."""

from ..._scipy.stats.vonmises import logpdf as logpdf
from ..._scipy.stats.vonmises import pdf as pdf
