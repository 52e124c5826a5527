"""Large draws of which little is kept, part after part: the noise of a million choices need not exist at one time."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .._core import functorch, graph
from .._core.array import Array, tensor_of
from ..lax import control_flow
from . import threefry
from .draws import Sampler, draw, part_from_threefry

_ELEMENTS = 1 << 18  # of noise at one time


def reduced(
    sampler: Sampler, impl: Any, keys: Tensor, shape: tuple[int, ...],
    reduce: Callable[[Tensor, Tensor], Tensor], operand: Tensor,
) -> Tensor:  # fmt: skip
    """Return `reduce(samples of shape, operand)`, for a function that mixes nothing along the leading axis."""
    count, each = shape[0], math.prod(shape[1:])
    number = max(1, _ELEMENTS // max(1, each))
    if count <= 2 * number or impl.name != "threefry2x32" or not threefry.partitionable():
        return reduce(draw(sampler, impl, keys, shape), operand)

    def part(index: Tensor, keys: Tensor, operand: Tensor) -> Tensor:
        start = (index.to(torch.int64) * (number * each)).reshape(1)
        (samples,) = part_from_threefry(sampler, keys, start, number * each, count * each)
        return reduce(samples.reshape(number, *shape[1:]), operand)

    indices = torch.arange(-(-count // number), dtype=torch.int32, device=keys.device)
    if not graph.tracing and functorch.peek_interpreter_stack() is None:
        first = part(indices[0], keys, operand)
        found = first.new_empty((count, *first.shape[1:]))
        found[:number] = first
        for i in range(1, len(indices)):
            kept = found[i * number : (i + 1) * number]
            kept.copy_(part(indices[i], keys, operand)[: len(kept)])
        return found
    held = Array(keys), Array(operand)
    mapped = control_flow.map(lambda i: Array(part(tensor_of(i), *map(tensor_of, held))), Array(indices))
    return tensor_of(mapped).flatten(0, 1)[:count]
