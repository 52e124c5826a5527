"""BCOO arrays in other shapes and layouts: moves of dimensions, and parts of arrays."""

import itertools
import math
import operator
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..._core.array import Array, tensor_of
from ..._core.dimensions import canonical_axes
from ..._core.symbolic_sizes import index
from ..._lax.dynamic_slices import dynamic_slice
from ..._lax.gather_scatter import GatherDimensionNumbers, GatherScatterMode
from ..._numpy.creation import asarray
from ..._transforms.vmap import vmap
from .base import Shape, SparseEfficiencyError, SparseEfficiencyWarning
from .bcoo import BCOO, bcoo_sum_duplicates
from .layout import sizes_like


def _made(data: Tensor, indices: Tensor, shape: Sequence[int], **flags: bool) -> BCOO:
    return BCOO((Array(data), Array(indices)), shape=tuple(shape), **flags)


def _beside_data(mask: Tensor, data: Tensor) -> Tensor:
    return mask.reshape(*mask.shape, *[1] * (data.dim() - mask.dim()))


def bcoo_transpose(mat: BCOO, *, permutation: Sequence[int]) -> BCOO:
    """Return the array with its dimensions in another order, each among those of its kind.

    Raises `NotImplementedError` where batch, sparse and dense dimensions mix.
    """
    if not isinstance(permutation, tuple | list | np.ndarray):
        raise TypeError(f"transpose permutation must be a tuple/list/ndarray, got {type(permutation)}.")
    order = tuple(operator.index(p) for p in permutation)
    if sorted(order) != list(range(mat.ndim)):
        raise TypeError(
            f"transpose permutation isn't a permutation of operand dimensions, got permutation {order} for shape {mat.shape}."
        )
    batch, sparse, dense = mat.layout.split(order)
    first, second = mat.n_batch, mat.n_batch + mat.n_sparse
    if any(p >= first for p in batch) or any(not first <= p < second for p in sparse):
        raise NotImplementedError("transpose permutation cannot permute across batch, sparse, and dense dimensions.")
    data, indices = mat.tensors
    data = data.permute(*batch, first, *(p - second + first + 1 for p in dense))
    indices = indices.permute(*batch, first, first + 1)
    if sparse:
        indices = torch.stack([indices[..., p - first] for p in sparse], -1)
    in_order = sparse == tuple(range(first, second))
    return _made(
        data, indices, [mat.shape[p] for p in order], unique_indices=mat.unique_indices,
        indices_sorted=mat.indices_sorted and in_order,
    )  # fmt: skip


# ------------------------------------------------------------------------------------------------------------- layouts


def _check_efficiency(mat: BCOO, kind: str, count: int, sizes: Shape, on_inefficient: str | None) -> None:
    if all(n <= 1 for n in sizes) or on_inefficient is None:
        return
    message = f"For matrix of shape {mat.shape}, increasing {kind} to {count} results in inefficient storage."
    if on_inefficient == "error":
        raise SparseEfficiencyError(
            f"{message} To disable this error, set the on_inefficient argument of bcoo_update_layout to 'warn' or None."
        )
    warnings.warn(message, SparseEfficiencyWarning, stacklevel=3)


