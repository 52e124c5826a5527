"""associative_scan: all prefixes of an associative operation, in logarithmic depth.

The recursion of Blelloch, "Prefix sums and their applications" (CMU-CS-90-190, 1990): combine neighbours, scan the
half as many results, fill in the places between them.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ..._core import tree
from ..._core.array import Array, as_array, tensor_of
from ..._transforms.flat import arrays_from
from .bodies import Operands


def associative_scan(fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    """Return the prefixes of `elems` (a pytree of arrays of equal size along `axis`) under the associative `fn`.

    `fn(a, b)` combines two such pytrees elementwise along `axis`. With `reverse` suffixes are returned.
    Raises `TypeError` when `fn` cannot be called, `ValueError` when sizes along the axis differ.
    """
    if not callable(fn):
        raise TypeError("lax.associative_scan: fn argument should be callable.")
    operands = Operands.of(elems, "associative_scan")
    kinds = [a.kind for a in operands.arrays]
    axes = [_axis(axis, a) for a in operands.arrays]
    sizes = [a.shape[d] for a, d in zip(operands.arrays, axes, strict=True)]
    if any(size != sizes[0] for size in sizes):
        shapes = [a.shape for a in operands.arrays]
        raise ValueError(f"Array inputs to associative_scan must have the same first dimension. (saw: {shapes})")

    def combine(left: Sequence[Tensor], right: Sequence[Tensor]) -> list[Tensor]:
        pair = [operands.spec.unflatten(arrays_from(side, kinds)) for side in (left, right)]
        return [tensor_of(as_array(leaf)) for leaf in tree.flatten(fn(*pair))[0]]

    tensors = operands.tensors
    if reverse:
        tensors = [t.flip(d) for t, d in zip(tensors, axes, strict=True)]
    results = prefixes(combine, tensors, axes)
    if reverse:
        results = [t.flip(d) for t, d in zip(results, axes, strict=True)]
    return operands.spec.unflatten(arrays_from(results, kinds))


def _axis(axis: int, array: Array) -> int:
    if not -array.ndim <= axis < array.ndim:
        raise ValueError(f"axis {axis} is out of bounds for array of dimension {array.ndim}")
    return axis % array.ndim


def prefixes(combine: Callable[..., list[Tensor]], tensors: list[Tensor], axes: Sequence[int]) -> list[Tensor]:
    """Return the prefixes of tensors along one axis of each under `combine(left, right)`, from the front."""
    size = tensors[0].shape[axes[0]] if tensors else 0
    if size < 2:
        return tensors

    def part(values: Sequence[Tensor], start: int, stop: int, step: int) -> list[Tensor]:
        return [t[(slice(None),) * d + (slice(start, stop, step),)] for t, d in zip(values, axes, strict=True)]

    odd = prefixes(combine, combine(part(tensors, 0, size - 1, 2), part(tensors, 1, size, 2)), axes)
    count = odd[0].shape[axes[0]]
    before = odd if size % 2 else part(odd, 0, count - 1, 1)
    even = combine(before, part(tensors, 2, size, 2)) if size > 2 else part(tensors, 0, 0, 1)
    even = [torch.cat([first, rest], d) for first, rest, d in zip(part(tensors, 0, 1, 1), even, axes, strict=True)]
    return [_interleaved(a, b, d) for a, b, d in zip(even, odd, axes, strict=True)]


def _interleaved(even: Tensor, odd: Tensor, dim: int) -> Tensor:
    count = odd.shape[dim]
    pairs = torch.stack([even.narrow(dim, 0, count), odd], dim + 1).flatten(dim, dim + 1)
    return torch.cat([pairs, even.narrow(dim, count, 1)], dim) if even.shape[dim] > count else pairs
