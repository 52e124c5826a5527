"""Linear equations: from factors, triangular ones, and Sylvester's.

SciPy's arguments `overwrite_a`, `overwrite_b`, `check_finite` and `debug` make no difference to a result: they are
taken so that programs for SciPy run.
"""

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..._core import dtypes
from ..._core.array import Array, tensor_of
from ..._core.dimensions import broadcast_shape
from ..._core.graph import TensorType
from ..._core.promotion import convert
from ..._core.torch_modes import in_own_dtypes
from ..._core.typing import ArrayLike
from ..._lax.linalg.factorization import Factorization
from ..._lax.linalg.factorizations import cholesky, lu_pivots_to_permutation
from ..._lax.linalg.matrices import adjoint
from ..._lax.linalg.solvers import triangular_solve
from ..._numpy.linalg.decompositions import eig, eigvals
from ..._numpy.linalg.determinants import det as numpy_det
from ..._numpy.linalg.linear_solve import Solution, solve_systems
from ..._numpy.linalg.solving import inv as numpy_inv
from ..._numpy.linalg.solving import solve as numpy_solve
from ..._numpy.vectorization import vectorize
from ..._transforms.repeated import compiled_when_repeated
from .factorizations import schur
from .loops import column, count_down, place
from .operands import inexact


def det(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """Return the determinants of square matrices."""
    del overwrite_a, check_finite
    return numpy_det(a)


def inv(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """Return the inverses of square matrices; infinities and NaN for singular ones."""
    del overwrite_a, check_finite
    return numpy_inv(a)


class _PositiveSolution(Solution):
    """x with a @ x = b, for positive definite matrices a of which one triangle is read; NaN for others."""

    __name__ = "solve_positive"

    def __init__(self, reads_lower: bool) -> None:
        self.reads_lower = reads_lower

    def run(self, *inputs: Tensor) -> list[Tensor]:
        a, b = inputs
        (factor,) = map(tensor_of, [cholesky(Array(a if self.reads_lower else adjoint(a)), symmetrize_input=False)])
        return [torch.cholesky_solve(b, factor)]

    def transpose_of(self, a: Tensor) -> Tensor:
        return a


_POSITIVE = {lower: _PositiveSolution(lower) for lower in (False, True)}


def solve(
    a: ArrayLike,
    b: ArrayLike,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    debug: bool = False,
    check_finite: bool = True,
    assume_a: str = "gen",
) -> Array:
    """Return x with a @ x = b, for a vector `b` or matrices of columns.

    Where `assume_a` is "pos", `a` is taken to be positive definite, and its upper (or `lower`) triangle is read; "gen",
    "sym" and "her" make no difference. Raises `ValueError` for other kinds and for shapes that do not fit.
    """
    del overwrite_a, overwrite_b, debug, check_finite
    if assume_a not in ("gen", "sym", "her", "pos"):
        raise ValueError(f"Expected assume_a to be one of ['gen', 'sym', 'her', 'pos']; got {assume_a!r}")
    if assume_a != "pos":
        return numpy_solve(a, b)
    t, c = map(tensor_of, inexact("solve", a, b))
    rank = t.dim()
    if rank < 2 or c.dim() not in (rank, rank - 1) or not t.shape[-1] == t.shape[-2] == c.shape[rank - 2]:
        raise ValueError(
            "The arguments to solve must have shapes a=[..., m, m] and b=[..., m, k] or b=[..., m]; got "
            f"a={tuple(t.shape)} and b={tuple(c.shape)}"
        )
    x = solve_systems(t, c if c.dim() == rank else c.unsqueeze(-1), _POSITIVE[bool(lower)])
    return Array(x if c.dim() == rank else x.squeeze(-1))


def _for_columns(function: Callable[..., Array], name: str, signature: str, *operands: Array) -> Array:
    """Apply `function` to matrices and a right-hand side of columns, or of a vector as SciPy tells it."""
    a, b = operands[0], operands[-1]
    is_vector = b.ndim == 1
    if a.ndim == b.ndim + 1 and a.shape[-1] == b.shape[-1] and not is_vector:
        warnings.warn(
            f"jax.scipy.linalg.{name}: batched 1D solves with b.ndim > 1 are deprecated, and in the future will be "
            f"treated as a batched 2D solve. Use {name}(..., b[..., None]).squeeze(-1) to avoid this warning.",
            FutureWarning,
            stacklevel=3,
        )
        is_vector = True
    right = "(n)->(n)" if is_vector else "(n,k)->(n,k)"
    return vectorize(function, signature=f"{signature},{right}")(*operands)


_OPERATIONS: dict[Any, tuple[bool, bool]] = {
    0: (False, False),
    1: (True, False),
    2: (True, True),
    "N": (False, False),
    "T": (True, False),
    "C": (True, True),
}


@compiled_when_repeated
def solve_triangular(
    a: ArrayLike,
    b: ArrayLike,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    debug: Any = None,
    check_finite: bool = True,
) -> Array:
    """Return x with op(a) x = b for triangular `a`; `trans` 1 or "T" transposes it, 2 or "C" conjugates it, too.

    Only one triangle is read, with `unit_diagonal` its diagonal is taken to be one.
    """
    del overwrite_b, debug, check_finite
    if trans not in _OPERATIONS:
        raise ValueError(f"Invalid 'trans' value {trans}")
    transpose, conjugate = _OPERATIONS[trans]
    solver = partial(
        triangular_solve, left_side=True, lower=lower, transpose_a=transpose, conjugate_a=conjugate,
        unit_diagonal=unit_diagonal,
    )  # fmt: skip
    return _for_columns(solver, "solve_triangular", "(n,n)", *inexact("solve_triangular", a, b))


def cho_solve(
    c_and_lower: tuple[ArrayLike, bool], b: ArrayLike, overwrite_b: bool = False, check_finite: bool = True
) -> Array:
    """Return x with a x = b for the Cholesky factor of `a`, as `cho_factor` returns it."""
    del overwrite_b, check_finite
    factor, lower = c_and_lower
    sides = [{"transpose_a": turned, "conjugate_a": turned} for turned in (not lower, lower)]

    def solver(c: Array, b: Array) -> Array:
        for side in sides:
            b = triangular_solve(c, b, left_side=True, lower=lower, **side)
        return b

    return _for_columns(solver, "cho_solve", "(n,n)", *inexact("cho_solve", factor, b))


def lu_solve(
    lu_and_piv: tuple[Array, ArrayLike],
    b: ArrayLike,
    trans: int = 0,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Array:
    """Return x with op(a) x = b for the factors of `a`, as `lu_factor` returns them; `trans` as in `solve_triangular`."""
    del overwrite_b, check_finite
    factors, pivots = lu_and_piv
    packed, right = inexact("lu_solve", factors, b)
    order = lu_pivots_to_permutation(pivots, packed.shape[-2])
    if trans not in (0, 1, 2):
        raise ValueError(f"'trans' value must be 0, 1, or 2, got {trans}")

    def solver(packed: Array, order: Array, b: Array) -> Array:
        places = tensor_of(order).to(torch.int64)
        lower = partial(triangular_solve, packed, left_side=True, lower=True, unit_diagonal=True)
        upper = partial(triangular_solve, packed, left_side=True)
        if not trans:
            return upper(lower(Array(tensor_of(b).index_select(0, places), b._weak)))
        options = {"transpose_a": True, "conjugate_a": trans == 2}
        found = lower(upper(b, **options), **options)
        return Array(tensor_of(found).index_select(0, torch.argsort(places)), found._weak)

    return _for_columns(solver, "lu_solve", "(n,n),(n)", packed, order, right)


# ------------------------------------------------------------------------------------------------ Sylvester's equation


class _TriangularSylvester(Factorization):
    """Y with r Y + Y s = f, for upper triangular r and lower triangular s, from the last column to the first.

    Source: Bartels and Stewart, Algorithm 432: solution of the matrix equation AX + XB = C, 1972.
    """

    __name__ = "sylvester_of_triangular"

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        return [TensorType.of(inputs[2])]

    @in_own_dtypes
    def run(self, *inputs: Tensor) -> list[Tensor]:
        return count_down(inputs[2].shape[-1] - 1, _sylvester_column, [torch.zeros_like(inputs[2])], inputs)


def _sylvester_column(j: Tensor, found: Tensor, r: Tensor, s: Tensor, f: Tensor) -> list[Tensor]:
    below = column(s, j)
    right = column(f, j) - found @ below
    system = r + below.index_select(-2, j.reshape(1)) * torch.eye(r.shape[-1], dtype=r.dtype, device=r.device)
    x = torch.linalg.solve_triangular(system, right, upper=True)
    return [torch.where(place(j, s.shape[-1]), x, found)]


_TRIANGULAR_SYLVESTER = _TriangularSylvester()


@in_own_dtypes
def solve_sylvester(A: ArrayLike, B: ArrayLike, C: ArrayLike, *, method: str = "schur", tol: float = 1e-8) -> Array:
    """Return X with A X + X B = C, by Schur forms, or by eigenvectors (`method` "eigen"), which is for GPUs.

    NaN where an eigenvalue of A and one of B have a sum below `tol`.
    """
    a, b, c = inexact("solve_sylvester", A, B, C)
    rows, columns = c.shape[-2:]
    if a.shape[-2:] != (rows, rows) or b.shape[-2:] != (columns, columns):
        raise ValueError(f"Incompatible shapes for Sylvester equation:\nA: {a.shape}\nB: {b.shape}\nC: {c.shape}")
    if method not in _SYLVESTER:
        raise ValueError(f'Unrecognized method {method}. The two valid methods are either "schur" or "eigen".')
    batch = broadcast_shape(*(x.shape[:-2] for x in (a, b, c)))
    tensors = [tensor_of(x).expand(*batch, *x.shape[-2:]) for x in (a, b, c)]
    x = _SYLVESTER[method](*tensors)
    of_a, of_b = (tensor_of(eigvals(Array(t))) for t in tensors[:2])
    singular = ((of_a.unsqueeze(-1) + of_b.unsqueeze(-2)).abs() < tol).any(-1).any(-1)
    x = x if tensors[2].is_complex() else x.real
    return Array(torch.where(singular[..., None, None], torch.nan, x))


def _by_schur(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    (r, u), (s, v) = (map(tensor_of, schur(Array(t), output="complex")) for t in (a, adjoint(b)))
    right = adjoint(u) @ _complex(c) @ v
    (y,) = _TRIANGULAR_SYLVESTER(r, adjoint(s), right)
    return u @ y @ adjoint(v)


def _by_eigenvectors(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    (of_a, u), (of_b, v) = (map(tensor_of, eig(Array(t))) for t in (a, b))
    y = solve_systems(u, _complex(c) @ v) / (of_a.unsqueeze(-1) + of_b.unsqueeze(-2))
    return adjoint(solve_systems(adjoint(v), adjoint(u @ y)))


_SYLVESTER = {"schur": _by_schur, "eigen": _by_eigenvectors}


def _complex(t: Tensor) -> Tensor:
    return convert(t, dtypes.to_torch(dtypes.to_complex(dtypes.TO_NUMPY[t.dtype])))
