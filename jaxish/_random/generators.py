"""The generators: what each makes of a seed, a key and a shape. Functions on uint32 tensors.

threefry2x32 is the default. A key of rbg is two threefry keys, which are split and folded into as such, while its bits
come from Philox (_lax/random_bits.py), as XLA has them on the CPU; unsafe_rbg uses Philox for all of it. threefry4x32,
philox2x32 and philox4x32 are ciphers of counters like the default one (_tensors/ciphers.py).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from .._lax import random_bits as philox
from .._tensors import ciphers
from . import threefry
from .draws import PAIRS, bits_of, from_threefry


@dataclass(frozen=True, eq=False)
class PRNGImpl:
    """A generator: how keys are made, split, folded into, and turned into bits. Functions on uint32 tensors."""

    key_shape: tuple[int, ...]
    seed: Callable[[Tensor], Tensor]
    split: Callable[[Tensor, tuple[int, ...]], Tensor]
    random_bits: Callable[[Tensor, int, tuple[int, ...]], Tensor]
    fold_in: Callable[[Tensor, Tensor], Tensor]
    name: str
    tag: str

    def __repr__(self) -> str:
        return f"PRNGImpl(name={self.name!r}, tag={self.tag!r}, key_shape={self.key_shape})"

    def __str__(self) -> str:
        return self.tag


_UNSIGNED = {8: torch.uint8, 16: torch.uint16, 32: torch.uint32, 64: torch.uint64}


def _threefry_split(key: Tensor, shape: tuple[int, ...]) -> Tensor:
    count = math.prod(shape)
    if not threefry.partitionable():
        return threefry.threefry_2x32(key, threefry.counts(2 * count, key.device)).reshape(*shape, 2)
    return from_threefry(PAIRS, key, count)[0].view(torch.uint32).reshape(*shape, 2)


def _threefry_fold_in(key: Tensor, data: Tensor) -> Tensor:
    k, x = key.view(torch.int32), threefry.seed(data).view(torch.int32)
    return torch.stack(threefry.ciphered(k[0], k[1], x[0], x[1])).view(torch.uint32)


def _threefry_bits(key: Tensor, bit_width: int, shape: tuple[int, ...]) -> Tensor:
    size = math.prod(shape)
    if threefry.partitionable():
        return from_threefry(bits_of(bit_width), key, size)[0].view(_UNSIGNED[bit_width]).reshape(shape)
    count = -(-bit_width * size // 32)
    words = threefry.threefry_2x32(key, threefry.counts(count, key.device)).view(torch.int32)
    if bit_width == 64:
        bits = threefry.joined(words[:size], words[size:])
    elif bit_width == 32:
        bits = words
    else:
        # Each word gives its lowest bits first.
        shifts = torch.arange(0, 32, bit_width, dtype=torch.int32, device=key.device)
        bits = threefry.narrowed(words.unsqueeze(1) >> shifts, bit_width).reshape(-1)[:size]
    return bits.view(_UNSIGNED[bit_width]).reshape(shape)


def _rbg_seed(value: Tensor) -> Tensor:
    half = threefry.seed(value)
    return torch.cat([half, half])


def _rbg_split(key: Tensor, shape: tuple[int, ...]) -> Tensor:
    return torch.cat([_threefry_split(half, shape) for half in key.reshape(2, 2).unbind(0)], -1)


def _rbg_fold_in(key: Tensor, data: Tensor) -> Tensor:
    return torch.cat([_threefry_fold_in(half, data) for half in key.reshape(2, 2).unbind(0)])


def _rbg_bits(key: Tensor, bit_width: int, shape: tuple[int, ...]) -> Tensor:
    return philox.random_bits(key, bit_width, shape)[1]


# unsafe_rbg takes every tenth block of four words for a key, so that the streams of neighbours do not overlap soon.
_STRIDE = 10


def _unsafe_rbg_split(key: Tensor, shape: tuple[int, ...]) -> Tensor:
    count = math.prod(shape)
    words = _rbg_bits(key, 32, (_STRIDE * count, 4)).view(torch.int32)
    return words.reshape(count, _STRIDE, 4)[:, 0].reshape(*shape, 4).view(torch.uint32)


def _unsafe_rbg_fold_in(key: Tensor, data: Tensor) -> Tensor:
    words = _rbg_bits(_rbg_seed(data), 32, (_STRIDE, 4)).view(torch.int32)
    return (key.view(torch.int32) ^ words[-1]).view(torch.uint32)


class _CounterBased:
    """A generator by a cipher of counters of two or four words, each 64-bit number of which makes an element.

    `makes_key` says that the seed is the cipher's key when a key is made; else it is the counter.
    """

    def __init__(self, name: str, rounds: ciphers.Rounds, key_words: int, counter_words: int, makes_key: bool) -> None:
        self.cipher = ciphers.Cipher(name, rounds, counter_words)
        self.key_words, self.counter_words, self.makes_key = key_words, counter_words, makes_key

    def _zeros(self, count: int, like: Tensor) -> list[Tensor]:
        return [torch.zeros_like(like)] * count

    def _words(self, key: Tensor, counter: list[Tensor]) -> list[Tensor]:
        return self.cipher(*key.view(torch.int32).unbind(), *counter)

    def _counted(self, shape: tuple[int, ...], device: torch.device) -> list[Tensor]:
        numbers = torch.arange(math.prod(shape), device=device).reshape(shape)
        return [(numbers >> 32).to(torch.int32), numbers.to(torch.int32)]

    def seed(self, value: Tensor) -> Tensor:
        halves = list(threefry.seed(value).view(torch.int32).unbind())
        key = self._zeros(self.key_words, halves[0])
        counter = self._zeros(self.counter_words, halves[0])
        (key if self.makes_key else counter)[:2] = halves
        return torch.stack(self.cipher(*key, *counter)[: self.key_words]).view(torch.uint32)

    def split(self, key: Tensor, shape: tuple[int, ...]) -> Tensor:
        counted = self._counted(shape, key.device)
        words = self._words(key, [*self._zeros(self.counter_words - 2, counted[0]), *counted])
        return torch.stack(words[: self.key_words], -1).view(torch.uint32)

    def fold_in(self, key: Tensor, data: Tensor) -> Tensor:
        low = threefry.seed(data).view(torch.int32)[1]
        words = self._words(key, [*self._zeros(self.counter_words - 1, low), low])
        return torch.stack(words[: self.key_words]).view(torch.uint32)

    def random_bits(self, key: Tensor, bit_width: int, shape: tuple[int, ...]) -> Tensor:
        counted = self._counted(shape, key.device)
        words = self._words(key, [*counted, *self._zeros(self.counter_words - 2, counted[0])])
        if bit_width == 64:
            halves = words[:2] if not self.makes_key else [words[0] ^ words[2], words[1] ^ words[3]]
            bits = threefry.joined(*halves)
        else:
            mixed = words[0] ^ words[1] if len(words) == 2 else words[0] ^ words[1] ^ words[2] ^ words[3]
            bits = mixed if bit_width == 32 else threefry.narrowed(mixed, bit_width)
        return bits.view(_UNSIGNED[bit_width])

    def as_impl(self, tag: str) -> PRNGImpl:
        name = self.cipher.__name__
        return PRNGImpl((self.key_words,), self.seed, self.split, self.random_bits, self.fold_in, name=name, tag=tag)


threefry4x32_prng_impl = _CounterBased("threefry4x32", ciphers.threefry_4x32, 4, 4, makes_key=True).as_impl("fry4")
philox2x32_prng_impl = _CounterBased("philox2x32", ciphers.philox_2x32, 1, 2, makes_key=False).as_impl("phx2")
philox4x32_prng_impl = _CounterBased("philox4x32", ciphers.philox_4x32, 2, 4, makes_key=False).as_impl("phx4")
threefry_prng_impl = PRNGImpl(
    (2,), threefry.seed, _threefry_split, _threefry_bits, _threefry_fold_in, name="threefry2x32", tag="fry"
)
rbg_prng_impl = PRNGImpl((4,), _rbg_seed, _rbg_split, _rbg_bits, _rbg_fold_in, name="rbg", tag="rbg")
unsafe_rbg_prng_impl = PRNGImpl(
    (4,), _rbg_seed, _unsafe_rbg_split, _rbg_bits, _unsafe_rbg_fold_in, name="unsafe_rbg", tag="urbg"
)
GENERATORS = {
    impl.name: impl
    for impl in (
        threefry_prng_impl, threefry4x32_prng_impl, rbg_prng_impl, unsafe_rbg_prng_impl, philox2x32_prng_impl,
        philox4x32_prng_impl,
    )
}  # fmt: skip
