"""BCOO: sparse arrays as lists of elements and their indices, with batch and dense dimensions."""

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..._core import dtypes, errors
from ..._core.array import Array, is_abstract, tensor_of
from ..._core.dimensions import broadcast_shape
from ..._core.promotion import convert
from ..._core.tree import register_pytree_node_class
from ..._core.typing import ArrayLike, DTypeLike
from ..._numpy.creation import asarray, zeros
from ..._numpy.creation import eye as dense_eye
from .base import JAXSparse, Shape
from .layout import (
    Layout,
    checked_layout,
    different_keys,
    from_dense,
    indices_of,
    is_first,
    keys_of,
    layout_of,
    nonzero_keys,
    over_batch,
    sizes_like,
    to_dense,
    without_duplicates,
)


@register_pytree_node_class
class BCOO(JAXSparse):
    """A sparse array: `data` (batch..., nse, dense...) at `indices` (batch..., nse, sparse dimensions).

    Batch dimensions of size one are broadcast. Indices beyond the shape are padding, duplicates are added.
    `jax.vmap` maps over the leading batch dimension.
    """

    data: Array
    indices: Array
    indices_sorted: bool
    unique_indices: bool

    def __init__(
        self,
        args: tuple[Array, Array],
        *,
        shape: Sequence[int],
        indices_sorted: bool = False,
        unique_indices: bool = False,
    ) -> None:
        self.data, self.indices = map(asarray, args)
        self.indices_sorted, self.unique_indices = indices_sorted, unique_indices
        super().__init__(args, shape=shape)
        checked_layout(tensor_of(self.data), tensor_of(self.indices), self.shape)

    @property
    def nse(self) -> int:
        """The number of elements that are stored, in each batch."""
        return self.indices.shape[-2]

    @property
    def n_batch(self) -> int:
        """The number of batch dimensions."""
        return self.indices.ndim - 2

    @property
    def n_sparse(self) -> int:
        """The number of sparse dimensions."""
        return self.indices.shape[-1]

    @property
    def n_dense(self) -> int:
        """The number of dense dimensions."""
        return self.data.ndim - 1 - self.n_batch

    def _layout_text(self) -> str:
        kinds = (("n_batch", self.n_batch), ("n_dense", self.n_dense))
        return "".join(f", {name}={count}" for name, count in kinds if count)

    @property
    def layout(self) -> Layout:
        """How many dimensions are of which kind."""
        return Layout(self.n_batch, self.n_sparse, self.n_dense, self.nse)

    @property
    def tensors(self) -> tuple[Tensor, Tensor]:
        """The tensors of `data` and `indices`."""
        return tensor_of(self.data), tensor_of(self.indices)

    def with_data(self, data: Array) -> "BCOO":
        """Return an array with other elements at the same indices."""
        return BCOO(
            (data, self.indices),
            shape=self.shape,
            indices_sorted=self.indices_sorted,
            unique_indices=self.unique_indices,
        )

    @classmethod
    def fromdense(
        cls,
        mat: ArrayLike,
        *,
        nse: int | None = None,
        index_dtype: DTypeLike = np.int32,
        n_dense: int = 0,
        n_batch: int = 0,
    ) -> "BCOO":
        """Return a dense array as a sparse one; see `bcoo_fromdense`."""
        return bcoo_fromdense(mat, nse=nse, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch)

    @classmethod
    def from_scipy_sparse(
        cls, mat: Any, *, index_dtype: DTypeLike | None = None, n_dense: int = 0, n_batch: int = 0
    ) -> "BCOO":
        """Return one of SciPy's sparse matrices as a sparse array."""
        if n_dense or n_batch:
            raise NotImplementedError("BCOO.fromscipy with nonzero n_dense/n_batch")
        mat = mat.tocoo()
        indices = np.stack([mat.row, mat.col], 1)
        return cls((asarray(mat.data), asarray(indices, index_dtype or np.int32)), shape=mat.shape)

    @classmethod
    def _empty(
        cls, shape: Shape, *, dtype: DTypeLike | None = None, index_dtype: DTypeLike = "int32", n_dense: int = 0,
        n_batch: int = 0, nse: int = 0,
    ) -> "BCOO":  # fmt: skip
        layout = Layout(n_batch, len(shape) - n_dense - n_batch, n_dense, nse)
        if min(layout) < 0:
            raise ValueError(f"Invalid inputs: {shape=}, {n_dense=}, {n_batch=}, {nse=}")
        batch, sparse, dense = layout.split(shape)
        data, indices = zeros((*batch, nse, *dense), dtype), zeros((*batch, nse, len(sparse)), index_dtype)
        padding = sizes_like(sparse, indices._tensor)
        filled = Array(padding.expand(indices.shape))
        return cls((data, filled), shape=shape, indices_sorted=True, unique_indices=True)

    @classmethod
    def _eye(
        cls, N: int, M: int, k: int, *, dtype: DTypeLike | None = None, index_dtype: DTypeLike = "int32",
        n_batch: int = 0, n_dense: int = 0,
    ) -> "BCOO":  # fmt: skip
        if n_batch < 0 or n_dense < 0 or n_batch + n_dense > 2:
            raise ValueError(f"Invalid inputs: shape={(N, M)}, {n_dense=}, {n_batch=}")
        return bcoo_fromdense(dense_eye(N, M, k, dtype), n_batch=n_batch, n_dense=n_dense, index_dtype=index_dtype)

    def sum_duplicates(self, nse: int | None = None, remove_zeros: bool = True) -> "BCOO":
        """Return the array with sorted indices, each once; see `bcoo_sum_duplicates`. Zeros are dropped, too."""
        return (bcoo_eliminate_zeros if remove_zeros else bcoo_sum_duplicates)(self, nse)

    def sort_indices(self) -> "BCOO":
        """Return the array with its elements in the order of their indices."""
        return bcoo_sort_indices(self)

    def todense(self) -> Array:
        """Return the dense array."""
        return bcoo_todense(self)

    def tree_flatten(self) -> tuple[tuple[Any, ...], Any]:
        """Return the arrays, and what else makes up the sparse array."""
        kept = {"shape": self.shape, "indices_sorted": self.indices_sorted, "unique_indices": self.unique_indices}
        return (self.data, self.indices), StaticPart(kept)

    @classmethod
    def tree_unflatten(cls, aux_data: Any, children: Any) -> "BCOO":
        """Return the array of its parts; the shape follows them where vmap took or gave a batch dimension."""
        made = object.__new__(cls)
        made.data, made.indices = children
        made.__dict__.update(aux_data)
        made.shape = followed_shape(made.shape, made.data, lambda: made.data.ndim - 1 + made.indices.shape[-1])
        return made


