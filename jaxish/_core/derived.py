"""Graphs derived from graphs: batched, forward-mode and reverse-mode forms, each traced once and kept.

The rules of structured primitives are made of these. A derived graph takes and returns flat lists of tensors.
"""

import operator
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from torch import Tensor, fx

from . import axes, duals, pullbacks
from .graph import Graph, TensorType, has_effects, trace
from .graph_module import GraphModule
from .nodes import calls_for_effect, depends_on, storage_of, writers_to
from .operators import aten
from .primitive import Dims, Primitive, batch_front, differentiable, instantiate


def cached(graph: Graph, key: Hashable, make: Callable[[], Any]) -> Any:
    """Return what `make` returns, made once per graph and key."""
    if key not in graph.cache:
        graph.cache[key] = make()
    return graph.cache[key]


def _traced(function: Callable[..., Sequence[Tensor]], types: Sequence[TensorType]) -> Graph:
    return trace(function, types).graph


def subgraph(
    graph: Graph, inputs: Sequence[fx.Node], outputs: Sequence[fx.Node], effects: Sequence[fx.Node] = (),
    zeros: Sequence[fx.Node] = (),
) -> Graph:  # fmt: skip
    """Return the part of `graph` that computes the nodes `outputs` from the nodes `inputs`, and calls `effects`.

    The nodes `zeros` are known to be zero.
    """
    part, copies = fx.Graph(), {}
    for position, node in enumerate(inputs):
        copies[node] = part.placeholder(f"arg{position}")
        copies[node].meta = dict(node.meta)
    for node in zeros:
        value = node.meta["val"]
        kind = {"dtype": value.dtype, "device": value.device}
        copies[node] = part.call_function(aten.full.default, (list(value.shape), 0), kind)
        copies[node].meta = {"val": value}
    wanted = between([*inputs, *zeros], [*outputs, *effects])
    for node in graph.module.graph.nodes:
        if node in wanted:
            copies[node] = part.node_copy(node, lambda n: copies[n])
    part.output([copies[node] for node in outputs])

    def types(nodes: Sequence[fx.Node]) -> tuple[TensorType, ...]:
        return tuple(TensorType.of(node.meta["val"]) for node in nodes)

    return Graph(GraphModule(graph.module, part, "jaxish_graph"), types(inputs), types(outputs))


def between(inputs: Sequence[fx.Node], outputs: Sequence[fx.Node]) -> set[fx.Node]:
    """Return the nodes that computing `outputs` from `inputs` takes, those that write into their memory included."""
    found: set[fx.Node] = set()
    known = set(inputs)
    pending = [node for node in outputs if node not in known]
    while pending:
        while pending:
            node = pending.pop()
            if node not in found and node not in known:
                found.add(node)
                pending.extend(node.all_input_nodes)
        if found:
            pending = [n for n in writers_to(next(iter(found)).graph, found) if n not in found and n not in known]
    return found


def batched(graph: Graph, dims: Dims, size: int, name: Hashable | None) -> Graph:
    """Return the graph mapped over inputs batched along `dims`; every result is batched along dimension 0.

    `name` is the axis name of the level that a vmap rule is applied for (`popped_axis`): collectives see it.
    """
    dims = tuple(dims)

    def run(*inputs: Tensor) -> list[Tensor]:
        return [batch_front(out, dim, size) for out, dim in axes.map_tensors(graph, inputs, dims, size, name)]

    types = [_batched_type(t, d, size) for t, d in zip(graph.in_types, dims, strict=True)]
    return cached(graph, ("vmap", dims, size, name), lambda: _traced(run, types))


def batched_outputs(graph: Graph, dims: Dims, size: int, name: Hashable | None) -> tuple[bool, ...]:
    """Tell which results of the graph differ between the examples of a batch along `dims` of its inputs."""
    return tuple(dim is not None for dim in mapped(graph, dims, size, name)[1])


