"""Random keys: typed key arrays, raw uint32 keys, and the generators that give them meaning.

A typed key array is a handle on a uint32 tensor whose trailing dimensions hold one key each; its shape is that of the
array of keys. Functions take typed and raw keys alike and give back what they were given.
"""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._core import config, dtypes
from .._core.array import Array, as_array, is_abstract, tensor_of, to_numpy
from .._core.dtypes import ExtendedDType
from . import threefry


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

    def wrap(self, tensor: Tensor) -> "KeyArray":
        """Return the key array on a uint32 tensor."""
        return KeyArray(tensor, self)

    def __repr__(self) -> str:
        return f"PRNGImpl(name={self.name!r}, tag={self.tag!r}, key_shape={self.key_shape})"


_IMPLS: dict[str, PRNGImpl] = {}


def register(impl: PRNGImpl) -> None:
    """Make a generator available under its name."""
    _IMPLS[impl.name] = impl


register(
    PRNGImpl((2,), threefry.seed, threefry.split, threefry.random_bits, threefry.fold_in, name="threefry2x32", tag="fry")
)


def resolve(spec: Any) -> PRNGImpl:
    """Return the generator that a name, a key dtype, a key or None (the default) means. Raises `ValueError`."""
    if spec is None:
        spec = config.default_prng_impl.value
    if isinstance(spec, PRNGImpl):
        return spec
    if isinstance(spec, KeyDType):
        return spec.impl
    if isinstance(spec, str):
        if spec in _IMPLS:
            return _IMPLS[spec]
        known = ", ".join(f'"{name}"' for name in _IMPLS)
        raise ValueError(f'unrecognized PRNG implementation "{spec}". Did you mean one of: {known}?')
    raise TypeError(f"unrecognized type {type(spec)} for specifying PRNG implementation.")


class KeyDType(ExtendedDType):
    """The dtype of a key array: `key<fry>`."""

    type = dtypes.prng_key
    itemsize = 8

    def __init__(self, impl: PRNGImpl) -> None:
        self.impl = impl

    @property
    def name(self) -> str:  # pyright: ignore
        """`key<tag>`."""
        return f"key<{self.impl.tag}>"

    def __repr__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeyDType) and self.impl is other.impl

    def __hash__(self) -> int:
        return hash((KeyDType, id(self.impl)))


class KeyArray(Array):
    """An array of random keys. Made by `jax.random.key` and `split`; it takes part in no arithmetic."""

    __slots__ = ("_impl",)

    def __init__(self, tensor: Tensor, impl: PRNGImpl) -> None:
        super().__init__(tensor)
        self._impl = impl

    @property
    def kind(self) -> Any:
        """The generator: what makes a key array of a tensor."""
        return self._impl

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array of keys."""
        return tuple(self._tensor.shape[: self._tensor.dim() - len(self._impl.key_shape)])

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of keys."""
        return torch.Size(self.shape).numel()

    @property
    def dtype(self) -> KeyDType:
        """The key dtype."""
        return KeyDType(self._impl)

    @property
    def itemsize(self) -> int:
        """The bytes of one key."""
        return 4 * torch.Size(self._impl.key_shape).numel()

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __iter__(self) -> Any:
        if not self.ndim:
            raise TypeError("iteration over a 0-d key array")
        return (KeyArray(t, self._impl) for t in tensor_of(self).unbind(0))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        raise TypeError("JAX array with PRNGKey dtype cannot be converted to a NumPy array. Use jax.random.key_data(arr).")

    def _no_number(self, *_: Any) -> Any:
        raise TypeError(f"a random key ({self.dtype}) is no number and no truth value. Use jax.random.key_data(key).")

    __bool__ = __int__ = __float__ = __complex__ = __index__ = _no_number

    def __repr__(self) -> str:
        if is_abstract(self):
            return f"Traced<{self.dtype}[{','.join(map(str, self.shape))}]>"
        return f"Array({self.shape}, dtype={self.dtype}) overlaying:\n{to_numpy(self._tensor)}"

    __str__ = __repr__


# ---------------------------------------------------------------------------------------------------- making keys


def key(seed: Any, *, impl: Any = None) -> KeyArray:
    """Return a typed key for an integer seed, with the generator `impl` (a name or a key dtype).

    Raises `TypeError` for a seed that is no integer scalar, `OverflowError` for one that is too large.
    """
    generator = resolve(impl)
    return KeyArray(_seeded(seed, generator, "key"), generator)


def PRNGKey(seed: Any, *, impl: Any = None) -> Array:
    """Return a raw key, a uint32 array, for an integer seed; a typed one where `jax_enable_custom_prng` is set."""
    generator = resolve(impl)
    tensor = _seeded(seed, generator, "PRNGKey")
    return KeyArray(tensor, generator) if config.enable_custom_prng.value else Array(tensor)


