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

from .._core import operators
from .._core.graph import type_of
from .._core.operators import Kind, aten
from .._core.rewriting import rewritten

_FROM = 1024  # elements; below, the views cost more than they save

# What makes masks, and what reads them element by element: neither needs them in memory.
_MAKERS = (Kind.COMPARISON, Kind.LOGICAL)
_READERS = {aten.where.self, aten._to_copy.default, aten.masked_fill.Scalar, aten.masked_fill.Tensor}


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
        frozenset(i for i, n in enumerate(inputs) if _is_large_mask(n) and all(map(_reads, n.users))),
        frozenset(i for i, n in enumerate(results) if _is_large_mask(n) and _is_made(n)),  # pyright: ignore
    )
    taken, given = [inputs[i] for i in masks.inputs], module.graph.output_node()

    def convert(node: fx.Node) -> fx.Node | None:
        call = node.graph.call_function
        if node.op == "placeholder":
            floats = call(aten._to_copy.default, (node,), {"dtype": torch.float32})
            return call(aten.ne.Scalar, (floats, 0))
        made = list(node.args[0])  # pyright: ignore
        for position in masks.outputs:
            for dtype in (torch.float32, torch.uint8):
                made[position] = call(aten._to_copy.default, (made[position],), {"dtype": dtype})
        node.args = (made,)
        return None

    return rewritten(module, lambda node: node in taken or (node is given and bool(masks.outputs)), convert), masks


def vectorized(module: GraphModule) -> GraphModule:
    """Return the graph with its tests of numbers as comparisons, which Inductor has vectors for (isinf: 2.3 ms, 0.05)."""
    return rewritten(module, _is_scalar_test, _as_comparison)


def _as_comparison(test: fx.Node) -> None:
    first = test.args[0]
    if test.target is aten.isinf.default:
        size = test.graph.call_function(aten.abs.default, (first,))
        test.target, test.args = aten.eq.Scalar, (size, math.inf)
    elif test.target is aten.isnan.default:
        test.target, test.args = aten.ne.Tensor, (first, first)
    else:
        test.target = aten.logical_and.default


def _is_scalar_test(node: fx.Node) -> bool:
    if node.target is aten.mul.Tensor:  # torch's isfinite multiplies two masks
        return all(isinstance(a, fx.Node) and _dtype(a) is torch.bool for a in node.args)
    if node.target not in (aten.isnan.default, aten.isinf.default):
        return False
    (operand,) = node.all_input_nodes
    dtype = _dtype(operand)
    return dtype is not None and dtype.is_floating_point


def _dtype(node: fx.Node) -> torch.dtype | None:
    type = type_of(node)
    return None if type is None else type.dtype


def _reads(node: fx.Node) -> bool:
    row = operators.of(node.target)
    return node.target in _READERS or row.kind is Kind.LOGICAL or row.name in ("any", "all")


def _is_made(node: fx.Node) -> bool:
    while operators.of(node.target).is_view:
        (node, *_) = node.all_input_nodes
    return operators.of(node.target).kind in _MAKERS


def _is_large_mask(node: Any) -> bool:
    type = type_of(node)
    if type is None or type.dtype is not torch.bool or type.device.type != "cpu":
        return False
    return math.prod(type.shape) >= _FROM
