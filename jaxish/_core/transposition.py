"""Reverse mode of what has a forward rule only: the rule, a linear function of the tangents, is pulled back.

While a rule is being pulled back, what depends on the tensors of its functorch level is linear in them. A primitive
that is applied to such tensors must be transposed, and not differentiated by a rule of its own, which may apply
it to tangents again, without an end.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from . import axes, errors, functorch, graph, pullbacks


class _Linear(threading.local):
    def __init__(self) -> None:
        self.levels: frozenset[tuple[int, Any]] = frozenset()


_linear = _Linear()


def is_linear(level: int) -> bool:
    """Tell whether what depends on the tensors of this functorch level is linear in them."""
    return bool(_linear.levels) and (level, graph.current_trace()) in _linear.levels


@contextmanager
def linear_at(level: int) -> Iterator[None]:
    """Within this context manager, what depends on the tensors of this functorch level is linear in them."""
    before, _linear.levels = _linear.levels, _linear.levels | {(level, graph.current_trace())}
    try:
        yield
    finally:
        _linear.levels = before


def linearized(
    rule: Callable[[list[Tensor | None]], tuple[Sequence[Tensor], Sequence[Tensor | None]]], active: Sequence[int],
    primals: Sequence[Tensor],
) -> tuple[list[Tensor], list[bool], Callable[[Sequence[Tensor | None]], list[Tensor | None]]]:  # fmt: skip
    """Return what `rule` gives besides tangents, which tangents depend on its own, and its transpose.

    `rule` is called once, with tangents for the `active` ones of `primals`, and None, which is zero, for the others. The
    transpose maps cotangents of the results to those of the primals. Raises `UnexpectedTracerError` where what comes
    besides is differentiated, too.
    """

    def linear(*directions: Tensor) -> tuple[Sequence[Tensor | None], Sequence[Tensor]]:
        given = dict(zip(active, directions, strict=True))
        level = axes.current_level()
        with linear_at(level):
            others, found = rule([given.get(i) for i in range(len(primals))])
        for other in others:
            if other.requires_grad and functorch.maybe_get_level(other) == level:
                raise errors.tracer_error(errors.UnexpectedTracerError, tuple(other.shape))
        smooth[:] = [t is not None and t.requires_grad for t in found]
        return found, others

    def transpose(cotangents: Sequence[Tensor | None]) -> list[Tensor | None]:
        found = dict(zip(active, pull(cotangents), strict=True))
        return [found.get(i) for i in range(len(primals))]

    smooth: list[bool] = []
    _, pull, others = pullbacks.vjp(linear, [torch.zeros_like(primals[i]) for i in active])
    return others, smooth, transpose
