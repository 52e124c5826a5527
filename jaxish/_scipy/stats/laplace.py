"""The Laplace distribution."""

from ..._core.array import Array
from ..._core.typing import ArrayLike
from ..._numpy.elementary import exp, log
from ..._numpy.selection import where
from ..._numpy.ufuncs import absolute
from ..special.operands import promoted_arrays


def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of the density at x."""
    x, loc, scale = promoted_arrays("laplace.logpdf", x, loc, scale)
    return -(absolute(x - loc) / scale + log(2 * scale))


def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the density at x."""
    return exp(logpdf(x, loc, scale))


def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the probability of at most x."""
    x, loc, scale = promoted_arrays("laplace.cdf", x, loc, scale)
    y = (x - loc) / scale
    return where(y <= 0, 0.5 * exp(y), 1 - 0.5 * exp(-y))
