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

from . import axes, graph


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


def pulled_back(
    rule: Callable[[list[Tensor | None]], Sequence[Tensor | None]], active: Sequence[int], primals: Sequence[Tensor],
    results: Sequence[Tensor], cotangents: Sequence[Tensor | None],
) -> list[Tensor | None]:  # fmt: skip
    """Return the cotangents of the `active` ones of `primals`, None for the others.

    `rule` maps tangents of the primals to those of the results; a tangent of None is zero.
    """
    reached: list[bool] = []

    def linear(*directions: Tensor) -> tuple[Tensor, ...]:
        given = dict(zip(active, directions, strict=True))
        with linear_at(axes.current_level()):
            found = rule([given.get(i) for i in range(len(primals))])
        # A cotangent that is zero is not gone back from: rules may refuse others.
        reached[:] = [t is not None and c is not None for t, c in zip(found, cotangents, strict=True)]
        hits = tuple(t for t, hit in zip(found, reached, strict=True) if hit)
        return hits or directions  # pyright: ignore[reportReturnType]  # torch differentiates no functions without results

    _, transpose, *_ = torch.func.vjp(linear, *(torch.zeros_like(primals[i]) for i in active))
    seeds = tuple(c for c, hit in zip(cotangents, reached, strict=True) if hit)
    found = dict(zip(active, transpose(seeds), strict=True)) if seeds else {}
    return [found.get(i) for i in range(len(primals))]
