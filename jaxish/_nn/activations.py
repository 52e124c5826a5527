"""Activation functions, elementwise. Integer inputs are computed on in floating point."""

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .._core import graph, selection, unsigned
from .._core.array import Array, as_array
from .._core.operations import keeps_calls
from .._core.promotion import promote, promote_inexact, tensor
from .._core.typing import ArrayLike
from .._lax.elementwise import select
from .._lax.operands import INEXACT, NUMBER, array_of, check_accepted, operand
from .._lax.transcendental import logistic
from .._numpy.arguments import check_shapes, int_dtype
from .._numpy.creation import zeros_like
from .._numpy.elementary import tanh as tanh
from .._numpy.ufuncs import maximum
from .._tensors import arithmetic, ordering
from .._transforms.custom_jvp import custom_jvp
from .._transforms.jit import jit
from .._transforms.repeated import compiled_when_repeated
from .._transforms.shown_calls import shown_as_jit


def _floating(function: str, x: Any) -> tuple[Tensor, bool]:
    (found,), weak = promote_inexact(function, x)
    return found, weak


def _with_numbers(function: str, x: Any) -> tuple[Tensor, bool]:
    """Return `x` in floating point, weakly typed where it was not: what Python's floats make of integers."""
    (found,), weak = promote_inexact(function, x)
    return found, weak or tensor(function, x).dtype is not found.dtype


def _with_booleans(function: str, x: Any) -> tuple[Tensor, bool]:
    """Return `x` in floating point, weakly typed where it was boolean: integers that Python's make of it."""
    (found,), weak = promote_inexact(function, x)
    return found, weak or tensor(function, x).dtype is torch.bool


def _together(function: str, x: Any, y: Any) -> tuple[list[Tensor], bool]:
    """Return both in one floating dtype. `TypeError` or `ValueError` for shapes that do not broadcast."""
    found, weak = promote_inexact(function, x, y)
    check_shapes(function, *found)
    return found, weak


def _negatable(function: str, x: Any) -> tuple[Tensor, bool]:
    """Return `x` in floating point. `TypeError` for booleans."""
    check_accepted("neg", tensor(function, x), 0, NUMBER)
    return _floating(function, x)


def _compared(comparison: Callable[[Tensor, Tensor], Tensor], x: Tensor, bound: float) -> Tensor:
    if not x.is_complex():
        return comparison(x, bound)  # pyright: ignore[reportArgumentType]
    return ordering.compared(comparison, x, torch.full((), bound, dtype=x.dtype, device=x.device))


def _within(x: Tensor, low: int, high: int) -> Tensor:
    """Return `x` clipped, complex numbers in lexicographic order."""
    if not x.is_complex():
        return F.hardtanh(x, low, high)
    return ordering.minimum(ordering.maximum(x, torch.full_like(x, low)), torch.full_like(x, high))


def _clip(x: Tensor, low: float, high: float) -> Tensor:
    # By minimum and maximum, whose derivative at a tie is one half, as in JAX; clamp's is one.
    return torch.minimum(torch.maximum(x, torch.full_like(x, low)), torch.full_like(x, high))


@shown_as_jit()
def identity(x: ArrayLike) -> Array:
    """Return `x` as an array, which may have any dtype."""
    return x if isinstance(x, Array) else array_of("identity", x)


def relu(x: ArrayLike) -> Array:
    """Return max(x, 0); the derivative at 0 is 0."""
    if graph.tracing and keeps_calls():
        return _shown_relu()(x)
    found = tensor("relu", x)
    weak = as_array(x)._weak
    if found.dtype is torch.bool:
        return Array(found.to(int_dtype()), True)
    if found.dtype in (torch.uint16, torch.uint32, torch.uint64):
        return Array(found, weak)
    if found.is_complex():
        return Array(selection.where(_compared(torch.gt, found, 0), found, 0), weak)
    return Array(torch.relu(found), weak)


@functools.cache
def _shown_relu() -> Callable[[ArrayLike], Array]:
    """Return what jaxprs show relu as: a function with a rule of its own."""

    def relu(x: ArrayLike) -> Array:
        return maximum(x, 0)

    shown = custom_jvp(jit(relu))
    shown.defjvps(lambda g, ans, x: select(x > 0, g, zeros_like(g)))
    return shown


