"""The normal distribution."""

import math

from ..._core.array import Array, as_array
from ..._core.typing import ArrayLike
from ..._numpy.creation import asarray
from ..._numpy.elementary import exp, log
from ..._numpy.ufuncs import square
from ..special.error import log_ndtr, ndtr, ndtri
from ..special.operands import promoted_arrays


def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of the density at x."""
    x, loc, scale = promoted_arrays("norm.logpdf", x, loc, scale)
    variance = square(scale)
    return -0.5 * (log(2 * math.pi * variance) + square(x - loc) / variance)


def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the density at x."""
    return exp(logpdf(x, loc, scale))


def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the probability of at most x."""
    x, loc, scale = promoted_arrays("norm.cdf", x, loc, scale)
    return ndtr((x - loc) / scale)


def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of the probability of at most x."""
    x, loc, scale = promoted_arrays("norm.logcdf", x, loc, scale)
    return log_ndtr((x - loc) / scale)


def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the probability of more than x."""
    x, loc, scale = promoted_arrays("norm.sf", x, loc, scale)
    return ndtr((loc - x) / scale)


def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of the probability of more than x."""
    x, loc, scale = promoted_arrays("norm.logsf", x, loc, scale)
    return log_ndtr((loc - x) / scale)


def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the quantile of probability q, in the default floating dtype."""
    return asarray(ndtri(q) * scale + loc, float)


def isf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return what is exceeded with probability q, in the default floating dtype."""
    return ppf(1 - as_array(q), loc, scale)
