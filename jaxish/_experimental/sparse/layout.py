"""Elements and indices of BCOO arrays as tensors: their dimensions, and moves between them and dense tensors.

`data` has batch dimensions, one for the stored elements, and dense dimensions; `indices` has the same batch dimensions,
one for the stored elements and one for the sparse dimensions. A batch dimension of size one serves the whole batch.
Indices beyond the shape are padding. A `key` is an element's place within the sparse dimensions as one number, and
their product for padding.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .base import Shape


class Layout(NamedTuple):
    """How many dimensions are of which kind, and how many elements are stored in each batch."""

    n_batch: int
    n_sparse: int
    n_dense: int
    nse: int

    def split(self, shape: Shape) -> tuple[Shape, Shape, Shape]:
        """Return the batch, sparse and dense parts of a shape."""
        first, second = self.n_batch, self.n_batch + self.n_sparse
        return tuple(shape[:first]), tuple(shape[first:second]), tuple(shape[second:])


def layout_of(indices: Tensor, shape: Shape) -> Layout:
    """Return the layout that indices have. Raises `ValueError` where they do not fit the shape."""
    *batch, nse, n_sparse = indices.shape
    n_dense = len(shape) - len(batch) - n_sparse
    if n_dense < 0 or any(n not in (1, wanted) for n, wanted in zip(batch, shape, strict=False)):
        raise ValueError(f"indices batch dimensions not compatible for indices.shape={tuple(indices.shape)}, {shape=}")
    return Layout(len(batch), n_sparse, n_dense, nse)


def checked_layout(data: Tensor, indices: Tensor, shape: Shape) -> Layout:
    """Return the layout of a BCOO array. Raises `ValueError` where its arrays do not fit each other or the shape."""
    layout = layout_of(indices, shape)
    n_batch = layout.n_batch
    if data.dim() < n_batch or any(
        n not in (1, wanted) for n, wanted in zip(data.shape[:n_batch], shape, strict=False)
    ):
        raise ValueError(f"data batch dimensions not compatible for data.shape={tuple(data.shape)}, {shape=}")
    if tuple(data.shape[n_batch:]) != (layout.nse, *layout.split(shape)[2]):
        raise ValueError(
            f"Invalid data.shape={tuple(data.shape)} for nse={layout.nse}, n_batch={n_batch}, n_dense={layout.n_dense}"
        )
    return layout


def sizes_like(sizes: Sequence[Any], like: Tensor) -> Tensor:
    """Return sizes, which may be symbols, as a vector that indices can be compared with."""
    if torch.SymInt not in map(type, sizes):
        return torch.tensor(tuple(sizes), dtype=like.dtype, device=like.device)
    return torch.stack([torch.full((), n, dtype=like.dtype, device=like.device) for n in sizes])


def keys_of(indices: Tensor, sparse_shape: Shape) -> Tensor:
    """Return the keys of indices, without their last dimension."""
    wide = indices.to(torch.int64)
    steps = [math.prod(sparse_shape[i + 1 :]) for i in range(len(sparse_shape))]
    keys = (wide * sizes_like(steps, wide)).sum(-1)
    is_inside = ((wide >= 0) & (wide < sizes_like(sparse_shape, wide))).all(-1)
    return torch.where(is_inside, keys, math.prod(sparse_shape))


def indices_of(keys: Tensor, sparse_shape: Shape, dtype: torch.dtype) -> Tensor:
    """Return the indices that keys stand for, the shape itself for padding."""
    is_padding = keys >= math.prod(sparse_shape)
    columns = []
    for i, size in enumerate(sparse_shape):
        column = torch.div(keys, max(math.prod(sparse_shape[i + 1 :]), 1), rounding_mode="floor") % max(size, 1)
        columns.append(torch.where(is_padding, size, column))
    return torch.stack(columns, -1).to(dtype) if columns else keys.new_zeros((*keys.shape, 0), dtype=dtype)


def over_batch(t: Tensor, batch: Shape) -> Tensor:
    """Return a tensor with its leading dimensions expanded to the batch, and these made one."""
    tail = tuple(t.shape[len(batch) :])
    return t.expand(*batch, *tail).reshape(math.prod(batch), *tail)


def _rows(keys: Tensor, height: int) -> Tensor:
    """Return where the elements of each batch lie in a tensor of `height` rows a batch."""
    return (keys + height * torch.arange(keys.shape[0], device=keys.device).unsqueeze(-1)).reshape(-1)


def scattered(data: Tensor, keys: Tensor, count: int) -> Tensor:
    """Return tensors of `count` rows for each batch, in which elements with equal keys are added and padding is dropped.

    `data` is (batch, nse, ...) and `keys` (batch, nse).
    """
    batch, _, *tail = data.shape
    height = count + 1
    flat = data.reshape(-1, math.prod(tail))
    is_bool = flat.dtype is torch.bool
    flat = flat.to(torch.uint8) if is_bool else flat
    blank = torch.zeros((batch * height, flat.shape[1]), dtype=flat.dtype, device=flat.device)
    found = blank.index_add(0, _rows(keys, height), flat).reshape(batch, height, *tail)[:, :count]
    return found != 0 if is_bool else found


def gathered(rows: Tensor, keys: Tensor) -> Tensor:
    """Return the elements of tensors (batch, count, ...) at keys (batch, nse), zero for padding."""
    batch, count, *tail = rows.shape
    flat = rows.reshape(batch * count, math.prod(tail))
    is_padding = keys >= count
    if not count:
        return rows.new_zeros((*keys.shape, *tail))
    found = flat.index_select(0, _rows(torch.where(is_padding, 0, keys), count)).reshape(*keys.shape, *tail)
    return torch.where(is_padding.reshape(*keys.shape, *[1] * len(tail)), found.new_zeros(()), found)


def to_dense(data: Tensor, indices: Tensor, shape: Shape) -> Tensor:
    """Return the dense tensor of a BCOO array."""
    batch, sparse, _ = checked_layout(data, indices, shape).split(shape)
    keys = over_batch(keys_of(indices, sparse), batch)
    return scattered(over_batch(data, batch), keys, math.prod(sparse)).reshape(shape)


def from_dense(t: Tensor, indices: Tensor) -> Tensor:
    """Return the elements of a dense tensor at the indices of a BCOO array."""
    shape = tuple(t.shape)
    layout = layout_of(indices, shape)
    batch, sparse, dense = layout.split(shape)
    rows = t.reshape(math.prod(batch), math.prod(sparse), *dense)
    found = gathered(rows, over_batch(keys_of(indices, sparse), batch))
    return found.reshape(*batch, layout.nse, *dense)


def nonzero_keys(mask: Tensor, nse: int) -> Tensor:
    """Return the places (batch, nse) where booleans (batch, count) are true, in order, then their count."""
    batch, count = mask.shape
    slots = torch.where(mask, (mask.cumsum(-1) - 1).clamp(max=nse), nse)
    places = torch.arange(count, device=mask.device).expand(batch, count)
    return torch.full((batch, nse + 1), count, device=mask.device).scatter(1, slots, places)[:, :nse]


def without_duplicates(data: Tensor, keys: Tensor, count: int, nse: int) -> tuple[Tensor, Tensor]:
    """Return data and keys (batch, nse) sorted by key, elements with one key added, padded or cut to `nse`."""
    ordered, order, is_new = _ordered(keys)
    slots = torch.where(ordered >= count, nse, (is_new.cumsum(-1) - 1).clamp(max=nse))
    data = gathered(data, order) if data.shape[1] else data
    blank = torch.full((keys.shape[0], nse + 1), count, device=keys.device)
    return scattered(data, slots, nse), blank.scatter(1, slots, ordered)[:, :nse]


def _ordered(keys: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return sorted keys, their former places, and which differ from the one before."""
    ordered, order = torch.sort(keys, dim=-1, stable=True)
    is_new = torch.cat([torch.ones_like(ordered[:, :1], dtype=torch.bool), ordered[:, 1:] != ordered[:, :-1]], 1)
    return ordered, order, is_new


def different_keys(keys: Tensor, count: int) -> Tensor:
    """Return how many different keys there are in each batch, padding aside."""
    ordered, _, is_new = _ordered(keys)
    return (is_new & (ordered < count)).sum(-1)


def is_first(keys: Tensor) -> Tensor:
    """Tell which elements are the first of their batch to have their key."""
    _, order, is_new = _ordered(keys)
    return torch.zeros_like(is_new).scatter(1, order, is_new)
