"""Elements of a native loop's tensors as expressions: numbers, and operators that say of each element what it is.

What is here emits no statement: a value's expression stands where it is read. Functions of the tables take the shape and
dtype of the result first. What an elementwise operator is in C++, loop_operators.py says.
"""

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from .loop_operators import C_TYPES, OPERATORS, Operator, kind_of
from .loop_values import Unsupported, Value, broadcast

_FEW = 16  # elements, of which no vectors are made
_NUMBER = re.compile(r"(\(\w+\))?[\w.+-]+")  # that is known, or has a name
_SEEKS = re.compile(r"\?")  # what is read by a condition of its own
_MOST_SQUARED = 64  # powers of complex numbers that are products


def literal(value: Any, dtype: torch.dtype) -> str:
    """Return a number as an expression of `dtype`."""
    if dtype is torch.bool:
        return "true" if value else "false"
    if dtype.is_complex:
        number = complex(value)
        parts = (literal(part, dtype.to_real()) for part in (number.real, number.imag))
        return f"{C_TYPES[dtype]}({', '.join(parts)})"
    if isinstance(value, complex):
        raise Unsupported("a complex number as a real one")
    if dtype.is_floating_point:
        value = float(value)
        text = "NaN" if math.isnan(value) else ("-Inf" if value < 0 else "Inf") if math.isinf(value) else repr(value)
        return f"({C_TYPES[dtype]}){text}"
    bounds = torch.iinfo(dtype)
    if not bounds.min <= value <= bounds.max or value != int(value):
        raise Unsupported(f"{value} as {dtype}")
    # The least 64-bit integer is no literal: its digits are those of a number that is out of range.
    return f"({C_TYPES[dtype]})({int(value) + 1}-1)" if value == bounds.min < 0 else f"({C_TYPES[dtype]}){int(value)}"


def element_of(operand: Any, index: Sequence[str], shape: Sequence[int], dtype: torch.dtype) -> str:
    """Return the element of an operand (a value that broadcasts to `shape`, or a number) as an expression of `dtype`."""
    if not isinstance(operand, Value):
        return literal(operand, dtype)
    assert np.broadcast_shapes(operand.shape, shape) == tuple(shape)
    if operand.dtype.is_complex and not dtype.is_complex and dtype is not torch.bool:
        raise Unsupported(f"{operand.dtype} as {dtype}")
    text = operand.load(broadcast(index, operand.shape))
    if operand.dtype is torch.bool and text.endswith("]"):
        text = f"truth({text})"
    return text if operand.dtype is dtype else f"convert<{C_TYPES[dtype]}>({text})"


def elementwise(
    operation: Operator, name: str, operands: Sequence[Any], shape: tuple[int, ...], dtype: torch.dtype
) -> Value:
    """Return what an operator makes of operands that broadcast to `shape`."""
    inner = torch.bool if operation.of_booleans else _common(operands) if operation.of_operands else dtype
    form, count = operation.form(inner), len(operands)
    if form is None:
        raise Unsupported(f"{name} of {inner}")
    if f"{{{count}}}" in form or (count and f"{{{count - 1}}}" not in form and "{0}" in form):
        raise Unsupported(f"{name} of {count} operands")

    def load(index: Sequence[str]) -> str:
        found = form.format(*(element_of(o, index, shape, inner) for o in operands))
        return found if is_same else f"({C_TYPES[dtype]})({found})"

    is_same = form == "{0}" and inner is dtype
    return Value(shape, dtype, load)


def _common(operands: Sequence[Any]) -> torch.dtype:
    """Return the dtype to which torch promotes these operands."""
    given = [torch.empty(o.shape, dtype=o.dtype, device="meta") if isinstance(o, Value) else o for o in operands]
    return torch.result_type(*given) if len(given) == 2 else given[0].dtype


def shifted_right(x: Value, distance: int, shape: tuple[int, ...], dtype: torch.dtype) -> Value:
    """Return x shifted by a number that stands in the graph, and is hidden from the compiler (loop_prelude.py)."""
    width = 8 * dtype.itemsize
    if kind_of(dtype) not in "iu" or x.dtype is not dtype:
        raise Unsupported(f"a shift of {x.dtype}")
    held = distance if 0 <= distance < width else width - 1 if kind_of(dtype) == "i" else None
    if held is None:
        return filled(shape, dtype, 0)
    return Value(shape, dtype, lambda i: f"({C_TYPES[dtype]})({element_of(x, i, shape, dtype)} >> shift_{held})")


