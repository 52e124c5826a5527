"""Sums and extrema of moving windows in native loops: torch's pooling, which computes one window after the other.

A window of several dimensions is taken along one after the other, and a long one is made of shorter ones, which others share:
so a window of 200 numbers takes ten operations, each of which is one on vectors.
"""

import functools
import math
from collections.abc import Callable, Sequence

from torch import fx

from .._core.graph import Graph
from .loop_emitter import Emitter
from .loop_operators import C_TYPES, OPERATORS, REDUCTIONS, kind_of, name_of
from .loop_parts import padded
from .loop_ranges import within
from .loop_values import Unsupported, Value
from .loop_views import permute

_MOST_TERMS = 4  # of one length that make a window
_FEW_CHANNELS = 8  # which make rows that are too short for vectors
_ROOM = 16  # arrays as large as one with windows, in a step that may hold no more: torch's kernels take as long


def moves_windows(body: Graph) -> bool:
    """Tell whether a graph folds moving windows."""
    return any(name_of(node) in SEVERAL for node in body.module.graph.nodes)


def _maxima(
    emitter: Emitter,
    node: fx.Node,
    x: Value,
    window: Sequence[int],
    strides: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    rounds_up: bool = False,
) -> list[Value]:
    """Return the windows' maxima; not where they are, which only derivatives ask for."""
    _check(x, padding, rounds_up)
    apart = [*dilation] * len(window) if len(dilation) == 1 else dilation
    moves = list(zip(window, strides or window, apart, strict=True))
    return [_as_it_lies(node, x, len(window), lambda x, first: _folded(emitter, "amax", x, first, moves))]


def _means(
    emitter: Emitter,
    node: fx.Node,
    x: Value,
    window: Sequence[int],
    strides: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    rounds_up: bool = False,
    _counts_padding: bool = True,
    divisor: int | None = None,
) -> list[Value]:
    _check(x, padding, rounds_up)
    moves = [(size, step, 1) for size, step in zip(window, strides or window, strict=True)]
    sums = _as_it_lies(node, x, len(window), lambda x, first: _folded(emitter, "sum", x, first, moves))
    # A sum of negative zeros begins with a positive one in torch.
    from_zero = Value(sums.shape, x.dtype, lambda i: f"({sums.load(i)} + 0)")
    return [_divided(from_zero, divisor or math.prod(window))]


def _means_backward(
    emitter: Emitter,
    node: fx.Node,
    gradient: Value,
    x: Value,
    window: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[int],
    rounds_up: bool,
    _counts_padding: bool,
    divisor: int | None,
) -> list[Value]:
    """Return the cotangent of what means were taken of: for each element the sum of those of its windows."""
    _check(x, padding, rounds_up)
    counts = x.shape[len(x.shape) - len(window) :]

    def spread(found: Value, first: int) -> Value:
        for dim, (count, size, step) in enumerate(zip(counts, window, strides or window, strict=True), first):
            found = _spread(emitter, found, dim, count, size, step)
        return found

    return [_as_it_lies(node, _divided(gradient, divisor or math.prod(window)), len(window), spread)]


def _as_it_lies(node: fx.Node, x: Value, moving: int, function: Callable[[Value, int], Value]) -> Value:
    """Return what a function makes of x and of the first dimension along which windows move, channels last if they lie so.

    The channels are the last dimension before these.
    """
    first, rank = len(x.shape) - moving, len(x.shape)
    (operand, *_) = node.all_input_nodes
    if first < 1 or operand.meta["val"].stride(first - 1) != 1 or x.shape[first - 1] < _FEW_CHANNELS:
        return function(x, first)
    order = [*range(first - 1), *range(first, rank), first - 1]
    found = function(permute(tuple(x.shape[d] for d in order), x, order), first - 1)
    back = [order.index(d) for d in range(rank)]
    return permute(tuple(found.shape[d] for d in back), found, back)


def _check(x: Value, padding: Sequence[int], rounds_up: bool) -> None:
    if kind_of(x.dtype) != "f" or any(padding) or rounds_up:
        raise Unsupported(f"windows of {x.dtype}, or beyond the array")


