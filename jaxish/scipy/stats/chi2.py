"""jax.scipy.stats.chi2: the chi-squared distribution. This module only hands names on."""

from ..._scipy.stats.chi2 import cdf as cdf
from ..._scipy.stats.chi2 import logcdf as logcdf
from ..._scipy.stats.chi2 import logpdf as logpdf
from ..._scipy.stats.chi2 import logsf as logsf
from ..._scipy.stats.chi2 import pdf as pdf
from ..._scipy.stats.chi2 import sf as sf
