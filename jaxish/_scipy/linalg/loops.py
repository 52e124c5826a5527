"""Loops over the columns of matrices, inside primitives: whoever calls these functions sees one operation."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ..._compile import lowering


def count_down(
    first: int,
    step: Callable[..., Sequence[Tensor]],
    state: Sequence[Tensor],
    constants: Sequence[Tensor] = (),
    last: int = 0,
) -> list[Tensor]:
    """Return the state after `step(i, *state, *constants)` for i = first, first - 1, ..., last, each a 0-d tensor.

    In a graph that is being lowered the loop is one operator.
    """
    device = state[0].device
    if not lowering.is_lowering():
        for i in torch.arange(last, first + 1, device=device).flip(0).unbind():
            state = step(i, *state, *constants)
        return list(state)
    start = torch.full((), first, device=device)
    return lowering.while_loop(
        lambda i, *_: i >= last, lambda i, *values: [i - 1, *step(i, *values)], [start, *state], constants
    )[1:]


def count_up(
    count: int, step: Callable[..., Sequence[Tensor]], state: Sequence[Tensor], constants: Sequence[Tensor] = ()
) -> list[Tensor]:
    """Return the state after `step(i, *state, *constants)` for i = 0, 1, ..., count - 1; see `count_down`."""
    return count_down(count - 1, lambda i, *values: step(count - 1 - i, *values), state, constants)


def place(i: Tensor, size: int) -> Tensor:
    """Return a vector of booleans that is true at `i` alone."""
    return torch.arange(size, device=i.device) == i


def column(t: Tensor, i: Tensor) -> Tensor:
    """Return column `i` of matrices."""
    return t.index_select(-1, i.reshape(1))
