"""jax.scipy.stats.t: Student's t distribution. This module only hands names on."""

from ..._scipy.stats.t import logpdf as logpdf
from ..._scipy.stats.t import pdf as pdf