def bcoo_update_layout(
    mat: BCOO, *, n_batch: int | None = None, n_dense: int | None = None, on_inefficient: str | None = "error"
) -> BCOO:
    """Return the same array with other numbers of batch and dense dimensions.

    More of them store many zeros, unless the dimensions are of size one: `on_inefficient` "error" raises
    `SparseEfficiencyError` then, "warn" warns. Raises `ValueError` for numbers that are negative or too large.
    """
    n_batch = mat.n_batch if n_batch is None else operator.index(n_batch)
    n_dense = mat.n_dense if n_dense is None else operator.index(n_dense)
    if on_inefficient not in ("error", "warn", None):
        raise ValueError(f"on_inefficent={on_inefficient!r}; expected one of ['error', 'warn', None].")
    for name, count in (("n_batch", n_batch), ("n_dense", n_dense)):
        if count < 0:
            raise ValueError(f"{name} must be non-negative; got {count}")
    if n_batch + n_dense > mat.ndim:
        raise ValueError(f"sum of {n_batch=} and {n_dense=} cannot be larger than mat.ndim={mat.ndim}.")
    if (n_batch, n_dense) == (mat.n_batch, mat.n_dense):
        return mat
    shape = mat.shape
    if n_dense > mat.n_dense:
        _check_efficiency(mat, "n_dense", n_dense, shape[mat.ndim - n_dense : mat.ndim - mat.n_dense], on_inefficient)
    if n_batch > mat.n_batch:
        _check_efficiency(mat, "n_batch", n_batch, shape[mat.n_batch : n_batch], on_inefficient)
    parts = mat.tensors
    if n_dense < mat.n_dense:
        parts = _dense_to_sparse(*parts, mat.n_batch, mat.n_dense - n_dense)
    if n_batch < mat.n_batch:
        parts = _batch_to_sparse(*parts, shape[: mat.n_batch], n_batch)
    if n_dense > mat.n_dense:
        parts = _sparse_to_dense(*parts, shape[mat.ndim - n_dense : mat.ndim - mat.n_dense])
    if n_batch > mat.n_batch:
        parts = _sparse_to_batch(*parts, shape[mat.n_batch : n_batch], mat.n_batch)
    return _made(*parts, shape)


def _grid(sizes: Sequence[int], like: Tensor) -> Tensor:
    """Return all indices (product of sizes, dimensions) into a shape."""
    axes = [torch.arange(n, dtype=like.dtype, device=like.device) for n in sizes]
    return torch.stack([t.reshape(-1) for t in torch.meshgrid(*axes, indexing="ij")], -1)


def _dense_to_sparse(data: Tensor, indices: Tensor, n_batch: int, count: int) -> tuple[Tensor, Tensor]:
    grid = _grid(data.shape[n_batch + 1 : n_batch + 1 + count], indices)
    data = data.flatten(n_batch, n_batch + count)
    tail = (*indices.shape[:-1], grid.shape[0])
    columns = [indices.unsqueeze(-2).expand(*tail, indices.shape[-1]), grid.expand(*tail, count)]
    return data, torch.cat(columns, -1).flatten(n_batch, n_batch + 1)


def _batch_to_sparse(data: Tensor, indices: Tensor, batch: Shape, kept: int) -> tuple[Tensor, Tensor]:
    n_batch, sizes = len(batch), batch[kept:]
    data = data.expand(*data.shape[:kept], *sizes, *data.shape[n_batch:]).flatten(kept, n_batch)
    indices = indices.expand(*indices.shape[:kept], *sizes, *indices.shape[n_batch:])
    grid = _grid(sizes, indices).reshape(*sizes, 1, len(sizes)).expand(*indices.shape[:-1], len(sizes))
    return data, torch.cat([grid, indices], -1).flatten(kept, n_batch)


def _matches(indices: Tensor, sizes: Shape) -> Tensor:
    """Return booleans (..., nse, product of sizes): which of the places the indices stand for."""
    return (indices.unsqueeze(-2) == _grid(sizes, indices)).all(-1)


def _sparse_to_dense(data: Tensor, indices: Tensor, sizes: Shape) -> tuple[Tensor, Tensor]:
    count, n_batch = len(sizes), indices.dim() - 2
    here = _matches(indices[..., indices.shape[-1] - count :], sizes)
    data = torch.where(_beside_data(here, data.unsqueeze(n_batch + 1)), data.unsqueeze(n_batch + 1), 0)
    return data.unflatten(n_batch + 1, sizes), indices[..., : indices.shape[-1] - count]


