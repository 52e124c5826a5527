"""stop_gradient and optimization_barrier: the identity on values, and something to those who look at the graph."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from .._core import tree
from .._core.array import as_array, from_kind, is_arraylike, tensor_of
from .._core.graph import TensorType
from .._core.primitive import Dims, Primitive
from .._transforms.flat import differentiable


def stop_gradient(x: Any) -> Any:
    """Return the pytree `x`, a constant to every derivative: its tangents and cotangents are zero."""
    leaves, spec = tree.flatten(x)
    return spec.unflatten(_stopped(leaf) if is_arraylike(leaf) else leaf for leaf in leaves)


def _stopped(leaf: Any) -> Any:
    array = as_array(leaf)
    return from_kind(tensor_of(array).detach(), array.kind) if differentiable(array) else array


class Barrier(Primitive):
    """The identity on several arrays, which a compiler does not move operations across."""

    __name__ = "optimization_barrier"

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        return [TensorType.of(i) for i in inputs]

    def run(self, *inputs: Tensor) -> list[Tensor]:
        return list(inputs)

    def vmap(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        return self(*inputs), list(dims)

    def jvp(self, primals: Any, tangents: Sequence[Tensor | None]) -> list[Tensor | None]:
        present = [t for t in tangents if t is not None]
        found = iter(self(*present)) if present else iter(())
        return [None if t is None else next(found) for t in tangents]

    def vjp(self, primals: Any, results: Any, cotangents: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
        return self.jvp(primals, cotangents)


def optimization_barrier(operand: Any, /) -> Any:
    """Return the pytree `operand`. Operations before it are not merged with operations after it in a traced graph.

    Inductor schedules by data dependence alone, so in compiled code the barrier has no effect.
    """
    leaves, spec = tree.flatten(operand)
    arrays = [as_array(leaf) for leaf in leaves]
    results = Barrier()(*map(tensor_of, arrays))
    return spec.unflatten(from_kind(r, a.kind) for r, a in zip(results, arrays, strict=True))
