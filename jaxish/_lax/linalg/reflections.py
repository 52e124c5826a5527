"""Householder reflections: products of them, and the factorizations that are made of them step by step.

A reflection is I - tau v vᴴ with v[0] = 1, in LAPACK's convention. hessenberg, tridiagonal and pivoted QR take one
step per column, each a few torch operators, so that they batch and differentiate; they are meant for small matrices.
"""

import torch
from torch import Tensor

from ..._core.array import Array
from ..._core.operations import shown_as
from ..._core.torch_modes import in_own_dtypes
from ..._core.typing import ArrayLike
from .matrices import adjoint, all_weak, arrays, matrix


def householder_product(a: ArrayLike, taus: ArrayLike) -> Array:
    """Return the first columns of the product of reflections whose vectors lie below the diagonal of `a`."""
    t, scale = matrix("householder_product", a), matrix("householder_product", taus, 1, rank=1)
    if t.shape[-2] < t.shape[-1]:
        raise ValueError(
            "The first argument to householder_product must have at least as many rows as columns, got shape "
            f"{tuple(t.shape)}"
        )
    return Array(_product(t, scale), all_weak(a, taus))


@shown_as("householder_product", lambda t, scale: {})
def _product(t: Tensor, scale: Tensor) -> Tensor:
    return torch.linalg.householder_product(t, scale)


def ormqr(a: ArrayLike, taus: ArrayLike, c: ArrayLike, *, left: bool = True, transpose: bool = False) -> Array:
    """Return Q c, or c Q with left=False, for the product Q of the reflections of `a`; `transpose`: Qᴴ in its place."""
    t, scale = matrix("ormqr", a), matrix("ormqr", taus, 1, rank=1)
    other = matrix("ormqr", c, 2)
    return Array(_with_product(t, scale, other, bool(left), bool(transpose)), all_weak(a, taus, c))


@shown_as("ormqr", lambda t, scale, other, left, transpose: {"left": left, "transpose": transpose})
@in_own_dtypes
def _with_product(t: Tensor, scale: Tensor, other: Tensor, left: bool, transpose: bool) -> Tensor:
    rows, columns = t.shape[-2:]
    full = torch.nn.functional.pad(t, (0, rows - columns)) if rows > columns else t[..., :rows]
    q = torch.linalg.householder_product(full, scale)
    q = adjoint(q) if transpose else q
    return q @ other if left else other @ q


def hessenberg(a: ArrayLike) -> list[Array]:
    """Return upper Hessenberg H, the reflections' vectors stored below its subdiagonal, and their factors tau."""
    t = matrix("hessenberg", a, square=True)
    return arrays(all_weak(a), *_shown_hessenberg(t))


@shown_as("hessenberg", lambda t: {})
def _shown_hessenberg(t: Tensor) -> tuple[Tensor, Tensor]:
    return _hessenberg(t)