def _sparse_to_batch(data: Tensor, indices: Tensor, sizes: Shape, n_batch: int) -> tuple[Tensor, Tensor]:
    here = _matches(indices[..., : len(sizes)], sizes).movedim(-1, n_batch)
    data = torch.where(_beside_data(here, data.unsqueeze(n_batch)), data.unsqueeze(n_batch), 0)
    rest = indices[..., len(sizes) :].unsqueeze(n_batch)
    rest = rest.expand(*rest.shape[:n_batch], math.prod(sizes), *rest.shape[n_batch + 1 :])
    return data.unflatten(n_batch, sizes), rest.unflatten(n_batch, sizes)


def bcoo_broadcast_in_dim(
    mat: BCOO, *, shape: Shape, broadcast_dimensions: Sequence[int], sharding: Any = None
) -> BCOO:
    """Return the array broadcast to `shape`, its dimensions becoming `broadcast_dimensions`.

    New dimensions are of the kind of those around them; sparse ones must be of size one.
    """
    if sharding is not None:
        raise NotImplementedError("bcoo_broadcast_in_dim takes no sharding.")
    if mat.ndim != len(broadcast_dimensions):
        raise ValueError(f"spinfo.shape={mat.shape} and {broadcast_dimensions=} must have the same length")
    shape = tuple(shape)
    batch, sparse, dense = mat.layout.split(tuple(broadcast_dimensions))
    if max(batch, default=0) > min(sparse, default=len(shape)):
        raise ValueError("Cannot mix batch and sparse dimensions during broadcast_in_dim")
    if max(sparse, default=0) > min(dense, default=len(shape)):
        raise ValueError("Cannot mix sparse and dense dimensions during broadcast_in_dim")
    n_batch = min((*sparse, *dense), default=len(shape))
    n_dense = len(shape) - min(dense) if dense else 0
    n_sparse = len(shape) - n_batch - n_dense
    _, old_sparse, _ = mat.layout.split(mat.shape)
    if math.prod(old_sparse) != math.prod(shape[n_batch : n_batch + n_sparse]):
        raise NotImplementedError("Adding sparse dimensions with lengths != 1")
    data, indices = mat.tensors
    batch_sizes = [1] * n_batch
    dense_sizes = [1] * n_dense

    def spread(t: Tensor, tail: list[int]) -> Tensor:
        sizes = list(batch_sizes)
        for d, n in zip(batch, t.shape, strict=False):
            sizes[d] = n
        return t.reshape((*sizes, *tail))

    for d, n in zip(dense, data.shape[mat.n_batch + 1 :], strict=True):
        dense_sizes[d - n_batch - n_sparse] = n
    data, indices = spread(data, [mat.nse, *dense_sizes]), spread(indices, [mat.nse, mat.n_sparse])
    if (n_batch, n_dense) != (mat.n_batch, mat.n_dense):
        data = data.expand(*shape[:n_batch], mat.nse, *shape[n_batch + n_sparse :])
        indices = indices.expand(*shape[:n_batch], mat.nse, mat.n_sparse)
    if n_sparse != mat.n_sparse:
        columns = [
            torch.zeros_like(indices[..., 0]) if mat.n_sparse else indices.new_zeros(indices.shape[:-1])
        ] * n_sparse
        for position, d in enumerate(sparse):
            columns[d - n_batch] = indices[..., position]
        indices = torch.stack(columns, -1) if columns else indices[..., :0]
    return _made(data, indices, shape)


