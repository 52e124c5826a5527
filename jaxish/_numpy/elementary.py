"""Exponentials, logarithms, powers of e, trigonometry and their like: functions of one floating number."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .._core import dtypes, selection
from .._core.array import Array, tensor_of
from .._core.graph import is_plain_evaluation
from .._core.promotion import promote_inexact
from .._core.typing import ArrayLike
from .._tensors import arithmetic
from .._transforms.repeated import compiled_when_repeated
from .._transforms.shown_calls import shown_as_jit
from . import ufunc_reductions
from .arguments import pair_inexact, without_strong_arrays
from .ufunc_object import binary_ufunc


def _one(function: str, x: Any) -> tuple[Tensor, bool]:
    if type(x) is Array and x._tensor.is_floating_point():
        return tensor_of(x), x._weak
    (a,), weak = promote_inexact(function, x)
    return a, weak


def _of_one(function: str, operator: Callable[[Tensor], Tensor], x: Any) -> Array:
    """Return what an operator of torch's makes of x, which is made inexact."""
    if type(x) is Array and x._tensor.is_floating_point():
        return Array(operator(tensor_of(x)), x._weak)
    (a,), weak = promote_inexact(function, x)
    return Array(arithmetic.of_complex(operator, a) if a.is_complex() else operator(a), weak)


def exp(x: ArrayLike, /) -> Array:
    """Return e to the power x."""
    return _of_one("exp", torch.exp, x)


def exp2(x: ArrayLike, /) -> Array:
    """Return 2 to the power x."""
    a, weak = _one("exp2", x)
    return Array(torch.exp2(a), weak)


def expm1(x: ArrayLike, /) -> Array:
    """Return e**x - 1, accurate near zero."""
    return _of_one("expm1", torch.expm1, x)


def log(x: ArrayLike, /) -> Array:
    """Return the natural logarithm of x."""
    return _of_one("log", torch.log, x)


def log2(x: ArrayLike, /) -> Array:
    """Return the logarithm of x to base 2."""
    return Array(torch.log2(_one("log2", x)[0]))


def log10(x: ArrayLike, /) -> Array:
    """Return the logarithm of x to base 10."""
    return Array(torch.log10(_one("log10", x)[0]))


def log1p(x: ArrayLike, /) -> Array:
    """Return log(1 + x), accurate near zero."""
    return _of_one("log1p", torch.log1p, x)


def sqrt(x: ArrayLike, /) -> Array:
    """Return the square root of x."""
    return _of_one("sqrt", torch.sqrt, x)


def cbrt(x: ArrayLike, /) -> Array:
    """Return the real cube root of x. Raises `TypeError` for complex numbers."""
    a, weak = _one("cbrt", x)
    if a.is_complex():
        raise TypeError(f"cbrt does not accept dtype {dtypes.TO_NUMPY[a.dtype]}.")
    return Array(arithmetic.cbrt(a), weak)


def sin(x: ArrayLike, /) -> Array:
    """Return the sine of x (radians)."""
    return _of_one("sin", torch.sin, x)


def cos(x: ArrayLike, /) -> Array:
    """Return the cosine of x (radians)."""
    return _of_one("cos", torch.cos, x)


def tan(x: ArrayLike, /) -> Array:
    """Return the tangent of x (radians)."""
    return _of_one("tan", torch.tan, x)


def arcsin(x: ArrayLike, /) -> Array:
    """Return the angle in [-pi/2, pi/2] whose sine is x."""
    a, weak = _one("arcsin", x)
    return Array(torch.asin(a), weak)


def arccos(x: ArrayLike, /) -> Array:
    """Return the angle in [0, pi] whose cosine is x."""
    a, weak = _one("arccos", x)
    return Array(torch.acos(a), weak)


def arctan(x: ArrayLike, /) -> Array:
    """Return the angle in (-pi/2, pi/2) whose tangent is x."""
    a, weak = _one("arctan", x)
    return Array(torch.atan(a), weak)


