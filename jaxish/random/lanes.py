"""Drawing for many keys at once, each lane by itself: what rejection samplers do in every round.

Functions on plain tensors: keys are (lanes, words of a key). A generator whose batched form draws all lanes from one
stream (rbg) goes through them one by one.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from . import threefry
from .draws import WORDS, Draw, Sampler, draw
from .generators import PRNGImpl


def split(impl: PRNGImpl, keys: Tensor, count: int) -> list[Tensor]:
    """Return `count` new keys per lane: a list of (lanes, words)."""
    return list(spread(impl, keys, count).unbind(1))


def spread(impl: PRNGImpl, keys: Tensor, count: int) -> Tensor:
    """Return `count` new keys per lane: (lanes, count, words)."""
    if _together(impl):
        words = Draw(WORDS, count)(keys.view(torch.int32).unsqueeze(1))
        return torch.stack(words, -1).view(torch.uint32)
    return _one_by_one(lambda k: impl.split(k, (count,)), keys)


def samples(impl: PRNGImpl, sampler: Sampler, keys: Tensor, count: int) -> Tensor:
    """Return `count` samples per lane: (lanes, count)."""
    if _together(impl):
        return Draw(sampler, count)(keys.view(torch.int32).unsqueeze(1))[0]
    return _one_by_one(lambda k: draw(sampler, impl, k, (count,)), keys)


def _together(impl: Any) -> bool:
    return impl.name == "threefry2x32" and threefry.partitionable()


def _one_by_one(function: Callable[[Tensor], Tensor], keys: Tensor) -> Tensor:
    return torch.stack([function(k) for k in keys.unbind(0)])
