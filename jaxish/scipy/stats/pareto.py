"""jax.scipy.stats.pareto: the Pareto distribution. This module only hands names on."""

from ..._scipy.stats.pareto import cdf as cdf
from ..._scipy.stats.pareto import logcdf as logcdf
from ..._scipy.stats.pareto import logpdf as logpdf
from ..._scipy.stats.pareto import logsf as logsf
from ..._scipy.stats.pareto import pdf as pdf
from ..._scipy.stats.pareto import ppf as ppf
from ..._scipy.stats.pareto import sf as sf
