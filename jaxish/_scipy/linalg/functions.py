"""Functions of matrices by their Schur form, and the polar decomposition. Only the latter has derivatives, as in JAX."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ..._core import dtypes
from ..._core.array import Array, tensor_of
from ..._core.dimensions import broadcast_shape
from ..._core.graph import TensorType
from ..._core.promotion import convert, tensor
from ..._core.torch_modes import in_own_dtypes
from ..._core.typing import ArrayLike
from ..._lax.linalg.factorization import Factorization
from ..._lax.linalg.matrices import adjoint, matrix, nan_for_nan
from ..._numpy.creation import asarray
from .factorizations import schur
from .loops import column, count_down, count_up, place


def _complex(t: Tensor) -> Tensor:
    return convert(t, dtypes.to_torch(dtypes.to_complex(dtypes.TO_NUMPY[t.dtype])))


class _TriangularRoot(Factorization):
    """The square root of an upper triangular matrix.

    Source: Björck and Hammarling, A Schur method for the square root of a matrix, 1983; column by column.
    """

    __name__ = "sqrtm_of_triangular"

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        return [TensorType.of(inputs[0])]

    @in_own_dtypes
    def run(self, *inputs: Tensor) -> list[Tensor]:
        (t,) = inputs
        roots = torch.sqrt(torch.diagonal(t, dim1=-2, dim2=-1))
        return count_up(t.shape[-1], _root_column, [torch.zeros_like(t)], [t, roots])


def _root_column(j: Tensor, found: Tensor, t: Tensor, roots: Tensor) -> list[Tensor]:
    size = t.shape[-1]
    above = torch.arange(size, device=t.device) < j
    root = column(roots, j)
    right = torch.where(above, column(t, j).squeeze(-1), 0)
    sums = torch.where(above, roots + root, 1)
    # Where a sum of roots is zero the element is zero, too, if what it should come to is zero; else there is no root.
    system = torch.triu(found, 1) + torch.diag_embed(torch.where(sums == 0, 1, sums))
    x = torch.linalg.solve_triangular(system, right.unsqueeze(-1), upper=True).squeeze(-1)
    missing = (sums == 0) & (x != 0)
    x = torch.where(missing.flip(-1).cumsum(-1).flip(-1) > 0, torch.nan, x)
    here = place(j, size)
    filled = torch.where(here, root, torch.where(above, x, 0))
    return [torch.where(here, filled.unsqueeze(-1), found)]


_TRIANGULAR_ROOT = _TriangularRoot()


@in_own_dtypes
def sqrtm(A: ArrayLike, blocksize: int = 1) -> Array:
    """Return the principal square roots of square matrices, complex. `NotImplementedError` for a `blocksize` over 1."""
    if blocksize > 1:
        raise NotImplementedError("Blocked version is not implemented yet.")
    form, vectors = map(tensor_of, schur(A, output="complex"))
    return Array(vectors @ _TRIANGULAR_ROOT(form)[0] @ adjoint(vectors))


class _ComplexForm(Factorization):
    """T and Z with the 2 x 2 blocks of a real Schur form T turned to triangles, from the last to the first."""

    __name__ = "rsf2csf"

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        return [TensorType.of(t) for t in inputs]

    @in_own_dtypes
    def run(self, *inputs: Tensor) -> list[Tensor]:
        return count_down(inputs[0].shape[-1] - 1, _turned, inputs, last=1)


def _turned(m: Tensor, form: Tensor, vectors: Tensor) -> list[Tensor]:
    """Apply the rotation of rows and columns m - 1 and m after which T[m, m - 1] is zero."""
    size = form.shape[-1]
    pair = m - 1 + torch.arange(2, device=form.device)
    places = torch.arange(size, device=form.device)
    rows = form.index_select(-2, pair)
    block = rows.index_select(-1, pair)
    first, below, last = block[..., 0, 0], block[..., 1, 0], block[..., 1, 1]
    value = torch.linalg.eigvals(block)[..., 0] - last
    length = torch.hypot(value.abs(), below.abs())
    cosine, sine = value / length, below / length
    turn = torch.stack([torch.stack([cosine.conj(), sine], -1), torch.stack([-sine, cosine], -1)], -2)
    is_triangle = below.abs() <= torch.finfo(form.dtype).eps * (first.abs() + last.abs())
    turn = torch.where(is_triangle[..., None, None], torch.eye(2, dtype=form.dtype, device=form.device), turn)
    form = form.index_copy(-2, pair, torch.where(places >= m - 1, turn @ rows, rows))
    columns = form.index_select(-1, pair)
    turned = torch.where((places <= m).unsqueeze(-1), columns @ adjoint(turn), columns)
    form = form.index_copy(-1, pair, turned)
    vectors = vectors.index_copy(-1, pair, vectors.index_select(-1, pair) @ adjoint(turn))
    return [torch.where(place(m, size).unsqueeze(-1) & place(m - 1, size), 0, form), vectors]


_COMPLEX_FORM = _ComplexForm()


def rsf2csf(T: ArrayLike, Z: ArrayLike, check_finite: bool = True) -> tuple[Array, Array]:
    """Return a real Schur form, T and Z with Z T Zᴴ = a, as a complex one, in which T is triangular."""
    del check_finite
    form, vectors = (_complex(tensor("rsf2csf", asarray(x))) for x in (T, Z))
    for name, t in (("T", form), ("Z", vectors)):
        if t.dim() < 2 or t.shape[-1] != t.shape[-2]:
            raise ValueError(f"Input '{name}' must be square.")
    if form.shape[-1] != vectors.shape[-1]:
        raise ValueError(f"Input array shapes must match: Z: {tuple(vectors.shape)} vs. T: {tuple(form.shape)}")
    common = torch.promote_types(form.dtype, vectors.dtype)
    batch = broadcast_shape(form.shape[:-2], vectors.shape[:-2])
    given = [t.to(common).expand(*batch, *t.shape[-2:]) for t in (form, vectors)]
    found, turned = _COMPLEX_FORM(*given)
    return Array(found), Array(turned)


class _OfTriangular(Factorization):
    """A function of an upper triangular matrix from its values on the diagonal, and the smallest gap in the latter.

    Source: Parlett's recurrence, diagonal by diagonal; Golub and van Loan, Matrix computations, algorithm 11.1.1.
    """

    __name__ = "funm_of_triangular"

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        form, _ = inputs
        return [TensorType.of(form), TensorType(tuple(form.shape[:-2]), form.dtype.to_real(), form.device)]

    @in_own_dtypes
    def run(self, *inputs: Tensor) -> list[Tensor]:
        form, values = inputs
        least = form[..., 0, 0].abs()
        return count_up(form.shape[-1] - 1, _next_diagonal, [torch.diag_embed(values), least], [form])


def _next_diagonal(p: Tensor, found: Tensor, least: Tensor, form: Tensor) -> list[Tensor]:
    # f(T) commutes with T. Where f(T) is known up to a diagonal, the commutator has there what is missing times the gap.
    places = torch.arange(form.shape[-1], device=form.device)
    here = places - places.unsqueeze(-1) == p + 1
    diagonal = torch.diagonal(form, dim1=-2, dim2=-1)
    gap = diagonal.unsqueeze(-2) - diagonal.unsqueeze(-1)
    missing = form @ found - found @ form
    missing = torch.where(gap == 0, missing, missing / torch.where(gap == 0, 1, gap))
    smallest = torch.where(here, gap.abs(), torch.inf).amin((-2, -1))
    return [torch.where(here, missing, found), torch.minimum(least, smallest)]


_OF_TRIANGULAR = _OfTriangular()


@in_own_dtypes
def funm(A: ArrayLike, func: Callable[[Array], Array], disp: bool = True) -> Array | tuple[Array, Array]:
    """Return a function of a square matrix, complex; `func` is given the eigenvalues.

    Without `disp` an estimate of the error in the 1-norm comes second. Eigenvalues that are close to each other spoil
    the result.
    """
    x = asarray(A)
    if x.ndim != 2 or x.shape[0] != x.shape[1]:
        raise ValueError("expected square array_like input")
    real_form, real_vectors = schur(x)
    form, vectors = map(tensor_of, rsf2csf(real_form, real_vectors))
    values = tensor("funm", func(Array(torch.diagonal(form))))
    found, gap = _OF_TRIANGULAR(form, convert(values, form.dtype))
    result = vectors @ found @ adjoint(vectors)
    if disp:
        return Array(result)
    eps = torch.finfo(form.dtype).eps
    gap = torch.where(gap == 0, eps, gap)
    error = (eps / gap * torch.linalg.matrix_norm(torch.triu(form, 1), 1)).clamp(eps, 1)
    return Array(result), Array(torch.where(torch.isinf(result.abs()).any(), torch.inf, error))


class _Polar(Factorization):
    """U with orthonormal columns (or rows) and the positive semidefinite H with U H = a, or H U = a on the left."""

    __name__ = "polar"

    def __init__(self, left: bool) -> None:
        self.left = left

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        (a,) = inputs
        size = a.shape[-2 if self.left else -1]
        return [TensorType.of(a), TensorType((*a.shape[:-2], size, size), a.dtype, a.device)]

    @in_own_dtypes
    def run(self, *inputs: Tensor) -> list[Tensor]:
        u, s, vh = nan_for_nan(lambda a: torch.linalg.svd(a, full_matrices=False), inputs[0])
        basis = u if self.left else adjoint(vh)
        return [u @ vh, (basis * s.to(u.dtype).unsqueeze(-2)) @ adjoint(basis)]

    def slope(
        self, primals: Sequence[Tensor], results: Sequence[Tensor], tangents: Sequence[Tensor]
    ) -> list[Tensor | None]:
        # With a = u s vᴴ, uᴴ (dU) v is skew and fits the skew part of uᴴ (da) v: a Sylvester equation in s.
        (a,), (da,), (unitary, positive) = primals, tangents, results
        u, s, vh = torch.linalg.svd(a, full_matrices=False)
        inner = adjoint(u) @ da @ adjoint(vh)
        sums = s.unsqueeze(-1) + s.unsqueeze(-2)
        skew = (inner - adjoint(inner)) / sums.to(inner.dtype)
        du = u @ skew @ vh
        if a.shape[-2] > a.shape[-1]:
            outside = (da - u @ (adjoint(u) @ da)) @ adjoint(vh)
            du = du + (outside / s.unsqueeze(-2)) @ vh
        elif a.shape[-2] < a.shape[-1]:
            outside = adjoint(u) @ (da - da @ adjoint(vh) @ vh)
            du = du + u @ (outside / s.unsqueeze(-1))
        if self.left:
            dh = (da - positive @ du) @ adjoint(unitary)
        else:
            dh = adjoint(unitary) @ (da - du @ positive)
        return [du, (dh + adjoint(dh)) / 2]


_POLAR = {left: _Polar(left) for left in (False, True)}


def polar(
    a: ArrayLike,
    side: str = "right",
    *,
    method: str = "qdwh",
    eps: float | None = None,
    max_iterations: int | None = None,
) -> tuple[Array, Array]:
    """Return unitary U and positive semidefinite H with U H = a (`side` "right") or H U = a ("left").

    JAX has two methods, "qdwh" (an iteration, which `eps` and `max_iterations` are about) and "svd". Here both are the
    singular value decomposition; as in JAX "qdwh" is for matrices that have as many columns as rows or, on the right,
    fewer, on the left, more.
    """
    del eps, max_iterations
    x = asarray(a)
    if x.ndim < 2:
        raise ValueError("The input `a` must be at least a 2-D array.")
    if side not in ("right", "left"):
        raise ValueError("The argument `side` must be either 'right' or 'left'.")
    if method not in ("qdwh", "svd"):
        raise ValueError(f"Unknown polar decomposition method {method}.")
    rows, columns = x.shape[-2:]
    if method == "qdwh" and (rows >= columns) != (side == "right"):
        raise NotImplementedError(
            "method='qdwh' only supports mxn matrices where m >= n where side='right' and m < n where side='left', got "
            f"{x.shape} with {side=}"
        )
    unitary, positive = _POLAR[side == "left"](matrix("polar", x))
    return Array(unitary), Array(positive)
