"""Convolutions with few weights in native loops: a sum of products for each element, of an array with its padding.

Cellular automata, diffusion and filters convolve one channel with a small kernel, over and over. Libraries' convolutions are made
for many channels, and take ten times as long. Those with many weights are left to them.
"""

import itertools
import math
from collections.abc import Sequence

import torch
from torch import fx

from .loop_emitter import Emitter
from .loop_operators import kind_of
from .loop_parts import padded
from .loop_reductions import reduction
from .loop_values import Unsupported, Value

_MOST_WEIGHTS = 64  # that are multiplied for one element


def _convolution(
    emitter: Emitter,
    shape: tuple[int, ...],
    dtype: torch.dtype,
    x: Value,
    weights: Value,
    bias: Value | None,
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    _: Sequence[int],
    groups: int,
) -> Value:
    if transposed or bias is not None:
        raise Unsupported("a transposed convolution, or one with a bias")
    x = _surrounded(emitter, x, [(width, width) for width in padding])
    return _sums(emitter, shape, dtype, x, weights, strides, dilation, groups)


def _surrounded(emitter: Emitter, x: Value, around: Sequence[tuple[int, int]]) -> Value:
    """Return x with zeros before and behind it in space, in memory."""
    if not any(map(any, around)):
        return emitter.held(x)
    sizes = [n + low + high for n, (low, high) in zip(x.shape[2:], around, strict=True)]
    widths = [width for pair in reversed(around) for width in pair]
    return emitter.stored(padded((*x.shape[:2], *sizes), x.dtype, x, widths))


def _sums(
    emitter: Emitter,
    shape: tuple[int, ...],
    dtype: torch.dtype,
    x: Value,
    weights: Value,
    strides: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Value:
    """Emit the convolution of x as it is: every window lies within it."""
    if kind_of(dtype) != "f" or math.prod(weights.shape[1:]) > _MOST_WEIGHTS:
        raise Unsupported("a convolution with many weights")
    weights, channels = emitter.held(weights), weights.shape[1]

    def load(index: Sequence[str]) -> str:
        batch, out, *place = index
        group = _group(out, shape[1], groups)
        terms = []
        for channel, *offsets in itertools.product(*map(range, weights.shape[1:])):
            spot = _read_at(place, strides, [str(k * d) for k, d in zip(offsets, dilation, strict=True)])
            read = x.load([batch, f"({group})*{channels}+{channel}", *spot])
            terms.append(f"{weights.load([out, *map(str, (channel, *offsets))])} * {read}")
        return f"({' + '.join(terms)})"

    emitter.work += math.prod(shape) * math.prod(weights.shape[1:]) // 8
    return emitter.stored(Value(shape, dtype, load))


def _group(channel: str, channels: int, groups: int) -> str:
    return "0" if groups == 1 else f"({channel})/{channels // groups}"


def _read_at(place: Sequence[str], strides: Sequence[int], offsets: Sequence[str]) -> list[str]:
    """Return where in space a result at `place` reads its operand for the weight at these offsets."""
    return [f"({i})*{s}+{k}" for i, s, k in zip(place, strides, offsets, strict=True)]


def _backward(
    emitter: Emitter,
    _node: fx.Node,
    gradient: Value,
    x: Value,
    weights: Value,
    _: Sequence[int] | None,
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    _output_padding: Sequence[int],
    groups: int,
    wanted: Sequence[bool],
) -> list[Value]:
    """Emit the derivatives of a convolution by its operand and its weights, those that are wanted."""
    if transposed or wanted[2]:
        raise Unsupported("the derivatives of a transposed convolution, or one with a bias")
    nothing = Value((), x.dtype, lambda _: "0")
    by_x = _by_operand(emitter, gradient, x, weights, strides, padding, dilation, groups) if wanted[0] else nothing
    x = _surrounded(emitter, x, [(width, width) for width in padding]) if wanted[1] else x
    return [by_x, _by_weights(emitter, gradient, x, weights, strides, dilation, groups) if wanted[1] else nothing]


def _by_operand(
    emitter: Emitter,
    gradient: Value,
    x: Value,
    weights: Value,
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Value:
    """Emit a convolution of the gradient, with the weights from behind, and their channels as results."""
    if any(s != 1 for s in strides):
        raise Unsupported("the derivative of a convolution with strides")
    out, channels, *window = weights.shape
    reach = [(k - 1) * d - width for k, d, width in zip(window, dilation, padding, strict=True)]
    shape = (channels * groups, out // groups, *window)

    def load(index: Sequence[str]) -> str:
        to, of, *place = index
        behind = [f"{k - 1}-({i})" for i, k in zip(place, window, strict=True)]
        channel = to if groups == 1 else f"({to})%{channels}"
        return weights.load([f"({_group(to, shape[0], groups)})*{shape[1]}+{of}", channel, *behind])

    turned = Value(shape, weights.dtype, load)
    around = _surrounded(emitter, gradient, [(width, width) for width in reach])
    return _sums(emitter, x.shape, x.dtype, around, turned, strides, dilation, groups)


def _by_weights(
    emitter: Emitter,
    gradient: Value,
    x: Value,
    weights: Value,
    strides: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Value:
    """Emit sums over the batch and space, row by row, of what each weight multiplied, times the gradient."""
    if kind_of(x.dtype) != "f" or math.prod(weights.shape[1:]) > _MOST_WEIGHTS:
        raise Unsupported("a convolution with many weights")
    batch, out, *space = gradient.shape
    rank, channels, gradient = len(weights.shape), weights.shape[1], emitter.held(gradient)

    def load(index: Sequence[str]) -> str:
        (to, channel, *offsets), (example, *place) = index[:rank], index[rank:]
        at = [f"({k})*{d}" for k, d in zip(offsets, dilation, strict=True)]
        read = x.load([example, f"({_group(to, out, groups)})*{channels}+{channel}", *_read_at(place, strides, at)])
        return f"({gradient.load([example, to, *place])} * {read})"

    terms = Value((*weights.shape, batch, *space), x.dtype, load)
    emitter.work += math.prod(terms.shape) // 8
    rows = reduction(emitter, "sum", {}, [terms, [-1]], terms.shape[:-1], x.dtype)
    return reduction(emitter, "sum", {}, [rows, list(range(rank, len(rows.shape)))], weights.shape, x.dtype)


STATEMENTS = {"convolution": _convolution}
SEVERAL = {"convolution_backward": _backward}
