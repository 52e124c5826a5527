"""The operators and methods of BCOO and BCSR arrays; importing this module installs them."""

import functools
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from ..._core import dtypes
from ..._core.array import Array, tensor_of
from ..._core.dimensions import broadcast_shape, canonical_axes
from ..._core.promotion import promote
from ..._core.typing import DTypeLike
from ..._lax.gather_scatter import GatherDimensionNumbers
from ..._numpy import manipulation, ufuncs
from ..._numpy.creation import asarray
from .base import JAXSparse
from .bcoo import BCOO, bcoo_sum_duplicates
from .bcsr import BCSR, bcsr_dot_general
from .contractions import bcoo_dot_general, bcoo_multiply_dense, bcoo_multiply_sparse
from .shapes import (
    bcoo_broadcast_in_dim,
    bcoo_gather,
    bcoo_reduce_sum,
    bcoo_reshape,
    bcoo_rev,
    bcoo_slice,
    bcoo_squeeze,
    bcoo_transpose,
    bcoo_update_layout,
)

# --------------------------------------------------------------------------------------------------------- elementwise


def add(x: Any, y: Any) -> Any:
    """Return a sum: of two sparse arrays, with the elements of both, or of a sparse and a dense array, which is dense."""
    if isinstance(x, BCOO) and isinstance(y, BCOO):
        return _joined(x, y)
    sparse, other = (x, asarray(y)) if isinstance(x, BCOO) else (y, asarray(x))
    if broadcast_shape(other.shape, sparse.shape) != other.shape:
        raise NotImplementedError(
            "Addition between a sparse array X and a dense array Y is not implemented when the output shape is larger "
            "than Y.shape. This is to prevent silent densification of a large sparse array. If this is your intent, you "
            "can explicitly cast the sparse array to a dense matrix."
        )
    return ufuncs.add(sparse.todense(), other)


def _joined(x: BCOO, y: BCOO) -> BCOO:
    if x.shape != y.shape:
        raise NotImplementedError("Addition between sparse matrices of different shapes.")
    (a, b), weak = promote("add", x.data, y.data)
    if x.indices is y.indices:
        return x.with_data(ufuncs.add(x.data, y.data))
    if x.n_batch != y.n_batch or x.n_dense != y.n_dense:
        raise NotImplementedError("Addition between sparse matrices with different batch/dense dimensions.")
    n_batch = x.n_batch
    i, j = map(tensor_of, (x.indices, y.indices))
    batch = broadcast_shape(i.shape[:n_batch], j.shape[:n_batch], a.shape[:n_batch], b.shape[:n_batch])
    data, indices = (
        torch.cat([t.expand(*batch, *t.shape[n_batch:]) for t in pair], n_batch) for pair in ((a, b), (i, j))
    )
    return BCOO((Array(data, weak), Array(indices)), shape=x.shape)


def subtract(x: Any, y: Any) -> Any:
    """Return the difference of two sparse arrays."""
    if not (isinstance(x, BCOO) and isinstance(y, BCOO)):
        raise NotImplementedError("Subtraction between sparse and dense array.")
    return add(x, y.with_data(ufuncs.negative(y.data)))


def multiply(x: Any, y: Any) -> BCOO:
    """Return a product of elements, of which at least one array is sparse."""
    if isinstance(x, BCOO) and isinstance(y, BCOO):
        if x.indices is y.indices and x.unique_indices:
            return x.with_data(ufuncs.multiply(x.data, y.data))
        return bcoo_multiply_sparse(x, y)
    sparse, other = (x, y) if isinstance(x, BCOO) else (y, x)
    return sparse.with_data(bcoo_multiply_dense(sparse, other))


def divide(x: Any, y: Any) -> BCOO:
    """Return a sparse array divided by a dense one."""
    if isinstance(y, BCOO):
        raise NotImplementedError(
            "Division by a sparse array is not implemented because it would result in dense output. If this is your "
            "intent, use sparse.todense() to convert your arguments to a dense array."
        )
    return multiply(x, ufuncs.divide(1.0, y))


def each(function: Callable[[Array], Array], linear: bool = False) -> Callable[[BCOO], BCOO]:
    """Return a function of arrays that maps zero to zero as one of sparse arrays. If it is not linear, duplicates matter."""

    def apply(x: BCOO) -> BCOO:
        if not linear and not x.unique_indices:
            x = bcoo_sum_duplicates(x, nse=x.nse)
        return x.with_data(function(x.data))

    return apply


def power(x: BCOO, y: Any) -> BCOO:
    """Return a sparse array to a positive integer power."""
    exponent = operator.index(y) if isinstance(y, int | np.integer) else 0
    if exponent <= 0:
        raise NotImplementedError("sparse rule for pow with an exponent that is no positive integer")
    return each(lambda data: data**exponent)(x)


# ------------------------------------------------------------------------------------------------------------- products


