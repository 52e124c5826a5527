"""linear_call: a linear function with a transpose of the user's own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .._core import derived, graph, tree
from .._core.array import tensor_of
from .._core.graph import Graph, TensorType
from .._core.primitive import Dims, Primitive, instantiate, popped_axis
from .flat import arrays_from, as_argument
from .program import Program, trace_program


@dataclass(frozen=True)
class _Side:
    """One of the two functions: its graph, whose inputs are what it captured, the residuals and the linear arguments."""

    body: Graph
    captured: tuple[Tensor, ...]


class LinearCall(Primitive):
    """A call of a linear function; its transpose is a call of the other side, whose transpose is this one."""

    __name__ = "linear_call"
    rules = ("other",)

    def __init__(self, body: Graph, fixed: int, captured: int, other: Callable[[], _Side]) -> None:
        self.body, self.fixed, self.captured, self.other = body, fixed, captured, other

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        return self.body.out_types

    def run(self, *inputs: Tensor) -> list[Tensor]:
        return self.body(*inputs)

    def vmap(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        name = popped_axis()
        body = derived.batched(self.body, dims, size, name)
        other = lambda: _mapped(self.other(), body.out_types, dims[self.captured :], self.fixed, size, name)  # noqa: E731
        results = LinearCall(body, self.fixed, self.captured, other)(*inputs)
        return results, [0] * len(results)

    def jvp(self, primals: Sequence[Tensor], tangents: Sequence[Tensor | None]) -> list[Tensor | None]:
        linear = self.captured + self.fixed
        if any(t is not None for t in tangents[:linear]):
            raise NotImplementedError(
                "linear_call is not differentiated with respect to its residuals: apply jax.lax.stop_gradient to them, or "
                "write the function with jax.custom_vjp."
            )
        if all(t is None for t in tangents):
            return [None] * len(self.body.out_types)
        given = [instantiate(t, p) for t, p in zip(tangents[linear:], primals[linear:], strict=True)]
        return list(self(*primals[:linear], *given))

    def vjp(
        self, primals: Sequence[Tensor], results: Sequence[Tensor], cotangents: Sequence[Tensor | None]
    ) -> Sequence[Tensor | None]:
        linear = self.captured + self.fixed
        residuals = primals[self.captured : linear]
        seeds = [instantiate(c, r) for c, r in zip(cotangents, results, strict=True)]
        other, own = self.other(), _Side(self.body, tuple(primals[: self.captured]))
        call = LinearCall(other.body, self.fixed, len(other.captured), lambda: own)
        return [*(None for _ in primals[:linear]), *call(*other.captured, *residuals, *seeds)]


def _mapped(side: _Side, out_types: Sequence[TensorType], dims: Dims, fixed: int, size: int, name: Any) -> _Side:
    """Return a side mapped over a batch: residuals along `dims`, what is linear along 0, and summed where it was not mapped."""
    count = len(side.captured)
    all_dims = [None] * count + list(dims[:fixed]) + [0] * len(out_types)
    body = derived.batched(side.body, all_dims, size, name)

    def placed(*inputs: Tensor) -> list[Tensor]:
        pairs = zip(body(*inputs), dims[fixed:], strict=True)
        return [r.sum(0) if d is None else r.movedim(0, d) for r, d in pairs]

    return _Side(graph.trace(placed, body.in_types).graph, side.captured)


def linear_call(
    fun: Callable[..., Any], fun_transpose: Callable[..., Any], residual_args: Any, linear_args: Any
) -> Any:
    """Return `fun(residual_args, linear_args)`, a function linear in the second argument, transposed by `fun_transpose`.

    `fun_transpose(residual_args, cotangents)` gives cotangents of `linear_args`; its own transpose is `fun`. Derivatives
    with respect to the residuals are refused. Raises `TypeError` where the transpose's structure is not that of `linear_args`.
    """
    residuals, residual_spec = tree.flatten(residual_args)
    linear, linear_spec = tree.flatten(linear_args)
    fixed = [as_argument(x, "linear_call") for x in residuals]
    given = [as_argument(x, "linear_call") for x in linear]

    def traced(function: Callable[..., Any], arguments: Sequence[Any], spec: tree.Spec) -> Program:
        def rebuild(values: Sequence[Any]) -> tuple[tuple[Any, Any], dict[str, Any]]:
            return (residual_spec.unflatten(values[: len(fixed)]), spec.unflatten(values[len(fixed) :])), {}

        return trace_program(function, [*fixed, *arguments], rebuild, (), "linear_call")

    program = traced(fun, given, linear_spec)

    def other() -> _Side:
        types = [
            torch.zeros((), dtype=t.dtype, device=t.device).expand(t.shape) for t in program.closed.graph.out_types
        ]
        transposed = traced(fun_transpose, arrays_from(types, program.out_kinds), program.out_spec)
        if transposed.out_spec != linear_spec:
            raise TypeError(
                "transpose output pytree structure must match that of linear inputs, got output structure "
                f"{tree.PyTreeDef(transposed.out_spec)} and input structure {tree.PyTreeDef(linear_spec)}."
            )
        return _Side(transposed.closed.graph, transposed.closed.captured)

    closed = program.closed
    call = LinearCall(closed.graph, len(fixed), len(closed.captured), other)
    results = call(*closed.closure(), *map(tensor_of, [*fixed, *given]))
    return program.out_spec.unflatten(arrays_from(results, program.out_kinds))
