"""Sparse arrays of zeros, with ones on a diagonal and of random elements, and dense arrays of sparse ones."""

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from ..._core import dtypes
from ..._core.array import Array, tensor_of
from ..._core.dimensions import static_int
from ..._core.typing import ArrayLike, DTypeLike
from ..._numpy.arguments import int_dtype
from ..._numpy.creation import asarray
from ..._random.integers import choice
from ..._random.keys import split
from ..._random.uniforms import uniform
from ..._transforms.vmap import vmap
from .base import JAXSparse
from .bcoo import BCOO, bcoo_sort_indices
from .bcsr import BCSR
from .layout import Layout, indices_of
from .matrices import COO, CSC, CSR

_FORMATS: dict[str, Any] = {"bcsr": BCSR, "bcoo": BCOO, "coo": COO, "csr": CSR, "csc": CSC}


def empty(
    shape: Sequence[int], dtype: DTypeLike | None = None, index_dtype: DTypeLike = "int32", sparse_format: str = "bcoo",
    **kwds: Any,
) -> JAXSparse:  # fmt: skip
    """Return a sparse array with no elements, of a format ("bcoo", "bcsr", "coo", "csr", "csc") that may take more options."""
    if sparse_format not in _FORMATS:
        raise ValueError(f"sparse_format={sparse_format!r} not recognized; must be one of {list(_FORMATS)}")
    return _FORMATS[sparse_format]._empty(tuple(shape), dtype=dtype, index_dtype=index_dtype, **kwds)


def eye(
    N: int, M: int | None = None, k: int = 0, dtype: DTypeLike | None = None, index_dtype: DTypeLike = "int32",
    sparse_format: str = "bcoo", **kwds: Any,
) -> JAXSparse:  # fmt: skip
    """Return the sparse N x M matrix with ones on diagonal `k`."""
    rows = static_int(N, "N")
    columns = rows if M is None else static_int(M, "M")
    formats = {name: made for name, made in _FORMATS.items() if hasattr(made, "_eye")}
    return formats[sparse_format]._eye(
        N=rows, M=columns, k=static_int(k, "k"), dtype=dtype, index_dtype=index_dtype, **kwds
    )


def todense(arr: JAXSparse | ArrayLike) -> Array:
    """Return the dense array of a sparse one; a dense array as it is."""
    return arr.todense() if isinstance(arr, JAXSparse) else asarray(arr)


def random_bcoo(
    key: Array, shape: Sequence[int], *, dtype: DTypeLike = np.float64, indices_dtype: DTypeLike | None = None,
    nse: float = 0.2, n_batch: int = 0, n_dense: int = 0, unique_indices: bool = True, sorted_indices: bool = False,
    generator: Callable[..., Array] = uniform, **kwds: Any,
) -> BCOO:  # fmt: skip
    """Return a sparse array with random elements at random places, each different with `unique_indices`.

    `nse` is how many, or what part of the places. `generator(key, shape=, dtype=, **kwds)` draws the elements.
    """
    sizes = tuple(map(operator.index, shape))
    n_batch, n_dense = operator.index(n_batch), operator.index(n_dense)
    if n_batch < 0 or n_dense < 0 or n_batch + n_dense > len(sizes):
        raise ValueError(f"Invalid {n_batch=}, {n_dense=} for shape={sizes}")
    batch, sparse, dense = Layout(n_batch, len(sizes) - n_batch - n_dense, n_dense, 0).split(sizes)
    count = math.prod(sparse)
    if not 0 <= nse < count:
        raise ValueError(f"got {nse=}, expected to be between 0 and {count}")
    number = math.ceil(nse * count) if 0 < nse < 1 else operator.index(int(nse))
    kind = int_dtype() if indices_dtype is None else dtypes.to_torch(dtypes.canonicalize_dtype(indices_dtype))
    if count > torch.iinfo(kind).max:
        raise ValueError(f"{indices_dtype=} does not have enough range to generate sparse indices of size {count}.")
    keys = split(key, math.prod(batch) + 1)
    data = generator(keys[0], shape=(*batch, number, *dense), dtype=dtype, **kwds)
    if sparse:
        drawn = vmap(lambda k: choice(k, count, (number,), replace=not unique_indices))(keys[1:])
        places = indices_of(tensor_of(drawn).to(torch.int64), sparse, kind).reshape(*batch, number, len(sparse))
    else:
        places = torch.zeros((*batch, number, 0), dtype=kind, device=tensor_of(data).device)
    made = BCOO((data, Array(places)), shape=sizes)
    return bcoo_sort_indices(made) if sorted_indices else made
