"""The wrapped Cauchy distribution of angles."""

import math

from ..._core.array import Array
from ..._core.typing import ArrayLike
from ..._numpy.elementary import cos, exp, log
from ..._numpy.selection import where
from ..special.operands import promoted_arrays


def logpdf(x: ArrayLike, c: ArrayLike) -> Array:
    """Return the logarithm of the density at x, from 0 to 2π; NaN where c is not inside (0, 1)."""
    x, c = promoted_arrays("wrapcauchy.logpdf", x, c)
    found = log(1 - c * c) - math.log(2 * math.pi) - log(1 + c * c - 2 * c * cos(x))
    return where((c > 0) & (c < 1), where((x >= 0) & (x <= 2 * math.pi), found, -math.inf), math.nan)


def pdf(x: ArrayLike, c: ArrayLike) -> Array:
    """Return the density at x."""
    return exp(logpdf(x, c))
