"""The generator behind XLA's RngBitGenerator on the CPU: Philox 4x32 with 10 rounds.

Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011). Words are 32 bits and held in
int32 tensors; the products of the rounds are 64 bits wide.
"""

import enum
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._compile.kernels import Kernel
from .._compile.structured import Opaque
from .._core import dtypes
from .._core.array import Array, as_array, tensor_of
from .._core.graph import TensorType
from .._core.operations import shown_as
from .._core.primitive import Dims

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_MASK = 0xFFFFFFFF


class RandomAlgorithm(enum.IntEnum):
    """Which generator `rng_bit_generator` uses; here the default is Philox."""

    RNG_DEFAULT = 0
    RNG_THREE_FRY = 1
    RNG_PHILOX = 2

    def __str__(self) -> str:
        return self.name


def _philox(positions: Tensor, state: Tensor) -> list[Tensor]:
    """Return the four words at each position after the counter in `state` (key and upper counter half, lower half)."""
    key = [state[0].to(torch.int64) & _MASK, state[1].to(torch.int64) & _MASK]
    low, high, carry = _advanced(state, positions)
    upper = (key[0] | (key[1] << 32)) + carry
    words = [low, high, upper & _MASK, (upper >> 32) & _MASK]
    for _ in range(10):
        first, second = words[0] * _MULTIPLIERS[0], words[2] * _MULTIPLIERS[1]
        words = [
            ((second >> 32) & _MASK) ^ words[1] ^ key[0],
            second & _MASK,
            ((first >> 32) & _MASK) ^ words[3] ^ key[1],
            first & _MASK,
        ]
        key = [(k + w) & _MASK for k, w in zip(key, _WEYL, strict=True)]
    return [w.to(torch.int32) for w in words]


def _advanced(state: Tensor, steps: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the words of the lower counter half, `steps` later, and what they carry over."""
    low = (state[2].to(torch.int64) & _MASK) + steps
    high = (state[3].to(torch.int64) & _MASK) + (low >> 32)
    return low & _MASK, high & _MASK, high >> 32


_KERNEL = Kernel(_philox, shared=1)


class _Words(Opaque):
    """`count` words from a state of four (int32), and the state after them.

    As in JAX, a batch of states draws all its words from the first one.
    """

    __name__ = "philox4x32"

    def __init__(self, count: int) -> None:
        self.count = count

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        device = inputs[0].device
        return [TensorType((self.count,), torch.int32, device), TensorType((4,), torch.int32, device)]

    def run(self, *inputs: Tensor) -> list[Tensor]:
        (state,) = inputs
        blocks = -(-self.count // 4)
        words = torch.stack(_KERNEL(blocks, state), -1).reshape(-1)[: self.count]
        low, high, _ = _advanced(state, torch.full((), blocks, dtype=torch.int64, device=state.device))
        return [words, torch.cat([state[:2], torch.stack([low, high]).to(torch.int32)])]

    def vmap(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        states = inputs[0].movedim(dims[0], 0)  # pyright: ignore
        words, after = _Words(size * self.count)(states[0])
        return [words.reshape(size, self.count), torch.cat([after.unsqueeze(0), states[1:]])], [0, 0]


_UNSIGNED = {8: torch.uint8, 16: torch.uint16, 32: torch.uint32, 64: torch.uint64}


def random_bits(state: Tensor, bit_width: int, shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Return the state after, and unsigned bits of this shape, for a uint32 state of four words."""
    size = math.prod(shape)
    words, after = _Words(2 * size if bit_width == 64 else size)(state.view(torch.int32))
    if bit_width == 64:
        pairs = words.reshape(size, 2).to(torch.int64)
        bits = (pairs[:, 1] << 32) | (pairs[:, 0] & _MASK)
    elif bit_width == 8:
        bits = (words & 0xFF).to(torch.uint8)
    else:
        bits = words.to(torch.int16) if bit_width == 16 else words
    return after.view(torch.uint32), bits.view(_UNSIGNED[bit_width]).reshape(shape)


def rng_bit_generator(
    key: Any,
    shape: Any,
    dtype: Any = np.uint32,
    algorithm: Any = RandomAlgorithm.RNG_DEFAULT,
    *,
    out_sharding: Any = None,
) -> tuple[Array, Array]:
    """Return the state after and unsigned bits of this shape, for a state of four uint32 or two uint64 words.

    Raises `TypeError` for other dtypes, `NotImplementedError` for an algorithm other than Philox.
    """
    if out_sharding is not None:
        raise NotImplementedError("rng_bit_generator(out_sharding=...) is not supported in this version; leave it out.")
    if algorithm not in (RandomAlgorithm.RNG_DEFAULT, RandomAlgorithm.RNG_PHILOX):
        raise NotImplementedError("rng_bit_generator supports RNG_DEFAULT and RNG_PHILOX only; use one of them.")
    found = dtypes.canonicalize_dtype(dtype)
    if found not in (np.uint8, np.uint16, np.uint32, np.uint64):
        raise TypeError(f"rng_bit_generator: unsupported dtype {found}")
    tensor = tensor_of(as_array(key))
    if (tuple(tensor.shape), tensor.dtype) not in (((4,), torch.uint32), ((2,), torch.uint64)):
        raise TypeError(
            f"rng_bit_generator requires a key of 4 uint32 or 2 uint64 words, got {as_array(key).dtype}{list(tensor.shape)}."
        )
    after, bits = _generated(tensor, tuple(shape), found, RandomAlgorithm(algorithm))
    return Array(after), Array(bits)


@shown_as(
    "rng_bit_generator",
    lambda key, shape, dtype, algorithm: {
        "shape": shape, "dtype": dtype, "algorithm": algorithm, "out_sharding": None
    },
)  # fmt: skip
def _generated(key: Tensor, shape: tuple[int, ...], dtype: np.dtype, _: RandomAlgorithm) -> list[Tensor]:
    after, bits = random_bits(key.view(torch.uint32), dtypes.itemsize_bits(dtype), shape)
    return [after.view(key.dtype), bits]


def rng_uniform(a: Any, b: Any, shape: Any) -> Array:
    """Raise `NotImplementedError`: the generator behind it keeps hidden state."""
    raise NotImplementedError("rng_uniform keeps hidden state; use jax.random.uniform(key, shape, minval=a, maxval=b).")
