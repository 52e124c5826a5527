"""COO, CSR and CSC: matrices without batch and dense dimensions. BCOO and BCSR do all that these do, and more."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ..._core.array import Array, tensor_of
from ..._core.promotion import convert, promote
from ..._core.tree import register_pytree_node_class
from ..._core.typing import ArrayLike, DTypeLike
from ..._numpy.creation import asarray, zeros
from .base import JAXSparse, Shape
from .bcoo import BCOO, StaticPart, bcoo_fromdense, bcoo_sort_indices, bcoo_todense
from .bcsr import BCSR
from .products import sparse_product


def _matmul(mat: Any, other: Any, vector: Any, matrix: Any) -> Array:
    if isinstance(other, JAXSparse):
        raise NotImplementedError("matmul between two sparse objects.")
    (data, dense), weak = promote("matmul", mat.data, asarray(other))
    if dense.dim() not in (1, 2):
        raise NotImplementedError(f"matmul with object of shape {tuple(dense.shape)}")
    promoted = type(mat).tree_unflatten(mat.tree_flatten()[1], (Array(data, weak), *mat.tree_flatten()[0][1:]))
    return (vector if dense.dim() == 1 else matrix)(promoted, Array(dense, weak))


def _count(mat: ArrayLike, nse: int | None) -> int | None:
    """Return the number of elements to store: that of an array of NumPy is known in traces, too, where no other is."""
    return int(np.count_nonzero(mat)) if nse is None and isinstance(mat, np.ndarray) else nse


def _product(mat: "COO | CSR", dense: ArrayLike, transpose: bool, rank: int, name: str) -> Array:
    """Return the matrix, or its transpose, times a vector or matrix of its dtype."""
    t = tensor_of(asarray(dense))
    data, rows, columns = (tensor_of(x) for x in mat.elements)
    height, width = mat.shape
    inside = (rows < height) & (columns < width)
    if transpose:
        rows, columns, height, width = columns, rows, width, height
    if t.dim() != rank or t.shape[0] != width:
        raise TypeError(f"{name}: shapes {mat.shape} and {tuple(t.shape)} do not fit, with {transpose=}.")
    values = torch.where(inside, convert(data, t.dtype), data.new_zeros((), dtype=t.dtype))
    rows, columns = (torch.where(inside, x, 0).to(torch.int64) for x in (rows, columns))
    flat = t.unsqueeze(1) if rank == 1 else t
    if not values.numel():
        found = flat.new_zeros((height, flat.shape[1]))
    else:
        found = sparse_product(values, rows, columns, flat, height)
    return Array(found.squeeze(1) if rank == 1 else found)


def _diagonal(N: int, M: int, k: int, dtype: DTypeLike | None, index_dtype: DTypeLike) -> BCOO:
    return BCOO._eye(N, M, k, dtype=dtype, index_dtype=index_dtype)


def _check_matrix(name: str, shape: Sequence[int]) -> Shape:
    if len(shape) != 2:
        raise ValueError(f"{name} must have ndim=2; got {shape=}")
    return tuple(shape)


def _no_axes(axes: Any) -> None:
    if axes is not None:
        raise NotImplementedError("axes argument to transpose()")


@register_pytree_node_class
class COO(JAXSparse):
    """A sparse matrix: `data` at (`row`, `col`)."""

    def __init__(
        self, args: tuple[Array, Array, Array], *, shape: Shape, rows_sorted: bool = False, cols_sorted: bool = False
    ) -> None:
        self.data, self.row, self.col = map(asarray, args)
        self._rows_sorted, self._cols_sorted = rows_sorted, cols_sorted
        super().__init__(args, shape=shape)

    @property
    def nse(self) -> int:
        """The number of elements that are stored."""
        return self.data.size

    @property
    def elements(self) -> tuple[Array, Array, Array]:
        """Values, rows and columns of the elements."""
        return self.data, self.row, self.col

    @classmethod
    def fromdense(cls, mat: ArrayLike, *, nse: int | None = None, index_dtype: DTypeLike = np.int32) -> "COO":
        """Return a dense matrix as a sparse one."""
        return coo_fromdense(mat, nse=nse, index_dtype=index_dtype)

    @classmethod
    def _of_bcoo(cls, mat: BCOO, cols_sorted: bool = False) -> "COO":
        row, col = mat.indices[:, 0], mat.indices[:, 1]
        return cls((mat.data, row, col), shape=mat.shape, rows_sorted=True, cols_sorted=cols_sorted)

    @classmethod
    def _empty(cls, shape: Sequence[int], *, dtype: DTypeLike | None = None, index_dtype: DTypeLike = "int32") -> "COO":
        return cls._of_bcoo(BCOO._empty(_check_matrix("COO", shape), dtype=dtype, index_dtype=index_dtype), True)

    @classmethod
    def _eye(cls, N: int, M: int, k: int, *, dtype: DTypeLike | None = None, index_dtype: DTypeLike = "int32") -> "COO":
        return cls._of_bcoo(_diagonal(N, M, k, dtype, index_dtype), True)

    def _as_bcoo(self) -> BCOO:
        row, col = map(tensor_of, (self.row, self.col))
        return BCOO((self.data, Array(torch.stack([row, col], -1))), shape=self.shape)

    def _sort_indices(self) -> "COO":
        return self if self._rows_sorted else COO._of_bcoo(bcoo_sort_indices(self._as_bcoo()))

    def todense(self) -> Array:
        """Return the dense matrix."""
        return coo_todense(self)

    def transpose(self, axes: Sequence[int] | None = None) -> "COO":
        """Return the transposed matrix."""
        _no_axes(axes)
        return COO(
            (self.data, self.col, self.row), shape=self.shape[::-1], rows_sorted=self._cols_sorted,
            cols_sorted=self._rows_sorted,
        )  # fmt: skip

    def tree_flatten(self) -> tuple[tuple[Any, ...], Any]:
        """Return the arrays, and what else makes up the sparse matrix."""
        kept = {"shape": self.shape, "rows_sorted": self._rows_sorted, "cols_sorted": self._cols_sorted}
        return self.elements, StaticPart(kept)

    @classmethod
    def tree_unflatten(cls, aux_data: Any, children: Any) -> "COO":
        """Return the matrix of its parts."""
        made = object.__new__(cls)
        made.data, made.row, made.col = children
        made.shape = aux_data["shape"]
        made._rows_sorted, made._cols_sorted = aux_data["rows_sorted"], aux_data["cols_sorted"]
        return made

    def __matmul__(self, other: Any) -> Array:
        return _matmul(self, other, coo_matvec, coo_matmat)


def coo_fromdense(mat: ArrayLike, *, nse: int | None = None, index_dtype: DTypeLike = np.int32) -> COO:
    """Return a dense matrix as a sparse one, with `nse` elements: by default as many as are not zero."""
    return COO._of_bcoo(bcoo_fromdense(mat, nse=_count(mat, nse), index_dtype=index_dtype))


def coo_todense(mat: COO) -> Array:
    """Return the dense matrix of a sparse one."""
    return bcoo_todense(mat._as_bcoo())


def coo_matvec(mat: COO, v: ArrayLike, transpose: bool = False) -> Array:
    """Return the matrix, or its transpose, times a vector."""
    return _product(mat, v, transpose, 1, "coo_matvec")


def coo_matmat(mat: COO, B: ArrayLike, *, transpose: bool = False) -> Array:
    """Return the matrix, or its transpose, times a dense matrix."""
    return _product(mat, B, transpose, 2, "coo_matmat")


class _Compressed(JAXSparse):
    """What matrices of compressed rows and of compressed columns share."""

    def __init__(self, args: tuple[Array, Array, Array], *, shape: Shape) -> None:
        self.data, self.indices, self.indptr = map(asarray, args)
        super().__init__(args, shape=shape)

    @property
    def nse(self) -> int:
        """The number of elements that are stored."""
        return self.data.size

    def tree_flatten(self) -> tuple[tuple[Any, ...], Any]:
        """Return the arrays, and what else makes up the sparse matrix."""
        return (self.data, self.indices, self.indptr), StaticPart({"shape": self.shape})

    @classmethod
    def tree_unflatten(cls, aux_data: Any, children: Any) -> Any:
        """Return the matrix of its parts."""
        made = object.__new__(cls)
        made.data, made.indices, made.indptr = children
        made.shape = aux_data["shape"]
        return made


@register_pytree_node_class
class CSR(_Compressed):
    """A sparse matrix of compressed rows: `data` at columns `indices`, each row from one `indptr` to the next."""

    @property
    def elements(self) -> tuple[Array, Array, Array]:
        """Values, rows and columns of the elements."""
        made = self._as_bcoo()
        return made.data, made.indices[:, 0], made.indices[:, 1]

    def _as_bcoo(self) -> BCOO:
        return BCSR((self.data, self.indices, self.indptr), shape=self.shape).to_bcoo()

    @classmethod
    def _of_bcoo(cls, mat: BCOO) -> "CSR":
        made = BCSR.from_bcoo(mat)
        return cls((made.data, made.indices, made.indptr), shape=mat.shape)

    @classmethod
    def fromdense(cls, mat: ArrayLike, *, nse: int | None = None, index_dtype: DTypeLike = np.int32) -> "CSR":
        """Return a dense matrix as a sparse one."""
        return csr_fromdense(mat, nse=nse, index_dtype=index_dtype)

    @classmethod
    def _empty(cls, shape: Sequence[int], *, dtype: DTypeLike | None = None, index_dtype: DTypeLike = "int32") -> "CSR":
        rows, _ = _check_matrix("CSR", shape)
        empty = zeros(0, index_dtype)
        return cls((zeros(0, dtype), empty, zeros(rows + 1, index_dtype)), shape=tuple(shape))

    @classmethod
    def _eye(cls, N: int, M: int, k: int, *, dtype: DTypeLike | None = None, index_dtype: DTypeLike = "int32") -> "CSR":
        return cls._of_bcoo(_diagonal(N, M, k, dtype, index_dtype))

    def todense(self) -> Array:
        """Return the dense matrix."""
        return csr_todense(self)

    def transpose(self, axes: Sequence[int] | None = None) -> "CSC":
        """Return the transposed matrix."""
        _no_axes(axes)
        return CSC((self.data, self.indices, self.indptr), shape=self.shape[::-1])

    def __matmul__(self, other: Any) -> Array:
        return _matmul(self, other, csr_matvec, csr_matmat)


@register_pytree_node_class
class CSC(_Compressed):
    """A sparse matrix of compressed columns: `data` at rows `indices`, each column from one `indptr` to the next."""

    @classmethod
    def fromdense(cls, mat: ArrayLike, *, nse: int | None = None, index_dtype: DTypeLike = np.int32) -> "CSC":
        """Return a dense matrix as a sparse one."""
        return csr_fromdense(asarray(mat).T, nse=_count(mat, nse), index_dtype=index_dtype).T  # pyright: ignore

    @classmethod
    def _empty(cls, shape: Sequence[int], *, dtype: DTypeLike | None = None, index_dtype: DTypeLike = "int32") -> "CSC":
        return CSR._empty(_check_matrix("CSC", shape)[::-1], dtype=dtype, index_dtype=index_dtype).transpose()

    @classmethod
    def _eye(cls, N: int, M: int, k: int, *, dtype: DTypeLike | None = None, index_dtype: DTypeLike = "int32") -> "CSC":
        return CSR._eye(M, N, -k, dtype=dtype, index_dtype=index_dtype).transpose()

    def todense(self) -> Array:
        """Return the dense matrix."""
        return csr_todense(self.transpose()).T

    def transpose(self, axes: Sequence[int] | None = None) -> CSR:
        """Return the transposed matrix."""
        _no_axes(axes)
        return CSR((self.data, self.indices, self.indptr), shape=self.shape[::-1])

    def __matmul__(self, other: Any) -> Array:
        return _matmul(
            self,
            other,
            lambda mat, v: csr_matvec(mat.transpose(), v, transpose=True),
            lambda mat, B: csr_matmat(mat.transpose(), B, transpose=True),
        )


def csr_fromdense(mat: ArrayLike, *, nse: int | None = None, index_dtype: DTypeLike = np.int32) -> CSR:
    """Return a dense matrix as a sparse one, with `nse` elements: by default as many as are not zero."""
    return CSR._of_bcoo(bcoo_fromdense(mat, nse=_count(mat, nse), index_dtype=index_dtype))


def csr_todense(mat: CSR) -> Array:
    """Return the dense matrix of a sparse one."""
    return bcoo_todense(mat._as_bcoo())


def csr_matvec(mat: CSR, v: ArrayLike, transpose: bool = False) -> Array:
    """Return the matrix, or its transpose, times a vector."""
    return _product(mat, v, transpose, 1, "csr_matvec")


def csr_matmat(mat: CSR, B: ArrayLike, *, transpose: bool = False) -> Array:
    """Return the matrix, or its transpose, times a dense matrix."""
    return _product(mat, B, transpose, 2, "csr_matmat")
