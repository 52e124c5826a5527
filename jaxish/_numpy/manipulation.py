"""Shapes and the order of axes and elements: reshape, transpose, flip, roll, repeat and their like."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._core import dtypes, errors, selection, unsigned
from .._core.array import Array, check_arraylike, is_abstract, is_weak, warn_arraylike
from .._core.dimensions import (
    broadcast_shape,
    canonical_axes,
    canonical_axis,
    canonical_shape,
    each_of,
    expanded,
    static_int,
)
from .._core.extended import moves_elements
from .._core.promotion import tensor
from .._core.symbolic_sizes import index as index_of
from .._core.typing import ArrayLike, DTypeLike, Shape
from .._devices.shardings import NamedSharding, PartitionSpec
from .._lax.out_sharding import laid_over
from .._transforms.shown_calls import shown_as_jit
from .arguments import concrete_values, no_out
from .creation import asarray
from .reductions import static_axis
from .reductions import sum as array_sum


def ndim(a: ArrayLike) -> int:
    """Return the number of dimensions of `a`."""
    warn_arraylike("ndim", a)
    return a.ndim if hasattr(a, "ndim") else np.ndim(a)  # pyright: ignore


def shape(a: ArrayLike) -> tuple[int, ...]:
    """Return the shape of `a`."""
    warn_arraylike("shape", a)
    return tuple(a.shape) if hasattr(a, "shape") else np.shape(a)  # pyright: ignore


def size(a: ArrayLike, axis: int | Sequence[int] | None = None) -> int:
    """Return the number of elements of `a`, along `axis` if given."""
    warn_arraylike("size", a)
    sizes = np.shape(a) if isinstance(a, list | tuple) else shape(a)  # pyright: ignore
    return math.prod(sizes[d] for d in canonical_axes(axis, len(sizes)))


# ---------------------------------------------------------------------------------------------------------- shapes


def _fortran(t: Tensor) -> Tensor:
    return t.permute(tuple(reversed(range(t.dim()))))


def reshape_tensor(t: Tensor, sizes: tuple[int, ...], order: str = "C") -> Tensor:
    """Return `t` with a known shape, its elements read and written in the given order."""
    if order == "C":
        return t.reshape(sizes)
    if order == "F":
        return _fortran(_fortran(t).reshape(tuple(reversed(sizes))))
    if order == "A":
        raise NotImplementedError("np.reshape order=A is not implemented. Use order='C' or 'F'.")
    raise ValueError(f"Unexpected value for 'order' argument: {order}. Use 'C' or 'F'.")


def _new_shape(t: Tensor, wanted: Any) -> tuple[int, ...]:
    try:
        sizes = tuple(wanted)
    except TypeError:  # one number
        sizes = (wanted,)
    known = [s if type(s) is int else _size(s, wanted) for s in sizes]
    total = t.numel()
    if known.count(-1) > 1:
        raise TypeError(f"can only specify one unknown axis size with a `-1` value, got {tuple(sizes)}")
    if any(n < -1 for n in known):
        raise TypeError(f"Shape cannot have negative dimensions other than one -1; got {tuple(sizes)}")
    rest = math.prod(n for n in known if n != -1)
    if -1 in known:
        if not rest or total % rest:
            raise TypeError(f"cannot reshape array of shape {tuple(t.shape)} (size {total}) into shape {tuple(sizes)}")
        known[known.index(-1)] = total // rest
    elif rest != total:
        raise TypeError(
            f"cannot reshape array of shape {tuple(t.shape)} (size {total}) into shape {tuple(sizes)} (size {rest})"
        )
    return tuple(known)


def _size(value: Any, wanted: Any) -> int:
    try:
        return index_of(value)
    except (TypeError, errors.TracerIntegerConversionError):
        raise TypeError(f"Shapes must be 1D sequences of concrete values of integer type, got {wanted}.") from None


@moves_elements(0)
def reshape(a: ArrayLike, shape: Any, order: str = "C", *, copy: bool | None = None, out_sharding: Any = None) -> Array:
    """Return the elements of `a` in another shape, one size of which may be -1 (what is left).

    `order` "C" runs through the last axis first, "F" through the first. Raises `TypeError` for sizes that do not fit.
    """
    if out_sharding is not None:
        return laid_over(out_sharding, "reshape", reshape(a, shape, order, copy=copy))
    t = tensor("reshape", a)
    if isinstance(shape, Array) and shape.ndim == 1 and not is_abstract(shape):
        shape = shape.tolist()
    return Array(reshape_tensor(t, _new_shape(t, shape), order), is_weak(a))


@moves_elements(0)
def ravel(a: ArrayLike, order: str = "C", *, out_sharding: Any = None) -> Array:
    """Return the elements of `a` in one dimension; `order` as in `reshape`."""
    if out_sharding is not None:
        return laid_over(out_sharding, "ravel", ravel(a, order))
    t = tensor("ravel", a)
    if order == "K":
        raise NotImplementedError("Ravel not implemented for order='K'. Use order='C' or 'F'.")
    return Array(reshape_tensor(t, (t.numel(),), order), is_weak(a))


@moves_elements(0)
def squeeze(a: ArrayLike, axis: int | Sequence[int] | None = None) -> Array:
    """Return `a` without the axes of size one, or without those in `axis`, which must have size one (`ValueError`)."""
    t = tensor("squeeze", a)
    if axis is None:
        axes = tuple(d for d, n in enumerate(t.shape) if n == 1)
    else:
        axes = canonical_axes(static_axis(axis), t.dim())
        wrong = [d for d in axes if t.shape[d] != 1]
        if wrong:
            raise ValueError(
                f"cannot select an axis to squeeze out which has size not equal to one, got shape={tuple(t.shape)} "
                f"and dimensions={axes}"
            )
    return Array(t.squeeze(axes) if axes else t, is_weak(a))


@moves_elements(0)
def expand_dims(a: ArrayLike, axis: int | Sequence[int]) -> Array:
    """Return `a` with axes of size one inserted at the positions `axis` of the result."""
    t = tensor("expand_dims", a)
    positions = each_of(axis)
    for position in sorted(canonical_axes(positions, t.dim() + len(positions))):
        t = t.unsqueeze(position)
    return Array(t, is_weak(a))


def atleast_1d(*arys: ArrayLike) -> Array | list[Array]:
    """Return each argument with at least one dimension."""
    return _each_at_least("atleast_1d", arys, lambda t: t.reshape(1) if not t.dim() else t)


def atleast_2d(*arys: ArrayLike) -> Array | list[Array]:
    """Return each argument with at least two dimensions, new ones in front."""
    return _each_at_least(
        "atleast_2d", arys, lambda t: t.reshape((1,) * (2 - t.dim()) + tuple(t.shape)) if t.dim() < 2 else t
    )


def atleast_3d(*arys: ArrayLike) -> Array | list[Array]:
    """Return each argument with at least three dimensions: a vector becomes (1, n, 1), a matrix (m, n, 1)."""

    def widen(t: Tensor) -> Tensor:
        if t.dim() == 0:
            return t.reshape(1, 1, 1)
        if t.dim() == 1:
            return t.reshape(1, t.numel(), 1)
        return t.unsqueeze(-1) if t.dim() == 2 else t

    return _each_at_least("atleast_3d", arys, widen)


def _each_at_least(function: str, arys: Sequence[Any], widen: Any) -> Any:
    check_arraylike(function, *arys)
    found = [_widened(a, function, widen) for a in arys]
    return found[0] if len(found) == 1 else found


@moves_elements(0)
def _widened(a: ArrayLike, function: str, widen: Any) -> Array:
    return Array(widen(tensor(function, a)), is_weak(a))


def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """Return the shape that arrays of these shapes have in common. Raises `ValueError` where there is none."""
    return broadcast_shape(*(canonical_shape(s) for s in shapes))


def broadcast_arrays(*args: ArrayLike) -> list[Array]:
    """Return the arguments broadcast to their common shape."""
    check_arraylike("broadcast_arrays", *args)
    common = broadcast_shape(*map(shape, args))
    return [broadcast_to(a, common) for a in args]


@moves_elements(0)
def broadcast_to(array: ArrayLike, shape: Any, *, out_sharding: NamedSharding | PartitionSpec | None = None) -> Array:
    """Return `array` broadcast to `shape`. Raises `ValueError` where that is impossible."""
    if out_sharding is not None:
        return laid_over(out_sharding, "broadcast_to", broadcast_to(array, shape))
    return Array(expanded(tensor("broadcast_to", array), canonical_shape(shape)), is_weak(array))


@shown_as_jit("new_shape")
@moves_elements(0)
def resize(a: ArrayLike, new_shape: int | Shape) -> Array:
    """Return an array of the new shape, filled with the elements of `a`, repeated as often as needed."""
    t, sizes = tensor("resize", a), canonical_shape(new_shape)
    total = math.prod(sizes)
    if not t.numel():
        return Array(torch.zeros(sizes, dtype=t.dtype, device=t.device), is_weak(a))
    repeats = -(-total // t.numel())
    return Array(t.flatten().repeat(repeats)[:total].reshape(sizes), is_weak(a))


# ------------------------------------------------------------------------------------------------- order of the axes


@moves_elements(0)
def transpose(a: ArrayLike, axes: Sequence[int] | None = None) -> Array:
    """Return `a` with its axes in the order `axes`, reversed by default. Raises `TypeError` for no permutation."""
    t = tensor("transpose", a)
    if axes is None:
        order = tuple(reversed(range(t.dim())))
    else:
        order = tuple(canonical_axis(static_int(d, "axes"), t.dim()) for d in axes)
        if sorted(order) != list(range(t.dim())):
            raise TypeError(
                f"axes {tuple(axes)} is no permutation of the dimensions of an array of shape {tuple(t.shape)}."
            )
    return Array(t.permute(order), is_weak(a))


@moves_elements(0)
def permute_dims(a: ArrayLike, /, axes: Sequence[int]) -> Array:
    """Return `a` with its axes in the order `axes`."""
    return transpose(a, axes)


@moves_elements(0)
def matrix_transpose(x: ArrayLike, /) -> Array:
    """Return `x` with its last two axes swapped. Raises `ValueError` for fewer than two dimensions."""
    t = tensor("matrix_transpose", x)
    if t.dim() < 2:
        raise ValueError(f"x must be at least two-dimensional for matrix_transpose; got ndim={t.dim()}")
    return Array(t.transpose(-1, -2), is_weak(x))


@moves_elements(0)
def swapaxes(a: ArrayLike, axis1: int, axis2: int) -> Array:
    """Return `a` with two axes swapped."""
    t = tensor("swapaxes", a)
    return Array(t.transpose(*(canonical_axis(axis, t.dim(), error=IndexError) for axis in (axis1, axis2))), is_weak(a))


@moves_elements(0)
def moveaxis(a: ArrayLike, source: int | Sequence[int], destination: int | Sequence[int]) -> Array:
    """Return `a` with the axes `source` moved to the positions `destination`. Raises `ValueError` for unequal numbers."""
    t = tensor("moveaxis", a)
    sources, targets = (canonical_axes(() if d is None else d, t.dim()) for d in (source, destination))
    if len(sources) != len(targets):
        raise ValueError(f"Inconsistent number of elements: {len(sources)} vs {len(targets)}")
    return Array(t.movedim(sources, targets) if sources else t, is_weak(a))


@shown_as_jit("axis", "start")
@moves_elements(0)
def rollaxis(a: ArrayLike, axis: int, start: int = 0) -> Array:
    """Return `a` with `axis` moved in front of the axis that stands at `start`."""
    t = tensor("rollaxis", a)
    axis = canonical_axis(axis, t.dim())
    if not -t.dim() <= start <= t.dim():
        raise ValueError(f"start={start} must satisfy -{t.dim()} <= start <= {t.dim()}")
    start = start + t.dim() if start < 0 else start
    return Array(t.movedim(axis, start - 1 if start > axis else start), is_weak(a))


# --------------------------------------------------------------------------------------------- order of the elements


@shown_as_jit("axis", name="_flip")
@moves_elements(0)
def flip(m: ArrayLike, axis: int | Sequence[int] | None = None) -> Array:
    """Return `m` with the elements in reverse order along `axis` (None: along all axes)."""
    t = tensor("flip", m)
    return Array(unsigned.flip(t, canonical_axes(static_axis(axis), t.dim())), is_weak(m))


@moves_elements(0)
def fliplr(m: ArrayLike) -> Array:
    """Return `m` with its columns in reverse order (axis 1)."""
    return flip(m, 1)


@moves_elements(0)
def flipud(m: ArrayLike) -> Array:
    """Return `m` with its rows in reverse order (axis 0)."""
    return flip(m, 0)


@shown_as_jit("k", "axes")
@moves_elements(0)
def rot90(m: ArrayLike, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Array:
    """Return `m` turned by k times 90 degrees in the plane of `axes`, from the first towards the second."""
    t = tensor("rot90", m)
    if t.dim() < 2:
        raise ValueError(
            "rot90 requires its first argument to have ndim at least two, but got first argument of shape "
            f"{tuple(t.shape)}, which has ndim {t.dim()}."
        )
    first, second = (canonical_axis(d, t.dim()) for d in axes)
    if first == second:
        raise ValueError("Axes must be different")
    turns = k % 4
    if turns == 1:
        t = unsigned.flip(t, (second,)).transpose(first, second)
    elif turns == 2:
        t = unsigned.flip(t, (first, second))
    elif turns == 3:
        t = unsigned.flip(t.transpose(first, second), (second,))
    return Array(t, is_weak(m))


@moves_elements(0)
def roll(a: ArrayLike, shift: ArrayLike | Sequence[int], axis: int | Sequence[int] | None = None) -> Array:
    """Return `a` with elements shifted around along `axis` (None: in the flattened array); `shift` may be traced."""
    t, weak = tensor("roll", a), is_weak(a)
    if axis is None:
        return Array(_rolled(t.flatten(), [(s, 0) for s in _shift_list(shift)]).reshape(t.shape), weak)
    axes = [canonical_axis(d, t.dim()) for d in each_of(axis)]
    shifts = _shift_list(shift)
    count = len(axes) if len(shifts) == 1 else len(shifts)
    if len(axes) not in (1, count):
        raise ValueError(f"roll: {len(shifts)} shifts do not fit {len(axes)} axes.")
    pairs = list(zip(*(x * count if len(x) == 1 else x for x in (shifts, axes)), strict=True))
    return Array(_rolled(t, pairs), weak)


def _shift_list(shift: Any) -> list[Any]:
    if isinstance(shift, tuple | list):
        return list(shift)
    t = tensor("roll", shift)
    if t.dim() > 1:
        raise ValueError("shift must be an integer or a sequence of integers.")
    return [shift] if not t.dim() else [Array(s) for s in t.unbind(0)]


def _rolled(t: Tensor, pairs: list[tuple[Any, int]]) -> Tensor:
    for shift, axis in pairs:
        if not t.shape[axis]:
            continue
        if not isinstance(shift, Array):
            # torch.roll becomes an index with a remainder in compiled code, which takes five times as long.
            first = -static_int(shift, "shift") % t.shape[axis]
            parts = t.narrow(axis, first, t.shape[axis] - first), t.narrow(axis, 0, first)
            t = torch.cat(parts, axis) if first else t
            continue
        amount = tensor("roll", shift).reshape(1).to(torch.int64)
        places = torch.remainder(torch.arange(t.shape[axis], device=t.device) - amount, t.shape[axis])
        t = unsigned.via_bits(lambda x, axis=axis, places=places: torch.index_select(x, axis, places), t)
    return t


# --------------------------------------------------------------------------------------------------- repeats, diagonals


@moves_elements(0)
def tile(A: ArrayLike, reps: Any) -> Array:
    """Return `A` repeated `reps` times along each axis; missing axes or repeats count as one."""
    t = tensor("tile", A)
    counts = canonical_shape(reps)
    rank = max(t.dim(), len(counts))
    counts = (1,) * (rank - len(counts)) + counts
    return Array(t.repeat(counts) if rank else t, is_weak(A))


@moves_elements(0)
def repeat(
    a: ArrayLike, repeats: ArrayLike, axis: int | None = None, *, total_repeat_length: int | None = None,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:  # fmt: skip
    """Return `a` with each element (along `axis`; None: of the flattened array) repeated.

    `repeats` is a number, or one for each element; traced ones need `total_repeat_length`, which cuts the result off
    or repeats its last element.
    """
    if out_sharding is not None:
        return laid_over(out_sharding, "repeat", repeat(a, repeats, axis, total_repeat_length=total_repeat_length))
    check_arraylike("repeat", a, repeats)
    t, weak = tensor("repeat", a), is_weak(a)
    if axis is None or not t.dim():  # a scalar has any axis, as in JAX
        t, axis = t.flatten(), 0
    axis = canonical_axis(static_int(axis, "axis"), t.dim())
    length = t.shape[axis]
    if total_repeat_length is not None:
        counts = tensor("repeat", repeats if isinstance(repeats, Array) else _counts(repeats))
        return Array(
            _repeat_to(t, counts.to(torch.int64), axis, static_int(total_repeat_length, "total_repeat_length")), weak
        )
    counts = concrete_values(
        repeats, errors.ConcretizationTypeError, "When jit-compiling jnp.repeat, give total_repeat_length="
    ).astype(np.int64)
    if (counts < 0).any():
        raise TypeError(f"repeats must not be negative, got {repeats}.")
    if counts.ndim > 1 or (counts.size not in (1, length)):
        raise ValueError(f"repeats of shape {counts.shape} cannot be broadcast to the axis of size {length}.")
    if counts.size == 1:
        count = int(counts.reshape(()))
        return Array(
            t.repeat_interleave(count, axis) if t.dtype not in unsigned.SIGNED else _repeat_equally(t, count, axis),
            weak,
        )
    places = torch.tensor(np.repeat(np.arange(length), counts), device=t.device)
    return Array(unsigned.via_bits(lambda x: torch.index_select(x, axis, places), t), weak)


def _counts(repeats: Any) -> Array:
    return asarray(repeats)


def _repeat_equally(t: Tensor, count: int, axis: int) -> Tensor:
    sizes = list(t.shape)
    expanded = t.unsqueeze(axis + 1).expand(*sizes[: axis + 1], count, *sizes[axis + 1 :])
    return expanded.reshape(*sizes[:axis], sizes[axis] * count, *sizes[axis + 1 :])


def _repeat_to(t: Tensor, counts: Tensor, axis: int, total: int) -> Tensor:
    length = t.shape[axis]
    if not length or not total:
        sizes = [total if d == axis else n for d, n in enumerate(t.shape)]
        return torch.zeros(sizes, dtype=t.dtype, device=t.device)
    ends = torch.cumsum(counts.flatten().expand(length), 0)
    ended = torch.zeros(total + 1, dtype=ends.dtype, device=t.device)
    ended = ended.scatter_add(0, ends.clamp(0, total), torch.ones_like(ends))[:-1]
    found = torch.cumsum(ended, 0).clamp(max=length - 1)
    return unsigned.via_bits(lambda x: torch.index_select(x, axis, found), t)


@shown_as_jit("offset", "axis1", "axis2")
@moves_elements(0)
def diagonal(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """Return the diagonals of the planes of `axis1` and `axis2`, as the last axis. Needs two dimensions (`ValueError`)."""
    t = tensor("diagonal", a)
    if t.dim() < 2:
        raise ValueError("diagonal requires an array of at least two dimensions.")
    offset = static_int(offset, "offset")
    first, second = canonical_axes((axis1, axis2), t.dim())
    return Array(torch.diagonal(t, offset, first, second), is_weak(a))


@shown_as_jit("k", name="_diag")
@moves_elements(0)
def diag(v: ArrayLike, k: int = 0) -> Array:
    """Return the k-th diagonal of a matrix, or a matrix with the vector `v` on its k-th diagonal."""
    t, k = tensor("diag", v), static_int(k, "k")
    if t.dim() == 1:
        return Array(unsigned.via_bits(lambda x: torch.diag_embed(x, k), t), is_weak(v))
    if t.dim() == 2:
        return Array(torch.diagonal(t, k), is_weak(v))
    raise ValueError(f"diag input must be 1d or 2d; got shape {tuple(t.shape)}")


def diagflat(v: ArrayLike, k: int = 0) -> Array:
    """Return a matrix with the elements of `v` on its k-th diagonal."""
    return diag(ravel(v), k)


@shown_as_jit("axis1", "axis2", "dtype")
def trace(
    a: ArrayLike,
    offset: int | ArrayLike = 0,
    axis1: int = 0,
    axis2: int = 1,
    dtype: DTypeLike | None = None,
    out: None = None,
) -> Array:
    """Return the sums of the diagonals of the planes of `axis1` and `axis2`."""
    no_out("trace", out)
    if isinstance(offset, Array):
        t = tensor("trace", a).movedim((axis1, axis2), (-2, -1))
        row = torch.arange(t.shape[-2], device=t.device).unsqueeze(1)
        on = torch.arange(t.shape[-1], device=t.device) == row + tensor("trace", offset)
        zero = torch.zeros((), dtype=t.dtype, device=t.device)
        return array_sum(Array(selection.where(on, t, zero)), (-2, -1), dtype)
    return array_sum(diagonal(a, offset, axis1, axis2), -1, dtype)  # pyright: ignore


def _triangle(function: str, m: ArrayLike, k: int, keep: Any) -> Array:
    t = tensor(function, m)
    if t.dim() < 2:
        raise ValueError(f"Argument to jax.numpy.{function} must be at least 2D")
    if t.dtype in unsigned.SIGNED or isinstance(k, Array):
        row = torch.arange(t.shape[-2], device=t.device).unsqueeze(1)
        offset = tensor(function, k)
        column = torch.arange(t.shape[-1], device=t.device)
        inside = column <= row + offset if keep is torch.tril else column >= row + offset
        return Array(selection.where(inside, t, torch.zeros((), dtype=t.dtype, device=t.device)), is_weak(m))
    return Array(keep(t, int(k)), is_weak(m))


@shown_as_jit("k")
@moves_elements(0)
def tril(m: ArrayLike, k: int = 0) -> Array:
    """Return the matrices `m` with zeros above the k-th diagonal."""
    return _triangle("tril", m, k, torch.tril)


@shown_as_jit("k")
@moves_elements(0)
def triu(m: ArrayLike, k: int = 0) -> Array:
    """Return the matrices `m` with zeros below the k-th diagonal."""
    return _triangle("triu", m, k, torch.triu)


@moves_elements(0, 1, updates=True)
def fill_diagonal(a: ArrayLike, val: ArrayLike, wrap: bool = False, *, inplace: bool = True) -> Array:
    """Return `a` with `val` (repeated or cut) on its main diagonal; needs `inplace=False`.

    With `wrap`, the diagonal of a tall matrix starts again after each square block.
    """
    if inplace:
        raise NotImplementedError("arrays are immutable, must use inplace=False, and use the returned array.")
    t = tensor("fill_diagonal", a)
    if t.dim() < 2:
        raise ValueError("array must be at least 2-d")
    if t.dim() > 2 and len(set(t.shape)) > 1:
        raise ValueError("All dimensions of input must be of equal length")
    step = 1 + sum(math.prod(t.shape[d + 1 :]) for d in range(t.dim() - 1))
    end = t.numel() if wrap or t.dim() > 2 else min(t.numel(), t.shape[1] * t.shape[1])
    places = range(0, end, step)
    values = ravel(asarray(val))
    values = resize(values, (len(places),)) if values.size != 1 else values
    flat = Array(t.flatten(), is_weak(a))
    return reshape(flat.at[0:end:step].set(values), tuple(t.shape))  # pyright: ignore


def iscomplexobj(x: Any) -> bool:
    """Tell whether the dtype of `x` is complex."""
    return _dtype_kind(x) == "c"


def isrealobj(x: Any) -> bool:
    """Tell whether the dtype of `x` is not complex."""
    return not iscomplexobj(x)


def _dtype_kind(x: Any) -> str:
    if x is None:
        return "O"
    if hasattr(x, "dtype"):
        return getattr(x.dtype, "kind", "V")
    return dtypes.lattice_type(x)[0].kind if isinstance(x, bool | int | float | complex) else asarray(x).dtype.kind
