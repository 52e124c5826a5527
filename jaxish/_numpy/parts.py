"""Real and imaginary parts, signs, and the bits of floating-point numbers."""

import math
from typing import Any

import torch
from torch import Tensor

from .._core import dtypes, narrow, unsigned
from .._core.array import Array, is_weak
from .._core.primitive import conjugate as conjugate_tensor
from .._core.promotion import convert, promote_inexact, tensor, tensors
from .._core.typing import ArrayLike
from .._tensors import arithmetic
from .._transforms.repeated import compiled_when_repeated
from .._transforms.shown_calls import shown_as_jit
from .arguments import check_shapes, float_dtype, int_dtype, pair, pair_inexact, without_strong_arrays


def real(val: ArrayLike, /) -> Array:
    """Return the real part."""
    t = tensor("real", val)
    return Array(t.real if t.is_complex() else t, is_weak(val))


def imag(val: ArrayLike, /) -> Array:
    """Return the imaginary part, zeros for real numbers."""
    t = tensor("imag", val)
    return Array(t.imag if t.is_complex() else torch.zeros_like(t), is_weak(val))


def conjugate(x: ArrayLike, /) -> Array:
    """Return the complex conjugate."""
    t = tensor("conjugate", x)
    return Array(conjugate_tensor(t), is_weak(x))


def conj(x: ArrayLike, /) -> Array:
    """Return the complex conjugate."""
    return conjugate(x)


@shown_as_jit("deg")
def angle(z: ArrayLike, deg: bool = False) -> Array:
    """Return the angle of complex numbers, in radians or with `deg` in degrees."""
    (t,), weak = promote_inexact("angle", z)
    if not t.is_complex() and not t.dim():
        t = convert(t, float_dtype())
    weak = weak and t.is_complex()
    found = torch.atan2(t.imag, t.real) if t.is_complex() else torch.atan2(torch.zeros_like(t), t)
    return Array(found * (180 / math.pi) if deg else found, weak)


def _real_pair(function: str, x1: Any, x2: Any) -> tuple[Tensor, Tensor, bool]:
    a, b, weak = pair_inexact(function, x1, x2)
    if a.is_complex():
        raise TypeError(f"{function} does not support complex-valued inputs")
    return a, b, weak