@shown_as_jit()
def relu6(x: ArrayLike) -> Array:
    """Return min(max(x, 0), 6)."""
    found, weak = _with_numbers("relu6", x)
    return Array(_within(found, 0, 6), weak)


def sigmoid(x: ArrayLike) -> Array:
    """Return 1 / (1 + exp(-x)). `TypeError` for integers, as in `silu` and `glu`."""
    return logistic(x)


@shown_as_jit()
@compiled_when_repeated
def softplus(x: ArrayLike) -> Array:
    """Return log(1 + exp(x))."""
    found, weak = _with_booleans("softplus", x)
    return Array(_softplus(found), weak)


def _softplus(x: Tensor) -> Tensor:
    return arithmetic.log_add_exp(x, torch.zeros_like(x))


@shown_as_jit()
@compiled_when_repeated
def sparse_plus(x: ArrayLike) -> Array:
    """Return 0 below -1, x above 1, and (x + 1)^2 / 4 between (Nguyen et al., "Sparsing and Smoothing", 2023)."""
    found, weak = _with_numbers("sparse_plus", x)
    low, high = _compared(torch.le, found, -1), _compared(torch.ge, found, 1)
    return Array(selection.where(low, 0, selection.where(high, found, (found + 1) ** 2 / 4)), weak)


@shown_as_jit()
@compiled_when_repeated
def sparse_sigmoid(x: ArrayLike) -> Array:
    """Return (x + 1) / 2 clipped to [0, 1]."""
    found, weak = _with_numbers("sparse_sigmoid", x)
    if found.is_complex():
        raise ValueError("sparse_sigmoid takes real inputs, got a complex array.")
    return Array(0.5 * (_clip(found, -1.0, 1.0) + 1), weak)


@shown_as_jit()
@compiled_when_repeated
def soft_sign(x: ArrayLike) -> Array:
    """Return x / (1 + |x|)."""
    found, weak = _with_booleans("soft_sign", x)
    return Array(found / (arithmetic.absolute(found) + 1), weak)


@shown_as_jit()
def silu(x: ArrayLike) -> Array:
    """Return x sigmoid(x), also known as swish."""
    found, weak = operand("logistic", x, INEXACT)
    return Array(found * torch.sigmoid(found), weak)


swish = silu


@shown_as_jit()
@compiled_when_repeated
def mish(x: ArrayLike) -> Array:
    """Return x tanh(softplus(x)) (Misra, "Mish", 2019)."""
    found, weak = _with_booleans("mish", x)
    return Array(found * torch.tanh(_softplus(found)), weak)


@shown_as_jit()
@compiled_when_repeated
def log_sigmoid(x: ArrayLike) -> Array:
    """Return log(sigmoid(x))."""
    found, weak = _negatable("log_sigmoid", x)
    return Array(-_softplus(-found), weak)


@shown_as_jit()
@compiled_when_repeated
def elu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    """Return x where x > 0, alpha (exp(x) - 1) elsewhere."""
    (found, scale), weak = _together("elu", x, alpha)
    return Array(_elu(found, scale), weak)


def _elu(x: Tensor, alpha: Any) -> Tensor:
    positive = _compared(torch.gt, x, 0)
    return selection.where(positive, x, alpha * torch.expm1(selection.where(positive, 0, x)))


_SELU_ALPHA = 1.6732632423543772
_SELU_SCALE = 1.0507009873554805


@shown_as_jit()
@compiled_when_repeated
def selu(x: ArrayLike) -> Array:
    """Return the self-normalising elu (Klambauer et al., "Self-Normalizing Neural Networks", 2017)."""
    found, weak = _with_numbers("selu", x)
    return Array(_SELU_SCALE * _elu(found, _SELU_ALPHA), weak)


@shown_as_jit()
@compiled_when_repeated
def celu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    """Return max(x, 0) + alpha (exp(min(x, 0) / alpha) - 1) (Barron, "Continuously Differentiable ELU", 2017)."""
    (found, scale), weak = _together("celu", x, alpha)
    zero = torch.zeros_like(found)
    above, below = ordering.maximum(found, zero), ordering.minimum(found, zero)
    return Array(above + scale * torch.expm1(below / scale), weak)


