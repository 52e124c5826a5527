"""Products of BCOO arrays: sums over dimensions, and elementwise. All come down to the two of `products`."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..._core import dtypes
from ..._core.array import Array, tensor_of
from ..._core.dimensions import broadcast_shape
from ..._core.promotion import convert, promote
from ..._core.typing import ArrayLike, DTypeLike
from ..._lax.contraction import DotDimensionNumbers, canonical_numbers, check_numbers, dot_general, result_dtype
from ..._numpy.creation import asarray
from .base import Shape
from .bcoo import BCOO, bcoo_sum_duplicates, extracted
from .layout import gathered, layout_of, nonzero_keys, over_batch, sizes_like
from .products import SAMPLED_PRODUCT, sparse_product
from .shapes import bcoo_update_layout


def _numbers(dimension_numbers: DotDimensionNumbers) -> Any:
    left, right, left_batch, right_batch = canonical_numbers(dimension_numbers)
    return (left, right), (left_batch, right_batch)


def _product_type(lhs: Any, rhs: Any, numbers: Any, preferred: DTypeLike | None) -> tuple[Shape, torch.dtype]:
    """Return the shape and dtype of a product. Raises what `lax.dot_general` raises for these shapes and dtypes."""
    (left, right), (left_batch, right_batch) = numbers
    check_numbers(lhs.shape, rhs.shape, left, right, left_batch, right_batch)
    given = [dtypes.to_torch(x.dtype) for x in (lhs, rhs)]
    dtype = result_dtype(*given)
    if preferred is not None:
        dtype = dtypes.to_torch(dtypes.requested_dtype(preferred, "dot_general"))
    rest = [lhs.shape[d] for d in _rest(range(lhs.ndim), left, left_batch)]
    rest += [rhs.shape[d] for d in _rest(range(rhs.ndim), right, right_batch)]
    return (*(lhs.shape[d] for d in left_batch), *rest), dtype


def _places(indices: Tensor, shape: Shape, dims: Sequence[int]) -> Tensor:
    """Return where elements lie within batch and sparse dimensions of an array, as one number for each."""
    n_batch = indices.dim() - 2
    own = (*shape[:n_batch], indices.shape[-2])
    place = torch.zeros(own, dtype=torch.int64, device=indices.device)
    for d in dims:
        if d < n_batch:
            counted = torch.arange(shape[d], device=indices.device).reshape(-1, *[1] * (n_batch - d))
        else:
            counted = indices[..., d - n_batch]
        place = place * shape[d] + counted
    return place


def _inside(indices: Tensor, shape: Shape) -> Tensor:
    n_batch = indices.dim() - 2
    sparse = sizes_like(shape[n_batch : n_batch + indices.shape[-1]], indices)
    return ((indices >= 0) & (indices < sparse)).all(-1).expand(*shape[:n_batch], indices.shape[-2])


def _rest(dims: Sequence[int], *taken: Sequence[int]) -> list[int]:
    used = {d for group in taken for d in group}
    return [d for d in dims if d not in used]


def _sparse_dense(mat: BCOO, dense: Array, numbers: Any, dtype: torch.dtype) -> Tensor:
    """Return the product with dimensions: batch, rest of the sparse array, rest of the dense one."""
    (of_mat, of_dense), (mat_batch, dense_batch) = numbers
    first_dense = mat.n_batch + mat.n_sparse
    if any(d >= first_dense for d in (*of_mat, *mat_batch)):
        raise NotImplementedError(
            "bcoo_dot_general contracted along dense or dense batch dimensions of the sparse array."
        )
    data, indices = (t for t in mat.tensors)
    t = convert(tensor_of(dense), dtype)
    data = convert(data, dtype)
    shape = mat.shape
    left = _rest(range(first_dense), of_mat, mat_batch)
    right = _rest(range(t.dim()), of_dense, dense_batch)
    tail = shape[first_dense:]
    width, rows = math.prod(tail), math.prod(shape[d] for d in (*mat_batch, *left))
    inside = _inside(indices, shape)
    row = torch.where(inside, _places(indices, shape, [*mat_batch, *left]), max(rows - 1, 0)).reshape(-1)
    column = torch.where(inside, _places(indices, shape, [*mat_batch, *of_mat]), 0).reshape(-1)
    own = shape[: mat.n_batch]
    values = data.expand(*own, *data.shape[mat.n_batch :]).reshape(row.shape[0], width)
    values = torch.where(inside.reshape(-1, 1), values, values.new_zeros(())).reshape(-1)
    if width != 1:
        within = torch.arange(width, device=row.device)
        row, column = (row.unsqueeze(-1) * width + within).reshape(-1), column.repeat_interleave(width)
    flat = t.permute((*dense_batch, *of_dense, *right)).reshape(
        math.prod(shape[d] for d in (*mat_batch, *of_mat)), math.prod(t.shape[d] for d in right)
    )
    is_prefix = left == list(range(len(left))) and not mat.n_batch
    if not row.numel() or not flat.shape[0]:
        found = flat.new_zeros((rows * width, flat.shape[1]))
    else:
        found = sparse_product(values, row, column, flat, rows * width, mat.indices_sorted and is_prefix and width == 1)
    return found.reshape((*(shape[d] for d in (*mat_batch, *left)), *tail, *(t.shape[d] for d in right)))


def bcoo_dot_general(
    lhs: BCOO | ArrayLike, rhs: BCOO | ArrayLike, *, dimension_numbers: DotDimensionNumbers, precision: None = None,
    preferred_element_type: DTypeLike | None = None, out_sharding: Any = None,
) -> Any:  # fmt: skip
    """Return the sum of products over dimensions, as `lax.dot_general`: sparse for two sparse arrays, else dense.

    The sums are as precise as dense ones with the highest precision, whatever `precision` asks for.
    """
    del precision
    if out_sharding is not None:
        raise NotImplementedError("bcoo_dot_general takes no out_sharding.")
    if not isinstance(lhs, BCOO) and not isinstance(rhs, BCOO):
        return dot_general(lhs, rhs, dimension_numbers, preferred_element_type=preferred_element_type)
    lhs, rhs = (x if isinstance(x, BCOO) else asarray(x) for x in (lhs, rhs))
    numbers: Any = _numbers(dimension_numbers)
    shape, dtype = _product_type(lhs, rhs, numbers, preferred_element_type)
    if isinstance(lhs, BCOO) and isinstance(rhs, BCOO):
        return _sparse_sparse(lhs, rhs, numbers, shape, dtype)
    if isinstance(lhs, BCOO):
        return Array(_sparse_dense(lhs, rhs, numbers, dtype))  # pyright: ignore
    (left, right), (left_batch, right_batch) = numbers
    made = _sparse_dense(rhs, lhs, ((right, left), (right_batch, left_batch)), dtype)  # pyright: ignore
    batch, of_right = len(left_batch), rhs.ndim - len(right) - len(right_batch)
    order = [*range(batch), *range(batch + of_right, made.dim()), *range(batch, batch + of_right)]
    return Array(made.permute(order))


def _sparse_sparse(lhs: BCOO, rhs: BCOO, numbers: Any, shape: Shape, dtype: torch.dtype) -> BCOO:
    (left, right), (left_batch, right_batch) = numbers
    _check_sparse_product(lhs, rhs, numbers)
    n_out = lhs.n_sparse + rhs.n_sparse - len(left) - len(right)
    nse = (lhs.nse if lhs.n_sparse > len(left) else 1) * (rhs.nse if rhs.n_sparse > len(right) else 1)
    nse = min(nse, math.prod(shape[len(shape) - n_out :]))
    own = [_rest(range(m.n_batch), b) for m, b in ((lhs, left_batch), (rhs, right_batch))]
    batch = [lhs.shape[d] for d in left_batch]
    sizes = [[m.shape[d] for d in dims] for m, dims in ((lhs, own[0]), (rhs, own[1]))]

    def spread(t: Tensor, mat: BCOO, dims: Sequence[int], which: int) -> Tensor:
        """Return a tensor with the batch, the rest of lhs's batch and that of rhs's in front."""
        t = t.expand(*mat.shape[: mat.n_batch], *t.shape[mat.n_batch :])
        t = t.permute((*dims, *own[which], *range(mat.n_batch, t.dim())))
        ones = [1] * len(own[1 - which])
        middle = [*ones, *sizes[1]] if which else [*sizes[0], *ones]
        return t.reshape((*batch, *middle, *t.shape[mat.n_batch :]))

    parts = [
        [spread(t, mat, dims, which) for t in mat.tensors]
        for which, (mat, dims) in enumerate(((lhs, left_batch), (rhs, right_batch)))
    ]
    (a, i), (b, j) = parts
    front = broadcast_shape(i.shape[:-2], j.shape[:-2])
    i, j = i.unsqueeze(-2), j.unsqueeze(-3)
    of_i, of_j = [d - lhs.n_batch for d in left], [d - rhs.n_batch for d in right]
    overlap = (i[..., of_i] == j[..., of_j]).all(-1)
    overlap = overlap & _inside_of(i, lhs) & _inside_of(j, rhs)
    values = torch.where(overlap, convert(a, dtype).unsqueeze(-1) * convert(b, dtype).unsqueeze(-2), 0)
    free = [i[..., _rest(range(lhs.n_sparse), of_i)], j[..., _rest(range(rhs.n_sparse), of_j)]]
    kind = torch.promote_types(i.dtype, j.dtype)
    indices = torch.cat([t.to(kind).expand(*front, lhs.nse, rhs.nse, t.shape[-1]) for t in free], -1)
    made = BCOO(
        (Array(values.expand(*front, lhs.nse, rhs.nse).flatten(-2)), Array(indices.flatten(-3, -2))), shape=shape
    )
    return bcoo_sum_duplicates(made, nse=nse)


def _inside_of(indices: Tensor, mat: BCOO) -> Tensor:
    _, sparse, _ = mat.layout.split(mat.shape)
    return (indices < sizes_like(sparse, indices)).all(-1)


def _check_sparse_product(lhs: BCOO, rhs: BCOO, numbers: Any) -> None:
    (left, right), (left_batch, right_batch) = numbers
    if lhs.n_dense or rhs.n_dense:
        raise NotImplementedError("bcoo_spdot_general with dense dimensions.")
    for mat, contracted, batch in ((lhs, left, left_batch), (rhs, right, right_batch)):
        if any(d >= mat.n_batch for d in batch):
            raise NotImplementedError(
                "bcoo_spdot_general: batch_dims must correspond to batch dimensions of the sparse representation."
            )
        if any(d < mat.n_batch for d in contracted):
            raise NotImplementedError("bcoo_spdot_general only supports contraction of sparse indices.")
    if rhs.n_batch > len(right_batch) and lhs.n_sparse > len(left):
        raise ValueError("bcoo_spdot_general: cannot have unused batch dims on rhs with unused sparse dims on lhs.")


def bcoo_dot_general_sampled(
    A: ArrayLike, B: ArrayLike, indices: Array, *, dimension_numbers: DotDimensionNumbers
) -> Array:
    """Return the elements of the product of dense arrays at the indices of a BCOO array, without the rest of it."""
    a, b, places = asarray(A), asarray(B), tensor_of(asarray(indices))
    numbers: Any = _numbers(dimension_numbers)
    (left, right), (left_batch, right_batch) = numbers
    shape, dtype = _product_type(a, b, numbers, None)
    layout = layout_of(places, shape)
    if layout.n_dense:
        return extracted(asarray(indices), dot_general(a, b, numbers))
    batch = list(range(len(left_batch)))
    rest = _rest(range(a.ndim), left, left_batch), _rest(range(b.ndim), right, right_batch)
    of_left = [*batch, *range(len(batch), len(batch) + len(rest[0]))]
    of_right = [*batch, *range(len(of_left), len(shape))]

    def flat(x: Array, kept: Sequence[int], contracted: Sequence[int]) -> Tensor:
        t = convert(tensor_of(x), dtype).permute((*kept, *contracted))
        return t.reshape(math.prod(t.shape[: len(kept)]), math.prod(t.shape[len(kept) :]))

    inside = _inside(places, shape)
    rows, columns = (torch.where(inside, _places(places, shape, dims), 0).reshape(-1) for dims in (of_left, of_right))
    (made,) = SAMPLED_PRODUCT(
        flat(a, [*left_batch, *rest[0]], left), flat(b, [*right_batch, *rest[1]], right), rows, columns
    )
    made = made.reshape(inside.shape)
    return Array(torch.where(inside, made, made.new_zeros(())))


# --------------------------------------------------------------------------------------------------------- elementwise


def bcoo_multiply_dense(sp_mat: BCOO, v: ArrayLike) -> Array:
    """Return the elements of a sparse array times those of a dense one that is broadcast to it: the product's `data`.

    Raises `NotImplementedError` where the sparse array would be broadcast.
    """
    (data, t), weak = promote("bcoo_multiply_dense", sp_mat.data, asarray(v))
    shape = sp_mat.shape
    if not t.dim():
        return Array(data * t, weak)
    if t.dim() > len(shape) or any(n not in (1, m) for n, m in zip(t.shape[::-1], shape[::-1], strict=False)):
        raise NotImplementedError(
            "multiplication between sparse and dense is only implemented for cases where the output shape matches the "
            f"sparse matrix shape. Got {shape=}, v.shape={tuple(t.shape)}"
        )
    t = t.reshape(*[1] * (len(shape) - t.dim()), *t.shape)
    indices, first = tensor_of(sp_mat.indices), sp_mat.n_batch + sp_mat.n_sparse
    sizes = tuple(t.shape[:first])
    limit = sizes_like(sizes[sp_mat.n_batch :], indices) - 1
    wide = torch.minimum(indices, limit).clamp(min=0)
    batch = broadcast_shape(wide.shape[: sp_mat.n_batch], sizes[: sp_mat.n_batch])
    place = _places(
        wide.expand(*batch, *wide.shape[-2:]), (*batch, *sizes[sp_mat.n_batch :]), range(sp_mat.n_batch, first)
    )
    rows = t.reshape(math.prod(sizes[: sp_mat.n_batch]), -1, *t.shape[first:])
    if sizes[: sp_mat.n_batch] != tuple(batch):
        rows = t.expand(*batch, *t.shape[sp_mat.n_batch :]).reshape(math.prod(batch), -1, *t.shape[first:])
    found = gathered(rows, over_batch(place, tuple(batch))).reshape(*batch, sp_mat.nse, *t.shape[first:])
    return Array(data * found, weak)


def bcoo_multiply_sparse(lhs: BCOO, rhs: BCOO) -> BCOO:
    """Return the elementwise product of two sparse arrays, with an element for each pair of theirs."""
    if lhs.ndim != rhs.ndim:
        raise TypeError(
            f"bcoo_multiply_sparse: arrays must have same number of dimensions, got {lhs.shape}, {rhs.shape}"
        )
    if lhs.n_dense != rhs.n_dense:
        raise NotImplementedError(
            f"bcoo_multiply_sparse: arrays with differing numbers of dense dimensions: {lhs}, {rhs}"
        )
    n_batch = min(lhs.n_batch, rhs.n_batch)
    lhs, rhs = (bcoo_update_layout(m, n_batch=n_batch) for m in (lhs, rhs))
    shape = broadcast_shape(lhs.shape, rhs.shape)
    _, sparse, _ = lhs.layout.split(tuple(shape))
    (a, b), weak = promote("bcoo_multiply_sparse", lhs.data, rhs.data)
    i, j = (tensor_of(m.indices).unsqueeze(d) for m, d in ((lhs, -2), (rhs, -3)))
    both = [d for d in range(lhs.n_sparse) if lhs.shape[n_batch + d] != 1 and rhs.shape[n_batch + d] != 1]
    overlap = (i[..., both] == j[..., both]).all(-1)
    own = tuple(broadcast_shape(overlap.shape[:n_batch], a.shape[:n_batch], b.shape[:n_batch]))
    nse = lhs.nse * rhs.nse
    keys = nonzero_keys(over_batch(overlap, own).flatten(1), nse)
    values = (a.unsqueeze(n_batch + 1) * b.unsqueeze(n_batch)).flatten(n_batch, n_batch + 1)
    places = torch.maximum(*torch.broadcast_tensors(i, j)).flatten(n_batch, n_batch + 1)
    values = gathered(over_batch(values, own), keys).reshape(*own, nse, *values.shape[n_batch + 1 :])
    indices = torch.where(
        (keys < nse).unsqueeze(-1),
        gathered(over_batch(places, own), keys),
        sizes_like(sparse, places),
    )
    return BCOO((Array(values, weak), Array(indices.reshape(*own, nse, len(sparse)))), shape=shape)


# --------------------------------------------------------------------------------------------------------- convolutions


def bcoo_conv_general_dilated(
    lhs: Any, rhs: Any, *, window_strides: Sequence[int], padding: Any, lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None, dimension_numbers: Any = None, feature_group_count: int = 1,
    batch_group_count: int = 1, precision: None = None, preferred_element_type: None = None, out_sharding: Any = None,
) -> BCOO:  # fmt: skip
    """Return the convolution of signals of one dimension, sparse or dense, each of shape (1, 1, size), as a sparse array.

    Raises `NotImplementedError` for strides, dilation, groups and other shapes.
    """
    del precision
    given = (
        ("lhs_dilation", tuple(lhs_dilation or (1,)) != (1,)),
        ("rhs_dilation", tuple(rhs_dilation or (1,)) != (1,)),
        ("non-unit window_strides", tuple(window_strides) != (1,)),
        ("non-unit group counts", feature_group_count != 1 or batch_group_count != 1),
        ("dimension_numbers", dimension_numbers is not None),
        ("preferred_element_type", preferred_element_type is not None),
        ("out_sharding", out_sharding is not None),
        ("leading dimensions other than (1, 1)", lhs.shape[:2] != (1, 1) or rhs.shape[:2] != (1, 1) or lhs.ndim != 3),
    )
    for what, is_given in given:
        if is_given:
            raise NotImplementedError(f"bcoo convolution with {what}.")
    (data, indices, size), (other, places, width) = map(_signal, (lhs, rhs))
    before, after = _padding(padding, width)
    values = (data.unsqueeze(-1) * other).reshape(-1)
    found = (indices.unsqueeze(-1) + (before - places)).reshape(-1)
    is_before = found < 0
    values = torch.where(is_before, values.new_zeros(()), values)
    found = torch.where(is_before, torch.zeros_like(found), found)
    length = max(0, size + before + after - width + 1)
    return BCOO((Array(values[None, None]), Array(found[None, None, :, None])), shape=(1, 1, length))


def _signal(x: Any) -> tuple[Tensor, Tensor, int]:
    size = x.shape[-1]
    if not isinstance(x, BCOO):
        t = tensor_of(asarray(x)).reshape(-1)
        return t, torch.arange(size, dtype=torch.int32, device=t.device), size
    data, indices = bcoo_update_layout(x, n_batch=2, n_dense=0).tensors
    data, indices = data.reshape(-1), indices.reshape(-1)
    return torch.where(indices < size, data, data.new_zeros(())), indices, size


def _padding(padding: Any, width: int) -> tuple[int, int]:
    if not isinstance(padding, str):
        ((before, after),) = padding
        return int(before), int(after)
    if padding not in ("VALID", "SAME", "SAME_LOWER"):
        raise ValueError(f"Unknown padding type: {padding}.")
    total = 0 if padding == "VALID" else max(width - 1, 0)
    less, more = total // 2, total - total // 2
    return (more, less) if padding == "SAME_LOWER" else (less, more)
