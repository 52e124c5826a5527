"""Boxes: which elements of a tensor one device makes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Box:
    """The elements of a tensor, seen as one of this shape, from `starts` on, as many as `sizes` says per dimension."""

    shape: tuple[int, ...]
    starts: tuple[int, ...]
    sizes: tuple[int, ...]

    @staticmethod
    def of(index: Sequence[slice], shape: Sequence[int]) -> "Box":
        """Return the box that slices cut out."""
        bounds = [s.indices(n)[:2] for s, n in zip(index, shape, strict=True)]
        return Box(tuple(shape), tuple(a for a, _ in bounds), tuple(b - a for a, b in bounds))

    @staticmethod
    def whole(shape: Sequence[int]) -> "Box":
        """Return the box of all elements."""
        return Box(tuple(shape), (0,) * len(shape), tuple(shape))

    @staticmethod
    def made_of(dims: Sequence[tuple[int, int, int]]) -> "Box":
        """Return the box with these (size of the tensor, start, size of the box) per dimension."""
        return Box(*(tuple(d[i] for d in dims) for i in range(3)))

    @property
    def dims(self) -> list[tuple[int, int, int]]:
        """Per dimension the size of the tensor, the start and the size of the box."""
        return list(zip(self.shape, self.starts, self.sizes, strict=True))

    @property
    def count(self) -> int:
        """The number of elements in the box."""
        return math.prod(self.sizes)

    def cut(self, tensor: Tensor) -> Tensor:
        """Return the elements of a tensor that are in the box."""
        seen = tensor.reshape(self.shape)
        return seen[tuple(slice(a, a + n) for a, n in zip(self.starts, self.sizes, strict=True))]

    def fitted(self, shape: Sequence[int]) -> "Box | None":
        """Return the box of a tensor of this shape with the same elements; None unless only sizes of 1 differ."""
        if tuple(shape) == self.shape:
            return self
        kept = [d for d in self.dims if d[0] != 1]
        if [d[0] for d in kept] != [n for n in shape if n != 1] or not self.count:
            return None
        rest = iter(kept)
        return Box.made_of([(1, 0, 1) if n == 1 else next(rest) for n in shape])

    def _grouped(self, shape: Sequence[int]) -> list[list[tuple[int, int, int]]] | None:
        """Return the dimensions that make up each dimension of a tensor of this shape; None where they do not."""
        if not math.prod(self.shape):
            return None
        groups, rest = [], self.dims
        for size in shape:
            group: list[tuple[int, int, int]] = []
            while math.prod(d[0] for d in group) < size and rest:
                group.append(rest.pop(0))
            if math.prod(d[0] for d in group) != size:
                return None
            groups.append(group)
        if groups:
            groups[-1] += rest
        return groups

    def narrowed(self, whole: Sequence[int], shape: Sequence[int]) -> "Box | None":
        """Return the box of an operand of this shape that broadcasts to a tensor of shape `whole`.

        This is a box of that tensor, whose dimensions may be seen split. None where they are seen in another way.
        """
        groups = self._grouped(whole)
        if groups is None:
            return None
        dims = []
        for size, full, group in zip(
            shape, whole[len(whole) - len(shape) :], groups[len(whole) - len(shape) :], strict=True
        ):
            dims += group if size == full else [(1, 0, 1)] * len(group)
        return Box.made_of(dims)

    def split(self, dims: int) -> "tuple[Box, Box]":
        """Return the box of the leading dimensions, so many, and that of the others."""
        return Box.made_of(self.dims[:dims]), Box.made_of(self.dims[dims:])

    def joined(self, other: "Box") -> "Box":
        """Return the box with the dimensions of this one and then of the other."""
        return Box.made_of(self.dims + other.dims)

    def runs(self) -> list[tuple[int, int]]:
        """Return (number, distance) pairs that say where the box's elements lie, outermost first.

        Element number i of the box, in mixed radix with these numbers as digits, is at the sum of digits times
        distances behind the first one. Neighbours that go through without a gap are one pair.
        """
        found: list[tuple[int, int]] = []
        stride = 1
        for whole, _, size in reversed(self.dims):
            if found and found[-1][0] * found[-1][1] == stride:
                found[-1] = (found[-1][0] * size, found[-1][1])
            elif size != 1 or not found:
                found.append((size, stride))
            stride *= whole
        return found[::-1]

    @property
    def first(self) -> int:
        """Where the box's first element stands in the tensor, counted through."""
        position = 0
        for whole, start, _ in self.dims:
            position = position * whole + start
        return position
