"""The normal distribution, truncated to `loc + scale * a` up to `loc + scale * b`."""

import math

from ..._core.array import Array, check_arraylike
from ..._core.dimensions import broadcast_shape
from ..._core.typing import ArrayLike
from ..._numpy.elementary import exp, expm1, log, log1p
from ..._numpy.manipulation import broadcast_arrays, shape
from ..._numpy.selection import select, where
from ..special.error import log_ndtr, ndtr
from ..special.operands import promoted_arrays
from . import norm

# Branches that are not taken are given numbers at which they have a derivative, so that it does not spoil the others.


def _log_difference(p: Array, q: Array) -> Array:
    """Return log(exp(p) - exp(q)); NaN for p < q."""
    usual = q < p
    found = where(usual, p, 0.0) + log(-expm1(where(usual, q - p, -1.0)))
    return where(usual, found, where(p == q, -math.inf, math.nan))


def _log_mass(a: Array, b: Array) -> Array:
    """Return the logarithm of the probability that a standard normal variable is between a and b.

    In the right tail it is that of the left one, where nothing is lost; around zero, one minus both tails.
    """
    is_right = a > 0
    in_tail = (b <= 0) | is_right
    low, high = where(is_right, -b, a), where(is_right, -a, b)
    around_zero = log1p(where(in_tail, 0.0, -ndtr(a) - ndtr(-b)))
    return where(in_tail, _log_difference(log_ndtr(high), log_ndtr(low)), around_zero)


def logpdf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of the density at x; NaN where a is not below b."""
    x, a, b, loc, scale = promoted_arrays("truncnorm.logpdf", x, a, b, loc, scale)
    y = (x - loc) / scale
    found = norm.logpdf(x, loc, scale) - _log_mass(a, b)
    return where(a >= b, math.nan, where((y < a) | (y > b), -math.inf, found))


def pdf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the density at x."""
    return exp(logpdf(x, a, b, loc, scale))


def logcdf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of the probability of at most x; NaN where a is not below b."""
    check_arraylike("truncnorm.logcdf", x, a, b, loc, scale)
    broadcast_shape(*map(shape, (x, a, b)))
    x, a, b, loc, scale = promoted_arrays("truncnorm.logcdf", x, a, b, loc, scale)
    y, a, b = broadcast_arrays((x - loc) / scale, a, b)
    whole = _log_mass(a, b)
    below, above = _log_mass(a, y) - whole, _log_mass(y, b) - whole
    near_one = below > -0.1  # there, one minus the probability of more than x
    complement = log1p(-exp(where(near_one & (y < b), above, -1.0)))
    found = select([y >= b, y <= a, near_one], [0.0, -math.inf, complement], below)
    return where(a >= b, math.nan, found)


def cdf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the probability of at most x."""
    return exp(logcdf(x, a, b, loc, scale))


def logsf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the logarithm of the probability of more than x; NaN where a is not below b."""
    check_arraylike("truncnorm.logsf", x, a, b, loc, scale)
    broadcast_shape(*map(shape, (x, a, b)))
    x, a, b, loc, scale = promoted_arrays("truncnorm.logsf", x, a, b, loc, scale)
    return logcdf(-x, -b, -a, -loc, scale)


def sf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Return the probability of more than x."""
    return exp(logsf(x, a, b, loc, scale))
