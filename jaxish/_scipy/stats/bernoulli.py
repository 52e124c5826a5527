"""The Bernoulli distribution: 1 with probability p, else 0."""

import math

from ..._core.array import Array
from ..._core.typing import ArrayLike
from ..._numpy.elementary import exp
from ..._numpy.rounding import isnan
from ..._numpy.selection import where
from ..special.entropy import xlog1py, xlogy
from ..special.operands import promoted_arrays


def logpmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Return the logarithm of the probability of `k - loc`."""
    k, p, loc = promoted_arrays("bernoulli.logpmf", k, p, loc)
    x = k - loc
    return where((x < 0) | (x > 1), -math.inf, xlogy(x, p) + xlog1py(1 - x, -p))


def pmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Return the probability of `k - loc`."""
    return exp(logpmf(k, p, loc))


def cdf(k: ArrayLike, p: ArrayLike) -> Array:
    """Return the probability of at most `k`; NaN where p is no probability."""
    k, p = promoted_arrays("bernoulli.cdf", k, p)
    found = where(k < 0, 0.0, where(k < 1, 1 - p, 1.0))
    return where(isnan(k) | _is_no_probability(p), math.nan, found)


def ppf(q: ArrayLike, p: ArrayLike) -> Array:
    """Return the quantile of probability q; NaN where p or q is no probability."""
    q, p = promoted_arrays("bernoulli.ppf", q, p)
    found = where(q <= 1 - p, 0 * q, 1.0)
    return where(_is_no_probability(q) | _is_no_probability(p), math.nan, found)


def _is_no_probability(p: Array) -> Array:
    return isnan(p) | (p < 0) | (p > 1)
