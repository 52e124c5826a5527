"""Linear algebra of sparse matrices: the largest eigenvalues, by iteration, and systems, by SciPy's direct solver."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..._compile.structured import Opaque
from ..._core.array import Array, tensor_of
from ..._core.graph import TensorType
from ..._core.primitive import Dims, batch_front, conjugate, instantiate
from ..._core.target import Target
from ..._lax.control_flow.while_loop import while_loop
from ..._lax.linalg.matrices import adjoint
from ..._numpy.contractions import matmul
from ..._numpy.creation import asarray, zeros
from .base import JAXSparse
from .bcsr import bcsr_expanded
from .products import SAMPLED_PRODUCT, SparseProduct

# ---------------------------------------------------------------------------------------------------------- eigenvalues


def lobpcg_standard(
    A: Array | Callable[[Array], Array], X: Array, m: int = 100, tol: Array | float | None = None
) -> tuple[Array, Array, Array]:
    """Return the largest eigenvalues of a Hermitian matrix, eigenvectors (in columns), and how many steps it took.

    There are as many as `X`, where the search starts, has columns: fewer than a fifth of its rows. `A` may be a function
    that multiplies by the matrix. The search ends after `m` steps, or when all residuals are at most `tol` (the dtype's
    epsilon) times 10 n (|A u| + eigenvalue). There is no derivative. `ValueError` for shapes and dtypes that do not fit.

    Source: Knyazev, Toward the optimal preconditioned eigensolver: locally optimal block preconditioned conjugate
    gradient method, 2001; the basis is made orthonormal in each step.
    """
    product: Callable[[Array], Array] = A  # pyright: ignore
    if isinstance(A, Array | np.ndarray):
        product = partial(matmul, asarray(A))
    elif isinstance(A, JAXSparse):
        product = A.__matmul__
    start = asarray(X)
    size, count = _checked(product, start)
    t = tensor_of(start)
    limit: Any = torch.finfo(t.dtype).eps if tol is None else tol

    def times(t: Tensor) -> Tensor:
        return tensor_of(product(Array(t)))

    def residual(x: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        moved = times(x)
        rest = moved - x * values
        norms = torch.linalg.vector_norm(moved, dim=0) + values.reshape(-1)
        scale = Array(10 * size * norms)
        is_small = tensor_of(Array(torch.linalg.vector_norm(rest, dim=0)) < limit * scale)
        return rest, is_small.sum().to(torch.int32)

    def going(state: tuple[Array, ...]) -> Array:
        i, *_, converged = state
        return (i < m) & (converged < count)

    def step(state: tuple[Array, ...]) -> tuple[Array, ...]:
        i, *parts, _, _ = state
        basis = torch.linalg.qr(torch.cat([tensor_of(p) for p in parts], 1)).Q
        values, vectors = torch.linalg.eigh(adjoint(basis) @ times(basis))
        values, best = values.flip(0)[:count], vectors.flip(1)[:, :count]
        x = basis @ best
        x = x / torch.linalg.vector_norm(x, dim=0, keepdim=True)
        change = basis[:, count:] @ best[count:]
        length = torch.linalg.vector_norm(change, dim=0, keepdim=True)
        change = change / torch.where(length == 0, 1, length)
        rest, converged = residual(x, values)
        return i + 1, *map(Array, (x, change, rest, values, converged))

    x = torch.linalg.qr(t).Q
    values = (x.conj() * times(x)).sum(0)
    values = values.real if values.is_complex() else values
    rest, _ = residual(x, values)
    none = torch.zeros((), dtype=torch.int32, device=t.device)
    state = (zeros((), "int32"), *map(Array, (x, torch.zeros_like(x), rest, values, none)))
    i, x, _, _, values, _ = while_loop(going, step, state)
    return values, x, i


def _checked(product: Callable[[Array], Array], start: Array) -> tuple[int, int]:
    size, count = start.shape
    if not count:
        raise ValueError(f"must have search dim > 0, got {count}")
    if count * 5 >= size:
        raise ValueError(f"expected search dim * 5 < matrix dim (got {count * 5}, {size})")
    output = product(zeros((size, 1), start.dtype))
    if output.dtype != start.dtype:
        raise ValueError(f"A, X must have same dtypes (were {output.dtype}, {start.dtype})")
    if output.shape != (size, 1):
        raise ValueError(f"A must be ({size}, {size}) matrix A, got output {output.shape}")
    return size, count


# -------------------------------------------------------------------------------------------------------------- systems


class _DirectSolution(Opaque):
    """x with a x = b for a matrix of compressed rows: inputs are its elements, their columns, the rows' ends, and b."""

    __name__ = "spsolve"

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        return [TensorType.of(inputs[3])]

    def run(self, *inputs: Tensor) -> list[Tensor]:
        import scipy.sparse
        import scipy.sparse.linalg

        data, indices, indptr, b = (t.cpu().numpy() for t in inputs)
        matrix: Any = scipy.sparse.csr_matrix((data, indices, indptr), shape=(b.size, b.size))
        x = np.asarray(scipy.sparse.linalg.spsolve(matrix, b), b.dtype)
        return [torch.from_numpy(x).to(inputs[3].device)]

    def spelled_out(self, target: Target, *inputs: Tensor) -> list[Tensor]:
        raise NotImplementedError(f"torch has no sparse direct solver, which spsolve wants of {target.name!r}.")

    def vmap(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        # The systems become one whose matrix has theirs along its diagonal.
        data, indices, indptr, b = (batch_front(t, d, size) for t, d in zip(inputs, dims, strict=True))
        block = torch.arange(size, device=b.device).unsqueeze(-1)
        indices = indices + (block * b.shape[1]).to(indices.dtype)
        ends = (indptr[:, 1:] + (block * data.shape[1]).to(indptr.dtype)).reshape(-1)
        (x,) = self(data.reshape(-1), indices.reshape(-1), torch.cat([indptr[0, :1], ends]), b.reshape(-1))
        return [x.reshape(size, -1)], [0]

    def jvp(self, primals: Sequence[Tensor], tangents: Sequence[Tensor | None]) -> list[Tensor | None]:
        data, indices, indptr, b = primals
        right = instantiate(tangents[3], b)
        if tangents[0] is not None:
            (x,) = self(*primals)
            rows = bcsr_expanded(Array(indices), Array(indptr))[..., 0]
            moved = SparseProduct(b.shape[0])(tangents[0], *_places(rows, indices), x.unsqueeze(-1))[0]
            right = right - moved.squeeze(-1)
        return list(self(data, indices, indptr, right))

    def vjp(
        self, primals: Sequence[Tensor], results: Sequence[Tensor], cotangents: Sequence[Tensor | None]
    ) -> Sequence[Tensor | None]:
        data, indices, indptr, b = primals
        (x,) = results
        rows = bcsr_expanded(Array(indices), Array(indptr))[..., 0]
        turned, columns, ends = _transposed(data, rows, indices, b.shape[0])
        (back,) = self(conjugate(turned), columns, ends, instantiate(cotangents[0], x))
        (found,) = SAMPLED_PRODUCT(back.unsqueeze(-1), conjugate(x).unsqueeze(-1), *_places(rows, indices))
        return [-found, None, None, back]


def _places(rows: Tensor, columns: Tensor) -> tuple[Tensor, Tensor]:
    return rows.to(torch.int64), columns.to(torch.int64)


def _transposed(data: Tensor, rows: Tensor, columns: Tensor, size: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the elements, columns and row ends of the transposed matrix."""
    order = torch.argsort(columns.to(torch.int64), dim=-1, stable=True)
    counts = torch.zeros(size, dtype=torch.int64, device=data.device)
    counts = counts.scatter_add(0, columns.to(torch.int64), torch.ones_like(columns, dtype=torch.int64))
    ends = torch.nn.functional.pad(counts.cumsum(0), (1, 0)).to(columns.dtype)
    return data.gather(0, order), rows.gather(0, order), ends


_DIRECT_SOLUTION = _DirectSolution()


def spsolve(data: Any, indices: Any, indptr: Any, b: Any, tol: float = 1e-6, reorder: int = 1) -> Array:
    """Return x with a x = b for the matrix of compressed rows (`data`, `indices`, `indptr`), computed on the host.

    `tol` and `reorder` (0 to 3) are for cuSOLVER in JAX and make no difference here, as they make none there on CPUs.
    Raises `ValueError` for arrays that do not fit each other.
    """
    float(tol)
    arrays = [asarray(x) for x in (data, indices, indptr, b)]
    values, columns, ends, right = arrays
    if values.dtype != right.dtype:
        raise ValueError(f"data types do not match: data.dtype={values.dtype} b.dtype={right.dtype}")
    if not all(np.issubdtype(x.dtype, np.integer) for x in (columns, ends)):
        raise ValueError(f"index arrays must be integer typed; got {columns.dtype} and {ends.dtype}")
    if any(x.ndim != 1 for x in arrays):
        raise ValueError(f"Arrays must be one-dimensional. Got {[x.shape for x in arrays]}")
    if ends.size != right.size + 1 or values.shape != columns.shape:
        raise ValueError(f"Invalid CSR buffer sizes: {[x.shape for x in arrays]}")
    if reorder not in (0, 1, 2, 3):
        raise ValueError(f"{reorder=} not valid, must be one of [0, 1, 2, 3]")
    return Array(_DIRECT_SOLUTION(*map(tensor_of, arrays))[0])
