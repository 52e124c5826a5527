"""BCSR: matrices as rows of elements one after the other, with batch and dense dimensions around them.

Operations are those of BCOO, on the rows that `indptr` stands for. Elements beyond its last entry are padding.
"""

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..._core.array import Array, tensor_of
from ..._core.dimensions import broadcast_shape
from ..._core.tree import register_pytree_node_class
from ..._core.typing import ArrayLike, DTypeLike
from ..._lax.contraction import DotDimensionNumbers, dot_general
from ..._numpy.creation import asarray, zeros
from .base import JAXSparse, Shape
from .bcoo import BCOO, StaticPart, bcoo_fromdense, bcoo_sort_indices, bcoo_todense, extracted, followed_shape
from .contractions import bcoo_dot_general
from .shapes import bcoo_broadcast_in_dim, bcoo_concatenate


def _check(data: Array, indices: Array, indptr: Array, shape: Shape) -> None:
    n_batch, nse = indices.ndim - 1, indices.shape[-1]
    n_dense = len(shape) - n_batch - 2
    if n_dense < 0:
        raise ValueError(f"BCSR array must have 2 sparse dimensions; got {shape=} for indices.shape={indices.shape}")
    for name, x in (("data", data), ("indices", indices), ("indptr", indptr)):
        if any(n not in (1, m) for n, m in zip(x.shape[:n_batch], shape, strict=False)):
            raise ValueError(f"{name} batch dimensions not compatible for {name}.shape={x.shape}, {shape=}")
    if indptr.shape[n_batch:] != (shape[n_batch] + 1,):
        raise ValueError("indptr shape must match the matrix shape plus 1.")
    if data.shape[n_batch:] != (nse, *shape[n_batch + 2 :]):
        raise ValueError(f"Invalid data.shape={data.shape} for {nse=}, {n_batch=}, {n_dense=}")


