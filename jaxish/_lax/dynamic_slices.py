"""Slices whose position is a value: start indices are clamped so that the slice lies within the operand.

Where a start is known now (a Python number, or a plain array outside of traces) the slice is a view; else it is
gathered along the dimensions that it does not cover.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .._core import dtypes, unsigned
from .._core.array import Array, device_of, tensor_of
from .._core.dimensions import canonical_axis
from .._core.extended import moves_elements
from .._core.operations import shown_as
from .._core.symbolic_sizes import index as index_of
from .._core.typing import ArrayLike
from .._tensors.elements import GatherScatterMode, has_cheap_value, put_elements, put_slice, slices_at, take_elements
from . import operands as ops
from .operands import check_same_dtypes, check_shapelike


@moves_elements(0)
def dynamic_slice(
    operand: ArrayLike,
    start_indices: Any,
    slice_sizes: Sequence[int],
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Array:
    """Return the slice of these static sizes that starts at `start_indices`, moved so that it fits.

    Negative starts count from the end unless `allow_negative_indices` (one flag, or one per dimension) is false.
    """
    t, weak = ops.operand("dynamic_slice", operand)
    starts = _starts("dynamic_slice", t, start_indices, allow_negative_indices)
    sizes = check_shapelike("dynamic_slice", "slice_sizes", tuple(slice_sizes))
    if len(sizes) != t.dim():
        raise ValueError(
            f"dynamic_slice slice_sizes must have one entry for each dimension, got {sizes} for {tuple(t.shape)}."
        )
    if any(n > size for n, size in zip(sizes, t.shape, strict=True)):
        raise TypeError(
            f"slice slice_sizes must be less than or equal to operand shape, got slice_sizes {sizes} for operand shape "
            f"{tuple(t.shape)}."
        )
    return Array(_sliced(t, starts, sizes), weak)


@moves_elements(0)
def dynamic_slice_in_dim(
    operand: ArrayLike, start_index: ArrayLike, slice_size: int, axis: int = 0, *, allow_negative_indices: bool = True
) -> Array:
    """Return a slice of static size along one dimension, moved so that it fits."""
    shape = ops.array_of("dynamic_slice_in_dim", operand).shape
    axis = canonical_axis(axis, len(shape))
    starts: list[Any] = [0] * len(shape)
    sizes = list(shape)
    starts[axis], sizes[axis] = start_index, index_of(slice_size)
    return dynamic_slice(
        operand, _same_dtype(starts, start_index), sizes, allow_negative_indices=allow_negative_indices
    )


@moves_elements(0)
def dynamic_index_in_dim(
    operand: ArrayLike, index: ArrayLike, axis: int = 0, keepdims: bool = True, *, allow_negative_indices: bool = True
) -> Array:
    """Return one position along a dimension, clamped to it."""
    found = dynamic_slice_in_dim(operand, index, 1, axis, allow_negative_indices=allow_negative_indices)
    return found if keepdims else Array(tensor_of(found).squeeze(axis), found._weak)


@moves_elements(0, 1, updates=True)
def dynamic_update_slice(
    operand: ArrayLike, update: ArrayLike, start_indices: Any, *, allow_negative_indices: bool | Sequence[bool] = True
) -> Array:
    """Return `operand` with `update`, of the same rank and dtype, written at `start_indices`, moved so that it fits."""
    t, _ = ops.operand("dynamic_update_slice", operand)
    u, _ = ops.operand("dynamic_update_slice", update)
    starts = _starts("dynamic_update_slice", t, start_indices, allow_negative_indices)
    if u.dim() != t.dim():
        raise TypeError(
            "dynamic_update_slice update must have the same rank as operand, got update shape "
            f"{tuple(u.shape)} for operand shape {tuple(t.shape)}."
        )
    if any(n > size for n, size in zip(u.shape, t.shape, strict=True)):
        raise TypeError(
            "dynamic_update_slice update shape must be smaller than operand shape, got update shape "
            f"{tuple(u.shape)} for operand shape {tuple(t.shape)}."
        )
    check_same_dtypes("dynamic_update_slice", t, u)
    return Array(_written(t, u, starts))


@moves_elements(0, 1, updates=True)
def dynamic_update_slice_in_dim(
    operand: ArrayLike, update: ArrayLike, start_index: ArrayLike, axis: int, *, allow_negative_indices: bool = True
) -> Array:
    """Return `operand` with `update` written at a position along one dimension, moved so that it fits."""
    rank = ops.array_of("dynamic_update_slice_in_dim", operand).ndim
    axis = canonical_axis(axis, rank)
    starts: list[Any] = [0] * rank
    starts[axis] = start_index
    return dynamic_update_slice(
        operand, update, _same_dtype(starts, start_index), allow_negative_indices=allow_negative_indices
    )


@moves_elements(0, 1, updates=True)
def dynamic_update_index_in_dim(
    operand: ArrayLike, update: ArrayLike, index: ArrayLike, axis: int, *, allow_negative_indices: bool = True
) -> Array:
    """Return `operand` with `update` written at one position along a dimension; `update` may lack that dimension."""
    array, new = (
        ops.array_of("dynamic_update_index_in_dim", operand),
        ops.array_of("dynamic_update_index_in_dim", update, 1),
    )
    axis = canonical_axis(axis, array.ndim)
    if new.ndim != array.ndim:
        assert new.ndim + 1 == array.ndim, f"update has {new.ndim} dimensions, operand {array.ndim}"
        new = Array(tensor_of(new).unsqueeze(axis), new._weak)
    return dynamic_update_slice_in_dim(array, new, index, axis, allow_negative_indices=allow_negative_indices)


@moves_elements(0)
def index_take(src: ArrayLike, idxs: Sequence[ArrayLike], axes: Sequence[int]) -> Array:
    """Return the elements at integer indices along `axes`, which stand first in the result; modulo the axes' sizes."""
    t, weak = ops.operand("index_take", src)
    dims = [canonical_axis(a, t.dim()) for a in axes]
    places = [tensor_of(ops.array_of("index_take", i, 1)) for i in idxs]
    places = [torch.remainder(p.to(torch.int64), t.shape[d] or 1) for p, d in zip(places, dims, strict=True)]
    rest = [d for d in range(t.dim()) if d not in dims]
    return Array(take_elements(t.permute(*dims, *rest), places, GatherScatterMode.CLIP), weak)


