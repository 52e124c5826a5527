"""Arrays from Python values, and arrays of one value. Ranges and grids stand in ranges.py."""

import types
import warnings
from typing import Any

import numpy as np
import optree
import torch
from torch import Tensor

from .._core import dtypes, graph, narrow, transfers
from .._core.array import SYMBOLS, Array, as_array, check_arraylike, from_numpy, scalar_tensor, tensor_of
from .._core.dimensions import canonical_shape, expanded
from .._core.extended import fills_elements, moves_elements, refuse
from .._core.promotion import cast, check_fits, convert, shown, tensor
from .._core.torch_tensors import from_torch
from .._core.typing import ArrayLike, DTypeLike
from .._devices.shardings import NamedSharding, PartitionSpec
from .._lax.elementwise import warn_complex_to_real
from .._lax.out_sharding import laid_over
from .._lax.shapes import places_in_matrix
from .arguments import converted, dtype_or, float_dtype, laid_out_like, placed, torch_device

_PYTHON_SCALARS = (bool, int, float, complex)
_ELEMENTS = (*_PYTHON_SCALARS, np.ndarray, np.generic, Array)


@moves_elements(0)
def array(
    object: Any, dtype: DTypeLike | None = None, *args: Any, copy: bool = True, order: str | None = "K", ndmin: int = 0,
    device: Any = None, out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:  # fmt: skip
    """Return an array of a number, an array, or nested sequences of these.

    Without `dtype`, the values' common dtype is taken; a Python scalar alone makes a weakly typed array. A torch tensor
    is copied, but for `copy=False`, which shares its memory (`jaxish.from_torch`), as `asarray` does. `ndmin` adds leading dimensions of size one. Raises `TypeError` for other objects, `NotImplementedError` for an `order`
    other than "K".
    """
    if args:
        if len(args) > 3:
            raise TypeError(f"array() takes at most 5 positional arguments but {len(args) + 2} were given")
        warnings.warn(
            "Passing the copy, order, and ndmin arguments to jnp.array positionally is deprecated. Use keywords.",
            DeprecationWarning,
            stacklevel=3,
        )
        given: list[Any] = [*args, *(copy, order, ndmin)[len(args) :]]
        copy, order, ndmin = given
    if order is not None and order != "K":
        raise NotImplementedError("Only implemented for order='K'")
    if out_sharding is not None:
        return laid_over(out_sharding, "array", array(object, dtype, copy=copy, ndmin=ndmin, device=device))
    target = None if dtype is None else dtypes.to_torch(dtypes.requested_dtype(dtype, "array"))
    found = _from_object(object, target, copy)
    if isinstance(found, np.ndarray):
        return found[(None,) * (ndmin - found.ndim)]  # pyright: ignore[reportReturnType]
    if ndmin > found.ndim:
        found = Array(tensor_of(found).reshape((1,) * (ndmin - found.ndim) + found.shape), found._weak)
    if device is None:
        return found
    there = torch_device(device)
    if found._tensor.device != there:
        found = Array(tensor_of(found).to(there), found._weak)
    return placed(found, device)


def asarray(
    a: Any, dtype: DTypeLike | None = None, order: str | None = None, *, copy: bool | None = None, device: Any = None,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:  # fmt: skip
    """Return `a` (a number, an array, or nested sequences of these) as an array; see `array`."""
    if dtype is None and type(a) is Array and order is None and device is None and not copy:
        return a
    return array(a, dtype, copy=bool(copy), order=order, device=device, out_sharding=out_sharding)


def _from_object(x: Any, target: torch.dtype | None, copy: bool) -> Any:
    """Return `x` as an array of a dtype, if one is given; what is of float0 is NumPy's everywhere."""
    if isinstance(x, Array):
        refuse("array", (x,))
        t = tensor_of(x)
        if not copy and (target is None or (target is t.dtype and not x._weak)):
            return x
        if target is None or target is t.dtype:
            t = t if target is None else shown(x, target)
            return Array(t.clone() if copy and not graph.tracing else t, x._weak and target is None)
        return Array(converted(t, target))
    if isinstance(x, SYMBOLS):
        return _from_object(as_array(x), target, copy=False)
    if isinstance(x, _PYTHON_SCALARS) and not isinstance(x, np.generic):
        if target is None:
            return as_array(x)
        _note_transfer(x)
        return Array(_python_scalar(x, target))
    if isinstance(x, np.ndarray | np.generic):
        values = np.asarray(x)
        return values if target is None and values.dtype == dtypes.float0 else _from_ndarray(values, target)
    if hasattr(x, "__jax_array__"):
        return _from_object(x.__jax_array__(), target, copy)
    if isinstance(x, list | tuple):
        refuse("array", _leaves(x))
        return _from_sequence(x, target)
    if x is None:
        raise ValueError("None is not a valid value for jnp.array")
    if isinstance(x, Tensor):
        found = from_torch(x, copy=copy and target is None)
        return found if target is None else Array(converted(found._tensor, target))
    return _from_ndarray(np.asarray(x), target)


def _note_transfer(value: Any) -> None:
    if transfers.watching:
        transfers.check("host-to-device", type(value).__name__)


def _python_scalar(x: Any, target: torch.dtype) -> Tensor:
    if target is torch.bool:
        return scalar_tensor(bool(x), target)
    if target.is_complex:
        return scalar_tensor(x, target)
    if target.is_floating_point:
        return scalar_tensor(float(x), target)
    x = int(x)  # raises for NaN, the infinities and complex numbers
    check_fits(x, target)
    return scalar_tensor(x, target)


def _from_ndarray(values: np.ndarray, target: torch.dtype | None) -> Array:
    if target is not None and (values.dtype.kind in "OSU" or values.dtype == dtypes.float0):
        values = values.astype(dtypes.TO_NUMPY[target])
    if values.dtype.kind not in "biufcV" or (values.dtype.kind == "V" and values.dtype not in dtypes.TO_TORCH):
        raise TypeError(
            f"Dtype {values.dtype} is not a valid JAX array type. Only arrays of numeric types are supported."
        )
    _note_transfer(values)
    dtype = dtypes.canonicalize_dtype(values.dtype) if target is None else dtypes.TO_NUMPY[target]
    if dtype.kind in "fcb" or values.dtype.kind in "iub" or dtype == values.dtype:
        with np.errstate(all="ignore"):
            source = np.real(values) if values.dtype.kind == "c" and dtype.kind in "f" else values
            return Array(from_numpy(source.astype(dtype, copy=False)))
    return Array(convert(from_numpy(values), dtypes.TO_TORCH[dtype]))


def _from_sequence(x: Any, target: torch.dtype | None) -> Any:
    leaves = _leaves(x)
    if target is None and leaves and all(getattr(leaf, "dtype", None) == dtypes.float0 for leaf in leaves):
        return np.array(_plain(x), dtypes.float0)
    if target is None:
        target = _common_dtype(leaves)
    if not any(isinstance(leaf, Array) for leaf in leaves):
        values = np.array(_plain(x), dtype=_staging_dtype(leaves, target))
        return _from_ndarray(values, target)
    return Array(_stack(x, target))


def _leaves(x: Any) -> list[Any]:
    leaves = optree.tree_leaves(x, lambda v: not isinstance(v, list | tuple), none_is_leaf=True)
    if any(leaf is None for leaf in leaves):
        raise ValueError("None is not a valid value for jnp.array")
    return [_as_element(leaf) for leaf in leaves]


def _as_element(leaf: Any) -> Any:
    if isinstance(leaf, Tensor):
        return from_torch(leaf)
    if isinstance(leaf, SYMBOLS):
        return as_array(leaf)
    leaf = leaf.__jax_array__() if hasattr(leaf, "__jax_array__") else leaf
    return leaf if isinstance(leaf, _ELEMENTS) else np.asarray(leaf)


def _common_dtype(leaves: list[Any]) -> torch.dtype:
    if not leaves:
        return float_dtype()
    types = set()
    for leaf in leaves:
        if isinstance(leaf, np.ndarray) and leaf.dtype.kind not in "biufcV":
            raise TypeError(f"Value {leaf!r} with dtype {leaf.dtype} is not a valid JAX array type.")
        types.add(dtypes.lattice_type(leaf))
    return dtypes.TO_TORCH[dtypes.canonicalize_dtype(dtypes.promote(*types)[0])]


def _staging_dtype(leaves: list[Any], target: torch.dtype) -> np.dtype:
    dtype = dtypes.TO_NUMPY[target]
    if dtype.kind in "iu":
        for leaf in leaves:
            if isinstance(leaf, _PYTHON_SCALARS):
                check_fits(int(leaf), target)  # pyright: ignore[reportArgumentType]
        # Floating NumPy values are converted with saturation, by torch, after staging.
        return dtype if all(np.result_type(leaf).kind in "iub" for leaf in leaves) else np.dtype(np.float64)
    return dtype


def _plain(x: Any) -> Any:
    if isinstance(x, list | tuple):
        return [_plain(v) for v in x]
    return x.__jax_array__() if hasattr(x, "__jax_array__") else x


def _stack(x: Any, target: torch.dtype) -> Tensor:
    if not isinstance(x, list | tuple):
        return shown(x, target) if isinstance(x, Array) else _from_object(x, target, False)._tensor
    if not x:
        return torch.empty((0,), dtype=target, device=torch_device(None))
    rows = [_stack(v, target).unsqueeze(0) for v in x]
    shapes = {tuple(row.shape[1:]) for row in rows}
    if len(shapes) > 1:
        raise TypeError(f"Cannot make an array of elements with different shapes: {sorted(shapes)}. Pad them first.")
    return torch.cat(rows)


@moves_elements(0)
def copy(a: ArrayLike, order: str | None = None) -> Array:
    """Return a copy of `a`."""
    check_arraylike("copy", a)
    return array(a, copy=True, order=order)


# -------------------------------------------------------------------------------------------- arrays of one value


def _shape_argument(function: str, shape: Any, dtype: Any) -> tuple[int, ...]:
    if isinstance(shape, types.GeneratorType):
        raise TypeError("expected sequence object with len >= 0 or a single integer")
    if isinstance(dtype, int) and isinstance(shape, int):
        raise TypeError(
            f"Cannot interpret '{dtype}' as a data type. Did you accidentally write `jax.numpy.{function}({shape}, {dtype})` "
            f"when you meant `jax.numpy.{function}(({shape}, {dtype}))`, with the shape as one tuple?"
        )
    return canonical_shape(shape)


@fills_elements()
def zeros(
    shape: Any,
    dtype: DTypeLike | None = None,
    *,
    device: Any = None,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Return an array of zeros (default dtype: floating)."""
    if out_sharding is not None:
        return laid_over(out_sharding, "zeros", zeros(shape, dtype, device=device))
    _note_transfer(0)
    sizes = _shape_argument("zeros", shape, dtype)
    found = Array(narrow.full(sizes, 0, dtype_or(dtype, "zeros", np.float64), torch_device(device)))
    return found if device is None else placed(found, device)


@fills_elements()
def ones(
    shape: Any,
    dtype: DTypeLike | None = None,
    *,
    device: Any = None,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Return an array of ones (default dtype: floating)."""
    if out_sharding is not None:
        return laid_over(out_sharding, "ones", ones(shape, dtype, device=device))
    _note_transfer(1)
    sizes = _shape_argument("ones", shape, dtype)
    found = Array(narrow.full(sizes, 1, dtype_or(dtype, "ones", np.float64), torch_device(device)))
    return found if device is None else placed(found, device)


def empty(
    shape: Any,
    dtype: DTypeLike | None = None,
    *,
    device: Any = None,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Return an array of zeros: there is no uninitialised memory."""
    if out_sharding is not None:
        return laid_over(out_sharding, "empty", empty(shape, dtype, device=device))
    return zeros(_shape_argument("empty", shape, dtype), dtype, device=device)


@fills_elements("fill_value")
def full(
    shape: Any,
    fill_value: ArrayLike,
    dtype: DTypeLike | None = None,
    *,
    device: Any = None,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Return an array filled with `fill_value`, which may be an array that broadcasts to `shape`.

    The default dtype is that of `fill_value`.
    """
    if out_sharding is not None:
        return laid_over(out_sharding, "full", full(shape, fill_value, dtype, device=device))
    target = None if dtype is None else dtypes.to_torch(dtypes.requested_dtype(dtype, "full"))
    check_arraylike("full", fill_value)
    if not isinstance(fill_value, Array):
        _note_transfer(fill_value)
    found = _filled(canonical_shape(shape), fill_value, target, None if device is None else torch_device(device))
    return found if device is None else placed(found, device)


def _filled(shape: tuple[int, ...], value: Any, target: torch.dtype | None, device: torch.device | None) -> Array:
    value = as_array(value) if isinstance(value, SYMBOLS) else value
    if isinstance(value, np.generic) or not isinstance(value, _PYTHON_SCALARS):
        filler = tensor("full", value)
        weak = target is None and bool(getattr(value, "weak_type", False))
        filler = converted(filler, target or filler.dtype)
        filler = filler if device is None else filler.to(device)
        return Array(expanded(filler, shape), weak)
    weak = target is None and type(value) is not bool
    if target is None:
        target = dtypes.TO_TORCH[dtypes.lattice_type(value)[0]]
    if target.is_floating_point and type(value) is not complex:
        return Array(narrow.full(shape, value, target, device or torch_device(None)), weak)
    if isinstance(value, complex) and not target.is_complex:
        warn_complex_to_real()
    if type(value) is int:
        filler = cast(value, target)
    elif isinstance(value, float) and not target.is_complex:
        filler = convert(scalar_tensor(value, torch.float64), target)
    else:
        filler = _python_scalar(value, target)
    return Array((filler if device is None else filler.to(device)).broadcast_to(shape), weak)


def _template(function: str, a: Any, dtype: DTypeLike | None, shape: Any) -> tuple[tuple[int, ...], torch.dtype, bool]:
    refuse(function, (a,))
    if not (hasattr(a, "dtype") and hasattr(a, "shape")):
        a = as_array(a) if not hasattr(a, "__jax_array__") else a.__jax_array__()
    weak = dtype is None and bool(getattr(a, "weak_type", False))
    target = dtype_or(dtype, function, a.dtype)
    return (tuple(a.shape) if shape is None else canonical_shape(shape)), target, weak


def _same_device(a: Any, device: Any) -> torch.device:
    return a._tensor.device if device is None and isinstance(a, Array) else torch_device(device)


def _like(function: str, a: Any, value: int, dtype: DTypeLike | None, shape: Any, device: Any) -> Array:
    if not (hasattr(a, "dtype") and hasattr(a, "shape")):
        check_arraylike(function, a)
    sizes, target, weak = _template(function, a, dtype, shape)
    return _placed_like(Array(narrow.full(sizes, value, target, _same_device(a, device)), weak), a, device)


def _placed_like(array: Array, a: Any, device: Any) -> Array:
    """Return an array where a `device=` argument says; without one, where `a` is, if it has the shape of that."""
    if device is not None:
        return placed(array, device)
    return laid_out_like(array, a) if array.shape == getattr(a, "shape", None) else array


@fills_elements(like="a")
def zeros_like(
    a: ArrayLike,
    dtype: DTypeLike | None = None,
    shape: Any = None,
    *,
    device: Any = None,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Return zeros with the shape and dtype of `a` (anything with these two), unless given."""
    if out_sharding is not None:
        return laid_over(out_sharding, "zeros_like", zeros_like(a, dtype, shape, device=device))
    return _like("zeros_like", a, 0, dtype, shape, device)


@fills_elements(like="a")
def ones_like(
    a: ArrayLike,
    dtype: DTypeLike | None = None,
    shape: Any = None,
    *,
    device: Any = None,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Return ones with the shape and dtype of `a` (anything with these two), unless given."""
    if out_sharding is not None:
        return laid_over(out_sharding, "ones_like", ones_like(a, dtype, shape, device=device))
    return _like("ones_like", a, 1, dtype, shape, device)


@fills_elements(like="prototype")
def empty_like(prototype: ArrayLike, dtype: DTypeLike | None = None, shape: Any = None, *, device: Any = None) -> Array:
    """Return zeros with the shape and dtype of `prototype` (anything with these two), unless given."""
    return _like("empty_like", prototype, 0, dtype, shape, device)


@fills_elements("fill_value", "a")
def full_like(
    a: ArrayLike, fill_value: ArrayLike, dtype: DTypeLike | None = None, shape: Any = None, *, device: Any = None,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:  # fmt: skip
    """Return an array of `fill_value` with the shape and dtype of `a` (anything with these two), unless given."""
    if out_sharding is not None:
        return laid_over(out_sharding, "full_like", full_like(a, fill_value, dtype, shape, device=device))
    check_arraylike("full_like", 0 if hasattr(a, "dtype") and hasattr(a, "shape") else a, fill_value)
    sizes, target, weak = _template("full_like", a, dtype, shape)
    return _placed_like(Array(_filled(sizes, fill_value, target, _same_device(a, device))._tensor, weak), a, device)


# --------------------------------------------------------------------------------------------------------- matrices


def eye(N: int, M: int | None = None, k: int = 0, dtype: DTypeLike | None = None, *, device: Any = None) -> Array:
    """Return an N by M matrix (M: N) with ones on the k-th diagonal and zeros elsewhere."""
    shape, target, place = _matrix_shape(N, M), dtype_or(dtype, "eye", np.float64), torch_device(device)
    row, column = (places_in_matrix(shape, dimension, place) for dimension in (0, 1))
    return placed(Array(convert(row + _diagonal("eye", k) == column, target)), device)


def _matrix_shape(rows: Any, columns: Any) -> tuple[int, int]:
    height, width = canonical_shape((rows, rows if columns is None else columns))
    return height, width


def _diagonal(function: str, k: Any) -> Any:
    """Return the number of a diagonal, or an array of it."""
    return tensor(function, k).to(torch.int64) if isinstance(k, Array) else int(k)


def identity(n: int, dtype: DTypeLike | None = None) -> Array:
    """Return the n by n identity matrix."""
    return eye(n, dtype=dtype)


def tri(N: int, M: int | None = None, k: int = 0, dtype: DTypeLike | None = None) -> Array:
    """Return an N by M matrix (M: N) with ones on and below the k-th diagonal.

    Raises `OverflowError` for a k that the integers in use cannot hold.
    """
    if not isinstance(k, Array):
        check_fits(int(k), dtypes.to_torch(dtypes.canonicalize_dtype(np.int64)))
    shape, place = _matrix_shape(N, M), torch_device(None)
    last = places_in_matrix(shape, 0, place) + _diagonal("tri", k)
    return Array(convert(last >= places_in_matrix(shape, 1, place), dtype_or(dtype, "tri", np.float32)))


@moves_elements(0)
def astype(x: ArrayLike, dtype: DTypeLike | None, /, *, copy: bool = False, device: Any = None) -> Array:
    """Return `x` converted to `dtype` (None: floating); complex to real by its real part."""
    t = tensor("astype", x)
    target = dtype_or(dtype, "astype", np.float64)
    if t.is_complex() and not target.is_complex and target is not torch.bool:
        warnings.warn(
            "Casting from complex to real dtypes will raise a ValueError in a future release. Please explicitly use "
            "jnp.real or jnp.imag to take the real/imaginary part of your input.",
            DeprecationWarning,
            stacklevel=2,
        )
    found = shown(x, target) if type(x) is Array and not t.is_complex() else convert(t, target)
    if device is None:
        return laid_out_like(Array(found), x)
    return placed(Array(found.to(torch_device(device))), device)
