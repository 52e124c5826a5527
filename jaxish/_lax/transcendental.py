"""Exponentials, logarithms, roots, trigonometric and hyperbolic functions of lax: inexact operands only.

`accuracy` takes what JAX takes. torch has one kernel per function, good to a few units in the last place, which meets
every mode and tolerance, so that there is nothing to choose.
"""

import enum
from dataclasses import dataclass
from typing import Any

import torch

from .._core.array import Array
from .._core.typing import ArrayLike
from .._tensors import arithmetic
from . import operands as ops
from .operands import operand, operands


class AccuracyMode(enum.Enum):
    """How accurate an elementwise function has to be."""

    HIGHEST = 1
    DEFAULT = 2


@dataclass(frozen=True)
class Tolerance:
    """The error that an elementwise function may have: absolute, relative, in units in the last place."""

    atol: float = 0.0
    rtol: float = 0.0
    ulps: int = 0

    def __post_init__(self) -> None:
        if self.rtol < 0.0 or self.atol < 0.0 or self.ulps < 0:
            raise ValueError(f"Tolerances must be non-negative, got {self}.")
        if self.rtol == 0.0 and self.atol == 0.0 and self.ulps == 0:
            raise ValueError("At least one of atol, rtol, or ulps must be set.")


Accuracy = Tolerance | AccuracyMode | None


def _check(accuracy: Any) -> None:
    if accuracy is not None and not isinstance(accuracy, Tolerance | AccuracyMode):
        raise NotImplementedError(f"Accuracy {accuracy} not supported. Use an AccuracyMode, a Tolerance, or None.")


def exp(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """Return the exponential of x."""
    if accuracy is not None:
        _check(accuracy)
    t, weak = operand("exp", x, ops.INEXACT)
    return Array(torch.exp(t), weak)


def exp2(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """Return two to the power x."""
    if accuracy is not None:
        _check(accuracy)
    t, weak = operand("exp2", x, ops.INEXACT)
    return Array(torch.exp2(t), weak)


def log(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """Return the natural logarithm of x."""
    if accuracy is not None:
        _check(accuracy)
    t, weak = operand("log", x, ops.INEXACT)
    return Array(torch.log(t), weak)


def expm1(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """Return exp(x) - 1, accurate near zero."""
    if accuracy is not None:
        _check(accuracy)
    t, weak = operand("expm1", x, ops.INEXACT)
    return Array(torch.expm1(t), weak)


def log1p(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """Return log(1 + x), accurate near zero."""
    if accuracy is not None:
        _check(accuracy)
    t, weak = operand("log1p", x, ops.INEXACT)
    return Array(torch.log1p(t), weak)


def tanh(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """Return the hyperbolic tangent of x."""
    if accuracy is not None:
        _check(accuracy)
    t, weak = operand("tanh", x, ops.INEXACT)
    return Array(torch.tanh(t), weak)


def logistic(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """Return the logistic function 1 / (1 + exp(-x))."""
    if accuracy is not None:
        _check(accuracy)
    t, weak = operand("logistic", x, ops.INEXACT)
    return Array(torch.sigmoid(t), weak)


def sin(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """Return the sine of x."""
    if accuracy is not None:
        _check(accuracy)
    t, weak = operand("sin", x, ops.INEXACT)
    return Array(torch.sin(t), weak)


def cos(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """Return the cosine of x."""
    if accuracy is not None:
        _check(accuracy)
    t, weak = operand("cos", x, ops.INEXACT)
    return Array(torch.cos(t), weak)


def tan(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """Return the tangent of x."""
    if accuracy is not None:
        _check(accuracy)
    t, weak = operand("tan", x, ops.INEXACT)
    return Array(torch.tan(t), weak)


def sqrt(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """Return the square root of x."""
    if accuracy is not None:
        _check(accuracy)
    t, weak = operand("sqrt", x, ops.INEXACT)
    return Array(torch.sqrt(t), weak)


def rsqrt(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """Return 1 / sqrt(x)."""
    if accuracy is not None:
        _check(accuracy)
    t, weak = operand("rsqrt", x, ops.INEXACT)
    return Array(torch.rsqrt(t), weak)


def cbrt(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """Return the real cube root of floating x."""
    if accuracy is not None:
        _check(accuracy)
    t, weak = operand("cbrt", x, ops.FLOATING)
    return Array(arithmetic.cbrt(t), weak)


def asin(x: ArrayLike) -> Array:
    """Return the inverse sine of x."""
    t, weak = operand("asin", x, ops.INEXACT)
    return Array(torch.asin(t), weak)


def acos(x: ArrayLike) -> Array:
    """Return the inverse cosine of x."""
    t, weak = operand("acos", x, ops.INEXACT)
    return Array(torch.acos(t), weak)


def atan(x: ArrayLike) -> Array:
    """Return the inverse tangent of x."""
    t, weak = operand("atan", x, ops.INEXACT)
    return Array(torch.atan(t), weak)


def sinh(x: ArrayLike) -> Array:
    """Return the hyperbolic sine of x."""
    t, weak = operand("sinh", x, ops.INEXACT)
    return Array(torch.sinh(t), weak)


def cosh(x: ArrayLike) -> Array:
    """Return the hyperbolic cosine of x."""
    t, weak = operand("cosh", x, ops.INEXACT)
    return Array(torch.cosh(t), weak)


def asinh(x: ArrayLike) -> Array:
    """Return the inverse hyperbolic sine of x."""
    t, weak = operand("asinh", x, ops.INEXACT)
    return Array(torch.asinh(t), weak)


def acosh(x: ArrayLike) -> Array:
    """Return the inverse hyperbolic cosine of x."""
    t, weak = operand("acosh", x, ops.INEXACT)
    return Array(arithmetic.acosh(t), weak)


def atanh(x: ArrayLike) -> Array:
    """Return the inverse hyperbolic tangent of x."""
    t, weak = operand("atanh", x, ops.INEXACT)
    return Array(torch.atanh(t), weak)


def atan2(x: ArrayLike, y: ArrayLike) -> Array:
    """Return the angle of the point whose ordinate is x and whose abscissa is y."""
    (a, b), weak = operands("atan2", ops.INEXACT, x, y)
    return Array(arithmetic.atan2(a, b), weak)
