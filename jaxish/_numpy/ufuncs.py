"""Arithmetic, comparison, logical and bitwise functions. Elementary functions stand in elementary.py."""

import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeGuard

import numpy as np
import torch
from torch import Tensor

from .._compile import special_products
from .._core import config, dtypes, graph, selection, unsigned
from .._core.array import Array, as_array, check_arraylike, is_abstract, tensor_of
from .._core.extended import compares_elements
from .._core.promotion import check_rank_promotion, convert, promote, promote_inexact
from .._core.typing import ArrayLike
from .._core.unsigned import SIGNED
from .._tensors import arithmetic, ordering
from .._transforms.repeated import compiled_when_repeated
from .._transforms.shown_calls import shown_as_jit
from . import cumulative, reductions, ufunc_reductions
from .arguments import int_dtype, pair, pair_inexact, without_strong_arrays
from .ufunc_object import binary_ufunc, unary_ufunc


def _pair_numeric(function: str, x1: Any, x2: Any) -> tuple[Tensor, Tensor, bool]:
    a, b, weak = pair(function, x1, x2)
    if a.dtype is torch.bool:
        return a.to(int_dtype()), b.to(int_dtype()), False
    return a, b, weak


def _refuse(function: str, tensor: Tensor, *kinds: str) -> None:
    if dtypes.kind_of(dtypes.TO_NUMPY[tensor.dtype]) in kinds:
        raise TypeError(f"{function} does not accept dtype {dtypes.TO_NUMPY[tensor.dtype]}.")


# ------------------------------------------------------------------------------------------------------- arithmetic


def _wide_booleans(name: str) -> Callable[..., Array]:
    def at(a: Array, indices: Any, b: Any) -> Array:
        if a._tensor.dtype is not torch.bool:
            return getattr(a.at[indices], name)(b)  # pyright: ignore
        wide = as_array(a).astype("int32")  # pyright: ignore
        return getattr(wide.at[indices], name)(as_array(b).astype(bool).astype("int32")).astype(bool)  # pyright: ignore

    return at


