"""Views in native loops: the same elements at other indices. Each function takes the shape of the result first."""

import math
from collections.abc import Sequence
from typing import Any

from .loop_values import Value, beginning, broadcast, flat_index, regrouped


def reshape(shape: tuple[int, ...], x: Value, *_: Any) -> Value:
    """Return the elements in their order in another shape, which a trace records for `view`, too."""
    assert math.prod(shape) == math.prod(x.shape)
    if shape == x.shape:
        return x
    head = beginning(x) if x.is_held and x.place is None else None
    if head is not None:
        load = lambda i: f"{head}{flat_index(i, shape)}]"  # noqa: E731
        return Value(shape, x.dtype, load, is_held=True, copy=None if x.copy is None else load)
    return x.seen(shape, lambda i: regrouped(i, shape, x.shape), in_order=True)


def permute(shape: tuple[int, ...], x: Value, dims: Sequence[int]) -> Value:
    """Return x with its dimensions in this order."""
    order = [d % len(dims) for d in dims]
    return x.seen(shape, lambda i: [i[order.index(d)] for d in range(len(order))])


def _t(shape: tuple[int, ...], x: Value) -> Value:
    return x.seen(shape, lambda i: list(reversed(i)))


def _transpose(shape: tuple[int, ...], x: Value, first: int, second: int) -> Value:
    order = list(range(len(shape)))
    order[first], order[second] = order[second], order[first]
    return permute(shape, x, order)


def _flip(shape: tuple[int, ...], x: Value, dims: Sequence[int]) -> Value:
    turned = {d % len(shape) for d in dims}
    return Value(
        shape, x.dtype, lambda i: x.load([f"{shape[d] - 1}-({v})" if d in turned else v for d, v in enumerate(i)])
    )


def expand(shape: tuple[int, ...], x: Value, *_: Any) -> Value:
    """Return x broadcast to a shape."""
    return Value(shape, x.dtype, lambda i: x.load(broadcast(i, x.shape)))


def _repeat(shape: tuple[int, ...], x: Value, _: Sequence[int]) -> Value:
    def inner(index: Sequence[str]) -> list[str]:
        return [f"({i})%{n}" for i, n in zip(index[len(index) - len(x.shape) :], x.shape, strict=True)]

    return Value(shape, x.dtype, lambda i: x.load(inner(i)))


def select(shape: tuple[int, ...], x: Value, dim: int, index: int) -> Value:
    """Return the slice at an index along a dimension, without that dimension."""
    axis, place = dim % len(x.shape), index % x.shape[dim]
    return x.seen(shape, lambda i: [*i[:axis], str(place), *i[axis:]])


def slice_of(
    shape: tuple[int, ...], x: Value, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Value:
    """Return the slices from `start` to `end` along a dimension."""
    axis = dim % len(x.shape)
    first = slice(start, end, step).indices(x.shape[axis])[0]
    if (first, step) == (0, 1):
        return x.seen(shape, lambda i: i, in_order=axis == 0)
    return x.seen(shape, lambda i: [f"({v})*{step}+{first}" if d == axis else v for d, v in enumerate(i)])


def _diagonal(shape: tuple[int, ...], x: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    rank = len(x.shape)
    row, column = dim1 % rank, dim2 % rank

    def inner(index: Sequence[str]) -> list[str]:
        others, place = iter(index[:-1]), index[-1]
        on = {row: f"({place})+{max(-offset, 0)}", column: f"({place})+{max(offset, 0)}"}
        return [on[d] if d in on else next(others) for d in range(rank)]

    return Value(shape, x.dtype, lambda i: x.load(inner(i)))


def _parts(shape: tuple[int, ...], x: Value) -> Value:
    """Return the real and imaginary parts of x along a last dimension."""

    def load(index: Sequence[str]) -> str:
        number, place = x.load(index[:-1]), index[-1]
        return f"({number}).{('re', 'im')[int(place)]}" if place in ("0", "1") else f"part({number}, {place})"

    return Value(shape, x.dtype.to_real(), load)


def _of_parts(shape: tuple[int, ...], x: Value) -> Value:
    dtype = x.dtype.to_complex()
    return Value(shape, dtype, lambda i: f"complex_of({x.load([*i, '0'])}, {x.load([*i, '1'])})")


RESHAPES = ("reshape", "unsqueeze", "squeeze")
VIEWS = {
    **dict.fromkeys(RESHAPES, reshape),
    "permute": permute,
    "t": _t,
    "transpose": _transpose,
    "flip": _flip,
    "expand": expand,
    "repeat": _repeat,
    "select": select,
    "slice": slice_of,
    "diagonal": _diagonal,
    "view_as_real": _parts,
    "view_as_complex": _of_parts,
}