Start = int | Tensor


def _same_dtype(starts: list[Any], given: Any) -> list[Any]:
    """Return starts with the zeros in the dtype of the given one, where that is an array."""
    dtype = getattr(given, "dtype", None)
    if dtype is None:
        return starts
    zeros = torch.zeros((), dtype=dtypes.to_torch(dtypes.canonicalize_dtype(dtype)), device=device_of(given))
    return [s if s is given else Array(zeros) for s in starts]


def _starts(function: str, t: Tensor, start_indices: Any, allow_negative: bool | Sequence[bool]) -> list[Start]:
    """Return the start indices, counted from the front: numbers where they are known."""
    if isinstance(start_indices, Array) or hasattr(start_indices, "ndim"):
        indices = ops.array_of(function, start_indices, 1)
        if indices.ndim != 1:
            raise ValueError(f"Slice indices must be a 1D sequence, got {indices.shape}")
        given: Sequence[Any] = [Array(i) for i in tensor_of(indices).unbind(0)]
    else:
        given = tuple(start_indices)
    if len(given) != t.dim():
        raise ValueError(
            f"Length of slice indices must match number of operand dimensions ({len(given)} vs {tuple(t.shape)})"
        )
    flags = [allow_negative] * len(given) if isinstance(allow_negative, bool) else list(allow_negative)
    arrays = [i if type(i) is int else ops.array_of(function, i, 1) for i in given]
    found = [i.dtype if isinstance(i, Array) else dtypes.canonicalize_dtype("int64") for i in arrays]
    if any(d.kind not in "iu" for d in found) or len(set(found)) > 1:
        raise TypeError(
            f"index arguments to {function} must be integers of the same type, got: {', '.join(map(str, found))}"
        )
    return [_start(i, n, flag) for i, n, flag in zip(arrays, t.shape, flags, strict=True)]


def _start(index: Any, size: int, allow_negative: bool) -> Start:
    if type(index) is not int:
        tensor = tensor_of(index)
        if tensor.dim():
            raise TypeError(f"Slice indices must be scalars, got an index of shape {tuple(tensor.shape)}.")
        if not has_cheap_value(tensor):
            if tensor.dtype in unsigned.SIGNED:
                tensor = tensor.to(torch.int64)
            return (
                torch.where(tensor < 0, tensor + size, tensor) if allow_negative and tensor.dtype.is_signed else tensor
            )
        return int(tensor) + size if allow_negative and int(tensor) < 0 else int(tensor)
    if index < 0 and not allow_negative:
        raise ValueError(f"Index {index} is out of bounds for dimension {size} if allow_negative_indices=False")
    return index + size if index < 0 else index


def _clamped(start: Start, room: int) -> Start:
    return max(0, min(start, room)) if isinstance(start, int) else start.clamp(0, room)


@shown_as("dynamic_slice", lambda t, starts, sizes: {"slice_sizes": tuple(sizes)})
def _sliced(t: Tensor, starts: Sequence[Start], sizes: Sequence[int]) -> Tensor:
    places: dict[int, Tensor] = {}
    for d, (start, n) in enumerate(zip(starts, sizes, strict=True)):
        if n == t.shape[d]:
            continue
        start = _clamped(start, t.shape[d] - n)
        if isinstance(start, int):
            t = t.narrow(d, start, n)
        else:
            places[d] = (start + torch.arange(n, device=t.device, dtype=start.dtype)).to(torch.int64)
    return slices_at(t, tuple(places), tuple(places.values())) if places else t


@shown_as("dynamic_update_slice", lambda t, u, starts: {})
def _written(t: Tensor, u: Tensor, starts: Sequence[Start]) -> Tensor:
    return _updated(t, u, starts, 0)


def _updated(t: Tensor, u: Tensor, starts: Sequence[Start], d: int) -> Tensor:
    """Return `t` with `u` written over dimensions d and later; they agree in the sizes of the earlier ones."""
    while d < t.dim() and u.shape[d] == t.shape[d]:
        d += 1
    if d == t.dim():
        return u
    n = u.shape[d]
    if not n:
        return t
    start = _clamped(starts[d], t.shape[d] - n)
    if isinstance(start, int):
        inner = _updated(t.narrow(d, start, n), u, starts, d + 1)
        return put_slice(t, inner, d, start, start + n)
    places = start + torch.arange(n, device=t.device, dtype=start.dtype)
    if u.shape[d + 1 :] != t.shape[d + 1 :]:
        covered = slices_at(t, [d], [places.to(torch.int64)])
        u = _updated(covered, u, starts, d + 1)
    written = put_elements(
        t.movedim(d, 0), [places], u.movedim(d, 0), "set", GatherScatterMode.PROMISE_IN_BOUNDS, unique=True
    )
    return written.movedim(0, d)
