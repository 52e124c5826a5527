"""Activation functions, elementwise. Integer inputs are computed on in floating point."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .._core import selection
from .._core.array import Array
from .._core.promotion import promote_inexact, tensor
from .._core.typing import ArrayLike
from .._numpy.elementary import tanh as tanh
from .._tensors import arithmetic


def _floating(function: str, x: Any) -> tuple[Tensor, bool]:
    (found,), weak = promote_inexact(function, x)
    return found, weak


def _clip(x: Tensor, low: float, high: float) -> Tensor:
    # By minimum and maximum, whose derivative at a tie is one half, as in JAX; clamp's is one.
    return torch.minimum(torch.maximum(x, torch.full_like(x, low)), torch.full_like(x, high))


def identity(x: ArrayLike) -> Array:
    """Return `x` as an array."""
    return Array(tensor("identity", x), getattr(x, "weak_type", isinstance(x, int | float | complex)))


def relu(x: ArrayLike) -> Array:
    """Return max(x, 0); the derivative at 0 is 0."""
    found = tensor("relu", x)
    weak = getattr(x, "weak_type", isinstance(x, int | float))
    if found.dtype in (torch.uint16, torch.uint32, torch.uint64, torch.bool):
        return Array(found, weak)
    return Array(torch.relu(found), weak)


def relu6(x: ArrayLike) -> Array:
    """Return min(max(x, 0), 6)."""
    found, weak = _floating("relu6", x)
    return Array(F.relu6(found), weak)


def sigmoid(x: ArrayLike) -> Array:
    """Return 1 / (1 + exp(-x))."""
    found, weak = _floating("sigmoid", x)
    return Array(torch.sigmoid(found), weak)


def softplus(x: ArrayLike) -> Array:
    """Return log(1 + exp(x))."""
    found, weak = _floating("softplus", x)
    return Array(_softplus(found), weak)


def _softplus(x: Tensor) -> Tensor:
    return arithmetic.log_add_exp(x, torch.zeros_like(x))


def sparse_plus(x: ArrayLike) -> Array:
    """Return 0 below -1, x above 1, and (x + 1)^2 / 4 between (Nguyen et al., "Sparsing and Smoothing", 2023)."""
    found, weak = _floating("sparse_plus", x)
    return Array(selection.where(found <= -1, 0, selection.where(found >= 1, found, (found + 1) ** 2 / 4)), weak)


def sparse_sigmoid(x: ArrayLike) -> Array:
    """Return (x + 1) / 2 clipped to [0, 1]."""
    found, weak = _floating("sparse_sigmoid", x)
    return Array(0.5 * (_clip(found, -1.0, 1.0) + 1), weak)


def soft_sign(x: ArrayLike) -> Array:
    """Return x / (1 + |x|)."""
    found, weak = _floating("soft_sign", x)
    return Array(found / (arithmetic.absolute(found) + 1), weak)


def silu(x: ArrayLike) -> Array:
    """Return x sigmoid(x), also known as swish."""
    found, weak = _floating("silu", x)
    return Array(found * torch.sigmoid(found), weak)


swish = silu


def mish(x: ArrayLike) -> Array:
    """Return x tanh(softplus(x)) (Misra, "Mish", 2019)."""
    found, weak = _floating("mish", x)
    return Array(found * torch.tanh(_softplus(found)), weak)


def log_sigmoid(x: ArrayLike) -> Array:
    """Return log(sigmoid(x))."""
    found, weak = _floating("log_sigmoid", x)
    return Array(-_softplus(-found), weak)


def elu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    """Return x where x > 0, alpha (exp(x) - 1) elsewhere."""
    (found, scale), weak = promote_inexact("elu", x, alpha)
    return Array(_elu(found, scale), weak)


def _elu(x: Tensor, alpha: Any) -> Tensor:
    positive = x > 0
    return selection.where(positive, x, alpha * torch.expm1(selection.where(positive, 0, x)))


_SELU_ALPHA = 1.6732632423543772
_SELU_SCALE = 1.0507009873554805


def selu(x: ArrayLike) -> Array:
    """Return the self-normalising elu (Klambauer et al., "Self-Normalizing Neural Networks", 2017)."""
    found, weak = _floating("selu", x)
    return Array(_SELU_SCALE * _elu(found, _SELU_ALPHA), weak)


def celu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    """Return max(x, 0) + alpha (exp(min(x, 0) / alpha) - 1) (Barron, "Continuously Differentiable ELU", 2017)."""
    (found, scale), weak = promote_inexact("celu", x, alpha)
    zero = torch.zeros_like(found)
    return Array(torch.maximum(found, zero) + scale * torch.expm1(torch.minimum(found, zero) / scale), weak)


def gelu(x: ArrayLike, approximate: bool = True) -> Array:
    """Return x Phi(x), Phi the normal distribution function; `approximate` by a tanh (Hendrycks & Gimpel, 2016)."""
    found, weak = _floating("gelu", x)
    if found.is_complex():
        raise TypeError("gelu takes real inputs, got a complex array.")
    if approximate:
        return Array(F.gelu(found, approximate="tanh"), weak)
    # torch's is x (1 + erf), which has no digits for large negative x, and NaN at infinity.
    return Array(0.5 * found * torch.erfc(found * -math.sqrt(0.5)), weak)


def glu(x: ArrayLike, axis: int = -1) -> Array:
    """Return a sigmoid(b) for the halves a, b of `x` along `axis`. Raises `ValueError` for an odd size."""
    found, weak = _floating("glu", x)
    if found.shape[axis] % 2:
        raise ValueError(f"glu: axis size must be divisible by 2, got shape {tuple(found.shape)} and axis {axis}.")
    first, second = found.chunk(2, axis)
    return Array(first * torch.sigmoid(second), weak)


def leaky_relu(x: ArrayLike, negative_slope: ArrayLike = 1e-2) -> Array:
    """Return x where x >= 0, negative_slope x elsewhere."""
    (found, slope), weak = promote_inexact("leaky_relu", x, negative_slope)
    return Array(selection.where(found >= 0, found, slope * found), weak)


def hard_tanh(x: ArrayLike) -> Array:
    """Return x clipped to [-1, 1]."""
    found, weak = _floating("hard_tanh", x)
    return Array(selection.where(found > 1, 1, selection.where(found < -1, -1, found)), weak)


def hard_sigmoid(x: ArrayLike) -> Array:
    """Return relu6(x + 3) / 6."""
    found, weak = _floating("hard_sigmoid", x)
    return Array(F.relu6(found + 3.0) / 6.0, weak)


def hard_silu(x: ArrayLike) -> Array:
    """Return x hard_sigmoid(x)."""
    found, weak = _floating("hard_silu", x)
    return Array(found * (F.relu6(found + 3.0) / 6.0), weak)


hard_swish = hard_silu


def squareplus(x: ArrayLike, b: ArrayLike = 4) -> Array:
    """Return (x + sqrt(x^2 + b)) / 2 (Barron, "Squareplus", 2021)."""
    (found, shift), weak = promote_inexact("squareplus", x, b)
    return Array((found + torch.sqrt(found * found + shift)) / 2, weak)


def log1mexp(x: ArrayLike) -> Array:
    """Return log(1 - exp(-x)) for x > 0 (Mächler, "Accurately computing log(1 - exp(-|a|))", 2012)."""
    found, weak = _floating("log1mexp", x)
    return Array(
        selection.where(found < math.log(2), torch.log(-torch.expm1(-found)), torch.log1p(-torch.exp(-found))), weak
    )