def bcoo_reshape(
    mat: BCOO, *, new_sizes: Sequence[int], dimensions: Sequence[int] | None = None, sharding: Any = None
) -> BCOO:
    """Return the array in another shape, in which batch, sparse and dense dimensions are apart as before.

    `dimensions` is an order of the dimensions to take first. Raises `ValueError` where kinds would mix.
    """
    if sharding is not None:
        raise NotImplementedError("bcoo_reshape takes no sharding.")
    if dimensions is not None:
        mat = bcoo_transpose(mat, permutation=tuple(dimensions))
    new = tuple(index(n) for n in new_sizes)
    data, indices = mat.tensors
    batch, sparse, _ = mat.layout.split(mat.shape)
    ends = list(itertools.accumulate(new, operator.mul))
    cuts = [math.prod(batch), math.prod(batch) * math.prod(sparse)]
    for name, size, cut in (("batch and sparse", cuts[0], cuts[0]), ("sparse and dense", math.prod(sparse), cuts[1])):
        if size != 1 and cut not in ends:
            raise ValueError(
                f"bcoo_reshape: new shape cannot mix {name} dimensions; got shape={mat.shape} new_shape={new} with "
                f"n_batch={mat.n_batch}, n_dense={mat.n_dense}"
            )
    first, second = (int(np.searchsorted(ends, cut, side="right")) for cut in cuts)
    new_batch, new_sparse, new_dense = new[:first], new[first:second], new[second:]
    data = data.expand(*batch, *data.shape[len(batch) :]).reshape(*new_batch, mat.nse, *new_dense)
    indices = indices.expand(*batch, *indices.shape[len(batch) :])
    columns = _reshaped_columns(indices, sparse, new_sparse)
    return _made(data, columns.reshape(*new_batch, mat.nse, len(new_sparse)), new)


def _reshaped_columns(indices: Tensor, old: Shape, new: Shape) -> Tensor:
    place = torch.zeros(indices.shape[:-1], dtype=torch.int64, device=indices.device)
    for column, size in zip(indices.unbind(-1), old, strict=True):
        place = place * size + column
    inside = (indices < sizes_like(old, indices)).all(-1)
    columns = []
    for size in reversed(new):
        columns.append(torch.where(inside, place % max(size, 1), size))
        place = torch.div(place, max(size, 1), rounding_mode="floor")
    made = torch.stack(columns[::-1], -1) if columns else place.unsqueeze(-1)[..., :0]
    return made.to(indices.dtype)


# --------------------------------------------------------------------------------------------------------------- parts


def bcoo_concatenate(operands: Sequence[BCOO], *, dimension: int) -> BCOO:
    """Return arrays of one layout joined along a batch or sparse dimension."""
    dimension = operator.index(dimension)
    if not all(isinstance(op, BCOO) for op in operands):
        raise ValueError(f"bcoo_concatenate: expected operands to be a sequence of BCOO arrays. Got {operands}")
    shapes = [op.shape[:dimension] + op.shape[dimension + 1 :] for op in operands]
    if not operands or len(set(shapes)) > 1 or not 0 <= dimension < operands[0].ndim:
        raise TypeError(
            "Cannot concatenate arrays with different shapes but along the dimension: got "
            f"{[op.shape for op in operands]} and {dimension=}."
        )
    if len({op.n_dense for op in operands}) > 1:
        raise ValueError("bcoo_concatenate requires inputs to have matching nse dimensions.")
    counts = {op.n_batch for op in operands}
    if counts == {0, 1}:
        for n_batch in (1, 0):
            if all(op.shape[0] == 1 for op in operands if op.n_batch != n_batch):
                operands = [bcoo_update_layout(op, n_batch=n_batch) for op in operands]
                break
    if len({op.n_batch for op in operands}) > 1:
        raise ValueError("bcoo_concatenate requires inputs to have matching batch dimensions.")
    n_batch, n_sparse = operands[0].n_batch, operands[0].n_sparse
    size = sum(op.shape[dimension] for op in operands)
    shape = (*operands[0].shape[:dimension], size, *operands[0].shape[dimension + 1 :])
    parts = [op.tensors for op in operands]
    for kind in (0, 1):
        batches = {tuple(n for d, n in enumerate(p[kind].shape[:n_batch]) if d != dimension) for p in parts}
        if len(batches) > 1:
            raise NotImplementedError("concatenation of arrays with broadcasted batch indices")
    if dimension >= n_batch + n_sparse:
        raise NotImplementedError("Concatenation along dense dimensions.")
    if dimension < n_batch:
        nse = max(op.nse for op in operands)
        parts = [_padded(op, nse) for op in operands]
        data, indices = (torch.cat([p[kind] for p in parts], dimension) for kind in (0, 1))
        return _made(data, indices, shape)
    moved, offset = [], 0
    for op in operands:
        steps = [offset if n_batch + i == dimension else 0 for i in range(n_sparse)]
        moved.append(tensor_of(op.indices) + sizes_like(steps, tensor_of(op.indices)))
        offset += op.shape[dimension]
    return _made(torch.cat([p[0] for p in parts], n_batch), torch.cat(moved, n_batch), shape)


