"""Convolutions with few weights in native loops: a sum of products for each element, of an array with its padding.

Cellular automata, diffusion and filters convolve one channel with a small kernel, over and over. Libraries' convolutions are made
for many channels, and take ten times as long. Those with many weights are left to them.
"""

import itertools
import math
from collections.abc import Sequence

import torch

from .loop_emitter import Emitter
from .loop_operators import kind_of
from .loop_parts import padded
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
    if transposed or bias is not None or kind_of(dtype) != "f" or math.prod(weights.shape[1:]) > _MOST_WEIGHTS:
        raise Unsupported("a convolution with many weights")
    around = [width for width in reversed(padding) for _ in range(2)]
    sizes = [n + 2 * width for n, width in zip(x.shape[2:], padding, strict=True)]
    x = emitter.stored(padded((*x.shape[:2], *sizes), dtype, x, around)) if any(padding) else emitter.held(x)
    weights, channels = emitter.held(weights), weights.shape[1]
    each = shape[1] // groups

    def load(index: Sequence[str]) -> str:
        batch, out, *place = index
        group = "0" if groups == 1 else f"({out})/{each}"
        terms = []
        for channel, *offsets in itertools.product(*map(range, weights.shape[1:])):
            steps = zip(place, strides, offsets, dilation, strict=True)
            read = x.load([batch, f"({group})*{channels}+{channel}", *(f"({i})*{s}+{k * d}" for i, s, k, d in steps)])
            terms.append(f"{weights.load([out, *map(str, (channel, *offsets))])} * {read}")
        return f"({' + '.join(terms)})"

    emitter.work += math.prod(shape) * math.prod(weights.shape[1:]) // 8
    return emitter.stored(Value(shape, dtype, load))


STATEMENTS = {"convolution": _convolution}
