"""Generators of one's own."""

from collections.abc import Callable, Hashable
from typing import Any

import torch

from .._core.array import Array, as_array, tensor_of
from .._jaxprs.primitive import define, named
from . import threefry
from .generators import PRNGImpl
from .key_array import KeyArray, PRNGSpec
from .keys import custom_generator, key


def define_prng_impl(
    *, key_shape: tuple[int, ...], seed: Callable[..., Any], split: Callable[..., Any],
    random_bits: Callable[..., Any], fold_in: Callable[..., Any], name: str = "<unnamed>", tag: str = "?",
) -> Hashable:  # fmt: skip
    """Return a generator made of functions on uint32 arrays, to be given as `impl` to `jax.random.key`.

    `seed(integer)` gives a key, `split(key, shape)` keys, `random_bits(key, width, shape)` unsigned integers,
    `fold_in(key, data)` a key.
    """
    return PRNGSpec(custom_generator(key_shape, seed, split, random_bits, fold_in, name, tag))


def random_seed(seeds: int | Any, impl: PRNGImpl) -> KeyArray:
    """Return the typed key of a seed, with this generator."""
    return key(seeds, impl=impl)


def seed_with_impl(impl: PRNGImpl, seed: int | Any) -> KeyArray:
    """Return the typed key of a seed, with this generator."""
    return key(seed, impl=impl)


def threefry_2x32(keypair: Any, count: Any) -> Array:
    """Return the threefry words for a key (two uint32 scalars) and an array of uint32 counts, halves taken together.

    Raises `TypeError` for other dtypes.
    """
    first, second = (tensor_of(as_array(k)) for k in keypair)
    counts = tensor_of(as_array(count))
    if any(t.dtype is not torch.uint32 for t in (first, second, counts)):
        raise TypeError(f"threefry_2x32 requires uint32 arguments, got {[t.dtype for t in (first, second, counts)]}")
    words = torch.stack([first.view(torch.int32), second.view(torch.int32)]).view(torch.uint32)
    return Array(threefry.threefry_2x32(words, counts))


def _threefry2x32(*words: Any) -> list[Array]:
    """Return the two words for two of the key and two of the counter, arrays of 32-bit integers that broadcast."""
    tensors = [tensor_of(as_array(w)) for w in words]
    return [Array(w.view(tensors[0].dtype)) for w in threefry.ciphered(*(t.view(torch.int32) for t in tensors))]


define("threefry2x32", _threefry2x32, multiple_results=True)
threefry2x32_p = named("threefry2x32")
