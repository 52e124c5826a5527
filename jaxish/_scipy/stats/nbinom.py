"""The negative binomial distribution: failures before n successes, each of probability p."""

import math

from ..._core.array import Array
from ..._core.typing import ArrayLike
from ..._numpy.elementary import exp
from ..._numpy.selection import where
from ..special.entropy import xlogy
from ..special.gamma import gammaln
from ..special.operands import promoted_arrays


def logpmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Return the logarithm of the probability of `k - loc`."""
    k, n, p, loc = promoted_arrays("nbinom.logpmf", k, n, p, loc)
    y = k - loc
    ways = gammaln(y + n) - gammaln(n) - gammaln(y + 1)
    return where(k < loc, -math.inf, ways + xlogy(n, p) + xlogy(y, 1 - p))


def pmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Return the probability of `k - loc`."""
    return exp(logpmf(k, n, p, loc))
