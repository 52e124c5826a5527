"""jax.scipy.stats.gumbel_l: the Gumbel distribution of minima. This module only hands names on."""

from ..._scipy.stats.gumbel_l import cdf as cdf
from ..._scipy.stats.gumbel_l import logcdf as logcdf
from ..._scipy.stats.gumbel_l import logpdf as logpdf
from ..._scipy.stats.gumbel_l import logsf as logsf
from ..._scipy.stats.gumbel_l import pdf as pdf
from ..._scipy.stats.gumbel_l import ppf as ppf
from ..._scipy.stats.gumbel_l import sf as sf
