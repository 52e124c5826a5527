"""Triangular and tridiagonal systems, rank-one updates, symmetric products and the polar decomposition."""

from typing import Any

import torch
from torch import Tensor

from ..._core.array import Array
from ..._core.operations import shown_as
from ..._core.primitive import conjugate
from ..._core.torch_modes import in_own_dtypes
from ..._core.typing import ArrayLike
from ..operands import check_same_dtypes
from .matrices import adjoint, all_weak, matrix, widened
from .tridiagonal_solver import TridiagonalSolve


def triangular_solve(
    a: ArrayLike,
    b: ArrayLike,
    *,
    left_side: bool = False,
    lower: bool = False,
    transpose_a: bool = False,
    conjugate_a: bool = False,
    unit_diagonal: bool = False,
) -> Array:
    """Return x with x op(a) = b, or with `left_side` op(a) x = b; op transposes and conjugates as asked.

    Only the triangle of `a` named by `lower` is read, with `unit_diagonal` its diagonal is taken to be one. `b` may
    be a batch of vectors.
    """
    t = matrix("triangular_solve", a, half=True)
    if t.shape[-1] != t.shape[-2]:
        raise ValueError(f"The first input to triangular_solve must be a square matrix. Got shape {tuple(t.shape)}.")
    right = matrix("triangular_solve", b, 1, rank=1, half=True)
    check_same_dtypes("triangular_solve", t, right)
    vector = right.dim() == t.dim() - 1
    if vector:
        right = right.unsqueeze(-1 if left_side else -2)
    if (
        right.dim() != t.dim()
        or right.shape[:-2] != t.shape[:-2]
        or right.shape[-2 if left_side else -1] != t.shape[-1]
    ):
        raise ValueError(
            f"Incompatible shapes for arguments to triangular_solve: {tuple(t.shape)} and {tuple(right.shape)}."
        )
    x = _triangular_solve(
        t, right, bool(left_side), bool(lower), bool(transpose_a), bool(conjugate_a), bool(unit_diagonal)
    )
    return Array(x.squeeze(-1 if left_side else -2) if vector else x, all_weak(a, b))


@shown_as(
    "triangular_solve",
    lambda a, b, left_side, lower, transpose_a, conjugate_a, unit_diagonal: {
        "left_side": left_side, "lower": lower, "transpose_a": transpose_a, "conjugate_a": conjugate_a,
        "unit_diagonal": unit_diagonal,
    },
)  # fmt: skip
def _triangular_solve(
    a: Tensor, b: Tensor, left_side: bool, lower: bool, transpose_a: bool, conjugate_a: bool, unit_diagonal: bool
) -> Tensor:
    dtype = a.dtype
    a, b = widened(a, b)
    if conjugate_a and a.dtype.is_complex:
        a = conjugate(a)
    if transpose_a:
        a, lower = a.mT, not lower
    return torch.linalg.solve_triangular(a, b, upper=not lower, left=left_side, unitriangular=unit_diagonal).to(dtype)


def tridiagonal_solve(
    dl: ArrayLike, d: ArrayLike, du: ArrayLike, b: ArrayLike, *, perturb_singular: bool = False
) -> Array:
    """Return x with a x = b for matrices a with lower diagonal dl, diagonal d and upper diagonal du, all of size n.

    dl[0] and du[-1] are not read. NaN where a is singular; with `perturb_singular`, pivots that are tiny beside the
    largest element are replaced by small numbers, so that the result is finite.
    """
    below, main, above = (matrix("tridiagonal_solve", x, i, rank=1) for i, x in enumerate((dl, d, du)))
    right = matrix("tridiagonal_solve", b, 3)
    if not below.shape == main.shape == above.shape or right.shape[:-1] != main.shape:
        raise TypeError(
            "tridiagonal_solve: dl, d and du must have the shape of b without its last dimension, got "
            f"{tuple(below.shape)}, {tuple(main.shape)}, {tuple(above.shape)} and {tuple(right.shape)}."
        )
    check_same_dtypes("tridiagonal_solve", below, main, above, right)
    return Array(TridiagonalSolve(bool(perturb_singular))(below, main, above, right)[0], all_weak(dl, d, du, b))


def cholesky_update(r_matrix: ArrayLike, w_vector: ArrayLike) -> Array:
    """Return upper triangular R' with R'ᵀ R' = Rᵀ R + w wᵀ, for upper triangular R."""
    r = matrix("cholesky_update", r_matrix, square=True, half=True)
    w = matrix("cholesky_update", w_vector, 1, rank=1, half=True)
    check_same_dtypes("cholesky_update", r, w)
    return Array(_updated(r, w), all_weak(r_matrix, w_vector))


