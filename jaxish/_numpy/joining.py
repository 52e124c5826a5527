"""Arrays made of several, and split into several."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._core import dtypes, errors, unsigned
from .._core.array import Array, as_array, check_arraylike, is_weak
from .._core.dimensions import canonical_axes, canonical_axis
from .._core.extended import moves_elements
from .._core.promotion import promote, tensor, tensors
from .._core.typing import ArrayLike, DTypeLike
from .._transforms.shown_calls import shown_as_jit
from .arguments import concrete_values, converted, no_out
from .creation import array, asarray
from .manipulation import atleast_1d, atleast_2d, atleast_3d


def _parts(function: str, arrays: Any, dtype: DTypeLike | None = None) -> tuple[list[Tensor], bool]:
    if isinstance(arrays, Array | np.ndarray):
        source = as_array(arrays)
        if not source.ndim:
            raise TypeError(f"{function} requires a sequence of arrays; got a scalar.")
        parts: Sequence[Any] = list(source)
    elif not isinstance(arrays, Sequence):
        raise TypeError(f"{function} requires a sequence of arrays; got {type(arrays)}.")
    else:
        parts = arrays
    if not len(parts):
        raise ValueError(f"Need at least one array to {function}.")
    check_arraylike(function, *parts)
    if dtype is None:
        return promote(function, *parts)
    target = dtypes.to_torch(dtypes.requested_dtype(dtype, function))
    return [converted(t, target) for t in tensors(function, *parts)], False


@moves_elements(0)
def concatenate(arrays: Any, axis: int | None = 0, dtype: DTypeLike | None = None) -> Array:
    """Return the arrays joined along `axis` (None: flattened), in their common dtype or `dtype`.

    Raises `ValueError` for no arrays or scalars, `TypeError` for shapes that do not fit.
    """
    parts, weak = _parts("concatenate", arrays, dtype)
    if axis is None:
        return Array(torch.cat([p.flatten() for p in parts]), weak)
    if not parts[0].dim():
        raise ValueError("Zero-dimensional arrays cannot be concatenated.")
    axis = canonical_axis(axis, parts[0].dim())
    first = parts[0]
    for p in parts[1:]:
        if p.dim() != first.dim() or any(
            m != n for d, (m, n) in enumerate(zip(p.shape, first.shape, strict=True)) if d != axis
        ):
            raise TypeError(
                "Cannot concatenate arrays with shapes that differ in dimensions other than the one being "
                f"concatenated: concatenating along dimension {axis} for shapes "
                f"{', '.join(str(tuple(q.shape)) for q in parts)}."
            )
    return Array(torch.cat(parts, axis), weak)


@moves_elements(0)
def concat(arrays: Sequence[ArrayLike], /, *, axis: int | None = 0) -> Array:
    """Return the arrays joined along `axis`; see `concatenate`."""
    return concatenate(arrays, axis)


@moves_elements(0)
def stack(arrays: Any, axis: int = 0, out: None = None, dtype: DTypeLike | None = None) -> Array:
    """Return the arrays, of one shape, joined along a new axis. Raises `ValueError` for unequal shapes."""
    no_out("stack", out)
    parts, weak = _parts("stack", arrays, dtype)
    if len({p.shape for p in parts}) > 1:
        raise ValueError("All input arrays must have the same shape.")
    return Array(torch.stack(parts, canonical_axis(axis, parts[0].dim() + 1)), weak)


@moves_elements(0)
def unstack(x: ArrayLike, /, *, axis: int = 0) -> tuple[Array, ...]:
    """Return the slices of `x` along `axis`. Raises `ValueError` for a scalar."""
    t = tensor("unstack", x)
    if not t.dim():
        raise ValueError("Unstack requires arrays with rank > 0, however a scalar array was passed.")
    return tuple(Array(p, is_weak(x)) for p in t.unbind(canonical_axis(axis, t.dim())))


def _each(function: str, tup: Any, widen: Any) -> list[Any]:
    if isinstance(tup, Array | np.ndarray):
        found = list(as_array(tup))
        return [widen(x) for x in found]
    if not isinstance(tup, Sequence):
        raise TypeError(f"{function} requires a sequence of arrays; got {type(tup)}.")
    check_arraylike(function, *tup)
    return [widen(x) for x in tup]


@moves_elements(0)
def vstack(tup: Any, dtype: DTypeLike | None = None) -> Array:
    """Return the arrays, vectors taken as rows, joined along the first axis."""
    return concatenate(_each("vstack", tup, atleast_2d), 0, dtype)


@moves_elements(0)
def hstack(tup: Any, dtype: DTypeLike | None = None) -> Array:
    """Return the arrays joined along the second axis, vectors along the first."""
    parts = _each("hstack", tup, atleast_1d)
    return concatenate(parts, 0 if parts and parts[0].ndim == 1 else 1, dtype)


@moves_elements(0)
def dstack(tup: Any, dtype: DTypeLike | None = None) -> Array:
    """Return the arrays, made 3-d, joined along the third axis."""
    return concatenate(_each("dstack", tup, atleast_3d), 2, dtype)


@moves_elements(0)
def column_stack(tup: Any) -> Array:
    """Return the arrays, vectors taken as columns, joined along the second axis."""

    def column(x: Any) -> Array:
        t = tensor("column_stack", x)
        return Array(t if t.dim() >= 2 else t.reshape(t.numel(), 1), is_weak(x))

    return concatenate(_each("column_stack", tup, column), 1)


@shown_as_jit("axis")
@moves_elements(0, 1)
def append(arr: ArrayLike, values: ArrayLike, axis: int | None = None) -> Array:
    """Return `arr` with `values` behind it along `axis`; None flattens both."""
    check_arraylike("append", arr, values)
    if axis is None:
        return concatenate(
            [Array(t.flatten(), is_weak(x)) for t, x in zip(tensors("append", arr, values), (arr, values), strict=True)]
        )
    return concatenate([arr, values], axis)


@moves_elements(0)
def block(arrays: Any) -> Array:
    """Return an array assembled of nested lists of blocks: the innermost lists run along the last axis."""
    found, _ = _block(arrays)
    return found


def _block(part: Any) -> tuple[Array, int]:
    if isinstance(part, tuple):
        raise ValueError("jnp.block does not allow tuples, got " + repr(part))
    if not isinstance(part, list):
        check_arraylike("block", part)
        return Array(tensor("block", part), is_weak(part)), 1
    if not part:
        raise ValueError("jnp.block does not allow empty list arguments")
    found = [_block(p) for p in part]
    depths = {d for _, d in found}
    if len(depths) > 1:
        raise ValueError("Mismatched list depths in jnp.block")
    depth = depths.pop()
    rank = max(depth, max(a.ndim for a, _ in found))
    arrays = [Array(a._tensor.reshape((1,) * (rank - a.ndim) + a.shape), a._weak) for a, _ in found]
    return concatenate(arrays, -depth), depth + 1


# ------------------------------------------------------------------------------------------------------- splitting


def _cuts(function: str, ary: Any, indices_or_sections: Any, axis: int, uneven: bool) -> list[Array]:
    t = tensor(function, ary)
    axis = canonical_axis(axis, t.dim(), error=IndexError)
    size = t.shape[axis]
    if isinstance(indices_or_sections, list | tuple) or np.ndim(indices_or_sections) > 0:
        edges = [
            int(concrete_values(i, errors.ConcretizationTypeError, f"in jax.numpy.{function} argument 1"))
            for i in indices_or_sections
        ]
        edges = [0, *edges, size]
        if any(b < a for a, b in itertools.pairwise(edges)):
            raise ValueError(
                f"{function}: indices must rise from 0 to the size of the axis, {size}; got {indices_or_sections}."
            )
    else:
        sections = int(concrete_values(indices_or_sections, errors.ConcretizationTypeError, f"in jax.numpy.{function}"))
        if sections <= 0:
            raise ValueError(f"number of sections must be larger than 0; got {sections}.")
        part, extra = size // sections, size % sections
        if extra and not uneven:
            raise ValueError("array split does not result in an equal division: rest is " + str(extra))
        edges = [i * part + min(i, extra) for i in range(sections + 1)]
    weak = is_weak(ary)
    return [Array(t.narrow(axis, start, stop - start), weak) for start, stop in itertools.pairwise(edges)]


@moves_elements(0)
def split(ary: ArrayLike, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """Return `ary` cut along `axis` into equal sections, or at the given indices. Raises `ValueError` for a rest."""
    return _cuts("split", ary, indices_or_sections, axis, False)


@moves_elements(0)
def array_split(ary: ArrayLike, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """Return `ary` cut along `axis` into sections that differ by at most one, or at the given indices."""
    return _cuts("array_split", ary, indices_or_sections, axis, True)


@moves_elements(0)
def vsplit(ary: ArrayLike, indices_or_sections: Any) -> list[Array]:
    """Return `ary` split along the first axis."""
    return _cuts("vsplit", ary, indices_or_sections, 0, False)


@moves_elements(0)
def hsplit(ary: ArrayLike, indices_or_sections: Any) -> list[Array]:
    """Return `ary` split along the second axis, a vector along the first."""
    return _cuts("hsplit", ary, indices_or_sections, 0 if as_array(ary).ndim == 1 else 1, False)


@moves_elements(0)
def dsplit(ary: ArrayLike, indices_or_sections: Any) -> list[Array]:
    """Return `ary` split along the third axis."""
    return _cuts("dsplit", ary, indices_or_sections, 2, False)


# --------------------------------------------------------------------------------------------- removing and inserting


@moves_elements(0)
def delete(arr: ArrayLike, obj: Any, axis: int | None = None, *, assume_unique_indices: bool = False) -> Array:
    """Return `arr` without the slices along `axis` (None: elements of the flattened array) at `obj`.

    `obj` is an integer, a slice, or integers or a mask whose values are known; traced integers need
    `assume_unique_indices`, which promises that they are in bounds and different.
    """
    check_arraylike("delete", arr)
    t, weak = tensor("delete", arr), is_weak(arr)
    if axis is None:
        t, axis = t.flatten(), 0
    axis = canonical_axis(axis, t.dim())
    size = t.shape[axis]
    if isinstance(obj, slice):
        obj = np.arange(*obj.indices(size))
    check_arraylike("delete", obj)
    places = as_array(obj, t.device)
    is_scalar = not places.ndim
    if is_scalar or assume_unique_indices:
        index = tensor("delete", places).flatten().to(torch.int64)
        if places.dtype.kind not in "iu" and places.size:
            raise ValueError(f"np.delete(arr, obj): got obj.dtype={places.dtype}; must be integer or bool.")
        index = torch.where(index < 0, index + size, index).clamp(0, max(size - 1, 0))
        if is_scalar and not size:
            raise IndexError("delete: index is out of bounds for an axis of size 0")
        index = torch.sort(index).values
        kept = torch.arange(size - index.shape[0], device=t.device)
        # The k-th element that is left is k plus the number of deleted elements up to it.
        before = (index - torch.arange(index.shape[0], device=t.device)).unsqueeze(0) <= kept.unsqueeze(1)
        source = kept + before.sum(1)
        return Array(unsigned.via_bits(lambda x: torch.index_select(x, axis, source), t), weak)
    values = concrete_values(places, errors.ConcretizationTypeError, "in the 'obj' argument of jnp.delete()")
    mask = np.ones(size, dtype=bool)
    if values.dtype == np.bool_:
        if values.shape != (size,):
            raise ValueError(
                "np.delete(arr, obj): for boolean indices, obj must be one-dimensional with length matching the axis."
            )
        mask = ~values
    elif values.dtype.kind in "iu" or not values.size:
        mask[values.astype(np.int64)] = False
    else:
        raise ValueError(f"np.delete(arr, obj): got obj.dtype={values.dtype}; must be integer or bool.")
    return Array(t, weak)[(*(slice(None),) * axis, mask)]  # pyright: ignore


@moves_elements(0, 2)
def insert(arr: ArrayLike, obj: Any, values: ArrayLike, axis: int | None = None) -> Array:
    """Return `arr` with `values` inserted before the indices `obj` along `axis` (None: of the flattened array)."""
    check_arraylike("insert", arr, 0 if isinstance(obj, slice) else obj, values)
    t, weak = tensor("insert", arr), is_weak(arr)
    if axis is None:
        t, axis = t.flatten(), 0
    axis = canonical_axis(axis, t.dim())
    size = t.shape[axis]
    places = asarray(np.arange(*obj.indices(size)) if isinstance(obj, slice) else obj, device=t.device)
    if places.ndim > 1:
        raise ValueError(f"jnp.insert(): obj must be a slice, a one-dimensional array, or a scalar; got {obj}")
    if places.dtype.kind not in "iu" and places.size:
        raise ValueError(f"jnp.insert(): index array must be integer typed; got {obj}")
    new = tensor("insert", array(values, dtype=dtypes.TO_NUMPY[t.dtype], ndmin=t.dim(), device=t.device))
    index = tensor("insert", places).to(torch.int64)
    if index.numel() == 1:
        if not index.dim():
            new = new.movedim(0, axis)
        index = index.reshape(1).expand(new.shape[axis])
    count = new.shape[axis] if index.shape[0] == 1 else index.shape[0]
    index = torch.where(index < 0, index + size, index).clamp(0, size).expand(count)
    new = new.expand([count if d == axis else n for d, n in enumerate(t.shape)])
    # Element k of the sorted insertions moves k places on; the given elements keep their order around them.
    rank = torch.sort(torch.sort(index, stable=True).indices).indices
    keys = torch.cat([index * (count + 1) + rank, torch.arange(size, device=t.device) * (count + 1) + count])
    order = torch.sort(keys).indices
    both = torch.cat([new, t], axis)
    return Array(unsigned.via_bits(lambda x: torch.index_select(x, axis, order), both), weak)


def trim_zeros(filt: ArrayLike, trim: str = "fb", axis: int | Sequence[int] | None = None) -> Array:
    """Return `filt` without the zeros at the front ("f") and back ("b") of its axes; its values must be known."""
    t = tensor("trim_zeros", filt)
    axes = canonical_axes(axis, t.dim())
    values = concrete_values(
        Array(t), errors.ConcretizationTypeError, "Error arose in the `filt` argument of trim_zeros()"
    )
    index: list[slice] = [slice(None)] * t.dim()
    for d in axes:
        filled = np.nonzero((values != 0).any(axis=tuple(i for i in range(t.dim()) if i != d)))[0]
        if not len(filled):
            index[d] = slice(0, 0)
            continue
        start = int(filled[0]) if "f" in trim.lower() else 0
        stop = int(filled[-1]) + 1 if "b" in trim.lower() else t.shape[d]
        index[d] = slice(start, stop)
    return Array(t[tuple(index)], is_weak(filt))
