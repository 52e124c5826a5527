"""Factorizations of matrices, on torch.linalg."""

import enum
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..._core import levels
from ..._core.array import Array, tensor_of
from ..._core.operations import shown_as
from ..._core.typing import ArrayLike
from .. import operands as ops
from .matrices import all_weak, arrays, matrix, symmetrized
from .primitives import QR, Cholesky, Eig, Eigh, Schur, Svd


class EigImplementation(enum.Enum):
    """The library that computes `eig`."""

    CUSOLVER = "cusolver"
    MAGMA = "magma"
    LAPACK = "lapack"


class EighImplementation(enum.Enum):
    """The algorithm of `eigh`."""

    QR = "qr"
    JACOBI = "jacobi"
    QDWH = "qdwh"


class SvdAlgorithm(enum.Enum):
    """The algorithm of `svd`."""

    DEFAULT = "default"
    QR = "QR"
    JACOBI = "Jacobi"
    POLAR = "polar"
    DIVIDE_AND_CONQUER = "divide_and_conquer"


def _choice(name: str, value: Any, allowed: tuple[Any, ...], error: type[Exception] = NotImplementedError) -> None:
    if value is not None and value not in allowed:
        raise error(f"{name}: there is no choice of {value} here; leave it out.")


def cholesky(x: ArrayLike, *, symmetrize_input: bool = True) -> Array:
    """Return lower triangular L with L Lᴴ = x; NaN where x is not positive definite.

    Without `symmetrize_input` only the lower triangle of x is read.
    """
    t = matrix("cholesky", x, integers=symmetrize_input)
    t = symmetrized("cholesky", t) if symmetrize_input else t
    if t.shape[-1] != t.shape[-2]:
        raise ValueError(f"The input to cholesky must be a square matrix. Got shape {tuple(t.shape)}.")
    return Array(Cholesky()(t)[0], all_weak(x))


def eigh(
    x: ArrayLike,
    *,
    lower: bool = True,
    symmetrize_input: bool = True,
    sort_eigenvalues: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    implementation: EighImplementation | None = None,
) -> tuple[Array, Array]:
    """Return eigenvectors (in columns) and ascending eigenvalues of Hermitian matrices.

    Without `symmetrize_input` only the triangle named by `lower` is read. Eigenvalues come sorted, whether
    `sort_eigenvalues` asks for it or not.
    """
    t = matrix("eigh", x, integers=symmetrize_input)
    t = symmetrized("eigh", t) if symmetrize_input else matrix("eigh", Array(t), square=True)
    _choice("eigh implementation", implementation, (EighImplementation.QR,))
    if subset_by_index is not None and tuple(subset_by_index) != (0, t.shape[-1]):
        raise NotImplementedError("subset_by_index not supported on CPU and GPU; slice the result.")
    vectors, values = arrays(all_weak(x), *Eigh(bool(lower))(t))
    return vectors, values


def eig(
    x: ArrayLike,
    *,
    compute_left_eigenvectors: bool = True,
    compute_right_eigenvectors: bool = True,
    enable_eigvec_derivs: bool = False,
    implementation: EigImplementation | None = None,
    use_magma: bool | None = None,
) -> list[Array]:
    """Return eigenvalues, then left, then right eigenvectors (in columns, of norm 1) of square matrices.

    Eigenvectors have derivatives with `enable_eigvec_derivs` only, since these hold only for distinct eigenvalues.
    """
    if use_magma is not None:
        warnings.warn(
            "use_magma is deprecated, please use implementation=EigImplementation.MAGMA instead.",
            DeprecationWarning,
            stacklevel=2,
        )
        implementation = EigImplementation.MAGMA if use_magma else EigImplementation.LAPACK
    t = matrix("eig", x, square=True)
    _choice("eig implementation", implementation, (EigImplementation.LAPACK,), ValueError)
    left, right = bool(compute_left_eigenvectors), bool(compute_right_eigenvectors)
    return arrays(all_weak(x), *Eig(left, right, bool(enable_eigvec_derivs))(t))


def lu(x: ArrayLike) -> list[Array]:
    """Return L (unit diagonal, below) and U in one matrix, the pivots (int32), and the rows' permutation (int32)."""
    return arrays(all_weak(x), *_lu(matrix("lu", x)))


