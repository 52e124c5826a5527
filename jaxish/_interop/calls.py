"""Graphs called from torch code, under everything that torch code may be under.

`TorchCall` is a call of a compiled graph like jit's (`Call`), with one more place where it can stand: at the bottom, in
plain torch code, whose autograd it takes part in. There the graph is split into a forward and a backward half, as for
`jax.grad`, and both run compiled. A second derivative goes through the whole backward graph, a function of inputs and
cotangents, which is called in the same way. Under torch.func's levels the rules of `Call` apply; what those come down to
is a call at the bottom again. Where torch traces (torch.compile, make_fx) the call is the operator `jaxish::structured`.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, fx
from torch.autograd import forward_ad

from .._compile import executable, structured
from .._core import derived, duals, functorch, graph, residuals
from .._core.graph import Graph
from .._core.primitive import Primitive, differentiable
from .._transforms.program import Call


class TorchCall(Call):
    """A call of a compiled graph in torch code."""

    def _of(self, body: Graph) -> "TorchCall":
        return TorchCall(body, self.name)

    def __call__(self, *inputs: Tensor) -> list[Tensor]:
        if graph.is_tracing() or functorch.peek_interpreter_stack() is not None:
            return super().__call__(*inputs)
        if (torch.is_grad_enabled() and any(t.requires_grad for t in inputs)) or _is_pushed_forward(inputs):
            return list(_Differentiated.apply(self, *inputs))  # pyright: ignore
        return _evaluated(self.body, inputs, len(self.body.out_types))


def _is_pushed_forward(inputs: Sequence[Tensor]) -> bool:
    return duals.is_possible() and any(forward_ad.unpack_dual(t).tangent is not None for t in inputs)


class _Differentiated(torch.autograd.Function):
    """A call that torch's autograd goes back through."""

    @staticmethod
    def forward(ctx: Any, call: TorchCall, *inputs: Tensor) -> tuple[Tensor, ...]:
        body, wanted = call.body, ctx.needs_input_grad[1:]
        forward, ctx.backward_half = residuals.split(body, wanted, views=False)
        count = len(body.out_types)
        found = _evaluated(forward, inputs, count)
        ctx.call, ctx.count = call, len(inputs)
        ctx.save_for_backward(*inputs, *found[count:])
        ctx.save_for_forward(*inputs)
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*(r for r in found[:count] if not differentiable(r.dtype)))
        return tuple(found[:count])

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor | None) -> tuple[Tensor | None, ...]:
        wanted, body = ctx.needs_input_grad[1:], ctx.call.body
        if all(c is None for c in cotangents):
            return (None,) * (1 + ctx.count)
        saved = ctx.saved_tensors
        pairs = zip(cotangents, body.out_types, strict=True)
        seeds = [residuals.seed_of(c, t) for c, t in pairs if differentiable(t.dtype)]
        count = len(saved)
        found = functorch.mapped_by_autograd(lambda *t: _gone_back(ctx, t[:count], t[count:]), (*saved, *seeds))
        each = iter(found)
        return (None, *(next(each) if w else None for w in wanted))

    @staticmethod
    def jvp(ctx: Any, _: Any, *tangents: Tensor | None) -> tuple[Tensor | None, ...]:
        body, active = ctx.call.body, [t is not None for t in tangents]
        whole, moves = derived.forward_mode(body, active, [differentiable(t.dtype) for t in body.out_types])
        pushed = ctx.call._of(derived.late_effects_only(whole, len(active)))
        given = (*ctx.saved_tensors[: ctx.count], *(t for t in tangents if t is not None))
        found = functorch.mapped_by_autograd(pushed, given)
        return tuple(derived.results_and_tangents(found, moves)[1])


def _gone_back(ctx: Any, saved: Sequence[Tensor], seeds: Sequence[Tensor]) -> list[Tensor]:
    """Return the cotangents of the inputs that want one."""
    if torch.is_grad_enabled():  # residuals would hide how the cotangents depend on the inputs
        whole = derived.reverse_mode(ctx.call.body, ctx.needs_input_grad[1:])
        return ctx.call._of(whole)(*saved[: ctx.count], *seeds)
    half = ctx.backward_half
    if functorch.peek_interpreter_stack() is not None:
        return ctx.call._of(half)(*saved, *seeds)
    return _evaluated(half, (*saved, *seeds), len(half.out_types))


def _evaluated(body: Graph, inputs: Sequence[Tensor], count: int) -> list[Tensor]:
    """Run a graph. Its first `count` results share memory with nothing: torch code may write into them."""
    if torch._C._len_torch_dispatch_stack():
        return structured.call_in_torch(Call(body), inputs)
    results = list(executable.of(body).run(*inputs))
    for position, same in derived.cached(body, ("shared", count), lambda: _shared(body, count)):
        if same is None:
            results[position] = results[position].clone()
        else:
            results[position] = results[same]
    return results


def _shared(body: Graph, count: int) -> list[tuple[int, int | None]]:
    """Return the results that may share memory, and for each the result to take for it: None is a copy of its own.

    The results behind the first `count` are given to nobody, and may share memory with inputs, and be one of the first.
    """
    nodes: Any = body.module.graph.output_node().args[0]
    found: list[tuple[int, int | None]] = []
    owners: dict[fx.Node, int] = {}  # memory, and the result that has it for its own
    for position, node in enumerate(nodes):
        memory = _memory_of(node)
        if position < count:
            if memory is None or memory in owners:
                found.append((position, None))
            else:
                owners[memory] = position
        elif memory in owners:
            found.append((position, owners[memory] if nodes[owners[memory]] is node else None))
    return found


def _memory_of(node: fx.Node) -> fx.Node | None:
    """Return the node that made the memory of what `node` gives; None where that may be an input's, or something else's."""
    while True:
        if node.op != "call_function":
            return None
        target: Any = node.target
        if isinstance(target, Primitive) or not node.all_input_nodes:
            return None if isinstance(target, Primitive) else node
        if isinstance(target, torch._ops.OpOverload) and not _may_be_view(target):
            return node
        made = node.all_input_nodes[0]
        if not isinstance(target, torch._ops.OpOverload):  # a part of what several results came as
            inner: Any = made.target
            if isinstance(inner, torch._ops.OpOverload) and not _may_be_view(inner):
                return node
            if isinstance(inner, Primitive):
                return None
        node = made


def _may_be_view(target: torch._ops.OpOverload) -> bool:
    return target is torch.ops.aten.reshape.default or any(r.alias_info is not None for r in target._schema.returns)