def _numbers(lhs: Any, rhs: Any) -> tuple[Any, int]:
    """Return the dimension numbers of `matmul`, and how many dimensions of lhs come before those of rhs that lead."""
    for position, x in enumerate((lhs, rhs)):
        if not x.ndim:
            raise ValueError(
                f"matmul: Input operand {position} does not have enough dimensions (has 0, requires at least 1)"
            )
    contracted = (lhs.ndim - 1,), (max(rhs.ndim - 2, 0),)
    shared = min(lhs.ndim, rhs.ndim) - 2
    if shared <= 0:
        return (contracted, ((), ())), max(rhs.ndim - 2, 0)
    if lhs.ndim != rhs.ndim or lhs.shape[:-2] != rhs.shape[:-2]:
        raise NotImplementedError(
            f"matmul of batches of different shapes, one of them sparse: {lhs.shape} and {rhs.shape}"
        )
    return (contracted, (tuple(range(shared)), tuple(range(shared)))), 0


def matmul(lhs: Any, rhs: Any) -> Any:
    """Return the matrix product, as `jax.numpy.matmul`, of arrays of which at least one is sparse."""
    lhs, rhs = (x if isinstance(x, JAXSparse) else asarray(x) for x in (lhs, rhs))
    numbers, leading = _numbers(lhs, rhs)
    if not isinstance(lhs, BCSR) and not isinstance(rhs, BCSR):
        found = bcoo_dot_general(*_of_one_dtype(lhs, rhs), dimension_numbers=numbers)
    elif isinstance(lhs, BCSR) and isinstance(rhs, Array):
        found = bcsr_dot_general(*_of_one_dtype(lhs, rhs), dimension_numbers=numbers)
    elif isinstance(rhs, BCSR) and isinstance(lhs, Array):
        return matmul(lhs, rhs.to_bcoo())
    else:
        raise NotImplementedError(f"matmul of {type(lhs).__name__} and {type(rhs).__name__}")
    if leading and lhs.ndim > 1:  # the batch of rhs comes first
        order = [*range(1, 1 + leading), 0, *range(1 + leading, found.ndim)]
        is_sparse = isinstance(found, BCOO)
        return bcoo_transpose(found, permutation=order) if is_sparse else manipulation.transpose(found, order)
    return found


def _of_one_dtype(lhs: Any, rhs: Any) -> list[Any]:
    parts = [x.data if isinstance(x, JAXSparse) else x for x in (lhs, rhs)]
    found, weak = promote("matmul", *parts)
    made = []
    for x, t in zip((lhs, rhs), found, strict=True):
        if not isinstance(x, JAXSparse):
            made.append(Array(t, weak))
        else:
            children, kept = x.tree_flatten()
            made.append(type(x).tree_unflatten(kept, (Array(t, weak), *children[1:])))
    return made


# --------------------------------------------------------------------------------------------------- shapes and elements


def total(self: BCOO, axis: int | Sequence[int] | None = None) -> Any:
    """Return the sum over `axis`, by default of all elements: an array then, else a sparse array."""
    made = bcoo_reduce_sum(self, axes=canonical_axes(axis, self.ndim))
    return made if made.shape else made.data.sum()


def reshape(self: BCOO, *shape: Any) -> BCOO:
    """Return the array in another shape, in which kinds of dimensions do not mix; one size may be -1."""
    sizes = list(shape[0]) if len(shape) == 1 and isinstance(shape[0], tuple | list) else list(shape)
    if -1 in sizes:
        known = int(np.prod([n for n in sizes if n != -1]))
        sizes[sizes.index(-1)] = self.size // max(known, 1)
    if int(np.prod(sizes)) != self.size:
        raise TypeError(f"cannot reshape array of shape {self.shape} (size {self.size}) into shape {tuple(sizes)}")
    return bcoo_reshape(self, new_sizes=sizes)


def astype(self: BCOO, dtype: DTypeLike) -> BCOO:
    """Return the array with its elements converted."""
    return self.with_data(self.data.astype(dtype))


def transpose(self: BCOO, axes: Sequence[int] | None = None) -> BCOO:
    """Return the array with its dimensions reversed, or in the order `axes`."""
    return bcoo_transpose(self, permutation=tuple(range(self.ndim))[::-1] if axes is None else tuple(axes))


def update_layout(
    self: BCOO, *, n_batch: int | None = None, n_dense: int | None = None, on_inefficient: str = "error"
) -> BCOO:
    """Return the same array with other numbers of batch and dense dimensions; see `bcoo_update_layout`."""
    return bcoo_update_layout(self, n_batch=n_batch, n_dense=n_dense, on_inefficient=on_inefficient)


