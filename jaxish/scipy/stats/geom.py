"""jax.scipy.stats.geom: the geometric distribution. This module only hands names on."""

from ..._scipy.stats.geom import logpmf as logpmf
from ..._scipy.stats.geom import pmf as pmf