def gelu(x: ArrayLike, approximate: bool = True) -> Array:
    """Return x Phi(x), Phi the normal distribution function; `approximate` by a tanh (Hendrycks & Gimpel, 2016)."""
    found, _ = _floating("gelu", x)
    if found.is_complex():
        return _complex_gelu(found, approximate)
    if approximate:
        return Array(F.gelu(found, approximate="tanh"))
    # torch's is x (1 + erf), which has no digits for large negative x, and NaN at infinity.
    return Array(0.5 * found * torch.erfc(found * -math.sqrt(0.5)))


def _complex_gelu(x: Tensor, approximate: bool) -> Array:
    if not approximate:
        raise TypeError("gelu(approximate=False) takes real inputs, got a complex array.")
    return Array(0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))))


@shown_as_jit("axis")
def glu(x: ArrayLike, axis: int = -1) -> Array:
    """Return a sigmoid(b) for the halves a, b of `x` along `axis`. Raises `ValueError` for an odd size."""
    found, weak = operand("logistic", x, INEXACT)
    if found.shape[axis] % 2:
        raise ValueError(f"glu: axis size must be divisible by 2, got shape {tuple(found.shape)} and axis {axis}.")
    first, second = found.chunk(2, axis)
    return Array(first * torch.sigmoid(second), weak)


@shown_as_jit()
@compiled_when_repeated
def leaky_relu(x: ArrayLike, negative_slope: ArrayLike = 1e-2) -> Array:
    """Return x where x >= 0, negative_slope x elsewhere; with an integer slope integers stay integers."""
    (found, slope), weak = promote("leaky_relu", x, negative_slope)
    check_shapes("leaky_relu", found, slope)
    if found.dtype in unsigned.SIGNED:  # no number is below 0
        return Array(found.expand(torch.broadcast_shapes(found.shape, slope.shape)), weak)
    return Array(selection.where(_compared(torch.ge, found, 0), found, slope * found), weak)


@shown_as_jit()
@compiled_when_repeated
def hard_tanh(x: ArrayLike) -> Array:
    """Return x clipped to [-1, 1]; integers stay integers."""
    found = tensor("hard_tanh", x)
    weak = as_array(x)._weak
    if found.dtype is torch.bool:
        return Array(found.to(int_dtype()), True)
    if found.dtype in unsigned.SIGNED or found.dtype is torch.uint8:
        return Array(unsigned.minimum(found, torch.ones_like(found)), weak)
    above, below = _compared(torch.gt, found, 1), _compared(torch.lt, found, -1)
    return Array(selection.where(above, 1, selection.where(below, -1, found)), weak)


@shown_as_jit()
@compiled_when_repeated
def hard_sigmoid(x: ArrayLike) -> Array:
    """Return relu6(x + 3) / 6."""
    found, weak = _with_numbers("hard_sigmoid", x)
    return Array(_within(found + 3.0, 0, 6) / 6.0, weak)


@shown_as_jit()
@compiled_when_repeated
def hard_silu(x: ArrayLike) -> Array:
    """Return x hard_sigmoid(x)."""
    found, weak = _with_numbers("hard_silu", x)
    return Array(found * (_within(found + 3.0, 0, 6) / 6.0), weak)


hard_swish = hard_silu


@shown_as_jit()
@compiled_when_repeated
def squareplus(x: ArrayLike, b: ArrayLike = 4) -> Array:
    """Return (x + sqrt(x^2 + b)) / 2 (Barron, "Squareplus", 2021)."""
    (found, shift), weak = _together("squareplus", x, b)
    return Array((found + torch.sqrt(found * found + shift)) / 2, weak)


@shown_as_jit()
@compiled_when_repeated
def log1mexp(x: ArrayLike) -> Array:
    """Return log(1 - exp(-x)) for x > 0 (Mächler, "Accurately computing log(1 - exp(-|a|))", 2012)."""
    found, weak = _negatable("log1mexp", x)
    is_small = _compared(torch.lt, found, math.log(2))
    return Array(selection.where(is_small, torch.log(-torch.expm1(-found)), torch.log1p(-torch.exp(-found))), weak)
