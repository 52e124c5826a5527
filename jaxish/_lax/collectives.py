"""Collectives as structured primitives: what the lanes of one named axis do together.

Each primitive carries the name of one axis. Its vmap rule is called for every level that maps its operand, from the
innermost out: at the level of its own axis (`popped_axis`) the lanes are a dimension of the operand, and the
collective is ordinary tensor code (`across`); at any other level that dimension goes along (`beside`). A collective
that no level takes has an operand that is the same for all lanes (`alike`).

Where lanes get different results although they gave the same operand, a second input must tell them apart: the
index of the lane. It is an operand like any other, so that the rule is called at the right level.
"""

from collections.abc import Hashable, Sequence
from typing import Any

import torch
from torch import Tensor

from .._core import unsigned
from .._core.graph import TensorType
from .._core.primitive import Dims, Primitive, batch_front, popped_axis
from .reductions import extremum

Groups = tuple[tuple[int, ...], ...]


class Collective(Primitive):
    """A collective over one named axis of `size` lanes, all together or within `groups` of them."""

    def __init__(self, axis: Hashable, size: int, groups: Groups | None = None) -> None:
        self.axis, self.size, self.groups = axis, size, groups

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        return [TensorType.of(inputs[0])]

    def run(self, *inputs: Tensor) -> list[Tensor]:
        return [self.alike(inputs[0])]

    def vmap(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        if popped_axis() == self.axis:
            result, dim = self.mapped(inputs[0], dims[0])
            return [result], [dim]
        return self.beside(size, dims, *inputs)

    def beside(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        """Return result and batch dimension where another axis is mapped."""
        return self(*inputs), [dims[0]]

    def mapped(self, operand: Tensor, dim: int | None) -> tuple[Tensor, int | None]:
        """Return result and batch dimension where this axis is mapped, along `dim` of the operand."""
        return self.across(batch_front(operand, dim, self.size))

    def across(self, lanes: Tensor) -> tuple[Tensor, int | None]:
        """Return the result for an operand whose leading dimension are the lanes, and the result's lane dimension."""
        raise NotImplementedError

    def alike(self, operand: Tensor) -> Tensor:
        """Return the result where all lanes gave the same operand."""
        raise RuntimeError(
            f"{self.__name__} over the axis {self.axis!r} reached the end of all transformations with the axis unmapped. "
            "An axis that make_jaxpr(axis_env=...) binds has a size, but no lanes: use vmap(axis_name=...) to compute."
        )

    def transposed(self) -> "Collective":
        """Return the collective that takes cotangents back."""
        raise NotImplementedError(f"Differentiation rule for {self.__name__!r} not implemented: it is not linear.")

    def jvp(self, primals: Sequence[Tensor], tangents: Sequence[Tensor | None]) -> list[Tensor | None]:
        self.transposed()
        return [None if tangents[0] is None else self(tangents[0], *primals[1:])[0]]

    def vjp(self, primals: Any, results: Any, cotangents: Any) -> Sequence[Tensor | None]:
        back = None if cotangents[0] is None else self.transposed()(cotangents[0], *primals[1:])[0]
        return [back, *[None] * (len(primals) - 1)]


class _Reduced(Collective):
    """A collective that is one operand's, and JAX's under its name."""

    def equation(self) -> tuple[str, dict[str, Any]]:
        return self.__name__, {"axes": (self.axis,), "axis_index_groups": self.groups}


class PSum(_Reduced):
    """The sum of all lanes."""

    __name__ = "psum"

    def mapped(self, operand: Tensor, dim: int | None) -> tuple[Tensor, int | None]:
        return (self.alike(operand), None) if dim is None and self.groups is None else super().mapped(operand, dim)

    def across(self, lanes: Tensor) -> tuple[Tensor, int | None]:
        if self.groups is None:
            return unsigned.sum(lanes, (0,)), None
        return by_group(lanes, self.groups, lambda group: unsigned.sum(group, (0,)).expand(group.shape)), 0

    def alike(self, operand: Tensor) -> Tensor:
        return operand * (self.size if self.groups is None else len(self.groups[0]))

    def transposed(self) -> Collective:
        return self


class PMax(_Reduced):
    """The greatest value of all lanes."""

    __name__ = "pmax"
    greatest = True

    def across(self, lanes: Tensor) -> tuple[Tensor, int | None]:
        if self.groups is None:
            return extremum(lanes, (0,), self.greatest), None
        return by_group(lanes, self.groups, lambda g: extremum(g, (0,), self.greatest).expand(g.shape)), 0

    def alike(self, operand: Tensor) -> Tensor:
        return operand.clone()


class PMin(PMax):
    """The least value of all lanes."""

    __name__ = "pmin"
    greatest = False


class PPermute(Collective):
    """Lane i gets the operand of lane `sources[i]`, zeros where that is None. Inputs: operand, lane index."""

    __name__ = "ppermute"

    def __init__(self, axis: Hashable, size: int, sources: tuple[int | None, ...]) -> None:
        super().__init__(axis, size)
        self.sources = sources

    def across(self, lanes: Tensor) -> tuple[Tensor, int | None]:
        return take_lanes(lanes, self.sources), 0

    def transposed(self) -> Collective:
        back: list[int | None] = [None] * self.size
        for destination, source in enumerate(self.sources):
            if source is not None:
                back[source] = destination
        return PPermute(self.axis, self.size, tuple(back))


class AllGather(Collective):
    """Every lane gets the operands of all lanes, stacked along dimension 0. Inputs: operand, lane index."""

    __name__ = "all_gather"

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        x = inputs[0]
        return [TensorType((group_size(self.size, self.groups), *x.shape), x.dtype, x.device)]

    def beside(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        return self(*inputs), [None if dims[0] is None else dims[0] + 1]

    def across(self, lanes: Tensor) -> tuple[Tensor, int | None]:
        if self.groups is None:
            return lanes, None
        return by_group(lanes, self.groups, lambda g: g.unsqueeze(0).expand(g.shape[0], *g.shape)), 0

    def transposed(self) -> Collective:
        return PSumScatter(self.axis, self.size, self.groups)


class VaryingAllGather(AllGather):
    """`AllGather` where types tell what varies: each lane has a copy of its own."""

    def across(self, lanes: Tensor) -> tuple[Tensor, int | None]:
        if self.groups is not None:
            return super().across(lanes)
        return lanes.unsqueeze(0).expand(self.size, *lanes.shape), 0


class PSumScatter(Collective):
    """Lane i gets the sum over the lanes of slice i along dimension 0. Inputs: operand, lane index."""

    __name__ = "psum_scatter"

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        x = inputs[0]
        return [TensorType(tuple(x.shape[1:]), x.dtype, x.device)]

    def beside(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        x = batch_front(inputs[0], dims[0], size).movedim(0, 1)
        return self(x, *inputs[1:]), [0]

    def across(self, lanes: Tensor) -> tuple[Tensor, int | None]:
        if self.groups is None:
            return unsigned.sum(lanes, (0,)), 0
        return by_group(lanes, self.groups, lambda group: unsigned.sum(group, (0,))), 0

    def transposed(self) -> Collective:
        return AllGather(self.axis, self.size, self.groups)


class AllToAll(Collective):
    """Lane i gets slice i of each lane's operand, stacked along dimension 0. Inputs: operand, lane index."""

    __name__ = "all_to_all"

    def beside(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        x = batch_front(inputs[0], dims[0], size).movedim(0, 1)
        return self(x, *inputs[1:]), [1]

    def across(self, lanes: Tensor) -> tuple[Tensor, int | None]:
        if self.groups is None:
            return lanes.transpose(0, 1), 0
        return by_group(lanes, self.groups, lambda group: group.transpose(0, 1)), 0

    def transposed(self) -> Collective:
        return self


def group_size(size: int, groups: Groups | None) -> int:
    """Return how many lanes act together."""
    return size if groups is None else len(groups[0])


def by_group(lanes: Tensor, groups: Groups, function: Any) -> Tensor:
    """Apply `function`, from the lanes of a group to one result per lane of it, to each group of lanes."""
    results = torch.cat([function(take_lanes(lanes, group)) for group in groups])
    order = [lane for group in groups for lane in group]
    return take_lanes(results, [order.index(lane) for lane in range(len(order))])


def take_lanes(lanes: Tensor, sources: Sequence[int | None]) -> Tensor:
    """Return the slices of `lanes` along dimension 0 at `sources`, zeros for None.

    By slicing: an index tensor would be a constant, which rules that are traced may not have. Runs of neighbours are
    one slice, so that the usual permutation, a shift, takes two.
    """
    parts, start = [], 0
    while start < len(sources):
        first, stop = sources[start], start + 1
        while stop < len(sources) and sources[stop] == (None if first is None else first + stop - start):
            stop += 1
        if first is None:
            parts.append(torch.zeros((stop - start, *lanes.shape[1:]), dtype=lanes.dtype, device=lanes.device))
        else:
            parts.append(lanes.narrow(0, first, stop - start))
        start = stop
    return torch.cat(parts) if len(parts) > 1 else parts[0]
