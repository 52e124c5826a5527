"""jax.scipy.optimize: minimization. This module only hands names on."""

from .._scipy.optimize.minimize import OptimizeResults as OptimizeResults
from .._scipy.optimize.minimize import minimize as minimize
