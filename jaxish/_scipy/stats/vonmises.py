"""The von Mises distribution of angles."""

import math

from ..._core.array import Array
from ..._core.typing import ArrayLike
from ..._numpy.elementary import cos, exp, log
from ..._numpy.selection import where
from ..special.harmonics import i0e
from ..special.operands import promoted_arrays


def logpdf(x: ArrayLike, kappa: ArrayLike) -> Array:
    """Return the logarithm of the density at x; NaN where kappa is not positive."""
    x, kappa = promoted_arrays("vonmises.logpdf", x, kappa)
    return where(kappa > 0, kappa * (cos(x) - 1) - log(2 * math.pi * i0e(kappa)), math.nan)


def pdf(x: ArrayLike, kappa: ArrayLike) -> Array:
    """Return the density at x."""
    return exp(logpdf(x, kappa))
