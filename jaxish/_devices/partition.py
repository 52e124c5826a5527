"""The part of a graph's results that one device makes, as a graph of its own.

The inputs are the same in all processes, and each result is wanted in a box. Going back from the results, what an
operator needs of its inputs is found: elementwise operators need the same box, a reshaped tensor the same elements, a
random draw only a box of the counters (`Primitive.part`). Where an operator is none of these, its whole result is
computed and cut. Nothing is communicated.
"""

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, fx

from .._core import graph, operators
from .._core.boxes import Box
from .._core.dimensions import broadcast_shape
from .._core.graph import ClosedGraph, Graph, TensorType
from .._core.operators import Kind, aten
from .._core.primitive import Primitive

Node = Any  # an fx.Node, whose operator tells what its arguments are
Need = tuple[Node, Box | None]  # a node, and the box of it that is needed (None: all of it)
Plan = tuple[list[Need], Callable[..., Tensor]]  # what is needed, and what makes the box of it


def local_graph(body: Graph, boxes: Sequence[Box | None]) -> ClosedGraph:
    """Return the graph that makes the boxes of a graph's results (None: the whole result) from the same inputs."""
    key = ("part", tuple(boxes))
    found = body.cache.get(key)
    if found is None:
        run = _Parts(body, boxes)
        found = body.cache[key] = graph.trace(run, body.in_types)
    return found


class _Parts:
    """The computation of the boxes: called with the graph's inputs, it makes them."""

    def __init__(self, body: Graph, boxes: Sequence[Box | None]) -> None:
        self.body = body
        nodes = body.module.graph.nodes
        self.is_pure = not graph.has_effects(body) and not any(node.meta.get("writes") for node in nodes)
        outputs: Any = body.module.graph.output_node().args[0]
        self.outputs: list[Need] = list(zip(outputs, boxes, strict=True))
        # Per node the boxes needed of it and how to make them; None stands for the whole.
        self.plans: dict[Node, dict[Box | None, Plan | None]] = {node: {} for node in nodes}
        self._need(self.outputs)
        for node in reversed(nodes):
            for box in list(self.plans[node]):
                self._plan(node, box)

    def _need(self, needs: Sequence[Need]) -> None:
        for node, box in needs:
            self.plans[node].setdefault(box, None)

    def _plan(self, node: Node, box: Box | None) -> None:
        plan = None if box is None or not self.is_pure else plan_of(node, box)
        self.plans[node][box] = plan
        if plan is not None:
            self._need(plan[0])
            return
        self.plans[node].setdefault(None, None)
        self._need([(n, None) for n in node.all_input_nodes])

    def __call__(self, *inputs: Tensor) -> list[Tensor]:
        made: dict[tuple[Node, Box | None], Any] = {}
        given = iter(inputs)
        for node in self.body.module.graph.nodes:
            if node.op == "placeholder":
                made[node, None] = next(given)
            plans = self.plans[node]
            if None in plans and node.op == "call_function":
                args, kwargs = fx.map_arg((node.args, node.kwargs), lambda n: made[n, None])
                made[node, None] = node.target(*args, **kwargs)
            for box, plan in plans.items():
                if plan is not None:
                    made[node, box] = plan[1](*(made[need] for need in plan[0]))
                elif box is not None:
                    made[node, box] = box.cut(made[node, None])
        return [made[need] for need in self.outputs]


# ------------------------------------------------------------------------------------------------------------- rules


def plan_of(node: Node, box: Box) -> Plan | None:
    """Return how a box of what `node` makes comes from boxes of its inputs; None where it takes all of them."""
    if not box.count:
        return None
    target, source, index = node.target, node, 0
    if target is operator.getitem:
        source, index = node.args
        target = source.target
    if isinstance(target, Primitive):
        return _of_primitive(target, source, index, box)
    if target is aten.unbind.int:
        dim = source.args[1] if len(source.args) > 1 else 0
        return _selected(source.args[0], dim, index, box)
    kind = operators.of(target).kind
    if kind is Kind.RESHAPE or (kind is Kind.PERMUTE and _order_of(node) == sorted(_order_of(node))):
        return [(node.args[0], box)], lambda part: part
    if target is aten.view.dtype and (plan := _halves(node, box)):
        return plan
    type = graph.type_of(node)
    if type is None:
        return None
    if kind is Kind.FILL:
        return [], lambda: target(list(box.sizes), *node.args[1:], **node.kwargs)
    if is_elementwise(node):
        return _elementwise(node, box)
    if target is aten.expand.default:
        return _expanded(node, box)
    rule, fitted = _RULES.get(target) or _RULES.get(kind), box.fitted(type.shape)
    if rule is None or fitted is None:
        return None
    plan = rule(node, fitted)
    return plan and (plan[0], lambda *parts: plan[1](*parts).reshape(box.sizes))


def shape_of(node: Node) -> tuple[int, ...]:
    """Return the shape of the tensor that a node makes."""
    type = graph.type_of(node)
    assert type is not None
    return type.shape


def is_elementwise(node: Node) -> bool:
    """Tell whether each element of what `node` makes is made of one element of each operand."""
    target: Any = node.target
    if target is aten.view.dtype:  # of the same width
        return shape_of(node) == shape_of(node.args[0])
    return operators.of(target).is_elementwise


def _halves(node: Node, box: Box) -> Plan | None:
    """The rule of a view of integers as narrower ones, seen with those of one integer along the last dimension."""
    source, dtype = node.args
    old = graph.type_of(source)
    pieces = 0 if old is None else old.dtype.itemsize // dtype.itemsize
    if pieces < 2 or not box.dims or box.dims[-1] != (pieces, 0, pieces):
        return None
    return [(source, Box.made_of(box.dims[:-1]))], lambda part: part.contiguous().unsqueeze(-1).view(dtype)