def _divided(x: Value, divisor: int) -> Value:
    if divisor == 1:
        return x
    return Value(x.shape, x.dtype, lambda i: f"({x.load(i)} / ({C_TYPES[x.dtype]}){divisor})")


def _folded(emitter: Emitter, name: str, x: Value, first: int, moves: Sequence[tuple[int, int, int]]) -> Value:
    """Emit the folds of windows that move along dimensions of x: of each its size, stride, and how far apart its elements are.

    They are taken along one dimension after the other, the last one first.
    """
    emitter.made["room"] += _ROOM * math.prod(x.shape)
    for dim, (size, stride, apart) in reversed(list(enumerate(moves, first))):
        if size > 1 or stride > 1:
            x = _folded_along(emitter, name, x, dim, size, stride, apart)
    return x


def _folded_along(emitter: Emitter, name: str, x: Value, dim: int, size: int, stride: int = 1, apart: int = 1) -> Value:
    """Emit the folds of windows along one dimension, made of those of windows half as long, and so on."""
    part, length, parts = emitter.in_order(x), 1, {}
    while size // length > _MOST_TERMS:
        parts[length] = part
        part = emitter.stored(_combined(name, [part, part], [0, length * apart], dim, part.shape[dim] - length * apart))
        length *= 2
    terms, places, place = [part] * (size // length), [*range(0, size - length + 1, length)], size - size % length
    for shorter in reversed(parts):
        if (size - place) // shorter:
            terms.append(parts[shorter])
            places.append(place)
            place += shorter
    count = (x.shape[dim] - (size - 1) * apart - 1) // stride + 1
    return emitter.stored(_combined(name, terms, [p * apart for p in places], dim, count, stride))


def _combined(name: str, terms: Sequence[Value], places: Sequence[int], dim: int, count: int, stride: int = 1) -> Value:
    """Return the folds of terms, each from its place along a dimension on."""
    dtype, shape = terms[0].dtype, terms[0].shape
    form = OPERATORS[REDUCTIONS[name].step].form(dtype)
    assert form is not None

    def load(index: Sequence[str]) -> str:
        starts = [f"({index[dim]})*{stride}+{place}" for place in places]
        return functools.reduce(
            form.format,
            [t.load([*index[:dim], start, *index[dim + 1 :]]) for t, start in zip(terms, starts, strict=True)],
        )

    return Value((*shape[:dim], count, *shape[dim + 1 :]), dtype, load)


def _spread(emitter: Emitter, x: Value, dim: int, count: int, size: int, stride: int) -> Value:
    """Return, for each of `count` elements along a dimension, the sum over the windows that it is in of what x has for them."""
    shape = (*x.shape[:dim], count, *x.shape[dim + 1 :])
    if stride == 1:
        reach = size - 1
        surrounded = (*x.shape[:dim], count + reach, *x.shape[dim + 1 :])
        widths = [*[0, 0] * (len(shape) - 1 - dim), reach, reach]
        return _folded_along(emitter, "sum", padded(surrounded, x.dtype, x, widths), dim, size)
    x = emitter.held(x)

    def load(index: Sequence[str]) -> str:
        terms = []
        for before in range(-(-size // stride)):  # windows that begin earlier than the last one
            place = f"(({index[dim]})/{stride}-{before})"
            is_in = f"{within(place, 0, x.shape[dim])} && ({index[dim]})-{place}*{stride} < {size}"
            terms.append(f"({is_in} ? {x.load([*index[:dim], place, *index[dim + 1 :]])} : 0)")
        return f"({' + '.join(terms)})"

    return emitter.stored(Value(shape, x.dtype, load))


SEVERAL = {
    "max_pool2d_with_indices": _maxima,
    "max_pool3d_with_indices": _maxima,
    "avg_pool2d": _means,
    "avg_pool3d": _means,
    "avg_pool2d_backward": _means_backward,
    "avg_pool3d_backward": _means_backward,
}
