"""Student's t distribution."""

import math

from ..._core.array import Array
from ..._core.typing import ArrayLike
from ..._numpy.elementary import exp, log, log1p
from ..special.gamma import gammaln
from ..special.operands import promoted_arrays


def logpdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of the density at x."""
    x, df, loc, scale = promoted_arrays("t.logpdf", x, df, loc, scale)
    y, half = (x - loc) / scale, df / 2
    norm = gammaln(half) + log(math.pi * scale * scale * df) / 2 - gammaln(half + 0.5)
    return -(norm + (half + 0.5) * log1p(y * y / df))


def pdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the density at x."""
    return exp(logpdf(x, df, loc, scale))
