"""Random orders: sorting by random 32-bit keys, several times over, as JAX does it.

Large orders are sorted in place, in twice the memory of 32-bit positions: an element and its key are one 64-bit number,
and NumPy's sort of those is vectorised. That sort puts elements with equal keys in the order of their values, where
JAX leaves them in that of their places; the few that this concerns are put right afterwards.
"""

import functools
import math
import sys
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from .._compile.structured import Opaque
from .._core import dtypes, unsigned
from .._core.array import tensor_of
from .._core.graph import TensorType
from .._core.primitive import Dims, Undifferentiated, batch_front
from .._core.target import Target
from . import threefry
from .draws import PAIRS, Draw, bits_of, part_from_threefry
from .generators import GENERATORS
from .key_array import KeyArray
from .keys import several
from .uniforms import random_bits

_LARGE = 1 << 16  # elements from which on memory counts; sorting in place is as fast
_BLOCK = 1 << 16  # elements of which keys exist at one time; of orders that are not much longer, a sixteenth
_LOW, _HIGH = (0, 1) if sys.byteorder == "little" else (1, 0)  # the words of a 64-bit number in memory


def permuted(key: KeyArray, x: Tensor, axis: int, kept: int | None = None) -> Tensor:
    """Return the slices of `x` along `axis` in random order, or the first `kept` of them."""
    order = random_order(key, x.shape[axis], kept)
    return unsigned.via_bits(lambda t: t.index_select(axis, order), x)


def random_order(key: KeyArray, count: int, kept: int | None = None) -> Tensor:
    """Return the integers from 0 to `count` in random order, or the first `kept` of them."""
    dtype, words = dtypes.to_torch(dtypes.canonicalize_dtype(np.int64)), tensor_of(key)
    in_place = key._impl.name == "threefry2x32" and threefry.partitionable() and words.device.type == "cpu"
    if in_place and _LARGE <= count <= 2**32:
        (order,) = _Order(count, dtype)(words.view(torch.int32))
    else:
        order = shuffled(key, torch.arange(max(0, count), dtype=dtype, device=words.device), 0)
    # A copy, so that the rest need not stay in memory.
    return order if kept is None else order.narrow(0, 0, kept).clone()


def shuffled(key: KeyArray, x: Tensor, axis: int) -> Tensor:
    """Return each vector of `x` along `axis` in an order of its own."""
    for subkey in _round_keys(key, x.numel()):
        order = unsigned.sort(random_bits(subkey, 32, tuple(x.shape)), axis)[1]
        x = unsigned.via_bits(lambda t, order=order: t.gather(axis, order), x)
    return x


def _round_keys(key: KeyArray, size: int) -> Iterator[KeyArray]:
    for _ in range(_rounds(size)):
        key, subkey = several(key, 2)
        yield subkey


def _rounds(size: int) -> int:
    # Sorting by 32-bit keys has ties; three rounds per 32 bits of size make their effect small.
    return math.ceil(3 * math.log(max(1, size)) / math.log(2**32 - 1))


