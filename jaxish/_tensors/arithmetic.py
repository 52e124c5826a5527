"""Elementwise functions of tensors whose value or derivative is JAX's where torch's is not.

jax.numpy and lax share them. At kinks and ties derivatives follow JAX: |x| has slope 1 at zero, clamp has slope zero
at its bounds, x**0.0 has no derivative at zero.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .._core import narrow, selection, unsigned
from .._core.graph import is_plain_evaluation
from .._core.operations import shown_as
from .elementwise import Elementwise, compiled_when_long

_ABSOLUTE = Elementwise("abs", torch.abs, (lambda x: torch.where(x >= 0, 1.0, -1.0).to(x.dtype),))


# torch computes them of complex numbers one at a time, by functions of C++'s that take forty times as long as vectors do.
_MANY_COMPLEX = 512
_OF_COMPLEX: dict[Any, Callable[[Tensor], Tensor]] = {
    f: compiled_when_long(f, _MANY_COMPLEX)
    for f in (
        torch.exp, torch.expm1, torch.log, torch.log1p, torch.sqrt, torch.abs,
        torch.sin, torch.cos, torch.tan, torch.sinh, torch.cosh, torch.tanh,
    )
}  # fmt: skip


def of_complex(operator: Callable[[Tensor], Tensor], z: Tensor) -> Tensor:
    """Return what an operator of torch's makes of complex numbers."""
    return _OF_COMPLEX[operator](z)


def absolute(x: Tensor) -> Tensor:
    """Return |x|; the derivative at zero is 1."""
    if x.dtype.is_complex:
        return of_complex(torch.abs, x)
    return unsigned.abs(x) if not x.dtype.is_floating_point or is_plain_evaluation() else _ABSOLUTE(x)


# torch's own derivative is 1 / (1 + exp(y - x)), whose derivative is inf / inf**2 where the exponential overflows (2.13).
_LOG_ADD = Elementwise(
    "logaddexp", torch.logaddexp, (lambda x, y: torch.sigmoid(x - y), lambda x, y: torch.sigmoid(y - x))
)
_LOG_ADD_2 = Elementwise(
    "logaddexp2", torch.logaddexp2,
    (lambda x, y: torch.sigmoid((x - y) * math.log(2)), lambda x, y: torch.sigmoid((y - x) * math.log(2))),
)  # fmt: skip


def log_add_exp(x: Tensor, y: Tensor) -> Tensor:
    """Return log(exp(x) + exp(y)) of real tensors."""
    return torch.logaddexp(x, y) if is_plain_evaluation() else _LOG_ADD(x, y)


def log_add_exp2(x: Tensor, y: Tensor) -> Tensor:
    """Return log2(2**x + 2**y) of real tensors."""
    return torch.logaddexp2(x, y) if is_plain_evaluation() else _LOG_ADD_2(x, y)


@shown_as("square", lambda x: {})
def square(x: Tensor) -> Tensor:
    """Return x * x."""
    return torch.square(x) if x.dtype.is_floating_point or x.dtype.is_complex else unsigned.mul(x, x)


@shown_as("sign", lambda x: {})
def sign(x: Tensor) -> Tensor:
    """Return -1, 0 or 1 by sign, x itself where it is zero or NaN; x / |x| for complex x."""
    if x.dtype.is_complex:
        return torch.sgn(x)
    if not x.dtype.is_floating_point:
        return unsigned.sign(x)
    # torch.sign makes zero of NaN.
    return selection.where((x == 0) | (x != x), x.detach(), torch.sign(x))


def _clamp(low: Tensor, x: Tensor, high: Tensor) -> Tensor:
    return unsigned.minimum(unsigned.maximum(x, low), high)


_CLAMP = Elementwise(
    "clamp",
    _clamp,
    (
        lambda low, x, high: (low > x) & (low < high),
        lambda low, x, high: (x > low) & (x < high),
        lambda low, x, high: high < x,
    ),
)