def mapped(
    graph: Graph, dims: Dims, size: int, name: Hashable | None, batches: Callable[[TensorType], bool] | None = None
) -> tuple[Graph, list[int | None]]:
    """Return the graph mapped over inputs batched along `dims`, and the batch dimension of each result.

    That is dimension 0, and None for what is the same for the whole batch: rules of users are told which is which.
    Results of the types that `batches` tells are batched all the same.
    """
    dims = tuple(dims)

    def make() -> tuple[Graph, list[int | None]]:
        out_dims: list[int | None] = []

        def run(*inputs: Tensor) -> list[Tensor]:
            results = axes.map_tensors(graph, inputs, dims, size, name)
            wanted = [batches is not None and batches(t) for t in graph.out_types]
            same = [dim is None and not w for (_, dim), w in zip(results, wanted, strict=True)]
            out_dims[:] = [None if s else 0 for s in same]
            return [out if s else batch_front(out, dim, size) for (out, dim), s in zip(results, same, strict=True)]

        types = [_batched_type(t, d, size) for t, d in zip(graph.in_types, dims, strict=True)]
        return _traced(run, types), out_dims

    return cached(graph, ("mapped", dims, size, name, batches), make)


def mapped_as(graph: Graph, dims: Dims, size: int, name: Hashable | None, outputs: Sequence[bool]) -> Graph:
    """Return the graph mapped as by `mapped`, with just those results batched for which `outputs` says so."""
    dims, outputs = tuple(dims), tuple(outputs)
    found, out_dims = mapped(graph, dims, size, name)
    if [dim == 0 for dim in out_dims] == [*outputs]:
        return found

    def run(*inputs: Tensor) -> list[Tensor]:
        results = found(*inputs)
        return [
            batch_front(out, dim, size) if b else out for out, dim, b in zip(results, out_dims, outputs, strict=True)
        ]

    return cached(graph, ("mapped as", dims, size, name, outputs), lambda: _traced(run, found.in_types))


def _batched_type(type: TensorType, dim: int | None, size: int) -> TensorType:
    if dim is None:
        return type
    return TensorType((*type.shape[:dim], size, *type.shape[dim:]), type.dtype, type.device)


def placed(
    graph: Graph, types: Sequence[TensorType], places: Sequence[int], results: Sequence[int] | None = None
) -> Graph:
    """Return the graph with inputs of `types`: its own are those at `places`, and it ignores the others.

    Of its results it has those at `results` only, if given.
    """
    wide, copies = fx.Graph(), {}
    inputs = dict(zip(places, graph.module.graph.find_nodes(op="placeholder"), strict=True))
    for place in range(len(types)):
        copy = wide.placeholder(f"arg{place}")
        if place in inputs:
            copies[inputs[place]] = copy
            copy.meta = dict(inputs[place].meta)
    for node in graph.module.graph.nodes:
        if node.op not in ("placeholder", "output"):
            copies[node] = wide.node_copy(node, lambda n: copies[n])
    kept = range(len(graph.out_types)) if results is None else results
    outputs: Any = graph.module.graph.output_node().args[0]
    wide.output([copies[outputs[i]] for i in kept])
    out_types = tuple(graph.out_types[i] for i in kept)
    return Graph(GraphModule(graph.module, wide, "jaxish_graph"), tuple(types), out_types)


def forwarded(graph: Graph) -> list[int | None]:
    """Return for each result of the graph which input it is, None where it is none of them."""
    inputs = {node: place for place, node in enumerate(graph.module.graph.find_nodes(op="placeholder"))}
    outputs: Any = graph.module.graph.output_node().args[0]
    return [inputs.get(node) for node in outputs]


def reached(graph: Graph, changed: set[int], carried: Mapping[int, int] | None = None) -> set[int]:
    """Return which results of the graph have a derivative by the inputs at these positions.

    `carried` says for a loop's body which results become which inputs of the next step.
    """
    places = tuple((carried or {}).items())

    def make() -> set[int]:
        nodes: Any = graph.module.graph
        outputs = nodes.output_node().args[0]
        moving = changed
        while True:
            found = _nodes_reached(nodes, moving)
            results = {i for i, node in enumerate(outputs) if node in found}
            grown = moving | {i for result, i in places if result in results}
            if grown == moving:
                return results
            moving = grown

    return cached(graph, ("reached", frozenset(changed), places), make)


