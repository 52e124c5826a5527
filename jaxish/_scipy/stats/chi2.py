"""The chi-squared distribution: a sum of squares of `df` normal variables."""

import math

from ..._core.array import Array
from ..._core.typing import ArrayLike
from ..._numpy.elementary import exp, log
from ..._numpy.selection import where
from ..special.gamma import gammainc, gammaincc, gammaln
from ..special.operands import promoted_arrays
from .support import limited


def logpdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of the density at x."""
    x, df, loc, scale = promoted_arrays("chi2.logpdf", x, df, loc, scale)
    y, half = (x - loc) / scale, df / 2
    found = (half - 1) * log(y) - y / 2 - (gammaln(half) + half * math.log(2)) - log(scale)
    return where(x < loc, -math.inf, found)


def pdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the density at x."""
    return exp(logpdf(x, df, loc, scale))


def cdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the probability of at most x."""
    x, df, loc, scale = promoted_arrays("chi2.cdf", x, df, loc, scale)
    return gammainc(df / 2, limited((x - loc) / (2 * scale), 0, math.inf))


def logcdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of the probability of at most x."""
    return log(cdf(x, df, loc, scale))


def sf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the probability of more than x."""
    x, df, loc, scale = promoted_arrays("chi2.sf", x, df, loc, scale)
    return gammaincc(df / 2, limited((x - loc) / (2 * scale), 0, math.inf))


def logsf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of the probability of more than x."""
    return log(sf(x, df, loc, scale))
