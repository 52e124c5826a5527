"""JAX's primitives of keys: what a generator does, which a jaxpr shows as one equation.

Keys are their words, uint32 tensors whose trailing dimensions hold one key; `impl` is a `PRNGImpl`.
"""

from typing import Any

from torch import Tensor

from .._core.operations import Keys, shown_as
from .key_dtype import KeyDType


def _taken_and_made(key: Tensor, impl: Any, *_: Any) -> Keys:
    return Keys(KeyDType(impl), KeyDType(impl))


def _taken(key: Tensor, impl: Any, *_: Any) -> Keys:
    return Keys(taken=KeyDType(impl))


@shown_as("random_seed", lambda seed, impl: {"impl": impl}, lambda seed, impl: Keys(made=KeyDType(impl)))
def random_seed(seed: Tensor, impl: Any) -> Tensor:
    """Return the key of an integer seed."""
    return impl.seed(seed)


@shown_as("random_split", lambda key, impl, shape: {"shape": shape}, _taken_and_made)
def random_split(key: Tensor, impl: Any, shape: tuple[int, ...]) -> Tensor:
    """Return an array of keys, of this shape, that are made of one."""
    return impl.split(key, shape)


@shown_as("random_fold_in", lambda key, impl, data: {}, _taken_and_made)
def random_fold_in(key: Tensor, impl: Any, data: Tensor) -> Tensor:
    """Return a key made of one and of the number `data`, 32 unsigned bits."""
    return impl.fold_in(key, data)


@shown_as("random_bits", lambda key, impl, width, shape: {"bit_width": width, "shape": shape}, _taken)
def random_bits(key: Tensor, impl: Any, width: int, shape: tuple[int, ...]) -> Tensor:
    """Return an array of unsigned integers of `width` bits."""
    return impl.random_bits(key, width, shape)
