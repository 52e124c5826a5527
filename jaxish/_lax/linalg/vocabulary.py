"""JAX's primitives of matrices, as `jax.lax.linalg` lists them (`cholesky_p`): what computes each."""

from typing import Any

from ..._core.array import Array
from ..._jaxprs.primitive import Primitive, define, named
from . import factorizations, reflections, solvers


def _eigh(x: Any, *, lower: bool, sort_eigenvalues: bool, subset_by_index: Any, algorithm: Any = None) -> list[Array]:
    found = factorizations.eigh(
        x, lower=lower, symmetrize_input=False, sort_eigenvalues=sort_eigenvalues, subset_by_index=subset_by_index,
        implementation=algorithm,
    )  # fmt: skip
    return list(found)


def _svd(x: Any, *, compute_uv: bool, **params: Any) -> list[Array]:
    if not compute_uv:
        return [factorizations.svd(x, compute_uv=False, **params)]
    u, values, vh = factorizations.svd(x, **params)
    return [values, u, vh]


_ONE_RESULT = {
    "cholesky": lambda x: factorizations.cholesky(x, symmetrize_input=False),
    "cholesky_update": solvers.cholesky_update,
    "householder_product": reflections.householder_product,
    "lu_pivots_to_permutation": factorizations.lu_pivots_to_permutation,
    "ormqr": reflections.ormqr,
    "symmetric_product": solvers.symmetric_product,
    "triangular_solve": solvers.triangular_solve,
    "tridiagonal_solve": solvers.tridiagonal_solve,
}
_SEVERAL_RESULTS = {
    "eig": factorizations.eig,
    "eigh": _eigh,
    "hessenberg": reflections.hessenberg,
    "lu": factorizations.lu,
    "qr": lambda x, **params: list(factorizations.qr(x, **params)),
    "schur": factorizations.schur,
    "svd": _svd,
    "tridiagonal": reflections.tridiagonal,
}
for _name, _run in _ONE_RESULT.items():
    define(_name, _run)
for _name, _run in _SEVERAL_RESULTS.items():
    define(_name, _run, multiple_results=True)


def of_linalg() -> dict[str, Primitive]:
    """Return the primitives that `jax.lax.linalg` lists, by the names that they have there."""
    return {f"{name}_p": named(name) for name in (*_ONE_RESULT, *_SEVERAL_RESULTS)}
