"""What the forward pass of a differentiated graph keeps for going back, in words; and labels for such values."""

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, fx

from .._core import operators
from .._core.graph import Graph, TensorType
from .._core.primitive import Dims, Primitive


class Name(Primitive):
    """The identity, with a label that checkpoint policies can ask for."""

    __name__ = "name"

    def __init__(self, label: str) -> None:
        self.label = label

    def equation(self) -> tuple[str, dict[str, Any]] | None:
        return self.__name__, {"name": self.label}

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        return [TensorType.of(inputs[0])]

    def run(self, *inputs: Tensor) -> list[Tensor]:
        return list(inputs)

    def vmap(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        return self(*inputs), list(dims)

    def jvp(self, primals: Any, tangents: Sequence[Tensor | None]) -> list[Tensor | None]:
        return list(tangents)

    def vjp(self, primals: Any, results: Any, cotangents: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
        return cotangents


def kept(forward: Graph, backward: Graph, results: int) -> tuple[list[int], list[fx.Node]]:
    """Return what the backward half reads: positions of inputs, and nodes of the forward half, which has so many `results`."""
    inputs = forward.module.graph.find_nodes(op="placeholder")
    read = backward.module.graph.find_nodes(op="placeholder")[: len(inputs)]
    outputs: Any = forward.module.graph.output_node().args[0]
    made = [viewed(node) for node in outputs[results:]]
    found = [i for i, (node, r) in enumerate(zip(inputs, read, strict=True)) if r.users or node in made]
    return found, [node for node in dict.fromkeys(made) if node not in inputs]


def viewed(node: fx.Node) -> fx.Node:
    """Return what made the memory that a node shows."""
    while node.op == "call_function" and node.target is not operator.getitem and _shows_another(node.target):
        node = node.all_input_nodes[0]
    return node


def _shows_another(target: Any) -> bool:
    return operators.of(target).is_view or target in (torch.ops.aten.detach.default, torch.ops.aten.alias.default)


def origin(node: fx.Node) -> str:
    """Return in words what made a value."""
    target: Any = node.args[0].target if node.target is operator.getitem else node.target  # pyright: ignore
    if isinstance(target, Name):
        return f"named '{target.label}'"
    return f"output of {operators.of(target).jax_name}" if node.all_input_nodes else "from a literal"
