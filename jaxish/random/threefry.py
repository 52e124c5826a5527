"""threefry2x32: the counter-based generator behind `jax.random`, equal to JAX's bit for bit.

Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011), 20 rounds. Words are 32 bits;
they are held in int32 tensors, whose additions wrap around and whose bits are what counts. Bits are laid out as JAX's
partitionable layout has it: element i of an array is the cipher of the 64-bit counter i, whatever the array's shape.

The cipher is one structured primitive, so that the 110 operations of its rounds do not end up in every graph that
draws a number. It runs in blocks that stay in cache, by kernels of a few fixed sizes that are compiled once.
"""

import functools
from collections.abc import Sequence

import torch
from torch import Tensor

from .._backends import executable, structured
from .._core import config, graph
from .._core.graph import Graph, TensorType
from .._core.primitive import Dims, Primitive

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_BLOCKS = (64, 4096, 65536)  # counters per kernel call: small draws, L1, L2


def cipher(k0: Tensor, k1: Tensor, x0: Tensor, x1: Tensor) -> tuple[Tensor, Tensor]:
    """Return the two output words for key words and counter words (int32 tensors that broadcast together)."""
    keys = (k0, k1, k0 ^ k1 ^ _PARITY)
    x0, x1 = x0 + keys[0], x1 + keys[1]
    for injection in range(1, 6):
        for distance in _ROTATIONS[(injection - 1) % 2]:
            x0 = x0 + x1
            x1 = ((x1 << distance) | ((x1 >> (32 - distance)) & ((1 << distance) - 1))) ^ x0
        x0, x1 = x0 + keys[injection % 3], x1 + keys[(injection + 1) % 3] + injection
    return x0, x1


@functools.cache
def _kernel(block: int, device: torch.device, state: int) -> Graph:
    """Return the graph (key words, first counter) -> both words for `block` counters in a row."""

    def run(key: Tensor, first: Tensor) -> list[Tensor]:
        counters = first + torch.arange(block, device=device)
        return list(cipher(key[0], key[1], (counters >> 32).to(torch.int32), counters.to(torch.int32)))

    types = [TensorType((2,), torch.int32, device), TensorType((), torch.int64, device)]
    return graph.trace(run, types).graph


def _words(key: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return both words for the counters 0 to `count` of one key."""
    block = next((b for b in _BLOCKS if count <= b), _BLOCKS[-1])
    kernel = executable.of(_kernel(block, key.device, config.state()))
    words = [torch.empty(count, dtype=torch.int32, device=key.device) for _ in range(2)]
    for first in range(0, count, block):
        start = torch.full((), first, dtype=torch.int64, device=key.device)
        parts = kernel.run(key, start)
        stop = min(first + block, count)
        for word, part in zip(words, parts, strict=True):
            word[first:stop] = part[: stop - first]
    return words[0], words[1]


class ThreefryWords(Primitive):
    """Both words for the counters 0 to `count` of a key, or of each of an array of keys: (..., 2) -> two (..., count)."""

    __name__ = "threefry2x32"

    def __init__(self, count: int) -> None:
        self.count = count

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        (key,) = inputs
        return [TensorType((*key.shape[:-1], self.count), torch.int32, key.device)] * 2

    def run(self, *inputs: Tensor) -> list[Tensor]:
        (key,) = inputs
        if key.dim() == 1:
            return list(_words(key, self.count))
        counters = torch.arange(self.count, device=key.device)
        words = cipher(key[..., :1], key[..., 1:], (counters >> 32).to(torch.int32), counters.to(torch.int32))
        return [w.contiguous() for w in words]

    def lower(self, *inputs: Tensor) -> list[Tensor]:
        return structured.call(self, f"threefry2x32:{self.count}", inputs)

    def vmap(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        return self(inputs[0].movedim(dims[0], 0)), [0, 0]  # pyright: ignore


def words(key: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return both words (int32) for the counters 0 to `count` of a uint32 key."""
    first, second = ThreefryWords(count)(key.view(torch.int32))
    return first, second


def seed(value: Tensor) -> Tensor:
    """Return the key of an integer seed: its upper and lower 32 bits."""
    wide = value.to(torch.int64) if value.dtype not in (torch.uint64, torch.uint32) else _unsigned_bits(value)
    upper = wide >> 32 if value.dtype in (torch.int64, torch.uint64) else torch.zeros_like(wide)
    return torch.stack([upper, wide]).to(torch.int32).view(torch.uint32)


def _unsigned_bits(value: Tensor) -> Tensor:
    return value.view(torch.int64) if value.dtype is torch.uint64 else value.view(torch.int32).to(torch.int64)


def split(key: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return an array of new keys of this shape."""
    count = torch.Size(shape).numel()
    first, second = words(key, count)
    return torch.stack([first, second], -1).reshape((*shape, 2)).view(torch.uint32)


def fold_in(key: Tensor, data: Tensor) -> Tensor:
    """Return a new key that depends on the key and on the 32-bit integer `data`."""
    k, x = key.view(torch.int32), seed(data).view(torch.int32)
    return torch.stack(cipher(k[0], k[1], x[0], x[1])).view(torch.uint32)


def random_bits(key: Tensor, bit_width: int, shape: tuple[int, ...]) -> Tensor:
    """Return uniform bits as an unsigned tensor of this shape, 8, 16, 32 or 64 bits wide."""
    first, second = words(key, torch.Size(shape).numel())
    if bit_width == 64:
        wide = (first.to(torch.int64) << 32) | (second.to(torch.int64) & 0xFFFFFFFF)
        return wide.reshape(shape).view(torch.uint64)
    bits = (first ^ second).reshape(shape)
    if bit_width == 32:
        return bits.view(torch.uint32)
    return bits.to(torch.int16).view(torch.uint16) if bit_width == 16 else bits.to(torch.uint8)