def _seeded(seed: Any, impl: PRNGImpl, function: str) -> Tensor:
    if isinstance(seed, KeyArray) or dtypes.issubdtype(getattr(seed, "dtype", np.int32), dtypes.prng_key):
        raise TypeError(f"{function} accepts a scalar seed, but was given a PRNG key.")
    if isinstance(seed, int) and not isinstance(seed, bool):
        array = _seed_of_int(seed + config.random_seed_offset.value)
    else:
        array = as_array(seed)
    if array.ndim:
        raise TypeError(
            f"{function} accepts a scalar seed, but was given an array of shape {array.shape} != (). "
            "Use jax.vmap for batching"
        )
    if not dtypes.issubdtype(array.dtype, np.integer):
        raise TypeError(f"PRNG key seed must be an integer; got {array.dtype}")
    return impl.seed(tensor_of(array))


def _seed_of_int(seed: int) -> Array:
    # JAX reads a Python seed as a 64-bit integer and drops the upper half unless jax_enable_x64 is set.
    if not -(2**63) <= seed < 2**63:
        raise OverflowError(f"Python int {seed} too large to convert to int64: seeds are 64-bit integers.")
    if config.enable_x64.value:
        return Array(torch.full((), seed, dtype=torch.int64))
    return Array(torch.full((), (seed + 2**31) % 2**32 - 2**31, dtype=torch.int32))


def check_key(function: str, given: Any, allow_batched: bool = False) -> tuple[KeyArray, bool]:
    """Return `given` as a typed key, and whether it was typed. Raises `TypeError`, or `ValueError` for several keys."""
    if isinstance(given, KeyArray):
        typed, was_typed = given, True
    else:
        typed, was_typed = wrap_key_data(given), False
    if typed.ndim and not allow_batched:
        raise ValueError(
            f"{function} accepts a single key, but was given a key array of shape {typed.shape} != (). "
            "Use jax.vmap for batching."
        )
    return typed, was_typed


def unwrapped(keys: KeyArray, typed: bool) -> Array:
    """Return keys in the form in which the caller gave theirs."""
    return keys if typed else Array(tensor_of(keys))


def wrap_key_data(key_bits_array: Any, *, impl: Any = None) -> KeyArray:
    """Return the typed keys whose words are the trailing dimension of a uint32 array. Raises `TypeError`."""
    generator = resolve(impl)
    if not all(hasattr(key_bits_array, name) for name in ("ndim", "shape", "dtype")):
        raise TypeError(
            "JAX encountered invalid PRNG key data: expected key_data to have ndim, shape, and dtype attributes. "
            f"Got {key_bits_array}"
        )
    array = as_array(key_bits_array)
    if array.ndim < 1 or array.shape[-len(generator.key_shape) :] != generator.key_shape:
        raise TypeError(
            f"JAX encountered invalid PRNG key data: expected key_data.shape to end with {generator.key_shape}; "
            f"got shape={array.shape} for {generator}"
        )
    if array.dtype != np.uint32:
        raise TypeError(f"JAX encountered invalid PRNG key data: expected key_data.dtype = uint32; got {array.dtype}")
    return KeyArray(tensor_of(array), generator)


def key_data(keys: Any) -> Array:
    """Return the words of keys as a uint32 array with one more dimension."""
    typed, _ = check_key("key_data", keys, allow_batched=True)
    return Array(tensor_of(typed))


def key_impl(keys: Any) -> str | PRNGImpl:
    """Return the name of the generator of keys, or the generator where it was not registered."""
    typed, _ = check_key("key_impl", keys, allow_batched=True)
    return typed._impl.name if typed._impl.name in _IMPLS else typed._impl


def split(key: Any, num: int | Sequence[int] = 2) -> Array:
    """Return `num` new keys (a number, or a shape of keys) made of one."""
    typed, was_typed = check_key("split", key)
    shape = (num,) if not isinstance(num, Sequence) else tuple(num)
    shape = tuple(operator.index(n) for n in shape)
    if any(n < 0 for n in shape):
        raise ValueError(f"split needs non-negative numbers of keys, got {num}.")
    return unwrapped(KeyArray(typed._impl.split(tensor_of(typed), shape), typed._impl), was_typed)


def fold_in(key: Any, data: Any) -> Array:
    """Return a new key that depends on a key and on the integer `data`, which is taken as 32 bits.

    Raises `TypeError` for arrays that are no integer scalars, `OverflowError` for a Python integer beyond 32 bits.
    """
    typed, was_typed = check_key("fold_in", key)
    if isinstance(data, int):
        if not -(2**31) <= data < 2**32:
            raise OverflowError(f"Python integer {data} out of bounds for uint32")
        array = Array(torch.full((), (data + 2**31) % 2**32 - 2**31, dtype=torch.int32).view(torch.uint32))
    else:
        array = as_array(data)
    if array.ndim:
        raise TypeError(f"fold_in accepts a scalar, but was given an array of shape {array.shape} != (). Use jax.vmap for batching.")
    if not dtypes.issubdtype(array.dtype, np.integer):
        raise TypeError(f"fold_in accepts an integer, but was given {array.dtype}.")
    narrow = tensor_of(array)
    narrow = narrow.to(torch.int64).to(torch.int32) if narrow.dtype is not torch.uint32 else narrow
    return unwrapped(KeyArray(typed._impl.fold_in(tensor_of(typed), narrow), typed._impl), was_typed)
