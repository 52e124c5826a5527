"""Graphs that run piece by piece: each form of a piece is a C++ function, and Python calls these and what is left.

pieces.py says what the pieces are. All forms together take the C++ compiler a second or two, where Inductor takes 15 ms
for each operator of the graph.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import getitem
from typing import Any

from torch import Tensor, fx

from .._core import derived
from .._core.graph import Graph
from .._core.graph_module import GraphModule
from .._core.operators import aten
from . import layouts, loop_sources, native_graph, onednn, pieces
from .loop_sources import LEAST_IN_ROWS, Source
from .loop_values import Unsupported
from .pieces import Piece

_MOST_ELEMENTS, _MOST_WORK = 1 << 25, 1 << 28  # that a piece stores, and computes
_MOST_NODES = 1500  # of one file: the compiler takes some four seconds
_MOST_LEFT = 0.05  # of what a compiler would compute together


# torch puts these off until the numbers are read, of which C++ knows nothing.
_IN_MEMORY: dict[Any, Any] = {aten._conj.default: aten._conj_physical.default, aten._neg_view.default: aten.neg.default}


@dataclass(frozen=True)
class Piecewise:
    """A graph of calls of C++ functions and of what is left: `is_enough` if that is little."""

    module: fx.GraphModule
    is_enough: bool


def compiled(body: Graph, name: str, is_for_now: bool = True) -> Piecewise | None:
    """Return a graph piece by piece when its pieces are compiled; None where there are none. Raises `cache.Unusable`.

    It has to be enough if it is not for now.
    """
    body = layouts.for_products(body)
    parts = pieces.cut(body)
    forms = {form.form: form for form in _written(body, parts.pieces)}
    if not is_for_now and not _is_enough(parts, forms):
        return None
    functions = dict(_functions(list(forms.values()), name))
    if not functions:
        return None
    is_enough = _is_enough(parts, {name: form for name, form in forms.items() if name in functions})
    return Piecewise(_joined(body, parts.steps, functions), is_enough)


def _is_enough(parts: pieces.Parts, forms: dict[str, "_Form"]) -> bool:
    """Tell whether little is left of what a compiler would compute together when pieces of these forms are compiled."""
    done = {node for piece in parts.pieces if piece.form in forms for node in piece.nodes}
    left = parts.apart | {node for piece in parts.pieces for node in piece.nodes if node not in done}
    for piece in parts.pieces:
        if piece.form in forms and forms[piece.form].source.in_rows < LEAST_IN_ROWS:
            left |= parts.large.intersection(piece.nodes)
    return len(left) <= _MOST_LEFT * len(left | done)


@dataclass(frozen=True)
class _Form:
    """A piece as a graph and as C++."""

    form: str
    graph: Graph
    name: str
    source: Source


def _functions(written: Sequence[_Form], name: str) -> Iterator[tuple[str, Callable[..., Sequence[Tensor]]]]:
    """Yield forms, and the functions that compute them."""
    for forms in _files(written):
        library = native_graph.compiled_together([form.source.function for form in forms], name)
        if library is not None:
            for form in forms:
                yield form.form, native_graph.called(library, form.name, form.graph, form.source)


def _written(body: Graph, found: Sequence[Piece]) -> Iterator[_Form]:
    for number, piece in enumerate({piece.form: piece for piece in found}.values()):
        part, name = derived.subgraph(body, piece.inputs, piece.outputs), f"piece_{number}"
        part = layouts.as_it_lies(
            part, *(list(map(layouts.order_of, nodes)) for nodes in (piece.inputs, piece.outputs))
        )
        try:
            source = loop_sources.graph_source(part, function=name, most_elements=_MOST_ELEMENTS, most_work=_MOST_WORK)
        except Unsupported:
            continue
        if not source.open_ended:
            yield _Form(piece.form, part, name, source)


def _files(forms: Sequence[_Form]) -> Iterator[list[_Form]]:
    """Yield forms that are compiled together."""
    chosen, count = [], 0
    for form in forms:
        size = len(form.graph.module.graph.nodes)
        if chosen and count + size > _MOST_NODES:
            yield chosen
            chosen, count = [], 0
        chosen.append(form)
        count += size
    if chosen:
        yield chosen


def _joined(
    body: Graph, steps: Sequence[Piece | fx.Node], functions: dict[str, Callable[..., Sequence[Tensor]]]
) -> fx.GraphModule:
    joined, copies = fx.Graph(), {}

    def copy(node: fx.Node) -> fx.Node:
        if node not in copies:  # a view, or a number: all else is a step, and comes before who reads it
            copies[node] = joined.node_copy(node, copy)
            copies[node].target = _IN_MEMORY.get(node.target, node.target)
        return copies[node]

    def as_it_lies(node: fx.Node) -> fx.Node:
        order = layouts.order_of(node)
        return copy(node) if order is None else joined.call_function(aten.permute.default, (copy(node), list(order)))

    for node in body.module.graph.find_nodes(op="placeholder"):
        copy(node)
    for step in steps:
        if isinstance(step, Piece) and step.form in functions:
            results = joined.call_function(functions[step.form], tuple(map(as_it_lies, step.inputs)))
            for i, node in enumerate(step.outputs):
                copies[node], order = joined.call_function(getitem, (results, i)), layouts.order_of(node)
                if order is not None:
                    back = layouts.inverse(order)
                    copies[node] = joined.call_function(aten.permute.default, (copies[node], back))
                copies[node].meta = dict(node.meta)
        else:
            for node in step.nodes if isinstance(step, Piece) else [step]:
                copy(node)
    return onednn.with_products(GraphModule(body.module, joined, "jaxish_graph"), onednn.product)
