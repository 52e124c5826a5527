"""Several steps of a loop as one graph, for GPUs: launching the kernels of a small step takes longer than they run.

A compiler makes one kernel of the elementwise steps of a graph, and its Python is left once for all of them. A loop that
goes on while something is true looks at the value once for all of them, too.
"""

import math

import torch
from torch import Tensor

from ..._compile.structured import Opaque
from ..._core import accelerator, config, derived, graph, selection, unsigned
from ..._core.graph import Graph, TensorType

_OPERATORS = 64  # that the graph has at most: beyond, compiling takes longer than it gains
_STEPS = 8
_SMALL = 1 << 16  # elements of an array, from which on a step is work


def count(*bodies: Graph, length: int = _STEPS) -> int:
    """Return of how many steps to make one graph, of a loop of this length whose steps are these graphs: one if it does not pay."""
    types = [type for body in bodies for type in (*body.in_types, *body.out_types)]
    if config.jit_tier.value == "direct" or not all(accelerator.is_gpu(type.device) for type in types):
        return 1
    called = [node for body in bodies for node in body.module.graph.nodes if node.op == "call_function"]
    if any(math.prod(type.shape) > _SMALL for type in types) or any(isinstance(node.target, Opaque) for node in called):
        return 1
    if any(map(graph.has_effects, bodies)):  # which steps beyond the last one must not have
        return 1
    most = min(_STEPS, _OPERATORS // max(1, len(called)), length)
    return max(1, next((n for n in range(most, most // 2, -1) if length % n == 0), most))


def of_scan(body: Graph, consts: int, carries: int, count: int, reverse: bool) -> Graph:
    """Return the steps of a scan as a graph: (consts, carry, x of all steps) -> (carry, y of all steps)."""

    def run(*inputs: Tensor) -> list[Tensor]:
        own, carry, xs = inputs[:consts], inputs[consts : consts + carries], inputs[consts + carries :]
        rows = list(zip(*(x.unbind(0) for x in xs), strict=True)) or [()] * count
        ys = []
        for row in reversed(rows) if reverse else rows:
            results = body(*own, *carry, *row)
            carry = results[:carries]
            ys.append(results[carries:])
        columns = zip(*(reversed(ys) if reverse else ys), strict=True)
        return [*carry, *(unsigned.via_bits(lambda *column: torch.stack(column), *column) for column in columns)]

    head, slices = body.in_types[: consts + carries], body.in_types[consts + carries :]
    types = [*head, *(TensorType((count, *type.shape), type.dtype, type.device) for type in slices)]
    make = lambda: graph.trace(run, types).graph  # noqa: E731
    return derived.cached(body, ("several steps", consts, carries, count, reverse), make)


def of_while(cond: Graph, body: Graph, cond_consts: int, body_consts: int, count: int) -> Graph:
    """Return the steps of a loop as a graph: (both consts, carry) -> (whether there are more, carry).

    Steps after the last one are computed, and what they give is not taken.
    """
    split = cond_consts + body_consts

    def run(*inputs: Tensor) -> list[Tensor]:
        of_cond, of_body, carry = inputs[:cond_consts], inputs[cond_consts:split], inputs[split:]
        for _ in range(count):
            (going,) = cond(*of_cond, *carry)
            carry = [selection.where(going, new, old) for new, old in zip(body(*of_body, *carry), carry, strict=True)]
        return [*cond(*of_cond, *carry), *carry]

    types = [*cond.in_types[:cond_consts], *body.in_types]
    make = lambda: graph.trace(run, types).graph  # noqa: E731
    return derived.cached(body, ("several steps", cond, cond_consts, count), make)
