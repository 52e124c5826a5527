"""Loops over whole tensors that end when every element has converged. Compiled code calls them as one operator."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .._compile.lowering import is_lowering, while_loop

_TINY = 1e-300


def nonzero(x: Tensor) -> Tensor:
    """Return x, moved away from zero so that it can be divided by (Thompson and Barnett)."""
    return torch.where(x.abs() < _TINY, _TINY, x)


def until_settled(
    step: Callable[..., list[Tensor]], state: list[Tensor], constants: list[Tensor], rounds: int = 5000
) -> list[Tensor]:
    """Return the state after `step(number, *state, *constants)` for the numbers from 1 on, until no element is unsettled.

    A step returns the new state, and which elements are unsettled. There are at most `rounds` steps.
    """

    def going(number: Tensor, unsettled: Tensor, *_: Tensor) -> Tensor:
        return unsettled.any() & (number < rounds)

    def numbered(number: Tensor, unsettled: Tensor, *values: Tensor) -> list[Tensor]:
        *stepped, unsettled = step(number, *values)
        return [number + 1, unsettled, *stepped]

    # A number of Python's is faster than one in a tensor, and what a loop of a graph carries is tensors.
    first: Any = torch.ones((), dtype=torch.float64, device=state[0].device) if is_lowering() else 1
    start = [first, torch.ones_like(state[0], dtype=torch.bool), *state]
    return while_loop(going, numbered, start, constants)[2:]
