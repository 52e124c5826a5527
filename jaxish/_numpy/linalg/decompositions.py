"""Factors and eigenvalues of matrices, by lax's primitives. Where the input is singular or not finite, results are NaN."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..._core import dtypes
from ..._core.array import Array, check_arraylike
from ..._core.primitive import conjugate
from ..._core.promotion import promote_inexact
from ..._core.typing import ArrayLike
from ..._lax.linalg.primitives import QR, Cholesky, Eig, Eigh, Svd
from ..._transforms.repeated import compiled_when_repeated
from ..._transforms.shown_calls import shown_as_jit


class EigResult(NamedTuple):
    """Eigenvalues and eigenvectors (as columns)."""

    eigenvalues: Array
    eigenvectors: Array


class EighResult(NamedTuple):
    """Eigenvalues in ascending order and eigenvectors (as columns)."""

    eigenvalues: Array
    eigenvectors: Array


class QRResult(NamedTuple):
    """An orthogonal and an upper triangular factor."""

    Q: Array
    R: Array


class SVDResult(NamedTuple):
    """Left singular vectors, singular values in descending order, conjugated right singular vectors."""

    U: Array
    S: Array
    Vh: Array


# What JAX's primitives are: they tell of too few dimensions by TypeError.
_PRIMITIVES = {"cholesky", "eig", "eigh", "eigvals", "eigvalsh", "qr", "svd", "svdvals"}


def matrices(function: str, *args: Any, square: bool = False) -> list[Tensor]:
    """Return tensors of a common floating or complex dtype. Raises `ValueError` or `TypeError` for what is no (square) matrix."""
    check_arraylike(f"jnp.linalg.{function}", *args)
    found, _ = promote_inexact(function, *args)
    if found[0].dtype.itemsize == 2:
        raise NotImplementedError(
            f"Unsupported dtype {dtypes.TO_NUMPY[found[0].dtype]}. jnp.linalg.{function} takes x.astype('float32')."
        )
    shape = tuple(found[0].shape)
    if len(shape) < 2 and function in _PRIMITIVES:
        raise TypeError(f"Input 0 to {function} must have rank at least 2, but got shape={shape}")
    if len(shape) < 2 or (square and shape[-1] != shape[-2]):
        kind = "[..., n, n]" if square else "[..., m, n]"
        raise ValueError(f"Argument to {function} must have shape {kind}, got {shape}")
    return found


def adjoint(t: Tensor) -> Tensor:
    """Return matrices conjugated and transposed."""
    t = t.transpose(-1, -2)
    return conjugate(t)


@shown_as_jit("upper", "symmetrize_input")
@compiled_when_repeated
def cholesky(a: ArrayLike, *, upper: bool = False, symmetrize_input: bool = True) -> Array:
    """Return the lower (or `upper`) triangular factor of positive definite matrices; NaN where they are not.

    With `symmetrize_input`, (a + a^H) / 2 is factored, so that derivatives are symmetric too.
    """
    (t,) = matrices("cholesky", a, square=True)
    if symmetrize_input:
        t = (t + adjoint(t)) / 2
    (factor,) = Cholesky()(t)
    return Array(adjoint(factor) if upper else factor)


_EIGH = Eigh(reads_lower=True)


def _columns(subset: tuple[int, int] | None, *parts: Tensor) -> list[Tensor]:
    if subset is None:
        return list(parts)
    return [p[..., subset[0] : subset[1]] for p in parts]


@shown_as_jit("full_matrices", "compute_uv", "hermitian", "subset_by_index")
@compiled_when_repeated
def svd(
    a: ArrayLike, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False,
    subset_by_index: tuple[int, int] | None = None,
) -> Array | SVDResult:  # fmt: skip
    """Return the singular value decomposition U, S, Vh of matrices, or S alone if not `compute_uv`.

    Without `full_matrices` U and Vh have min(m, n) columns and rows. `hermitian` matrices are decomposed by `eigh`.
    `subset_by_index` selects a range of singular values, and needs `full_matrices` False with `compute_uv`.
    """
    (t,) = matrices("svd", a)
    if subset_by_index is not None and compute_uv and full_matrices:
        raise ValueError("full_matrices and subset_by_index cannot both be set")
    if hermitian:
        return _svd_by_eigh(t, compute_uv, subset_by_index)
    if not compute_uv:
        (s,) = Svd(False, False)(t)
        return Array(_columns(subset_by_index, s)[0])
    s, u, vh = Svd(True, bool(full_matrices))(t)
    if subset_by_index is not None:
        u, s = _columns(subset_by_index, u, s)
        vh = vh[..., subset_by_index[0] : subset_by_index[1], :]
    return SVDResult(Array(u), Array(s), Array(vh))


def _svd_by_eigh(t: Tensor, compute_uv: bool, subset: tuple[int, int] | None) -> Array | SVDResult:
    vectors, values = _EIGH((t + adjoint(t)) / 2)
    size = torch.abs(values)
    order = torch.sort(size, -1, descending=True).indices
    s = torch.gather(size, -1, order)
    if not compute_uv:
        return Array(_columns(subset, s)[0])
    u = torch.gather(vectors, -1, order.unsqueeze(-2).expand_as(vectors))
    sign = torch.gather(torch.sign(values), -1, order).unsqueeze(-2).to(u.dtype)
    u, s, v = _columns(subset, u, s, u * sign)
    return SVDResult(Array(u), Array(s), Array(adjoint(v)))


@compiled_when_repeated
def svdvals(x: ArrayLike, /) -> Array:
    """Return the singular values of matrices, in descending order."""
    return svd(x, compute_uv=False)  # pyright: ignore


@shown_as_jit("mode")
@compiled_when_repeated
def qr(a: ArrayLike, mode: str = "reduced") -> Array | QRResult:
    """Return the factors Q and R of matrices; in mode "complete" Q is square, in mode "r" there is R only.

    Mode "raw" returns the transposed Householder vectors and their scales. Raises `ValueError` for other modes.
    """
    if mode == "raw":
        (t,) = matrices("qr", a)
        packed, scales = torch.geqrf(t)
        return QRResult(Array(packed.transpose(-1, -2)), Array(scales))
    if mode not in ("reduced", "complete", "r", "full"):
        raise ValueError(f"Unsupported QR decomposition mode '{mode}'")
    (t,) = matrices("qr", a)
    if mode == "r":
        return Array(QR(False, False)(t)[1])
    q, r = QR(False, mode == "complete")(t)
    return QRResult(Array(q), Array(r))


@compiled_when_repeated
def eig(a: ArrayLike) -> EigResult:
    """Return the eigenvalues and eigenvectors of matrices, complex, in no particular order."""
    (t,) = matrices("eig", a, square=True)
    values, vectors = Eig(False, True, False)(t)
    return EigResult(Array(values), Array(vectors))


@shown_as_jit()
@compiled_when_repeated
def eigvals(a: ArrayLike) -> Array:
    """Return the eigenvalues of matrices, complex, in no particular order."""
    (t,) = matrices("eigvals", a, square=True)
    return Array(Eig(False, False, False)(t)[0])


def _hermitian(function: str, a: Any, UPLO: str | None, symmetrize: bool) -> Tensor:
    if UPLO not in (None, "L", "U"):
        raise ValueError(f"UPLO must be one of None, 'L', or 'U', got {UPLO}")
    (t,) = matrices(function, a, square=True)
    if symmetrize:
        return (t + adjoint(t)) / 2
    if UPLO == "U":
        upper = torch.triu(t, 1)
        return adjoint(upper) + torch.triu(t)
    lower = torch.tril(t, -1)
    return torch.tril(t) + adjoint(lower)


@shown_as_jit("UPLO", "symmetrize_input")
@compiled_when_repeated
def eigh(a: ArrayLike, UPLO: str | None = None, symmetrize_input: bool = True) -> EighResult:
    """Return the eigenvalues (real, ascending) and eigenvectors of Hermitian matrices.

    `symmetrize_input` takes (a + a^H) / 2; otherwise the triangle that `UPLO` names ("L": lower) is used.
    """
    t = _hermitian("eigh", a, UPLO, symmetrize_input)
    vectors, values = _EIGH(t)
    return EighResult(Array(values), Array(vectors))


@shown_as_jit("UPLO", "symmetrize_input")
@compiled_when_repeated
def eigvalsh(a: ArrayLike, UPLO: str | None = "L", *, symmetrize_input: bool = True) -> Array:
    """Return the eigenvalues of Hermitian matrices, ascending; arguments as in `eigh`."""
    t = _hermitian("eigvalsh", a, UPLO, symmetrize_input)
    return Array(_EIGH(t)[1])
