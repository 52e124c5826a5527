"""jax.scipy.stats.truncnorm: the truncated normal distribution. This module only hands names on."""

from ..._scipy.stats.truncnorm import cdf as cdf
from ..._scipy.stats.truncnorm import logcdf as logcdf
from ..._scipy.stats.truncnorm import logpdf as logpdf
from ..._scipy.stats.truncnorm import logsf as logsf
from ..._scipy.stats.truncnorm import pdf as pdf
from ..._scipy.stats.truncnorm import sf as sf