def carries_reached(body: Graph, changed: Sequence[bool], first: int, carries: int) -> list[bool]:
    """Return which carries of a loop's body have a derivative in some step if these of its inputs do in the first.

    The carries are the inputs from `first` on, and the first results.
    """

    found = reached(body, {i for i, c in enumerate(changed) if c}, {i: first + i for i in range(carries)})
    return [changed[first + i] or i in found for i in range(carries)]


def _nodes_reached(nodes: Any, changed: set[int]) -> set[fx.Node]:
    found: set[fx.Node] = {node for i, node in enumerate(nodes.find_nodes(op="placeholder")) if i in changed}
    results: dict[fx.Node, set[int]] = {}
    written: set[int] = set()  # memory that what is reached was written into
    for node in nodes.nodes:
        if _is_constant(node):
            continue
        if node.target is operator.getitem and node.args[0] in results:
            if node.args[1] in results[node.args[0]]:
                found.add(node)
        elif any(a in found or (written and _memory_of(a) in written) for a in node.all_input_nodes):
            found.add(node)
            written |= node.meta.get("writes", set())
            if isinstance(node.target, Primitive):
                known = node.target.reached({i for i, argument in enumerate(node.args) if argument in found})
                if known is not None:
                    results[node] = known
    return found | {n for n in nodes.nodes if _memory_of(n) in written} if written else found


def _is_constant(node: fx.Node) -> bool:
    """Tell whether what a node makes has no derivative, whatever it is made of."""
    value = node.meta.get("val")
    return node.target is aten.detach.default or (isinstance(value, Tensor) and not differentiable(value.dtype))


def _memory_of(node: fx.Node) -> int | None:
    value = node.meta.get("val")
    return storage_of(value) if isinstance(value, Tensor) else None


def forward_mode(graph: Graph, active: Sequence[bool], at_least: Sequence[bool] = ()) -> tuple[Graph, tuple[bool, ...]]:
    """Return the graph that maps (inputs, tangents of the active inputs) to (results, tangents), and whose tangents these are.

    They are those of the results that move with the active inputs, and of those that `at_least` says.
    """
    active, at_least = tuple(active), tuple(at_least) or (False,) * len(graph.out_types)

    def make() -> tuple[Graph, tuple[bool, ...]]:
        moves: list[bool] = []

        def run(*tensors: Tensor) -> list[Tensor]:
            results, tangents = pushed_call(graph, active, tensors[: len(active)], tensors[len(active) :])
            moves[:] = [t is not None or wanted for t, wanted in zip(tangents, at_least, strict=True)]
            pairs = zip(tangents, results, strict=True)
            return [*results, *(instantiate(t, r) for (t, r), m in zip(pairs, moves, strict=True) if m)]

        traced = _traced(run, [*graph.in_types, *(t for t, a in zip(graph.in_types, active, strict=True) if a)])
        return traced, tuple(moves)

    return cached(graph, ("jvp", active, at_least), make)


def results_and_tangents(
    pushed: Sequence[Tensor], moves: Sequence[bool]
) -> tuple[Sequence[Tensor], list[Tensor | None]]:
    """Return what a graph in forward mode gives as results, and a tangent for each, None for those that do not move."""
    found = iter(pushed[len(moves) :])
    return pushed[: len(moves)], [next(found) if m else None for m in moves]


def pushed_call(
    function: Callable[..., Sequence[Tensor]],
    active: Sequence[bool],
    primals: Sequence[Tensor],
    tangents: Sequence[Tensor],
) -> tuple[list[Tensor], list[Tensor | None]]:
    """Call `function` in forward mode: its results, and their tangents, None for zero; `tangents` are of the active inputs."""

    def of_active(*actives: Tensor) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        given = iter(actives)
        outs = function(*(next(given) if a else p for a, p in zip(active, primals, strict=True)))
        return tuple(o for o in outs if differentiable(o.dtype)), tuple(outs)

    if not any(active):
        outs = list(function(*primals))
        return outs, [None] * len(outs)
    _, found, outs = duals.pushed(of_active, [p for p, a in zip(primals, active, strict=True) if a], tangents)
    each = iter(found)
    return outs, [next(each) if differentiable(o.dtype) else None for o in outs]