def getitem(self: BCOO, index: Any) -> BCOO:
    """Return elements by NumPy's index of integers, slices, `None`, an ellipsis and at most one array of integers."""
    entries = list(index) if isinstance(index, tuple) else [index]
    used = sum(e is not None and e is not Ellipsis for e in entries)
    if used > self.ndim:
        raise IndexError(f"Too many indices: array is {self.ndim}-dimensional, but {used} were indexed")
    if Ellipsis not in [e for e in entries if not isinstance(e, Array | np.ndarray)]:
        entries.append(Ellipsis)
    at = next(i for i, e in enumerate(entries) if e is Ellipsis)
    entries[at : at + 1] = [slice(None)] * (self.ndim - used)
    plain = [e for e in entries if e is not None]
    for d, entry in enumerate(plain):
        if not isinstance(entry, int | np.integer | slice):
            self, plain[d] = _taken(self, d, asarray(entry)), slice(None)
            if len(asarray(entry).shape) != 1:
                rest = [slice(None)] * len(asarray(entry).shape)
                if any(e is None for e in entries) or any(e != slice(None) for e in (*plain[:d], *plain[d + 1 :])):
                    raise NotImplementedError("indexing a sparse array by an array of this shape and by something else")
                plain[d : d + 1] = rest
                entries = list(plain)
    found = _basic(self, plain)
    dropped = [d for d, e in enumerate(plain) if isinstance(e, int | np.integer)]
    found = bcoo_squeeze(found, dimensions=dropped) if dropped else found
    kept = [e for e in entries if not isinstance(e, int | np.integer)]
    if None not in [e for e in kept if not isinstance(e, Array | np.ndarray)]:
        return found
    sizes = iter(found.shape)
    shape = tuple(1 if e is None else next(sizes) for e in kept)
    return bcoo_broadcast_in_dim(
        found, shape=shape, broadcast_dimensions=[d for d, e in enumerate(kept) if e is not None]
    )


def _basic(mat: BCOO, entries: Sequence[Any]) -> BCOO:
    """Return the part of an array that integers and slices, one for each dimension, name."""
    cuts, turned = [], []
    for d, (entry, size) in enumerate(zip(entries, mat.shape, strict=True)):
        if not isinstance(entry, slice):
            place = operator.index(entry)
            place = min(max(place + size if place < 0 else place, 0), size - 1)  # JAX clips
            cuts.append((place, place + 1, 1))
            continue
        if entry == slice(None):  # the size may be a symbol
            cuts.append((0, size, 1))
            continue
        places = range(*entry.indices(size))
        if places.step < 0:
            turned.append(d)
            places = places[::-1]
        cuts.append((places.start, max(places.stop, places.start), places.step) if len(places) else (0, 0, 1))
    starts, limits, steps = zip(*cuts, strict=True) if cuts else ((), (), ())
    limits = [min(n, b) for n, b in zip(mat.shape, limits, strict=True)]
    found = bcoo_slice(mat, start_indices=starts, limit_indices=limits, strides=steps)
    return bcoo_rev(found, turned) if turned else found


def _taken(mat: BCOO, d: int, index: Array) -> BCOO:
    """Return the parts of an array at places along a dimension."""
    if not dtypes.issubdtype(index.dtype, np.integer):
        raise NotImplementedError(f"indexing a sparse array by an array of dtype {index.dtype}")
    t = tensor_of(index)
    t = torch.where(t < 0, t + mat.shape[d], t)
    before = tuple(range(d))
    offset = (*before, *range(d + t.dim(), mat.ndim + t.dim() - 1))
    numbers = GatherDimensionNumbers(offset_dims=offset, collapsed_slice_dims=(d,), start_index_map=(d,))
    sizes = tuple(1 if i == d else n for i, n in enumerate(mat.shape))
    return bcoo_gather(mat, Array(t.unsqueeze(-1)), numbers, sizes)


def _iterate(self: BCOO) -> Iterator[BCOO]:
    return (self[i] for i in range(self.shape[0]))


def _swapped(function: Callable[..., Any]) -> Callable[..., Any]:
    return functools.wraps(function)(lambda self, other: function(other, self))


def _not_sparse(name: str) -> Callable[..., Any]:
    def method(self: Any, other: Any) -> Any:
        raise NotImplementedError(f"sparse rule for {name} is not implemented: its result would be dense.")

    return method


for _name, _method in {
    "astype": astype,
    "reshape": reshape,
    "sum": total,
    "transpose": transpose,
    "update_layout": update_layout,
    "__abs__": each(ufuncs.absolute),
    "__neg__": each(ufuncs.negative, linear=True),
    "__pos__": each(ufuncs.positive, linear=True),
    "__matmul__": matmul,
    "__rmatmul__": _swapped(matmul),
    "__mul__": multiply,
    "__rmul__": _swapped(multiply),
    "__truediv__": divide,
    "__rtruediv__": _swapped(divide),
    "__add__": add,
    "__radd__": _swapped(add),
    "__sub__": subtract,
    "__rsub__": _swapped(subtract),
    "__pow__": power,
    "__getitem__": getitem,
    "__iter__": _iterate,
    **{f"__{_op}__": _not_sparse(_op) for _op in ("gt", "ge", "lt", "le", "eq", "ne")},
}.items():
    setattr(BCOO, _name, _method)

for _name, _method in {
    "__matmul__": matmul,
    "__rmatmul__": _swapped(matmul),
    "__getitem__": lambda self, index: BCSR.from_bcoo(getitem(self.to_bcoo(), index)),
}.items():
    setattr(BCSR, _name, _method)
