"""Iterative solvers of linear systems. The matrix may be a function, and vectors pytrees.

An iteration is a while_loop over one long vector, the leaves of the pytree one after the other. Derivatives are those
of `custom_linear_solve`: another solution, whatever the iteration did.
"""

import operator
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import torch

from ..._core import dtypes, tree
from ..._core.array import Array, tensor_of
from ..._core.promotion import convert
from ..._core.tree_util import tree_leaves, tree_map, tree_structure
from ..._lax.control_flow.solves import custom_linear_solve
from ..._lax.control_flow.while_loop import while_loop
from ..._numpy.contractions import dot, vdot
from ..._numpy.creation import asarray, eye, zeros, zeros_like
from ..._numpy.elementary import hypot, sqrt
from ..._numpy.parts import conj, real
from ..._numpy.rounding import isnan
from ..._numpy.selection import where
from ..._numpy.ufuncs import abs as magnitude
from ..._numpy.ufuncs import maximum, minimum, square
from ..linalg.systems import solve_triangular

Operator: TypeAlias = Callable[[Any], Any]


def _operator(f: Any) -> Operator:
    """Return what multiplies by `f`: a function, a square matrix, or something with `@` and a shape."""
    if callable(f):
        return f
    is_array = isinstance(f, Array | np.ndarray)
    if not is_array and not hasattr(f, "__matmul__"):
        raise TypeError(f"linear operator must be either a function or ndarray: {f}")
    if len(f.shape) != 2 or f.shape[0] != f.shape[1]:
        raise ValueError(f"linear operator must be a square matrix, but has shape: {f.shape}")
    return partial(dot if is_array else operator.matmul, f)


class _System:
    """A system of equations for one vector: its operators, its right-hand side and where the iteration starts."""

    def __init__(self, matrix: Operator, b: Any, start: Any, preconditioner: Operator | None) -> None:
        leaves, self._spec = tree.flatten(b)
        self._leaves = [asarray(leaf) for leaf in leaves]
        types = [(a.dtype, a.weak_type) for a in self._leaves]
        self._dtype = dtypes.to_torch(dtypes.promote(*types)[0])
        self.b, self.start = self.joined(b), self.joined(start)
        self._matrix, self._preconditioner = matrix, preconditioner

    def joined(self, pytree: Any) -> Array:
        """Return the elements of a pytree as one vector."""
        parts = [convert(tensor_of(asarray(leaf)), self._dtype).reshape(-1) for leaf in tree_leaves(pytree)]
        return Array(torch.cat(parts))

    def split(self, vector: Array) -> Any:
        """Return a vector as a pytree like the right-hand side."""
        parts = tensor_of(vector).split([a.size for a in self._leaves])
        return self._spec.unflatten(
            Array(convert(t, dtypes.to_torch(a.dtype)).reshape(a.shape), a.weak_type)
            for t, a in zip(parts, self._leaves, strict=True)
        )

    def product(self, vector: Array) -> Array:
        """Return the matrix times a vector."""
        return self.joined(self._matrix(self.split(vector)))

    def preconditioned(self, vector: Array) -> Array:
        """Return the preconditioner times a vector."""
        return vector if self._preconditioner is None else self.joined(self._preconditioner(self.split(vector)))

    def residual(self, x: Array) -> Array:
        """Return what is missing at x."""
        return self.b - self.product(x)


def _real_vdot(x: Array, y: Array) -> Array:
    return real(vdot(x, y))


def _norm(x: Array) -> Array:
    return sqrt(_real_vdot(x, x))


def _cg(system: _System, tol: Any, atol: Any, maxiter: Any) -> Array:
    """Source: Hestenes and Stiefel, Methods of conjugate gradients for solving linear systems, 1952."""
    least = maximum(square(tol) * _real_vdot(system.b, system.b), square(atol))

    def going(state: tuple[Any, ...]) -> Any:
        _, r, _, _, k = state
        return (_real_vdot(r, r) > least) & (k < maxiter)

    def step(state: tuple[Any, ...]) -> tuple[Any, ...]:
        x, r, gamma, p, k = state
        product = system.product(p)
        alpha = (gamma / _real_vdot(p, product)).astype(p.dtype)
        x, r = x + alpha * p, r - alpha * product
        z = system.preconditioned(r)
        following = _real_vdot(r, z)
        return x, r, following, z + (following / gamma).astype(p.dtype) * p, k + 1

    r = system.residual(system.start)
    z = system.preconditioned(r)
    return while_loop(going, step, (system.start, r, _real_vdot(r, z), z, 0))[0]


