"""The generalized normal distribution: of density proportional to exp(-|x|^beta)."""

from ..._core.array import Array
from ..._core.typing import ArrayLike
from ..._numpy.elementary import exp, log
from ..._numpy.ufuncs import absolute, sign
from ..special.gamma import gammainc, gammaln
from ..special.operands import promoted_arrays


def logpdf(x: ArrayLike, beta: ArrayLike) -> Array:
    """Return the logarithm of the density at x."""
    x, beta = promoted_arrays("gennorm.logpdf", x, beta)
    return log(0.5 * beta) - gammaln(1 / beta) - absolute(x) ** beta


def pdf(x: ArrayLike, beta: ArrayLike) -> Array:
    """Return the density at x."""
    return exp(logpdf(x, beta))


def cdf(x: ArrayLike, beta: ArrayLike) -> Array:
    """Return the probability of at most x."""
    x, beta = promoted_arrays("gennorm.cdf", x, beta)
    return 0.5 * (1 + sign(x) * gammainc(1 / beta, absolute(x) ** beta))