def integer(number: Any) -> int | None:
    """Return a number that stands in the graph as a small integer, None where it is none."""
    is_one = isinstance(number, int | float) and number == int(number) and abs(number) <= _MOST_SQUARED
    return int(number) if is_one else None


def power(x: Any, exponent: int, shape: tuple[int, ...], dtype: torch.dtype) -> Value:
    """Return numbers to a power that stands in the graph: products."""
    return Value(shape, dtype, lambda i: f"power<{exponent}>({element_of(x, i, shape, dtype)})")


def filled(shape: tuple[int, ...], dtype: torch.dtype, number: Any) -> Value:
    """Return an array whose elements are a number."""
    if isinstance(number, Value):
        raise Unsupported("an array filled with a value")
    text = literal(number, dtype)
    return Value(shape, dtype, lambda index: text)


def _full(shape: tuple[int, ...], dtype: torch.dtype, size: Any, number: Any) -> Value:
    return filled(shape, dtype, number)


def _scalar_tensor(shape: tuple[int, ...], dtype: torch.dtype, number: Any) -> Value:
    return filled(shape, dtype, number)


def _zeros(shape: tuple[int, ...], dtype: torch.dtype, *_: Any) -> Value:
    return filled(shape, dtype, 0)


def _ones(shape: tuple[int, ...], dtype: torch.dtype, *_: Any) -> Value:
    return filled(shape, dtype, 1)


def _new_full(shape: tuple[int, ...], dtype: torch.dtype, x: Value, size: Any, number: Any) -> Value:
    return filled(shape, dtype, number)


def _eye(shape: tuple[int, ...], dtype: torch.dtype, *_: Any) -> Value:
    return Value(shape, dtype, lambda i: f"({C_TYPES[dtype]})(({i[0]}) == ({i[1]}))")


def _arange(shape: tuple[int, ...], dtype: torch.dtype, *bounds: Any) -> Value:
    start, step = bounds[0] if len(bounds) > 1 else 0, bounds[2] if len(bounds) > 2 else 1
    wide = torch.float64 if dtype.is_floating_point else torch.int64
    first, distance = literal(start, wide), literal(step, wide)
    return Value(shape, dtype, lambda i: f"({C_TYPES[dtype]})({first}+({i[0]})*{distance})")


def _clamp(shape: tuple[int, ...], dtype: torch.dtype, x: Value, min: Any = None, max: Any = None) -> Value:
    for bound, name in ((min, "maximum"), (max, "minimum")):
        if bound is not None:
            x = elementwise(OPERATORS[name], name, [x, bound], shape, dtype)
    return x


def _hardtanh(shape: tuple[int, ...], dtype: torch.dtype, x: Value, least: float = -1, most: float = 1) -> Value:
    return _clamp(shape, dtype, x, least, most)


def _where(shape: tuple[int, ...], dtype: torch.dtype, test: Value, yes: Any, no: Any) -> Value:
    def choose(index: Sequence[str]) -> str:
        given = ((test, torch.bool), (yes, dtype), (no, dtype))
        condition, *options = (element_of(v, index, shape, t) for v, t in given)
        if dtype.is_complex:
            return f"chosen({condition}, {', '.join(options)})"
        costs_nothing = all(option in condition or _NUMBER.fullmatch(option) for option in options)
        is_vector = any("_(" in option for option in options) or not any(map(_SEEKS.search, options))
        if costs_nothing or (math.prod(shape) >= _FEW and is_vector):
            return f"either<{C_TYPES[dtype]}>({condition}, {', '.join(options)})"
        return f"(({condition}) ? ({options[0]}) : ({options[1]}))"

    return Value(shape, dtype, choose)


def _masked_fill(shape: tuple[int, ...], dtype: torch.dtype, x: Value, mask: Value, number: Any) -> Value:
    return _where(shape, dtype, mask, number, x)


EXPRESSIONS = {
    "full": _full,
    "scalar_tensor": _scalar_tensor,
    "zeros": _zeros,
    "_efficientzerotensor": _zeros,
    "empty": _zeros,  # whose elements are any
    "ones": _ones,
    "new_full": _new_full,
    "eye": _eye,
    "arange": _arange,
    "clamp": _clamp,
    "hardtanh": _hardtanh,
    "where": _where,
    "masked_fill": _masked_fill,
}