@shown_as("cholesky_update", lambda r, w: {})
def _updated(r: Tensor, w: Tensor) -> Tensor:
    dtype = r.dtype
    r, w = widened(r, w)
    # The triangular factor of R stacked on w: squaring R would lose half of the digits.
    factor = torch.linalg.qr(torch.cat([torch.triu(r), w.unsqueeze(-2)], -2))[1]
    signs = torch.where(torch.diagonal(factor, dim1=-2, dim2=-1) < 0, -1, 1).to(r.dtype)
    return (signs.unsqueeze(-1) * factor).to(dtype)


def symmetric_product(
    a_matrix: ArrayLike, c_matrix: ArrayLike, *, alpha: float = 1.0, beta: float = 0.0, symmetrize_output: bool = False
) -> Array:
    """Return alpha a aᵀ + beta c, with `symmetrize_output` made symmetric from the lower triangle."""
    a = matrix("symmetric_product", a_matrix, half=True)
    c = matrix("symmetric_product", c_matrix, 1, square=True, half=True)
    check_same_dtypes("symmetric_product", a, c)
    out = _symmetric_product(a, c, alpha, beta)
    return Array(torch.tril(out) + torch.tril(out, -1).mT if symmetrize_output else out, all_weak(a_matrix, c_matrix))


@shown_as("symmetric_product", lambda a, c, alpha, beta: {"alpha": alpha, "beta": beta})
@in_own_dtypes
def _symmetric_product(a: Tensor, c: Tensor, alpha: float, beta: float) -> Tensor:
    return alpha * (a @ a.mT) + beta * c


def qdwh(
    x: Any,
    *,
    is_hermitian: bool = False,
    max_iterations: int | None = None,
    eps: float | None = None,
    dynamic_shape: tuple[int, int] | None = None,
) -> tuple[Array, Array, Array, Array]:
    """Return the polar decomposition x = u h, how many iterations it took, and whether it converged.

    Source: Nakatsukasa, Bai, Gygi, Optimizing Halley's iteration for computing the matrix polar decomposition, 2010.
    The number of rows must not be below that of columns.
    """
    if dynamic_shape is not None:
        raise NotImplementedError("qdwh takes no dynamic_shape; slice the matrix.")
    t = matrix("qdwh", x)
    if t.dim() != 2 or t.shape[0] < t.shape[1]:
        raise ValueError(f"The input `x` of shape M x N must have M >= N, got {tuple(t.shape)}.")
    if is_hermitian and t.shape[0] != t.shape[1]:
        raise ValueError("The input `x` is not Hermitian.")
    tolerance = eps if eps is not None else torch.finfo(t.dtype).eps
    return _polar(t, 10 if max_iterations is None else max_iterations, tolerance)


@in_own_dtypes
def _polar(t: Tensor, rounds: int, eps: float) -> tuple[Array, Array, Array, Array]:
    real = t.real if t.dtype.is_complex else t
    bound = torch.sqrt(torch.linalg.matrix_norm(t, 1) * torch.linalg.matrix_norm(t, torch.inf))
    u = t / torch.where(bound == 0, 1, bound)
    low = torch.full((), eps, dtype=real.dtype, device=t.device)
    count = torch.zeros((), dtype=torch.int32, device=t.device)
    done = torch.zeros((), dtype=torch.bool, device=t.device)
    unit = torch.eye(t.shape[1], dtype=t.dtype, device=t.device)
    for _ in range(rounds):
        square = low * low
        d = (4 * (1 / square - 1) / square).clamp(min=0) ** (1 / 3)
        a = torch.sqrt(1 + d) + torch.sqrt(8 - 4 * d + 8 * (2 - square) / (square * torch.sqrt(1 + d))) / 2
        b = (a - 1) ** 2 / 4
        c = a + b - 1
        stacked = torch.linalg.qr(torch.cat([torch.sqrt(c) * u, unit]))[0]
        upper, under = stacked[: t.shape[0]], stacked[t.shape[0] :]
        step = (b / c) * u + (a - b / c) / torch.sqrt(c) * (upper @ adjoint(under))
        change = torch.linalg.matrix_norm(step - u)
        next_low = low * (a + b * square) / (1 + c * square)
        settled = (change <= (4 * eps) ** (1 / 3)) & ((next_low - 1).abs() <= 5 * eps)
        u, low = torch.where(done, u, step), torch.where(done, low, next_low)
        count = count + (~done).to(torch.int32)
        done = done | settled
    h = adjoint(u) @ t
    return Array(u), Array((h + adjoint(h)) / 2), Array(count, True), Array(done)
