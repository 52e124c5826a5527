"""jax.scipy.stats.expon: the exponential distribution. This module only hands names on."""

from ..._scipy.stats.expon import cdf as cdf
from ..._scipy.stats.expon import logcdf as logcdf
from ..._scipy.stats.expon import logpdf as logpdf
from ..._scipy.stats.expon import logsf as logsf
from ..._scipy.stats.expon import pdf as pdf
from ..._scipy.stats.expon import ppf as ppf
from ..._scipy.stats.expon import sf as sf
