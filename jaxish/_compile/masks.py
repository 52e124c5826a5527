"""Boolean arrays at the border of compiled CPU code, as bytes.

Inductor's vectors have no fast way between a mask and `bool` memory (torch 2.13: `VecMask::store` and the load of a
mask go lane by lane, with a branch for each): 8 ms to write 1M random booleans and 3 ms to read them, where bytes take
0.05 and 0.1 ms. So a large boolean array goes in and out as uint8, and is a comparison of floats inside.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx
from torch.fx import GraphModule

from .._core.graph import type_of

_FROM = 1024  # elements; below, the views cost more than they save

_LOGICAL = {
    "logical_and", "logical_or", "logical_not", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_not", "bitwise_xor",
}  # fmt: skip
# What makes masks, and what reads them element by element: neither needs them in memory.
_MAKERS = {*_LOGICAL, "eq", "ne", "lt", "le", "gt", "ge", "isnan"}
_READERS = {*_LOGICAL, "where", "_to_copy", "masked_fill", "any", "all"}
_VIEWS = {"reshape", "permute", "transpose", "unsqueeze", "squeeze", "expand", "alias", "detach"}


@dataclass(frozen=True)
class ByteMasks:
    """The positions of the inputs and outputs of a graph that are booleans kept as bytes."""

    inputs: frozenset[int]
    outputs: frozenset[int]

    def __bool__(self) -> bool:
        return bool(self.inputs or self.outputs)

    def around(self, run: Callable[..., Sequence[Tensor]]) -> Callable[..., Sequence[Tensor]]:
        """Return `run`, which takes and returns bytes, as a function of booleans."""

        def with_booleans(*tensors: Tensor) -> Sequence[Tensor]:
            results = run(*(t.view(torch.uint8) if i in self.inputs else t for i, t in enumerate(tensors)))
            return [r.view(torch.bool) if i in self.outputs else r for i, r in enumerate(results)]

        return with_booleans


def as_bytes(module: GraphModule) -> tuple[GraphModule, ByteMasks]:
    """Return the graph with its large boolean inputs and outputs as uint8, and which those are."""
    inputs, results = module.graph.find_nodes(op="placeholder"), module.graph.output_node().args[0]
    masks = ByteMasks(
        frozenset(i for i, n in enumerate(inputs) if _is_large_mask(n) and all(_name(u) in _READERS for u in n.users)),
        frozenset(i for i, n in enumerate(results) if _is_large_mask(n) and _is_made(n)),  # pyright: ignore
    )
    if not masks:
        return module, masks
    copy, copies = fx.Graph(), {}
    for node in inputs:
        copies[node] = copy.node_copy(node)
    for position in masks.inputs:
        floats = copy.call_function(
            torch.ops.aten._to_copy.default, (copies[inputs[position]],), {"dtype": torch.float32}
        )
        copies[inputs[position]] = copy.call_function(torch.ops.aten.ne.Scalar, (floats, 0))
    found = copy.graph_copy(module.graph, copies)
    assert isinstance(found, list | tuple)
    made = list(found)
    for position in masks.outputs:
        for dtype in (torch.float32, torch.uint8):
            made[position] = copy.call_function(torch.ops.aten._to_copy.default, (made[position],), {"dtype": dtype})
    copy.output(made)
    return GraphModule(module, copy), masks


def vectorized(module: GraphModule) -> GraphModule:
    """Return the graph with its tests of numbers as comparisons, which Inductor has vectors for (isinf: 2.3 ms, 0.05)."""
    if not any(map(_is_scalar_test, module.graph.nodes)):
        return module
    copy, copies = fx.Graph(), {}
    for node in module.graph.nodes:
        copies[node] = copy.node_copy(node, lambda n: copies[n])
        if not _is_scalar_test(node):
            continue
        first, name = copies[node].args[0], _name(node)
        if name == "isinf":
            with copy.inserting_before(copies[node]):
                first = copy.call_function(torch.ops.aten.abs.default, (first,))
            copies[node].target, copies[node].args = torch.ops.aten.eq.Scalar, (first, math.inf)
        elif name == "isnan":
            copies[node].target, copies[node].args = torch.ops.aten.ne.Tensor, (first, first)
        else:
            copies[node].target = torch.ops.aten.logical_and.default
    return GraphModule(module, copy)


def _is_scalar_test(node: fx.Node) -> bool:
    if _name(node) == "mul":  # torch's isfinite multiplies two masks
        return all(isinstance(a, fx.Node) and _dtype(a) is torch.bool for a in node.args)
    if _name(node) not in ("isnan", "isinf"):
        return False
    (operand,) = node.all_input_nodes
    dtype = _dtype(operand)
    return dtype is not None and dtype.is_floating_point


def _dtype(node: fx.Node) -> torch.dtype | None:
    type = type_of(node)
    return None if type is None else type.dtype


def _name(node: fx.Node) -> str:
    return getattr(node.target, "__name__", "").split(".")[0]


def _is_made(node: fx.Node) -> bool:
    while _name(node) in _VIEWS:
        (node, *_) = node.all_input_nodes
    return _name(node) in _MAKERS


def _is_large_mask(node: Any) -> bool:
    type = type_of(node)
    if type is None or type.dtype is not torch.bool or type.device.type != "cpu":
        return False
    return math.prod(type.shape) >= _FROM