class StaticPart(dict):
    """What a pytree of sparse arrays has beside its arrays: compared and hashed by its values."""

    def __hash__(self) -> int:  # pyright: ignore
        return hash(tuple(self.items()))


def followed_shape(shape: Shape, data: Any, rank: Any) -> Shape:
    """Return the shape of a sparse array whose arrays say that it has `rank()` dimensions."""
    if not isinstance(data, Array):
        return shape
    try:
        missing = rank() - len(shape)
    except (AttributeError, IndexError):  # other leaves that are no arrays
        return shape
    return (*data.shape[:missing], *shape) if missing > 0 else shape[-missing:]


def _concrete_count(count: Any, what: str) -> int:
    if isinstance(count, Array):
        return int(count._concrete(errors.ConcretizationTypeError, what).item())
    return operator.index(count)


_NSE_OF_FROMDENSE = (
    "The error arose for the nse argument of bcoo_fromdense. In order for BCOO.fromdense() to be used in traced/compiled "
    "code, you must pass a concrete value to the nse (number of stored elements) argument."
)


def bcoo_fromdense(
    mat: ArrayLike, *, nse: int | None = None, n_batch: int = 0, n_dense: int = 0, index_dtype: DTypeLike = np.int32
) -> BCOO:
    """Return a dense array as a sparse one, with `nse` elements in each batch: by default as many as are not zero.

    The leading `n_batch` dimensions are batches, the last `n_dense` ones dense. Further elements are dropped.
    """
    array = asarray(mat)
    t, shape = tensor_of(array), array.shape
    if min(n_batch, n_dense, array.ndim - n_batch - n_dense) < 0:
        raise ValueError(f"bcoo_fromdense: {n_batch=} and {n_dense=} do not fit an array of shape {shape}.")
    batch, sparse, dense = Layout(n_batch, array.ndim - n_batch - n_dense, n_dense, 0).split(shape)
    mask = t != 0
    for _ in dense:
        mask = mask.any(-1)
    mask = mask.reshape(math.prod(batch), math.prod(sparse))
    if nse is None:
        counts = mask.sum(-1)
        most = counts.amax() if counts.numel() else counts.sum()
        nse = _concrete_count(Array(most), _NSE_OF_FROMDENSE)
    keys = nonzero_keys(mask, _concrete_count(nse, _NSE_OF_FROMDENSE))
    dtype = dtypes.to_torch(dtypes.canonicalize_dtype(index_dtype))
    indices = indices_of(keys, sparse, dtype).reshape(*batch, keys.shape[-1], len(sparse))
    data = from_dense(t, indices)
    if not sparse:  # all indices are alike: the first element is the one
        first = torch.arange(keys.shape[-1], device=t.device) < mask.sum(-1, keepdim=True)
        first = first.reshape(*batch, -1, *[1] * len(dense))
        data = torch.where(first, data, data.new_zeros(()))
    return BCOO((Array(data), Array(indices)), shape=shape, indices_sorted=True, unique_indices=True)


def bcoo_todense(mat: BCOO) -> Array:
    """Return the dense array of a sparse one."""
    return Array(to_dense(*mat.tensors, mat.shape))


