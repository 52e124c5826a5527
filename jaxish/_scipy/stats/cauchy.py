"""The Cauchy distribution."""

import math

from ..._core.array import Array
from ..._core.typing import ArrayLike
from ..._numpy.elementary import arctan, exp, log, log1p, tan
from ..special.operands import promoted_arrays


def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of the density at x."""
    x, loc, scale = promoted_arrays("cauchy.logpdf", x, loc, scale)
    y = (x - loc) / scale
    return -(log(math.pi * scale) + log1p(y * y))


def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the density at x."""
    return exp(logpdf(x, loc, scale))


def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the probability of at most x."""
    x, loc, scale = promoted_arrays("cauchy.cdf", x, loc, scale)
    return 0.5 + arctan((x - loc) / scale) / math.pi


def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of the probability of at most x."""
    return log(cdf(x, loc, scale))


def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the probability of more than x."""
    x, loc, scale = promoted_arrays("cauchy.sf", x, loc, scale)
    return cdf(-x, -loc, scale)


def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of the probability of more than x."""
    return log(sf(x, loc, scale))


def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the quantile of probability q."""
    q, loc, scale = promoted_arrays("cauchy.ppf", q, loc, scale)
    return tan(math.pi * q - math.pi / 2) * scale + loc


def isf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return what is exceeded with probability q."""
    q, loc, scale = promoted_arrays("cauchy.isf", q, loc, scale)
    return tan(math.pi / 2 - math.pi * q) * scale + loc
