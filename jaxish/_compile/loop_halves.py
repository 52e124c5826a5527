"""16-bit floats in native loops: operators compute with them in float32, and round once, as torch's do.

The emitter knows them as types of memory and of conversions alone (`Half` and `BFloat` in loop_prelude.py). In the graph that it
is given every operator that reads or makes them is one of float32, between conversions; what only moves elements needs none.
"""

import operator
from typing import Any

import torch
from torch import Tensor, fx
from torch._ops import HigherOrderOperator

from .._core import dtypes, graph, operators
from .._core.fakes import fake
from .._core.graph import Graph
from .._core.graph_module import GraphModule
from .._core.operators import aten
from .._core.primitive import Primitive
from .loop_operators import INSTRUCTIONS, OPERATORS, name_of
from .loop_values import Unsupported

# What gives other numbers in float32, and of which GCC (12) makes no code: it ends with an error of its own.
_LEFT_OUT = ("nextafter", "nan_to_num", "signbit", "copysign")
# Their results are numbers that they were given, if those are arrays.
_EXACT = {
    "where", "cat", "stack", "gather", "index", "index_select", "index_put", "scatter", "amax", "amin", "maximum", "minimum", "neg",
    "abs", "relu", "zeros", "ones", "empty", "sort", "topk", "max", "min", "cummax", "cummin", "split", "split_with_sizes", "unbind",
}  # fmt: skip


def widened(body: Graph) -> Graph:
    """Return the graph with operators on 16-bit floats in float32. Raises `Unsupported` for one that this would change."""
    nodes = body.module.graph.nodes
    if not any(_has_halves(n) for n in nodes):
        return body
    made = _Widened()
    for node in nodes:
        made.add(node)
    return Graph(GraphModule(body.module, made.graph, "jaxish_graph"), body.in_types, body.out_types)


class _Widened:
    """A graph that is made node by node: `as_given` are the nodes of the same types, `wide` those in float32."""

    def __init__(self) -> None:
        self.graph = fx.Graph()
        self.as_given: dict[fx.Node, fx.Node] = {}
        self.wide: dict[fx.Node, fx.Node] = {}

    def add(self, node: fx.Node) -> None:
        """Add what a node of the original graph calls."""
        is_part = node.target is operator.getitem
        in_float32 = node.args[0] in self.wide if is_part else any(map(_has_halves, [node, *node.all_input_nodes]))
        if node.op != "call_function" or _is_nested(node) or node.target is aten.view.dtype or not in_float32:
            self.as_given[node] = self.graph.node_copy(node, self._given)
            return
        if name_of(node) in _LEFT_OUT:
            raise Unsupported(f"{name_of(node)} of 16-bit floats")
        if node.target is aten._to_copy.default and graph.type_of(node).dtype is torch.float32:  # pyright: ignore
            self.as_given[node] = self._in_float32(node.all_input_nodes[0])
            return
        new = self.graph.node_copy(node, lambda n: self._operand(n, node))
        widen = lambda a: torch.float32 if a in dtypes.HALVES else a  # noqa: E731  dtypes among the arguments
        new.args, new.kwargs = tuple(map(widen, new.args)), {k: widen(a) for k, a in new.kwargs.items()}
        new.meta["val"] = _in_float32(node.meta["val"])
        if not _has_halves(node):
            self.as_given[node] = new
        elif not isinstance(node.meta["val"], Tensor) or _is_exact(node.args[0] if is_part else node):  # pyright: ignore
            self.wide[node] = new
        else:
            self.as_given[node] = self._converted(new, node.meta["val"])

    def _operand(self, node: fx.Node, reader: fx.Node) -> fx.Node:
        """Return what a node's reader is given of it in float32: arrays of other types are rounded to the result's first.

        Numbers (arrays of no dimension) are not, as torch's arithmetic has it.
        """
        type, name = graph.type_of(node), name_of(reader)
        promotes = _has_halves(reader) and name != "_to_copy" and (name in OPERATORS or name == "where")
        if _has_halves(node) or type is None or not type.shape or type.dtype is torch.bool or not promotes:
            return self._in_float32(node) if _has_halves(node) else self._given(node)
        like = _of_dtype(node.meta["val"], reader.meta["val"].dtype)
        return self._converted(self._converted(self._given(node), like), _in_float32(like))

    def _given(self, node: fx.Node) -> fx.Node:
        found = self.as_given.get(node)
        if found is None:
            found = self.as_given[node] = self._converted(self.wide[node], node.meta["val"])
        return found

    def _in_float32(self, node: fx.Node) -> fx.Node:
        found = self.wide.get(node)
        if found is None:
            found = self.wide[node] = self._converted(self.as_given[node], _in_float32(node.meta["val"]))
        return found

    def _converted(self, node: fx.Node, like: Tensor) -> fx.Node:
        new = self.graph.call_function(aten._to_copy.default, (node,), {"dtype": like.dtype})
        new.meta["val"] = like
        return new


def _has_halves(node: fx.Node) -> bool:
    found = node.meta.get("val")
    return any(
        getattr(t, "dtype", None) in dtypes.HALVES for t in (found if isinstance(found, list | tuple) else [found])
    )


def _is_exact(node: fx.Node) -> bool:
    name = name_of(node)
    numbers = node.args[1:3] if name == "where" else node.args[3:4] if name == "scatter" else ()
    if name == "index_put" and node.args[3:] == (True,):  # which adds
        return False
    return operators.of(node.target).is_view or (name in _EXACT and all(isinstance(n, fx.Node) for n in numbers))


def _is_nested(node: fx.Node) -> bool:
    """Tell whether a node is a loop or a branch, whose graphs are emitted as they are."""
    is_loop = isinstance(node.target, Primitive) and name_of(node) not in INSTRUCTIONS
    return is_loop or isinstance(node.target, HigherOrderOperator)


def _in_float32(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_in_float32(v) for v in value]
    return _of_dtype(value, torch.float32) if getattr(value, "dtype", None) in dtypes.HALVES else value


def _of_dtype(value: Any, dtype: torch.dtype) -> Tensor:
    return fake(value.fake_mode, value.shape, dtype, value.device)
