"""Finished graphs in what a target can run, and loops and branches as torch's higher-order operators.

`lowered(body, PORTABLE)` holds operators of aten and torch's `while_loop` and `cond` alone, so that any compiler of such
graphs can take it, and any exporter.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from .._core import graph
from .._core.graph import Graph, TensorType, Trace
from .._core.nodes import storage_of
from .._core.primitive import Primitive
from .._core.target import Target
from . import onednn
from .duplicates import merged
from .special_products import respelled

Function = Callable[..., Sequence[Tensor]]


def lowered(body: Graph, target: Target) -> GraphModule:
    """Return the graph with structured primitives spelled out in what `target` can run."""
    return spelled_out(body, target).module


def spelled_out(body: Graph, target: Target) -> Graph:
    """Return the graph with structured primitives spelled out, where `target` does not have them as they are."""
    found = _spelled_out(merged(body), target)
    module = onednn.with_products_of_bytes(found.module)
    return found if module is found.module else Graph(module, found.in_types, found.out_types)


def _spelled_out(body: Graph, target: Target) -> Graph:
    called = [node.target for node in body.module.graph.nodes if isinstance(node.target, Primitive)]
    if all(primitive.stays(target) for primitive in called):
        return respelled(body)
    return respelled(graph.trace(body, body.in_types, lowering=target).graph)


def _lowering() -> Trace | None:
    """Return the trace that lowers a graph, if one is active."""
    trace = graph.current_trace()
    return None if trace is None or trace.lowering is None else trace


def is_lowering() -> bool:
    """Tell whether a graph is being lowered, so that what is called is written out in it."""
    return _lowering() is not None


def while_loop(
    going: Callable[..., Tensor], step: Function, state: Sequence[Tensor], constants: Sequence[Tensor] = ()
) -> list[Tensor]:
    """Return the state after `step(*state, *constants)`, for as long as `going(*state, *constants)` is true.

    In a graph that is being lowered the loop is one operator.
    """
    trace = _lowering()
    if trace is None:
        state = list(state)
        while going(*state, *constants):
            state = list(step(*state, *constants))
        return state
    constants = _apart(constants, ())  # torch refuses loops whose inputs share memory, once it decomposes them
    state = _apart(state, constants)
    types = [TensorType.of(t) for t in (*state, *constants)]
    test = _subgraph(trace, lambda *inputs: [going(*inputs)], types, single=True)
    body = _subgraph(trace, step, types)
    arguments = (test, body, tuple(state), tuple(constants))
    return trace.emit(_higher_order("while_loop"), arguments, types[: len(state)])


def choice(
    index: Tensor, branches: Sequence[Function], operands: Sequence[Tensor], out_types: Sequence[TensorType]
) -> list[Tensor]:
    """Append the call of the branch that `index` names, a number in range, to the graph that is being lowered."""
    if len(branches) == 1:
        return list(branches[0](*operands))
    trace = _lowering()
    assert trace is not None
    operands = _apart(operands, ())
    types = [TensorType.of(t) for t in (index, *operands)]
    first = _subgraph(trace, lambda _, *operands: branches[0](*operands), types)
    others = _subgraph(trace, lambda index, *operands: choice(index - 1, branches[1:], operands, out_types), types)
    return trace.emit(_higher_order("cond"), (index == 0, first, others, (index, *operands)), out_types)


def _higher_order(name: str) -> Any:
    import torch._higher_order_ops  # without which torch.ops does not know it

    return getattr(torch.ops.higher_order, name)


def _subgraph(trace: Trace, function: Function, types: Sequence[TensorType], single: bool = False) -> Node:
    """Trace a function for the target of `trace`, and return the node that names its graph there."""
    closed = graph.trace(lambda *inputs: _apart(function(*inputs), inputs), types, lowering=trace.lowering)
    module = closed.graph.module
    output = module.graph.output_node()
    (results,) = output.args
    output.args = (results[0] if single else tuple(results),)  # pyright: ignore
    module.recompile()
    return trace.submodule(module)


def _is_laid_out(tensor: Tensor) -> bool:
    """Tell whether the strides are those of new memory, of dimensions with one element too, which torch's loops compare."""
    return tensor.stride() == torch.empty(tensor.shape, device="meta").stride()


def _apart(results: Sequence[Tensor], inputs: Sequence[Tensor]) -> list[Tensor]:
    """Return the results as torch wants those of a loop's step, and what it begins with: contiguous, in memory of their own."""
    taken = {storage_of(t) for t in inputs}
    found = []
    for result in results:
        if storage_of(result) in taken or not _is_laid_out(result):
            result = result.clone(memory_format=torch.contiguous_format)
        taken.add(storage_of(result))
        found.append(result)
    return found
