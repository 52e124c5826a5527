"""Nodes of a graph that compute the same made one: the mean of an array and its variance are made of one sum.

XLA does so, and Inductor. What a function returns stays apart: no two of its results may share memory. So does what
is in the bodies of structured primitives: a checkpointed function is computed anew on the way back.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, fx

from .._core.graph import Graph, TensorType
from .._core.graph_module import GraphModule
from .._core.nodes import calls_for_effect, storage_of
from .._core.operators import aten
from .._core.primitive import Primitive


def merged(body: Graph) -> Graph:
    """Return the graph with one node for all that compute the same, or the graph itself."""
    same = dict(_duplicates(body))
    if not same:
        return body
    merged, copies = fx.Graph(), {}
    for node in body.module.graph.nodes:
        copies[node] = copies[same[node]] if node in same else merged.node_copy(node, copies.__getitem__)
    return Graph(GraphModule(body.module, merged, "jaxish_graph"), body.in_types, body.out_types)


def _duplicates(body: Graph) -> Iterator[tuple[fx.Node, fx.Node]]:
    """Yield nodes, and for each the first one that computes the same."""
    nodes = body.module.graph.nodes
    returned = _memory(body.module.graph.output_node().all_input_nodes)
    written = set().union(*(node.meta.get("writes", ()) for node in nodes))
    first: dict[Any, fx.Node] = {}
    same: dict[fx.Node, fx.Node] = {}
    for node in nodes:
        if not _is_pure(node) or (written and not written.isdisjoint(_memory([node, *node.all_input_nodes]))):
            continue
        if (option := _only_option(node, same)) is not None and returned.isdisjoint(_memory([node])):
            same[node] = option
            yield node, option
            continue
        key = (_function(node.target), _key(node.args, same), _key(node.kwargs, same))
        found = first.setdefault(key, node)
        if found is node:
            continue
        if not returned.isdisjoint(_memory([node])):
            if not returned.isdisjoint(_memory([found])):
                continue
            returned |= _memory([found])
        same[node] = found
        yield node, found


def _only_option(node: fx.Node, same: dict[fx.Node, fx.Node]) -> fx.Node | None:
    """Return what a choice gives either way: one option is the other, for which cotangents are stopped."""
    if node.target is not aten.where.self:
        return None
    yes, no = (_undetached(option, same) for option in node.args[1:])
    is_one = yes is no and yes is not None and TensorType.of(yes.meta["val"]) == TensorType.of(node.meta["val"])
    return yes if is_one else None


def _undetached(node: Any, same: dict[fx.Node, fx.Node]) -> fx.Node | None:
    while isinstance(node, fx.Node):
        node = same.get(node, node)
        if node.target is not aten.detach.default:
            return node
        node = node.args[0]
    return None


def _memory(nodes: Sequence[fx.Node]) -> set[int]:
    """Return what names the memory of all that these nodes make."""
    values = [node.meta.get("val") for node in nodes]
    parts = [v for value in values for v in (value if isinstance(value, list | tuple) else [value])]
    return {storage_of(part) for part in parts if isinstance(part, Tensor)}


def _is_pure(node: fx.Node) -> bool:
    if node.op != "call_function" or calls_for_effect(node):
        return False
    return torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ())


def _function(target: Any) -> Any:
    is_named = isinstance(target, Primitive) and (target.is_elementwise or target.is_instruction)
    return target.identity() if is_named else target


def _key(value: Any, same: dict[fx.Node, fx.Node]) -> Any:
    """Return what two arguments have in common if and only if they are the same; 1, 1.0 and True are not, nor 0.0 and -0.0."""
    if isinstance(value, fx.Node):
        return same.get(value, value)
    if isinstance(value, list | tuple):
        return tuple(_key(v, same) for v in value)
    if isinstance(value, dict):
        return tuple((k, _key(v, same)) for k, v in value.items())
    return type(value), repr(value)
