"""What the nodes of a graph do besides computing: effects, writes into memory; and which depend on which."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, fx


def calls_for_effect(node: fx.Node) -> bool:
    """Tell whether `node` calls a primitive that does something besides computing its results."""
    return node.op == "call_function" and getattr(node.target, "has_effect", False)


def must_stay(node: fx.Node) -> bool:
    """Tell whether `node` stays in a graph although nothing uses its result."""
    if node.op in ("placeholder", "output"):
        return True
    schema = getattr(node.target, "_schema", None)
    return (schema is not None and schema.is_mutable) or calls_for_effect(node)


def is_zeros(node: fx.Node) -> bool:
    """Tell whether `node` makes an array of zeros."""
    aten = torch.ops.aten
    return node.target is aten.zeros.default or (node.target is aten.full.default and node.args[1] in (0, False))


def is_shown(node: fx.Node) -> bool:
    """Tell whether `node` stays in a graph that is to be shown: interpreters of jaxprs look for the marks of a library."""
    return must_stay(node) or (node.op == "call_function" and getattr(node.target, "is_users", False))


def depends_on(graph: fx.Graph, sources: Sequence[fx.Node]) -> set[fx.Node]:
    """Return the nodes of `graph` that depend on one of `sources`, the sources included.

    What reads memory after a node that depends on them has written into it does, too, and so does what makes that memory.
    """
    found, written = set(sources), set()
    for node in graph.nodes:
        if any(argument in found or (written and _memory(argument) in written) for argument in node.all_input_nodes):
            found.add(node)
            written |= node.meta.get("writes", set())
    if written:
        found |= {n for n in graph.nodes if n.op == "call_function" and _memory(n) in written}
    return found


def _memory(node: fx.Node) -> int | None:
    value = node.meta.get("val")
    return storage_of(value) if isinstance(value, Tensor) else None


def reshaping(func: Any) -> Any:
    """Return the operator that gives what `func` makes of its argument, whose shape it changes in place (squeeze_)."""
    name, _, overload = func.__name__.partition(".")
    pure = getattr(torch.ops.aten, name.rstrip("_"))
    return getattr(pure, overload if overload in pure.overloads() else "int")  # transpose_ has but one overload


def tensors_written(target: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Tensor]:
    """Return the tensors that a call writes into; torch does so within some of its derivative formulas."""
    schema = getattr(target, "_schema", None)
    if schema is None or not schema.is_mutable:
        return []
    given = [(a, args[i] if i < len(args) else kwargs.get(a.name)) for i, a in enumerate(schema.arguments)]
    return [v for a, v in given if isinstance(v, Tensor) and a.alias_info is not None and a.alias_info.is_write]


def storage_of(tensor: Tensor) -> int:
    """Return what names the memory of a tensor: equal for views of one."""
    return tensor.untyped_storage()._cdata


def writers_to(graph: fx.Graph, nodes: set[fx.Node]) -> set[fx.Node]:
    """Return the nodes that write into memory that one of `nodes` reads or makes."""
    memory = set(map(_memory, nodes)) - {None}
    return {n for n in graph.nodes if memory & n.meta.get("writes", set())}
