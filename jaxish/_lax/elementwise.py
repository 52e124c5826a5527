"""Elementwise lax functions of one or several operands: arithmetic, comparison, bits, selection, conversion.

Operands are checked by `operands.py`; trigonometry and the like is in `transcendental.py`, special functions in
`special.py`.
"""

import enum
import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._core import dtypes, functorch, narrow, selection, unsigned
from .._core.array import Array, as_array, default_torch_device, device_of, tensor_of
from .._core.extended import compares_elements, moves_elements
from .._core.primitive import conjugate
from .._core.promotion import convert, shown
from .._core.typing import ArrayLike, DTypeLike
from .._tensors import arithmetic, ordering
from . import operands as ops
from .operands import operand, operands


class RoundingMethod(enum.IntEnum):
    """How `round` treats halves."""

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


# Arithmetic


def neg(x: ArrayLike) -> Array:
    """Return -x. `TypeError` for booleans."""
    t, weak = operand("neg", x, ops.NUMBER)
    return Array(unsigned.neg(t), weak)


def sign(x: ArrayLike) -> Array:
    """Return -1, 0 or 1 by the sign of x, zeros and NaN as they are; x / |x| for complex x."""
    t, weak = operand("sign", x, ops.NUMBER)
    return Array(arithmetic.sign(t), weak)


def abs(x: ArrayLike) -> Array:
    """Return |x|, real for complex x. `TypeError` for unsigned integers and booleans."""
    t, weak = operand("abs", x, ops.FLOATING | ops.COMPLEX | ops.SIGNED)
    return Array(arithmetic.absolute(t), weak)


def floor(x: ArrayLike) -> Array:
    """Return floating x rounded down."""
    t, weak = operand("floor", x, ops.FLOATING)
    return Array(torch.floor(t), weak)


def ceil(x: ArrayLike) -> Array:
    """Return floating x rounded up."""
    t, weak = operand("ceil", x, ops.FLOATING)
    return Array(torch.ceil(t), weak)


def round(x: ArrayLike, rounding_method: RoundingMethod = RoundingMethod.AWAY_FROM_ZERO) -> Array:
    """Return floating x rounded to the nearest integer, halves as `rounding_method` says."""
    method = RoundingMethod(rounding_method)
    t, weak = operand("round", x, ops.FLOATING)
    even = method is RoundingMethod.TO_NEAREST_EVEN
    return Array(torch.round(t) if even else arithmetic.round_away_from_zero(t), weak)


def is_finite(x: ArrayLike) -> Array:
    """Return whether floating x is neither infinite nor NaN."""
    t, weak = operand("is_finite", x, ops.FLOATING)
    return Array(torch.isfinite(t), weak)


def square(x: ArrayLike) -> Array:
    """Return x * x."""
    t, weak = operand("square", x, ops.NUMBER)
    return Array(arithmetic.square(t), weak)


def reciprocal(x: ArrayLike) -> Array:
    """Return 1 / x for inexact x."""
    return integer_pow(x, -1)


def integer_pow(x: ArrayLike, y: int) -> Array:
    """Return x to the power of a Python integer. `TypeError` for an integer x and negative y."""
    t, weak = operand("integer_pow", x, ops.NUMBER)
    if not isinstance(y, int | np.integer):
        raise TypeError(f"integer_pow requires a Python integer as exponent, got {y!r}; use lax.pow.")
    if y < 0 and t.dtype in ops.INTEGER.dtypes:
        name = dtypes.TO_NUMPY[t.dtype].name
        raise TypeError(f"Integers cannot be raised to negative powers, got integer_pow({name}{list(t.shape)}, {y})")
    return Array(arithmetic.integer_power(t, int(y)), weak)


def add(x: ArrayLike, y: ArrayLike) -> Array:
    """Return x + y. Dtypes must be equal and numeric, ranks equal or one operand a scalar (`TypeError`)."""
    (a, b), weak = operands("add", ops.NUMBER, x, y)
    return Array(unsigned.add(a, b), weak)


def sub(x: ArrayLike, y: ArrayLike) -> Array:
    """Return x - y. Dtypes must be equal and numeric, ranks equal or one operand a scalar (`TypeError`)."""
    (a, b), weak = operands("sub", ops.NUMBER, x, y)
    return Array(unsigned.sub(a, b), weak)


