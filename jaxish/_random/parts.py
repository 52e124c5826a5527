"""Large draws of which little is kept, part after part: the noise of a million choices need not exist at one time."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .._compile.structured import Opaque
from .._core.boxes import Box
from .._core.graph import TensorType
from .._core.primitive import Dims, Undifferentiated, batch_front
from .._core.target import Target
from . import threefry
from .draws import Sampler, draw, part_from_threefry

_ELEMENTS = 1 << 18  # of noise at one time


def highest(
    sampler: Sampler, impl: Any, keys: Tensor, shape: tuple[int, ...], scores: Tensor, dim: int, dtype: torch.dtype
) -> Tensor:
    """Return where `samples of shape + scores` is greatest along `dim`, which is not the leading one."""
    made = _Highest(sampler, shape, dim, dtype)
    if shape[0] <= 2 * made.rows or impl.name != "threefry2x32" or not threefry.partitionable():
        return made.of_noise(draw(sampler, impl, keys, shape), scores)
    return made(keys.view(torch.int32), scores)[0]


class _Highest(Undifferentiated, Opaque):
    """Positions of the greatest of threefry's samples + scores, for words (*batch, 2) and scores (*batch, ...).

    The samples have this shape; with `total`, they are those from `first` on, along the leading axis, of so many.
    """

    __name__ = "highest"

    def __init__(
        self, sampler: Sampler, shape: tuple[int, ...], dim: int, dtype: torch.dtype, first: int = 0,
        total: int | None = None,
    ) -> None:  # fmt: skip
        self.sampler, self.shape, self.dim, self.dtype = sampler, tuple(shape), dim, dtype
        self.first, self.total = first, total

    @property
    def rows(self) -> int:
        """How many slices along the leading axis make a part."""
        return max(1, _ELEMENTS // max(1, math.prod(self.shape[1:])))

    def of_noise(self, samples: Tensor, scores: Tensor) -> Tensor:
        """Return the positions for some samples (*batch, ...)."""
        return torch.argmax(samples + scores, self.dim - len(self.shape)).to(self.dtype)

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        kept = (*self.shape[: self.dim], *self.shape[self.dim + 1 :])
        return [TensorType((*inputs[0].shape[:-1], *kept), self.dtype, inputs[0].device)]

    def run(self, *inputs: Tensor) -> list[Tensor]:
        keys, scores = inputs
        batch = keys.dim() - 1
        (type,) = self.out_types(*inputs)
        found = torch.empty(type.shape, dtype=type.dtype, device=type.device)
        lanes = keys.reshape(-1, 2), scores.reshape(-1, *scores.shape[batch:]), found.view(-1, *type.shape[batch:])
        for key, own, kept in zip(*lanes, strict=True):
            self._fill(kept, key, own)
        return [found]

    def spelled_out(self, target: Target, *inputs: Tensor) -> list[Tensor]:
        keys, scores = inputs
        each = math.prod(self.shape[1:])
        start = torch.full((1,), self.first * each, dtype=torch.int64, device=keys.device)
        (samples,) = part_from_threefry(
            self.sampler, keys, start, math.prod(self.shape), (self.total or self.shape[0]) * each
        )
        return [self.of_noise(samples.reshape(*keys.shape[:-1], *self.shape), scores)]

    def _fill(self, kept: Tensor, key: Tensor, scores: Tensor) -> None:
        count, *inner = self.shape
        rows, each = self.rows, math.prod(inner)
        for first in range(0, count, rows):
            start = torch.full((1,), (self.first + first) * each, dtype=torch.int64, device=key.device)
            (samples,) = part_from_threefry(self.sampler, key, start, rows * each, (self.total or count) * each)
            part = kept[first : first + rows]
            part.copy_(self.of_noise(samples.reshape(rows, *inner), scores)[: len(part)])

    def part(self, index: int, box: Box, types: Sequence[TensorType]) -> Any:
        if len(types[0].shape) > 1 or self.total is not None or box.shape[:1] != self.shape[:1]:
            return None
        (_, first, count), *others = box.dims
        made = _Highest(self.sampler, (count, *self.shape[1:]), self.dim, self.dtype, first, self.shape[0])
        rest = Box.made_of([(count, 0, count), *others])
        return [None, None], lambda keys, scores: rest.cut(made(keys, scores)[0])

    def vmap(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        return self(*(batch_front(t, d, size) for t, d in zip(inputs, dims, strict=True))), [0]
