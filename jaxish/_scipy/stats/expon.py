"""The exponential distribution."""

import math

from ..._core.array import Array
from ..._core.typing import ArrayLike
from ..._numpy.elementary import exp, expm1, log, log1p
from ..._numpy.selection import where
from ..special.operands import promoted_arrays
from .support import of_probability


def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of the density at x."""
    x, loc, scale = promoted_arrays("expon.logpdf", x, loc, scale)
    return where(x < loc, -math.inf, (loc - x) / scale - log(scale))


def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the density at x."""
    return exp(logpdf(x, loc, scale))


def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the probability of at most x."""
    x, loc, scale = promoted_arrays("expon.cdf", x, loc, scale)
    return where(x < loc, 0.0, -expm1((loc - x) / scale))


def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of the probability of at most x."""
    return log1p(-sf(x, loc, scale))


def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the probability of more than x."""
    return exp(logsf(x, loc, scale))


def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of the probability of more than x."""
    x, loc, scale = promoted_arrays("expon.logsf", x, loc, scale)
    return where(x < loc, 0.0, (loc - x) / scale)


def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the quantile of probability q; NaN where q is none."""
    q, loc, scale = promoted_arrays("expon.ppf", q, loc, scale)
    return of_probability(q, loc - scale * log1p(-q))
