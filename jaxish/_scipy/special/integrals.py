"""Exponential, sine and cosine integrals, Spence's function, hypergeometric functions."""

import math

import torch

from ..._core.array import Array
from ..._core.typing import ArrayLike
from ..._lax import operands as ops
from ..._lax.operands import check_accepted
from ..._numpy.creation import asarray
from ..._tensors import cephes, chebyshev, hypergeometric
from ..._tensors.elementwise import Elementwise, NoSlope, widened
from .operands import promoted, promoted_real, single_or_double

_EXPN = Elementwise(
    "expn",
    hypergeometric.expn,
    (
        NoSlope("expn is not differentiable with respect to n."),
        lambda n, x: torch.where(n == 0, -torch.exp(-x) * (1 + 1 / x) / x, -_EXPN(torch.where(n == 0, 1.0, n) - 1, x)),
    ),
    is_opaque=True,
)


def expn(n: ArrayLike, x: ArrayLike) -> Array:
    """Return the integral of exp(-xt)/t^n over t from 1 on, for whole n >= 0 and x >= 0; NaN elsewhere.

    Not differentiable in n (`ValueError` in forward mode, NaN in reverse mode).
    """
    (order, t), _ = promoted_real("expn", asarray(n), asarray(x))
    return Array(_EXPN(order, t), False)


_E1 = Elementwise("exp1", widened(chebyshev.exp1), (lambda x: -torch.exp(-x) / x,), is_long=True)


def exp1(x: ArrayLike) -> Array:
    """Return the exponential integral E1, `expn` for n = 1."""
    (t,), _ = promoted_real("exp1", x)
    return Array(_E1(t), False)


_EI = Elementwise("expi", widened(cephes.exponential_integral), (lambda x: torch.exp(x) / x,), is_long=True)


def expi(x: ArrayLike) -> Array:
    """Return the exponential integral Ei, the principal value of the integral of exp(t)/t up to x; -inf at 0."""
    (t,), _ = promoted_real("expi", x)
    negative = t < 0
    below = -_E1(torch.where(negative, -t, 1.0))
    return Array(torch.where(negative, below, _EI(torch.where(negative, 1.0, t))), False)


_SINE = Elementwise("sine_integral", widened(cephes.sine_integral), (lambda x: torch.sinc(x / math.pi),), is_long=True)
_COSINE = Elementwise("cosine_integral", widened(cephes.cosine_integral), (lambda x: torch.cos(x) / x,), is_long=True)


def sici(x: ArrayLike) -> tuple[Array, Array]:
    """Return the sine integral and the cosine integral of a real x."""
    (t,), _ = promoted_real("sici", x)
    return Array(_SINE(t), False), Array(_COSINE(t), False)


_SPENCE = Elementwise(
    "spence", cephes.spence, (lambda x: torch.where(x == 1, -1.0, torch.log(x) / (1 - torch.where(x == 1, 0.0, x))),),
    is_long=True,
)  # fmt: skip


def spence(x: ArrayLike) -> Array:
    """Return the integral of log(t)/(1 - t) from 1 to x, for a float32 or float64 array; NaN for x < 0.

    Raises `TypeError` for other dtypes.
    """
    t, _ = single_or_double(asarray(x))
    return Array(_SPENCE(t), False)


_1F1 = Elementwise(
    "hyp1f1",
    hypergeometric.hyp1f1,
    (
        Elementwise("hyp1f1_slope_a", hypergeometric.hyp1f1_slope_a, None, is_opaque=True),
        Elementwise("hyp1f1_slope_b", hypergeometric.hyp1f1_slope_b, None, is_opaque=True),
        lambda a, b, x: a / b * _1F1(a + 1, b + 1, x),
    ),
    is_opaque=True,
)


def hyp1f1(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """Return the confluent hypergeometric function of real numbers; 1 for a = b = 0.

    It is summed in float64: its terms cancel. Its derivatives in a and b cannot be differentiated again.
    """
    tensors, _ = promoted_real("hyp1f1", *map(asarray, (a, b, x)))
    return Array(_1F1(*tensors), False)


_2F1_SLOPE = Elementwise("hyp2f1_slope_a", hypergeometric.hyp2f1_slope_a, None, is_opaque=True)
_2F1 = Elementwise(
    "hyp2f1",
    hypergeometric.hyp2f1,
    (
        _2F1_SLOPE,
        lambda a, b, c, x: _2F1_SLOPE(b, a, c, x),
        Elementwise("hyp2f1_slope_c", hypergeometric.hyp2f1_slope_c, None, is_opaque=True),
        lambda a, b, c, x: a * b / c * _2F1(a + 1, b + 1, c + 1, x),
    ),
    is_opaque=True,
)


def hyp2f1(a: ArrayLike, b: ArrayLike, c: ArrayLike, x: ArrayLike) -> Array:
    """Return Gauss's hypergeometric function of real numbers, infinite for x above 1 unless the series ends.

    It is summed in float64: its terms cancel. Its derivatives in a, b and c cannot be differentiated again.
    """
    tensors, _ = promoted("hyp2f1", a, b, c, x)
    check_accepted("hyp2f1", tensors[3], 3, ops.FLOATING)
    return Array(_2F1(*tensors), False)
