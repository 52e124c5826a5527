"""Elements that are seen as another type to be moved: torch moves unsigned integers as signed ones.

C++ moves any type. So elements are moved before they are seen as another type, and of what is seen so and back nothing is left:
a carry of uint32 in which a step sets elements is one.
"""

from typing import Any

import torch
from torch import Tensor, fx

from .._core.fakes import fake
from .._core.graph import Graph
from .._core.operators import aten
from .._core.rewriting import rewritten

# Which of their arguments are, or have, the elements that they move.
_MOVED: dict[Any, tuple[int, ...]] = {
    aten.reshape.default: (0,), aten.expand.default: (0,), aten.permute.default: (0,), aten.slice.Tensor: (0,),
    aten.select.int: (0,), aten.squeeze.dim: (0,), aten.unsqueeze.default: (0,), aten.cat.default: (0,),
    aten.index.Tensor: (0,), aten.index_select.default: (0,), aten.gather.default: (0,),
    aten.index_put.default: (0, 2), aten.scatter.src: (0, 3), aten.scatter_add.default: (0, 3),
}  # fmt: skip


def moved_as_they_are(body: Graph) -> Graph:
    """Return the graph with elements seen as another type of their size after they have been moved, if at all."""
    if not any(node.target is aten.view.dtype for node in body.module.graph.nodes):
        return body
    module = rewritten(body.module, lambda node: node.target is aten.view.dtype or node.target in _MOVED, _changed)
    for node in reversed(module.graph.nodes):
        if node.target is aten.view.dtype and not node.users:
            module.graph.erase_node(node)
    return Graph(module, body.in_types, body.out_types)


def _changed(node: fx.Node) -> fx.Node | None:
    operand: Any = node.args[0]
    if node.target is aten.view.dtype:
        seen = operand.target is aten.view.dtype and _dtype(operand.args[0]) is _dtype(node)
        return _instead_of(node, operand.args[0]) if seen else None
    places = _MOVED[node.target]
    moved = [n for i in places for n in (node.args[i] if isinstance(node.args[i], list | tuple) else [node.args[i]])]  # pyright: ignore
    given: list[Any] = [n.args[0] if isinstance(n, fx.Node) and n.target is aten.view.dtype else None for n in moved]
    if None in given or len({_dtype(n) for n in given}) > 1:
        return None
    source, value = given[0].meta["val"], node.meta["val"]
    adds = node.target is aten.scatter_add.default or (node.target is aten.index_put.default and True in node.args[3:])
    # Sums of integers have the same bits, whatever their signs.
    if source.dtype.itemsize != value.dtype.itemsize or (adds and not _are_integers(source.dtype, value.dtype)):
        return None
    before = dict(zip(moved, given, strict=True))
    with_sources = fx.map_arg(node.args, lambda n: before.get(n, n))
    # An index is no element that is moved.
    args = tuple(new if i in places else old for i, (old, new) in enumerate(zip(node.args, with_sources, strict=True)))
    made = node.graph.call_function(node.target, args, node.kwargs)  # pyright: ignore
    made.meta["val"] = fake(value.fake_mode, value.shape, source.dtype, value.device, value.stride())
    seen = node.graph.call_function(aten.view.dtype, (made, value.dtype))
    seen.meta["val"] = value
    return _instead_of(node, seen)


def _are_integers(*dtypes: torch.dtype) -> bool:
    return not any(d.is_floating_point or d.is_complex or d is torch.bool for d in dtypes)


def _instead_of(node: fx.Node, new: fx.Node) -> fx.Node:
    node.graph.erase_node(node)
    return new


def _dtype(node: fx.Node) -> Any:
    value = node.meta["val"]
    return value.dtype if isinstance(value, Tensor) else None
