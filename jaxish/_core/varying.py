"""What varies over the devices of a `shard_map` and what is the same for all, which JAX's types tell apart (`check_vma=True`).

A value varies along an axis if the axis's functorch level has batched it. Where one that is the same for all devices
meets one that varies, it becomes one that varies, and going back the cotangents of all devices are summed. Torch
batches without a word, so that nothing can be summed there. Within a derivative cotangents are therefore others than
the user's, `n` being the number of devices: for what varies `n` times the user's, and for what is the same for all a
value whose mean over the devices is the user's. These add up and go through any linear code, and the transpose of a
sum over the devices is such a sum. `spread` and `gathered` go from the one to the other.
"""

import functools
from collections.abc import Hashable, Sequence
from typing import Any

import torch
from torch import Tensor

from . import axes, graph, unsigned
from .axes import Axes
from .graph import TensorType
from .primitive import Dims, Primitive, popped_axis


class AxisIndex(Primitive):
    """The index of the lane along an axis: it has a value where a level maps the axis, and stands in graphs that none maps yet."""

    __name__ = "axis_index"

    def __init__(self, axis: Hashable, device: torch.device) -> None:
        self.axis, self.device = axis, device

    def equation(self) -> tuple[str, dict[str, Any]]:
        return self.__name__, {"axis_name": self.axis}

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        return [TensorType((), torch.int32, self.device)]

    def lanes_told(self) -> frozenset[Hashable]:
        return frozenset({self.axis})

    def __call__(self, *inputs: Tensor) -> list[Tensor]:
        index = axes.lane_index(self.axis, self.device)
        return super().__call__() if index is None else [graph.lift(index) if graph.tracing else index]

    def run(self, *inputs: Tensor) -> list[Tensor]:
        raise RuntimeError(f"axis_index({self.axis!r}) has no value: the axis has a size, but no lanes.")


class _OfType(Primitive):
    """A linear function of the first input along one axis of devices, which the second input's type has a say in."""

    def __init__(self, axis: object, size: int) -> None:
        self.axis, self.size = axis, size

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        return [TensorType.of(inputs[0])]

    def run(self, *inputs: Tensor) -> list[Tensor]:
        return [inputs[0]]

    def vmap(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        if popped_axis() != self.axis:
            return self(*inputs), [dims[0]]
        result, dim = self.across(inputs[0], dims[0], dims[1] is not None)
        return [result], [dim]

    def across(self, value: Tensor, dim: int | None, other_varies: bool) -> tuple[Tensor, int | None]:
        """Return the result and its dimension of devices, for a value whose devices are along `dim`."""
        raise NotImplementedError

    def jvp(self, primals: Sequence[Tensor], tangents: Sequence[Tensor | None]) -> list[Tensor | None]:
        return [None if tangents[0] is None else self(tangents[0], primals[1])[0]]

    def vjp(
        self, primals: Sequence[Tensor], results: Sequence[Tensor], cotangents: Sequence[Tensor | None]
    ) -> Sequence[Tensor | None]:
        return [*self.jvp(primals, cotangents), None]


class Vary(_OfType):
    """A value, as one that varies if the second input does."""

    __name__ = "pvary"

    def across(self, value: Tensor, dim: int | None, other_varies: bool) -> tuple[Tensor, int | None]:
        if dim is None and other_varies:
            return value.unsqueeze(0).expand(self.size, *value.shape), 0
        return value, dim

    def vjp(
        self, primals: Sequence[Tensor], results: Sequence[Tensor], cotangents: Sequence[Tensor | None]
    ) -> Sequence[Tensor | None]:
        return [cotangents[0], None]


class _Spread(_OfType):
    """The user's cotangent as one within a derivative: the second input varies if the cotangent or what it is of does."""

    __name__ = "spread_cotangent"

    def across(self, value: Tensor, dim: int | None, other_varies: bool) -> tuple[Tensor, int | None]:
        return value * self.size if other_varies else value, dim


class _Gather(_OfType):
    """A cotangent within a derivative as the user's: the second input varies if what it is of does."""

    __name__ = "gather_cotangent"

    def across(self, value: Tensor, dim: int | None, other_varies: bool) -> tuple[Tensor, int | None]:
        if other_varies:
            return value / self.size, dim
        return (value, None) if dim is None else (unsigned.sum(value, (dim,)) / self.size, None)


def mark(*values: Tensor) -> Tensor:
    """Return a tensor without elements that varies if one of the values does."""
    empty = [(v if v.dim() else v.unsqueeze(0)).narrow(0, 0, 0).reshape(0) for v in values]
    return functools.reduce(torch.add, empty)


def spread(cotangents: Sequence[Tensor], marks: Sequence[Tensor], names: Axes) -> list[Tensor]:
    """Return the user's cotangents of values with these marks as they are within a derivative."""
    found = list(cotangents)
    for name, size in names:
        found = [_Spread(name, size)(c, mark(c, m))[0] for c, m in zip(found, marks, strict=True)]
    return found


def gathered(cotangents: Sequence[Tensor], marks: Sequence[Tensor], names: Axes) -> list[Tensor]:
    """Return cotangents within a derivative of values with these marks as the user's."""
    found = list(cotangents)
    for name, size in names:
        found = [_Gather(name, size)(c, m)[0] for c, m in zip(found, marks, strict=True)]
    return found


def varied(values: Sequence[Tensor], names: Axes) -> list[Tensor]:
    """Return values as ones that vary along these axes, which levels map."""
    found = list(values)
    for name, size in names:
        found = [Vary(name, size)(v, *AxisIndex(name, v.device)())[0] for v in found]
    return found


def varied_as(values: Sequence[Tensor], others: Sequence[Tensor], names: Axes) -> list[Tensor]:
    """Return values as ones that vary along these axes as one of the others does."""
    found = list(values)
    for name, size in names if others else ():
        found = [Vary(name, size)(v, mark(*others))[0] for v in found]
    return found
