"""Drawing for many keys at once, each lane by itself: what rejection samplers do in every round.

Functions on plain tensors: keys are (lanes, words of a key). A generator whose batched form draws all lanes from one
stream (rbg) goes through them one by one.

A sampler with one element per lane writes its rounds as functions of `Draws`, and `run` makes one kernel of a round
where the generator is threefry.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from .._compile.kernels import FEW_BLOCKS, Kernel
from .._compile.lowering import is_lowering
from .._tensors.ciphers import Rounds
from . import threefry
from .draws import PAIRS, Draw, Sampler, bits_at, raw_bits
from .generators import PRNGImpl


def split(impl: PRNGImpl, keys: Tensor, count: int) -> list[Tensor]:
    """Return `count` new keys per lane: a list of (lanes, words)."""
    return list(spread(impl, keys, count).unbind(1))


def spread(impl: PRNGImpl, keys: Tensor, count: int, part: slice | None = None, grid: Tensor | None = None) -> Tensor:
    """Return `count` new keys per lane, or a part of them, of all or of those in a box: (lanes, count, words)."""
    if not are_together(impl):
        made = _one_by_one(lambda k: impl.split(k, (count,)), keys)
        return made if part is None else made[:, part]
    words = keys.view(torch.int32).unsqueeze(1)
    if part is None:
        (pairs,) = Draw(PAIRS, count)(words)
    else:
        start = torch.full((1,), part.start, dtype=torch.int64, device=keys.device)
        place = start if grid is None else torch.cat([grid[:1] + start, grid[1:]])
        (pairs,) = Draw(PAIRS, part.stop - part.start, count)(words, place)
    return pairs.view(torch.uint32).reshape(*pairs.shape, 2)


_LANES = 1 << 16  # of one block: what a sampler holds for them stays in cache


def blocks(lanes: int, count: int) -> Iterator[tuple[slice, slice]]:
    """Return the blocks (rows, columns) in which to go through an array (lanes, count)."""
    for first in range(0, lanes, max(1, _LANES // count)):
        rows = slice(first, min(lanes, first + max(1, _LANES // count)))
        for start in range(0, count, _LANES):
            yield rows, slice(start, min(count, start + _LANES))


def drawn(impl: PRNGImpl, sampler: Sampler, keys: Sequence[Tensor], count: int, *parameters: Tensor) -> list[Tensor]:
    """Return all results of a sampler that takes `keys` and parameters (lanes, count): each (lanes, count)."""
    if are_together(impl):
        return Draw(sampler, count)(torch.stack([k.view(torch.int32) for k in keys], 1), *parameters)
    bits = [_one_by_one(lambda k, b=b: raw_bits(b, impl, k, (count,)), keys[b.key]) for b in sampler.bits]
    return sampler.results(*(part for found in bits for part in found.unbind(1)), *parameters)


Words = Sequence[Tensor]  # the keys of lanes, word by word: int32 columns


def words_of(keys: Tensor) -> Words:
    """Return the words of keys."""
    return keys.view(torch.int32).unbind(1)


class Draws:
    """What a round may do with the keys of its lanes."""

    def __init__(self, impl: PRNGImpl) -> None:
        self._impl = impl

    def split(self, keys: Words, count: int) -> list[Words]:
        """Return `count` new keys per lane."""
        return [words_of(k) for k in split(self._impl, torch.stack(tuple(keys), 1).view(torch.uint32), count)]

    def sample(self, sampler: Sampler, keys: Words) -> Tensor:
        """Return one sample per lane."""
        return drawn(self._impl, sampler, [torch.stack(tuple(keys), 1).view(torch.uint32)], 1)[0][:, 0]


class _ThreefryDraws(Draws):
    """Draws written out, for kernels."""

    def __init__(self) -> None:
        pass

    def split(self, keys: Words, count: int) -> list[Words]:
        zero, rounds = torch.zeros_like(keys[0]), _rounds()
        return [rounds(keys[0], keys[1], zero, zero + i) for i in range(count)]

    def sample(self, sampler: Sampler, keys: Words) -> Tensor:
        counters = torch.zeros_like(keys[0], dtype=torch.int64)
        return sampler.results(*bits_at(sampler, [(keys[0], keys[1])], counters, counters, _rounds()))[0]


def _rounds() -> Rounds:
    # In a graph that is being lowered a cipher is one instruction, where its target has that.
    return threefry.ciphered if is_lowering() else threefry.cipher


Round = Callable[..., tuple[list[Words], list[Tensor]]]


def run(impl: PRNGImpl, function: Round, keys: Words, *rows: Tensor) -> tuple[list[Words], list[Tensor]]:
    """Return what `function(draws, keys, *rows)` makes of the lanes: a list of keys, and a list of other results."""
    if not are_together(impl):
        return function(Draws(impl), keys, *rows)
    kernel, made = _round_kernel(function)
    found = kernel(keys[0].shape[0], *keys, *rows)
    count = made[0]
    return [found[2 * i : 2 * i + 2] for i in range(count)], found[2 * count :]


@functools.cache
def _round_kernel(function: Round) -> tuple[Kernel, list[int]]:
    made = [0]  # how many keys the function returns: known once it was traced

    def flat(_: Tensor, first: Tensor, second: Tensor, *rows: Tensor) -> list[Tensor]:
        keys, results = function(_ThreefryDraws(), (first, second), *rows)
        made[0] = len(keys)
        return [*(word for key in keys for word in key), *results]

    return Kernel(flat, shared=0, blocks=FEW_BLOCKS), made


def are_together(impl: Any) -> bool:
    """Tell whether the lanes of a generator draw together, each by its own key."""
    return impl.name == "threefry2x32" and threefry.partitionable()


def _one_by_one(function: Callable[[Tensor], Tensor], keys: Tensor) -> Tensor:
    return torch.stack([function(k) for k in keys.unbind(0)])
