"""Slices that begin where the program says as it runs: `x[jax.ds(start, size)]`.

Such an entry of an index takes a window of its dimension, and is no index array: the dimension stays where it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._core.array import Array, tensor_of
from .._core.symbolic_sizes import index as index_of
from .._core.tree import register_pytree_node_class
from .._tensors.elements import GatherScatterMode, put_elements, slices_at


@register_pytree_node_class
@dataclass(frozen=True)
class Slice:
    """A slice of `size` elements from `start` on, `stride` apart; the start may be traced."""

    start: Any
    size: Any
    stride: int = 1

    def __post_init__(self) -> None:
        if self.stride < 0:
            raise ValueError("`stride` must be >= 0.")

    @property
    def is_dynamic_start(self) -> bool:
        """Whether the start is an array."""
        return not isinstance(self.start, int)

    @property
    def is_dynamic_size(self) -> bool:
        """Whether the size is an array."""
        return not isinstance(self.size, int)

    def tree_flatten(self) -> tuple[tuple[Any, Any], tuple[Any, Any, int]]:
        """Return start and size where they are arrays, and the rest."""
        given, dynamic = (self.start, self.size), (self.is_dynamic_start, self.is_dynamic_size)
        arrays = tuple(x if d else None for x, d in zip(given, dynamic, strict=True))
        numbers = tuple(None if d else x for x, d in zip(given, dynamic, strict=True))
        return (arrays[0], arrays[1]), (numbers[0], numbers[1], self.stride)

    @classmethod
    def tree_unflatten(cls, aux_data: Any, children: Any) -> "Slice":
        """Return the slice of these parts."""
        start, size = (fixed if array is None else array for array, fixed in zip(children, aux_data[:2], strict=True))
        return cls(start, size, aux_data[2])


def dslice(start: Any, size: Any = None, stride: int | None = None) -> slice | Slice:
    """Return an index entry: `ds(None)` is `:`, `ds(j)` is `:j`, `ds(i, j)` is `i:i+j`, with `stride` `i:i+j*stride:stride`.

    `start` may be traced, `size` may not. Raises `ValueError` for a stride that is traced or negative.
    """
    if start is None:
        return slice(None)
    if stride is not None and not isinstance(stride, int):
        raise ValueError("Non-static stride in `dslice`")
    return Slice(0, start, stride or 1) if size is None else Slice(start, size, stride or 1)


@dataclass(frozen=True)
class _Place:
    """The positions along a dimension that a slice reads and those that it writes, which may be out of bounds.

    `moved` are those within bounds that stand for these where an index is to be clipped.
    """

    dim: int
    read: Tensor
    written: Tensor
    moved: Tensor


@dataclass(frozen=True)
class Windows:
    """The windows of a tensor that an index takes, and the index of the rest of what it says."""

    places: list[_Place]
    index: tuple[Any, ...]

    def read(self, t: Tensor) -> Tensor:
        """Return the windows' elements."""
        return slices_at(t, [p.dim for p in self.places], [p.read for p in self.places])

    def clipped(self) -> "Windows":
        """Return the windows moved within bounds, to be read and written there."""
        return replace(self, places=[replace(p, read=p.moved, written=p.moved) for p in self.places])

    def written(self, t: Tensor, new: Tensor) -> Tensor:
        """Return `t` with other elements in the windows, but for those out of bounds."""
        return _written(t, new, self.places)


def _written(t: Tensor, new: Tensor, places: Sequence[_Place]) -> Tensor:
    place, *others = places
    part = _written(slices_at(t, [place.dim], [place.read]), new, others) if others else new
    moved = t.movedim(place.dim, 0), [place.written], part.movedim(place.dim, 0)
    return put_elements(*moved, "set", GatherScatterMode.FILL_OR_DROP, True).movedim(0, place.dim)


def windows_of(t: Tensor, index: Any) -> Windows | None:
    """Return the windows that an index of `t` takes, None where no entry is a `Slice`."""
    entries = index if isinstance(index, tuple) else (index,)
    if not any(type(e) is Slice for e in entries):
        return None
    wraps = not any(isinstance(e, Array | np.ndarray | list) for e in entries)
    dims = zip(entries, dims_of(entries, t.dim()), strict=True)
    places = [_place(e, dim, t.shape[dim], wraps, t.device) for e, dim in dims if type(e) is Slice]
    return Windows(places, tuple(slice(None) if type(e) is Slice else e for e in entries))


def dims_of(entries: Sequence[Any], ndim: int) -> list[int]:
    """Return the dimension at which each entry of an index begins."""
    sizes = [_consumed(e) for e in entries]
    missing = ndim - sum(sizes)
    sizes = [missing if e is Ellipsis else n for e, n in zip(entries, sizes, strict=True)]
    return [sum(sizes[:i]) for i in range(len(sizes))]


def _consumed(entry: Any) -> int:
    if entry is None or entry is Ellipsis or isinstance(entry, bool):
        return 0
    is_mask = str(getattr(entry, "dtype", "")) == "bool"
    return entry.ndim if is_mask else 1


def _place(entry: Slice, dim: int, extent: int, wraps: bool, device: torch.device) -> _Place:
    """Return what a slice takes of a dimension, as JAX does it.

    Neighbouring elements are a window: it is moved into bounds to be read (from the end, if `wraps`, where its start is
    negative), and not written unless it is within them. Elements that are strides apart are each on their own.
    """
    size = index_of(entry.size)
    steps = torch.arange(max(size, 0), device=device) * entry.stride
    start = entry.start
    first = tensor_of(start) if isinstance(start, Array) else torch.full((), int(start), device=device)
    first = first.to(torch.int64)
    if entry.stride != 1:
        positions = first + steps
        clipped = positions.clamp(0, extent - 1)
        return _Place(dim, clipped, torch.where(positions < 0, extent, positions), clipped)
    if size > extent:
        raise TypeError(f"a slice of {size} elements is longer than its dimension, {extent}")
    fits = (first >= 0) & (first <= extent - size)
    wrapped = torch.where(first < 0, first + extent, first) if wraps else first
    read, moved = wrapped.clamp(0, extent - size) + steps, first.clamp(0, extent - size) + steps
    return _Place(dim, read, torch.where(fits, first + steps, extent), moved)
