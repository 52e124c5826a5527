"""shard_alike: two pytrees whose arrays lie over devices in the same way, whichever of them says how."""

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from .._core import graph, levels, tree
from .._core.array import Array, as_array, from_kind, tensor_of
from .._core.boxes import Box
from .._core.graph import TensorType
from .._core.primitive import Dims, Primitive, batch_front
from .._devices.constraint import constrained, sharding_given


class Alike(Primitive):
    """The identity on two arrays of one shape; in a graph, the wish that they may lie over devices alike."""

    __name__ = "shard_alike"
    is_laid_out_alike = True

    def equation(self) -> tuple[str, dict[str, Any]]:
        return self.__name__, {}

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        return [TensorType.of(i) for i in inputs]

    def run(self, *inputs: Tensor) -> list[Tensor]:
        return list(inputs)

    def part(
        self, index: int, box: Box, types: Sequence[TensorType]
    ) -> tuple[list[Box | None], Callable[..., Tensor]] | None:
        return [box, box], lambda *parts: parts[index]

    def vmap(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        return self(*(batch_front(t, d, size) for t, d in zip(inputs, dims, strict=True))), [0, 0]

    def jvp(self, primals: Any, tangents: Sequence[Tensor | None]) -> list[Tensor | None]:
        first, second = tangents
        if first is None or second is None:
            return [first, second]
        return [*self(first, second)]

    def vjp(self, primals: Any, results: Any, cotangents: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
        return self.jvp(primals, cotangents)


def shard_alike(x: Any, y: Any) -> tuple[Any, Any]:
    """Return the pytrees `x` and `y`, leaf by leaf laid over devices alike: as `x` lies, or as `y` if `x` says nothing.

    Raises `ValueError` for other pytrees, and for leaves of other shapes.
    """
    leaves, trees = zip(*(tree.flatten(t) for t in (x, y)), strict=True)
    if trees[0] != trees[1]:
        raise ValueError(f"Trees should be equal. Got x_tree: {trees[0]}, y_tree: {trees[1]}")
    pairs = [(as_array(a), as_array(b)) for a, b in zip(*leaves, strict=True)]
    for a, b in pairs:
        if a.shape != b.shape:
            raise ValueError(
                f"The leaves shapes of `x` and `y` should match. Got `x` leaf shape: {a.shape} and `y` leaf shape: {b.shape}."
            )
    found = [_alike(a, b) for a, b in pairs]
    return tuple(trees[0].unflatten(column) for column in ([a for a, _ in found], [b for _, b in found]))


def _alike(a: Array, b: Array) -> tuple[Array, Array]:
    if graph.is_tracing() or levels.is_tracer(tensor_of(a)) or levels.is_tracer(tensor_of(b)):
        first, second = Alike()(tensor_of(a), tensor_of(b))
        return from_kind(first, a.kind), from_kind(second, b.kind)
    sharding = sharding_given(a) or sharding_given(b)
    if sharding is None:
        return a, b
    return constrained(a, sharding, "shard_alike"), constrained(b, sharding, "shard_alike")
