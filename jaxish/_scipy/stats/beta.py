"""The beta distribution."""

import math

from ..._core.array import Array
from ..._core.typing import ArrayLike
from ..._numpy.elementary import exp, log
from ..._numpy.selection import where
from ..special.entropy import xlog1py, xlogy
from ..special.gamma import betainc, betaln
from ..special.operands import promoted_arrays
from .support import limited


def logpdf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of the density at x; NaN where a, b or the scale is not positive."""
    x, a, b, loc, scale = promoted_arrays("beta.logpdf", x, a, b, loc, scale)
    y = (x - loc) / scale
    found = xlogy(a - 1, y) + xlog1py(b - 1, -y) - betaln(a, b) - log(scale)
    found = where((x > loc + scale) | (x < loc), -math.inf, found)
    return where((a <= 0) | (b <= 0) | (scale <= 0), math.nan, found)


def pdf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the density at x."""
    return exp(logpdf(x, a, b, loc, scale))


def cdf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the probability of at most x."""
    x, a, b, loc, scale = promoted_arrays("beta.cdf", x, a, b, loc, scale)
    return betainc(a, b, limited((x - loc) / scale, 0, 1))


def logcdf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of the probability of at most x."""
    return log(cdf(x, a, b, loc, scale))


def sf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the probability of more than x."""
    x, a, b, loc, scale = promoted_arrays("beta.sf", x, a, b, loc, scale)
    return betainc(b, a, 1 - limited((x - loc) / scale, 0, 1))


def logsf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of the probability of more than x."""
    return log(sf(x, a, b, loc, scale))
