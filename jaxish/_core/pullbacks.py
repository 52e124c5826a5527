"""Reverse-mode differentiation: torch.func.vjp's levels, for flat lists of tensors.

What torch.func does besides costs as much as a small function: trees are taken apart and put together a dozen times, and
the way back is recorded to be differentiated again, although no level is there to do so.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from . import functorch
from .torch_modes import no_inference, no_saving_hooks

# from cotangents of the results to those of the primals, None for zero on both sides
Pullback = Callable[[Sequence[Tensor | None]], list[Tensor | None]]


def vjp(
    function: Callable[..., tuple[Sequence[Tensor | None], Sequence[Tensor]]], primals: Sequence[Tensor]
) -> tuple[list[Tensor | None], Pullback, list[Tensor]]:
    """Return the results of `function` at `primals`, how to go back from them, and its other results.

    `function` returns two sequences: results to be differentiated, floating or complex (None for zero), and others. A
    result that does not depend on the primals has no way back.
    """
    enter, leave = functorch.grad_increment_nesting, functorch.grad_decrement_nesting
    with no_saving_hooks(), functorch.entered(enter, leave) as level, torch.enable_grad():
        inputs = [_differentiable(functorch.wrap_for_grad(p, level)) for p in primals]
        active, others = function(*inputs)
        ends = [t if t is not None and t.requires_grad else None for t in active]
        results = [None if t is None else functorch.unwrap_for_grad(t, level) for t in active]
        rest = [functorch.unwrap_for_grad(t, level) for t in others]

    def pull(cotangents: Sequence[Tensor | None]) -> list[Tensor | None]:
        # A cotangent that is zero is not gone back from: rules may refuse others.
        pairs = [(t, c) for t, c in zip(ends, cotangents, strict=True) if t is not None and c is not None]
        if not pairs:
            return [None] * len(inputs)
        outputs, seeds = zip(*pairs, strict=True)
        is_differentiated = functorch.peek_interpreter_stack() is not None
        with no_inference():
            found = torch.autograd.grad(
                outputs, inputs, seeds, retain_graph=True, create_graph=is_differentiated, allow_unused=True
            )
        return list(found)

    return results, pull, rest


def whole(found: Sequence[Tensor | None], primals: Sequence[Tensor]) -> list[Tensor]:
    """Return cotangents of `primals` with zeros for None."""
    return [torch.zeros_like(p) if c is None else c for c, p in zip(found, primals, strict=True)]


def _differentiable(tensor: Tensor) -> Tensor:
    allowed = functorch.get_inplace_requires_grad_allowed()
    functorch.set_inplace_requires_grad_allowed(True)
    try:
        return tensor.requires_grad_()
    finally:
        functorch.set_inplace_requires_grad_allowed(allowed)