def _reflector(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return v, tau and beta of the reflection whose adjoint maps x to beta e₀."""
    alpha, rest = x[..., :1], x[..., 1:]
    norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    real = alpha.real if x.dtype.is_complex else alpha
    tail = torch.linalg.vector_norm(rest, dim=-1, keepdim=True)
    trivial = tail == 0
    if x.dtype.is_complex:
        trivial = trivial & (alpha.imag == 0)
    beta = torch.where(real < 0, norm, -norm).to(x.dtype)
    safe_beta = torch.where(trivial, 1, beta)
    scale = torch.where(trivial, 1, alpha - beta)
    v = torch.cat([torch.ones_like(alpha), torch.where(trivial, 0, rest / scale)], -1)
    tau = torch.where(trivial, 0, (beta - alpha) / safe_beta)
    return v, tau.squeeze(-1), torch.where(trivial, alpha, beta).squeeze(-1)


def _outer(a: Tensor, b: Tensor) -> Tensor:
    return a.unsqueeze(-1) * b.conj().unsqueeze(-2)


@in_own_dtypes
def _hessenberg(t: Tensor) -> tuple[Tensor, Tensor]:
    n = t.shape[-1]
    if not n:
        raise ValueError(f"The matrix must not be empty, got shape {tuple(t.shape)}.")
    taus, vectors = [], []
    for k in range(n - 1):
        v, tau, _ = _reflector(t[..., k + 1 :, k])
        v = torch.nn.functional.pad(v, (k + 1, 0))
        scale = tau[..., None, None]
        left = (adjoint(t) @ v.unsqueeze(-1)).squeeze(-1)
        t = t - scale.conj() * _outer(v, left)
        right = (t @ v.unsqueeze(-1)).squeeze(-1)
        t = t - scale * _outer(right, v)
        taus.append(tau)
        vectors.append(v)
    return _packed(t, vectors, 1), _stacked(taus, t)


def _stacked(taus: list[Tensor], like: Tensor) -> Tensor:
    return torch.stack(taus, -1) if taus else like.new_zeros((*like.shape[:-2], 0))


def _packed(t: Tensor, vectors: list[Tensor], below: int) -> Tensor:
    """Return the upper part of `t`, down to a subdiagonal, with the vectors below it."""
    columns = [torch.where(torch.arange(t.shape[-2], device=t.device) > k + below, v, 0) for k, v in enumerate(vectors)]
    blank = torch.zeros_like(t[..., 0])
    columns += [blank] * (t.shape[-1] - len(columns))
    return torch.triu(t, -below) + torch.stack(columns, -1) if columns else t


def tridiagonal(a: ArrayLike, *, lower: bool = True) -> list[Array]:
    """Return the packed reflections, diagonal, off-diagonal and taus of Hermitian matrices made tridiagonal.

    One triangle of `a` is read; the results are those of LAPACK's sytrd and hetrd.
    """
    return arrays(all_weak(a), *_tridiagonal_of(matrix("tridiagonal", a, square=True), bool(lower)))


@shown_as("tridiagonal", lambda t, lower: {"lower": lower})
def _tridiagonal_of(t: Tensor, lower: bool) -> list[Tensor]:
    if lower:
        packed, diagonal, off, taus = _tridiagonal(t)
        return [torch.tril(packed) + torch.triu(t, 1), diagonal, off, taus]
    # The reduction from the last column on is that of the matrix turned upside down.
    packed, *rest = _tridiagonal(torch.flip(t, (-2, -1)))
    upper = torch.triu(torch.flip(packed, (-2, -1)))
    return [upper + torch.tril(t, -1), *(torch.flip(r, (-1,)) for r in rest)]


@in_own_dtypes
def _tridiagonal(t: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    below = torch.tril(t, -1)
    diagonal = torch.diagonal(t, dim1=-2, dim2=-1)
    packed, taus = _hessenberg(
        below + adjoint(below) + torch.diag_embed(diagonal.real if t.dtype.is_complex else diagonal)
    )
    main = torch.diagonal(packed, dim1=-2, dim2=-1)
    off = torch.diagonal(packed, offset=-1, dim1=-2, dim2=-1)
    return packed, *((main.real, off.real) if t.dtype.is_complex else (main, off)), taus


@in_own_dtypes
def pivoted_qr(t: Tensor, full: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return Q, R and the columns' order; each step takes the column that is longest in what is left."""
    rows, columns = t.shape[-2:]
    order = torch.arange(columns, device=t.device).expand(*t.shape[:-2], columns)
    q = torch.eye(rows, dtype=t.dtype, device=t.device).expand(*t.shape[:-2], rows, rows)
    if not rows:
        order = torch.zeros_like(order)  # as JAX has it
    for k in range(min(rows, columns)):
        # torch 2.9's type of the norms of one row keeps the row, asked to or not.
        lengths = torch.linalg.vector_norm(t[..., k:, k:].detach(), dim=-2, keepdim=True).squeeze(-2)
        longest = lengths.argmax(-1, keepdim=True) + k
        places = torch.arange(columns, device=t.device)
        swap = torch.where(places == k, longest, torch.where(places == longest, k, places))
        t = t.gather(-1, swap.unsqueeze(-2).expand(t.shape))
        order = order.gather(-1, swap)
        v, tau, _ = _reflector(t[..., k:, k])
        v = torch.nn.functional.pad(v, (k, 0))
        scale = tau[..., None, None]
        t = t - scale.conj() * _outer(v, (adjoint(t) @ v.unsqueeze(-1)).squeeze(-1))
        q = q - scale * _outer((q @ v.unsqueeze(-1)).squeeze(-1), v)
    size = rows if full else min(rows, columns)
    return q[..., :size], torch.triu(t)[..., :size, :], order.to(torch.int32)
