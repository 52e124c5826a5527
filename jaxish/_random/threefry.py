"""threefry2x32: the counter-based generator behind `jax.random`, equal to JAX's bit for bit.

Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011), 20 rounds. Words are 32 bits;
they are held in int32 tensors, whose additions wrap around and whose bits are what counts. In the partitionable layout
element i of an array is the cipher of the 64-bit counter i, whatever the array's shape; in the other one (the flag
`jax_threefry_partitionable` off) the words of half the counters come before those of the other half.
"""

import torch
from torch import Tensor

from .._core import config
from .._tensors.ciphers import Cipher, Rounds, Words
from .._tensors.ciphers import threefry_2x32 as cipher

ciphered = Cipher("threefry2x32", cipher, 2)
ciphered.is_instruction = True


def at_counters(k0: Tensor, k1: Tensor, counters: Tensor, rounds: Rounds = cipher) -> Words:
    """Return the two output words for 64-bit counters."""
    return rounds(k0, k1, (counters >> 32).to(torch.int32), counters.to(torch.int32))


def threefry_2x32(key: Tensor, counts: Tensor) -> Tensor:
    """Return the words for 32-bit counts: the first half of the counts goes with the second half. uint32 tensors."""
    k, flat = key.view(torch.int32), counts.reshape(-1).view(torch.int32)
    odd = flat.shape[0] % 2
    if odd:
        flat = torch.cat([flat, torch.zeros_like(flat[:1])])
    words = torch.cat(ciphered(k[0], k[1], *flat.chunk(2))) if flat.shape[0] else flat
    return (words[:-1] if odd else words).reshape(counts.shape).view(torch.uint32)


def counts(count: int, device: torch.device) -> Tensor:
    """Return the uint32 numbers from 0 to `count`."""
    return torch.arange(count, dtype=torch.int32, device=device).view(torch.uint32)


def seed(value: Tensor) -> Tensor:
    """Return the key of an integer seed: its upper and lower 32 bits."""
    wide = value.to(torch.int64) if value.dtype not in (torch.uint64, torch.uint32) else _unsigned_bits(value)
    upper = wide >> 32 if value.dtype in (torch.int64, torch.uint64) else torch.zeros_like(wide)
    return torch.stack([upper, wide]).to(torch.int32).view(torch.uint32)


def _unsigned_bits(value: Tensor) -> Tensor:
    return value.view(torch.int64) if value.dtype is torch.uint64 else value.view(torch.int32).to(torch.int64)


def partitionable() -> bool:
    """Tell whether the partitionable layout is in force."""
    return config.threefry_partitionable.value


def joined(high: Tensor, low: Tensor) -> Tensor:
    """Return 64-bit integers made of two words."""
    return (high.to(torch.int64) << 32) | (low.to(torch.int64) & 0xFFFFFFFF)


def narrowed(words: Tensor, bit_width: int) -> Tensor:
    """Return the lowest 8 (as uint8) or 16 (as int16) bits of words."""
    return (words & 0xFF).to(torch.uint8) if bit_width == 8 else words.to(torch.int16)
