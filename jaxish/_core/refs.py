"""References to mutable arrays (`jax.ref`): `Ref`, read and written by index. What holds the array: `cells.py`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import EllipsisType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from . import axes, dtypes, errors, functorch, graph, levels, tree
from .array import Array, as_array, default_torch_device, from_kind, tensor_of
from .avals import AbstractValue, ShapedArray, aval_of, types_of_values
from .cells import Cell
from .promotion import convert


class AbstractRef(AbstractValue):
    """What is known of a reference: the abstract value of what it holds, and its kind."""

    __slots__ = ("inner_aval", "kind", "memory_space")

    def __init__(self, inner_aval: Any, memory_space: Any = None, kind: Any = None) -> None:
        self.inner_aval, self.memory_space, self.kind = inner_aval, memory_space, kind

    shape = property(lambda self: self.inner_aval.shape)
    dtype = property(lambda self: self.inner_aval.dtype)
    ndim = property(lambda self: len(self.shape))
    size = property(lambda self: self.inner_aval.size)
    weak_type = property(lambda self: self.inner_aval.weak_type)
    sharding = property(lambda self: self.inner_aval.sharding)

    def update(self, inner_aval: Any = None, memory_space: Any = None, kind: Any = None) -> "AbstractRef":
        """Return a copy with some of its attributes changed."""
        return AbstractRef(inner_aval or self.inner_aval, memory_space or self.memory_space, kind or self.kind)

    def str_short(self, short_dtypes: bool = False) -> str:
        """Return `Ref{float32[2,3]}`."""
        return f"Ref{{{self.inner_aval.str_short(short_dtypes)}}}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AbstractRef) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[Any, ...]:
        return self.inner_aval, self.memory_space, self.kind

    def __repr__(self) -> str:
        return self.str_short()


# ---------------------------------------------------------------------------------------------------------- references


class _Indexed:
    """What references and parts of them share: reading and writing by index."""

    __slots__ = ()

    shape: tuple[int, ...]

    def _read(self) -> Array:
        raise NotImplementedError

    def _write(self, value: Array) -> None:
        raise NotImplementedError

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def at(self) -> "_RefIndexer":
        """`ref.at[index]` is the part of the reference at an index, read and written like a reference."""
        return _RefIndexer(self)

    def transpose(self, *permutation: Any) -> "TransformedRef":
        """Return the reference with its dimensions in another order, by default turned round."""
        given = permutation[0] if permutation and isinstance(permutation[0], tuple | list) else permutation
        order = tuple(given) or tuple(reversed(range(self.ndim)))
        if sorted(order) != list(range(self.ndim)):
            raise ValueError(f"Permutation {order} does not match the rank of the type ({self.ndim})")
        inverse = tuple(order.index(i) for i in range(self.ndim))
        return TransformedRef(self, lambda a: a.transpose(order), lambda _, value: value.transpose(inverse))

    @property
    def T(self) -> "TransformedRef":
        """The reference with its dimensions turned round."""
        return self.transpose()

    def reshape(self, *shape: Any) -> "TransformedRef":
        """Return the reference seen in another shape, of which one dimension may be -1."""
        whole = self.shape
        new = self._read().reshape(*shape).shape
        return TransformedRef(self, lambda a: a.reshape(new), lambda _, value: value.reshape(whole))

    def get(self, idx: Any = ()) -> Array:
        """Return the elements at an index."""
        return get(self, idx)

    def set(self, value: Any, idx: Any = ()) -> None:
        """Replace the elements at an index."""
        set(self, idx, value)

    def swap(self, value: Any, idx: Any = ()) -> Array:
        """Replace the elements at an index, and return what was there."""
        return swap(self, idx, value)

    def addupdate(self, x: Any, idx: Any = ()) -> None:
        """Add to the elements at an index."""
        addupdate(self, idx, x)

    def __getitem__(self, idx: Any) -> Array:
        return get(self, idx)

    def __setitem__(self, idx: Any, value: Any) -> None:
        set(self, idx, value)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]


class Ref(Cell, _Indexed):
    """A reference to a mutable array, made by `jax.new_ref`: `ref[index]` reads, `ref[index] = value` writes."""

    __slots__ = ()

    @property
    def aval(self) -> AbstractRef:
        """The abstract value."""
        return AbstractRef(aval_of(self._array), None, self._purpose)

    @property
    def shape(self) -> tuple[int, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The size of each dimension."""
        return self._array.shape

    @property
    def dtype(self) -> Any:
        """The NumPy dtype."""
        return self._array.dtype

    @property
    def size(self) -> int:
        """The number of elements."""
        return self._array.size

    @property
    def sharding(self) -> Any:
        """How the array lies over devices."""
        return self._read().sharding

    @property
    def committed(self) -> bool:
        """Whether the array stays on its device: always."""
        return True

    _committed = committed

    def unsafe_buffer_pointer(self) -> int:
        """Return the address of the array's memory."""
        return self._read().unsafe_buffer_pointer()

    def _text(self) -> str:
        return str(self.aval)

    def __repr__(self) -> str:
        if self._home is not None or graph.is_tracing():
            return f"Ref({self.aval})"
        text = "Ref" + repr(self._array).removeprefix("Array")
        # What was written JAX shows as strong, although it reads it as weak.
        return text.replace(", weak_type=True", "") if self._written else text


