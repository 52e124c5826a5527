"""Random keys: typed key arrays, raw uint32 keys, and the functions that make them.

A typed key array is a handle on a uint32 tensor whose trailing dimensions hold one key each; its shape is that of the
array of keys. Functions take typed and raw keys alike and give back what they were given.
"""

import operator
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._core import config, dtypes
from .._core.array import Array, as_array, is_abstract, tensor_of, to_numpy
from .._core.dtypes import ExtendedDType
from .._core.errors import KeyReuseError
from .._core.extended import ExtendedArray, refuse
from .._core.promotion import convert
from .generators import GENERATORS, PRNGImpl


class PRNGSpec:
    """A generator that is known by no name, as `key_impl` and `define_prng_impl` return it."""

    __slots__ = ("_impl",)

    def __init__(self, impl: PRNGImpl) -> None:
        self._impl = impl

    def __repr__(self) -> str:
        return f"PRNGSpec({self._impl.name!r})"

    def __str__(self) -> str:
        return str(self._impl)

    def __hash__(self) -> int:
        return hash(self._impl)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PRNGSpec) and self._impl is other._impl


class KeyDType(ExtendedDType):
    """The dtype of a key array: `key<fry>`."""

    __slots__ = ("impl",)
    type = dtypes.prng_key

    def __init__(self, impl: PRNGImpl) -> None:
        self.impl = impl

    @property
    def name(self) -> str:  # pyright: ignore
        """`key<tag>`."""
        return f"key<{self.impl.tag}>"

    @property
    def itemsize(self) -> int:
        """The bytes of one key."""
        return 4 * torch.Size(self.impl.key_shape).numel()

    def wrap(self, tensor: Tensor) -> "KeyArray":
        """Return the key array on a uint32 tensor."""
        return KeyArray(tensor, self.impl)

    def __repr__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeyDType) and self.impl is other.impl

    def __hash__(self) -> int:
        return hash((KeyDType, id(self.impl)))


def resolve(spec: Any) -> PRNGImpl:
    """Return the generator that a name, a key dtype or None (the default) means. Raises `ValueError`, `TypeError`."""
    if spec is None:
        spec = config.default_prng_impl.value
    if isinstance(spec, PRNGImpl):
        return spec
    if isinstance(spec, PRNGSpec):
        return spec._impl
    if isinstance(spec, KeyDType):
        return spec.impl
    if isinstance(spec, str):
        if spec in GENERATORS:
            return GENERATORS[spec]
        known = ", ".join(f'"{name}"' for name in GENERATORS)
        raise ValueError(f'unrecognized PRNG implementation "{spec}". Did you mean one of: {known}?')
    raise TypeError(f"unrecognized type {type(spec)} for specifying PRNG implementation.")


class KeyArray(ExtendedArray):
    """An array of random keys. Made by `jax.random.key` and `split`; it takes part in no arithmetic."""

    __slots__ = ("_impl", "consumed")

    def __init__(self, tensor: Tensor, impl: PRNGImpl, consumed: bool = False) -> None:
        super().__init__(tensor)
        self._impl = impl
        self.consumed = consumed

    @property
    def kind(self) -> Any:
        """The key dtype: what makes a key array of a tensor."""
        return KeyDType(self._impl)

    def words(self) -> list[Array]:
        """Return the words of the keys, each an array of this array's shape."""
        tensor = tensor_of(self).view(torch.int32)
        flat = tensor.reshape(*self.shape, -1)
        return [Array(w.view(torch.uint32)) for w in flat.unbind(-1)]

    def with_words(self, words: Sequence[Array]) -> "KeyArray":
        """Return the keys that have these words."""
        stacked = torch.stack([w._tensor.view(torch.int32) for w in words], -1)
        tensor = stacked.reshape(*stacked.shape[:-1], *self._impl.key_shape).view(torch.uint32)
        return KeyArray(tensor, self._impl, self.consumed)

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
        return self.dtype.itemsize

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __iter__(self) -> Any:
        if not self.ndim:
            raise TypeError("iteration over a 0-d key array")
        return (KeyArray(t, self._impl, self.consumed) for t in tensor_of(self).unbind(0))

    def __getitem__(self, index: Any) -> "KeyArray":
        return self.with_words([w[index] for w in self.words()])  # pyright: ignore

    @property
    def at(self) -> "_KeyUpdateHelper":
        """Functional updates: `keys.at[index].set(other)`, `keys.at[index].get()`."""
        return _KeyUpdateHelper(self)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        raise TypeError(
            "JAX array with PRNGKey dtype cannot be converted to a NumPy array. Use jax.random.key_data(arr) if you "
            "wish to extract the underlying integer array."
        )

    def __bool__(self) -> bool:
        raise TypeError("key array cannot be converted to boolean.")

    def _no_number(self, *_: Any) -> Any:
        raise TypeError(f"a random key ({self.dtype}) is no number. Use jax.random.key_data(key) for its words.")

    __int__ = __float__ = __complex__ = __index__ = _no_number

    def __repr__(self) -> str:
        if is_abstract(self):
            return f"Traced<{self.dtype}[{','.join(map(str, self.shape))}]>"
        return f"Array({self.shape}, dtype={self.dtype}) overlaying:\n{to_numpy(self._tensor)}"

    __str__ = __repr__

    def __format__(self, format_spec: str) -> str:
        return format(repr(self), format_spec)

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, (to_numpy(self._tensor), self._impl.name)


