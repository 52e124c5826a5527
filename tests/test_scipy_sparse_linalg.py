"""jax.scipy.sparse.linalg: solutions against NumPy and JAX, derivatives and errors against JAX."""

from typing import Any

import numpy as np
import pytest
from oracle import agree

import jaxish
from jaxish.scipy.sparse import linalg

RNG = np.random.default_rng(1)
GENERAL = (RNG.normal(size=(6, 6)) + 5 * np.eye(6)).astype(np.float32)
COMPLEX = (GENERAL + 1j * RNG.normal(size=(6, 6))).astype(np.complex64)
VECTOR = RNG.normal(size=6).astype(np.float32)
SOLVERS = {
    "cg": lambda library: library.scipy.sparse.linalg.cg,
    "bicgstab": lambda library: library.scipy.sparse.linalg.bicgstab,
    "gmres": lambda library: library.scipy.sparse.linalg.gmres,
    "gmres incremental": lambda library: (
        lambda *args, **kwargs: library.scipy.sparse.linalg.gmres(*args, solve_method="incremental", **kwargs)
    ),
}


def matrix_for(solver: str, dtype: str) -> np.ndarray:
    a = COMPLEX if dtype == "complex64" else GENERAL
    return a @ a.conj().T if solver == "cg" else a


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_solutions(solver: str, dtype: str) -> None:
    a = matrix_for(solver, dtype)
    wanted = np.linalg.solve(a, VECTOR.astype(dtype))
    inverse = np.linalg.inv(a + 0.1 * np.eye(6)).astype(dtype)
    solve = SOLVERS[solver](jaxish)
    for options in ({}, {"M": inverse}, {"x0": VECTOR.astype(dtype)}, {"atol": 1e-4, "tol": 0.0}):
        x, _ = solve(a, VECTOR.astype(dtype), **options)
        np.testing.assert_allclose(np.asarray(x), wanted, rtol=2e-3, atol=2e-4)
        x, _ = jaxish.jit(lambda a, b, options=options: solve(lambda x: a @ x, b, **options))(a, VECTOR.astype(dtype))
        np.testing.assert_allclose(np.asarray(x), wanted, rtol=2e-3, atol=2e-4)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_steps_are_those_of_jax(solver: str, steps: int) -> None:
    a = matrix_for(solver, "float32")
    restart = {"restart": 2} if "gmres" in solver else {}
    agree(lambda library: SOLVERS[solver](library)(a, VECTOR, maxiter=steps, **restart)[0], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("solver", SOLVERS)
def test_derivatives_and_batches(solver: str) -> None:
    a = matrix_for(solver, "float32")

    def program(library: Any) -> Any:
        solve = SOLVERS[solver](library)
        loss = lambda a, b: (solve(lambda x: a @ x, b, tol=1e-6)[0] ** 2).sum()
        return (
            library.grad(loss, (0, 1))(a, VECTOR),
            library.jvp(lambda b: solve(a, b, tol=1e-6)[0], (VECTOR,), (VECTOR[::-1],)),
            library.vmap(lambda b: solve(a, b, tol=1e-6)[0])(np.stack([VECTOR, 2 * VECTOR, 0 * VECTOR])),
        )

    agree(program, rtol=1e-3, atol=1e-3)


def test_second_derivatives() -> None:
    a = matrix_for("cg", "float32")

    def program(library: Any) -> Any:
        solve = library.scipy.sparse.linalg.cg
        return library.hessian(lambda b: (solve(lambda x: a @ x + b**2 * x, b, tol=1e-6)[0] ** 3).sum())(VECTOR)

    agree(program, rtol=1e-2, atol=1e-2)


class Operator:
    def __init__(self, a: Any) -> None:
        self.a, self.shape = a, a.shape

    def __matmul__(self, x: Any) -> Any:
        return self.a @ x


@pytest.mark.parametrize("solver", SOLVERS)
def test_pytrees_operators_and_errors(solver: str) -> None:
    programs = [
        lambda library, solve: solve(
            lambda x: {"a": x["a"] + x["b"] / 2, "b": x["a"] / 2 + x["b"]}, {"a": 1.0, "b": -4.0}
        ),
        lambda library, solve: solve(lambda x: 2 * x, library.numpy.arange(9.0).reshape(3, 3)),
        lambda library, solve: solve(Operator(2 * library.numpy.eye(3)), library.numpy.ones(3)),
        lambda library, solve: solve(lambda x: x, 1.0),
        lambda library, solve: solve(2 * library.numpy.eye(3), library.numpy.zeros(3)),
        lambda library, solve: solve(lambda x: x, {"x": VECTOR}, {"y": VECTOR}),
        lambda library, solve: solve(library.numpy.zeros((3, 2)), library.numpy.zeros(2)),
        lambda library, solve: solve([[1]], library.numpy.zeros(1)),
        lambda library, solve: solve(lambda x: x[:2], VECTOR),
        lambda library, solve: library.scipy.sparse.linalg.gmres(lambda x: x, VECTOR, solve_method="other"),
        lambda library, solve: library.scipy.sparse.linalg.cg(lambda x: x, VECTOR, VECTOR[:, None]),
    ]
    for program in programs:
        agree(lambda library, program=program: program(library, SOLVERS[solver](library)), weak=False)


def test_leaves_of_several_dtypes() -> None:
    b = {"real": VECTOR, "complex": VECTOR.astype(np.complex64) * 1j}
    x, _ = linalg.cg(lambda x: {k: 2 * v for k, v in x.items()}, b)
    assert {k: str(v.dtype) for k, v in x.items()} == {"real": "float32", "complex": "complex64"}
    np.testing.assert_allclose(np.asarray(x["complex"]), b["complex"] / 2, rtol=1e-5)


def test_gmres_says_where_it_failed() -> None:
    agree(lambda library: library.scipy.sparse.linalg.gmres(library.numpy.zeros((2, 2)), library.numpy.ones(2)))