@register_pytree_node_class
class BCSR(JAXSparse):
    """A sparse matrix: `data` (batch..., nse, dense...), the columns `indices` (batch..., nse), and where rows begin and
    end among them, `indptr` (batch..., rows + 1).

    Batch dimensions of size one are broadcast. `jax.vmap` maps over the leading batch dimension.
    """

    data: Array
    indices: Array
    indptr: Array
    indices_sorted: bool
    unique_indices: bool

    def __init__(
        self,
        args: tuple[Array, Array, Array],
        *,
        shape: Sequence[int],
        indices_sorted: bool = False,
        unique_indices: bool = False,
    ) -> None:
        self.data, self.indices, self.indptr = map(asarray, args)
        self.indices_sorted, self.unique_indices = indices_sorted, unique_indices
        super().__init__(args, shape=shape)
        _check(self.data, self.indices, self.indptr, self.shape)

    @property
    def nse(self) -> int:
        """The number of elements that are stored, in each batch."""
        return self.indices.shape[-1]

    @property
    def n_batch(self) -> int:
        """The number of batch dimensions."""
        return self.indices.ndim - 1

    @property
    def n_sparse(self) -> int:
        """The number of sparse dimensions: two."""
        return 2

    @property
    def n_dense(self) -> int:
        """The number of dense dimensions."""
        return self.data.ndim - self.indices.ndim

    def _layout_text(self) -> str:
        kinds = (("n_batch", self.n_batch), ("n_dense", self.n_dense))
        return "".join(f", {name}={count}" for name, count in kinds if count)

    @classmethod
    def fromdense(
        cls,
        mat: ArrayLike,
        *,
        nse: int | None = None,
        index_dtype: DTypeLike = np.int32,
        n_dense: int = 0,
        n_batch: int = 0,
    ) -> "BCSR":
        """Return a dense array as a sparse one; see `bcsr_fromdense`."""
        return bcsr_fromdense(mat, nse=nse, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch)

    @classmethod
    def from_bcoo(cls, arr: BCOO) -> "BCSR":
        """Return a BCOO array with two sparse dimensions as a BCSR array."""
        if arr.n_sparse != 2:
            raise NotImplementedError(f"BSCR.from_bcoo requires n_sparse=2; got arr.n_sparse={arr.n_sparse}")
        arr = arr if arr.indices_sorted else bcoo_sort_indices(arr)
        indices, indptr = _compressed(tensor_of(arr.indices), arr.shape[arr.n_batch])
        return cls((arr.data, Array(indices), Array(indptr)), shape=arr.shape)

    @classmethod
    def from_scipy_sparse(
        cls, mat: Any, *, index_dtype: DTypeLike | None = None, n_dense: int = 0, n_batch: int = 0
    ) -> "BCSR":
        """Return one of SciPy's sparse matrices as a BCSR array."""
        if n_dense or n_batch:
            raise NotImplementedError("BCSR from_scipy_sparse with nonzero n_dense/n_batch.")
        if mat.ndim != 2:
            raise ValueError(f"BCSR from_scipy_sparse requires 2D array; {mat.ndim}D is given.")
        mat = mat.tocsr()
        kind = index_dtype or np.int32
        return cls((asarray(mat.data), asarray(mat.indices, kind), asarray(mat.indptr, kind)), shape=mat.shape)

    @classmethod
    def _empty(
        cls, shape: Shape, *, dtype: DTypeLike | None = None, index_dtype: DTypeLike = "int32", n_dense: int = 0,
        n_batch: int = 0, nse: int = 0,
    ) -> "BCSR":  # fmt: skip
        if n_dense < 0 or n_batch < 0 or nse < 0:
            raise ValueError(f"Invalid inputs: {shape=}, {n_dense=}, {n_batch=}, {nse=}")
        if len(shape) - n_dense - n_batch != 2:
            raise ValueError("BCSR sparse.empty: must have 2 sparse dimensions.")
        empty = BCOO._empty(shape, dtype=dtype, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch, nse=nse)
        indptr = zeros((*shape[:n_batch], shape[n_batch] + 1), index_dtype)
        return cls((empty.data, empty.indices[..., 1], indptr), shape=shape)

    def to_bcoo(self) -> BCOO:
        """Return the array as a BCOO array."""
        return BCOO((self.data, Array(bcsr_expanded(self.indices, self.indptr))), shape=self.shape)

    def sum_duplicates(self, nse: int | None = None, remove_zeros: bool = True) -> "BCSR":
        """Return the array with sorted indices, each once; zeros are dropped, too. `nse` as in `bcoo_sum_duplicates`."""
        return BCSR.from_bcoo(self.to_bcoo().sum_duplicates(nse, remove_zeros))

    def todense(self) -> Array:
        """Return the dense array."""
        return bcsr_todense(self)

    def tree_flatten(self) -> tuple[tuple[Any, ...], Any]:
        """Return the arrays, and what else makes up the sparse array."""
        kept = {"shape": self.shape, "indices_sorted": self.indices_sorted, "unique_indices": self.unique_indices}
        return (self.data, self.indices, self.indptr), StaticPart(kept)

    @classmethod
    def tree_unflatten(cls, aux_data: Any, children: Any) -> "BCSR":
        """Return the array of its parts; the shape follows them where vmap took or gave a batch dimension."""
        made = object.__new__(cls)
        made.data, made.indices, made.indptr = children
        made.__dict__.update(aux_data)
        made.shape = followed_shape(made.shape, made.data, lambda: made.data.ndim + 1)
        return made


def bcsr_expanded(indices: Array, indptr: Array) -> Tensor:
    """Return rows and columns of the elements, as the indices of a BCOO array."""
    columns, ends = tensor_of(indices), tensor_of(indptr)[..., 1:].to(torch.int64)
    nse = columns.shape[-1]
    batch = broadcast_shape(columns.shape[:-1], ends.shape[:-1])
    ends = ends.expand(*batch, ends.shape[-1])
    # An element's row is how many rows end at or before it.
    counts = torch.zeros((*batch, nse + 1), dtype=torch.int64, device=columns.device)
    counts = counts.scatter_add(-1, ends.clamp(0, nse), torch.ones_like(ends))
    rows = counts.cumsum(-1)[..., :nse].to(columns.dtype)
    return torch.stack([rows, columns.expand(rows.shape)], -1)


