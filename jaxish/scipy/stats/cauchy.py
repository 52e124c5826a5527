"""jax.scipy.stats.cauchy: the Cauchy distribution. This module only hands names on."""

from ..._scipy.stats.cauchy import cdf as cdf
from ..._scipy.stats.cauchy import isf as isf
from ..._scipy.stats.cauchy import logcdf as logcdf
from ..._scipy.stats.cauchy import logpdf as logpdf
from ..._scipy.stats.cauchy import logsf as logsf
from ..._scipy.stats.cauchy import pdf as pdf
from ..._scipy.stats.cauchy import ppf as ppf
from ..._scipy.stats.cauchy import sf as sf
