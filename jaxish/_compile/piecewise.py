"""Graphs that run piece by piece: each form of a piece is a C++ function, and Python calls these and what is left.

pieces.py says what the pieces are. All forms together take the C++ compiler a second or two, where Inductor takes 15 ms
for each operator of the graph.
"""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import getitem
from typing import Any

from torch import Tensor, fx

from .._core import derived
from .._core.graph import Graph
from .._core.graph_module import GraphModule
from .._core.operators import aten
from . import donation, in_turn, layouts, loop_sources, native_graph, onednn, pieces
from .in_turn import Step
from .loop_compiler import NativeLoop
from .loop_sources import LEAST_IN_ROWS, Source
from .loop_values import Unsupported
from .pieces import Piece

_MOST_ELEMENTS, _MOST_WORK = 1 << 25, 1 << 28  # that a piece stores, and computes
_MOST_NODES = 1500  # of one file: the compiler takes some four seconds
_MOST_LEFT = 0.05  # of what a compiler would compute together
_MOST_IN_A_RUN = 1 << 22  # elements that are read and filled: a few milliseconds
_MOST_BY_TORCH = 3  # functions of torch, which take as long as a call with its results


# torch puts these off until the numbers are read, of which C++ knows nothing.
_IN_MEMORY: dict[Any, Any] = {aten._conj.default: aten._conj_physical.default, aten._neg_view.default: aten.neg.default}


@dataclass(frozen=True)
class Piecewise:
    """A graph of calls of C++ functions and of what is left: `is_enough` if that is little, or inputs are `written` into."""

    module: fx.GraphModule
    is_enough: bool
    written: tuple[int, ...]  # the positions of such inputs


def compiled(body: Graph, name: str, is_for_now: bool = True, donated: Sequence[int] = ()) -> Piecewise | None:
    """Return a graph piece by piece when its pieces are compiled; None where there are none. Raises `cache.Unusable`.

    It has to be enough if it is not for now. Where there is nothing to compile together, torch's operators are. Inputs at
    the positions `donated` may be written into.
    """
    body = donation.laid_out(layouts.for_products(body), donated)
    parts = pieces.cut(body, donation.updates(body, donated))
    forms = {form.form: form for form in _written(body, parts.steps)}
    updating = any(piece.updates is not None and piece.form in forms for piece in parts.pieces)
    is_enough = updating or _is_enough(parts, forms)
    if not is_for_now and not is_enough:
        return None
    runs = [step for step in _in_runs(parts.steps, forms) if not isinstance(step, fx.Node)]
    libraries = dict(_compiled({piece.form: forms[piece.form] for run in runs for piece in run}, name))
    if not libraries and (runs or not is_enough):
        return None
    forms = {form: forms[form] for form in libraries}
    steps = [
        step if isinstance(step, fx.Node) else _call(step, forms, libraries, parts)
        for step in _in_runs(parts.steps, forms)
    ]
    updated = {piece.updates for piece in parts.pieces if piece.form in forms}
    written = [i for i, node in enumerate(body.module.graph.find_nodes(op="placeholder")) if node in updated]
    return Piecewise(_joined(body, steps), bool(written) or _is_enough(parts, forms), tuple(written))


def _is_enough(parts: pieces.Parts, forms: Mapping[str, "_Form"]) -> bool:
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


@dataclass(frozen=True)
class _Call:
    """A function, and the nodes that it takes and returns."""

    function: Callable[..., Sequence[Tensor]]
    inputs: Sequence[fx.Node]
    outputs: Sequence[fx.Node]


def _in_runs(steps: Sequence[Piece | fx.Node], forms: Container[str]) -> Iterator[list[Piece] | fx.Node]:
    """Yield pieces of these forms that follow each other, where that pays, and all nodes that are not in these.

    No run takes long, as nothing can interrupt it.
    """
    run: list[Piece] = []
    elements = 0
    for step in steps:
        if not isinstance(step, Piece) or step.form not in forms:
            yield from _where_it_pays(run)
            yield from step.nodes if isinstance(step, Piece) else [step]
            run, elements = [], 0
            continue
        touched = set(step.inputs) - {step.updates} if step.updates else {*step.inputs, *step.outputs}
        size = sum(node.meta["val"].numel() for node in touched)
        if elements + size > _MOST_IN_A_RUN:
            yield from _where_it_pays(run)
            run, elements = [], 0
        run.append(step)
        elements += size
    yield from _where_it_pays(run)


def _where_it_pays(run: list[Piece]) -> Iterator[list[Piece] | fx.Node]:
    if len(run) > _MOST_BY_TORCH or any(piece.pays for piece in run):
        yield run
    else:
        yield from (node for piece in run for node in piece.nodes)


def _call(
    run: Sequence[Piece], forms: Mapping[str, _Form], libraries: Mapping[str, NativeLoop], parts: pieces.Parts
) -> _Call:
    if len(run) == 1:
        form = forms[run[0].form]
        function = native_graph.called(libraries[form.form], form.name, form.graph, form.source)
        return _Call(function, run[0].inputs, run[0].outputs)
    own = {node for piece in run for node in piece.nodes}
    updated = {piece.outputs[0]: piece.updates for piece in run if piece.updates is not None}
    types = {n: t for piece in run for n, t in zip(piece.outputs, forms[piece.form].graph.out_types, strict=True)}
    inputs = list(dict.fromkeys(node for piece in run for node in piece.inputs if node not in types))
    outputs = [node for node in types if parts.leaves(node, own)]
    steps = [
        Step(libraries[form.form], form.name, form.source.is_parallel, piece.inputs, piece.outputs)
        for piece, form in ((piece, forms[piece.form]) for piece in run)
    ]
    return _Call(in_turn.called(steps, inputs, outputs, types, updated), inputs, outputs)


def _compiled(forms: Mapping[str, _Form], name: str) -> Iterator[tuple[str, NativeLoop]]:
    """Yield the names of forms with the libraries that have them."""
    for together in _files(list(forms.values())):
        library = native_graph.compiled_together([*(form.source.function for form in together), in_turn.SOURCE], name)
        if library is not None:
            yield from ((form.form, library) for form in together)


def _written(body: Graph, steps: Sequence[Piece | fx.Node]) -> Iterator[_Form]:
    forms = {step.form: step for step in steps if isinstance(step, Piece)}
    for number, piece in enumerate(forms.values()):
        part, name = derived.subgraph(body, piece.inputs, piece.outputs), f"piece_{number}"
        part = layouts.as_it_lies(
            part, *(list(map(layouts.order_of, nodes)) for nodes in (piece.inputs, piece.outputs))
        )
        try:
            source = loop_sources.graph_source(
                part, function=name, most_elements=_MOST_ELEMENTS, most_work=_MOST_WORK, carried=piece.carried
            )
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


def _joined(body: Graph, steps: Sequence[_Call | fx.Node]) -> fx.GraphModule:
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
        if isinstance(step, fx.Node):
            copy(step)
            continue
        results = joined.call_function(step.function, tuple(map(as_it_lies, step.inputs)))
        for i, node in enumerate(step.outputs):
            copies[node], order = joined.call_function(getitem, (results, i)), layouts.order_of(node)
            if order is not None:
                copies[node] = joined.call_function(aten.permute.default, (copies[node], layouts.inverse(order)))
            copies[node].meta = dict(node.meta)
    return onednn.with_products(GraphModule(body.module, joined, "jaxish_graph"), onednn.product)