def _bicgstab(system: _System, tol: Any, atol: Any, maxiter: Any) -> Array:
    """Source: van der Vorst, Bi-CGSTAB, 1992. It ends where a scalar product that it divides by is zero."""
    least = maximum(square(tol) * _real_vdot(system.b, system.b), square(atol))
    first = system.residual(system.start)

    def going(state: tuple[Any, ...]) -> Any:
        _, r, *_, k, is_broken = state
        return (_real_vdot(r, r) > least) & (k < maxiter) & ~is_broken

    def step(state: tuple[Any, ...]) -> tuple[Any, ...]:
        x, r, p, q, alpha, omega, rho, k, _ = state
        following = vdot(first, r)
        p = r + following / rho * alpha / omega * (p - omega * q)
        direction = system.preconditioned(p)
        q = system.product(direction)
        alpha = following / vdot(first, q)
        half = r - alpha * q
        stabilizer = system.preconditioned(half)
        t = system.product(stabilizer)
        is_done = _real_vdot(half, half) < least
        omega = vdot(t, half) / vdot(t, t)
        x = x + alpha * direction
        x, r = where(is_done, x, x + omega * stabilizer), where(is_done, half, half - omega * t)
        return x, r, p, q, alpha, omega, following, k + 1, (omega == 0) | (alpha == 0) | (following == 0)

    one = asarray(1, first.dtype)
    return while_loop(going, step, (system.start, first, first, first, one, one, one, 0, False))[0]


def _gmres(system: _System, atol: Any, threshold: Any, restart: int, maxiter: Any) -> Array:
    """Source: Saad and Schultz, GMRES: a generalized minimal residual algorithm, 1986. `threshold` ends a cycle."""

    def going(state: tuple[Any, ...]) -> Any:
        _, r, k = state
        return (k < maxiter) & (_norm(r) > atol)

    def cycle(state: tuple[Any, ...]) -> tuple[Any, ...]:
        x, r, k = state
        x = x + _gmres_step(system, r, threshold, restart)
        return x, system.preconditioned(system.residual(x)), k + 1

    first = system.preconditioned(system.residual(system.start))
    return while_loop(going, cycle, (system.start, first, 0))[0]


def _gmres_step(system: _System, r: Array, threshold: Any, restart: int) -> Array:
    """Return the change of x within a Krylov space that makes the residual smallest.

    The Hessenberg matrix of Arnoldi's process becomes triangular column by column: `turn` is the unitary matrix that
    makes it so, and `right` the residual's norm turned.
    """
    dtype, eps = r.dtype, torch.finfo(r._tensor.dtype).eps
    norm = _norm(r)
    unit = where(norm > eps, r / norm.astype(dtype), 0)

    def going(state: tuple[Any, ...]) -> Any:
        *_, k, error, is_broken = state
        return (k < restart) & (error > threshold) & ~is_broken

    def step(state: tuple[Any, ...]) -> tuple[Any, ...]:
        basis, triangle, turn, right, k, _, _ = state
        w = system.preconditioned(system.product(basis[:, k]))
        before = _norm(w)
        column = zeros(restart + 1, dtype)
        for _ in range(2):  # Gram and Schmidt, twice for the digits that the first round loses
            part = dot(conj(basis.T), w)
            w, column = w - dot(basis, part), column + part
        length = _norm(w)
        is_broken = length <= eps * before
        length = where(is_broken, 0, length).astype(dtype)
        column = column.at[k + 1].set(length)
        basis = basis.at[:, k + 1].set(where(is_broken, 0, w / length))
        column = dot(turn, column)
        pair = column[k], column[k + 1]
        radius = hypot(magnitude(pair[0]), magnitude(pair[1])).astype(dtype)
        c, s = (p / radius for p in pair)

        def turned(t: Array) -> Array:
            above, below = t[k], t[k + 1]
            return t.at[k].set(conj(c) * above + conj(s) * below).at[k + 1].set(c * below - s * above)

        right = turned(right)
        triangle = triangle.at[:, k].set(turned(column)[:-1])
        return basis, triangle, turned(turn), right, k + 1, magnitude(right[k + 1]), is_broken

    basis = zeros((r.size, restart + 1), dtype).at[:, 0].set(unit)
    right = zeros(restart + 1, dtype).at[0].set(norm.astype(dtype))
    state = (basis, eye(restart, dtype=dtype), eye(restart + 1, dtype=dtype), right, 0, norm, False)
    basis, triangle, _, right, *_ = while_loop(going, step, state)
    return dot(basis[:, :-1], solve_triangular(triangle, right[:-1]))


