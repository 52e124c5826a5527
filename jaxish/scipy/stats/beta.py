"""jax.scipy.stats.beta: the beta distribution. This module only hands names on."""

from ..._scipy.stats.beta import cdf as cdf
from ..._scipy.stats.beta import logcdf as logcdf
from ..._scipy.stats.beta import logpdf as logpdf
from ..._scipy.stats.beta import logsf as logsf
from ..._scipy.stats.beta import pdf as pdf
from ..._scipy.stats.beta import sf as sf
