"""Where distributions are defined."""

import math

from ..._core.array import Array
from ..._numpy.rounding import isnan
from ..._numpy.selection import where


def limited(x: Array, low: float, high: float) -> Array:
    """Return x limited to a range, at whose ends and beyond its derivative is zero."""
    return where(x <= low, low, where(x >= high, high, x))


def of_probability(q: Array, value: Array) -> Array:
    """Return `value` where q is a probability, else NaN."""
    return where(isnan(q) | (q < 0) | (q > 1), math.nan, value)
