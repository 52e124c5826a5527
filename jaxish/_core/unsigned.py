"""uint16, uint32 and uint64 arithmetic, which torch stores but mostly does not compute with (2.9 to 2.13).

Three ideas carry all of it. Wrap-around operations and moves of elements are the same on the signed view of the
bits (`via_bits`; a view costs nothing and fuses). Order is the signed order after flipping the sign bit
(`via_order`). Division goes by way of a wider type, or of half the dividend where there is none. Nobody else knows
about this: every function here takes tensors of any dtype, and hands all but the three to torch.

Integer division and shifts are here for signed integers too, since torch raises, or leaves undefined, where XLA has
a value: x / 0 has all bits set, x % 0 is x, the least integer / -1 is itself, shifts by more than the width give zero
(or the sign).
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from . import graph, narrow
from .dtypes import HALVES, NARROW

SIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}


def via_bits(operation: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    """Apply an operation that does not depend on the sign (add, mul, shift left, gather, flip, ...) to the bits."""
    dtype = tensors[0].dtype
    if dtype not in SIGNED:
        return operation(*tensors)
    signed = SIGNED[dtype]
    return operation(*(t.view(signed) if t.dtype is dtype else t for t in tensors)).view(dtype)


def ordered(tensor: Tensor) -> Tensor:
    """Return a signed tensor whose order is that of the unsigned `tensor`; other dtypes as they are."""
    signed = SIGNED.get(tensor.dtype)
    return tensor if signed is None else tensor.view(signed) ^ torch.iinfo(signed).min


def from_ordered(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """Invert `ordered`."""
    signed = SIGNED.get(dtype)
    return tensor if signed is None else (tensor ^ torch.iinfo(signed).min).view(dtype)


def via_order(operation: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    """Apply an operation that picks elements by their order (maximum, amin, sort, ...)."""
    dtype = tensors[0].dtype
    return operation(*tensors) if dtype not in SIGNED else from_ordered(operation(*map(ordered, tensors)), dtype)


# Wrap-around arithmetic


def add(a: Tensor, b: Tensor) -> Tensor:
    """Return a + b."""
    return torch.add(a, b) if a.dtype not in SIGNED else via_bits(torch.add, a, b)


def sub(a: Tensor, b: Tensor) -> Tensor:
    """Return a - b."""
    return torch.sub(a, b) if a.dtype not in SIGNED else via_bits(torch.sub, a, b)


def mul(a: Tensor, b: Tensor) -> Tensor:
    """Return a * b."""
    return torch.mul(a, b) if a.dtype not in SIGNED else via_bits(torch.mul, a, b)


def neg(a: Tensor) -> Tensor:
    """Return -a."""
    return torch.neg(a) if a.dtype not in SIGNED else via_bits(torch.neg, a)


def abs(a: Tensor) -> Tensor:
    """Return the absolute values."""
    return torch.abs(a) if a.dtype not in SIGNED else a


def sign(a: Tensor) -> Tensor:
    """Return the signs of integers: -1, 0 or 1."""
    return torch.sign(a) if a.dtype not in SIGNED else via_bits(lambda t: (t != 0).to(t.dtype), a)


def bitwise(operation: Callable[..., Tensor], a: Tensor, b: Tensor) -> Tensor:
    """Apply torch.bitwise_and, bitwise_or or bitwise_xor, which torch has for all integers on the CPU, and only there."""
    return operation(a, b) if a.is_cpu else via_bits(operation, a, b)


def bitwise_not(a: Tensor) -> Tensor:
    """Return ~a."""
    return torch.bitwise_not(a) if a.dtype not in SIGNED else via_bits(torch.bitwise_not, a)


# Shifts


def shift_left(a: Tensor, b: Tensor) -> Tensor:
    """Return a << b; zero where b, read as unsigned, is not below the width."""
    return torch.bitwise_left_shift(a, b) if a.dtype not in SIGNED else via_bits(torch.bitwise_left_shift, a, b)


def shift_right_arithmetic(a: Tensor, b: Tensor) -> Tensor:
    """Return a >> b with the sign bit copied in, unsigned integers read as signed."""
    if a.dtype is not torch.uint8:
        return via_bits(torch.bitwise_right_shift, a, b)
    # A shift by more than the width, negative when read as signed, must still shift everything out.
    return torch.bitwise_right_shift(a.view(torch.int8), b.clamp(max=8).view(torch.int8)).view(torch.uint8)


def shift_right_logical(a: Tensor, b: Tensor) -> Tensor:
    """Return a >> b with zeros shifted in, signed integers read as unsigned."""
    if a.dtype is torch.uint8:
        return torch.bitwise_right_shift(a, b)
    return via_bits(_shift_right_logical, a, b)


def _shift_right_logical(a: Tensor, b: Tensor) -> Tensor:
    if a.dtype in NARROW:
        return narrow.via_codes(shift_right_logical, a, b)
    top = torch.iinfo(a.dtype).max
    return torch.where(b == 0, a, torch.bitwise_right_shift((a >> 1) & top, b - 1))


# Comparison


def eq(a: Tensor, b: Tensor) -> Tensor:
    """Return a == b."""
    return torch.eq(a, b) if a.dtype not in SIGNED else torch.eq(ordered(a), ordered(b))


def ne(a: Tensor, b: Tensor) -> Tensor:
    """Return a != b."""
    return torch.ne(a, b) if a.dtype not in SIGNED else torch.ne(ordered(a), ordered(b))


def lt(a: Tensor, b: Tensor) -> Tensor:
    """Return a < b."""
    return torch.lt(a, b) if a.dtype not in SIGNED else torch.lt(ordered(a), ordered(b))


def le(a: Tensor, b: Tensor) -> Tensor:
    """Return a <= b."""
    return torch.le(a, b) if a.dtype not in SIGNED else torch.le(ordered(a), ordered(b))


def gt(a: Tensor, b: Tensor) -> Tensor:
    """Return a > b."""
    return torch.gt(a, b) if a.dtype not in SIGNED else torch.gt(ordered(a), ordered(b))


def ge(a: Tensor, b: Tensor) -> Tensor:
    """Return a >= b."""
    return torch.ge(a, b) if a.dtype not in SIGNED else torch.ge(ordered(a), ordered(b))


def maximum(a: Tensor, b: Tensor) -> Tensor:
    """Return the greater of a and b."""
    return torch.maximum(a, b) if a.dtype not in SIGNED else via_order(torch.maximum, a, b)


def minimum(a: Tensor, b: Tensor) -> Tensor:
    """Return the lesser of a and b."""
    return torch.minimum(a, b) if a.dtype not in SIGNED else via_order(torch.minimum, a, b)


# Division of integers


def div(a: Tensor, b: Tensor) -> Tensor:
    """Return integers divided, rounded towards zero; all bits set where b is zero."""
    if a.dtype in NARROW:
        return narrow.via_wide(div, a, b)
    if a.dtype is torch.uint64:
        return _divide_64(a, b)[0]
    if a.dtype in SIGNED:
        x, y = a.to(torch.int64), b.to(torch.int64)
        return _narrowed(torch.where(y == 0, -1, torch.div(x, _nonzero(y), rounding_mode="trunc")), a.dtype)
    if a.dtype is torch.uint8:
        return torch.where(b == 0, 255, torch.div(a, _nonzero(b), rounding_mode="trunc")).to(a.dtype)
    # The least integer divided by -1 traps on some processors: negate instead.
    quotient = torch.where(b == -1, -a, torch.div(a, _divisor(b), rounding_mode="trunc"))
    return torch.where(b == 0, -1, quotient)


def rem(a: Tensor, b: Tensor) -> Tensor:
    """Return the remainder of integers with the sign of a; a where b is zero."""
    if a.dtype in NARROW:
        return narrow.via_wide(rem, a, b)
    if a.dtype is torch.uint64:
        return _divide_64(a, b)[1]
    if a.dtype in SIGNED:
        x, y = a.to(torch.int64), b.to(torch.int64)
        return _narrowed(torch.where(y == 0, x, torch.fmod(x, _nonzero(y))), a.dtype)
    if a.dtype is torch.uint8:
        return torch.where(b == 0, a, torch.fmod(a, _nonzero(b)))
    remainder = torch.where(b == -1, 0, torch.fmod(a, _divisor(b)))
    return torch.where(b == 0, a, remainder)


def floor_divide(a: Tensor, b: Tensor) -> Tensor:
    """Return integers divided, rounded down, as jax.numpy computes it from `div` and `rem`."""
    if a.dtype in NARROW:
        return narrow.via_wide(floor_divide, a, b)
    quotient = div(a, b)
    if a.dtype is torch.uint8 or a.dtype in SIGNED:
        return quotient
    return torch.where((torch.sign(a) != torch.sign(b)) & (rem(a, b) != 0), quotient - 1, quotient)


def remainder(a: Tensor, b: Tensor) -> Tensor:
    """Return the remainder of integers with the sign of b, as jax.numpy computes it from `rem`."""
    if a.dtype in NARROW:
        return narrow.via_wide(remainder, a, b)
    found = rem(a, b)
    if a.dtype is torch.uint8 or a.dtype in SIGNED:
        return found
    return torch.where((found != 0) & ((found < 0) != (b < 0)), found + b, found)


def _nonzero(b: Tensor) -> Tensor:
    return torch.where(b == 0, 1, b)


def _divisor(b: Tensor) -> Tensor:
    return torch.where((b == 0) | (b == -1), 1, b)


def _narrowed(wide: Tensor, dtype: torch.dtype) -> Tensor:
    return wide.to(SIGNED[dtype]).view(dtype)


def _divide_64(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    # Warren, Hacker's Delight, 9-3: unsigned division by way of signed division of half the dividend.
    dividend, divisor = a.view(torch.int64), b.view(torch.int64)
    half = (dividend >> 1) & torch.iinfo(torch.int64).max
    quotient = torch.div(half, torch.where(divisor > 0, divisor, 1), rounding_mode="trunc") << 1
    rest = dividend - quotient * divisor
    above = ge(rest.view(a.dtype), b)
    quotient, rest = torch.where(above, quotient + 1, quotient), torch.where(above, rest - divisor, rest)
    # A divisor of 2**63 or more, negative as a signed integer, goes in once or not at all.
    once = ge(a, b)
    quotient = torch.where(divisor < 0, once.to(torch.int64), quotient)
    rest = torch.where(divisor < 0, torch.where(once, dividend - divisor, dividend), rest)
    quotient, rest = torch.where(divisor == 0, -1, quotient), torch.where(divisor == 0, dividend, rest)
    return quotient.view(a.dtype), rest.view(a.dtype)


# Reduction and scans: the result has the dtype of the operand (torch widens the sums of integers)


def sum(a: Tensor, dims: Sequence[int], keepdim: bool = False) -> Tensor:
    """Return the sums over `dims`, all of which must be given; over none, `a` itself."""
    return via_bits(lambda t: torch.sum(t, tuple(dims), keepdim, dtype=t.dtype), a) if dims else a


def prod(a: Tensor, dim: int, keepdim: bool = False) -> Tensor:
    """Return the products over one dimension."""
    return via_bits(lambda t: torch.prod(t, dim, keepdim, dtype=t.dtype), a)


def amax(a: Tensor, dims: Sequence[int], keepdim: bool = False) -> Tensor:
    """Return the greatest elements over `dims`; over none, `a` itself."""
    return via_order(lambda t: torch.amax(t, tuple(dims), keepdim), a) if dims else a


def amin(a: Tensor, dims: Sequence[int], keepdim: bool = False) -> Tensor:
    """Return the least elements over `dims`; over none, `a` itself."""
    return via_order(lambda t: torch.amin(t, tuple(dims), keepdim), a) if dims else a


def cumsum(a: Tensor, dim: int) -> Tensor:
    """Return the running sums."""
    return via_bits(lambda t: torch.cumsum(t, dim, dtype=t.dtype), a)


def cumprod(a: Tensor, dim: int) -> Tensor:
    """Return the running products."""
    return via_bits(lambda t: torch.cumprod(t, dim, dtype=t.dtype), a)


def cummax(a: Tensor, dim: int) -> Tensor:
    """Return the running maxima."""
    return via_order(lambda t: torch.cummax(t, dim).values, a)


def cummin(a: Tensor, dim: int) -> Tensor:
    """Return the running minima."""
    return via_order(lambda t: torch.cummin(t, dim).values, a)


def sort(a: Tensor, dim: int = -1, descending: bool = False, stable: bool = True) -> tuple[Tensor, Tensor]:
    """Return sorted values and the indices of the sorted elements."""
    if not graph.tracing and a.numel() >= _MANY_SORTED and a.is_cpu:
        return sort_of_many(a, dim=dim, descending=descending)
    if a.is_floating_point() and not a.is_cpu:  # torch's sort for GPUs takes NaNs with a sign for the least numbers
        a = torch.where(a != a, torch.nan, a)
    values, indices = torch.sort(ordered(a), dim=dim, descending=descending, stable=stable)
    return from_ordered(values, a.dtype), indices


_MANY_SORTED = 1 << 15  # from which on torch sorts integers by their digits


def sort_of_many(a: Tensor, *, stable: bool = True, dim: int = -1, descending: bool = False) -> tuple[Tensor, Tensor]:
    """Return what `sort` does, by torch's fastest way on a CPU: always stable, and as ascending integers.

    Those torch sorts by their digits, if they are one row: a million in 15 ms, where floats take 130 and descending ones 95.
    """
    if a.is_floating_point():
        keys = _ordered_floats(a.detach()) if a.dtype in _BITS else None
    else:
        keys = None if a.dtype is torch.bool else ordered(a)
    if keys is None or not a.dim():
        return torch.sort(a, dim=dim, descending=descending, stable=stable)
    values, indices = torch.sort(~keys if descending else keys, dim=dim, stable=True)
    if a.is_floating_point():  # from their integers zeros would have no sign
        return torch.gather(a, dim, indices), indices
    return from_ordered(~values if descending else values, a.dtype), indices


_BITS = {
    torch.float16: torch.int16,
    torch.bfloat16: torch.int16,
    torch.float32: torch.int32,
    torch.float64: torch.int64,
}


def _ordered_floats(a: Tensor) -> Tensor:
    """Return integers in the order of the numbers: the zeros are equal, and so are all NaN, which are greatest."""
    numbers = ordered_bits(a.view(_BITS[a.dtype]))
    return torch.where(a == 0, 0, torch.where(a != a, torch.iinfo(numbers.dtype).max, numbers))


def ordered_bits(bits: Tensor) -> Tensor:
    """Return integers in the order of the floating numbers that have these bits: by sign and magnitude."""
    return bits ^ ((bits >> (8 * bits.dtype.itemsize - 1)) & torch.iinfo(bits.dtype).max)


def flip(a: Tensor, dims: Sequence[int]) -> Tensor:
    """Return `a` with the order of the elements reversed along `dims`."""
    return via_bits(lambda t: torch.flip(t, tuple(dims)), a)


def matmul(a: Tensor, b: Tensor) -> Tensor:
    """Return the matrix product of two matrices, or batches of them."""
    if a.dtype in NARROW:
        return narrow.via_wide(matmul, a, b)
    wide = product_dtype(a, b)
    if wide is not a.dtype:
        return torch.matmul(a.to(wide), b.to(wide)).to(a.dtype)
    return bilinear(torch.matmul, a, b)


_DIGIT = 16  # bits


def bilinear(product: Callable[[Tensor, Tensor], Tensor], a: Tensor, b: Tensor) -> Tensor:
    """Return a matrix product or another sum of products, of integers modulo their range.

    Devices but the CPU multiply floating matrices only: there it is made of products of digits, whose sums are exact in float64
    for up to 2**20 terms. Those beyond the range are left out.
    """
    if a.is_cpu or a.is_floating_point() or a.is_complex():
        return product(a, b) if a.dtype not in SIGNED else via_bits(product, a, b)
    count = max(1, 8 * a.dtype.itemsize // _DIGIT)
    of_a, of_b = _digits(a, count), _digits(b, count)
    total = functools.reduce(
        torch.add,
        (
            product(of_a[i], of_b[place - i]).to(torch.int64) << (_DIGIT * place)
            for place in range(count)
            for i in range(place + 1)
        ),
    )
    return total.to(SIGNED.get(a.dtype, a.dtype)).view(a.dtype)


def _digits(a: Tensor, count: int) -> list[Tensor]:
    """Return the digits of integers, lowest first, as float64; the highest one has the sign."""
    wide = a.view(SIGNED.get(a.dtype, a.dtype)).to(torch.int64)
    low = [(wide >> (_DIGIT * i)) & (2**_DIGIT - 1) for i in range(count - 1)]
    return [digit.double() for digit in (*low, wide >> (_DIGIT * (count - 1)))]


_FEW_PRODUCTS = 1 << 12  # below, the conversions cost more


def product_dtype(a: Tensor, b: Tensor) -> torch.dtype:
    """Return the dtype in which to multiply tensors of one dtype, which sums round to at the end.

    It is float32 for 16-bit floats where the processor has no instructions for them: torch multiplies those one number
    at a time, which takes 50 times as long.
    """
    slow = a.dtype in HALVES and a.device.type == "cpu" and not _has(a.dtype)
    return torch.float32 if slow and a.numel() * b.shape[-1:].numel() >= _FEW_PRODUCTS else a.dtype


@functools.cache
def _has(dtype: torch.dtype) -> bool:
    known: Any = torch.ops.mkldnn
    if not torch.backends.mkldnn.is_available():
        return False
    return known._is_mkldnn_bf16_supported() if dtype is torch.bfloat16 else known._is_mkldnn_fp16_supported()