def arctan2(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return the angle of the point (x2, x1), in [-pi, pi]."""
    a, b, weak = pair_inexact("arctan2", x1, x2)
    return Array(arithmetic.atan2(a, b), weak)


def sinh(x: ArrayLike, /) -> Array:
    """Return the hyperbolic sine of x."""
    return _of_one("sinh", torch.sinh, x)


def cosh(x: ArrayLike, /) -> Array:
    """Return the hyperbolic cosine of x."""
    return _of_one("cosh", torch.cosh, x)


def tanh(x: ArrayLike, /) -> Array:
    """Return the hyperbolic tangent of x."""
    return _of_one("tanh", torch.tanh, x)


def arcsinh(x: ArrayLike, /) -> Array:
    """Return the inverse hyperbolic sine of x."""
    a, weak = _one("arcsinh", x)
    return Array(torch.asinh(a), weak)


@shown_as_jit()
def arccosh(x: ArrayLike, /) -> Array:
    """Return the inverse hyperbolic cosine of x, the branch with nonnegative real part."""
    a, weak = _one("arccosh", x)
    return Array(arithmetic.acosh(a), weak)


def arctanh(x: ArrayLike, /) -> Array:
    """Return the inverse hyperbolic tangent of x."""
    a, weak = _one("arctanh", x)
    return Array(torch.atanh(a), weak)


def acos(x: ArrayLike, /) -> Array:
    """Return the angle in [0, pi] whose cosine is x."""
    return arccos(x)


def acosh(x: ArrayLike, /) -> Array:
    """Return the inverse hyperbolic cosine of x."""
    return arccosh(x)


def asin(x: ArrayLike, /) -> Array:
    """Return the angle in [-pi/2, pi/2] whose sine is x."""
    return arcsin(x)


def asinh(x: ArrayLike, /) -> Array:
    """Return the inverse hyperbolic sine of x."""
    return arcsinh(x)


def atan(x: ArrayLike, /) -> Array:
    """Return the angle in (-pi/2, pi/2) whose tangent is x."""
    return arctan(x)


def atanh(x: ArrayLike, /) -> Array:
    """Return the inverse hyperbolic tangent of x."""
    return arctanh(x)


def atan2(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return the angle of the point (x2, x1), in [-pi, pi]."""
    return arctan2(x1, x2)


def deg2rad(x: ArrayLike, /) -> Array:
    """Return degrees as radians."""
    a, weak = _one("deg2rad", x)
    return Array(a * (math.pi / 180), weak)


def rad2deg(x: ArrayLike, /) -> Array:
    """Return radians as degrees."""
    a, weak = _one("rad2deg", x)
    return Array(a * (180 / math.pi), weak)


def degrees(x: ArrayLike, /) -> Array:
    """Return radians as degrees."""
    return rad2deg(x)


def radians(x: ArrayLike, /) -> Array:
    """Return degrees as radians."""
    return deg2rad(x)


@shown_as_jit()
def sinc(x: ArrayLike, /) -> Array:
    """Return sin(pi x) / (pi x), 1 at zero."""
    a, weak = _one("sinc", x)
    return Array(torch.sinc(a) if is_plain_evaluation() else _sinc(a), weak)


def _sinc(a: Tensor) -> Tensor:
    # torch's sinc has no second derivative at zero: near it, the series of sin(p) / p has them all.
    p = math.pi * a
    small = torch.abs(p) < 0.25
    square = selection.where(small, p * p, 0)
    series = torch.ones_like(p)
    for order in (110, 72, 42, 20, 6):
        series = 1 - square / order * series
    away = selection.where(small, 1, p)
    return selection.where(small, series, torch.sin(away) / away)


@shown_as_jit()
@compiled_when_repeated
def i0(x: ArrayLike) -> Array:
    """Return the modified Bessel function of the first kind, order 0. Raises `ValueError` for complex numbers."""
    a, weak = _one("i0", x)
    if a.is_complex():
        raise ValueError(f"Unsupported input type to jax.numpy.i0: {dtypes.TO_NUMPY[a.dtype]}")
    return Array(torch.special.i0(a), weak)


@shown_as_jit()
def hypot(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return sqrt(x1**2 + x2**2) without overflow. Raises `ValueError` for complex numbers."""
    a, b, weak = pair_inexact("hypot", x1, x2)
    if a.is_complex():
        raise ValueError(
            "jnp.hypot is not well defined for complex-valued inputs. Convert to real values first: jnp.abs(x)."
        )
    weak = weak and without_strong_arrays(x1, x2)
    if is_plain_evaluation():
        return Array(torch.hypot(a, b), weak)
    zero = (a == 0) & (b == 0)  # where torch's derivative is 0 / 0
    kink = (arithmetic.absolute(a) + arithmetic.absolute(b)) / 2
    return Array(torch.where(zero, kink, torch.hypot(torch.where(zero, 1, a), b)), weak)


@binary_ufunc(identity=-math.inf, reduce=ufunc_reductions.reduce_logaddexp)
def logaddexp(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return log(exp(x1) + exp(x2)) without overflow."""
    a, b, weak = pair_inexact("logaddexp", x1, x2)
    return Array(_log_add(a, b), weak)


@binary_ufunc(identity=-math.inf, reduce=ufunc_reductions.reduce_logaddexp2)
def logaddexp2(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return log2(2**x1 + 2**x2) without overflow."""
    a, b, weak = pair_inexact("logaddexp2", x1, x2)
    weak = weak and without_strong_arrays(x1, x2)
    if a.is_complex():
        return Array(_log_add(a * math.log(2), b * math.log(2)) / math.log(2), weak)
    return Array(arithmetic.log_add_exp2(a, b), weak)


def _log_add(a: Tensor, b: Tensor) -> Tensor:
    if not a.is_complex():
        return arithmetic.log_add_exp(a, b)
    swap = a.real < b.real
    large, small = selection.where(swap, b, a), selection.where(swap, a, b)
    result = large + torch.log1p(torch.exp(small - large))
    angle = torch.remainder(result.imag + math.pi, 2 * math.pi) - math.pi
    return torch.complex(result.real, angle)
