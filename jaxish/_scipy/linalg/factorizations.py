"""SciPy's names for the factorizations of lax.linalg, and what is derived from one of them.

SciPy's arguments about memory (`overwrite_a`, `lwork`) and effort (`check_finite`, `lapack_driver`, `turbo`) make no
difference to a result: they are taken so that programs for SciPy run.
"""

from typing import Any

import torch
from torch import Tensor

from ..._core import dtypes
from ..._core.array import Array, tensor_of
from ..._core.primitive import conjugate
from ..._core.promotion import convert, tensor
from ..._core.torch_modes import in_own_dtypes
from ..._core.typing import ArrayLike
from ..._lax.linalg import factorizations, reflections
from ..._lax.linalg.matrices import adjoint
from ..._numpy.creation import asarray
from ..._transforms.repeated import compiled_when_repeated
from .operands import inexact


def cholesky(a: ArrayLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """Return upper triangular R with Rᴴ R = a, or L with L Lᴴ = a for `lower`; only that triangle of `a` is read."""
    del overwrite_a, check_finite
    (x,) = inexact("cholesky", a)
    if lower:
        return factorizations.cholesky(x, symmetrize_input=False)
    if x.ndim < 2:
        raise ValueError(f"cholesky takes arrays of at least two dimensions; got shape {x.shape}.")
    factor = factorizations.cholesky(Array(adjoint(tensor_of(x)), x._weak), symmetrize_input=False)
    return Array(adjoint(tensor_of(factor)), factor._weak)


def cho_factor(
    a: ArrayLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, bool]:
    """Return what `cho_solve` takes: the Cholesky factor, and whether it is the lower one."""
    return cholesky(a, lower, overwrite_a, check_finite), lower


def svd(
    a: ArrayLike,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Array | tuple[Array, Array, Array]:
    """Return U, descending singular values s and Vᴴ with U diag(s) Vᴴ = a, or without `compute_uv` s alone."""
    del overwrite_a, check_finite, lapack_driver
    (x,) = inexact("svd", a)
    return factorizations.svd(x, full_matrices=full_matrices, compute_uv=compute_uv)


def eigh(
    a: ArrayLike,
    b: ArrayLike | None = None,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    turbo: bool = True,
    eigvals: None = None,
    type: int = 1,
    check_finite: bool = True,
) -> Array | tuple[Array, Array]:
    """Return ascending eigenvalues and eigenvectors (in columns) of Hermitian matrices.

    Raises `NotImplementedError` for the generalized problem (`b`, `type`) and for a range of eigenvalues (`eigvals`).
    """
    del overwrite_a, overwrite_b, turbo, check_finite
    for case, is_given in (("b=None", b is not None), ("type=1", type != 1), ("eigvals=None", eigvals is not None)):
        if is_given:
            raise NotImplementedError(f"Only the {case} case of eigh is implemented.")
    (x,) = inexact("eigh", a)
    vectors, values = factorizations.eigh(x, lower=lower)
    return values if eigvals_only else (values, vectors)


@compiled_when_repeated
def lu_factor(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Array, Array]:
    """Return what `lu_solve` takes: both factors in one matrix, and the pivots (int32, from 0)."""
    del overwrite_a, check_finite
    (x,) = inexact("lu_factor", a)
    factors, pivots, _ = factorizations.lu(x)
    return factors, pivots


def lu(
    a: ArrayLike, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, Array] | tuple[Array, Array, Array]:
    """Return P, L (unit lower triangular) and U with P L U = a, or with `permute_l` the product P L, and U."""
    del overwrite_a, check_finite
    (x,) = inexact("lu", a)
    packed, _, order = factorizations.lu(x)
    t, weak = tensor_of(packed), packed._weak
    rows, columns = t.shape[-2:]
    size = min(rows, columns)
    unit = torch.eye(rows, size, dtype=t.dtype, device=t.device)
    lower, upper = torch.tril(t[..., :size], -1) + unit, torch.triu(t[..., :size, :])
    if permute_l:
        places = torch.argsort(tensor_of(order), -1).unsqueeze(-1).expand(lower.shape)
        return Array(lower.gather(-2, places), weak), Array(upper, weak)
    numbers = torch.arange(rows, device=t.device).unsqueeze(-1)
    permutation = (tensor_of(order).unsqueeze(-2) == numbers).to(t.dtype.to_real())
    return Array(permutation), Array(lower, weak), Array(upper, weak)


def qr(
    a: ArrayLike,
    overwrite_a: bool = False,
    lwork: Any = None,
    mode: str = "full",
    pivoting: bool = False,
    check_finite: bool = True,
) -> tuple[Array] | tuple[Array, Array] | tuple[Array, Array, Array]:
    """Return unitary Q and upper triangular R with Q R = a; with `pivoting` also P (int32) with Q R = a[:, P].

    In mode "economic" Q has no more columns than `a`; in mode "r" it is left out. `ValueError` for other modes.
    """
    del overwrite_a, lwork, check_finite
    if mode not in ("full", "r", "economic"):
        raise ValueError(f"Unsupported QR decomposition mode '{mode}'")
    (x,) = inexact("qr", a)
    q, *rest = factorizations.qr(x, pivoting=pivoting, full_matrices=mode != "economic")
    return tuple(rest) if mode == "r" else (q, *rest)  # pyright: ignore


@in_own_dtypes
def qr_multiply(
    a: ArrayLike,
    c: ArrayLike,
    mode: str = "right",
    pivoting: bool = False,
    conjugate: bool = False,
    overwrite_a: bool = False,
    overwrite_c: bool = False,
) -> tuple[Array, Array] | tuple[Array, Array, Array]:
    """Return c Q (mode "right") or Q c ("left") for the economic factorization Q R of `a`, then R, and P if `pivoting`.

    `conjugate` takes the complex conjugate of Q. `c` may be a vector. Raises `ValueError` where shapes do not fit.
    """
    del overwrite_a, overwrite_c
    x, other = inexact("qr_multiply", a, c)
    if mode not in ("right", "left"):
        raise ValueError(f"mode must be 'right' or 'left', got {mode!r}")
    left, factor = mode == "left", tensor_of(other)
    is_vector = factor.dim() == 1
    if is_vector:
        factor = factor.unsqueeze(-1 if left else 0)
    rows, size = x.shape[-2], min(x.shape[-2:])
    given, wanted = (factor.shape[-2], size) if left else (factor.shape[-1], rows)
    if given != wanted:
        raise ValueError(
            f"Array shapes are not compatible for {'Q @ c' if left else 'c @ Q'} operation: a has shape {x.shape} so Q "
            f"is {rows} by {size}, but c has {given} {'rows' if left else 'columns'} (expected {wanted})."
        )
    q, *rest = factorizations.qr(x, pivoting=pivoting, full_matrices=False)
    unitary = _conjugate(tensor_of(q)) if conjugate else tensor_of(q)
    product = unitary @ factor if left else factor @ unitary
    batch = product.shape[:-2]
    product = product.flatten() if is_vector else product
    rest = [Array(tensor_of(r).expand(*batch, *r.shape[len(x.shape) - 2 :]), r._weak) for r in rest]
    return Array(product, q._weak), *rest  # pyright: ignore


_conjugate = conjugate  # an argument above has the name


def schur(a: ArrayLike, output: str = "real") -> list[Array]:
    """Return T and unitary Z with Z T Zᴴ = a; T is triangular, for real matrices and `output` "real" up to 2 x 2 blocks."""
    if output not in ("real", "complex"):
        raise ValueError(f"Expected 'output' to be either 'real' or 'complex', got {output=}.")
    x = asarray(a)
    if output == "complex":
        t = tensor("schur", x)
        x = Array(convert(t, dtypes.to_torch(dtypes.to_complex(dtypes.TO_NUMPY[t.dtype]))), x._weak)
    return factorizations.schur(x)


def hessenberg(
    a: ArrayLike, *, calc_q: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Array | tuple[Array, Array]:
    """Return upper Hessenberg H, and with `calc_q` unitary Q with Q H Qᴴ = a."""
    del overwrite_a, check_finite
    x = asarray(a)
    if not x.shape[-1]:
        blank = Array(torch.zeros_like(tensor("hessenberg", x)))
        return (blank, blank) if calc_q else blank
    packed, taus = reflections.hessenberg(x)
    t = tensor_of(packed)
    form = Array(torch.triu(t, -1))
    if not calc_q:
        return form
    if t.shape[-1] == 1:
        return form, Array(torch.ones_like(t))
    below = torch.linalg.householder_product(t[..., 1:, :-1], tensor_of(taus))
    return form, Array(_bordered(below))


def _bordered(t: Tensor) -> Tensor:
    """Return matrices with a first row and column of the unit matrix put before them."""
    corner = torch.zeros_like(t[..., 0])
    first = torch.cat([torch.ones_like(t[..., :1, 0]), corner], -1)
    return torch.cat([first.unsqueeze(-2), torch.cat([corner.unsqueeze(-1), t], -1)], -2)
