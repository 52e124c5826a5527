"""jax.scipy.stats.gumbel_r: the Gumbel distribution of maxima. This module only hands names on."""

from ..._scipy.stats.gumbel_r import cdf as cdf
from ..._scipy.stats.gumbel_r import logcdf as logcdf
from ..._scipy.stats.gumbel_r import logpdf as logpdf
from ..._scipy.stats.gumbel_r import logsf as logsf
from ..._scipy.stats.gumbel_r import pdf as pdf
from ..._scipy.stats.gumbel_r import ppf as ppf
from ..._scipy.stats.gumbel_r import sf as sf
