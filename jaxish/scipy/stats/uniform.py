"""jax.scipy.stats.uniform: the uniform distribution from `loc` to `loc + scale`. This module only hands names on."""

from ..._scipy.stats.uniform import cdf as cdf
from ..._scipy.stats.uniform import logpdf as logpdf
from ..._scipy.stats.uniform import pdf as pdf
from ..._scipy.stats.uniform import ppf as ppf
