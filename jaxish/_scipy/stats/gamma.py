"""The gamma distribution."""

import math

from ..._core.array import Array
from ..._core.typing import ArrayLike
from ..._numpy.elementary import exp, log
from ..._numpy.selection import where
from ..special.entropy import xlogy
from ..special.gamma import gammainc, gammaincc, gammaln
from ..special.operands import promoted_arrays
from .support import limited


def logpdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of the density at x."""
    x, a, loc, scale = promoted_arrays("gamma.logpdf", x, a, loc, scale)
    inside = x >= loc
    y = where(inside, (x - loc) / scale, 1.0)
    return where(inside, xlogy(a - 1, y) - y - (gammaln(a) + log(scale)), -math.inf)


def pdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the density at x."""
    return exp(logpdf(x, a, loc, scale))


def cdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the probability of at most x."""
    x, a, loc, scale = promoted_arrays("gamma.cdf", x, a, loc, scale)
    return gammainc(a, limited((x - loc) / scale, 0, math.inf))


def logcdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of the probability of at most x."""
    return log(cdf(x, a, loc, scale))


def sf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the probability of more than x."""
    x, a, loc, scale = promoted_arrays("gamma.sf", x, a, loc, scale)
    y = (x - loc) / scale
    return where(y < 0, 1.0, gammaincc(a, y))


def logsf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of the probability of more than x."""
    return log(sf(x, a, loc, scale))
