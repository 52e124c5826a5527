"""The factorizations as primitives: how each is computed, and its derivative.

The derivatives are JAX's: nondegenerate perturbation theory, in the gauge that LAPACK's results have.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..._core.graph import TensorType
from ..._core.target import Target
from ..._core.torch_modes import in_own_dtypes
from .factorization import Factorization, OfEach
from .matrices import adjoint, by_lapack, nan_for_nan
from .reflections import pivoted_qr

_COMPLEX = {torch.float32: torch.complex64, torch.float64: torch.complex128}


def _type(like: Tensor, *tail: int, dtype: torch.dtype | None = None) -> TensorType:
    return TensorType((*like.shape[:-2], *tail), dtype or like.dtype, like.device)


def _real_dtype(t: Tensor) -> torch.dtype:
    return t.dtype.to_real() if t.dtype.is_complex else t.dtype


def _real(t: Tensor) -> Tensor:
    return t.real if t.dtype.is_complex else t


def _unit(t: Tensor) -> Tensor:
    return torch.eye(t.shape[-1], dtype=t.dtype, device=t.device)


def _diagonal(t: Tensor) -> Tensor:
    return torch.diagonal(t, dim1=-2, dim2=-1)


def _gaps(w: Tensor) -> Tensor:
    """Return 1 / (w_j - w_i), zero where i = j."""
    unit = torch.eye(w.shape[-1], dtype=w.dtype, device=w.device)
    return 1 / (unit + w.unsqueeze(-2) - w.unsqueeze(-1)) - unit


def _as_they_are(*found: np.ndarray) -> tuple[np.ndarray, ...]:
    return found


class Cholesky(Factorization):
    """Lower L with L Lᴴ = a, of which the lower triangle is read; NaN where a is not positive definite."""

    __name__ = "cholesky"

    def equation(self) -> tuple[str, dict[str, Any]]:
        return self.__name__, {}

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        return [TensorType.of(inputs[0])]

    def run(self, *inputs: Tensor) -> list[Tensor]:
        factor, info = torch.linalg.cholesky_ex(inputs[0])
        failed = torch.tril(torch.full_like(factor, torch.nan))
        return [torch.where((info == 0)[..., None, None], factor, failed)]

    def slope(
        self, primals: Sequence[Tensor], results: Sequence[Tensor], tangents: Sequence[Tensor]
    ) -> list[Tensor | None]:
        (factor,), (da,) = results, tangents
        solved = torch.linalg.solve_triangular(factor, da, upper=False)
        inner = torch.tril(torch.linalg.solve_triangular(adjoint(factor), solved, upper=True, left=False))
        return [factor @ (inner / (1 + _unit(inner)))]


class Eigh(OfEach):
    """Eigenvectors and ascending eigenvalues of a Hermitian matrix, of which one triangle is read."""

    __name__ = "eigh"

    def __init__(self, reads_lower: bool) -> None:
        self.reads_lower = reads_lower

    def equation(self) -> tuple[str, dict[str, Any]]:
        return self.__name__, {
            "lower": self.reads_lower, "sort_eigenvalues": True, "subset_by_index": None, "algorithm": None
        }  # fmt: skip

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        (a,) = inputs
        return [TensorType.of(a), _type(a, a.shape[-1], dtype=_real_dtype(a))]

    def computed(self, matrices: Tensor) -> list[Tensor]:
        read, triangle = (torch.tril(matrices), "L") if self.reads_lower else (torch.triu(matrices), "U")
        driver, size = ("heevd" if read.dtype.is_complex else "syevd"), read.shape[-1]
        # The room that native code gives it, for blocks.
        options = {"lower": self.reads_lower, "lwork": 1 + 70 * size + 2 * size * size}
        values, vectors = nan_for_nan(
            lambda m: by_lapack(driver, options, _as_they_are, lambda t: torch.linalg.eigh(t, triangle), m), read
        )
        return [vectors, values]

    def slope(
        self, primals: Sequence[Tensor], results: Sequence[Tensor], tangents: Sequence[Tensor]
    ) -> list[Tensor | None]:
        (v, w), (da,) = results, tangents
        inner = adjoint(v) @ da @ v
        return [v @ (_gaps(w).to(v.dtype) * inner), _real(_diagonal(inner))]


class Eig(OfEach):
    """Eigenvalues, then left, then right eigenvectors as far as they are wanted."""

    __name__ = "eig"

    def __init__(self, left: bool, right: bool, vectors_differentiable: bool) -> None:
        self.left, self.right, self.vectors_differentiable = left, right, vectors_differentiable
        self.vectors = left or right

    def equation(self) -> tuple[str, dict[str, Any]]:
        return self.__name__, {
            "compute_left_eigenvectors": self.left, "compute_right_eigenvectors": self.right,
            "enable_eigvec_derivs": self.vectors_differentiable, "implementation": None,
        }  # fmt: skip

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        (a,) = inputs
        n, dtype = a.shape[-1], _COMPLEX.get(a.dtype, a.dtype)
        return [_type(a, n, dtype=dtype), *[_type(a, n, n, dtype=dtype)] * (self.left + self.right)]

    def computed(self, matrices: Tensor) -> list[Tensor]:
        return nan_for_nan(self._compute, matrices)

    def spelled_out(self, target: Target, *inputs: Tensor) -> list[Tensor]:
        if self.left:
            raise NotImplementedError(f"torch has no left eigenvectors, which lax.linalg.eig wants of {target.name!r}.")
        return self.run(*inputs)

    def _compute(self, a: Tensor) -> tuple[Tensor, ...]:
        if not self.left and not self.right:
            return (torch.linalg.eigvals(a),)
        if not self.left:
            taken = (lambda w, _, v: (w, v)) if a.dtype.is_complex else _eigenpairs
            return by_lapack("geev", {"compute_vl": 0, "lwork": 68 * a.shape[-1]}, taken, torch.linalg.eig, a)
        found = _with_left_eigenvectors(a)
        return found if self.right else found[:2]

    def slope(
        self, primals: Sequence[Tensor], results: Sequence[Tensor], tangents: Sequence[Tensor]
    ) -> list[Tensor | None]:
        (a,), (da,) = primals, tangents
        if (self.left or self.right) and not self.vectors_differentiable:
            raise NotImplementedError(
                "Derivatives of eigenvectors of a matrix that is not symmetric hold only where the eigenvalues are "
                "distinct and no eigenvector has two largest components. Pass enable_eigvec_derivs=True to "
                "jax.lax.linalg.eig if that is so."
            )
        values = results[0]
        right = results[-1] if self.right else Eig(False, True, True)(a)[1]
        da = da.to(right.dtype)
        dw, dright = _eigenvector_slope(values, right, da)
        dleft = [_eigenvector_slope(values.conj(), results[1], adjoint(da))[1]] if self.left else []
        return [dw, *dleft, dright] if self.right else [dw, *dleft]


def _eigenpairs(real: np.ndarray, imaginary: np.ndarray, _: np.ndarray, found: np.ndarray) -> list[np.ndarray]:
    """Return eigenvalues and right eigenvectors as complex numbers: of a pair, LAPACK's columns are the first's parts."""
    (first,) = np.nonzero(imaginary > 0)
    vectors = found.astype(np.result_type(found.dtype, np.complex64))
    vectors[:, first] = found[:, first] + 1j * found[:, first + 1]
    vectors[:, first + 1] = vectors[:, first].conj()
    return [real + 1j * imaginary, vectors]


@in_own_dtypes
def _with_left_eigenvectors(a: Tensor) -> tuple[Tensor, ...]:
    """Return eigenvalues, left and right eigenvectors, as LAPACK pairs and signs them; torch has the right ones only."""
    import scipy.linalg

    n, dtype = a.shape[-1], _COMPLEX.get(a.dtype, a.dtype)
    values = torch.empty(a.shape[:-1], dtype=dtype, device="cpu")
    left, right = (torch.empty(a.shape, dtype=dtype, device="cpu") for _ in range(2))
    flat = [t.view(-1, *tail) for t, tail in ((values, (n,)), (left, (n, n)), (right, (n, n)))] if a.numel() else []
    for i, matrix in enumerate(a.reshape(-1, n, n).cpu().numpy() if a.numel() else ()):
        results: Any = scipy.linalg.eig(matrix, left=True, check_finite=False)
        for target, found in zip(flat, results, strict=True):
            target[i] = torch.from_numpy(found)
    return tuple(t.to(a.device) for t in (values, left, right))


def _eigenvector_slope(w: Tensor, v: Tensor, da: Tensor) -> tuple[Tensor, Tensor]:
    """Return the tangents of eigenvalues and of eigenvectors of norm 1 whose largest component is real."""
    inner = torch.linalg.inv_ex(v)[0] @ da @ v
    u = v @ (_gaps(w) * inner)
    largest = v.abs().argmax(-2, keepdim=True)
    turn = u.gather(-2, largest).imag / v.gather(-2, largest).real
    shift = torch.complex(-(v.conj() * u).sum(-2, keepdim=True).real, -turn)
    return _diagonal(inner), u + v * shift


class QR(Factorization):
    """Unitary Q and triangular R, with `pivoting` also the order of the columns."""

    __name__ = "qr"

    def __init__(self, pivoting: bool, full: bool) -> None:
        self.pivoting, self.full = pivoting, full

    def equation(self) -> tuple[str, dict[str, Any]]:
        return self.__name__, {"pivoting": self.pivoting, "full_matrices": self.full, "use_magma": None}

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        (a,) = inputs
        m, n = a.shape[-2:]
        k = m if self.full else min(m, n)
        order = [_type(a, n, dtype=torch.int32)] if self.pivoting else []
        return [_type(a, m, k), _type(a, k, n), *order]

    def run(self, *inputs: Tensor) -> list[Tensor]:
        if self.pivoting:
            return list(pivoted_qr(inputs[0], self.full))
        return list(torch.linalg.qr(inputs[0], mode="complete" if self.full else "reduced"))

    def slope(
        self, primals: Sequence[Tensor], results: Sequence[Tensor], tangents: Sequence[Tensor]
    ) -> list[Tensor | None]:
        (a,), (da,), q, r = primals, tangents, results[0], results[1]
        order = [None] if self.pivoting else []
        if self.pivoting:
            columns = results[2].to(torch.int64).unsqueeze(-2).expand(a.shape)
            a, da = a.gather(-1, columns), da.gather(-1, columns)
        m, n = a.shape[-2:]
        k = min(m, n)
        dq, dr = _thin_qr_slope(q[..., :k], r[..., :k, :k], da[..., :k])
        if m < n:
            rest = adjoint(dq) @ a[..., m:] + adjoint(q) @ da[..., m:]
            return [dq, torch.cat([dr, rest], -1), *order]
        if self.full and m > n:
            dq = torch.cat([dq, _complement_slope(q, dq, n)], -1)
            dr = torch.nn.functional.pad(dr, (0, 0, 0, m - n))
        return [dq, dr, *order]


def _thin_qr_slope(q: Tensor, r: Tensor, da: Tensor) -> tuple[Tensor, Tensor]:
    # Source: Townsend, Differentiating the QR decomposition, 2018.
    scaled = torch.linalg.solve_triangular(r, da, upper=True, left=False)
    inner = adjoint(q) @ scaled
    below = torch.tril(inner, -1)
    skew = below - adjoint(below)
    if q.dtype.is_complex:
        diagonal = _diagonal(inner).imag
        skew = skew + torch.diag_embed(torch.complex(torch.zeros_like(diagonal), diagonal))
    return q @ (skew - inner) + scaled, (inner - skew) @ r


def _complement_slope(q: Tensor, dq: Tensor, n: int) -> Tensor:
    """Return the tangent of the columns of q from n on, for Householder's choice of them.

    Source: equations 32 and 33 of arXiv 2409.13374.
    """
    top, bottom = q[..., :n, :n], q[..., n:, :n]
    z = adjoint(torch.linalg.inv_ex(adjoint(top - _unit(top)))[0] @ adjoint(bottom))
    turned = q[..., :n] + q[..., n:] @ z
    return dq @ adjoint(z) - turned @ adjoint(dq[..., n:, :] - z @ dq[..., :n, :])


class Svd(OfEach):
    """Descending singular values, then U and Vᴴ where the vectors are wanted."""

    __name__ = "svd"

    def __init__(self, vectors: bool, full: bool) -> None:
        self.vectors, self.full = vectors, full

    def equation(self) -> tuple[str, dict[str, Any]]:
        return self.__name__, {
            "full_matrices": self.full, "compute_uv": self.vectors, "subset_by_index": None, "algorithm": None
        }  # fmt: skip

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        (a,) = inputs
        m, n = a.shape[-2:]
        k = min(m, n)
        values = _type(a, k, dtype=_real_dtype(a))
        if not self.vectors:
            return [values]
        return [values, _type(a, m, m if self.full else k), _type(a, n if self.full else k, n)]

    def computed(self, matrices: Tensor) -> list[Tensor]:
        if not self.vectors:
            return nan_for_nan(lambda m: (torch.linalg.svdvals(m),), matrices)
        options = {"full_matrices": self.full}
        u, values, vh = nan_for_nan(
            lambda m: by_lapack(
                "gesdd", options, _as_they_are, lambda t: torch.linalg.svd(t, full_matrices=self.full), m
            ),
            matrices,
        )
        return [values, u, vh]

    def slope(
        self, primals: Sequence[Tensor], results: Sequence[Tensor], tangents: Sequence[Tensor]
    ) -> list[Tensor | None]:
        (a,), (da,) = primals, tangents
        m, n = a.shape[-2:]
        if self.vectors and self.full and m != n:
            raise NotImplementedError(
                "The derivative of svd with full matrices is not implemented: pass full_matrices=False."
            )
        s, u, vh = results if self.vectors else Svd(True, False)(a)
        v = adjoint(vh)
        inner = adjoint(u) @ da @ v
        ds = _real(_diagonal(inner))
        if not self.vectors:
            return [ds]
        row, column = s.unsqueeze(-2).to(a.dtype), s.unsqueeze(-1).to(a.dtype)
        unit = _unit(s)
        squares = (s.unsqueeze(-2) + s.unsqueeze(-1)) * (s.unsqueeze(-2) - s.unsqueeze(-1))
        gaps = (1 / (squares + unit) - unit).to(a.dtype)
        zero = (s == 0).to(s.dtype)
        inverse = torch.diag_embed(1 / (s + zero) - zero).to(a.dtype)
        left, right = row * inner, column * inner
        du = u @ (gaps * (left + adjoint(left)) + (inner - adjoint(inner)) * inverse / 2)
        dv = v @ (gaps * (right + adjoint(right)))
        if m > n:
            outside = da @ v
            du = du + (outside - u @ (adjoint(u) @ outside)) / row
        if n > m:
            outside = adjoint(da) @ u
            dv = dv + (outside - v @ (vh @ outside)) / row
        return [ds, du, adjoint(dv)]


class Schur(Factorization):
    """T and unitary Q with Q T Qᴴ = a, T triangular up to 2 x 2 blocks of real matrices. It has no derivative."""

    __name__ = "schur"

    def equation(self) -> tuple[str, dict[str, Any]]:
        return self.__name__, {"compute_schur_vectors": True, "sort_eig_vals": False, "select_callable": None}

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        return [TensorType.of(inputs[0])] * 2

    def run(self, *inputs: Tensor) -> list[Tensor]:
        return list(_schur(inputs[0]))

    def spelled_out(self, target: Target, *inputs: Tensor) -> list[Tensor]:
        raise NotImplementedError(f"torch has no Schur factorization, which lax.linalg.schur wants of {target.name!r}.")


def _schur(a: Tensor) -> tuple[Tensor, Tensor]:
    import scipy.linalg  # torch and NumPy have no Schur factorization

    count, matrices = a.shape[:-2].numel(), a.reshape(-1, *a.shape[-2:]) if a.numel() else a.new_empty(0, 0, 0)
    found = torch.full((2, count, *a.shape[-2:]), torch.nan, dtype=a.dtype, device="cpu")
    for i, matrix in enumerate(matrices.cpu().numpy()):
        try:
            taken: Any = scipy.linalg.schur(matrix, "complex" if a.dtype.is_complex else "real", check_finite=False)
        except np.linalg.LinAlgError:  # it did not converge: NaN
            continue
        found[:, i] = torch.from_numpy(np.stack(taken))
    form, vectors = found.to(a.device).reshape(2, *a.shape).unbind(0)
    return form, vectors
