"""The Pareto distribution."""

import math

from ..._core.array import Array
from ..._core.typing import ArrayLike
from ..._numpy.elementary import exp, log, log1p
from ..._numpy.selection import where
from ..special.operands import promoted_arrays
from .support import of_probability


def logpdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of the density at x."""
    x, b, loc, scale = promoted_arrays("pareto.logpdf", x, b, loc, scale)
    y = (x - loc) / scale
    return where(x < loc + scale, -math.inf, -(log(scale / b) + (b + 1) * log(y)))


def pdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the density at x."""
    return exp(logpdf(x, b, loc, scale))


def cdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the probability of at most x."""
    x, b, loc, scale = promoted_arrays("pareto.cdf", x, b, loc, scale)
    return where(x < loc + scale, 0.0, 1 - ((x - loc) / scale) ** -b)


def logcdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of the probability of at most x."""
    x, b, loc, scale = promoted_arrays("pareto.logcdf", x, b, loc, scale)
    return where(x < loc + scale, -math.inf, log1p(-(((x - loc) / scale) ** -b)))


def sf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the probability of more than x."""
    return exp(logsf(x, b, loc, scale))


def logsf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of the probability of more than x."""
    x, b, loc, scale = promoted_arrays("pareto.logsf", x, b, loc, scale)
    return where(x < loc + scale, 0.0, -b * log((x - loc) / scale))


def ppf(q: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the quantile of probability q; NaN where q is none."""
    q, b, loc, scale = promoted_arrays("pareto.ppf", q, b, loc, scale)
    return of_probability(q, loc + scale * (1 - q) ** (-1 / b))
