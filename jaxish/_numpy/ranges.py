"""Evenly spaced numbers, grids of indices, and the index tricks (`mgrid`, `ogrid`, `r_`, `c_`, `s_`)."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._core import config, dtypes, errors
from .._core.array import Array, as_array, check_arraylike, is_abstract, is_weak
from .._core.dimensions import broadcast_shape, canonical_axis, canonical_shape, static_int
from .._core.extended import ExtendedArray, moves_elements
from .._core.promotion import convert, tensor, tensors
from .._core.symbolic_sizes import is_size, steps_between
from .._core.typing import ArrayLike, DTypeLike
from .._devices.shardings import NamedSharding, PartitionSpec
from .._lax.out_sharding import laid_over
from .arguments import check_shapes, concrete_values, dtype_or, int_dtype, placed, torch_device
from .creation import asarray, ones
from .elementary import log10
from .joining import concatenate
from .manipulation import broadcast_to, expand_dims, reshape, shape, transpose
from .searching import nonzero
from .ufuncs import power, sign


def arange(
    start: ArrayLike, stop: ArrayLike | None = None, step: ArrayLike | None = None, dtype: DTypeLike | None = None, *,
    device: Any = None, out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:  # fmt: skip
    """Return the numbers from `start` (default 0) up to, not including, `stop` in steps of `step` (default 1).

    The default dtype is the common one of the arguments. Raises `ConcretizationTypeError` for traced arguments: the
    length depends on them.
    """
    if out_sharding is not None:
        return laid_over(out_sharding, "arange", arange(start, stop, step, dtype, device=device))
    given = [a for a in (start, stop, step) if a is not None]
    check_arraylike("arange", *given)
    target = None if dtype is None else dtypes.to_torch(dtypes.requested_dtype(dtype, "arange"))
    for name, value in (("start", start), ("stop", stop), ("step", step)):
        if isinstance(value, Array) and is_abstract(value):
            raise errors.tracer_error(
                errors.ConcretizationTypeError, value.shape, f"It arose in the '{name}' argument of jnp.arange."
            )
        if value is not None and np.ndim(value):  # pyright: ignore
            raise ValueError(f"arange: arguments must be scalars; got {name}={value}")
    if target is None:
        target = dtypes.to_torch(dtypes.canonicalize_dtype(dtypes.promote(*map(dtypes.lattice_type, given))[0]))
    first, last = (0, start) if stop is None else (start, stop)
    first, last, by = (_number(v) for v in (first, last, 1 if step is None else step))
    count = _steps(first, last, by)
    return placed(Array(_spaced(first, by, count, target, torch_device(device))), device)


def _steps(first: Any, last: Any, by: Any) -> int:
    if not by:
        raise ZeroDivisionError("arange: step must not be zero")
    if all(map(is_size, (first, last, by))):
        return steps_between(first, last, by)
    return max(0, math.ceil((last - first) / by))


def _number(value: Any) -> Any:
    value = value._scalar("arange") if isinstance(value, Array) else value
    if isinstance(value, np.generic | np.ndarray):
        value = np.asarray(value).astype(np.float64).item() if value.dtype.kind in "fV" else value.item()
    if isinstance(value, complex):
        raise TypeError("arange: complex numbers have no order; got " + repr(value))
    return value


def _spaced(first: Any, by: Any, count: int, target: torch.dtype, device: torch.device) -> Tensor:
    if is_size(first) and is_size(by):
        if target.is_floating_point or target.is_complex:
            return convert(torch.arange(count, device=device) * by + first, target)
        return convert(torch.arange(first, first + count * by, by, device=device)[:count], target)
    values = first + torch.arange(count, dtype=torch.float64, device=device) * by
    return convert(values, target)


def iota(count: int, dtype: torch.dtype, device: torch.device | None = None) -> Tensor:
    """Return 0, 1, ..., count - 1 as a tensor of any dtype."""
    return convert(torch.arange(count, device=device or torch_device(None)), dtype)


def _samples(num: Any, function: str) -> int:
    count = static_int(num, f"'num' argument of jnp.{function}")
    if count < 0:
        raise ValueError(f"Number of samples, {count}, must be non-negative.")
    return count


def linspace(
    start: ArrayLike, stop: ArrayLike, num: int = 50, endpoint: bool = True, retstep: bool = False,
    dtype: DTypeLike | None = None, axis: int = 0, *, device: Any = None,
) -> Array | tuple[Array, Array]:  # fmt: skip
    """Return `num` evenly spaced numbers from `start` to `stop` (with `endpoint`, inclusive), along a new `axis`.

    With `retstep`, return the step too. Integers are rounded down.
    """
    count = _samples(num, "linspace")
    check_arraylike("linspace", start, stop)
    wanted = dtypes.canonicalize_dtype(dtypes.promote(dtypes.lattice_type(start), dtypes.lattice_type(stop))[0])
    result = dtype_or(dtype, "linspace", dtypes.to_inexact(wanted))
    computed = dtypes.TO_TORCH[dtypes.to_inexact(dtypes.TO_NUMPY[result])]
    first, last = (convert(t, computed) for t in tensors("linspace", start, stop))
    shape = broadcast_shape(tuple(first.shape), tuple(last.shape))
    axis = canonical_axis(axis, len(shape) + 1, error=IndexError)
    first, last = first.broadcast_to(shape), last.broadcast_to(shape)
    intervals = count - 1 if endpoint else count
    if count > 1:
        real = dtypes.TO_TORCH[dtypes.to_floating(dtypes.TO_NUMPY[computed])]
        along = [intervals if d == axis else 1 for d in range(len(shape) + 1)]
        steps = torch.arange(intervals, device=first.device).to(real).reshape(along)
        found = _interpolated(first.unsqueeze(axis), last.unsqueeze(axis), steps, intervals)
        if endpoint:
            found = torch.cat([found, last.unsqueeze(axis)], axis)
        step = (last - first) / intervals
    elif count == 1:
        found = first.unsqueeze(axis)
        step = torch.full((), math.nan, dtype=computed, device=first.device) if endpoint else last - first
    else:
        found = torch.zeros((*shape[:axis], 0, *shape[axis:]), dtype=computed, device=first.device)
        step = torch.full((), math.nan, dtype=computed, device=first.device)
    if not (result.is_floating_point or result.is_complex):
        found = torch.floor(found)
    found = convert(found, result)
    values = Array(found) if device is None else placed(Array(found.to(torch_device(device))), device)
    return (values, Array(step)) if retstep else values


def _interpolated(first: Tensor, last: Tensor, steps: Tensor, intervals: int) -> Tensor:
    """Return the numbers that lie `steps` of `intervals` between two, rounded as XLA's compiler for CPUs rounds them.

    It multiplies by the reciprocal, multiplies what is constant first and fuses one product with the sum: so the whole
    numbers of `linspace(0, 25, 6)` are whole.
    """
    if steps.dtype == torch.bfloat16:
        part = steps / intervals
        return first * (1 - part) + last * part
    unit = torch.ones((), dtype=steps.dtype, device=steps.device) / intervals
    part = steps * unit
    if first.numel() == 1:
        return _fused(steps, last * unit, first * (1 - part))
    return _fused(first, 1 - part, last * part)


def _fused(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    """Return x * y + z, of float32 rounded once: 53 bits hold the product of two numbers of 24."""
    return (x.double() * y.double() + z.double()).float() if z.dtype == torch.float32 else x * y + z


def logspace(
    start: ArrayLike, stop: ArrayLike, num: int = 50, endpoint: bool = True, base: ArrayLike = 10.0,
    dtype: DTypeLike | None = None, axis: int = 0,
) -> Array:  # fmt: skip
    """Return `num` numbers from base**start to base**stop whose logarithms are evenly spaced, along a new `axis`."""
    count = _samples(num, "logspace")
    check_arraylike("logspace", start, stop)
    wanted = dtypes.canonicalize_dtype(dtypes.promote(dtypes.lattice_type(start), dtypes.lattice_type(stop))[0])
    result = dtype_or(dtype, "logspace", dtypes.to_inexact(wanted))
    computed = dtypes.to_inexact(dtypes.TO_NUMPY[result])
    exponents = linspace(start, stop, count, endpoint, dtype=computed, axis=axis)
    return Array(convert(power(base, exponents)._tensor, result))  # pyright: ignore


def geomspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    dtype: DTypeLike | None = None,
    axis: int = 0,
) -> Array:
    """Return `num` numbers from `start` to `stop` in geometric progression, along a new `axis`."""
    count = _samples(num, "geomspace")
    check_arraylike("geomspace", start, stop)
    wanted = dtypes.canonicalize_dtype(dtypes.promote(dtypes.lattice_type(start), dtypes.lattice_type(stop))[0])
    result = dtype_or(dtype, "geomspace", dtypes.to_inexact(wanted))
    computed = dtypes.TO_TORCH[dtypes.to_inexact(dtypes.TO_NUMPY[result])]
    first, last = (Array(convert(t, computed)) for t in tensors("geomspace", start, stop))
    check_shapes("divide", first._tensor, last._tensor)
    direction = sign(first)._tensor
    low, high = (log10(Array(v._tensor / direction)) for v in (first, last))
    found = direction * logspace(low, high, count, endpoint, dtype=dtypes.TO_NUMPY[computed])._tensor
    return Array(convert(found.movedim(0, canonical_axis(axis, found.dim())), result))


# ------------------------------------------------------------------------------------------------------------ grids


def meshgrid(*xi: ArrayLike, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> list[Array]:
    """Return the coordinates of the points of a grid with these axes: one array per argument.

    With `indexing` "xy" the first two dimensions are swapped; with `sparse` each array varies along its axis only.
    """
    check_arraylike("meshgrid", *xi)
    if not copy:
        raise ValueError("jax.numpy.meshgrid only supports copy=True")
    if indexing not in ("xy", "ij"):
        raise ValueError(f"Valid values for indexing are 'xy' and 'ij', got {indexing}")
    shapes = [shape(x) for x in xi]
    if any(len(s) != 1 for s in shapes):
        raise ValueError(f"Arguments to jax.numpy.meshgrid must be 1D, got shapes {shapes}")
    order = list(range(len(xi)))
    if indexing == "xy" and len(xi) >= 2:
        order[:2] = [1, 0]
    found = [_along(x, place, len(xi)) for place, x in zip(order, xi, strict=True)]
    sizes = tuple(shapes[i][0] for i in np.argsort(order))
    return found if sparse else [broadcast_to(x, sizes) for x in found]


@moves_elements(0)
def _along(x: ArrayLike, axis: int, rank: int) -> Array:
    """Return a vector along one axis of an array of this rank."""
    return Array(tensor("meshgrid", x).reshape([-1 if d == axis else 1 for d in range(rank)]), is_weak(x))


def indices(
    dimensions: Sequence[int], dtype: DTypeLike | None = None, sparse: bool = False
) -> Array | tuple[Array, ...]:
    """Return the index of each element of an array of these sizes: one row per axis, or with `sparse` a tuple."""
    target = int_dtype() if dtype is None else dtypes.to_torch(dtypes.requested_dtype(dtype, "indices"))
    sizes = canonical_shape(tuple(dimensions))
    rows = [iota(n, target).reshape([n if i == d else 1 for i in range(len(sizes))]) for d, n in enumerate(sizes)]
    if sparse:
        return tuple(map(Array, rows))
    if not rows:
        return Array(torch.zeros((0,), dtype=target, device=torch_device(None)))
    return Array(torch.stack([r.broadcast_to(sizes) for r in rows]))


def ix_(*args: ArrayLike) -> tuple[Array, ...]:
    """Return 1-d arrays as an index of the grid that they span; boolean ones stand for the indices of their Trues."""
    check_arraylike("ix_", *args)
    out = []
    for i, x in enumerate(args):
        if len(shape(x)) != 1:
            raise ValueError(f"Arguments to jax.numpy.ix_ must be 1-dimensional, got shape {shape(x)}")
        array = as_array(x)
        if array._tensor.dtype is torch.bool:
            raise NotImplementedError(
                "Boolean arguments to jax.numpy.ix_ are not implemented; give jnp.where(mask)[0]."
            )
        is_index = array.size or isinstance(array, ExtendedArray)
        out.append(_along(array if is_index else Array(array._tensor.to(int_dtype())), i, len(args)))
    return tuple(out)


def diag_indices(n: int, ndim: int = 2) -> tuple[Array, ...]:
    """Return the indices of the main diagonal of an array with `ndim` dimensions of size `n`."""
    n, rank = (
        static_int(n, "'n' argument of jnp.diag_indices()"),
        static_int(ndim, "'ndim' argument of jnp.diag_indices()"),
    )
    if n < 0:
        raise ValueError(f"n argument to diag_indices must be nonnegative, got {n}")
    if rank < 0:
        raise ValueError(f"ndim argument to diag_indices must be nonnegative, got {rank}")
    return (Array(iota(n, int_dtype())),) * rank


def diag_indices_from(arr: ArrayLike) -> tuple[Array, ...]:
    """Return the indices of the main diagonal of `arr`, whose dimensions must be equal and at least two."""
    sizes = tensor("diag_indices_from", arr).shape
    if len(sizes) < 2:
        raise ValueError("input array must be at least 2-d")
    if len(set(sizes)) != 1:
        raise ValueError("All dimensions of input must be of equal length")
    return diag_indices(sizes[0], len(sizes))


def _triangle_indices(n: int, m: int | None, keep: Any) -> tuple[Array, Array]:
    n, m = static_int(n, "n"), static_int(n if m is None else m, "m")
    with_values = np.nonzero(keep(np.ones((n, m), dtype=bool)))
    dtype = dtypes.TO_NUMPY[int_dtype()]
    first, second = (as_array(v.astype(dtype)) for v in with_values)
    return first, second


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """Return the indices of the elements on and below the k-th diagonal of an n by m matrix."""
    return _triangle_indices(n, m, lambda ones: np.tril(ones, static_int(k, "k")))


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """Return the indices of the elements on and above the k-th diagonal of an n by m matrix."""
    return _triangle_indices(n, m, lambda ones: np.triu(ones, static_int(k, "k")))


def _matrix_shape(arr: Any) -> tuple[int, int]:
    sizes = np.shape(arr) if not hasattr(arr, "shape") else tuple(arr.shape)
    if len(sizes) != 2:
        raise ValueError("Only 2-D inputs are accepted")
    return sizes[0], sizes[1]


def tril_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Array, Array]:
    """Return the indices of the elements on and below the k-th diagonal of the matrix `arr`."""
    rows, columns = _matrix_shape(arr)
    return tril_indices(rows, k, columns)


def triu_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Array, Array]:
    """Return the indices of the elements on and above the k-th diagonal of the matrix `arr`."""
    rows, columns = _matrix_shape(arr)
    return triu_indices(rows, k, columns)


def mask_indices(n: int, mask_func: Any, k: int = 0, *, size: int | None = None) -> tuple[Array, Array]:
    """Return the indices where `mask_func(ones((n, n)), k)` is nonzero; `size` as in `nonzero`."""
    rows, columns = nonzero(mask_func(ones((n, n)), k), size=size)
    return rows, columns


class _Grid:
    """Base of `mgrid` and `ogrid`: slices in brackets give a grid; an imaginary step is a number of points."""

    name = ""
    sparse = False

    def __getitem__(self, key: slice | tuple[slice, ...]) -> Any:
        if isinstance(key, slice):
            return _grid_axis(key, self.name)
        axes = [_grid_axis(k, self.name) for k in key]
        if not axes:
            return [] if self.sparse else Array(torch.zeros(0, dtype=int_dtype(), device=torch_device(None)))
        with config.numpy_dtype_promotion("standard"):
            common = dtypes.TO_TORCH[dtypes.canonicalize_dtype(dtypes.promote(*map(dtypes.lattice_type, axes))[0])]
        rows = meshgrid(*(Array(convert(a._tensor, common)) for a in axes), indexing="ij", sparse=self.sparse)
        return rows if self.sparse else Array(torch.stack([r._tensor for r in rows]))


def _grid_axis(key: slice, name: str) -> Array:
    known = {"start": 0 if key.start is None else key.start, "stop": key.stop, "step": key.step}
    for part, value in known.items():
        if isinstance(value, Array):
            concrete_values(value, errors.ConcretizationTypeError, f"slice {part} of jnp.{name}")
    if isinstance(key.step, complex):
        return linspace(known["start"], key.stop, int(abs(key.step)))  # pyright: ignore
    return arange(*known.values())


class _MGrid(_Grid):
    """Dense grids: one array of shape (axes, sizes...)."""

    name = "mgrid"


class _OGrid(_Grid):
    """Open grids: a list of arrays that broadcast against each other."""

    name = "ogrid"
    sparse = True


_MATRICES = {"r": 0, "c": 1}  # directives that make a matrix of a vector: which dimension they add


class _AxisConcatenator:
    """Base of `r_` and `c_`: what stands in brackets (arrays, numbers, slices) is concatenated."""

    axis = 0
    ndmin = 1
    trans1d = -1

    def __getitem__(self, key: Any) -> Array:
        parts = list(key) if isinstance(key, tuple) else [key]
        directive = parts.pop(0) if isinstance(parts[0], str) else ""
        if any(isinstance(p, str) for p in parts):
            raise ValueError("string directive must be placed at the beginning")
        axis, ndmin, trans1d = self._numbers("" if directive in _MATRICES else directive)
        found = concatenate([_arranged(p, ndmin, trans1d) for p in parts], axis=axis)
        return expand_dims(found, _MATRICES[directive]) if directive in _MATRICES and found.ndim == 1 else found

    def _numbers(self, directive: str) -> Sequence[int]:
        """Return `axis`, `ndmin` and `trans1d`, of which a directive gives the first ones."""
        try:
            given = [int(v) for v in directive.split(",")] if directive else []
        except ValueError:
            raise ValueError(f"could not understand directive {directive!r}") from None
        return (*given, *(self.axis, self.ndmin, self.trans1d)[len(given) :])[:3]


def _arranged(part: Any, ndmin: int, trans1d: int) -> Array:
    found = _grid_axis(part, "r_ or jnp.c_") if isinstance(part, slice) else asarray(part)
    missing = ndmin - found.ndim
    if missing <= 0:
        return found
    found = reshape(found, (1,) * missing + found.shape)
    if trans1d == -1:
        return found
    # As JAX has it: where several dimensions are given, NumPy keeps them together, which this does not.
    first = ndmin - abs(ndmin + trans1d + 1) % ndmin
    return transpose(found, [(first + d) % ndmin for d in range(ndmin)])


class RClass(_AxisConcatenator):
    """The class of `jnp.r_`: concatenation along the first axis."""


class CClass(_AxisConcatenator):
    """The class of `jnp.c_`: vectors become columns, concatenated along the last axis."""

    axis = -1
    ndmin = 2
    trans1d = 0


class IndexExpression:
    """The class of `jnp.s_` and `jnp.index_exp`: what stands in brackets is returned as an index."""

    def __init__(self, maketuple: bool) -> None:
        self.maketuple = maketuple

    def __getitem__(self, item: Any) -> Any:
        return (item,) if self.maketuple and not isinstance(item, tuple) else item


mgrid = _MGrid()
ogrid = _OGrid()
r_ = RClass()
c_ = CClass()
s_ = IndexExpression(maketuple=False)
index_exp = IndexExpression(maketuple=True)
