"""Abstract values: what is known of an array before it has values."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from . import axes, dtypes, foreign_arrays
from .array import Array, as_array, default_torch_device, is_arraylike, type_text
from .axis_types import ManualAxisType
from .dimensions import SymbolicSize
from .memory import Space

_SAME = ManualAxisType()
_SYMBOLIC = (SymbolicSize, torch.SymInt)  # users', and those of a trace for all sizes


# Returns a sharding as the type of an array of some shape has it, None for one that says nothing; raises `ValueError`
# for one that does not fit. `_devices/shardings.py` sets it.
checked_sharding: Callable[[Any, tuple[Any, ...]], Any] | None = None


def sharding_for_struct(sharding: Any, shape: tuple[Any, ...]) -> Any:
    """Return the sharding that was given to a `ShapeDtypeStruct` of some shape, or raise; `_devices/layouts.py` puts it here."""
    return sharding


class AbstractValue:
    """Base class of abstract values."""


types_of_values: dict[
    type, Callable[[Any], AbstractValue]
] = {}  # of classes of values that users give types of their own


class ShapedArray(AbstractValue):
    """The shape, dtype and weak-type flag of an array, how it lies over an abstract mesh, if on any, and in which memory.

    `mat` tells in `shard_map` along which axes the value varies; types that differ in that alone are equal here.
    """

    __slots__ = ("_sharding", "dtype", "mat", "memory_space", "shape", "weak_type")

    def __init__(
        self, shape: Sequence[Any], dtype: Any, weak_type: bool = False, *, sharding: Any = None,
        manual_axis_type: ManualAxisType = _SAME, memory_space: Space = Space.Device,
    ) -> None:  # fmt: skip
        self.shape: tuple[Any, ...] = tuple(n if isinstance(n, _SYMBOLIC) else int(n) for n in shape)
        self.dtype = dtypes.dtype_of(dtype)
        self.weak_type = weak_type
        self.mat = manual_axis_type
        self.memory_space = memory_space
        self._sharding: Any = sharding and checked_sharding and checked_sharding(sharding, self.shape)

    manual_axis_type = property(lambda self: self.mat, doc="Along which axes the value varies within `shard_map`.")

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        total = 1
        for n in self.shape:
            total *= n
        return total

    def update(self, **changes: Any) -> "ShapedArray":
        """Return a copy with some of shape, dtype, weak_type, sharding and memory_space changed."""
        now = {
            "shape": self.shape, "dtype": self.dtype, "weak_type": self.weak_type, "sharding": self._sharding,
            "manual_axis_type": self.mat, "memory_space": self.memory_space,
        }  # fmt: skip
        return ShapedArray(**{**now, **changes})

    def strip_weak_type(self) -> "ShapedArray":
        """Return the same value with a strong dtype."""
        return self.update(weak_type=False)

    def to_tangent_aval(self) -> "ShapedArray":
        """Return the type of the tangents of values of this type: `float0` for integers."""
        if not isinstance(self.dtype, np.dtype) or dtypes.is_inexact(self.dtype):
            return self.strip_weak_type()
        return self.update(dtype=dtypes.float0, weak_type=False)

    to_ct_aval = at_least_vspace = to_tangent_aval

    def str_short(self, short_dtypes: bool = False) -> str:
        """Return `float32[2,3]`, or `f32[2,3]` with `short_dtypes`; `float32<host>[2@x,3]` where a mesh axis splits it."""
        text = (short_type_text(self) if short_dtypes else type_text(self)) + self._varying_text()
        if self.memory_space is not Space.Device:
            text = text.replace("[", f"<{self.memory_space.name.lower()}>[", 1)
        if self._sharding is None:
            return text
        parts = (p if isinstance(p, tuple) or p is None else (p,) for p in self._sharding.spec)
        sizes = [f"{n}@{_joined(p)}" if p else f"{n}" for n, p in zip(self.shape, parts, strict=True)]
        return f"{text[: text.index('[')]}[{','.join(sizes)}]{text[text.index(']') + 1 :]}"

    def _varying_text(self) -> str:
        spec = getattr(self._sharding, "spec", None)
        unreduced, reduced = (
            getattr(self.mat, kind) | getattr(spec, kind, frozenset()) for kind in ("unreduced", "reduced")
        )
        bound = [name for name, _ in axes.checked_axes()]
        kinds = [
            f"{letter}:{_joined(tuple(sorted(names, key=lambda n: (bound.index(n) if n in bound else 0, str(n)))))}"
            for letter, names in (("V", self.mat.varying), ("U", unreduced), ("R", reduced))
            if names
        ]
        return f"{{{', '.join(kinds)}}}" if kinds else ""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShapedArray) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[Any, ...]:
        return self.shape, self.dtype, self.weak_type, self._sharding, self.memory_space

    def __repr__(self) -> str:
        return f"ShapedArray({self.str_short()}{', weak_type=True' if self.weak_type else ''})"

    def __str__(self) -> str:
        return f"{'~' if self.weak_type else ''}{self.str_short()}"


def _joined(names: tuple[Any, ...]) -> str:
    return str(names[0]) if len(names) == 1 else f"({','.join(map(str, names))})"


class ShapeDtypeStruct:
    """A stand-in for an array in `eval_shape`, `jit(f).lower` and the like: shape, dtype, weak type, sharding.

    The sharding may be given by a `Format`, or by a `PartitionSpec` over the mesh that `set_mesh` has in force. With
    `is_ref` it stands for a reference to a mutable array. Raises `ValueError` for what is no sharding and for one of
    arrays with more dimensions, `TypeError` for a spec without a mesh.
    """

    __slots__ = ("dtype", "is_ref", "shape", "sharding", "weak_type")

    def __init__(
        self, shape: Sequence[Any], dtype: Any, *, sharding: Any = None, weak_type: bool = False, is_ref: bool = False
    ) -> None:
        if dtype is None:
            raise ValueError("ShapeDtypeStruct: dtype must be specified.")
        self.shape = tuple(shape)
        self.dtype = dtypes.dtype_of(dtype)
        self.sharding = None if sharding is None else sharding_for_struct(sharding, self.shape)
        self.weak_type = weak_type
        self.is_ref = is_ref

    @staticmethod
    def like(x: Any) -> "ShapeDtypeStruct":
        """Return a stand-in for `x`, an array or a scalar. Raises `TypeError` for what is neither."""
        aval = aval_of(x)
        is_placed = getattr(x, "committed", False)
        sharding = getattr(x, "sharding", None) if is_placed else None  # which traced arrays do not have
        return ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type, sharding=sharding)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return ShapedArray(self.shape, self.dtype).size

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def update(self, **changes: Any) -> "ShapeDtypeStruct":
        """Return a copy with some of its attributes changed."""
        current = {name: getattr(self, name) for name in self.__slots__}
        current.update(changes)
        return ShapeDtypeStruct(current.pop("shape"), current.pop("dtype"), **current)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShapeDtypeStruct) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[Any, ...]:
        return self.shape, self.dtype, self.sharding, self.weak_type, self.is_ref

    def __repr__(self) -> str:
        sharding = f", sharding={self.sharding}" if self.sharding is not None else ""
        weak = ", weak_type=True" if self.weak_type else ""
        reference = ", is_ref=True" if self.is_ref else ""
        return f"ShapeDtypeStruct(shape={self.shape}, dtype={self.dtype.name}{sharding}{weak}{reference})"


def short_type_text(x: Any) -> str:
    """Return dtype and shape as JAX writes them in graphs: `f32[2,3]`."""
    short = (
        x.dtype.name.replace("bfloat", "bf").replace("complex", "c").replace("float", "f")
        .replace("uint", "u").replace("int", "i")
    )  # fmt: skip
    return f"{short}[{','.join(map(str, x.shape))}]"


def zeros_of(aval: Any, device: torch.device | None = None) -> Array:
    """Return zeros of this type, on the default device if none is given."""
    shape, dtype = aval.shape, dtypes.to_torch(aval.dtype)
    return Array(torch.zeros(shape, dtype=dtype, device=device or default_torch_device()), aval.weak_type)


def aval_of(x: Any) -> ShapedArray:
    """Return the abstract value of an array, scalar, NumPy value, `ShapeDtypeStruct`, abstract value or registered class.

    Raises `TypeError` for anything else.
    """
    if isinstance(x, ShapedArray):
        return x
    if isinstance(x, ShapeDtypeStruct):
        return ShapedArray(x.shape, x.dtype, x.weak_type, sharding=getattr(x.sharding, "of_type", None))
    if not is_arraylike(x) and (abstract := foreign_arrays.found(foreign_arrays.abstract_values, x)):
        return abstract(x)
    array = x if isinstance(x, Array) else as_array(x)
    names = axes.varying(array._tensor)
    varies = ManualAxisType(varying=names) if names else _SAME
    return ShapedArray(array.shape, array.dtype, array.weak_type, manual_axis_type=varies)


foreign_arrays.abstract_values.update(dict.fromkeys((Array, np.ndarray, bool, int, float, complex), aval_of))