# ------------------------------------------------------------------------------------------------------ at boundaries


class RefArgument(Array):
    """The value of a reference that is an argument of a function to be traced or mapped."""

    __slots__ = ("ref",)

    ref: Ref

    @staticmethod
    def of(ref: Ref) -> "RefArgument":
        """Return what stands for `ref` among the arguments."""
        value = ref._read()
        found = RefArgument(value._tensor, value._weak)
        found.ref = ref
        return found

    @property
    def kind(self) -> Any:
        return RefKind(self.ref._array.kind, self.ref._purpose)

    def like(self, tensor: Tensor) -> "RefArgument":
        """Return an argument for the same reference with another tensor: a slice, in a scan."""
        found = RefArgument(tensor, self._weak)
        found.ref = self.ref
        return found


@dataclass(frozen=True)
class RefKind:
    """The kind of arguments that are references: the kind of what is held, and what the cell is for."""

    inner: Any
    purpose: str | None

    def wrap(self, tensor: Tensor) -> Any:
        """Return a reference of the function's own, which holds `tensor` at first."""
        return Ref(from_kind(tensor, self.inner), self.purpose, tensor)


def references(arrays: Sequence[Array]) -> list[Ref]:
    """Return the references among the arguments of a function."""
    return [a.ref for a in arrays if type(a) is RefArgument]


def check_aliases(
    arrays: Sequence[Array], names: Callable[[], Sequence[str]], function: Callable[[], str], purpose: str
) -> None:
    """Raise `ValueError` where two of the arguments are one reference."""
    first: dict[Ref, int] = {}
    for i, array in enumerate(arrays):
        if type(array) is RefArgument and first.setdefault(array.ref, i) != i:
            known = names()
            pair = [known[j] if j < len(known) else f"argument {j}" for j in (first[array.ref], i)]
            raise ValueError(
                "only one reference to a mutable array may be passed as an argument to a function, but when tracing "
                f"{function()} for {purpose} the mutable array reference of type {array.ref.aval} appeared at both "
                f"{pair[0]} and {pair[1]}."
            )


def as_result(ref: Ref, function: str, result: Any) -> RefArgument:
    """Return what stands for a reference in the `result` of a mapped function that made it, of which vmap makes one.

    Raises `ValueError` where it is not such a reference.
    """
    innermost = functorch.peek_interpreter_stack()
    made_here = ref._home is graph.current_trace() and ref._level == axes.current_level() and ref._given is None
    if made_here and innermost is not None and innermost.key() == functorch.TransformType.Vmap:
        return RefArgument.of(ref)
    raise returned(ref, function, result)


def returned(ref: Ref, function: str, result: Any) -> ValueError:
    """Return the error for a function whose `result` has a reference in it."""
    trace = graph.current_trace()
    origin, place = "", next((tree.keystr(path) for path, leaf in tree.leaves_with_path(result) if leaf is ref), "")
    place = f" at output tree path result{place}" if place else ""
    if trace is not None and ref._home is trace:
        position = trace.position_of(ref._given)
        if position is None:
            origin = "\n\nThe returned mutable array was created on line of its own, within the function."
        elif position < len(trace.names):
            origin = f"\n\nThe returned mutable array was passed in as the argument {trace.names[position]}."
    purpose = trace.purpose.rpartition(" for ")[2] if trace is not None else "a transformation"
    return ValueError(
        f"function {function} traced for {purpose} returned a mutable array reference of type {ref.aval}{place}, but "
        f"mutable array references cannot be returned.{origin}"
    )


# ------------------------------------------------------------------------------------------------------------- parts


