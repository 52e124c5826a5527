"""Random bits of a state: the generators behind XLA's RngBitGenerator on the CPU, Philox 4x32 and Threefry 2x32.

Words are 32 bits and held in int32 tensors. A state is a key of 64 bits and a counter of 64 bits.
"""

import enum
import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._compile.kernels import Kernel
from .._compile.structured import Opaque
from .._core import dtypes
from .._core.array import Array, as_array, from_kind, tensor_of
from .._core.graph import TensorType
from .._core.operations import shown_as
from .._core.primitive import Dims
from .._tensors.ciphers import philox_4x32, threefry_2x32
from .._transforms.callbacks import IOCallback
from .out_sharding import laid_over

_MASK = 0xFFFFFFFF


class RandomAlgorithm(enum.IntEnum):
    """Which generator `rng_bit_generator` uses; here the default is Philox."""

    RNG_DEFAULT = 0
    RNG_THREE_FRY = 1
    RNG_PHILOX = 2

    def __str__(self) -> str:
        return self.name


def _advanced(state: Tensor, steps: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the words of the counter, `steps` later, and what they carry over."""
    low = (state[2].to(torch.int64) & _MASK) + steps
    high = (state[3].to(torch.int64) & _MASK) + (low >> 32)
    return low.to(torch.int32), high.to(torch.int32), high >> 32


def _philox(positions: Tensor, state: Tensor) -> Sequence[Tensor]:
    """Return the four words at each position after the counter; its upper half, of 64 bits, starts as the key."""
    low, high, carry = _advanced(state, positions)
    upper = (state[0].to(torch.int64) & _MASK) + (state[1].to(torch.int64) << 32) + carry
    return philox_4x32(state[0], state[1], low, high, upper.to(torch.int32), (upper >> 32).to(torch.int32))


def _threefry(positions: Tensor, state: Tensor) -> Sequence[Tensor]:
    """Return the two words at each position after the counter."""
    return threefry_2x32(state[0], state[1], *_advanced(state, positions)[:2])


_KERNELS = {
    RandomAlgorithm.RNG_PHILOX: (Kernel(_philox, shared=1), 4),
    RandomAlgorithm.RNG_THREE_FRY: (Kernel(_threefry, shared=1), 2),
}


def _halved(shape: tuple[int, ...]) -> int:
    """Return the dimension along which the two words of a counter lie: the first of even size, else the longest."""
    return next((i for i, size in enumerate(shape) if size % 2 == 0), shape.index(max(shape)))


class _Bits(Opaque):
    """Bits of this shape from a state (int32), as words of 32 or 64 bits, and the state after them.

    As in JAX, a batch of states draws all its bits from the first one.
    """

    __name__ = "rng_bits"

    def __init__(self, algorithm: RandomAlgorithm, shape: tuple[int, ...], wide: bool) -> None:
        self.algorithm, self.shape, self.wide = algorithm, shape, wide

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        device = inputs[0].device
        dtype = torch.int64 if self.wide else torch.int32
        return [TensorType(self.shape, dtype, device), TensorType((4,), torch.int32, device)]

    def run(self, *inputs: Tensor) -> list[Tensor]:
        (state,) = inputs
        is_paired = self.algorithm == RandomAlgorithm.RNG_THREE_FRY and not self.wide
        bits, steps = (self._paired if is_paired else self._in_a_row)(state)
        low, high, _ = _advanced(state, torch.full((), steps, dtype=torch.int64, device=state.device))
        return [bits, torch.cat([state[:2], torch.stack([low, high])])]

    def _in_a_row(self, state: Tensor) -> tuple[Tensor, int]:
        kernel, words = _KERNELS[self.algorithm]
        size = math.prod(self.shape)
        steps = -(-size * (1 + self.wide) // words)
        bits = torch.stack(list(kernel(steps, state)), -1).reshape(-1)
        if self.wide:
            pairs = bits.reshape(-1, 2).to(torch.int64)
            bits = (pairs[:, 1] << 32) | (pairs[:, 0] & _MASK)
        return bits[:size].reshape(self.shape), steps

    def _paired(self, state: Tensor) -> tuple[Tensor, int]:
        shape = self.shape or (1,)
        dim = _halved(shape)
        half = (*shape[:dim], -(-shape[dim] // 2), *shape[dim + 1 :])
        words = [w.reshape(half) for w in _KERNELS[self.algorithm][0](math.prod(half), state)]
        pairs = torch.stack(words, dim + 1).flatten(dim, dim + 1)
        return pairs.narrow(dim, 0, shape[dim]).reshape(self.shape), math.prod(half)

    def vmap(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        states = inputs[0].movedim(dims[0], 0)  # pyright: ignore
        bits, after = _Bits(self.algorithm, (size, *self.shape), self.wide)(states[0])
        return [bits, torch.cat([after.unsqueeze(0), states[1:]])], [0, 0]


_UNSIGNED = {8: torch.uint8, 16: torch.uint16, 32: torch.uint32, 64: torch.uint64}


def random_bits(
    state: Tensor, bit_width: int, shape: tuple[int, ...], algorithm: RandomAlgorithm = RandomAlgorithm.RNG_PHILOX
) -> tuple[Tensor, Tensor]:
    """Return the state after, and unsigned bits of this shape, for a uint32 state of four words."""
    bits, after = _Bits(algorithm, shape, bit_width == 64)(state.view(torch.int32))
    if bit_width == 8:
        bits = (bits & 0xFF).to(torch.uint8)
    elif bit_width == 16:
        bits = bits.to(torch.int16)
    return after.view(torch.uint32), bits.view(_UNSIGNED[bit_width])


def rng_bit_generator(
    key: Any,
    shape: Any,
    dtype: Any = np.uint32,
    algorithm: Any = RandomAlgorithm.RNG_DEFAULT,
    *,
    out_sharding: Any = None,
) -> tuple[Array, Array]:
    """Return the state after and unsigned bits of this shape, for a state of four uint32 or two uint64 words.

    Philox is the default. Raises `TypeError` for other dtypes, `ValueError` for an unknown algorithm.
    """
    chosen = RandomAlgorithm(algorithm)
    found = dtypes.canonicalize_dtype(dtype)
    if found not in (np.uint8, np.uint16, np.uint32, np.uint64):
        raise TypeError(f"rng_bit_generator: unsupported dtype {found}")
    tensor = tensor_of(as_array(key))
    if (tuple(tensor.shape), tensor.dtype) not in (((4,), torch.uint32), ((2,), torch.uint64)):
        raise TypeError(
            f"rng_bit_generator requires a key of 4 uint32 or 2 uint64 words, got {as_array(key).dtype}{list(tensor.shape)}."
        )
    after, bits = _generated(tensor, tuple(shape), found, chosen)
    return Array(after), laid_over(out_sharding, "rng_bit_generator", Array(bits))


@shown_as(
    "rng_bit_generator",
    lambda key, shape, dtype, algorithm: {
        "shape": shape, "dtype": dtype, "algorithm": algorithm, "out_sharding": None
    },
)  # fmt: skip
def _generated(key: Tensor, shape: tuple[int, ...], dtype: np.dtype, algorithm: RandomAlgorithm) -> list[Tensor]:
    used = algorithm or RandomAlgorithm.RNG_PHILOX
    after, bits = random_bits(key.view(torch.uint32), dtypes.itemsize_bits(dtype), shape, used)
    return [after.view(key.dtype), bits]


@functools.cache
def _hidden_state() -> np.random.Generator:
    return np.random.default_rng(0)  # each process draws the same numbers, as under XLA on the CPU


class _HiddenDraw(IOCallback):
    """Uniform numbers between two scalars, from the generator on the host that all programs share."""

    __name__ = "rng_uniform"

    def __init__(self, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> None:
        super().__init__("rng_uniform", self._drawn, [TensorType(shape, dtype, device)], None)

    def _drawn(self, low: Tensor, high: Tensor) -> list[Tensor]:
        wanted, a, b = self.types[0], low.item(), high.item()
        if wanted.dtype.is_floating_point:
            drawn = _hidden_state().random(wanted.shape) * (b - a) + a
        else:
            dtype = dtypes.TO_NUMPY[wanted.dtype]
            drawn = _hidden_state().integers(int(a), max(int(a), int(b) - 1), wanted.shape, dtype, endpoint=True)
        return [torch.from_numpy(np.asarray(drawn)).to(wanted.dtype)]

    def equation(self) -> tuple[str, dict[str, Any]]:
        return "rng_uniform", {"shape": self.types[0].shape}

    def vmap(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        raise NotImplementedError("Batching rule for 'rng_uniform' not implemented; use jax.random.uniform with a key.")

    def undifferentiated(self) -> Exception:
        return NotImplementedError(
            "Differentiation rule for 'rng_uniform' not implemented; use jax.random.uniform with a key."
        )


def rng_uniform(a: Any, b: Any, shape: Any) -> Array:
    """Return numbers drawn uniformly from [a, b), integers or floats as these two scalars are, without a key.

    They come from a generator on the host that all calls of the process advance, so that compiled code waits for it;
    where `b` is not above `a`, integers are all `a`. It can be neither batched nor differentiated. The numbers are not
    those that XLA draws. Raises `ValueError` for arguments that are no scalars of one dtype, `TypeError` for dtypes
    without an order.
    """
    ends = [as_array(a), as_array(b)]
    (low, high), dtype = map(tensor_of, ends), ends[0].dtype
    if dtype != ends[1].dtype:
        raise ValueError(f"Arguments to rng_uniform must have identical dtypes, got {dtype} and {ends[1].dtype}.")
    if ends[0].shape or ends[1].shape:
        raise ValueError(f"Arguments to rng_uniform must be scalars; got shapes {ends[0].shape} and {ends[1].shape}.")
    if dtype.kind in "bc":
        raise TypeError(f"rng_uniform draws integers and floating-point numbers, got {dtype}.")
    (drawn,) = _HiddenDraw(tuple(shape), low.dtype, low.device)(low, high)
    return from_kind(drawn, ends[0].kind is True and ends[1].kind is True)
