"""The geometric distribution: trials up to the first success, each of probability p."""

import math

from ..._core.array import Array
from ..._core.typing import ArrayLike
from ..._numpy.elementary import exp, log
from ..._numpy.selection import where
from ..special.entropy import xlog1py
from ..special.operands import promoted_arrays


def logpmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Return the logarithm of the probability of `k - loc`."""
    k, p, loc = promoted_arrays("geom.logpmf", k, p, loc)
    x = k - loc
    return where(x <= 0, -math.inf, xlog1py(x - 1, -p) + log(p))


def pmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Return the probability of `k - loc`."""
    return exp(logpmf(k, p, loc))