def mul(x: ArrayLike, y: ArrayLike, *, out_dtype: DTypeLike | None = None) -> Array:
    """Return x * y, converted first to `out_dtype` if that is given (dtypes may differ then)."""
    if out_dtype is not None:
        dtype = dtypes.to_torch(dtypes.requested_dtype(out_dtype, "mul"))
        (a, wa), (b, wb) = operand("mul", x, ops.NUMBER), operand("mul", y, ops.NUMBER)
        ops.check_broadcastable("mul", a, b)
        return Array(unsigned.mul(convert(a, dtype), convert(b, dtype)), wa and wb)
    (a, b), weak = operands("mul", ops.NUMBER, x, y)
    return Array(unsigned.mul(a, b), weak)


def mulhi(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Return the upper half of the bits of the product of integers."""
    (a, b), weak = operands("mulhi", ops.INTEGER, x, y)
    return Array(arithmetic.multiply_high(a, b), weak)


def div(x: ArrayLike, y: ArrayLike) -> Array:
    """Return x / y, integers rounded towards zero. An integer divided by zero has all bits set."""
    (a, b), weak = operands("div", ops.NUMBER, x, y)
    return Array(torch.div(a, b) if a.dtype in ops.INEXACT.dtypes else arithmetic.div(a, b), weak)


def rem(x: ArrayLike, y: ArrayLike) -> Array:
    """Return the remainder of x / y with the sign of x; for integers and y = 0, x itself."""
    (a, b), weak = operands("rem", ops.REAL, x, y)
    return Array(torch.fmod(a, b) if a.dtype in ops.FLOATING.dtypes else arithmetic.rem(a, b), weak)


def max(x: ArrayLike, y: ArrayLike) -> Array:
    """Return the greater operand; complex numbers are ordered by real, then imaginary part."""
    (a, b), weak = operands("max", ops.ANY, x, y)
    return Array(ordering.maximum(a, b), weak)


def min(x: ArrayLike, y: ArrayLike) -> Array:
    """Return the lesser operand; complex numbers are ordered by real, then imaginary part."""
    (a, b), weak = operands("min", ops.ANY, x, y)
    return Array(ordering.minimum(a, b), weak)


def pow(x: ArrayLike, y: ArrayLike) -> Array:
    """Return x**y for inexact x and an exponent of the same dtype, or of an integer one."""
    (a, wa), (b, wb) = (_power_operand(v, i, device_of(x, y)) for i, v in enumerate((x, y)))
    ops.check_accepted("pow", a, 0, ops.INEXACT)
    ops.check_accepted("pow", b, 1, ops.NUMBER)
    if b.dtype in ops.INEXACT.dtypes and a.dtype is not b.dtype:
        raise TypeError(
            "the first argument to pow must have an inexact dtype (float or complex), and the second argument must "
            "have an inexact or integer dtype, and two inexact dtypes must match, but got "
            f"{dtypes.TO_NUMPY[a.dtype]} and {dtypes.TO_NUMPY[b.dtype]} respectively."
        )
    ops.check_broadcastable("pow", a, b)
    if b.dtype in unsigned.SIGNED:
        b = b.to(torch.int64)
    return Array(arithmetic.power(a, b), wa and wb)


def _power_operand(x: Any, position: int, device: torch.device) -> tuple[Tensor, bool]:
    array = ops.array_of("pow", x, position, device)
    return tensor_of(array), array._weak


def nextafter(x1: ArrayLike, x2: ArrayLike) -> Array:
    """Return the floating number next to x1 in the direction of x2. Not differentiable."""
    (a, b), weak = operands("nextafter", ops.FLOATING, x1, x2)
    return Array(arithmetic.nextafter(a, b), weak)


# Complex numbers


def complex(x: ArrayLike, y: ArrayLike) -> Array:
    """Return x + i y for float32 or float64 operands."""
    (a, b), weak = operands("complex", ops.COMPLEX_PARTS, x, y)
    return Array(torch.complex(*torch.broadcast_tensors(a, b)), weak)


def real(x: ArrayLike) -> Array:
    """Return the real part of complex x."""
    t, weak = operand("real", x, ops.COMPLEX)
    return Array(t.real, weak)


def imag(x: ArrayLike) -> Array:
    """Return the imaginary part of complex x."""
    t, weak = operand("imag", x, ops.COMPLEX)
    return Array(t.imag, weak)


def conj(x: ArrayLike) -> Array:
    """Return the complex conjugate of x, which may be real: the result is complex."""
    t, weak = operand("conj", x, ops.COMPLEX_PARTS | ops.COMPLEX)
    return Array(conjugate(t) if t.dtype.is_complex else torch.complex(t, torch.zeros_like(t)), weak)


# Comparison


@compares_elements("all")
def eq(x: ArrayLike, y: ArrayLike) -> Array:
    """Return x == y elementwise."""
    (a, b), weak = operands("eq", ops.ANY, x, y)
    return Array(unsigned.eq(a, b), weak)


@compares_elements("any")
def ne(x: ArrayLike, y: ArrayLike) -> Array:
    """Return x != y elementwise."""
    (a, b), weak = operands("ne", ops.ANY, x, y)
    return Array(unsigned.ne(a, b), weak)


def ge(x: ArrayLike, y: ArrayLike) -> Array:
    """Return x >= y elementwise; complex operands are refused."""
    (a, b), weak = operands("ge", ops.ORDERED, x, y)
    return Array(unsigned.ge(a, b), weak)


def gt(x: ArrayLike, y: ArrayLike) -> Array:
    """Return x > y elementwise; complex operands are refused."""
    (a, b), weak = operands("gt", ops.ORDERED, x, y)
    return Array(unsigned.gt(a, b), weak)


def le(x: ArrayLike, y: ArrayLike) -> Array:
    """Return x <= y elementwise; complex operands are refused."""
    (a, b), weak = operands("le", ops.ORDERED, x, y)
    return Array(unsigned.le(a, b), weak)


def lt(x: ArrayLike, y: ArrayLike) -> Array:
    """Return x < y elementwise; complex operands are refused."""
    (a, b), weak = operands("lt", ops.ORDERED, x, y)
    return Array(unsigned.lt(a, b), weak)


# Bits


def bitwise_not(x: ArrayLike) -> Array:
    """Return the complement of integers, or the negation of booleans."""
    t, weak = operand("not", x, ops.BITS)
    return Array(unsigned.bitwise_not(t), weak)


def bitwise_and(x: ArrayLike, y: ArrayLike) -> Array:
    """Return the bits set in both operands, integers or booleans."""
    (a, b), weak = operands("and", ops.BITS, x, y)
    return Array(unsigned.bitwise(torch.bitwise_and, a, b), weak)


def bitwise_or(x: ArrayLike, y: ArrayLike) -> Array:
    """Return the bits set in either operand, integers or booleans."""
    (a, b), weak = operands("or", ops.BITS, x, y)
    return Array(unsigned.bitwise(torch.bitwise_or, a, b), weak)


def bitwise_xor(x: ArrayLike, y: ArrayLike) -> Array:
    """Return the bits set in one operand only, integers or booleans."""
    (a, b), weak = operands("xor", ops.BITS, x, y)
    return Array(unsigned.bitwise(torch.bitwise_xor, a, b), weak)


def shift_left(x: ArrayLike, y: ArrayLike) -> Array:
    """Return integers x shifted left by y bits; zero where y is not below the width."""
    (a, b), weak = operands("shift_left", ops.INTEGER, x, y)
    return Array(unsigned.shift_left(a, b), weak)


def shift_right_arithmetic(x: ArrayLike, y: ArrayLike) -> Array:
    """Return integers x shifted right by y bits, the highest bit copied in."""
    (a, b), weak = operands("shift_right_arithmetic", ops.INTEGER, x, y)
    return Array(unsigned.shift_right_arithmetic(a, b), weak)


def shift_right_logical(x: ArrayLike, y: ArrayLike) -> Array:
    """Return integers x shifted right by y bits, zeros shifted in."""
    (a, b), weak = operands("shift_right_logical", ops.INTEGER, x, y)
    return Array(unsigned.shift_right_logical(a, b), weak)


def population_count(x: ArrayLike) -> Array:
    """Return the number of set bits of integers, in their dtype."""
    t, weak = operand("population_count", x, ops.INTEGER)
    count = arithmetic.population_count  # XLA counts the bits of the byte that a small integer is in
    return Array(narrow.via_wide(count, t) if t.dtype in dtypes.NARROW else count(t), weak)


def clz(x: ArrayLike) -> Array:
    """Return the number of leading zero bits of integers, in their dtype."""
    t, weak = operand("clz", x, ops.INTEGER)
    if t.dtype in dtypes.NARROW:
        codes = narrow.widened(t).view(torch.uint8) << (8 - narrow.bits(t.dtype))
        found = arithmetic.count_leading_zeros(codes).clamp(max=narrow.bits(t.dtype))
        return Array(convert(found, t.dtype), weak)
    return Array(arithmetic.count_leading_zeros(t), weak)


# Selection


def clamp(min: ArrayLike, x: ArrayLike, max: ArrayLike) -> Array:
    """Return x limited to the range from `min` to `max`, which are scalars or have the shape of x."""
    arrays = [ops.array_of("clamp", v, i, device_of(x, min, max)) for i, v in enumerate((min, x, max))]
    low, t, high = map(tensor_of, arrays)
    ops.check_same_dtypes("clamp", low, t, high)
    for name, bound in (("min", low), ("max", high)):
        if bound.dim() and bound.shape != t.shape:
            raise TypeError(
                f"clamp requires {name}.shape == operand.shape or {name}.shape == (), got "
                f"{name}.shape={tuple(bound.shape)}, operand.shape={tuple(t.shape)}."
            )
    return Array(arithmetic.clamp(t, low, high), all(a._weak for a in arrays))


@moves_elements(1, 2)
def select(pred: ArrayLike, on_true: ArrayLike, on_false: ArrayLike) -> Array:
    """Return `on_true` where `pred` holds, else `on_false`; these have equal shapes, `pred` theirs or none."""
    return _select("select", pred, (on_false, on_true))


@moves_elements(1)
def select_n(which: ArrayLike, *cases: Any) -> Array:
    """Return elements of `cases[which]`: `which` is boolean (two cases at most) or an integer."""
    if not cases:
        raise ValueError("select_n() must have at least one case")
    return _select("select", which, cases)


def _select(name: str, which: Any, cases: tuple[Any, ...]) -> Array:
    index = tensor_of(ops.array_of(name, which))
    arrays = [ops.array_of(name, c, i + 1) for i, c in enumerate(cases)]
    tensors = [tensor_of(a) for a in arrays]
    ops.check_same_dtypes(name, *tensors)
    shape = tensors[0].shape
    if any(t.shape != shape for t in tensors):
        raise TypeError(f"select cases must have the same shapes, got {[tuple(t.shape) for t in tensors]}.")
    # JAX's rule for mapped operands has scalars that are not mapped beside any `which` that is.
    is_lax = not shape and functorch.is_batchedtensor(index) and not any(map(functorch.is_batchedtensor, tensors))
    if index.dim() and index.shape != shape and not is_lax:
        raise TypeError(
            "select `which` must be scalar or have the same shape as cases, got `which` shape "
            f"{tuple(index.shape)} but case shape {tuple(shape)}."
        )
    boolean = index.dtype is torch.bool
    if not boolean and index.dtype not in ops.INTEGER.dtypes:
        raise TypeError(f"select `which` must be boolean or integer type, got {dtypes.TO_NUMPY[index.dtype]}.")
    if boolean and len(tensors) > 2:
        raise TypeError("select with boolean `which` cannot have > 2 cases.")
    weak = all(a._weak for a in arrays)
    if len(tensors) == 1:
        return Array(tensors[0], weak)
    if boolean:
        return Array(selection.where(index, tensors[1], tensors[0]), weak)
    if index.dtype in unsigned.SIGNED:
        index = index.to(torch.int64)
    found = tensors[-1]
    for number in reversed(range(len(tensors) - 1)):
        found = selection.where(index <= number, tensors[number], found)
    return Array(found, weak)


# Conversion


@moves_elements(0)
def convert_element_type(operand: ArrayLike, new_dtype: Any) -> Array:
    """Return `operand` converted to `new_dtype`, strongly typed.

    Integers wrap around, floating values are clipped to the range of an integer dtype. Complex values lose their
    imaginary part when converted to a real dtype, with a warning. `TypeError` for what is no array or scalar.
    """
    if new_dtype is None:
        raise ValueError("convert_element_type: dtype must be specified.")
    dtype = dtypes.requested_dtype(new_dtype, "convert_element_type")
    target = dtypes.to_torch(dtype)
    if type(operand) is int:
        return Array(_python_integer(operand, target))
    array = ops.array_of("convert_element_type", operand)
    if array._tensor.dtype.is_complex and not target.is_complex:
        warn_complex_to_real()
        return Array(convert(tensor_of(array).real, target))
    return Array(shown(array, target))


def warn_complex_to_real() -> None:
    """Warn that a conversion drops imaginary parts."""
    warnings.warn(
        "Casting complex values to real discards the imaginary part",
        np.exceptions.ComplexWarning,
        stacklevel=dtypes._user_stacklevel(),
    )


def _python_integer(value: int, dtype: torch.dtype) -> Tensor:
    if dtype is torch.bool or dtypes.is_inexact_tensor(dtype):
        return narrow.full((), bool(value) if dtype is torch.bool else float(value), dtype, default_torch_device())
    bounds = dtypes.integer_bounds(dtype)
    value &= (1 << bounds.bits) - 1
    if bounds.min < 0 and value >> (bounds.bits - 1):
        value -= 1 << bounds.bits
    return narrow.full((), value, dtype, default_torch_device())


def bitcast_convert_type(operand: ArrayLike, new_dtype: DTypeLike) -> Array:
    """Return the bits of `operand` read as `new_dtype`.

    A narrower dtype adds a last dimension, a wider one takes it away. `TypeError` for booleans and complex numbers,
    `ValueError` when the last dimension does not fit. The derivative is zero.
    """
    array = ops.array_of("bitcast_convert_type", operand)
    tensor = tensor_of(array)
    target = dtypes.to_torch(dtypes.requested_dtype(new_dtype, "bitcast_convert_type"))
    if tensor.dtype is target:
        return Array(tensor)
    _check_widths(tensor, target)
    opaque = ops.BOOLEAN.dtypes | ops.COMPLEX.dtypes
    if tensor.dtype in opaque or target in opaque:
        raise TypeError(
            "lax.bitcast_convert_type does not support bool or complex values unless the operand and destination types "
            f"match. Got operand dtype={dtypes.TO_NUMPY[tensor.dtype]}, new_dtype={dtypes.TO_NUMPY[target]}. "
            "Consider using the arr.view() method instead."
        )
    tensor = tensor.detach()
    old, new = narrow.bits(tensor.dtype), narrow.bits(target)
    if old == new:
        return Array(narrow.reread(tensor, target))
    if old > new:
        return Array(narrow.reread(tensor.unsqueeze(-1), target))
    return Array(narrow.reread(tensor, target).squeeze(-1))


def _check_widths(tensor: Tensor, dtype: torch.dtype) -> None:
    old, new = narrow.bits(tensor.dtype), narrow.bits(dtype)
    if old < new and (not tensor.dim() or tensor.shape[-1] * old != new):
        last = tensor.shape[-1] if tensor.dim() else 0
        raise ValueError(
            f"Attempting to convert array of shape {tuple(tensor.shape)} from {dtypes.TO_NUMPY[tensor.dtype]} of size "
            f"{old} bits to {dtypes.TO_NUMPY[dtype]} of size {new} bits, but {last} * {old} != {new}."
        )


def reduce_precision(operand: Any, exponent_bits: int, mantissa_bits: int) -> Array:
    """Return floating values rounded to a format with this many exponent (at least 1) and mantissa bits."""
    if exponent_bits < 1:
        raise ValueError(f"reduce_precision: exponent_bits must be positive; got {exponent_bits}")
    if mantissa_bits < 0:
        raise ValueError(f"reduce_precision: mantissa_bits must be non-negative; got {mantissa_bits}")
    t, weak = ops.operand("reduce_precision", operand, ops.FLOATING)
    return Array(arithmetic.reduced_precision(t, exponent_bits, mantissa_bits), weak)


def dtype(x: Any) -> Any:
    """Return the dtype that the array, scalar or dtype-like `x` has as an array."""
    return dtypes.dtype_of_value(x)


def stage(x: ArrayLike, /) -> Array:
    """Return the array or scalar `x` as an Array."""
    return as_array(x)
