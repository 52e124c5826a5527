"""jax.scipy.stats.norm: the normal distribution. This module only hands names on."""

from ..._scipy.stats.norm import cdf as cdf
from ..._scipy.stats.norm import isf as isf
from ..._scipy.stats.norm import logcdf as logcdf
from ..._scipy.stats.norm import logpdf as logpdf
from ..._scipy.stats.norm import logsf as logsf
from ..._scipy.stats.norm import pdf as pdf
from ..._scipy.stats.norm import ppf as ppf
from ..._scipy.stats.norm import sf as sf
