"""What running a graph costs, by its operators' types: nothing runs. Counted as XLA counts, loop bodies once."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, fx

from .._core import operators
from .._core.graph import Graph, TensorType, type_of
from .._core.operators import Kind
from .._core.primitive import Primitive, graphs_of

_TRANSCENDENTAL = frozenset(
    [
        "exp",
        "exp2",
        "expm1",
        "log",
        "log1p",
        "log2",
        "sin",
        "cos",
        "tan",
        "asin",
        "acos",
        "atan",
        "atan2",
        "sinh",
        "cosh",
        "tanh",
        "asinh",
        "acosh",
        "atanh",
        "logistic",
        "pow",
        "sqrt",
        "rsqrt",
        "cbrt",
        "erf",
        "erfc",
        "erf_inv",
        "lgamma",
        "digamma",
        "tanh_backward",
        "sigmoid_backward",
    ]
)
_FREE = frozenset(["convert_element_type", "copy", "full", "zeros", "ones", "real", "imag", "complex"])


def cost_of(body: Graph) -> dict[str, float]:
    """Return the `flops`, the `transcendentals` and the `bytes accessed` of a graph, all estimates.

    Matrix products and convolutions are counted by torch's formulas, other operators by elements; the bytes are those of
    arguments and results, since what is in between is fused as far as it can be.
    """
    flops, transcendentals = _work(body)
    accessed = bytes_of(body.in_types) + bytes_of(body.out_types)
    found = {"flops": float(flops), "transcendentals": float(transcendentals), "bytes accessed": float(accessed)}
    return {name: value for name, value in found.items() if value or name != "transcendentals"}


def bytes_of(types: Sequence[TensorType]) -> int:
    """Return the bytes that tensors of these types take."""
    return sum(math.prod(t.shape) * t.dtype.itemsize for t in types)


def bytes_held(body: Graph, with_results: bool) -> int:
    """Return the greatest number of bytes that what a graph makes holds at a time, run node by node; results count if asked.

    Views hold none of their own, a loop what one step holds beside its results.
    """
    nodes = [node for node in body.module.graph.nodes if node.op != "placeholder"]
    owner: dict[fx.Node, fx.Node] = {
        node: node for node in body.module.graph.nodes
    }  # of the memory that a node's value is in
    last_read: dict[fx.Node, int] = {}
    for step, node in enumerate(nodes):
        if node.op == "call_function" and operators.of(node.target).is_view:
            owner[node] = owner[node.all_input_nodes[0]]
        last_read.update(dict.fromkeys([owner[node], *(owner[n] for n in node.all_input_nodes)], step))
    free = {node for node in owner if node.op != "call_function" or owner[node] is not node}
    if not with_results:
        free.update(owner[node] for node in body.module.graph.output_node().all_input_nodes)
    ends: dict[int, list[fx.Node]] = {}
    for node, step in last_read.items():
        ends.setdefault(step, []).append(node)
    now = most = 0
    for step, node in enumerate(nodes):
        now += 0 if node in free else _bytes_made(node)
        inner = graphs_of(node.target) if isinstance(node.target, Primitive) else ()
        most = max(most, now + max((bytes_held(graph, with_results=True) for graph in inner), default=0))
        now -= sum(_bytes_made(n) for n in ends.get(step, ()) if n not in free)
    return most


def _bytes_made(node: fx.Node) -> int:
    value = node.meta.get("val")
    values = value if isinstance(value, list | tuple) else [value]
    return bytes_of([TensorType.of(v) for v in values if isinstance(v, Tensor)])


def _work(body: Graph) -> tuple[int, int]:
    flops = transcendentals = 0
    for node in body.module.graph.nodes:
        if isinstance(node.target, Primitive):
            inner = [_work(graph) for graph in graphs_of(node.target)]
            flops += sum(f for f, _ in inner)
            transcendentals += sum(t for _, t in inner)
            continue
        row, type = operators.of(node.target), type_of(node)
        if type is None or node.op != "call_function":
            continue
        if row.kind is Kind.PRODUCT:
            flops += _product(node, type)
        elif row.kind is Kind.REDUCTION:
            flops += max(_elements(node.args[0]) - math.prod(type.shape), 0)
        elif row.is_elementwise and row.jax_name in _TRANSCENDENTAL:
            transcendentals += math.prod(type.shape)
        elif row.is_elementwise and row.jax_name not in _FREE:
            flops += math.prod(type.shape)
    return flops, transcendentals


def _elements(node: Any) -> int:
    type = type_of(node)
    return 0 if type is None else math.prod(type.shape)


def _product(node: fx.Node, type: TensorType) -> int:
    from torch.utils.flop_counter import flop_registry

    def stand_in(given: fx.Node) -> Any:
        found = type_of(given)
        return found and _meta(found)

    args, kwargs = fx.map_arg((node.args, node.kwargs), stand_in)
    formula = flop_registry.get(getattr(node.target, "overloadpacket", None))
    if formula is not None:
        return int(formula(*args, **kwargs, out_val=_meta(type)))
    return 2 * max(map(_elements, node.all_input_nodes))  # of a matrix and a vector, or two vectors


def _meta(type: TensorType) -> Tensor:
    return torch.empty(type.shape, dtype=type.dtype, device="meta")