class TransformedRef(_Indexed):
    """A part of a reference, or a reference seen in another shape: read by one function, written by its inverse."""

    __slots__ = ("_index", "_put", "_take", "_whole")

    def __init__(
        self,
        whole: _Indexed,
        take: Callable[[Array], Array],
        put: Callable[[Array, Array], Array],
        index: tuple[Any, ...] | None = None,
    ) -> None:
        self._whole, self._take, self._put, self._index = whole, take, put, index

    @property
    def indexed(self) -> tuple[Any, tuple[Any, ...]] | None:
        """What this is a part of, and at which index; None where it is not made by indexing."""
        return None if self._index is None else (self._whole, self._index)

    @property
    def shape(self) -> tuple[int, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The size of each dimension."""
        return self._read().shape

    @property
    def dtype(self) -> Any:
        """The NumPy dtype."""
        return self._read().dtype

    def _read(self) -> Array:
        return self._take(self._whole._read())

    def _write(self, value: Array) -> None:
        self._whole._write(self._put(self._whole._read(), value))

    def __repr__(self) -> str:
        return f"TransformedRef({self._whole!r})"


class _RefIndexer:
    """What `ref.at` is; indexing it gives a part of the reference."""

    __slots__ = ("_ref",)

    def __init__(self, ref: _Indexed) -> None:
        self._ref = ref

    def __getitem__(self, index: Any) -> TransformedRef:
        parts = _checked(index, self._ref.shape)
        take, put = lambda a: _elements(a, parts), lambda a, value: _replaced(a, parts, value)
        return TransformedRef(self._ref, take, put, parts)


def _checked(index: Any, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Return an index as a tuple. Raises `ValueError` for what is out of bounds, as is known without values."""
    parts = index if isinstance(index, tuple) else () if index is None or index is Ellipsis else (index,)
    if sum(isinstance(p, EllipsisType) for p in parts) > 1:
        raise ValueError("Only one ellipsis is supported.")
    parts = tuple(_plain(p) for p in parts)
    places = [p for p in parts if not isinstance(p, EllipsisType)]
    if len(places) > len(shape):
        raise ValueError(f"`indices` must not be longer than `shape`: indices={parts}, shape={shape}")
    before = next((i for i, p in enumerate(parts) if isinstance(p, EllipsisType)), len(parts))
    dims = [*shape[:before], *shape[len(shape) - len(places) + before :]]
    for part, dim in zip(places, dims, strict=False):
        _check_part(part, dim)
    return parts


def _plain(part: Any) -> Any:
    """Return a Python or NumPy integer as an int, all else as it is."""
    if isinstance(part, bool | np.bool_ | np.integer):
        return int(part)
    return int(part) if isinstance(part, np.ndarray) and not part.ndim and part.dtype.kind in "iu" else part


def _check_part(part: Any, dim: int) -> None:
    if isinstance(part, slice):
        if isinstance(part.step, int) and part.step < 1:
            raise ValueError(f"slice must have a step >= 1 (found: {part.step})")
        return
    if isinstance(part, Array | np.ndarray) and part.dtype == np.bool_ and part.ndim:
        raise errors.tracer_error(errors.NonConcreteBooleanIndexError, part.shape)
    if isinstance(part, Array):
        known = not part.ndim and not levels.is_tracer(part._tensor)
        part = int(part) if known else None
    if isinstance(part, int) and part >= dim:
        raise ValueError(f"Out of bound indexer: idx={part}, dim={dim}.")


def _elements(array: Array, index: tuple[Any, ...]) -> Array:
    if not index:
        return array
    if all(isinstance(p, int | slice | EllipsisType) for p in index):
        return array[index]
    return array.at[index].get(mode="clip")


def _replaced(array: Array, index: tuple[Any, ...], value: Array) -> Array:
    if not index:
        return value
    # One element or block is put within bounds; elements of a list of places that are out of bounds are left out.
    one = all(isinstance(p, int | slice | EllipsisType) or not np.ndim(p) for p in index)
    return array.at[index].set(value, mode="clip" if one else None)


# --------------------------------------------------------------------------------------------------------- functions


def _reference(ref: Any, function: str) -> Any:
    if not isinstance(ref, _Indexed):
        raise ValueError(f"Can only call `{function}` on a `Ref`: {ref}.")
    return ref


def _fitting(value: Any, ref: Any, index: tuple[Any, ...], what: str) -> Array:
    """Return a value for the elements at `index`. Raises `ValueError` where its type is not theirs."""
    if isinstance(value, _Indexed):
        raise ValueError("Cannot store a Ref into another Ref. Did you forget to load from it using `[...]`?")
    array = as_array(value)
    if what == "swap":
        array = _cast(array, ref.dtype)
    if not index and array.shape == ref.shape:
        expected = ref.shape
    else:
        expected = _elements(ref._read(), index).shape
    if array.shape != expected:
        raise ValueError(
            f"Invalid shape for `{what}`. Ref shape: {ref.shape}. Expected shape: {expected}. Value shape: "
            f"{array.shape}. Transforms: {index}. "
        )
    if array.dtype != ref.dtype:
        raise ValueError(f"Invalid dtype for `{what}`. Ref dtype: {ref.dtype}. Value dtype: {array.dtype}. ")
    return array


def _cast(value: Array, dtype: Any) -> Array:
    """Return `value` in another dtype where that goes without saying: weak floats to floats, integers to integers."""
    if isinstance(dtype, dtypes.ExtendedDType) or value.dtype == dtype:
        return value
    both = lambda kind: dtypes.issubdtype(dtype, kind) and dtypes.issubdtype(value.dtype, kind)  # noqa: E731
    if (value.weak_type and both(np.floating)) or both(np.integer):
        return Array(convert(tensor_of(value), dtypes.to_torch(dtype)))
    return value


def get(ref: _Indexed, idx: Any = None) -> Array:
    """Return the elements of a reference at an index, as `ref[idx]` does.

    Raises `ValueError` for what is no reference and an index out of bounds.
    """
    _reference(ref, "ref_get")
    return _elements(ref._read(), _checked(idx, ref.shape))


def swap(ref: _Indexed, idx: Any, value: Any, _function_name: str = "ref_swap") -> Array:
    """Replace the elements of a reference at an index, and return what was there.

    Raises `ValueError` where the value's shape or dtype is not that of the elements.
    """
    _reference(ref, _function_name)
    index = _checked(idx, ref.shape)
    new, whole = _fitting(value, ref, index, "swap"), ref._read()
    ref._write(_replaced(whole, index, new))
    return _elements(whole, index)


def set(ref: _Indexed, idx: Any, value: Any) -> None:
    """Replace the elements of a reference at an index, as `ref[idx] = value` does.

    Raises `ValueError` where the value's shape or dtype is not that of the elements.
    """
    _reference(ref, "ref_set")
    index = _checked(idx, ref.shape)
    new = _fitting(value, ref, index, "swap")
    ref._write(_replaced(ref._read(), index, new) if index else new)


def addupdate(ref: _Indexed, idx: Any, x: Any) -> None:
    """Add to the elements of a reference at an index; at places that are named twice, twice.

    Raises `ValueError` where the value's shape or dtype is not that of the elements.
    """
    _reference(ref, "ref_addupdate")
    index = _checked(idx, ref.shape)
    new, whole = _fitting(x, ref, index, "addupdate"), ref._read()
    ref._write(whole.at[index].add(new) if index else whole + new)


def new_ref(init_val: Any, *, memory_space: Any = None, kind: str | None = None) -> Ref:
    """Return a reference to a mutable array that holds `init_val` at first.

    Values written to a reference of kind "no_grad_no_remat" leave their derivatives behind.
    Raises `NotImplementedError` for a `memory_space`: torch's tensors are in their device's memory.
    """
    if memory_space is not None:
        raise NotImplementedError("array ref with memory space is not supported; leave memory_space out.")
    if isinstance(init_val, _Indexed):
        raise TypeError("new_ref takes an array, not a reference: read it by [...].")
    array = as_array(init_val)
    return Ref(from_kind(tensor_of(array), array.kind) if graph.is_tracing() else array, kind)


def empty_ref(ty: Any, memory_space: Any = None) -> Ref:
    """Return a reference to an array of the type of `ty` (anything with shape and dtype), whose elements are not set.

    Here they are zero. Raises `NotImplementedError` for a `memory_space`.
    """
    aval = aval_of(ty) if isinstance(ty, ShapedArray | Array) else ShapedArray(ty.shape, ty.dtype)
    zeros = torch.zeros(aval.shape, dtype=dtypes.to_torch(aval.dtype), device=default_torch_device())
    return new_ref(Array(zeros), memory_space=memory_space)


def freeze(ref: Ref) -> Array:
    """Return what a reference holds; within a traced function the reference is of no more use."""
    value = _reference(ref, "freeze")._read()
    _end(ref)
    return value


def free_ref(ref: Ref) -> tuple[()]:
    """Say that a reference is not used any more; within a traced function a later use raises `ValueError`."""
    _reference(ref, "free_ref")._here()._alive("free_ref")
    _end(ref)
    return ()


def _end(ref: Ref) -> None:
    holder = ref._here()
    holder._freed = holder._home is not None


def typeof(x: Any) -> Any:
    """Return the abstract value of an array, a scalar, a reference or a value of a registered class."""
    if type(x) in types_of_values:
        return types_of_values[type(x)](x)
    return x.aval if isinstance(x, Ref) else aval_of(x)