class _KeyUpdateHelper:
    """What `keys.at` is, and, indexed, `keys.at[index]`."""

    __slots__ = ("index", "keys")

    def __init__(self, keys: KeyArray, index: Any = None) -> None:
        self.keys, self.index = keys, index

    def __getitem__(self, index: Any) -> "_KeyUpdateHelper":
        return _KeyUpdateHelper(self.keys, index)

    def set(self, values: Any, **options: Any) -> KeyArray:
        """Return the keys after `keys[index] = values`. Raises `TypeError` for values that are no keys of this kind."""
        if not isinstance(values, KeyArray) or values.kind != self.keys.kind:
            refuse("scatter", (self.keys, values))
        pairs = zip(self.keys.words(), values.words(), strict=True)
        return self.keys.with_words([w.at[self.index].set(v, **options) for w, v in pairs])  # pyright: ignore

    def get(self, **options: Any) -> KeyArray:
        """Return the keys at the index; without a fill value, those out of bounds have all bits set."""
        return self.keys.with_words([w.at[self.index].get(**options) for w in self.keys.words()])  # pyright: ignore

    def __getattr__(self, name: str) -> Any:
        raise TypeError(f"keys.at[...].{name} does not accept dtype {self.keys.dtype}. Keys can be set and got only.")


def _unpickle(words: np.ndarray, name: str) -> KeyArray:
    return KeyArray(tensor_of(as_array(words)), resolve(name))


# ---------------------------------------------------------------------------------------------------- making keys


def key(seed: Any, *, impl: Any = None, dtype: Any = None) -> KeyArray:
    """Return a typed key for an integer seed, with the generator `impl` (a name) or of the key dtype `dtype`.

    Raises `TypeError` for a seed that is no integer scalar, `OverflowError` for one that is too large, `ValueError`
    for an unknown generator or when both `impl` and `dtype` are given.
    """
    generator = resolve(_one_of("key", impl, dtype))
    return KeyArray(_seeded(seed, generator, "key"), generator)


def PRNGKey(seed: Any, *, impl: Any = None) -> Array:
    """Return a raw key, a uint32 array, for an integer seed; a typed one where `jax_enable_custom_prng` is set."""
    generator = resolve(impl)
    tensor = _seeded(seed, generator, "PRNGKey")
    return KeyArray(tensor, generator) if config.enable_custom_prng.value else Array(tensor)


def key_dtype(impl_spec: Any = None) -> KeyDType:
    """Return the dtype of the keys of a generator, given by name; by default of the default generator."""
    return KeyDType(resolve(impl_spec))


def _one_of(function: str, impl: Any, dtype: Any) -> Any:
    if impl is not None and dtype is not None:
        raise ValueError(f"Cannot specify both `impl` and `dtype` arguments to jax.random.{function}")
    return impl if dtype is None else dtype


def _seeded(seed: Any, impl: PRNGImpl, function: str) -> Tensor:
    if dtypes.issubdtype(getattr(seed, "dtype", np.dtype(np.int32)), dtypes.prng_key):
        raise TypeError(f"{function} accepts a scalar seed, but was given a PRNG key.")
    if isinstance(seed, list | tuple):
        raise TypeError(f"{function} accepts a scalar seed, but was given an array of shape {np.shape(seed)} != ().")
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


_LEGACY = (
    "Legacy uint32 key array passed as key to jax.random function. Please create keys using jax.random.key(). If use "
    'of a raw key array was intended, set jax_legacy_prng_key="allow".'
)


def check_key(function: str, given: Any, allow_batched: bool = False, consume: bool = True) -> tuple[KeyArray, bool]:
    """Return `given` as a typed key, and whether it was typed.

    Raises `TypeError` for what is no key, `ValueError` for several keys, and, while `jax_debug_key_reuse` is set,
    `KeyReuseError` for a typed key that was consumed before; with `consume` it is consumed then.
    """
    if isinstance(given, KeyArray):
        typed, was_typed = given, True
    elif isinstance(given, Array | np.ndarray) or hasattr(given, "__jax_array__"):
        typed, was_typed = wrap_key_data(given), False
        _judge_legacy()
    else:
        raise TypeError(f"unexpected PRNG key type {type(given)}. Make a key with jax.random.key(seed).")
    if typed.ndim and not allow_batched:
        raise ValueError(
            f"{function} accepts a single key, but was given a key array of shape {typed.shape} != (). "
            "Use jax.vmap for batching."
        )
    if consume and config.debug_key_reuse.value:
        if typed.consumed:
            raise KeyReuseError(
                f"Previously-consumed key passed to {function} at index 0. Make new keys with jax.random.split, or "
                "jax.random.clone the key to use it again on purpose."
            )
        typed.consumed = True
    return typed, was_typed


