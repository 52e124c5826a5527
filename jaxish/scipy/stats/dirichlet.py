"""jax.scipy.stats.dirichlet: the Dirichlet distribution of points of a simplex. This module only hands names on."""

from ..._scipy.stats.dirichlet import logpdf as logpdf
from ..._scipy.stats.dirichlet import pdf as pdf