def _padded(mat: BCOO, nse: int) -> tuple[Tensor, Tensor]:
    """Return the tensors of an array, with padding up to `nse` elements."""
    data, indices = mat.tensors
    more, n_batch = nse - mat.nse, mat.n_batch
    _, sparse, dense = mat.layout.split(mat.shape)
    zeros = data.new_zeros((*data.shape[:n_batch], more, *dense))
    padding = sizes_like(sparse, indices).expand(*indices.shape[:n_batch], more, len(sparse))
    return torch.cat([data, zeros], n_batch), torch.cat([indices, padding], n_batch)


def bcoo_squeeze(arr: BCOO, *, dimensions: Sequence[int]) -> BCOO:
    """Return the array without dimensions of size one."""
    dropped = canonical_axes(tuple(dimensions), arr.ndim)
    if any(arr.shape[d] != 1 for d in dropped):
        raise ValueError(
            f"cannot select an axis to squeeze out which has size not equal to one, got shape={arr.shape} and {dimensions=}"
        )
    data, indices = arr.tensors
    n_batch, n_sparse = arr.n_batch, arr.n_sparse
    batch = [d for d in dropped if d < n_batch]
    kept = [i for i in range(n_sparse) if i + n_batch not in dropped]
    data = data.squeeze([*batch, *(d - n_sparse + 1 for d in dropped if d >= n_batch + n_sparse)])
    indices = (indices[..., kept] if len(kept) < n_sparse else indices).squeeze(batch)
    shape = [n for d, n in enumerate(arr.shape) if d not in dropped]
    return _made(data, indices, shape, indices_sorted=arr.indices_sorted, unique_indices=arr.unique_indices)


def bcoo_rev(operand: BCOO, dimensions: Sequence[int]) -> BCOO:
    """Return the array with its elements in reverse order along `dimensions`."""
    turned = canonical_axes(tuple(dimensions), operand.ndim)
    data, indices = operand.tensors
    n_batch, n_sparse = operand.n_batch, operand.n_sparse
    batch = [d for d in turned if d < n_batch]
    data = data.flip([*batch, *(d - n_sparse + 1 for d in turned if d >= n_batch + n_sparse)])
    indices = indices.flip(batch)
    _, sparse, _ = operand.layout.split(operand.shape)
    columns = [
        torch.where(c < n, n - 1 - c, c) if i + n_batch in turned else c
        for i, (c, n) in enumerate(zip(indices.unbind(-1), sparse, strict=True))
    ]
    return _made(data, torch.stack(columns, -1) if columns else indices, operand.shape)


def _fewer(data: Tensor, indices: Tensor, keep: Tensor, shape: Shape, nse: int, sparse: Shape) -> BCOO:
    """Return a part of an array of which `keep` says what lies within, without more elements than it has places."""
    indices = torch.where(keep.unsqueeze(-1), indices, sizes_like(sparse, indices))
    made = _made(torch.where(_beside_data(keep, data), data, data.new_zeros(())), indices, shape)
    most = math.prod(sparse)
    return bcoo_sum_duplicates(made, nse=most) if nse > most else made