def _elementwise(node: Node, box: Box) -> Plan | None:
    nodes = node.all_input_nodes
    boxes = _aligned([shape_of(n) for n in nodes], shape_of(node), box)
    if boxes is None:
        return None

    def run(*parts: Tensor) -> Tensor:
        given = dict(zip(nodes, parts, strict=True))
        args, kwargs = fx.map_arg((node.args, node.kwargs), given.__getitem__)
        return node.target(*args, **kwargs).reshape(box.sizes)

    return list(zip(nodes, boxes, strict=True)), run


def _aligned(shapes: Sequence[tuple[int, ...]], whole: tuple[int, ...], box: Box) -> list[Box | None] | None:
    """Return what operands that broadcast to a shape have to give for a box of the result (None: all they have)."""
    boxes: list[Box | None] = []
    for shape in shapes:
        if shape == whole:
            boxes.append(box)
        elif torch.Size(shape).numel() == 1:
            boxes.append(None)
        else:
            boxes.append(box.narrowed(whole, shape))
            if boxes[-1] is None:
                return None
    # Operands of one element make no box: the result has one element, too, and is computed whole.
    return boxes if any(boxes) else None


def part_of(
    primitive: Primitive, index: int, box: Box, types: Sequence[TensorType]
) -> tuple[list[Box | None], Callable[..., Tensor]] | None:
    """Return the boxes of a primitive's inputs that a box of one of its results is made of, and what makes it."""
    if not primitive.is_elementwise:
        return primitive.part(index, box, types)
    shape = broadcast_shape(*(t.shape for t in types))
    boxes = _aligned([t.shape for t in types], shape, box)
    return None if boxes is None else (boxes, lambda *parts: primitive(*parts)[index])


def _of_primitive(primitive: Primitive, call: Node, index: int, box: Box) -> Plan | None:
    nodes, types = list(call.args), [t for t in map(graph.type_of, call.args) if t is not None]
    found = part_of(primitive, index, box, types)
    if found is None:
        return None
    boxes, run = found
    return list(zip(nodes, boxes, strict=True)), lambda *parts: run(*parts).reshape(box.sizes)


def _expanded(node: Node, box: Box) -> Plan | None:
    source = node.args[0]
    whole, shape = shape_of(node), shape_of(source)
    part = box.narrowed(whole, shape)
    return part and ([(source, part)], lambda part: part.expand(box.sizes))


def _permuted(node: Node, box: Box) -> Plan | None:
    order = _order_of(node)
    dims: list[Any] = [None] * len(order)
    for at, dim in enumerate(order):
        dims[dim] = box.dims[at]
    return [(node.args[0], Box.made_of(dims))], lambda part: part.permute(order)


def _order_of(node: Node) -> list[int]:
    return order_of(node.target, node.args, len(shape_of(node)))


def order_of(target: Any, args: Sequence[Any], rank: int) -> list[int]:
    """Return the dimensions of its input in the order in which an operator that permutes them gives them."""
    order = list(range(rank))
    if target is aten.permute.default:
        return [d % rank for d in args[1]]
    if target is aten.t.default:
        return order[::-1]
    a, b = (d % rank for d in args[1:])
    order[a], order[b] = order[b], order[a]
    return order


def _selected(source: Node, dim: int, index: int, box: Box) -> Plan | None:
    shape = shape_of(source)
    dim, index = dim % len(shape), index % shape[dim]
    fitted = box.fitted((*shape[:dim], *shape[dim + 1 :]))
    if fitted is None:
        return None
    whole = Box.made_of([*fitted.dims[:dim], (shape[dim], index, 1), *fitted.dims[dim:]])
    return [(source, whole)], lambda part: part.reshape(box.sizes)


def _product(node: Node, box: Box) -> Plan | None:
    left, right = node.args
    size = shape_of(left)[-1]
    *batch, rows, columns = box.dims
    summed = (size, 0, size)
    boxes = [Box.made_of([*batch, rows, summed]), Box.made_of([*batch, summed, columns])]
    return list(zip((left, right), boxes, strict=True)), torch.matmul


def _reduced(node: Node, box: Box) -> Plan | None:
    """The rule of reductions with arguments (tensor, dims, keepdim)."""
    source = node.args[0]
    shape = shape_of(source)
    given = node.args[1] if len(node.args) > 1 else None
    if given is None or not shape:
        return None
    dims = given if isinstance(given, list | tuple) else [given]
    reduced = {d % len(shape) for d in dims} or set(range(len(shape)))
    kept = len(box.shape) == len(shape)
    rest = iter(box.dims)
    needed = []
    for dim, size in enumerate(shape):
        if dim in reduced:
            needed.append((size, 0, size))
            if kept:
                next(rest)
        else:
            needed.append(next(rest))
    return [(source, Box.made_of(needed))], lambda part: node.target(part, *node.args[1:], **node.kwargs)


_RULES: dict[Any, Callable[[Node, Box], Plan | None]] = {
    aten.mm.default: _product,
    aten.bmm.default: _product,
    Kind.PERMUTE: _permuted,
    aten.select.int: lambda node, box: _selected(node.args[0], node.args[1], node.args[2], box),
    **dict.fromkeys(
        (
            aten.sum.dim_IntList, aten.mean.dim, aten.amax.default, aten.amin.default, aten.argmax.default,
            aten.argmin.default, aten.prod.dim_int, aten.any.dim, aten.all.dim, aten.any.dims, aten.all.dims,
        ),
        _reduced,
    ),
}  # fmt: skip
