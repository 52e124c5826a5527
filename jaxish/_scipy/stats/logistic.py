"""The logistic distribution."""

from ..._core.array import Array
from ..._core.typing import ArrayLike
from ..._numpy.elementary import exp, log, logaddexp
from ..special.entropy import expit, logit
from ..special.operands import promoted_arrays


def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of the density at x."""
    x, loc, scale = promoted_arrays("logistic.logpdf", x, loc, scale)
    half = (x - loc) / scale / 2
    return -2 * logaddexp(half, -half) - log(scale)


def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the density at x."""
    return exp(logpdf(x, loc, scale))


def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the probability of at most x."""
    x, loc, scale = promoted_arrays("logistic.cdf", x, loc, scale)
    return expit((x - loc) / scale)


def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the probability of more than x."""
    x, loc, scale = promoted_arrays("logistic.sf", x, loc, scale)
    return expit((loc - x) / scale)


def ppf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the quantile of probability x."""
    x, loc, scale = promoted_arrays("logistic.ppf", x, loc, scale)
    return logit(x) * scale + loc


def isf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return what is exceeded with probability x."""
    x, loc, scale = promoted_arrays("logistic.isf", x, loc, scale)
    return loc - logit(x) * scale