@binary_ufunc(identity=0, reduce=reductions.sum, accumulate=cumulative.cumsum, at=_wide_booleans("add"))
def add(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Return x + y, element by element; the logical or of booleans."""
    a, b, weak = pair("add", x, y)
    return Array(unsigned.add(a, b), weak)


@binary_ufunc(at=lambda a, indices, b: a.at[indices].subtract(b))
def subtract(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Return x - y, element by element. Raises `TypeError` for booleans."""
    a, b, weak = pair("subtract", x, y)
    _refuse("subtract", a, "b")
    return Array(unsigned.sub(a, b), weak)


@binary_ufunc(identity=1, reduce=reductions.prod, accumulate=cumulative.cumprod, at=_wide_booleans("mul"))
def multiply(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Return x * y, element by element; the logical and of booleans."""
    if not graph.tracing:
        mask, other = (x, y) if _is_mask(x) else (y, x)
        if _is_mask(mask) and (selected := _selected(mask, other)) is not None:
            return selected
    a, b, weak = pair("multiply", x, y)
    return Array(unsigned.mul(a, b), weak)


def _selected(mask: Array | np.ndarray, x: Any) -> Array | None:
    """Return the product with a mask, if it is one that graphs compute by selection."""
    if type(x) is Array and x._tensor.dtype not in special_products.DTYPES:
        return None
    is_short_way = type(x) is Array and not x._weak and config.numpy_dtype_promotion.value != "strict"
    numbers, zero, weak = (tensor_of(x), 0.0, False) if is_short_way else pair("multiply", x, False)
    if numbers.dtype not in special_products.DTYPES or not _fits(numbers.shape, mask.shape):
        return None
    chosen = tensor_of(as_array(mask, numbers.device))
    if chosen.dim() != numbers.dim():
        check_rank_promotion("multiply", numbers, chosen)
    return Array(selection.where(chosen, numbers, zero), weak)


def _fits(shape: Sequence[int], mask: Sequence[int]) -> bool:
    """Tell whether numbers of a shape are broadcast to that of a mask, which stays as it is."""
    return len(shape) <= len(mask) and all(n in (1, m) for n, m in zip(reversed(shape), reversed(mask), strict=False))


def _is_mask(x: Any) -> TypeGuard[Array | np.ndarray]:
    return x._tensor.dtype is torch.bool if type(x) is Array else isinstance(x, np.ndarray) and x.dtype == bool


@unary_ufunc
def negative(x: ArrayLike, /) -> Array:
    """Return -x, element by element. Raises `TypeError` for booleans."""
    (a,), weak = promote("neg", x)
    _refuse("neg", a, "b")
    return Array(unsigned.neg(a), weak)


def positive(x: ArrayLike, /) -> Array:
    """Return x."""
    (a,), weak = promote("positive", x)
    return Array(a, weak)


def true_divide(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return x1 / x2 as floating or complex numbers."""
    a, b, weak = pair_inexact("true_divide", x1, x2)
    return Array(torch.div(a, b), weak)


def divide(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return x1 / x2 as floating or complex numbers."""
    return true_divide(x1, x2)


@shown_as_jit()
def floor_divide(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return the largest integers not above x1 / x2. Raises `TypeError` for complex numbers."""
    a, b, weak = _pair_numeric("floor_divide", x1, x2)
    _refuse("floor_divide", a, "c")
    if a.is_floating_point():
        return Array(torch.div(a, b, rounding_mode="floor"), weak)
    return Array(arithmetic.floor_divide(a, b), weak)


@shown_as_jit()
def remainder(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return the remainder of x1 / x2 with the sign of x2; integers modulo zero give zero."""
    a, b, weak = _pair_numeric("remainder", x1, x2)
    _refuse("remainder", a, "c")
    if a.is_floating_point():
        return Array(torch.remainder(a, b), weak)
    return Array(arithmetic.remainder(a, b), weak)


def mod(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return the remainder of x1 / x2 with the sign of x2; integers modulo zero give zero."""
    return remainder(x1, x2)


@shown_as_jit()
def fmod(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return the remainder of x1 / x2 with the sign of x1; integers modulo zero give zero."""
    a, b, weak = _pair_numeric("fmod", x1, x2)
    _refuse("fmod", a, "c")
    if a.is_floating_point():
        return Array(torch.fmod(a, b), weak)
    both_bool = all(as_array(x)._tensor.dtype is torch.bool for x in (x1, x2))
    return Array((arithmetic.rem if both_bool else arithmetic.fmod)(a, b), weak)


@shown_as_jit()
def divmod(x1: ArrayLike, x2: ArrayLike, /) -> tuple[Array, Array]:
    """Return `floor_divide(x1, x2)` and `remainder(x1, x2)`."""
    a, b, weak = _pair_numeric("divmod", x1, x2)
    x1, x2 = Array(a, weak), Array(b, weak)
    return floor_divide(x1, x2), remainder(x1, x2)


def _exponent(x: Any) -> int | None:
    """Return the value of a known integer exponent, or None."""
    if type(x) is int:
        return x
    if isinstance(x, Array) and (x.ndim or is_abstract(x)):
        return None
    try:
        return operator.index(x)
    except TypeError:
        return None


def power(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return x1 to the power x2. An integer x2 whose value is known keeps the dtype of x1.

    Raises `TypeError` for integers to a known negative power.
    """
    check_arraylike("power", x1, x2)
    exponent = _exponent(x2)
    if exponent is not None:
        (a,), weak = promote("power", x1)
        if a.dtype is torch.bool:
            a, weak = a.to(int_dtype()), False
        if exponent < 0 and not (a.is_floating_point() or a.is_complex()):
            raise TypeError(f"Integers cannot be raised to negative powers, got x ** {exponent}.")
        if exponent > 127 and not (a.is_floating_point() or a.is_complex()):
            return Array(_large_power(a, exponent), weak)  # torch refuses an exponent that the dtype cannot hold
        return Array(arithmetic.integer_power(a, exponent), weak)
    first, second = as_array(x1), as_array(x2)
    a, b, weak = _pair_numeric("power", x1, x2)
    if not (a.is_floating_point() or a.is_complex()):
        return Array(_int_power(a, b))
    source = first._tensor.dtype
    other = second._tensor.dtype
    whole = not (other.is_floating_point or other.is_complex or other is torch.bool)
    if (source.is_floating_point or source.is_complex) and whole:
        weak = first.weak_type and second.weak_type
    return Array(arithmetic.power(a, b), weak)


def pow(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return x1 to the power x2; see `power`."""
    return power(x1, x2)


def _large_power(a: Tensor, exponent: int) -> Tensor:
    result = torch.ones_like(a)
    while exponent:
        if exponent & 1:
            result = unsigned.mul(result, a)
        a = unsigned.mul(a, a)
        exponent >>= 1
    return result


def _int_power(a: Tensor, b: Tensor) -> Tensor:
    # XLA's result for exponents of 64 and more and for negative ones is that of the lowest six bits.
    dtype = a.dtype
    if dtype in SIGNED:
        a, b = a.view(SIGNED[dtype]), b.view(SIGNED[dtype])
    result = selection.where((a == 0) & (b != 0), 0, 1).to(a.dtype)
    for bit in range(6):
        result = selection.where(((b >> bit) & 1) != 0, result * a, result)
        a = a * a
    return result.view(dtype)


def float_power(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Return x to the power y as floating or complex numbers."""
    a, b, weak = pair_inexact("float_power", x, y)
    return Array(arithmetic.power(a, b), weak)


def square(x: ArrayLike, /) -> Array:
    """Return x * x."""
    (a,), weak = promote("square", x)
    if a.dtype is torch.bool:
        a, weak = a.to(int_dtype()), False
    return Array(arithmetic.square(a), weak)


def reciprocal(x: ArrayLike, /) -> Array:
    """Return 1 / x as floating or complex numbers."""
    (a,), weak = promote_inexact("reciprocal", x)
    return Array(torch.reciprocal(a), weak)


def absolute(x: ArrayLike, /) -> Array:
    """Return the absolute value of x: real for complex numbers, x itself for booleans."""
    (a,), weak = promote("abs", x)
    return Array(a if a.dtype is torch.bool else arithmetic.absolute(a), weak)


def abs(x: ArrayLike, /) -> Array:
    """Return the absolute value of x: real for complex numbers, x itself for booleans."""
    return absolute(x)


def fabs(x: ArrayLike, /) -> Array:
    """Return the absolute value of x as floating numbers. Raises `TypeError` for complex numbers."""
    (a,), weak = promote_inexact("fabs", x)
    _refuse("fabs", a, "c")
    return Array(arithmetic.absolute(a), weak)


@compiled_when_repeated
def sign(x: ArrayLike, /) -> Array:
    """Return -1, 0 or 1; x / |x| for complex numbers, NaN for NaN. Raises `TypeError` for booleans."""
    (a,), weak = promote("sign", x)
    _refuse("sign", a, "b")
    return Array(arithmetic.sign(a), weak)


@binary_ufunc(reduce=ufunc_reductions.reduce_max)
def maximum(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Return the larger of x and y, NaN where one is NaN; complex numbers are ordered by real, then imaginary part.

    Where they are equal, the derivative is shared evenly.
    """
    a, b, weak = pair("maximum", x, y)
    return Array(ordering.maximum(a, b), weak)


@binary_ufunc(reduce=ufunc_reductions.reduce_min)
def minimum(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Return the smaller of x and y, NaN where one is NaN; complex numbers are ordered by real, then imaginary part.

    Where they are equal, the derivative is shared evenly.
    """
    a, b, weak = pair("minimum", x, y)
    return Array(ordering.minimum(a, b), weak)


@shown_as_jit()
def fmax(x1: ArrayLike, x2: ArrayLike) -> Array:
    """Return the larger of x1 and x2; where one is NaN, the other. Where they are equal, x2 has the derivative."""
    a, b, weak = pair("fmax", x1, x2)
    return Array(selection.where(ordering.compared(unsigned.gt, a, b) | (b != b), a, b), weak)


@shown_as_jit()
def fmin(x1: ArrayLike, x2: ArrayLike) -> Array:
    """Return the smaller of x1 and x2; where one is NaN, the other. Where they are equal, x2 has the derivative."""
    a, b, weak = pair("fmin", x1, x2)
    return Array(selection.where(ordering.compared(unsigned.lt, a, b) | (b != b), a, b), weak)


@shown_as_jit()
def clip(arr: ArrayLike | None = None, /, min: ArrayLike | None = None, max: ArrayLike | None = None) -> Array:
    """Return `arr` limited to [min, max] (None: no bound). Raises `ValueError` for complex numbers."""
    if arr is None:
        raise ValueError("At most one of a_min and a_max may be None; clip needs an array.")
    check_arraylike("clip", arr)
    if any(_is_complex(v) for v in (arr, min, max)):
        raise ValueError(
            "Clip received a complex value either through the input or the min/max keywords. Complex values have no "
            "ordering and cannot be clipped. Clip the real and imaginary parts."
        )
    found = as_array(arr)
    if min is not None:
        found = maximum(min, found)
    return found if max is None else minimum(max, found)


def _is_complex(x: Any) -> bool:
    kind = type(x)
    if x is None or kind is int or kind is float:
        return False
    return as_array(x)._tensor.is_complex()


# ------------------------------------------------------------------------------------------------------- comparison


def _compare(operation: Callable[..., Tensor], function: str, x: Any, y: Any) -> Array:
    a, b, weak = pair(function, x, y)
    return Array(ordering.compared(operation, a, b), weak)


@compares_elements("all")
def equal(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Tell where x == y."""
    a, b, weak = pair("equal", x, y)
    return Array(unsigned.eq(a, b), weak)


@compares_elements("any")
def not_equal(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Tell where x != y."""
    a, b, weak = pair("not_equal", x, y)
    return Array(unsigned.ne(a, b), weak)


def less(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Tell where x < y; complex numbers are ordered by real, then imaginary part."""
    return _compare(unsigned.lt, "less", x, y)


def less_equal(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Tell where x <= y; complex numbers are ordered by real, then imaginary part."""
    return _compare(unsigned.le, "less_equal", x, y)


def greater(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Tell where x > y; complex numbers are ordered by real, then imaginary part."""
    return _compare(unsigned.gt, "greater", x, y)


def greater_equal(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Tell where x >= y; complex numbers are ordered by real, then imaginary part."""
    return _compare(unsigned.ge, "greater_equal", x, y)


# ----------------------------------------------------------------------------------------------- logical and bitwise


def _operands(function: str, *args: Any) -> tuple[list[Tensor], bool]:
    if len(args) == 1:
        return promote(function, *args)
    a, b, weak = pair(function, *args)
    return [a, b], weak


def _truth(function: str, *args: Any) -> tuple[list[Tensor], bool]:
    found, weak = _operands(function, *args)
    return [convert(t, torch.bool) for t in found], weak and without_strong_arrays(*args)


@binary_ufunc(identity=True, reduce=ufunc_reductions.reduce_logical_and)
def logical_and(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Tell where both x and y are nonzero."""
    found, weak = _truth("logical_and", x, y)
    return Array(torch.logical_and(*found), weak)


@binary_ufunc(identity=False, reduce=ufunc_reductions.reduce_logical_or)
def logical_or(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Tell where x or y is nonzero."""
    found, weak = _truth("logical_or", x, y)
    return Array(torch.logical_or(*found), weak)


@binary_ufunc(identity=False, reduce=ufunc_reductions.reduce_logical_xor)
def logical_xor(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Tell where exactly one of x and y is nonzero."""
    found, weak = _truth("logical_xor", x, y)
    return Array(torch.logical_xor(*found), weak)


def logical_not(x: ArrayLike, /) -> Array:
    """Tell where x is zero."""
    found, weak = _truth("logical_not", x)
    return Array(torch.logical_not(*found), weak)


def _bits(function: str, *args: Any) -> tuple[list[Tensor], bool]:
    found, weak = _operands(function, *args)
    _refuse(function, found[0], "f", "c")
    return found, weak


@binary_ufunc(identity=-1, reduce=ufunc_reductions.reduce_bitwise_and)
def bitwise_and(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Return the bitwise and of integers or booleans. Raises `TypeError` for other dtypes."""
    (a, b), weak = _bits("bitwise_and", x, y)
    return Array(unsigned.bitwise(torch.bitwise_and, a, b), weak)


@binary_ufunc(identity=0, reduce=ufunc_reductions.reduce_bitwise_or)
def bitwise_or(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Return the bitwise or of integers or booleans. Raises `TypeError` for other dtypes."""
    (a, b), weak = _bits("bitwise_or", x, y)
    return Array(unsigned.bitwise(torch.bitwise_or, a, b), weak)


@binary_ufunc(identity=0, reduce=ufunc_reductions.reduce_bitwise_xor)
def bitwise_xor(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Return the bitwise exclusive or of integers or booleans. Raises `TypeError` for other dtypes."""
    (a, b), weak = _bits("bitwise_xor", x, y)
    return Array(unsigned.bitwise(torch.bitwise_xor, a, b), weak)


def invert(x: ArrayLike, /) -> Array:
    """Return integers with all bits flipped, or booleans negated. Raises `TypeError` for other dtypes."""
    (a,), weak = _bits("invert", x)
    return Array(unsigned.bitwise_not(a), weak)


def bitwise_not(x: ArrayLike, /) -> Array:
    """Return integers with all bits flipped, or booleans negated. Raises `TypeError` for other dtypes."""
    return invert(x)


def bitwise_invert(x: ArrayLike, /) -> Array:
    """Return integers with all bits flipped, or booleans negated. Raises `TypeError` for other dtypes."""
    return invert(x)


def _shift_operands(function: str, x1: Any, x2: Any) -> tuple[Tensor, Tensor, bool]:
    a, b, weak = _pair_numeric(function, x1, x2)
    _refuse(function, a, "f", "c")
    return a, b, weak


def left_shift(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Return the bits of x shifted left by y; zero where y is at least the number of bits, or negative."""
    a, b, weak = _shift_operands("left_shift", x, y)
    return Array(unsigned.shift_left(a, b), weak)


def bitwise_left_shift(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Return the bits of x shifted left by y; zero where y is at least the number of bits, or negative."""
    return left_shift(x, y)


def right_shift(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return the bits of x1 shifted right by x2; signed integers keep their sign."""
    a, b, weak = _shift_operands("right_shift", x1, x2)
    if a.dtype.is_signed:
        return Array(unsigned.shift_right_arithmetic(a, b), weak)
    return Array(unsigned.shift_right_logical(a, b), weak)


def bitwise_right_shift(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return the bits of x1 shifted right by x2; signed integers keep their sign."""
    return right_shift(x1, x2)
