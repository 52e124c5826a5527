"""The Gumbel distribution of minima."""

import math

from ..._core.array import Array
from ..._core.typing import ArrayLike
from ..._numpy.elementary import exp, expm1, log, log1p
from ..._numpy.selection import where
from ..special.operands import promoted_arrays


def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of the density at x; NaN where the scale is not positive."""
    x, loc, scale = promoted_arrays("gumbel_l.logpdf", x, loc, scale)
    y = (x - loc) / scale
    return where(scale > 0, y - exp(y) - log(scale), math.nan)


def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the density at x."""
    return exp(logpdf(x, loc, scale))


def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of the probability of at most x."""
    x, loc, scale = promoted_arrays("gumbel_l.logcdf", x, loc, scale)
    return where(scale > 0, log(-expm1(-exp((x - loc) / scale))), math.nan)


def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the probability of at most x."""
    return exp(logcdf(x, loc, scale))


def ppf(p: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the quantile of probability p; NaN where p is not inside (0, 1)."""
    p, loc, scale = promoted_arrays("gumbel_l.ppf", p, loc, scale)
    return where((p > 0) & (p < 1), loc + scale * log(-log1p(-p)), math.nan)


def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the probability of more than x."""
    return exp(logsf(x, loc, scale))


def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of the probability of more than x."""
    x, loc, scale = promoted_arrays("gumbel_l.logsf", x, loc, scale)
    return where(scale > 0, -exp((x - loc) / scale), math.nan)
