"""Arrays of random keys: what a key is, holds and refuses.

A key array is a handle on a uint32 tensor whose trailing dimensions hold one key each; its shape is that of the array of
keys. keys.py makes keys and takes them apart.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._core import config
from .._core.array import Array, as_array, is_abstract, tensor_of, to_numpy, tracer_text
from .._core.extended import ExtendedArray, refuse
from .._transforms import key_reuse
from .generators import GENERATORS, PRNGImpl
from .key_dtype import KeyDType

# Whether `jax_debug_key_reuse` was ever set. Each call of a jitted function with keys asks, and reading a flag takes
# 100 ns.
_ever_checked = config.debug_key_reuse.value


def _check_from_now_on() -> None:
    global _ever_checked
    _ever_checked = True


config.debug_key_reuse.on_change.append(_check_from_now_on)


def is_checked() -> bool:
    """Tell whether uses of keys are checked."""
    return _ever_checked and config.debug_key_reuse.value


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

    __slots__ = ("_impl", "origin")

    def __init__(self, tensor: Tensor, impl: PRNGImpl, origin: "KeyArray | None" = None) -> None:
        super().__init__(tensor)
        self._impl, self.origin = impl, origin

    @property
    def kind(self) -> Any:
        """The key dtype: what makes a key array of a tensor."""
        return KeyDType(self._impl, self) if is_checked() else _kind_of(self._impl)

    def words(self) -> list[Array]:
        """Return the words of the keys, each an array of this array's shape."""
        tensor = tensor_of(self).view(torch.int32)
        flat = tensor.reshape(*self.shape, -1)
        return [Array(w.view(torch.uint32)) for w in flat.unbind(-1)]

    def with_words(self, words: Sequence[Array]) -> "KeyArray":
        """Return the keys that have these words."""
        stacked = torch.stack([w._tensor.view(torch.int32) for w in words], -1)
        tensor = stacked.reshape(*stacked.shape[:-1], *self._impl.key_shape).view(torch.uint32)
        moved = KeyArray(tensor, self._impl)
        if is_checked():
            key_reuse.forward(tensor_of(self), tensor)
        return moved

    def joined(self) -> "KeyArray":
        """Return these keys as part of an array that is made of several: they are consumed then."""
        if not is_checked():
            return self
        key_reuse.consume(tensor_of(self), True, "concatenate")
        return KeyArray(key_reuse.aliased(tensor_of(self)), self._impl)

    def sliced(self, positions: Callable[[], np.ndarray]) -> "KeyArray":
        """Return these keys as an array of which the ones at flat positions are taken: they are consumed then."""
        if not is_checked():
            return self
        mask = np.zeros(self.shape, bool)
        mask.reshape(-1)[positions()] = True
        key_reuse.consume(tensor_of(self), mask, "slice")
        return KeyArray(unused(tensor_of(self)), self._impl)

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
        return _kind_of(self._impl)

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
        if is_checked() and is_abstract(self):
            key_reuse.consume(tensor_of(self), True, "iter")
        return (KeyArray(t, self._impl) for t in tensor_of(self).unbind(0))

    def __getitem__(self, index: Any) -> "KeyArray":
        words = [w[index] for w in self.words()]  # pyright: ignore
        mask = _selected(self.shape, index) if is_checked() else None
        if mask is None:
            return self.with_words(words)
        key_reuse.consume(tensor_of(self), mask, "slice")
        return KeyArray(unused(tensor_of(self.with_words(words))), self._impl)

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

    @property
    def __dlpack__(self) -> Any:
        raise AttributeError("random keys cannot be exported by DLPack. Use jax.random.key_data(keys) for their words.")

    __dlpack_device__ = tobytes = __dlpack__  # pyright: ignore

    @property
    def real(self) -> Any:
        """Refused: a key is no number."""
        raise NotImplementedError(f"{self.dtype} are no numbers. Use jax.random.key_data(keys) for their words.")

    imag = real

    def item(self, *args: int) -> Any:
        """Refused: a key is no Python scalar."""
        raise NotImplementedError("a random key has no item(). Use jax.random.key_data(key) for its words.")

    def tolist(self) -> Any:
        """Refused: keys are no Python scalars."""
        raise AttributeError("random keys have no tolist(). Use jax.random.key_data(keys).tolist() for their words.")

    def __repr__(self) -> str:
        if is_abstract(self):
            return tracer_text(self)
        return f"Array({self.shape}, dtype={self.dtype}) overlaying:\n{to_numpy(self._tensor)}"

    __str__ = __repr__

    def __format__(self, format_spec: str) -> str:
        return object.__format__(self, format_spec)

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, (to_numpy(self._tensor), self._impl.name)


_OF_NUMBERS = (
    "all any argmax argmin argpartition argsort astype byteswap choose clip conj conjugate cumprod cumsum dot max mean "
    "min nonzero prod ptp round searchsorted sort std sum trace var view"
)


def _refused(name: str) -> Callable[..., Any]:
    def method(self: KeyArray, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            f"random keys have no method {name}: they are no numbers. Use jax.random.key_data(keys) for their words."
        )

    return method


for _name in _OF_NUMBERS.split():
    setattr(KeyArray, _name, _refused(_name))


KeyDType.array = KeyArray


@functools.cache
def _kind_of(impl: PRNGImpl) -> KeyDType:
    return KeyDType(impl)


def _selected(shape: tuple[int, ...], index: Any) -> np.ndarray | None:
    """Return which keys an index of integers and slices takes; None for any other, and for one that takes all."""
    items = index if isinstance(index, tuple) else (index,)
    if not any(isinstance(i, int | np.integer) or (isinstance(i, slice) and i != slice(None)) for i in items):
        return None
    if not all(i is None or i is Ellipsis or isinstance(i, int | np.integer | slice) for i in items):
        return None
    mask = np.zeros(shape, dtype=bool)
    try:
        mask[index] = True
    except IndexError:  # out of bounds: clamped
        return None
    return mask


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


def unused(tensor: Tensor) -> Tensor:
    """Return the words of keys that count as not consumed, whatever became of others made of the same tensor."""
    return key_reuse.aliased(tensor) if is_checked() else tensor
