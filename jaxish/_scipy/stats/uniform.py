"""The uniform distribution from `loc` to `loc + scale`."""

import math

from ..._core.array import Array
from ..._core.typing import ArrayLike
from ..._numpy.elementary import exp, log
from ..._numpy.selection import select, where
from ..special.operands import promoted_arrays
from .support import of_probability


def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of the density at x."""
    x, loc, scale = promoted_arrays("uniform.logpdf", x, loc, scale)
    return where((x > loc + scale) | (x < loc), -math.inf, -log(scale))


def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the density at x."""
    return exp(logpdf(x, loc, scale))


def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the probability of at most x; like JAX, 0 for NaN."""
    x, loc, scale = promoted_arrays("uniform.cdf", x, loc, scale)
    below, above = x < loc, x > loc + scale
    zero, one = (x.dtype.type(n) for n in (0, 1))
    return select([below, above, (x >= loc) & ~above], [zero, one, (x - loc) / scale])


def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the quantile of probability q; NaN where q is none."""
    q, loc, scale = promoted_arrays("uniform.ppf", q, loc, scale)
    return of_probability(q, loc + scale * q)
