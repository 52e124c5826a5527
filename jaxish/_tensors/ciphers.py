"""Ciphers of counters: generators that make bits of a key and a position, by rounds that mix words of 32 bits.

Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011). Words are held in int32 tensors,
whose additions and products wrap around and whose bits are what counts.

A cipher is one structured primitive, so that its hundred operations do not end up in every graph that draws a number.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .._compile.kernels import FEW_BLOCKS, Kernel
from .._compile.structured import Opaque
from .._core.dimensions import broadcast_shape
from .._core.graph import TensorType
from .._core.primitive import Dims, batches_aligned

_MASK = 0xFFFFFFFF

Words = Sequence[Tensor]
Rounds = Callable[..., Words]


class Cipher(Opaque):
    """The rounds of a cipher on int32 tensors (words of the key, then of the counter) that broadcast together."""

    rules = ("_rows",)

    def __init__(self, name: str, rounds: Rounds, results: int) -> None:
        self.__name__ = name
        self.results = results
        self._rows = Kernel(lambda positions, *words: list(rounds(*words)), shared=0, blocks=FEW_BLOCKS)

    def equation(self) -> tuple[str, dict[str, Any]] | None:
        return (self.__name__, {}) if self.__name__ == "threefry2x32" else None

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        shape = broadcast_shape(*(t.shape for t in inputs))
        return [TensorType(tuple(shape), torch.int32, inputs[0].device)] * self.results

    def run(self, *inputs: Tensor) -> list[Tensor]:
        rows = torch.broadcast_tensors(*inputs)
        shape = rows[0].shape
        return [word.reshape(shape) for word in self._rows(shape.numel(), *(r.reshape(-1) for r in rows))]

    def vmap(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        return self(*batches_aligned(inputs, dims)), [0] * self.results


def rotated(x: Tensor, distance: int) -> Tensor:
    """Return words with their bits rotated to the left."""
    return (x << distance) | ((x >> (32 - distance)) & ((1 << distance) - 1))


def _signed(word: int) -> int:
    """Return the int32 with the bits of an unsigned word."""
    return word - (1 << 32) if word >> 31 else word


def _products(x: Tensor, multiplier: int) -> tuple[Tensor, Tensor]:
    """Return the upper and the lower word of unsigned products."""
    wide = (x.to(torch.int64) & _MASK) * multiplier
    return (wide >> 32).to(torch.int32), wide.to(torch.int32)


_WEYL = (0x9E3779B9, 0xBB67AE85)  # what is added to the words of Philox's key after each round


def philox_2x32(key: Tensor, x0: Tensor, x1: Tensor) -> Words:
    """Return the two words of Philox, of a key of one word, after 10 rounds."""
    for _ in range(10):
        high, low = _products(x0, 0xD256D193)
        x0, x1 = high ^ x1 ^ key, low
        key = key + _signed(_WEYL[0])
    return x0, x1


def philox_4x32(k0: Tensor, k1: Tensor, x0: Tensor, x1: Tensor, x2: Tensor, x3: Tensor) -> Words:
    """Return the four words of Philox, of a key of two words, after 10 rounds."""
    # Words stay 64 bits wide from round to round: that takes two thirds of the time.
    k0, k1, x0, x1, x2, x3 = (w.to(torch.int64) & _MASK for w in (k0, k1, x0, x1, x2, x3))
    for _ in range(10):
        first, second = x0 * 0xD2511F53, x2 * 0xCD9E8D57
        x0, x1, x2, x3 = (
            ((second >> 32) & _MASK) ^ x1 ^ k0,
            second & _MASK,
            ((first >> 32) & _MASK) ^ x3 ^ k1,
            first & _MASK,
        )
        k0, k1 = (k0 + _WEYL[0]) & _MASK, (k1 + _WEYL[1]) & _MASK
    return [w.to(torch.int32) for w in (x0, x1, x2, x3)]


_PARITY = 0x1BD11BDA
_ROTATIONS_OF_TWO = ((13, 15, 26, 6), (17, 29, 16, 24))


def threefry_2x32(k0: Tensor, k1: Tensor, x0: Tensor, x1: Tensor) -> tuple[Tensor, Tensor]:
    """Return the two words of Threefry, of a key of two words, after 20 rounds."""
    keys = (k0, k1, k0 ^ k1 ^ _PARITY)
    x0, x1 = x0 + keys[0], x1 + keys[1]
    for injection in range(1, 6):
        for distance in _ROTATIONS_OF_TWO[(injection - 1) % 2]:
            x0 = x0 + x1
            x1 = rotated(x1, distance) ^ x0
        x0, x1 = x0 + keys[injection % 3], x1 + keys[(injection + 1) % 3] + injection
    return x0, x1


_ROTATIONS = ((10, 26), (11, 21), (13, 27), (23, 5), (6, 20), (17, 11), (25, 10), (18, 20))


def threefry_4x32(*words: Tensor) -> Words:
    """Return the four words of Threefry, of a key of four words, after 20 rounds."""
    key, x = list(words[:4]), list(words[4:])
    key.append(key[0] ^ key[1] ^ key[2] ^ key[3] ^ _PARITY)
    x = [word + k for word, k in zip(x, key, strict=False)]
    for turn in range(20):
        for target, source, distance in zip(
            (0, 2), ((1, 3) if turn % 2 == 0 else (3, 1)), _ROTATIONS[turn % 8], strict=True
        ):
            x[target] = x[target] + x[source]
            x[source] = rotated(x[source], distance) ^ x[target]
        if turn % 4 == 3:
            injection = turn // 4 + 1
            x = [word + key[(injection + i) % 5] for i, word in enumerate(x)]
            x[3] = x[3] + injection
    return x
