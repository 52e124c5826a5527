"""lax functions that change shapes: reshape, broadcast, transpose, join, cut, pad, repeat; and arrays of a constant.

Dimensions are counted from the front: most lax functions refuse negative ones. Slices at positions that depend on
values are in `dynamic_slices.py`.
"""

import builtins
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._core import dtypes, graph, narrow, selection, unsigned
from .._core.array import Array, default_torch_device, device_of, from_kind, is_weak, tensor_of
from .._core.avals import ShapeDtypeStruct
from .._core.dimensions import broadcast_shape, canonical_axes, canonical_axis, canonical_shape, expanded
from .._core.extended import fills_elements, moves_elements
from .._core.operations import is_recorded, shown_as
from .._core.promotion import convert
from .._core.symbolic_sizes import index as index_of
from .._core.typing import ArrayLike, DTypeLike, Shape
from .._devices.constraint import given_as
from .._devices.shardings import NamedSharding, PartitionSpec
from .._tensors.elements import has_cheap_value
from .._transforms.placement import device_put
from . import operands as ops
from .operands import check_shapelike, operand
from .out_sharding import laid_over

# Reshape and broadcast


@moves_elements(0)
def reshape(
    operand: ArrayLike,
    new_sizes: Shape,
    dimensions: Sequence[int] | None = None,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Return the elements, in row-major order after transposing by `dimensions`, in a new shape of the same size.

    `TypeError` when sizes are negative or `dimensions` is no permutation, `ValueError` when the size differs.
    """
    if out_sharding is not None:
        return laid_over(out_sharding, "reshape", reshape(operand, new_sizes, dimensions))
    t, weak = ops.operand("reshape", operand)
    sizes = _sizes(new_sizes)
    if any(n < 0 for n in sizes):
        raise TypeError(f"reshape new_sizes must all be positive, got {sizes}.")
    if dimensions is not None:
        if sorted(dimensions) != list(range(t.dim())):
            raise TypeError(
                "reshape dimensions must be a permutation of operand dimensions, got dimensions "
                f"{tuple(dimensions)} for shape {tuple(t.shape)}."
            )
        t = t.permute(tuple(dimensions))
    if math.prod(sizes) != t.numel():
        raise ValueError(
            f"reshape: number of output elements ({math.prod(sizes)}) doesn't match expected number of elements "
            f"({t.numel()}): cannot reshape {tuple(t.shape)} to {sizes}."
        )
    return Array(t.reshape(sizes), weak)


def _sizes(shape: Any) -> tuple[int, ...]:
    """Return a shape as integers whose signs are not checked."""
    if isinstance(shape, int | np.integer):
        return (int(shape),)
    try:
        return tuple(map(index_of, shape))
    except TypeError:
        raise TypeError(f"Shapes must be 1D sequences of concrete values of integer type, got {shape}.") from None


@moves_elements(0)
def broadcast(operand: ArrayLike, sizes: Sequence[int], *, out_sharding: Any = None) -> Array:
    """Return `operand` repeated along new leading dimensions of these sizes."""
    if out_sharding is not None:
        return laid_over(out_sharding, "broadcast", broadcast(operand, sizes))
    t, weak = ops.operand("broadcast", operand)
    if len(sizes) == 0:
        return Array(t, weak)
    lead = check_shapelike("broadcast_in_dim", "shape", tuple(sizes))
    return Array(t.expand(*lead, *t.shape), weak)


@moves_elements(0)
def broadcast_in_dim(
    operand: ArrayLike, shape: Shape, broadcast_dimensions: Sequence[int], *, out_sharding: Any = None
) -> Array:
    """Return `operand` in `shape`, its dimension i standing at `broadcast_dimensions[i]` and repeated where it is 1.

    `TypeError` when the dimensions do not fit.
    """
    if out_sharding is not None:
        return laid_over(out_sharding, "broadcast_in_dim", broadcast_in_dim(operand, shape, broadcast_dimensions))
    t, weak = ops.operand("broadcast_in_dim", operand)
    sizes = check_shapelike(
        "broadcast_in_dim", "shape", shape if isinstance(shape, tuple | list | np.ndarray) else (shape,)
    )
    dims = check_shapelike("broadcast_in_dim", "broadcast_dimensions", tuple(broadcast_dimensions))
    return Array(broadcasted(t, sizes, dims), weak)


@shown_as(
    "broadcast_in_dim",
    lambda t, sizes, dims: {"shape": sizes, "broadcast_dimensions": dims, "sharding": None},
)
def broadcasted(t: Tensor, sizes: tuple[int, ...], dims: tuple[int, ...]) -> Tensor:
    """Return a tensor broadcast as `broadcast_in_dim` does."""
    if len(dims) != t.dim():
        raise TypeError(
            "broadcast_in_dim broadcast_dimensions must have length equal to operand ndim; got broadcast_dimensions "
            f"{dims} for operand ndim {t.dim()}."
        )
    if len(sizes) < t.dim():
        raise TypeError(
            "broadcast_in_dim target broadcast shape must have equal or higher rank to the operand shape; got operand "
            f"ndim {t.dim()} and target broadcast ndim {len(sizes)}."
        )
    if any(d >= len(sizes) for d in dims):
        raise TypeError(
            "broadcast_in_dim broadcast_dimensions must be a subset of output dimensions, got "
            f"{dims} for operand ndim {t.dim()} and shape {sizes}."
        )
    if any(n not in (1, sizes[d]) for n, d in zip(t.shape, dims, strict=True)):
        raise TypeError(
            "broadcast_in_dim operand dimension sizes must either be 1, or be equal to their corresponding dimensions "
            f"in the target broadcast shape; got operand of shape {tuple(t.shape)}, target broadcast shape {sizes}, "
            f"broadcast_dimensions {dims}."
        )
    if len(set(dims)) < len(dims):
        raise TypeError(
            f"broadcast_in_dim broadcast_dimensions must not contain duplicates, got broadcast_dimensions {dims}."
        )
    if list(dims) != sorted(dims):
        t = t.permute(sorted(range(t.dim()), key=dims.__getitem__))
        dims = tuple(sorted(dims))
    placed = [1] * len(sizes)
    for n, d in zip(t.shape, dims, strict=True):
        placed[d] = n
    return t.reshape(placed).expand(sizes)


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """Return the common shape of `shapes` under NumPy's broadcasting. `ValueError` where there is none."""
    assert shapes, "broadcast_shapes needs at least one shape"
    for shape in shapes:
        if any(isinstance(size, int) and size < 0 for size in shape):
            raise TypeError(
                f"Only non-negative indices are allowed when broadcasting static shapes, but got shape {shape!r}."
            )
    return broadcast_shape(*map(canonical_shape, shapes))


@moves_elements(0)
def broadcast_to_rank(x: ArrayLike, rank: int) -> Array:
    """Return `x` with dimensions of size one put in front until it has at least `rank` dimensions."""
    t, weak = operand("broadcast_to_rank", x)
    return Array(t.reshape((1,) * (rank - t.dim()) + tuple(t.shape)), weak)


@moves_elements(0)
def broadcast_like(arr: ArrayLike, like_arr: ArrayLike) -> Array:
    """Return `arr` broadcast by NumPy's rules to the shape of `like_arr`."""
    t, weak = operand("broadcast_like", arr)
    like = tensor_of(ops.array_of("broadcast_like", like_arr, 1))
    return Array(expanded(t, tuple(like.shape)), weak)


@moves_elements(0)
def collapse(operand: ArrayLike, start_dimension: int, stop_dimension: int | None = None) -> Array:
    """Return `operand` with its dimensions from start up to stop made one."""
    t, weak = ops.operand("collapse", operand)
    start, stop, _ = slice_bounds(start_dimension, stop_dimension, t.dim())
    if stop < start:
        raise ValueError(f"Invalid dimension range passed to collapse: {tuple(t.shape)}[{start}:{stop}]")
    middle = math.prod(t.shape[start:stop])
    return Array(t.reshape(*t.shape[:start], middle, *t.shape[stop:]), weak)


def slice_bounds(start: Any, stop: Any, size: int) -> tuple[int, int, int]:
    """Return Python's reading of start:stop on a sequence of this size."""
    return builtins.slice(start, stop).indices(size)


@moves_elements(0)
def transpose(operand: ArrayLike, permutation: Sequence[int] | np.ndarray) -> Array:
    """Return `operand` with its dimensions in the order of `permutation`; `TypeError` where that is none."""
    t, weak = ops.operand("transpose", operand)
    dims = tuple(map(index_of, permutation))
    if sorted(dims) != list(range(t.dim())):
        raise TypeError(
            f"transpose permutation isn't a permutation of operand dimensions, got permutation {dims} for operand "
            f"shape {tuple(t.shape)}."
        )
    return Array(t.permute(dims), weak)


@moves_elements(0)
def squeeze(array: ArrayLike, dimensions: Sequence[int]) -> Array:
    """Return `array` without some dimensions of size one; `ValueError` when their size is another."""
    t, weak = operand("squeeze", array)
    dims = tuple(canonical_axis(d, t.dim()) for d in dimensions)
    if len(set(dims)) < len(dims):
        raise ValueError(f"dimensions are not unique: {tuple(dimensions)}")
    if any(t.shape[d] != 1 for d in dims):
        raise ValueError(
            "cannot select an axis to squeeze out which has size not equal to one, got "
            f"shape={tuple(t.shape)} and dimensions={dims}"
        )
    return Array(t.squeeze(dims), weak)


@moves_elements(0)
def expand_dims(array: ArrayLike, dimensions: Sequence[int]) -> Array:
    """Return `array` with dimensions of size one at these positions of the result."""
    t, weak = operand("expand_dims", array)
    if len(set(dimensions)) != len(tuple(dimensions)):
        raise ValueError(f"repeated axis in lax.expand_dims: {tuple(dimensions)}")
    rank = t.dim() + len(tuple(dimensions))
    dims = canonical_axes(tuple(dimensions), rank)
    sizes = iter(t.shape)
    return Array(t.reshape([1 if d in dims else next(sizes) for d in range(rank)]), weak)


# Join and cut


def _joined(name: str, error: type[Exception], arrays: Sequence[Array]) -> tuple[list[Tensor], bool]:
    tensors = [tensor_of(a) for a in arrays]
    if len({t.dim() for t in tensors}) > 1:
        shapes = ", ".join(str(tuple(t.shape)) for t in tensors)
        raise error(f"Cannot {name} arrays with different numbers of dimensions: got {shapes}.")
    return tensors, all(a._weak for a in arrays)


@moves_elements(0)
def concatenate(operands: Any, dimension: int) -> Array:
    """Return arrays of equal dtype and rank joined along an existing dimension, counted from the front."""
    if isinstance(operands, Array):
        operands = list(operands)
    if len(operands) == 0:
        raise ValueError("concatenate requires a non-empty sequences of arrays")
    arrays = [ops.array_of("concatenate", x, i) for i, x in enumerate(operands)]
    if len(arrays) == 1:
        return arrays[0]
    tensors, weak = _joined("concatenate", TypeError, arrays)
    shapes = [tuple(t.shape) for t in tensors]
    dimension = index_of(dimension)
    if not 0 <= dimension < tensors[0].dim():
        raise TypeError(
            f"concatenate dimension out of bounds: dimension {dimension} for shapes {', '.join(map(str, shapes))}."
        )
    if len({s[:dimension] + s[dimension + 1 :] for s in shapes}) > 1:
        raise TypeError(
            "Cannot concatenate arrays with shapes that differ in dimensions other than the one being concatenated: "
            f"concatenating along dimension {dimension} for shapes {', '.join(map(str, shapes))}."
        )
    ops.check_same_dtypes("concatenate", *tensors)
    return Array(torch.cat(tensors, dimension), weak)


@moves_elements(0)
def stack(operands: Sequence[Any], axis: int = 0) -> Array:
    """Return arrays of equal dtype and shape joined along a new dimension."""
    arrays = [ops.array_of("stack", x, i) for i, x in enumerate(operands)]
    if not arrays:
        raise IndexError("stack requires a non-empty sequence of arrays.")
    tensors, weak = _joined("stack", ValueError, arrays)
    if len({t.shape for t in tensors}) > 1:
        raise ValueError(f"Cannot stack arrays with different shapes: got {[tuple(t.shape) for t in tensors]}.")
    ops.check_same_dtypes("stack", *tensors)
    return Array(torch.stack(tensors, canonical_axis(axis, tensors[0].dim() + 1)), weak)


@moves_elements(0)
def unstack(x: ArrayLike, axis: int = 0) -> tuple[Array, ...]:
    """Return the slices of `x` along a dimension."""
    t, weak = operand("unstack", x)
    return tuple(Array(part, weak) for part in t.unbind(canonical_axis(axis, t.dim())))


@moves_elements(0)
def split(operand: ArrayLike, sizes: Sequence[int], axis: int = 0) -> list[Array]:
    """Return consecutive pieces of these sizes along a dimension; `ValueError` when they do not add up to it."""
    t, weak = ops.operand("split", operand)
    axis = canonical_axis(axis, t.dim())
    sizes = [index_of(n) for n in sizes]
    if any(n < 0 for n in sizes):
        raise ValueError(f"Sizes passed to split must be nonnegative, got {sizes}")
    if sum(sizes) != t.shape[axis]:
        raise ValueError(
            f"Sum of sizes {sum(sizes)} must be equal to dimension {axis} of the operand shape {list(t.shape)}"
        )
    return [Array(part, weak) for part in t.split(sizes, axis)]


@moves_elements(0)
def tile(operand: ArrayLike, reps: Sequence[int]) -> Array:
    """Return `operand` repeated along each dimension; `reps` has one number for each."""
    t, weak = ops.operand("tile", operand)
    counts = check_shapelike("tile", "reps", tuple(reps))
    if len(counts) != t.dim():
        raise TypeError(
            f"reps length must be equal to the ndim of x, got len(reps)={len(counts)} and x.ndim={t.dim()}."
        )
    return Array(t.repeat(counts) if counts else t, weak)


@moves_elements(0)
def rev(operand: ArrayLike, dimensions: Sequence[int]) -> Array:
    """Return `operand` with its elements in reverse order along some dimensions, counted from the front."""
    t, weak = ops.operand("rev", operand)
    dims = check_shapelike("rev", "dimensions", tuple(dimensions))
    if len(set(dims)) != len(dims):
        raise TypeError(f"rev dimensions must be unique, got {dims}.")
    if any(d >= t.dim() for d in dims):
        raise TypeError(
            f"rev dimensions must all be less than operand ndim, got dimensions {dims} for operand ndim {t.dim()}."
        )
    return Array(unsigned.flip(t, dims) if dims else t, weak)


@moves_elements(0, slices=True)
def slice(operand: ArrayLike, start_indices: Any, limit_indices: Any, strides: Any = None) -> Array:
    """Return the elements from start up to limit, `strides` apart, along every dimension.

    Bounds are counted from the front and must lie within the operand (`TypeError`).
    """
    t, weak = ops.operand("slice", operand)
    shape = tuple(t.shape)
    starts = check_shapelike("slice", "start_indices", tuple(start_indices))
    limits = check_shapelike("slice", "limit_indices", tuple(limit_indices))
    steps = (
        (1,) * len(starts) if strides is None else check_shapelike("slice", "strides", tuple(strides), positive=True)
    )
    for name, given in (("start_indices", starts), ("limit_indices", limits), ("strides", steps)):
        if len(given) != t.dim():
            error = TypeError if name == "strides" else ValueError
            raise error(f"slice {name} must have one entry for each dimension, got {given} for operand shape {shape}.")
    if any(n > size for n, size in zip(limits, shape, strict=True)):
        raise TypeError(
            f"slice limit_indices must be less than or equal to operand shape, got limit_indices {limits} for operand "
            f"shape {shape}."
        )
    if any(a > b for a, b in zip(starts, limits, strict=True)):
        raise TypeError(
            "slice limit_indices must be greater than or equal to start_indices, got start_indices "
            f"{starts} and limit_indices {limits}."
        )
    if not shape:
        return Array(t, weak)
    return Array(t[tuple(map(builtins.slice, starts, limits, steps))], weak)


@moves_elements(0, slices=True)
def slice_in_dim(
    operand: ArrayLike, start_index: int | None, limit_index: int | None, stride: int = 1, axis: int = 0
) -> Array:
    """Return a slice along one dimension; negative bounds count from the end, None means all."""
    shape = ops.array_of("slice_in_dim", operand).shape
    size = shape[index_of(axis)]
    axis = canonical_axis(axis, len(shape))
    start = 0 if start_index is None else index_of(start_index)
    limit = size if limit_index is None else index_of(limit_index)
    starts, limits, strides = [0] * len(shape), list(shape), [1] * len(shape)
    starts[axis] = start + size if start < 0 else start
    limits[axis] = limit + size if limit < 0 else limit
    strides[axis] = index_of(stride)
    return slice(operand, starts, limits, strides)


@moves_elements(0, slices=True)
def index_in_dim(operand: ArrayLike, index: int, axis: int = 0, keepdims: bool = True) -> Array:
    """Return one position along a dimension; `IndexError` when it is out of bounds."""
    array = ops.array_of("index_in_dim", operand)
    axis, index = canonical_axis(axis, array.ndim), index_of(index)
    size = array.shape[axis]
    if not -size <= index < size:
        raise IndexError(f"index {index} is out of bounds for axis {axis} with size {size}")
    found = tensor_of(array).narrow(axis, index % size, 1)
    return Array(found if keepdims else found.squeeze(axis), array._weak)


# Pad


@moves_elements(0, 1)
def pad(operand: ArrayLike, padding_value: ArrayLike, padding_config: Sequence[tuple[int, int, int]]) -> Array:
    """Return `operand` with `padding_value` around and between its elements.

    `padding_config` has a triple (low, high, interior) for each dimension; negative low and high cut elements off.
    """
    t, weak = ops.operand("pad", operand)
    value = ops.array_of("pad", padding_value, 1, t.device)
    if value.ndim:
        raise ValueError(f"padding_value must be a scalar; got np.shape(padding_value)={value.shape}")
    fill = tensor_of(value)
    if fill.dtype is not t.dtype:
        raise TypeError(
            "pad operand and padding_value must be same dtype: got "
            f"{dtypes.TO_NUMPY[t.dtype]} and {dtypes.TO_NUMPY[fill.dtype]}."
        )
    config = tuple(tuple(map(index_of, c)) for c in padding_config)
    if any(len(c) != 3 for c in config):
        raise ValueError(
            f"not enough values to unpack: padding_config needs triples (low, high, interior), got {config}"
        )
    if len(config) != t.dim():
        raise ValueError(
            "length of padding_config must equal the number of axes of operand, got padding_config "
            f"{config} for operand shape {tuple(t.shape)}"
        )
    if any(c[2] < 0 for c in config):
        raise ValueError(f"interior padding in padding_config must be nonnegative, got padding_config {config}")
    shape = tuple(low + high + n + max(n - 1, 0) * inner for (low, high, inner), n in zip(config, t.shape, strict=True))
    if any(n < 0 for n in shape):
        raise ValueError(
            f"Dimension size after padding is not at least 0, got result shape {shape}, for padding_config {config} "
            f"and operand shape {tuple(t.shape)}"
        )
    return Array(_padded_with(t, fill, config), weak and value._weak)


@shown_as("pad", lambda t, fill, config: {"padding_config": config})
def _padded_with(t: Tensor, fill: Tensor, config: tuple[tuple[int, ...], ...]) -> Tensor:
    is_zero = has_cheap_value(fill) and not fill.item()
    return padded(t, None if is_zero else fill, config)


def padded(t: Tensor, fill: Tensor | None, config: Sequence[tuple[int, ...]]) -> Tensor:
    """Return a tensor padded with the scalar tensor `fill` (None: zero), as `pad` does."""
    if all(c == (0, 0, 0) for c in config):
        return t
    out = _zero_padded(t, config)
    if fill is None:
        return out
    kept = _zero_padded(torch.ones(t.shape, dtype=torch.bool, device=t.device), config)
    return selection.where(kept, out, fill)


def _zero_padded(t: Tensor, config: Sequence[tuple[int, ...]]) -> Tensor:
    for d, (_, _, inner) in enumerate(config):
        if inner and t.shape[d] > 1:
            # Each element becomes the head of a block of zeros; the last block's zeros are cut off again.
            spread = t.unsqueeze(d + 1)
            spread = torch.nn.functional.pad(spread, (0, 0) * (spread.dim() - d - 2) + (0, inner))
            t = spread.flatten(d, d + 1).narrow(d, 0, (t.shape[d] - 1) * (inner + 1) + 1)
    for d, (low, high, _) in enumerate(config):
        # torch refuses to cut off more than there is before the other side is padded.
        if low < -t.shape[d] or high < -t.shape[d]:
            t = torch.nn.functional.pad(t, (0, 0) * (t.dim() - d - 1) + (max(low, 0), max(high, 0)))
            t = t.narrow(d, max(-low, 0), t.shape[d] - max(-low, 0) - max(-high, 0))
            config = [*config[:d], (0, 0, 0), *config[d + 1 :]]
    flat = [n for low, high, _ in reversed(config) for n in (low, high)]
    return torch.nn.functional.pad(t, flat) if any(flat) else t


# Constants


@fills_elements("fill_value")
def full(shape: Shape, fill_value: ArrayLike, dtype: DTypeLike | None = None, *, sharding: Any = None) -> Array:
    """Return an array of this shape with one value everywhere; its dtype is that of the value unless given."""
    if sharding is not None:
        return device_put(full(shape, fill_value, dtype), sharding)
    sizes = check_shapelike("broadcast_in_dim", "shape", _sizes(shape))
    if isinstance(fill_value, list | tuple):
        fill_value = np.asarray(fill_value)
    if np.shape(fill_value):
        raise TypeError(f"full must be called with scalar fill_value, got fill_value.shape {np.shape(fill_value)}.")
    weak = False
    if dtype is None:
        found, weak = dtypes.lattice_type(fill_value)[0], is_weak(fill_value)
    else:
        found = dtypes.requested_dtype(dtype, "full")
    target = dtypes.to_torch(found)
    if type(fill_value) in (bool, int, float):
        return Array(narrow.full(sizes, _in_range(fill_value, target), target, default_torch_device()), weak)
    value = convert(tensor_of(ops.array_of("full", fill_value, 1)), target)
    return Array(value.expand(sizes), weak)


def _in_range(value: Any, dtype: torch.dtype) -> Any:
    """Return a Python scalar as `torch.full` takes it for this dtype: wrapped around, or saturated, or as it is."""
    if dtype is torch.bool or dtypes.is_inexact_tensor(dtype):
        return value
    info = dtypes.integer_bounds(dtype)
    if isinstance(value, float):
        return 0 if value != value else int(min(max(value, info.min), info.max))
    value &= (1 << info.bits) - 1
    return value - (1 << info.bits) if value > info.max else value


def full_like(
    x: Any, fill_value: ArrayLike, dtype: DTypeLike | None = None, shape: Shape | None = None, sharding: Any = None
) -> Array:
    """Return an array of one value with the dtype and shape of `x`, where they are not given; weak where x is."""
    if hasattr(x, "shape") and hasattr(x, "dtype"):
        own_shape, own_dtype, weak = x.shape, x.dtype, bool(getattr(x, "weak_type", False))
    else:
        array = ops.array_of("full_like", x)
        own_shape, own_dtype, weak = array.shape, array.dtype, array._weak
    out = full(
        own_shape if shape is None else shape, fill_value, own_dtype if dtype is None else dtype, sharding=sharding
    )
    if sharding is not None:
        return out
    out = from_kind(out._tensor.to(device_of(x)), True if weak and dtype is None else out.kind)
    return given_as(out, x.sharding) if isinstance(x, ShapeDtypeStruct) and out.shape == x.shape else out


def iota(dtype: DTypeLike | None, size: int) -> Array:
    """Return 0, 1, 2, ... up to `size`. `TypeError` for a boolean dtype or a negative size."""
    if dtype is None:
        raise ValueError("iota: dtype must be specified.")
    return broadcasted_iota(dtype, (size,), 0)


def broadcasted_iota(dtype: DTypeLike | None, shape: Shape, dimension: int, *, out_sharding: Any = None) -> Array:
    """Return an array of this shape whose elements are their own position along a dimension."""
    if out_sharding is not None:
        return laid_over(out_sharding, "broadcasted_iota", broadcasted_iota(dtype, shape, dimension))
    target = dtypes.to_torch(dtypes.requested_dtype(dtype, "iota"))
    if target is torch.bool:
        raise TypeError(
            "iota does not accept dtype bool. Accepted dtypes are subtypes of integer, floating, complexfloating."
        )
    sizes = check_shapelike("iota", "shape", _sizes(shape))
    dimension = index_of(dimension)
    if not 0 <= dimension < len(sizes):
        raise ValueError(f"iota dimension must be between 0 and len(shape), got {dimension=} for shape={sizes}")
    return Array(positions(sizes, target, dimension, default_torch_device()))


@shown_as(
    "iota",
    lambda shape, dtype, dimension, device: {
        "dtype": dtypes.TO_NUMPY[dtype], "shape": shape, "dimension": dimension, "sharding": None
    },
)  # fmt: skip
def positions(shape: tuple[int, ...], dtype: torch.dtype, dimension: int, device: torch.device) -> Tensor:
    """Return a tensor whose elements are their own position along a dimension."""
    along = [n if d == dimension else 1 for d, n in enumerate(shape)]
    return arange(shape[dimension], dtype, device).reshape(along).expand(shape)


def places_in_matrix(shape: tuple[int, int], dimension: int, device: torch.device) -> Tensor:
    """Return the numbers of a matrix's rows or columns, which broadcast to it; jaxprs show them of all its elements."""
    if graph.tracing and is_recorded():
        return positions(shape, torch.int32, dimension, device)
    found = torch.arange(shape[dimension], device=device)
    return found if dimension else found.unsqueeze(1)


def arange(size: int, dtype: torch.dtype, device: torch.device | None = None) -> Tensor:
    """Return 0, 1, 2, ... as a tensor of any dtype but bool."""
    device = device or default_torch_device()
    if dtype in unsigned.SIGNED or dtype.is_complex or dtype.itemsize == 1:
        return convert(torch.arange(size, device=device), dtype)
    return torch.arange(size, dtype=dtype, device=device)


def empty(shape: Any, dtype: Any, *, out_sharding: Any = None) -> Array:
    """Return an array of zeros: memory that was never written to is no value."""
    if out_sharding is not None:
        return laid_over(out_sharding, "empty", empty(shape, dtype))
    return full(shape, 0, dtype)


def shape_as_value(shape: Shape) -> Any:
    """Return a shape as a one-dimensional int32 NumPy array."""
    return np.asarray([index_of(n) for n in shape], dtype=dtypes.canonicalize_dtype(np.int64))