def clamp(x: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Return x limited to low and high; nothing has a derivative where x equals a bound."""
    if not x.dtype.is_floating_point or is_plain_evaluation():
        return _clamp(low, x, high)
    return _CLAMP(low, x, high)


def acosh(x: Tensor) -> Tensor:
    """Return the x' with cosh(x') = x; complex numbers on the branch cut, below 1, have a positive imaginary part."""
    # torch, as C does, follows the sign of a zero imaginary part.
    return torch.acosh(torch.complex(x.real, x.imag + 0.0) if x.dtype.is_complex else x)


def _pow_slope(x: Tensor, y: Tensor) -> Tensor:
    if y.dtype.is_floating_point or y.dtype.is_complex:
        return y * torch.pow(x, y - 1)
    return selection.where(y == 0, 0, y * torch.pow(x, selection.where(y == 0, 1, y - 1)))


def _pow(x: Tensor, y: Tensor) -> Tensor:
    if not x.dtype.is_complex:
        return torch.pow(x, y)
    return _complex_pow(x, y)


def _complex_pow_of(x: Tensor, y: Tensor) -> Tensor:
    return torch.pow(selection.where((x == 0) & (y == 0), 1, x), y)  # torch's power of two zeros is NaN


_complex_pow = compiled_when_long(_complex_pow_of, _MANY_COMPLEX)
_POW = Elementwise("pow", _pow, (_pow_slope, lambda x, y: torch.log(selection.where(x == 0, 1, x)) * torch.pow(x, y)))


def power(x: Tensor, y: Tensor) -> Tensor:
    """Return x**y for inexact x; the derivative in x is y * x**(y - 1) everywhere."""
    return _pow(x, y) if is_plain_evaluation() else _POW(x, y)


@functools.cache
def _negative_power(exponent: int) -> Elementwise:
    # The derivative of the reciprocal of a power would be NaN at zero.
    return Elementwise(
        f"integer_pow_{exponent}",
        lambda x: torch.reciprocal(integer_power(x, -exponent)),
        (lambda x: exponent * integer_power(x, exponent - 1),),
    )


@shown_as("integer_pow", lambda x, exponent: {"y": exponent})
def integer_power(x: Tensor, exponent: int) -> Tensor:
    """Return x**exponent for a Python integer exponent, not negative where x is an integer."""
    if exponent == 2:
        return unsigned.mul(x, x)
    if exponent < 0:
        return _negative_power(exponent)(x)
    return unsigned.via_bits(lambda t: torch.pow(t, exponent), x)


def _cbrt(x: Tensor) -> Tensor:
    if x.dtype.itemsize == 2:
        return _cbrt(x.float()).to(x.dtype)
    size = torch.abs(x)
    root = torch.pow(size, 1 / 3)
    # One step of Newton's method: 1/3 is no binary fraction, which costs the last digits.
    refined = root - (root - size / (root * root)) / 3
    usable = (size > 0) & (size < math.inf) & (root > 0)
    return torch.copysign(selection.where(usable, refined, root), x)


_CBRT = Elementwise("cbrt", _cbrt, (lambda x: 1 / (3 * torch.square(_CBRT(x))),))


def cbrt(x: Tensor) -> Tensor:
    """Return the real cube root."""
    return _CBRT(x)


# Quotients of integers, for which XLA has a value where torch raises (`unsigned`): up to ten operators.

div = compiled_when_long(unsigned.div)
rem = compiled_when_long(unsigned.rem)
floor_divide = compiled_when_long(unsigned.floor_divide)
remainder = compiled_when_long(lambda x, y: unsigned.remainder(x, one_for_zero(y)))
fmod = compiled_when_long(lambda x, y: unsigned.rem(x, one_for_zero(y)))


def one_for_zero(divisor: Tensor) -> Tensor:
    """Return integers with one in place of zero."""
    return unsigned.via_bits(lambda y: selection.where(y == 0, narrow.full((), 1, y.dtype, y.device), y), divisor)


def round_away_from_zero(x: Tensor) -> Tensor:
    """Return x rounded to the nearest integer, halves away from zero."""
    whole = torch.trunc(x)
    return selection.where(torch.abs(x - whole) >= 0.5, whole + torch.sign(x), whole)


def _nextafter(x: Tensor, y: Tensor) -> Tensor:
    if x.dtype.itemsize > 2:
        return torch.nextafter(x, y)
    x, y = torch.broadcast_tensors(x, y)
    bits = x.contiguous().view(torch.int16)
    away = (x.abs() < y.abs()) & ((x < 0) == (y < 0)) | (x == 0)
    step = selection.where(away, 1, -1).to(torch.int16)
    sign_bit = torch.iinfo(torch.int16).min
    of_zero = selection.where(y < 0, sign_bit + 1, 1).to(torch.int16)
    moved = selection.where(x == 0, of_zero, bits + step).view(x.dtype)
    return selection.where((x != x) | (y != y), x + y, selection.where(x == y, y, moved))


nextafter = Elementwise("nextafter", _nextafter, None)


_ATAN2 = Elementwise("atan2", torch.atan2, (lambda y, x: x / (x * x + y * y), lambda y, x: -y / (x * x + y * y)))


def atan2(y: Tensor, x: Tensor) -> Tensor:
    """Return the angle of (x, y); for complex operands, its analytic continuation."""
    if not y.dtype.is_complex:
        return torch.atan2(y, x) if is_plain_evaluation() else _ATAN2(y, x)
    return -1j * torch.log((x + 1j * y) / torch.sqrt(x * x + y * y))


# Bits


def _words(x: Tensor) -> Tensor:
    """Return the bits of integers of at most 32 as int32, which processors have the most lanes for."""
    if x.dtype is torch.uint32:
        return x.view(torch.int32)
    bits = x.dtype.itemsize * 8
    return x if bits == 32 else x.to(torch.int32) & ((1 << bits) - 1)


def _halves(x: Tensor) -> tuple[Tensor, Tensor]:
    wide = x.view(torch.int64) if x.dtype is torch.uint64 else x
    return (wide >> 32) & 0xFFFFFFFF, wide & 0xFFFFFFFF


def _count_bits(x: Tensor) -> Tensor:
    # Warren, Hacker's Delight, 5-1: counts of pairs of bits, of fours and of bytes, and the sum of the bytes.
    x = x - ((x >> 1) & 0x55555555)
    x = (x & 0x33333333) + ((x >> 2) & 0x33333333)
    x = (x + (x >> 4)) & 0x0F0F0F0F
    return (x * 0x01010101) >> 24


def population_count(x: Tensor) -> Tensor:
    """Return the number of set bits of integers."""
    if x.dtype.itemsize == 8:
        high, low = (half.to(torch.int32) for half in _halves(x))
        return (_count_bits(high) + _count_bits(low)).to(x.dtype)
    return _count_bits(_words(x)).to(x.dtype)


def _bit_length(x: Tensor) -> Tensor:
    for shift in (1, 2, 4, 8, 16):
        x = x | (x >> shift)
    return _count_bits(x)


def count_leading_zeros(x: Tensor) -> Tensor:
    """Return the number of leading zero bits of integers."""
    bits = x.dtype.itemsize * 8
    if bits == 64:
        high, low = (half.to(torch.int32) for half in _halves(x))
        length = selection.where(high != 0, 32 + _bit_length(high), _bit_length(low))
    else:
        length = _bit_length(_words(x))
    return (bits - length).to(x.dtype)


def multiply_high(x: Tensor, y: Tensor) -> Tensor:
    """Return the upper half of the product of integers, which has twice their bits."""
    bits = x.dtype.itemsize * 8
    if bits < 32 or x.dtype is torch.int32:
        return ((x.to(torch.int64) * y.to(torch.int64)) >> bits).to(x.dtype)
    if bits == 32:
        return unsigned.shift_right_logical(
            x.to(torch.int64) * y.to(torch.int64), torch.full_like(x, 32, dtype=torch.int64)
        ).to(x.dtype)
    (x_high, x_low), (y_high, y_low) = _halves(x), _halves(y)

    def upper(t: Tensor) -> Tensor:
        return (t >> 32) & 0xFFFFFFFF

    # Schoolbook multiplication in digits of 32 bits; the partial products are unsigned 64-bit numbers.
    carry = upper(x_low * y_low)
    middle = x_high * y_low
    other = x_low * y_high
    low_sum = (middle & 0xFFFFFFFF) + (other & 0xFFFFFFFF) + carry
    high = x_high * y_high + upper(middle) + upper(other) + upper(low_sum)
    if x.dtype is torch.uint64:
        return high.view(torch.uint64)
    return high - selection.where(x < 0, y, 0) - selection.where(y < 0, x, 0)


def reduced_precision(x: Tensor, exponent_bits: int, mantissa_bits: int) -> Tensor:
    """Return x rounded to a floating format with this many bits; slope 1."""
    return Elementwise(
        "reduce_precision", lambda t: _reduced_precision(t, exponent_bits, mantissa_bits), (torch.ones_like,),
        parameters=(exponent_bits, mantissa_bits),
    )(x)  # fmt: skip


# Integer dtype of the bits, mantissa bits, exponent bits.
_FORMATS = {
    torch.float16: (torch.int16, 10, 5),
    torch.bfloat16: (torch.int16, 7, 8),
    torch.float32: (torch.int32, 23, 8),
    torch.float64: (torch.int64, 52, 11),
}


def _reduced_precision(x: Tensor, exponent_bits: int, mantissa_bits: int) -> Tensor:
    if x.dtype not in _FORMATS:
        return _reduced_precision(x.float(), exponent_bits, mantissa_bits).to(x.dtype)
    integer, mantissa, exponent = _FORMATS[x.dtype]
    # Contiguous, since a scalar expanded or sliced has no bits of its own to view.
    bits = x.contiguous().view(integer)
    if mantissa_bits < mantissa:
        dropped = mantissa - mantissa_bits
        last_kept = (bits >> dropped) & 1
        bits = (bits + (last_kept + (1 << (dropped - 1)) - 1)) & ~((1 << dropped) - 1)
    rounded = bits.view(x.dtype)
    if exponent_bits < exponent:
        bias = (1 << (exponent_bits - 1)) - 1
        largest = 2.0 ** (bias + 1)
        size = rounded.abs()
        rounded = selection.where(size >= largest, torch.copysign(torch.full_like(x, math.inf), x), rounded)
        rounded = selection.where(size < 2.0 ** (1 - bias), torch.copysign(torch.zeros_like(x), x), rounded)
    return selection.where(x != x, x, rounded)
