"""Dimensions and shapes as arguments: one place for their checks and error text."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from . import errors
from .array import Array, is_abstract, type_text
from .symbolic_sizes import index as index_of


class SymbolicSize:
    """Base class of sizes that are formulas (`_export/dimensions.py`)."""

    __slots__ = ()

    def extremum(self, name: str, first: Any, second: Any) -> Any:
        """Return the `max` or `min` of two sizes, of which this is one: a formula where that is not decided."""
        raise NotImplementedError


def canonical_axis(axis: Any, ndim: int, name: str = "axis", error: type[Exception] = ValueError) -> int:
    """Return `axis` counted from the front. Raises `error` out of bounds: some functions of JAX raise `IndexError`."""
    axis = index_of(axis)
    if not -ndim <= axis < ndim:
        raise error(f"{name} {axis} is out of bounds for array of dimension {ndim}")
    return axis + ndim if axis < 0 else axis


def canonical_axes(axis: Any, ndim: int, name: str = "axis", error: type[Exception] = ValueError) -> tuple[int, ...]:
    """Return None (all), an integer or an iterable of integers as axes counted from the front, without repeats."""
    if axis is None:
        return tuple(range(ndim))
    if type(axis) is int:
        return (canonical_axis(axis, ndim, name, error),)
    given = each_of(axis)
    axes = tuple(canonical_axis(a, ndim, name, error) for a in given)
    if len(set(axes)) != len(axes):
        raise ValueError(f"duplicate value in '{name}': {given} has a repeated axis.")
    return axes


def several(given: Any) -> bool:
    """Tell whether an argument is an iterable of values: a list, a range, a set, an array that has dimensions."""
    return hasattr(given, "__iter__") and getattr(given, "ndim", None) != 0


def each_of(given: Any) -> tuple[Any, ...]:
    """Return a value, or the values of an iterable, as a tuple."""
    return tuple(given) if several(given) else (given,)


def static_int(value: Any, what: str) -> int:
    """Return `value` as a Python int; raise `TypeError` saying what must be one."""
    if isinstance(value, Array) and is_abstract(value):
        raise errors.tracer_error(errors.ConcretizationTypeError, value.shape, what + " must be known while tracing.")
    try:
        return index_of(value)
    except TypeError:
        raise TypeError(f"{what} must be an integer; got {value!r} of type {type(value)}.") from None


def canonical_shape(shape: Any) -> tuple[int, ...]:
    """Return an integer or a sequence of integers as a shape.

    Raises `TypeError` for sizes that are negative or no concrete integers.
    """
    sizes = each_of(shape)
    for size in sizes:
        if isinstance(size, Array) and is_abstract(size):
            raise TypeError(
                f"Shapes must be 1D sequences of concrete values of integer type, got {shape}.\nIf using `jit`, try using `static_argnums` or applying `jit` to smaller subfunctions. A shape that depends on "
                "traced values is not supported: mark the argument as static (jit's static_argnums)."
            )
    try:
        result = tuple(map(index_of, sizes))
    except TypeError:
        raise TypeError(f"Shapes must be 1D sequences of concrete values of integer type, got {shape}.") from None
    if any(size < 0 for size in result):
        raise TypeError(f"A shape must have every element be nonnegative, got {shape}.")
    return result


def broadcast_shape(*shapes: Sequence[int]) -> tuple[int, ...]:
    """Return the common shape of `shapes` under NumPy's broadcasting. Raises `ValueError` where there is none."""
    rank = max(map(len, shapes), default=0)
    padded = [(1,) * (rank - len(s)) + tuple(s) for s in shapes]
    out = []
    for sizes in zip(*padded, strict=True):
        others = {n for n in sizes if n != 1}
        if len(others) > 1:
            raise ValueError(f"Incompatible shapes for broadcasting: shapes={list(map(tuple, shapes))}")
        out.append(others.pop() if others else 1)
    return tuple(out)


def expanded(t: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return `t` broadcast to `shape`. Raises `ValueError` where that is impossible."""
    if t.dim() > len(shape):
        raise ValueError(f"Cannot broadcast to shape with fewer dimensions: arr_shape={tuple(t.shape)} shape={shape}")
    try:
        return t.expand(shape)
    except RuntimeError:
        given, wanted = type_text(Array(t)), type_text(Array(t), shape)
        raise ValueError(
            f"Incompatible types for broadcasting: input type={given} and requested type={wanted}"
        ) from None
