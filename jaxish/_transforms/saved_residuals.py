"""print_saved_residuals: what the forward pass of a function keeps for going back."""

import operator
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import fx

from .._core import dtypes, graph, operators, residuals, tree
from .._core.graph import Graph, TensorType
from .api_util import debug_info
from .flat import as_argument, differentiable
from .program import trace_program
from .remat import Checkpoint, Name

_SHORT = {"float": "f", "bfloat": "bf", "int": "i", "uint": "u", "complex": "c", "bool": "bool"}


def print_saved_residuals(f: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Print a line for each value that differentiating `f` at these arguments keeps: its type and where it comes from.

    Which values these are is torch's derivatives' affair; they may be others than JAX keeps.
    """
    leaves, spec = tree.flatten((args, kwargs))
    arrays = [as_argument(leaf, "print_saved_residuals") for leaf in leaves]
    names = debug_info("saved_residuals", f, args, kwargs).arg_names or ()
    program = trace_program(f, arrays, spec.unflatten, (), "saved_residuals")
    captured = len(program.closed.captured)
    wanted = [i >= captured and differentiable(arrays[i - captured]) for i in range(captured + len(arrays))]
    sources = [*["from a constant"] * captured, *(f"from the argument {name}" for name in names)]
    body, save, places = _checkpointed(program.closed.graph)
    halves = residuals.split(body, [wanted[i] for i in places], save)
    for type, source in _saved(*halves, [sources[i] for i in places], len(body.out_types)):
        print(f"{_type_text(type)} {source}")


def _checkpointed(body: Graph) -> tuple[Graph, Callable[[fx.Node], bool] | None, list[int]]:
    """Return a graph, what it saves and which inputs it takes: those of its only call, if that is a checkpoint."""
    inputs = body.module.graph.find_nodes(op="placeholder")
    calls = [n for n in body.module.graph.nodes if n.op == "call_function" and n.target is not operator.getitem]
    if len(calls) == 1 and isinstance(calls[0].target, Checkpoint) and all(a in inputs for a in calls[0].args):
        return calls[0].target.body, calls[0].target.save, [inputs.index(a) for a in calls[0].args]
    return body, None, list(range(len(inputs)))


def _saved(forward: Graph, backward: Graph, sources: list[str], results: int) -> Iterator[tuple[Any, str]]:
    """Yield types and origins of what the backward half reads: inputs by their sources, then what the forward half made."""
    inputs = forward.module.graph.find_nodes(op="placeholder")
    read = backward.module.graph.find_nodes(op="placeholder")[: len(inputs)]
    outputs: Any = forward.module.graph.output_node().args[0]
    kept = [_viewed(node) for node in outputs[results:]]
    found = [i for i, r in zip(inputs, read, strict=True) if r.users or i in kept]
    for node in dict.fromkeys([*found, *kept]):
        yield graph.type_of(node), sources[inputs.index(node)] if node in inputs else _origin(node)


def _viewed(node: fx.Node) -> fx.Node:
    """Return what made the memory that a node shows."""
    while node.op == "call_function" and node.target is not operator.getitem and _shows_another(node.target):
        node = node.all_input_nodes[0]
    return node


def _shows_another(target: Any) -> bool:
    return operators.of(target).is_view or target in (torch.ops.aten.detach.default, torch.ops.aten.alias.default)


def _origin(node: fx.Node) -> str:
    target: Any = node.args[0].target if node.target is operator.getitem else node.target  # pyright: ignore
    if isinstance(target, Name):
        return f"named '{target.label}'"
    return f"output of {operators.of(target).jax_name}" if node.all_input_nodes else "from a literal"


def _type_text(type: TensorType) -> str:
    name = dtypes.TO_NUMPY[type.dtype].name
    kind = name.rstrip("0123456789")
    return f"{_SHORT.get(kind, kind)}{name[len(kind) :]}[{','.join(map(str, type.shape))}]"