def jvp_call(
    function: Callable[..., Sequence[Tensor]],
    active: Sequence[bool],
    primals: Sequence[Tensor],
    tangents: Sequence[Tensor],
) -> list[Tensor]:
    """Call `function` in forward mode: its results, then the tangents of the differentiable ones."""
    outs, found = pushed_call(function, active, primals, tangents)
    return [*outs, *(instantiate(t, o) for t, o in zip(found, outs, strict=True) if differentiable(o.dtype))]


def reverse_mode(graph: Graph, wanted: Sequence[bool]) -> Graph:
    """Return the graph that maps (inputs, cotangents of the differentiable results) to cotangents of wanted inputs."""
    wanted = tuple(wanted)

    def make() -> Graph:
        def run(*tensors: Tensor) -> list[Tensor]:
            count = len(wanted)
            return vjp_call(graph, wanted, tensors[:count], tensors[count:])[1]

        types = [*graph.in_types, *(t for t in graph.out_types if differentiable(t.dtype))]
        return late_effects_only(_traced(run, types), len(wanted))

    return cached(graph, ("vjp", wanted), make)


def late_effects_only(graph: Graph, primals: int) -> Graph:
    """Drop the effects that depend on primals alone, of a derivative besides which the primitive itself is run."""
    if not has_effects(graph):
        return graph

    def make() -> Graph:
        nodes = graph.module.graph
        inputs = nodes.find_nodes(op="placeholder")
        late = depends_on(nodes, inputs[primals:])
        outputs: Any = nodes.output_node().args[0]
        return subgraph(graph, inputs, outputs, [n for n in nodes.nodes if n in late and calls_for_effect(n)])

    return cached(graph, ("late effects", primals), make)


def vjp_call(
    function: Callable[..., Sequence[Tensor]],
    wanted: Sequence[bool],
    primals: Sequence[Tensor],
    cotangents: Sequence[Tensor],
) -> tuple[list[Tensor], list[Tensor]]:
    """Return the results of `function` and the cotangents of its wanted inputs."""

    def of_wanted(*chosen: Tensor) -> tuple[list[Tensor], Sequence[Tensor]]:
        given = iter(chosen)
        outs = function(*(next(given) if w else p for w, p in zip(wanted, primals, strict=True)))
        return [o for o in outs if differentiable(o.dtype)], outs

    chosen = [p for p, w in zip(primals, wanted, strict=True) if w]
    if not chosen:
        return list(function(*primals)), []
    _, pull, outs = pullbacks.vjp(of_wanted, chosen)
    return outs, pullbacks.whole(pull(cotangents), chosen)


def pushed_rule(
    graph: Graph,
    call: Callable[[Graph], Callable[..., list[Tensor]]],
    primals: Sequence[Tensor],
    tangents: Sequence[Tensor | None],
) -> tuple[Sequence[Tensor], list[Tensor | None]]:
    """Apply the forward-mode rule of a primitive that calls one graph; `call` makes the primitive of a graph."""
    active = [t is not None for t in tangents]
    body, moves = forward_mode(graph, active)
    return results_and_tangents(call(body)(*primals, *(t for t in tangents if t is not None)), moves)


def vjp_rule(
    graph: Graph, call: Callable[[Graph], Callable[..., list[Tensor]]], primals: Sequence[Tensor],
    results: Sequence[Tensor], cotangents: Sequence[Tensor | None],
) -> list[Tensor | None]:  # fmt: skip
    """Apply the reverse-mode rule of a primitive that calls one graph."""
    wanted = [differentiable(p.dtype) for p in primals]
    seeds = [instantiate(c, r) for c, r in zip(cotangents, results, strict=True) if differentiable(r.dtype)]
    found = iter(call(reverse_mode(graph, wanted))(*primals, *seeds))
    return [next(found) if w else None for w in wanted]


class Inline(Primitive):
    """A graph run operator by operator, under every transformation."""

    __name__ = "inline"

    def __init__(self, body: Graph) -> None:
        self.body = body

    def reached(self, changed: set[int]) -> set[int]:
        return reached(self.body, changed)

    def __call__(self, *inputs: Tensor) -> list[Tensor]:
        return self.body(*inputs)
