"""jax.scipy.stats.gamma: the gamma distribution. This module only hands names on."""

from ..._scipy.stats.gamma import cdf as cdf
from ..._scipy.stats.gamma import logcdf as logcdf
from ..._scipy.stats.gamma import logpdf as logpdf
from ..._scipy.stats.gamma import logsf as logsf
from ..._scipy.stats.gamma import pdf as pdf
from ..._scipy.stats.gamma import sf as sf