@shown_as_jit()
@compiled_when_repeated
def copysign(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return x1 with the sign of x2. Raises `TypeError` for complex numbers."""
    a, b, weak = _real_pair("copysign", x1, x2)
    return Array(torch.where(torch.signbit(a) == torch.signbit(b), a, -a), weak)


@shown_as_jit()
def signbit(x: ArrayLike, /) -> Array:
    """Tell where the sign bit is set. Raises `ValueError` for complex numbers."""
    t = tensor("signbit", x)
    if t.is_complex():
        raise ValueError(f"jax.numpy.signbit is not well defined for {dtypes.TO_NUMPY[t.dtype]}")
    if t.dtype is torch.bool or t.dtype in unsigned.SIGNED:
        return Array(torch.zeros_like(t, dtype=torch.bool))
    return Array(torch.signbit(t))


@shown_as_jit()
@compiled_when_repeated
def heaviside(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return 0 where x1 is negative, 1 where it is positive, x2 where it is zero."""
    a, b, weak = _real_pair("heaviside", x1, x2)
    step = torch.where(a > 0, 1.0, 0.0).to(a.dtype)
    return Array(torch.where(torch.isnan(a), a, torch.where(a == 0, b, step)), weak and without_strong_arrays(x1))


def nextafter(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Return the number next to x in the direction of y."""
    a, b, weak = _real_pair("nextafter", x, y)
    return Array(arithmetic.nextafter(a, b), weak)


def spacing(x: ArrayLike, /) -> Array:
    """Return the distance to the next number away from zero, with the sign of x. Raises `ValueError` for complex."""
    (t,), _ = promote_inexact("spacing", x)
    if t.is_complex():
        raise ValueError("jnp.spacing is not defined for complex inputs.")
    infinity = torch.full_like(t, math.inf)
    if t.dtype is torch.float16:
        return Array(arithmetic.nextafter(t, infinity) - t)
    found = arithmetic.nextafter(t, torch.copysign(infinity, t)) - t
    least = torch.copysign(torch.full_like(t, _smallest(t.dtype)), t)
    return Array(torch.where(found == 0, least, found))


def _smallest(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).tiny * torch.finfo(dtype).eps


@shown_as_jit()
@compiled_when_repeated
def frexp(x: ArrayLike, /) -> tuple[Array, Array]:
    """Return mantissas in [0.5, 1) and exponents (int32) with x = mantissa * 2**exponent."""
    (t,), _ = promote_inexact("frexp", x)
    if t.is_complex():
        raise TypeError("frexp does not support complex-valued inputs")
    exponent = _exponents(t.detach())
    special = ~torch.isfinite(t) | (t == 0)
    return Array(torch.where(special, t, _times_power_of_two(t, -exponent))), Array(
        torch.where(special, 0, exponent).to(torch.int32)
    )


def _times_power_of_two(t: Tensor, exponent: Tensor) -> Tensor:
    # In two steps, so that a factor by itself neither overflows nor vanishes; torch.ldexp has the derivative zero.
    half = torch.div(exponent, 2, rounding_mode="floor")
    one = torch.ones_like(half, dtype=torch.float64)
    return (t.to(torch.float64) * torch.ldexp(one, half) * torch.ldexp(one, exponent - half)).to(t.dtype)


def _exponents(t: Tensor) -> Tensor:
    wide = t.to(torch.float64)
    bits = torch.where(t == 0, 1.0, wide).view(torch.int64)
    raw = (bits >> 52) & 0x7FF
    # A subnormal number is scaled up first.
    scaled = (torch.where(t == 0, 1.0, wide) * 2.0**64).view(torch.int64)
    return torch.where(raw == 0, ((scaled >> 52) & 0x7FF) - 1022 - 64, raw - 1022).to(torch.int32)


@shown_as_jit()
def ldexp(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return x1 * 2**x2 for integers x2. Raises `ValueError` for complex x1 or floating x2."""
    a, b = tensors("ldexp", x1, x2)
    if a.is_complex() or b.is_floating_point() or b.is_complex():
        raise ValueError(f"ldexp not supported for input types {(dtypes.TO_NUMPY[a.dtype], dtypes.TO_NUMPY[b.dtype])}")
    (a,), weak = promote_inexact("ldexp", x1)
    check_shapes("add", a, b)
    power = convert(b, torch.int32) if b.dtype in (torch.bool, *unsigned.SIGNED) else b
    return Array(_times_power_of_two(a, power), weak)


@shown_as_jit()
def gcd(x1: ArrayLike, x2: ArrayLike) -> Array:
    """Return the greatest common divisors of integers. Raises `ValueError` for other dtypes."""
    a, b, weak = pair("gcd", x1, x2)
    _check_integers("gcd", a)
    return Array(_widely(torch.gcd, a, b), weak)


@shown_as_jit()
def lcm(x1: ArrayLike, x2: ArrayLike) -> Array:
    """Return the least common multiples of integers. Raises `ValueError` for other dtypes."""
    a, b, weak = pair("lcm", x1, x2)
    _check_integers("lcm", a)
    return Array(_widely(torch.lcm, a, b), weak)


def _check_integers(function: str, t: Tensor) -> None:
    if t.dtype is torch.bool or t.is_floating_point() or t.is_complex():
        raise ValueError(f"Arguments to jax.numpy.{function} must be integers.")


def _widely(operation: Any, a: Tensor, b: Tensor) -> Tensor:
    if a.dtype in unsigned.SIGNED:
        return operation(a.to(torch.int64), b.to(torch.int64)).to(a.dtype)
    return operation(a, b)


@shown_as_jit()
def bitwise_count(x: ArrayLike, /) -> Array:
    """Return how many bits of the absolute values of integers are set, as uint8."""
    t = tensor("bitwise_count", x)
    if t.is_floating_point() or t.is_complex():
        raise TypeError(f"bitwise_count does not accept dtype {dtypes.TO_NUMPY[t.dtype]}.")
    if t.dtype is torch.bool:
        t = t.to(int_dtype())
    t = unsigned.abs(t)
    return Array(arithmetic.population_count(t).to(torch.uint8))


def view_as(a: Array, dtype: Any = None) -> Array:
    """Return the bits of `a` read as another dtype; the last axis grows or shrinks with the sizes of the dtypes.

    Raises `ValueError` for a scalar or a last axis that does not fit.
    """
    t = tensor("view", a)
    if dtype is None:
        return a
    target = dtypes.to_torch(dtypes.requested_dtype(dtype, "view"))
    if target is t.dtype:
        return Array(t)
    if torch.bool in (target, t.dtype) and target.itemsize == t.dtype.itemsize:
        return Array(t.to(target)) if t.dtype is torch.bool else Array(convert(t, torch.bool))
    old, new = narrow.bits(t.dtype), narrow.bits(target)
    if old != new:
        if not t.dim():
            raise ValueError("view() of a 0d array is only supported if the itemsize is unchanged.")
        if (t.shape[-1] * old) % new:
            raise ValueError(
                f"When changing to a larger dtype, its size must be a divisor of the total size in bytes of the last "
                f"axis of the array: {t.shape[-1]} * {old} bits to {new}."
            )
    source = t.to(torch.uint8) if t.dtype is torch.bool else t
    # An expanded dimension of size one has a stride that torch's view refuses.
    source = source.clone(memory_format=torch.contiguous_format)
    found = narrow.reread(source, torch.uint8 if target is torch.bool else target)
    return Array(found != 0 if target is torch.bool else found)


def byteswap(a: Array) -> Array:
    """Return `a` with the bytes of each element in reverse order."""
    t = tensor("byteswap", a)
    size = t.dtype.itemsize // (2 if t.is_complex() else 1)
    if size == 1:
        return a
    flat = t.flatten().clone(memory_format=torch.contiguous_format).view(torch.uint8).reshape(-1, size)
    return Array(torch.flip(flat, (1,)).flatten().view(t.dtype).reshape(t.shape), a._weak)
