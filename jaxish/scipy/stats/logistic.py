"""jax.scipy.stats.logistic: the logistic distribution. This module only hands names on."""

from ..._scipy.stats.logistic import cdf as cdf
from ..._scipy.stats.logistic import isf as isf
from ..._scipy.stats.logistic import logpdf as logpdf
from ..._scipy.stats.logistic import pdf as pdf
from ..._scipy.stats.logistic import ppf as ppf
from ..._scipy.stats.logistic import sf as sf
