"""print_saved_residuals: what the forward pass of a function keeps for going back."""

import operator
from collections.abc import Callable
from typing import Any

from torch import fx

from .._core import residuals, tree
from .._core.graph import Graph
from .api_util import debug_info
from .flat import as_argument, differentiable
from .kept_values import kept, type_text
from .program import trace_program
from .remat import Checkpoint


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
    for type, source in kept(*halves, [sources[i] for i in places], len(body.out_types)):
        print(f"{type_text(type)} {source}")


def _checkpointed(body: Graph) -> tuple[Graph, Callable[[fx.Node], bool] | None, list[int]]:
    """Return a graph, what it saves and which inputs it takes: those of its only call, if that is a checkpoint."""
    inputs = body.module.graph.find_nodes(op="placeholder")
    calls = [n for n in body.module.graph.nodes if n.op == "call_function" and n.target is not operator.getitem]
    if len(calls) == 1 and isinstance(calls[0].target, Checkpoint) and all(a in inputs for a in calls[0].args):
        return calls[0].target.body, calls[0].target.save, [inputs.index(a) for a in calls[0].args]
    return body, None, list(range(len(inputs)))