def bcoo_extract(sparr: BCOO, arr: ArrayLike, *, assume_unique: bool | None = None) -> BCOO:
    """Return the elements of the dense `arr` at the indices of `sparr`, as a sparse array.

    Unless `assume_unique` (by default what `sparr` says of itself), only the first of equal indices gets the element.
    """
    if not isinstance(sparr, BCOO):
        raise TypeError(f"First argument to bcoo_extract should be a BCOO array. Got {type(sparr)=}")
    dense = asarray(arr)
    if dense.shape != sparr.shape:
        raise ValueError(f"shape mismatch: {sparr.shape=} {dense.shape=}")
    unique = sparr.unique_indices if assume_unique is None else assume_unique
    return sparr.with_data(extracted(sparr.indices, dense, unique))


def extracted(indices: Array, dense: Array, unique: bool = True) -> Array:
    """Return the elements of a dense array at the indices of a sparse one; see `bcoo_extract`."""
    i, t = tensor_of(indices), tensor_of(dense)
    found = from_dense(t, i)
    if not unique:
        batch, sparse, _ = layout_of(i, dense.shape).split(dense.shape)
        first = is_first(over_batch(keys_of(i, sparse), batch)).reshape(found.shape[: len(batch) + 1])
        first = first.reshape(*first.shape, *[1] * (found.dim() - first.dim()))
        found = torch.where(first, found, found.new_zeros(()))
    return Array(found)


def bcoo_sort_indices(mat: BCOO) -> BCOO:
    """Return the array with its elements in the order of their indices."""
    data, indices = mat.tensors
    batch, sparse, dense = mat.layout.split(mat.shape)
    own = broadcast_shape(data.shape[: len(batch)], indices.shape[: len(batch)])
    indices = indices.expand(*own, *indices.shape[-2:])
    sizes = [n + 1 for n in sparse]  # padding comes last in each dimension
    wide = indices.to(torch.int64)
    clamped = torch.minimum(wide, sizes_like(sparse, wide))
    steps = sizes_like([math.prod(sizes[i + 1 :]) for i in range(len(sizes))], wide)
    order = torch.argsort((clamped * steps).sum(-1), dim=-1, stable=True)
    indices = torch.take_along_dim(indices, order.unsqueeze(-1), -2)
    data = data.expand(*own, mat.nse, *dense)
    data = torch.take_along_dim(data, order.reshape(*order.shape, *[1] * len(dense)), len(batch))
    return BCOO((Array(data), Array(indices)), shape=mat.shape, indices_sorted=True, unique_indices=mat.unique_indices)


def _without_zeros(mat: BCOO) -> BCOO:
    """Return the array with padding where elements are zero."""
    data, indices = mat.tensors
    _, sparse, dense = mat.layout.split(mat.shape)
    is_zero = data == 0
    for _ in dense:
        is_zero = is_zero.all(-1)
    for d, n in enumerate(indices.shape[: mat.n_batch]):
        if n == 1:
            is_zero = is_zero.all(d, keepdim=True)
    padding = sizes_like(sparse, indices)
    indices = torch.where(is_zero.unsqueeze(-1), padding, indices)
    return BCOO((mat.data, Array(indices)), shape=mat.shape)


def bcoo_eliminate_zeros(mat: BCOO, nse: int | None = None) -> BCOO:
    """Return the array without the elements that are zero, otherwise as `bcoo_sum_duplicates`."""
    return bcoo_sum_duplicates(_without_zeros(mat), nse)


def bcoo_sum_duplicates(mat: BCOO, nse: int | None = None) -> BCOO:
    """Return the array with sorted indices, each once; elements that had the same are added.

    There are `nse` elements then, padded or cut; by default as many as there are different indices, which must be known.
    """
    data, indices = mat.tensors
    layout = mat.layout
    batch, sparse, dense = layout.split(mat.shape)
    own = broadcast_shape(data.shape[: len(batch)], indices.shape[: len(batch)])
    count = math.prod(sparse)
    keys = over_batch(keys_of(indices, sparse), own)
    if nse is None:
        counts = different_keys(keys, count)
        most = Array(counts.amax() if counts.numel() else counts.sum())
        if is_abstract(most):
            raise ValueError(
                "bcoo_sum_duplicates: nse must be specified when using the function within jit, vmap, and other "
                "transformations requiring abstract evaluation."
            )
        nse = int(most) if sparse else 1
    nse = _concrete_count(nse, "nse argument of bcoo_sum_duplicates.")
    made, keys = without_duplicates(over_batch(data, own), keys, count, nse)
    new_indices = indices_of(keys, sparse, indices.dtype).reshape(*own, nse, len(sparse))
    return BCOO(
        (Array(convert(made, data.dtype).reshape(*own, nse, *dense)), Array(new_indices)), shape=mat.shape,
        indices_sorted=True, unique_indices=True,
    )  # fmt: skip
