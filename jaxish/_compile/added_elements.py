"""Sums of an array and of zeros that have elements added to them: the elements are added to the array.

Derivatives have such a sum for each read by index. XLA makes the zeros; a loop that reads an element at each step goes back
without them in the time of one element, as the carry that it adds up cotangents in is changed where it lies.
"""

import math
from typing import Any

from torch import fx

from .._core import graph
from .._core.fakes import fake
from .._core.graph import Graph
from .._core.graph_module import GraphModule
from .._core.operators import aten

_VIEWS = (aten.reshape.default, aten.permute.default, aten.unsqueeze.default)
_PARTS = (aten.slice_backward.default, aten.select_backward.default)  # zeros with a part set in
_LEAST = 4  # of an array's elements one at most is added to: more take no longer as a sum


def added_in_place(body: Graph) -> Graph:
    """Return the graph with elements added to what zeros with these elements are added to."""
    nodes = body.module.graph.nodes
    if not any(map(_operands, nodes)) or any(node.meta.get("writes") for node in nodes):
        return body
    copied, copies = fx.Graph(), {}
    for node in nodes:
        copies[node] = copied.node_copy(node, copies.__getitem__)
    for node in copies.values():
        if (operands := _operands(node)) is not None:
            at, zeros = operands
            with copied.inserting_before(node):
                node.replace_all_uses_with(_added(at, zeros))
            copied.erase_node(node)
            _erase(zeros)
    return Graph(GraphModule(body.module, copied, "jaxish_graph"), body.in_types, body.out_types)


def _operands(sum: fx.Node) -> tuple[fx.Node, fx.Node] | None:
    """Return the array of a sum, and the zeros with elements added."""
    if sum.target is not aten.add.Tensor or sum.kwargs:
        return None
    a, b = sum.args
    if not (isinstance(a, fx.Node) and isinstance(b, fx.Node)) or a is b:
        return None
    if not graph.type_of(a) == graph.type_of(b) == graph.type_of(sum):
        return None
    most = _count(sum) // _LEAST
    return (a, b) if _is_zeros_with_elements(b, most) else (b, a) if _is_zeros_with_elements(a, most) else None


def _is_zeros_with_elements(node: Any, most: int) -> bool:
    """Tell whether a node makes zeros to which elements are added, or a part of at most so many, and nothing else reads it."""
    is_changed = False
    while isinstance(node, fx.Node) and len(node.users) == 1 and (_adds(node) or node.target in (*_VIEWS, *_PARTS)):
        is_changed = is_changed or node.target not in _VIEWS
        inner: Any = node.args[0]
        if node.target in _PARTS and _count(inner) <= most:
            return True
        node = inner
    return is_changed and _is_zero(node)


def _adds(node: fx.Node) -> bool:
    """Tell whether a node adds elements to its first operand, so that the order in which all are added does not matter much."""
    if node.target in (aten.scatter_add.default, aten.index_add.default) and not node.kwargs:
        places: Any = [node.args[2]]
    elif node.target is aten.index_put.default and node.args[3:] == (True,):
        places = [n for n in node.args[1] if n is not None]  # pyright: ignore
    else:
        return False
    type = graph.type_of(node)
    return type is not None and (type.dtype.itemsize >= 4 or all(_count(n) == 1 for n in places))


def _is_zero(node: Any) -> bool:
    if not isinstance(node, fx.Node):
        return False
    if node.target in (aten.full.default, aten.full_like.default):
        return node.args[1] in (0,)
    return node.target in (aten.zeros.default, aten.zeros_like.default, aten.new_zeros.default)


def _count(node: fx.Node) -> int:
    return math.prod(node.meta["val"].shape)


def _added(at: fx.Node, node: Any) -> fx.Node:
    """Return the sum of an array and what a node makes, which is zeros with elements added."""
    if _is_zero(node):
        return at
    shape = tuple(node.meta["val"].shape)
    if not _adds(node) and node.target not in (*_VIEWS, *_PARTS):
        return _call(shape, aten.add.Tensor, at, node)
    first, *rest = node.args
    inner = tuple(first.meta["val"].shape)
    if _adds(node):
        return _call(shape, node.target, _added(at, first), *rest)
    if node.target is aten.permute.default:
        dims = [d % len(shape) for d in rest[0]]
        before = _call(inner, node.target, at, [dims.index(d) for d in range(len(dims))])
        return _call(shape, node.target, _added(before, first), *rest)
    if node.target in _VIEWS:
        before = _call(inner, aten.reshape.default, at, list(inner))
        return _call(shape, aten.reshape.default, _added(before, first), list(shape))
    if node.target is aten.slice_backward.default:
        part = _added(_call(inner, aten.slice.Tensor, at, *rest[1:]), first)
        return _call(shape, aten.slice_scatter.default, at, part, *rest[1:])
    dim, index = rest[1] % len(shape), rest[2] % shape[rest[1]]
    part = _added(_call(inner, aten.select.int, at, dim, index), first)
    return _call(shape, aten.select_scatter.default, at, part, dim, index)


def _call(shape: tuple[int, ...], target: Any, *args: Any) -> fx.Node:
    """Return a new node that calls an operator, whose result has this shape."""
    made, value = args[0].graph.call_function(target, args), args[0].meta["val"]
    made.meta = {"val": fake(value.fake_mode, shape, value.dtype, value.device)}
    return made


def _erase(node: Any) -> None:
    """Erase a node that nothing reads any more, and what it was made of."""
    if isinstance(node, fx.Node) and not node.users and (_adds(node) or node.target in (*_VIEWS, *_PARTS)):
        before = node.args[0]
        node.graph.erase_node(node)
        _erase(before)
