"""Arrays of a native loop that are made of parts: joined, stacked, padded, and zeros with a part of another set in.

The latter are what reading a part, a triangle or a diagonal is differentiated to. They are no statements: an element is
that of the part or another, as its index says.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import fx

from .._core import operators
from .loop_elements import element_of, filled, literal
from .loop_emitter import Emitter
from .loop_indexing import is_first_slice, with_spare
from .loop_operators import C_TYPES
from .loop_ranges import within
from .loop_values import Unsupported, Update, Value, flat_index, in_buffer, loops_over, nest
from .loop_views import reshape, select, slice_of


def _joined(
    emitter: Emitter, parts: Sequence[tuple[Value, int]], dim: int, shape: tuple[int, ...], dtype: torch.dtype
) -> Value:
    """Emit a buffer of `shape` filled with parts, each from its place along `dim` on."""
    target = emitter.declared(shape, dtype)

    def store(index: Sequence[str], part: Value, start: int) -> str:
        place = [f"({i}+{start})" if d == dim else i for d, i in enumerate(index)]
        return f"{target}[{flat_index(place, shape)}] = {element_of(part, index, part.shape, dtype)}"

    index = [f"i{d}" for d in range(len(shape))]
    columns = dim == len(shape) - 1 and all(part.shape[dim] == 1 for part, _ in parts)
    if columns and len(parts) in _TOGETHER:
        stores = [store([*index[:dim], "0"], part, start) for part, start in parts]
        emitter.lines.append(f"{loops_over(index[:dim], shape[:dim])}{', '.join(stores)};")
    else:
        emitter.lines += [f"{loops_over(index, part.shape)}{store(index, part, start)};" for part, start in parts]
    return in_buffer(target, shape, dtype)


def _cat(emitter: Emitter, shape: tuple[int, ...], dtype: torch.dtype, nodes: Sequence[fx.Node], dim: int = 0) -> Value:
    dim %= len(shape)
    # torch joins arrays of one element-less dimension with those of any rank.
    parts = [v for v in map(emitter.values.__getitem__, nodes) if len(v.shape) == len(shape)]
    if len(nodes) == 2 and is_first_slice(nodes[1], nodes[0], dim):
        return with_spare(parts[0], dim)
    starts = itertools.accumulate((p.shape[dim] for p in parts), initial=0)
    return _joined(emitter, list(zip(parts, starts, strict=False)), dim, shape, dtype)


def is_read_in_parts(node: fx.Node) -> bool:
    """Tell whether what a node joins is best read from its parts: few, by one operator that computes element by element."""
    if node.target is not torch.ops.aten.cat.default or len(node.users) != 1:
        return False
    (user,) = node.users
    return operators.of(user.target).is_elementwise and 2 <= len(node.args[0]) <= _MOST_READ  # pyright: ignore


def read_in_parts(
    emitter: Emitter, shape: tuple[int, ...], dtype: torch.dtype, nodes: Sequence[fx.Node], dim: int = 0
) -> Value:
    """Return joined parts, each element of which is that of the part in which it is."""
    dim %= len(shape)
    parts = [v for v in map(emitter.values.__getitem__, nodes) if len(v.shape) == len(shape) and v.shape[dim]]
    starts = list(itertools.accumulate((p.shape[dim] for p in parts), initial=0))

    def load(index: Sequence[str]) -> str:
        places = [[*index[:dim], f"(({index[dim]})-{start})", *index[dim + 1 :]] for start in starts]
        *others, found = [element_of(p, i, p.shape, dtype) for p, i in zip(parts, places, strict=False)]
        for number, element in reversed(list(enumerate(others))):
            found = f"(({within(index[dim], starts[number], starts[number + 1])}) ? ({element}) : ({found}))"
        return found

    return Value(shape, dtype, load)


def _stack(
    emitter: Emitter, shape: tuple[int, ...], dtype: torch.dtype, nodes: Sequence[fx.Node], dim: int = 0
) -> Value:
    dim %= len(shape)
    one = (*shape[:dim], 1, *shape[dim + 1 :])
    parts = [(reshape(one, emitter.values[n]), place) for place, n in enumerate(nodes)]
    return _joined(emitter, parts, dim, shape, dtype)


def _inserted(
    dtype: torch.dtype,
    x: Value | None,
    part: Value,
    place: Callable[[Sequence[str]], tuple[str, list[str]]],
    shape: tuple[int, ...],
    is_everywhere: bool = False,
) -> Value:
    """Return an array with the elements of `part` where `place` says so, and those of x, or zeros, elsewhere.

    A part that has an element for each place, wanted or not, `is_everywhere`: it is read unasked, for all of a vector.
    """
    if part.dtype is not dtype:
        raise Unsupported(f"a part of {part.dtype} in {dtype}")
    if not math.prod(part.shape):  # as what an associative scan that halves its arrays leaves over
        return filled(shape, dtype, 0) if x is None else x

    def load(index: Sequence[str]) -> str:
        test, inner = place(index)
        own, other = part.load(inner), literal(0, dtype) if x is None else x.load(index)
        if is_everywhere:
            return f"either<{C_TYPES[dtype]}>({test}, {own}, {other})"
        return f"(({test}) ? ({own}) : ({other}))"

    return Value(shape, dtype, load)


def padded(shape: tuple[int, ...], dtype: torch.dtype, x: Value, widths: Sequence[int], number: Any = 0) -> Value:
    """Return an array with a number around it: of torch's `widths`, the last dimension's come first."""
    first = [0] * len(shape)
    first[len(shape) - len(widths) // 2 :] = widths[-2::-2]
    around = None if number == 0 else filled(shape, dtype, number)

    def place(index: Sequence[str]) -> tuple[str, list[str]]:
        tests = [within(i, f, f + n) for i, f, n in zip(index, first, x.shape, strict=True)]
        return " && ".join(tests), [f"(({i})-({f}))" for i, f in zip(index, first, strict=True)]

    return _inserted(dtype, around, x, place, shape)


def _tril(shape: tuple[int, ...], dtype: torch.dtype, x: Value, diagonal: int = 0) -> Value:
    return _inserted(dtype, None, x, lambda i: (f"({i[-1]})-({i[-2]}) <= {diagonal}", [*i]), shape, True)


def _triu(shape: tuple[int, ...], dtype: torch.dtype, x: Value, diagonal: int = 0) -> Value:
    return _inserted(dtype, None, x, lambda i: (f"({i[-1]})-({i[-2]}) >= {diagonal}", [*i]), shape, True)


def _diag_embed(
    shape: tuple[int, ...], dtype: torch.dtype, x: Value, offset: int = 0, dim1: int = -2, dim2: int = -1
) -> Value:
    row, column = dim1 % len(shape), dim2 % len(shape)

    def place(index: Sequence[str]) -> tuple[str, list[str]]:
        others = [i for d, i in enumerate(index) if d not in (row, column)]
        first = index[row] if offset >= 0 else index[column]
        return f"({index[column]})-({index[row]}) == {offset}", [*others, first]

    return _inserted(dtype, None, x, place, shape)


def _diagonal_backward(shape: tuple[int, ...], dtype: torch.dtype, part: Value, _: Sequence[int], *where: int) -> Value:
    return _diag_embed(shape, dtype, part, *where)


def _select_backward(
    shape: tuple[int, ...], dtype: torch.dtype, part: Value, _: Sequence[int], dim: int, index: int
) -> Value:
    axis = dim % len(shape)
    place = lambda i: (f"({i[axis]}) == {index % shape[axis]}", [*i[:axis], *i[axis + 1 :]])  # noqa: E731
    return _inserted(dtype, None, part, place, shape, True)


def _slice_backward(shape: tuple[int, ...], dtype: torch.dtype, part: Value, _: Sequence[int], *bounds: int) -> Value:
    return _slice_in(shape, dtype, None, part, *bounds)


def _slice_scatter(
    emitter: Emitter, shape: tuple[int, ...], dtype: torch.dtype, x: Value, part: Value, *bounds: int
) -> Value:
    set_in = lambda part: _slice_in(shape, dtype, x, part, *bounds)  # noqa: E731
    return _set_in(emitter, x, part, lambda x: slice_of(part.shape, x, *bounds), set_in)


def _select_scatter(
    emitter: Emitter, shape: tuple[int, ...], dtype: torch.dtype, x: Value, part: Value, dim: int, index: int
) -> Value:
    axis = dim % len(shape)
    place = lambda i: (f"({i[axis]}) == {index % shape[axis]}", [*i[:axis], *i[axis + 1 :]])  # noqa: E731
    set_in = lambda part: _inserted(dtype, x, part, place, shape)  # noqa: E731
    return _set_in(emitter, x, part, lambda x: select(part.shape, x, axis, index), set_in)


_LEAST_AROUND = 4  # times as many elements as are set: setting fewer takes less time than making all anew


def _set_in(
    emitter: Emitter, x: Value, part: Value, view: Callable[[Value], Value], set_in: Callable[[Value], Value]
) -> Value:
    """Return x with a part set in, which `view` sees of it: that of a carry where it lies, if it is small.

    So is that of which elements have been set where they lie.
    """
    if x.place is None or x.spare is not None:
        return set_in(part)
    place, since = view(x).place, len(x.updates)
    assert place is not None
    if part.lies_as(place, len(part.shape)) and part.updates[:since] == x.updates:
        updates = part.updates
    elif _LEAST_AROUND * math.prod(part.shape) <= math.prod(x.shape):
        part = emitter.stored(part)
        updates = (*x.updates, _set_at(place, part))
    else:
        return set_in(part)
    return replace(set_in(part), place=x.place, memory=x.memory, updates=updates)


def _set_at(place: Callable[[Sequence[str]], str], part: Value) -> Update:
    """Return the update that sets the elements at a place to those of a part."""
    entry = [f"e{d}" for d in range(len(part.shape))]

    def statement(test: str | None) -> str:
        return nest(entry, part.shape, f"{f'if ({test}) ' if test else ''}{place(entry)} = {part.load(entry)};")

    return Update(statement, tuple(entry), place)


def _slice_in(
    shape: tuple[int, ...],
    dtype: torch.dtype,
    x: Value | None,
    part: Value,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Value:
    axis = dim % len(shape)
    first, stop, _ = slice(start, end, step).indices(shape[axis])

    def place(index: Sequence[str]) -> tuple[str, list[str]]:
        i, behind = index[axis], f"(({index[axis]})-{first})"
        test = f"{within(i, first, stop)} && {behind} % {step} == 0"
        return test, [*index[:axis], f"{behind}/{step}", *index[axis + 1 :]]

    return _inserted(dtype, x, part, place, shape)


_MOST_READ = 3  # parts: loops over them are compiled by themselves
_TOGETHER = (2, 3, 4, 8)  # elements of a row that are set in one loop: so many GCC (12) weaves into vectors

STATEMENTS = {"cat": _cat, "stack": _stack, "slice_scatter": _slice_scatter, "select_scatter": _select_scatter}

EXPRESSIONS = {
    "constant_pad_nd": padded,
    "tril": _tril,
    "triu": _triu,
    "diag_embed": _diag_embed,
    "diagonal_backward": _diagonal_backward,
    "select_backward": _select_backward,
    "slice_backward": _slice_backward,
}
