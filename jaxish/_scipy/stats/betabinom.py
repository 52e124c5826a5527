"""The beta-binomial distribution: successes of n trials whose probability is beta-distributed."""

import math

from ..._core.array import Array
from ..._core.typing import ArrayLike
from ..._lax.autodiff_barriers import stop_gradient
from ..._numpy.elementary import exp, log1p
from ..._numpy.rounding import floor
from ..._numpy.selection import where
from ..special.gamma import betaln
from ..special.operands import promoted_arrays


def logpmf(k: ArrayLike, n: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Return the logarithm of the probability of `floor(k) - loc`; NaN where n is negative, or a or b not positive."""
    k, n, a, b, loc = promoted_arrays("betabinom.logpmf", k, n, a, b, loc)
    y = floor(stop_gradient(k)) - loc
    ways = -log1p(n) - betaln(n - y + 1, y + 1)
    found = ways + betaln(y + a, n - y + b) - betaln(a, b)
    found = where((y == 0) & (n == 0), 0.0, found)
    found = where((y < -loc) | (y > n) | (y + a <= 0), -math.inf, found)
    return where((n < 0) | (a <= 0) | (b <= 0), math.nan, found)


def pmf(k: ArrayLike, n: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Return the probability of `floor(k) - loc`."""
    return exp(logpmf(k, n, a, b, loc))
