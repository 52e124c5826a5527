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


def is_shown(node: fx.Node) -> bool:
    """Tell whether `node` stays in a graph that is to be shown: interpreters of jaxprs look for the marks of a library."""
    return must_stay(node) or (node.op == "call_function" and getattr(node.target, "is_users", False))


def depends_on(graph: fx.Graph, sources: Sequence[fx.Node]) -> set[fx.Node]:
    """Return the nodes of `graph` that depend on one of `sources`, the sources included."""
    found = set(sources)
    for node in graph.nodes:
        if any(argument in found for argument in node.all_input_nodes):
            found.add(node)
    return found


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
    tensors = [n.meta.get("val") for n in nodes]
    memory = {storage_of(t) for t in tensors if isinstance(t, Tensor)}
    return {n for n in graph.nodes if memory & n.meta.get("writes", set())}