def _compressed(indices: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the columns, and where the rows begin, of the sorted indices of a BCOO array."""
    rows = indices[..., 0].to(torch.int64).clamp(0, count)
    lengths = torch.zeros((*rows.shape[:-1], count + 1), dtype=torch.int64, device=rows.device)
    lengths = lengths.scatter_add(-1, rows, torch.ones_like(rows))
    ends = lengths[..., :count].cumsum(-1)
    return indices[..., 1], torch.nn.functional.pad(ends, (1, 0)).to(indices.dtype)


def bcsr_fromdense(
    mat: ArrayLike, *, nse: int | None = None, n_batch: int = 0, n_dense: int = 0, index_dtype: DTypeLike = np.int32
) -> BCSR:
    """Return a dense array as a sparse one, with `nse` elements in each batch: by default as many as are not zero."""
    array = asarray(mat)
    if array.ndim - n_batch - n_dense != 2:
        raise ValueError("bcsr_fromdense: must have 2 sparse dimensions.")
    made = bcoo_fromdense(array, nse=nse, n_batch=n_batch, n_dense=n_dense, index_dtype=index_dtype)
    return BCSR.from_bcoo(made)


def bcsr_todense(mat: BCSR) -> Array:
    """Return the dense array of a sparse one."""
    return bcoo_todense(mat.to_bcoo())


def bcsr_extract(indices: ArrayLike, indptr: ArrayLike, mat: ArrayLike) -> Array:
    """Return the elements of a dense array at the indices of a BCSR array."""
    return extracted(Array(bcsr_expanded(asarray(indices), asarray(indptr))), asarray(mat))


def bcsr_dot_general(
    lhs: BCSR | ArrayLike, rhs: ArrayLike, *, dimension_numbers: DotDimensionNumbers, precision: None = None,
    preferred_element_type: DTypeLike | None = None, out_sharding: Any = None,
) -> Array:  # fmt: skip
    """Return the sum of products over dimensions of a sparse and a dense array, as `lax.dot_general`."""
    del precision
    if isinstance(rhs, JAXSparse):
        raise NotImplementedError("bcsr_dot_general currently implemented for BCSR lhs and ndarray rhs.")
    if not isinstance(lhs, BCSR):
        return dot_general(lhs, rhs, dimension_numbers, preferred_element_type=preferred_element_type)
    indices = Array(bcsr_expanded(lhs.indices, lhs.indptr))
    rows = BCOO((lhs.data, indices), shape=lhs.shape, indices_sorted=True)
    return bcoo_dot_general(
        rows, rhs, dimension_numbers=dimension_numbers, preferred_element_type=preferred_element_type,
        out_sharding=out_sharding,
    )  # fmt: skip


def bcsr_eliminate_zeros(mat: BCSR, nse: int | None = None) -> BCSR:
    """Return the array without the elements that are zero; see `bcoo_eliminate_zeros`."""
    return mat.sum_duplicates(nse)


def bcsr_sum_duplicates(mat: BCSR, nse: int | None = None) -> BCSR:
    """Return the array with sorted indices, each once; see `bcoo_sum_duplicates`."""
    return mat.sum_duplicates(nse, remove_zeros=False)


def bcsr_broadcast_in_dim(
    mat: BCSR, *, shape: Shape, broadcast_dimensions: Sequence[int], sharding: Any = None
) -> BCSR:
    """Return the array broadcast to `shape`; see `bcoo_broadcast_in_dim`."""
    made = bcoo_broadcast_in_dim(
        mat.to_bcoo(), shape=shape, broadcast_dimensions=broadcast_dimensions, sharding=sharding
    )
    return BCSR.from_bcoo(made)


def bcsr_concatenate(operands: Sequence[BCSR], *, dimension: int) -> BCSR:
    """Return arrays of one layout joined along a batch or sparse dimension."""
    return BCSR.from_bcoo(bcoo_concatenate([op.to_bcoo() for op in operands], dimension=operator.index(dimension)))