def bcoo_slice(
    mat: BCOO, *, start_indices: Sequence[int], limit_indices: Sequence[int], strides: Sequence[int] | None = None
) -> BCOO:
    """Return the part of the array from `start_indices` to `limit_indices` in steps of `strides`."""
    if not isinstance(mat, BCOO):
        raise TypeError(f"bcoo_slice: input should be BCOO array, got type(mat)={type(mat)}")
    starts, limits = ([index(i) for i in x] for x in (start_indices, limit_indices))
    steps = [1] * mat.ndim if strides is None else [operator.index(i) for i in strides]
    if not len(starts) == len(limits) == len(steps) == mat.ndim:
        raise ValueError(f"bcoo_slice: indices must have size mat.ndim={mat.ndim}")
    if any(s <= 0 for s in steps):
        raise ValueError(f"strides must be a sequence of positive integers; got {strides}")
    if not all(0 <= a <= b <= n for a, b, n in zip(starts, limits, mat.shape, strict=True)):
        raise ValueError(f"bcoo_slice: invalid indices. Got {start_indices=}, {limit_indices=} and shape={mat.shape}")
    cuts = [slice(*c) for c in zip(starts, limits, steps, strict=True)]
    shape = tuple(-((a - b) // s) for a, b, s in zip(starts, limits, steps, strict=True))
    batch, sparse, dense = mat.layout.split(tuple(cuts))  # pyright: ignore
    data, indices = mat.tensors
    whole = slice(None)

    def of_batch(t: Tensor) -> list[Any]:
        return [whole if t.shape[d] != n else cut for d, (n, cut) in enumerate(zip(mat.shape, batch, strict=False))]

    data = data[(*of_batch(data), whole, *dense)]
    indices = indices[(*of_batch(indices), whole, whole)]
    if not sparse:
        return _made(data, indices, shape)
    first, last, step = (sizes_like([getattr(c, part) for c in sparse], indices) for part in ("start", "stop", "step"))
    keep = ((indices >= first) & (indices < last) & ((indices - first) % step == 0)).all(-1)
    indices = torch.div(indices - first, step, rounding_mode="floor")
    return _fewer(data, indices, keep, shape, mat.nse, mat.layout.split(shape)[1])


def bcoo_dynamic_slice(mat: BCOO, start_indices: Sequence[Any], slice_sizes: Sequence[int]) -> BCOO:
    """Return the part of the array of a given size that begins at `start_indices`, which may be traced."""
    if not isinstance(mat, BCOO):
        raise TypeError(f"bcoo_slice: input should be BCOO array, got type(mat)={type(mat)}")
    sizes = tuple(index(n) for n in slice_sizes)
    starts = [asarray(i) for i in start_indices]
    if not len(starts) == len(sizes) == mat.ndim:
        raise TypeError(f"bcoo_dynamic_slice: indices must have size mat.ndim={mat.ndim}")
    if not all(0 <= n <= whole for n, whole in zip(sizes, mat.shape, strict=True)):
        raise TypeError(
            "slice_sizes must be less than or equal to operand shape, got slice_sizes "
            f"{sizes} for operand shape {mat.shape}"
        )
    n_batch, n_sparse = mat.n_batch, mat.n_sparse

    def batch_part(array: Array, tail: list[tuple[Any, int]]) -> Tensor:
        parts = [(0, 1) if array.shape[d] != mat.shape[d] else (starts[d], sizes[d]) for d in range(n_batch)] + tail
        return (
            tensor_of(dynamic_slice(array, [p[0] for p in parts], [p[1] for p in parts])) if parts else tensor_of(array)
        )

    dense_part = list(zip(starts[n_batch + n_sparse :], sizes[n_batch + n_sparse :], strict=True))
    data = batch_part(mat.data, [(0, mat.nse), *dense_part])
    indices = batch_part(mat.indices, [(0, mat.nse), (0, n_sparse)])
    if not n_sparse:
        return _made(data, indices, sizes)
    _, whole, _ = mat.layout.split(mat.shape)
    _, wanted, _ = mat.layout.split(sizes)
    first = torch.stack([tensor_of(s).to(indices.dtype) for s in starts[n_batch : n_batch + n_sparse]])
    first = torch.where(first < 0, first + sizes_like(whole, indices), first)
    first = torch.minimum(first.clamp(min=0), sizes_like(whole, indices) - sizes_like(wanted, indices))
    keep = ((indices >= first) & (indices < first + sizes_like(wanted, indices))).all(-1)
    return _fewer(data, indices - first, keep, sizes, mat.nse, wanted)


def bcoo_gather(
    operand: BCOO, start_indices: Array, dimension_numbers: GatherDimensionNumbers, slice_sizes: Shape, *,
    unique_indices: bool = False, indices_are_sorted: bool = False, mode: Any = None, fill_value: Any = None,
) -> BCOO:  # fmt: skip
    """Return parts of the array, as `lax.gather` picks them, all within its bounds. Other modes are not implemented.

    `unique_indices`, `indices_are_sorted` and `fill_value` make no difference then.
    """
    del unique_indices, indices_are_sorted, fill_value
    if mode is not None and GatherScatterMode.from_any(mode) != GatherScatterMode.PROMISE_IN_BOUNDS:
        raise NotImplementedError(f"bcoo_gather: {mode=} not yet supported.")
    numbers, starts = dimension_numbers, asarray(start_indices)
    sizes = list(operand.shape)
    for d in numbers.start_index_map:
        sizes[d] = slice_sizes[d]

    def part(start: Array) -> BCOO:
        full: list[Any] = [0] * operand.ndim
        for position, d in enumerate(numbers.start_index_map):
            full[d] = start[position]
        found = bcoo_dynamic_slice(operand, full, sizes)
        return bcoo_squeeze(found, dimensions=tuple(numbers.collapsed_slice_dims))

    batch = starts.shape[:-1]
    result = vmap(part)(starts.reshape(-1, starts.shape[-1]))
    result = bcoo_reshape(result, new_sizes=(*batch, *result.shape[1:]))
    others = [d for d in range(result.ndim) if d not in numbers.offset_dims]
    order = np.argsort([*others, *numbers.offset_dims]).tolist() if result.ndim else []
    if set(order[: len(others)]) != set(range(len(others))):
        result = bcoo_update_layout(result, n_batch=0)
    return bcoo_transpose(result, permutation=order)


def bcoo_reduce_sum(mat: BCOO, *, axes: Sequence[int]) -> BCOO:
    """Return the sums over `axes`, as a sparse array in which indices may come several times."""
    axes = sorted({operator.index(a) for a in axes})
    data, indices = mat.tensors
    n_batch, n_sparse = mat.n_batch, mat.n_sparse
    _, sparse, _ = mat.layout.split(mat.shape)
    dense = [a - n_sparse + 1 for a in axes if a >= n_batch + n_sparse]
    data = data.sum(dense, dtype=data.dtype) if dense else data
    if n_sparse:
        inside = (indices < sizes_like(sparse, indices)).all(-1)
        data = torch.where(_beside_data(inside, data), data, data.new_zeros(()))
    indices = indices[..., [i for i in range(n_sparse) if i + n_batch not in axes]]
    summed = [a for a in axes if a < n_batch]
    for a in summed:
        if indices.shape[a] == 1:
            data = data * mat.shape[a] if data.shape[a] == 1 else data.sum(a, keepdim=True, dtype=data.dtype)
        elif data.shape[a] == 1:
            data = data.expand(*data.shape[:a], mat.shape[a], *data.shape[a + 1 :])
    nse = mat.nse * math.prod(data.shape[a] for a in summed)
    kept = [a for a in range(n_batch) if a not in axes]

    def folded(t: Tensor) -> Tensor:
        batch = [t.shape[a] for a in kept]
        return t.permute(*kept, *summed, *range(n_batch, t.dim())).reshape(*batch, nse, *t.shape[n_batch + 1 :])

    return _made(folded(data), folded(indices), [n for d, n in enumerate(mat.shape) if d not in axes])