@shown_as("lu", lambda t: {})
def _lu(t: Tensor) -> list[Tensor]:
    factors, pivots, _ = torch.linalg.lu_factor_ex(t)
    return [factors, pivots - 1, _permutation(pivots, t.shape[-2])]


def lu_pivots_to_permutation(pivots: ArrayLike, permutation_size: int) -> Array:
    """Return the permutation of rows that a sequence of row swaps (int32, counted from 0) amounts to."""
    t = tensor_of(ops.array_of("lu_pivots_to_permutation", pivots))
    ops.check_accepted("lu_pivots_to_permutation", t, 0, ops.DtypeSet(("int32",), frozenset({torch.int32})))
    if t.shape[-1] > permutation_size:
        raise ValueError(
            f"Output permutation size {permutation_size} has to exceed the trailing dimension of the pivots. Got pivots "
            f"size {t.shape[-1]}"
        )
    return Array(_order_of_swaps(t, permutation_size), all_weak(pivots))


@shown_as("lu_pivots_to_permutation", lambda swaps, rows: {"permutation_size": rows})
def _order_of_swaps(swaps: Tensor, rows: int) -> Tensor:
    return _permutation(swaps + 1, rows)


def _permutation(pivots: Tensor, rows: int) -> Tensor:
    """Return the permutation of rows for LAPACK's pivots (counted from 1)."""
    if not pivots.shape[-1]:
        return torch.arange(rows, dtype=torch.int32, device=pivots.device).expand(*pivots.shape[:-1], rows)
    blank = torch.zeros(*pivots.shape[:-1], rows, pivots.shape[-1], device=pivots.device)
    # The factors are for nothing, but without them torch returns empty ones, which lack the axes of nested batches.
    matrices = torch.lu_unpack(blank, pivots, unpack_data=levels.is_batched(pivots))[0]
    return matrices.argmax(-2).to(torch.int32)


def qr(
    x: ArrayLike, *, pivoting: bool = False, full_matrices: bool = True, use_magma: bool | None = None
) -> tuple[Array, ...]:
    """Return unitary Q and upper triangular R with Q R = x; with `pivoting` also P (int32) with Q R = x[:, P].

    Q is square with `full_matrices`, else it has as many columns as x has, or rows if these are fewer. `use_magma`
    chooses a library on GPUs in JAX and makes no difference here.
    """
    del use_magma
    t = matrix("qr", x)
    return tuple(arrays(all_weak(x), *QR(bool(pivoting), bool(full_matrices))(t)))


def svd(
    x: ArrayLike,
    *,
    full_matrices: bool = True,
    compute_uv: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    algorithm: SvdAlgorithm | None = None,
) -> Any:
    """Return U, descending singular values s and Vᴴ with U diag(s) Vᴴ = x, or with compute_uv=False s alone."""
    t = matrix("svd", x)
    _choice("svd algorithm", algorithm, (SvdAlgorithm.DEFAULT, SvdAlgorithm.QR, SvdAlgorithm.DIVIDE_AND_CONQUER))
    if subset_by_index is not None and tuple(subset_by_index) != (0, min(t.shape[-2:])):
        if full_matrices:
            raise ValueError("full_matrices and subset_by_index cannot both be set")
        raise NotImplementedError("subset_by_index not implemented for CPU and GPU; slice the result.")
    values, *vectors = arrays(all_weak(x), *Svd(bool(compute_uv), bool(full_matrices))(t))
    return (vectors[0], values, vectors[1]) if compute_uv else values


def schur(
    x: ArrayLike,
    *,
    compute_schur_vectors: bool = True,
    sort_eig_vals: bool = False,
    select_callable: Callable[..., Any] | None = None,
) -> list[Array]:
    """Return T and unitary Q with Q T Qᴴ = x: T is triangular, for real x with 2 x 2 blocks for complex pairs.

    It is computed on the host, in double precision. `select_callable` is not used, as in JAX, which cannot sort.
    """
    if sort_eig_vals:
        raise NotImplementedError("The sort feature of LAPACK's gees routine is not implemented.")
    form, vectors = Schur()(matrix("schur", x, square=True))
    return arrays(all_weak(x), *((form, vectors) if compute_schur_vectors else (form,)))
