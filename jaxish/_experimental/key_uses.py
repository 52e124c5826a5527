"""What a function does to random keys, asked for and asserted: `jax.experimental.key_reuse._core`, for tests of libraries.

The notes are those of `jax_debug_key_reuse` (`_transforms/key_reuse.py`), which is set while a function is asked about.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

import numpy as np

from .._core import config
from .._core.array import as_array, tensor_of
from .._core.dtypes import ExtendedDType
from .._transforms import key_reuse
from .._transforms.jit import jit
from .._transforms.key_reuse import CheckedProgram, Mask


@functools.total_ordering
class _Place:
    """A position among arguments or results, and which of the keys there are meant."""

    __slots__ = ("idx", "mask")
    idx: int
    mask: Mask

    def __init__(self, idx: int, mask: Any = True) -> None:
        object.__setattr__(self, "idx", idx)
        object.__setattr__(self, "mask", _normal(mask))

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise ValueError(f"{type(self).__name__} is immutable")

    @property
    def _key(self) -> tuple[Any, ...]:
        return type(self).__name__, self.idx, np.shape(self.mask), tuple(np.ravel(self.mask).tolist())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Place) and self._key == other._key

    def __lt__(self, other: Any) -> bool:
        return isinstance(other, Forward) or self._key < other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.idx}{'' if self.mask is True else f', {self.mask}'})"


def _normal(mask: Any) -> Mask:
    found = np.array(mask, bool)
    if found.all() or not found.any():
        return bool(found.any())  # of no keys: none
    found.flags.writeable = False
    return found


class Sink(_Place):
    """An argument whose keys are consumed."""

    __slots__ = ()


class Source(_Place):
    """A result with keys that nothing has consumed."""

    __slots__ = ()


class Forward(NamedTuple):
    """An argument that is a result."""

    in_idx: int
    out_idx: int

    def __repr__(self) -> str:
        return f"Forward({self.in_idx}, {self.out_idx})"


class KeyReuseSignature:
    """What a function does to keys: `Sink`s, `Source`s and `Forward`s."""

    def __init__(self, *args: Sink | Source | Forward) -> None:
        self._args = frozenset(args)

    sinks = property(lambda self: [a for a in sorted(self._args) if isinstance(a, Sink)])
    sources = property(lambda self: [a for a in sorted(self._args) if isinstance(a, Source)])
    forwards = property(lambda self: [a for a in sorted(self._args) if isinstance(a, Forward)])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeyReuseSignature) and self._args == other._args

    def __hash__(self) -> int:
        return hash(self._args)

    def __repr__(self) -> str:
        return f"KeyReuseSignature{tuple(sorted(self._args))}"


def function_type_signature(fun: Callable[..., Any], *args: Any) -> KeyReuseSignature:
    """Return what `fun(*args)` does to keys; arguments may be types. Raises `KeyReuseError` where it uses a key again."""
    with config.debug_key_reuse(True):
        jitted = jit(fun)
        program = jitted.traced_anew(jitted.prepared(args, {}))
    assert isinstance(program, CheckedProgram)
    use, captured = program.key_use, len(program.closed.captured)
    keys = [i for i, kind in enumerate(program.out_kinds) if isinstance(kind, ExtendedDType)]
    fresh = (i for i in keys if i not in use.forwards and i not in use.spent)
    return KeyReuseSignature(
        *(Sink(i - captured, mask) for i, mask in use.sinks.items() if i >= captured),
        *map(Source, fresh),
        *(Forward(i - captured, position) for position, i in use.forwards.items() if i >= captured),
    )


def check_key_reuse(fun: Callable[..., Any], /, *args: Any) -> None:
    """Raise `KeyReuseError` where `fun(*args)` uses a key again."""
    function_type_signature(fun, *args)


def consume(key: Any) -> Any:
    """Return the keys, which are consumed by that."""
    key_reuse.consume(tensor_of(as_array(key)), True, "consume")
    return key


def assert_unconsumed(key: Any) -> None:
    """Raise `AssertionError` where one of the keys was consumed."""
    if np.any(_consumed(key)):
        raise AssertionError("Expected key to be unconsumed, but it was consumed before.")


def assert_consumed(key: Any, value: Any = True) -> None:
    """Raise `AssertionError` unless just the keys of the mask `value` were consumed."""
    found = _consumed(key)
    if not np.array_equal(np.broadcast_to(found, key.shape), np.broadcast_to(value, key.shape)):
        raise AssertionError(f"Expected key to be consumed where {value}; it was where {found}.")


def _consumed(key: Any) -> Mask:
    return key_reuse.note_of(tensor_of(as_array(key))).consumed