def _judge_legacy() -> None:
    rule = config.legacy_prng_key.value
    if rule == "error":
        raise ValueError(_LEGACY)
    if rule == "warn":
        warnings.warn(_LEGACY, stacklevel=4)
    elif config.enable_custom_prng.value:
        warnings.warn(
            "Raw arrays as random keys to jax.random functions are deprecated. Assuming valid threefry2x32 key for now.",
            FutureWarning,
            stacklevel=4,
        )


def unwrapped(keys: KeyArray, typed: bool) -> Array:
    """Return keys in the form in which the caller gave theirs."""
    return keys if typed or config.enable_custom_prng.value else Array(tensor_of(keys))


def wrap_key_data(key_bits_array: Any, *, impl: Any = None, dtype: Any = None) -> KeyArray:
    """Return the typed keys whose words are the trailing dimensions of a uint32 array. Raises `TypeError`."""
    generator = resolve(_one_of("wrap_key_data", impl, dtype))
    if not all(hasattr(key_bits_array, name) for name in ("ndim", "shape", "dtype")):
        raise TypeError(
            "JAX encountered invalid PRNG key data: expected key_data to have ndim, shape, and dtype attributes. "
            f"Got {key_bits_array}"
        )
    array = as_array(key_bits_array)
    if array.ndim < 1 or array.shape[-len(generator.key_shape) :] != generator.key_shape:
        raise TypeError(
            f"JAX encountered invalid PRNG key data: expected key_data.shape to end with {generator.key_shape}; "
            f"got shape={array.shape} for impl={generator}"
        )
    if array.dtype != np.uint32:
        raise TypeError(
            f"JAX encountered invalid PRNG key data: expected key_data.dtype = uint32; got dtype={array.dtype}"
        )
    return KeyArray(tensor_of(array), generator)


def key_data(keys: Any) -> Array:
    """Return the words of keys as a uint32 array with the dimensions of a key behind those of the keys."""
    typed, _ = check_key("key_data", keys, allow_batched=True, consume=False)
    return Array(tensor_of(typed))


def key_impl(keys: Any) -> str | PRNGSpec:
    """Return the name of the generator of keys, or an object that stands for it where it has no name."""
    typed, _ = check_key("key_impl", keys, allow_batched=True, consume=False)
    return typed._impl.name if typed._impl.name in GENERATORS else PRNGSpec(typed._impl)


def clone(key: Any) -> Array:
    """Return the key as one that was not used yet, for `jax_debug_key_reuse`."""
    if not isinstance(key, KeyArray):
        return as_array(key)
    return KeyArray(tensor_of(key), key._impl)


def split(key: Any, num: int | Sequence[int] = 2) -> Array:
    """Return `num` new keys (a number, or a shape of keys) made of one."""
    typed, was_typed = check_key("split", key)
    shape = tuple(operator.index(n) for n in (num if isinstance(num, Sequence) else (num,)))
    if any(n < 0 for n in shape):
        raise ValueError(f"split needs non-negative numbers of keys, got {num}.")
    return unwrapped(KeyArray(typed._impl.split(tensor_of(typed), shape), typed._impl), was_typed)


def split_keys(key: KeyArray, count: int) -> Tensor:
    """Return the words of `count` keys made of one."""
    return key._impl.split(tensor_of(key), (count,))


def several(key: KeyArray, count: int) -> list[KeyArray]:
    """Return `count` keys made of one."""
    return [KeyArray(words, key._impl) for words in split_keys(key, count).unbind(0)]


def fold_in(key: Any, data: Any) -> Array:
    """Return a new key that depends on a key and on the integer `data`, which is taken as 32 bits.

    Raises `TypeError` for arrays that are no scalars, `OverflowError` for a Python integer beyond 32 bits.
    """
    typed, was_typed = check_key("fold_in", key, consume=False)
    if isinstance(data, int):
        if not 0 <= data < 2**32:
            raise OverflowError(f"Python integer {data} out of bounds for uint32")
        array = Array(torch.full((), (data + 2**31) % 2**32 - 2**31, dtype=torch.int32).view(torch.uint32))
    else:
        array = as_array(data)
    if array.ndim:
        raise TypeError(
            f"fold_in accepts a scalar, but was given an array of shape {array.shape} != (). Use jax.vmap for batching."
        )
    folded = typed._impl.fold_in(tensor_of(typed), convert(tensor_of(array), torch.uint32))
    return unwrapped(KeyArray(folded, typed._impl), was_typed)


def custom_generator(
    key_shape: Sequence[int], seed: Callable[..., Any], split: Callable[..., Any], random_bits: Callable[..., Any],
    fold_in: Callable[..., Any], name: str, tag: str,
) -> PRNGImpl:  # fmt: skip
    """Return a generator made of functions on arrays."""
    return PRNGImpl(
        tuple(key_shape),
        lambda value: tensor_of(as_array(seed(Array(value)))),
        lambda words, shape: tensor_of(as_array(split(Array(words), shape))),
        lambda words, width, shape: tensor_of(as_array(random_bits(Array(words), width, shape))),
        lambda words, data: tensor_of(as_array(fold_in(Array(words), Array(data)))),
        name=name,
        tag=tag,
    )