class _Order(Undifferentiated, Opaque):
    """The integers from 0 to `count` in random order, for the words of threefry keys (*batch, 2)."""

    __name__ = "random_order"

    def __init__(self, count: int, dtype: torch.dtype) -> None:
        self.count, self.dtype = count, dtype

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        return [TensorType((*inputs[0].shape[:-1], self.count), self.dtype, inputs[0].device)]

    def run(self, *inputs: Tensor) -> list[Tensor]:
        (keys,) = inputs
        if keys.dim() == 1:
            return [self._one(keys)]
        orders = torch.empty(*keys.shape[:-1], self.count, dtype=self.dtype, device=keys.device)
        for order, key in zip(orders.view(-1, self.count), keys.reshape(-1, 2), strict=True):
            order.copy_(self._one(key))
        return [orders]

    def _one(self, key: Tensor) -> Tensor:
        typed = KeyArray(key.view(torch.uint32), GENERATORS["threefry2x32"])
        rounds = [functools.partial(self._keys, k._tensor) for k in _round_keys(typed, self.count)]
        return torch.from_numpy(stably_sorted(self.count, rounds, self.dtype is torch.int64))

    def spelled_out(self, target: Target, *inputs: Tensor) -> list[Tensor]:
        (words,) = inputs
        order = torch.arange(self.count, dtype=self.dtype, device=words.device).expand(*words.shape[:-1], self.count)
        for _ in range(_rounds(self.count)):
            (pairs,) = Draw(PAIRS, 2)(words.unsqueeze(-2))
            words, own = pairs.view(torch.int32).reshape(*pairs.shape, 2).unbind(-2)
            (keys,) = Draw(bits_of(32), self.count)(own.unsqueeze(-2))
            order = order.gather(-1, unsigned.sort(keys.view(torch.uint32), -1)[1])
        return [order]

    def _keys(self, key: Tensor, start: int, stop: int) -> np.ndarray:
        first = torch.full((1,), start, dtype=torch.int64, device=key.device)
        (bits,) = part_from_threefry(bits_of(32), key, first, stop - start, self.count)
        return bits.numpy().view(np.uint32)

    def vmap(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        return self(batch_front(inputs[0], dims[0], size)), [0]


KeysOf = Callable[[int, int], np.ndarray]  # the uint32 keys of the places from a first to a last one


def stably_sorted(count: int, rounds: Sequence[KeysOf], wide: bool) -> np.ndarray:
    """Return range(count) sorted stably by the keys of one round after the other, as int64 if `wide`, else int32."""
    packed = np.empty(count, np.uint64)
    words, pairs = packed.view(np.uint32), packed.view(np.uint32).reshape(count, 2)
    values, rest = words[:count], words[count:]
    for part in _blocks(count):
        values[part] = np.arange(part.start, part.stop, dtype=np.uint32)
    for number, keys_of in enumerate(rounds):
        # In the first round the order of the values is that of the places.
        repeated = _repeated(keys_of, rest) if number else rest[:0]
        tied = _pack(keys_of, values, pairs, repeated)
        packed.sort()
        _order_ties(packed, pairs, repeated, *tied)
        if number + 1 < len(rounds) or not wide:
            for part in _blocks(count):
                values[part] = pairs[part, _LOW]
    if wide:
        pairs[:, _HIGH] = 0
        return packed.view(np.int64)
    # Shrinking a block of memory gives its end back; the views of it end here.
    del words, pairs, values, rest
    packed.resize((count + 1) // 2, refcheck=False)
    return packed.view(np.int32)[:count]


def _blocks(count: int) -> list[slice]:
    step = _BLOCK if count >= 8 * _BLOCK else _BLOCK // 16
    return [slice(start, min(count, start + step)) for start in range(0, count, step)]


def _repeated(keys_of: KeysOf, keys: np.ndarray) -> np.ndarray:
    """Return the keys that occur more than once, ascending; `keys` is memory for all keys."""
    parts = _blocks(len(keys))
    for part in parts:
        keys[part] = keys_of(part.start, part.stop)
    keys.sort()
    found = []
    for part in parts:
        ahead = keys[part.start + 1 : part.stop + 1]
        found.append(ahead[ahead == keys[part.start : part.start + len(ahead)]])
    return np.unique(np.concatenate(found))


def _pack(
    keys_of: KeysOf, values: np.ndarray, pairs: np.ndarray, repeated: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Write (key, value) into `pairs`, whose first half is the memory of `values`.

    Returns keys and values of the elements whose key is one of `repeated`, by key and by place.
    """
    among = _membership(repeated)
    keys_found, values_found = [repeated[:0]], [values[:0]]
    for part in reversed(_blocks(len(values))):  # from the end: the pairs of a block lie behind its values
        keys, own = keys_of(part.start, part.stop), values[part].copy()
        if len(repeated):
            hits = among(keys)
            keys_found.append(keys[hits])
            values_found.append(own[hits])
        pairs[part, _LOW], pairs[part, _HIGH] = own, keys
    keys, own = np.concatenate(keys_found[::-1]), np.concatenate(values_found[::-1])
    by_key = np.argsort(keys, kind="stable")
    return keys[by_key], own[by_key]


def _membership(members: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function from keys to the indices of those that are among `members`, which are ascending and few."""
    bits = min(22, len(members).bit_length() + 6)
    shift = np.uint32(32 - bits)
    table = np.zeros(1 << bits, bool)  # by leading bits: it lets some others through, too
    table[members >> shift] = True

    def among(keys: np.ndarray) -> np.ndarray:
        likely = np.flatnonzero(table[keys >> shift])
        found = keys[likely]
        places = np.searchsorted(members, found)
        return likely[members[np.minimum(places, len(members) - 1)] == found]

    return among


def _order_ties(
    packed: np.ndarray, pairs: np.ndarray, repeated: np.ndarray, keys: np.ndarray, values: np.ndarray
) -> None:
    """Give the elements with repeated keys, which lie side by side, the values in their order by place."""
    starts = np.searchsorted(packed, repeated.astype(np.uint64) << np.uint64(32))
    firsts = np.searchsorted(keys, repeated)
    counts = np.diff(firsts, append=len(keys))
    pairs[np.repeat(starts - firsts, counts) + np.arange(len(keys)), _LOW] = values
