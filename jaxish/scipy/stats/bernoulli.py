"""jax.scipy.stats.bernoulli: the Bernoulli distribution. This module only hands names on."""

from ..._scipy.stats.bernoulli import cdf as cdf
from ..._scipy.stats.bernoulli import logpmf as logpmf
from ..._scipy.stats.bernoulli import pmf as pmf
from ..._scipy.stats.bernoulli import ppf as ppf
