"""Random keys, typed and raw: the functions that make them and take them apart.

Functions take typed keys (`KeyArray`) and raw ones (uint32 arrays) alike and give back what they were given.
"""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._core import config, dtypes, errors, transfers
from .._core.array import Array, as_array, default_torch_device, tensor_of
from .._core.promotion import convert
from .._core.symbolic_sizes import index as index_of
from .._core.typing import ArrayLike
from .._jaxprs.primitive import define
from .._transforms import key_reuse
from .._transforms.vmap import vmap
from .generators import GENERATORS, PRNGImpl
from .key_array import KeyArray, PRNGSpec, is_checked, resolve, unused
from .key_dtype import KeyDType
from .primitives import random_fold_in, random_seed, random_split


def key(seed: ArrayLike, *, impl: Any = None, dtype: Any = None) -> KeyArray:
    """Return a typed key for an integer seed, with the generator `impl` (a name) or of the key dtype `dtype`.

    Raises `TypeError` for a seed that is no integer scalar, `OverflowError` for one that is too large, `ValueError`
    for an unknown generator or when both `impl` and `dtype` are given.
    """
    generator = resolve(_one_of("key", impl, dtype))
    return KeyArray(_seeded(seed, generator, "key"), generator)


def PRNGKey(seed: ArrayLike, *, impl: Any = None) -> Array:
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
    return random_seed(tensor_of(array), impl)


def _seed_of_int(seed: int) -> Array:
    # JAX reads a Python seed as a 64-bit integer and drops the upper half unless jax_enable_x64 is set.
    if not -(2**63) <= seed < 2**63:
        raise OverflowError(f"Python int {seed} too large to convert to int64: seeds are 64-bit integers.")
    if transfers.watching:
        transfers.check("host-to-device", "a seed")
    if config.enable_x64.value:
        return Array(torch.full((), seed, dtype=torch.int64, device=default_torch_device()))
    return Array(torch.full((), (seed + 2**31) % 2**32 - 2**31, dtype=torch.int32, device=default_torch_device()))


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
        raise TypeError(
            f"unexpected PRNG key type {type(given)}. Make a key with jax.random.key(seed).{errors.way_from_torch(given)}"
        )
    if typed.ndim and not allow_batched:
        raise ValueError(
            f"{function} accepts a single key, but was given a key array of shape {typed.shape} != (). "
            "Use jax.vmap for batching."
        )
    if consume and is_checked():
        key_reuse.consume(tensor_of(typed), True, _PRIMITIVES.get(function, "jit"), within=function)
    return typed, was_typed


_PRIMITIVES = {"bits": "random_bits", "split": "random_split"}  # other functions of jax.random are jitted, in JAX


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


def wrap_key_data(key_bits_array: ArrayLike, *, impl: Any = None, dtype: Any = None) -> KeyArray:
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
    return KeyArray(unused(tensor_of(array)), generator)


def key_data(keys: ArrayLike) -> Array:
    """Return the words of keys as a uint32 array with the dimensions of a key behind those of the keys."""
    typed, _ = check_key("key_data", keys, allow_batched=True, consume=False)
    return Array(tensor_of(typed))


define("random_wrap", lambda words, *, impl: wrap_key_data(words, dtype=impl))
define("random_unwrap", key_data)


def each(function: Callable[..., Array], *operands: Any) -> Array:
    """Return the results for all elements of arrays of one shape, as JAX's primitives of keys give them."""
    for _ in range(as_array(operands[0]).ndim):
        function = vmap(function)
    return function(*operands)


define("random_seed", lambda seeds, *, impl: each(lambda seed: key(seed, impl=impl), seeds))
define("random_split", lambda keys, *, shape: each(lambda key: split(key, shape), keys))
define("random_fold_in", lambda keys, data: each(fold_in, keys, data))


def key_impl(keys: ArrayLike) -> str | PRNGSpec:
    """Return the name of the generator of keys, or an object that stands for it where it has no name."""
    typed, _ = check_key("key_impl", keys, allow_batched=True, consume=False)
    return typed._impl.name if typed._impl.name in GENERATORS else PRNGSpec(typed._impl)


def clone(key: Any) -> Array:
    """Return the key as one that was not used yet, for `jax_debug_key_reuse`."""
    if not isinstance(key, KeyArray):
        return as_array(key)
    return KeyArray(unused(tensor_of(key)), key._impl)


def split(key: ArrayLike, num: int | Sequence[int] = 2) -> Array:
    """Return `num` new keys (a number, or a shape of keys) made of one."""
    typed, was_typed = check_key("split", key)
    shape = tuple(index_of(n) for n in (num if isinstance(num, Sequence) else (num,)))
    if any(n < 0 for n in shape):
        raise ValueError(f"split needs non-negative numbers of keys, got {num}.")
    return unwrapped(KeyArray(random_split(tensor_of(typed), typed._impl, shape), typed._impl), was_typed)


def split_keys(key: KeyArray, count: int) -> Tensor:
    """Return the words of `count` keys made of one."""
    return random_split(tensor_of(key), key._impl, (count,))


def several(key: KeyArray, count: int) -> list[KeyArray]:
    """Return `count` keys made of one."""
    return [KeyArray(words, key._impl) for words in split_keys(key, count).unbind(0)]


def fold_in(key: ArrayLike, data: ArrayLike) -> Array:
    """Return a new key that depends on a key and on the integer `data`, which is taken as 32 bits.

    Raises `TypeError` for arrays that are no scalars, `OverflowError` for a Python integer beyond 32 bits.
    """
    typed, was_typed = check_key("fold_in", key, consume=False)
    if isinstance(data, int):
        if not 0 <= data < 2**32:
            raise OverflowError(f"Python integer {data} out of bounds for uint32")
        array = Array(torch.full((), data, dtype=torch.uint32, device=typed._tensor.device))
    else:
        array = as_array(data, typed._tensor.device)
    if array.ndim:
        raise TypeError(
            f"fold_in accepts a scalar, but was given an array of shape {array.shape} != (). Use jax.vmap for batching."
        )
    folded = random_fold_in(tensor_of(typed), typed._impl, convert(tensor_of(array), torch.uint32))
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
