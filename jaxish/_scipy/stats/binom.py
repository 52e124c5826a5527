"""The binomial distribution: successes of n trials, each of probability p."""

import math

from ..._core.array import Array
from ..._core.typing import ArrayLike
from ..._numpy.elementary import exp
from ..._numpy.selection import where
from ..special.entropy import xlog1py, xlogy
from ..special.gamma import gammaln
from ..special.operands import promoted_arrays


def logpmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Return the logarithm of the probability of `k - loc`."""
    k, n, p, loc = promoted_arrays("binom.logpmf", k, n, p, loc)
    y = k - loc
    powers = xlogy(y, p) + xlog1py(n - y, -p)
    ways = gammaln(n + 1) - gammaln(y + 1) - gammaln(n - y + 1)
    found = where(((y == 0) & (n == 0)) | (powers == 0), 0.0, ways + powers)
    return where((k >= loc) & (k < loc + n + 1), found, -math.inf)


def pmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Return the probability of `k - loc`."""
    return exp(logpmf(k, n, p, loc))
