"""Which shardings a graph's results have, by the constraints in it: forward through operators that keep the dimensions."""

import operator
from collections.abc import Sequence
from typing import Any

from torch import fx

from .._core import graph, operators
from .._core.graph import Graph
from .._core.operators import Kind
from . import partition
from .shardings import NamedSharding, PartitionSpec, Sharding, names_in

aten = partition.aten


def shardings_of_results(body: Graph) -> Sequence[Sharding | None]:
    """Return the sharding of each of the graph's results; None where no constraint reaches it.

    From here on the graph gives its results so (`known_shardings`): it is that of a jitted function, not of a loop's body.
    """
    found = body.cache["shardings"] = _propagated(body)
    return found


def known_shardings(body: Graph) -> Sequence[Sharding | None]:
    """Return the shardings that the results of a jitted function's graph are to have; none for other graphs."""
    found = body.cache.get("shardings", ())
    return found if any(found) else ()


def _propagated(body: Graph) -> list[Sharding | None]:
    nodes = body.module.graph.nodes
    outputs: Any = body.module.graph.output_node().args[0]
    if not any(getattr(node.target, "places_results", False) for node in nodes):
        return [None] * len(outputs)
    known = shardings_within(body, ())
    return [known.get(node) for node in outputs]


def shardings_within(body: Graph, inputs: Sequence[Sharding | None]) -> dict[fx.Node, Sharding]:
    """Return the shardings of what the graph's nodes make, as far as they follow from its inputs' and from constraints."""
    nodes = body.module.graph
    given = zip(nodes.find_nodes(op="placeholder"), inputs, strict=False)
    known = {node: sharding for node, sharding in given if sharding is not None}
    for node in nodes.nodes:
        sharding = _of(node, known)
        if sharding is not None:
            known[node] = sharding
    return known


def _of(node: fx.Node, known: dict[fx.Node, Sharding]) -> Sharding | None:
    target, source = node.target, node
    if target is operator.getitem:
        source: Any = node.args[0]
        target = source.target
        if getattr(target, "places_results", False):
            return target.sharding
    type = graph.type_of(node)
    if type is None or not any(n in known for n in source.all_input_nodes):
        return None
    kind, is_elementwise = operators.of(target).kind, operators.of(target).is_elementwise
    if is_elementwise or partition.is_elementwise(node):
        return _merged(source.all_input_nodes, type, known)
    first = source.all_input_nodes[0]
    if getattr(target, "is_laid_out_alike", False):
        return _merged(source.all_input_nodes, graph.type_of(first), known)
    sharding = known.get(first)
    if not isinstance(sharding, NamedSharding):
        return sharding if kind is Kind.RESHAPE else None
    parts = _parts(sharding, len(partition.shape_of(first)))
    if kind is Kind.PERMUTE:
        return sharding.update(spec=PartitionSpec(*(parts[d] for d in partition.order_of(node))))
    if kind is Kind.RESHAPE:
        return _refitted(sharding, parts, partition.shape_of(first), type.shape)
    return None


def _parts(sharding: NamedSharding, rank: int) -> list[Any]:
    return [*sharding.spec, *(None,) * (rank - len(sharding.spec))]


def _merged(nodes: Sequence[fx.Node], result: Any, known: dict[fx.Node, Sharding]) -> Sharding | None:
    """Return the sharding of what is made elementwise of these: per dimension the first one that splits it."""
    rank = len(result.shape)
    given = [(graph.type_of(n), known[n]) for n in nodes if n in known]
    named = [(t.shape, s) for t, s in given if isinstance(s, NamedSharding) and t is not None]
    if len(named) < len(given):  # on one device
        return given[0][1]
    mesh, parts, used = named[0][1].mesh, [None] * rank, set()
    for shape, sharding in named:
        for dim, part in enumerate(_parts(sharding, len(shape)), rank - len(shape)):
            names = set(names_in(part))
            if shape[dim - rank] == result.shape[dim] and parts[dim] is None and not names & used:
                parts[dim] = part
                used |= names
    return NamedSharding(mesh, PartitionSpec(*parts))


def _refitted(sharding: NamedSharding, parts: list[Any], old: Sequence[int], new: Sequence[int]) -> Sharding | None:
    """Return the sharding of a tensor whose dimensions of size 1 were added or dropped."""
    kept = [(size, part) for size, part in zip(old, parts, strict=True) if size != 1]
    if [size for size, _ in kept] != [size for size in new if size != 1]:
        return None
    rest = iter(kept)
    return sharding.update(spec=PartitionSpec(*(None if size == 1 else next(rest)[1] for size in new)))