def _solve(
    iteration: Callable[[_System], Array], A: Any, b: Any, x0: Any, M: Any, check_symmetric: bool = False
) -> tuple[Any, Any]:
    """Return the solution that an iteration finds, and the right-hand side as arrays."""
    x0 = tree_map(zeros_like, b) if x0 is None else x0
    b, x0 = tree_map(asarray, b), tree_map(asarray, x0)
    matrix, preconditioner = _operator(A), None if M is None else _operator(M)
    if tree_structure(x0) != tree_structure(b):
        raise ValueError(f"x0 and b must have matching tree structure: {tree_structure(x0)} vs {tree_structure(b)}")
    shapes = [[leaf.shape for leaf in tree_leaves(x)] for x in (x0, b)]
    if shapes[0] != shapes[1]:
        raise ValueError(f"arrays in x0 and b must have matching shapes: {shapes[0]} vs {shapes[1]}")

    def solve(matvec: Operator, b: Any) -> Any:
        system = _System(matvec, b, x0, preconditioner)
        return system.split(iteration(system))

    is_real = not any(dtypes.issubdtype(leaf.dtype, np.complexfloating) for leaf in tree_leaves(b))
    symmetric = check_symmetric and is_real
    return custom_linear_solve(matrix, b, solve=solve, transpose_solve=solve, symmetric=symmetric), b


def _rounds(b: Any, maxiter: Any) -> Any:
    return 10 * sum(np.size(leaf) for leaf in tree_leaves(b)) if maxiter is None else maxiter


def cg(
    A: Any, b: Any, x0: Any = None, *, tol: Any = 1e-5, atol: Any = 0.0, maxiter: Any = None, M: Any = None
) -> tuple[Any, None]:
    """Return x with A x = b by conjugate gradients, and None: `A` and the preconditioner `M` are positive definite.

    `A` is a function of pytrees like `b` or a matrix. The iteration starts at `x0` (zero) and ends when the residual's
    norm is at most `max(tol * norm(b), atol)`, or after `maxiter` steps. Raises `ValueError` where structures or
    shapes of `x0` and `b` differ, `TypeError` for what is no operator.
    """
    iteration = partial(_cg, tol=tol, atol=atol, maxiter=_rounds(b, maxiter))
    return _solve(iteration, A, b, x0, M, check_symmetric=True)[0], None


def bicgstab(
    A: Any, b: Any, x0: Any = None, *, tol: Any = 1e-5, atol: Any = 0.0, maxiter: Any = None, M: Any = None
) -> tuple[Any, None]:
    """Return x with A x = b by the stabilized biconjugate gradients, and None; arguments as in `cg`, for any matrix."""
    iteration = partial(_bicgstab, tol=tol, atol=atol, maxiter=_rounds(b, maxiter))
    return _solve(iteration, A, b, x0, M)[0], None


def gmres(
    A: Any, b: Any, x0: Any = None, *, tol: Any = 1e-5, atol: Any = 0.0, restart: int = 20, maxiter: Any = None,
    M: Any = None, solve_method: str = "batched",
) -> tuple[Any, Array]:  # fmt: skip
    """Return x with A x = b by generalized minimal residuals, and 0, or -1 where x has NaNs; arguments as in `cg`.

    A cycle takes `restart` steps, with `solve_method` "incremental" fewer where the residual is small before.
    """
    if solve_method not in ("batched", "incremental"):
        raise ValueError(f"invalid solve_method {solve_method}, must be either 'incremental' or 'batched'")
    size = sum(np.size(leaf) for leaf in tree_leaves(b))

    def iteration(system: _System) -> Array:
        norm = _norm(system.b)
        least = maximum(tol * norm, atol)
        threshold: Any = 0.0
        if solve_method == "incremental":
            threshold = _norm(system.preconditioned(system.b)) * minimum(1.0, least / norm)
        return _gmres(system, least, threshold, min(restart, size), _rounds(b, maxiter))

    x, _ = _solve(iteration, A, b, x0, M)
    failed = sum((isnan(leaf).any() for leaf in tree_leaves(x)), asarray(False))
    return x, where(failed, -1, 0)
