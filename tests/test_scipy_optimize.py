"""jax.scipy.optimize against JAX and against known minima."""

from typing import Any

import jax.scipy.optimize
import numpy as np
import pytest
import scipy.optimize
from oracle import agree

import jaxish
import jaxish.numpy as jnp
from jaxish.scipy.optimize import minimize

LIMITED = "l-bfgs-experimental-do-not-rely-on-this"


def rosenbrock(x: Any) -> Any:
    return (100.0 * (x[1:] - x[:-1] ** 2.0) ** 2.0 + (1 - x[:-1]) ** 2.0).sum()


def himmelblau(x: Any) -> Any:
    return (x[0] ** 2 + x[1] - 11.0) ** 2 + (x[0] + x[1] ** 2 - 7.0) ** 2


def bowl(x: Any) -> Any:
    return (np.arange(1.0, 1 + x.size, dtype=np.float32) * (x - 3) ** 2).sum()


@pytest.mark.parametrize("method", ["BFGS", LIMITED])
@pytest.mark.parametrize(
    ("function", "start"),
    [
        (rosenbrock, [0.0, 0.0]),
        (rosenbrock, [-1.2, 1.0, 0.5]),
        (himmelblau, [1.0, 1.0]),
        (bowl, [9.0, -8.0, 0.0, 40.0]),
    ],
)
def test_minima(method: str, function: Any, start: list[float]) -> None:
    wanted = scipy.optimize.minimize(function, np.array(start), method="BFGS")
    for run in (
        minimize,
        jaxish.jit(lambda f, x, **k: minimize(f, x, **k), static_argnums=0, static_argnames="method"),
    ):
        found = run(function, jnp.array(start, "float32"), method=method)
        np.testing.assert_allclose(np.asarray(found.x), wanted.x, atol=3e-3)
        assert float(found.fun) < 1e-5
        assert int(found.nfev) >= int(found.nit)
        assert found.x.dtype == found.fun.dtype == np.float32


def test_double_precision() -> None:
    with jaxish.enable_x64(True):
        found = minimize(rosenbrock, jnp.array([-1.2, 1.0]), method="BFGS", options={"gtol": 1e-9})
        assert bool(found.success)
        np.testing.assert_allclose(np.asarray(found.x), 1.0, atol=1e-9)


def test_results_are_those_of_jax() -> None:
    def program(library: Any) -> Any:
        run = library.scipy.optimize.minimize
        start = library.numpy.array([1.0, -2.0, 0.5])
        bfgs = run(bowl, start, method="bfgs")
        few = run(rosenbrock, start, method="BFGS", options={"maxiter": 2})
        shifted = run(lambda x, a, b: ((x - a) ** 2).sum() * b, start, (2.0, 3.0), method="BFGS")
        limited = run(bowl, start, method=LIMITED)
        assert bfgs.hess_inv is not None and limited.hess_inv is None
        assert type(bfgs).__name__ == "OptimizeResults"
        return (
            bfgs.x,
            bfgs.success,
            bfgs.status,
            few.status,
            few.success,
            few.nit,
            shifted.x,
            limited.x,
            limited.success,
        )

    agree(program, atol=2e-3, weak=False)


def test_a_minimum_where_rounding_spoils_the_hessian() -> None:
    found = minimize(lambda x: jnp.mean((1e4 * x) ** 2), jnp.ones(2), method="BFGS")
    assert bool(found.success)
    np.testing.assert_allclose(np.asarray(found.x), 0.0, atol=1e-6)


def test_batches() -> None:
    starts = jnp.array([[1.0, -2.0, 0.5], [-1.0, 2.0, 40.0]])
    found = jaxish.vmap(lambda x: minimize(bowl, x, method="BFGS").x)(starts)
    np.testing.assert_allclose(np.asarray(found), 3.0, atol=1e-3)


def test_complex_vectors() -> None:
    wanted = np.array([1.0, 2.0 - 3.0j, 4.0, -5.0j], np.complex64)
    found = minimize(lambda z: jnp.sum(jnp.abs(z - wanted) ** 2), jnp.zeros(4, "complex64"), method=LIMITED)
    np.testing.assert_allclose(np.asarray(found.x), wanted, atol=1e-4)


def test_it_says_where_it_failed() -> None:
    found = minimize(lambda x: -x.sum(), jnp.ones(2), method="BFGS")
    assert not bool(found.success)
    assert int(found.status) > 1


def test_arguments() -> None:
    start = np.ones(2, np.float32)
    agree(lambda library: library.scipy.optimize.minimize(bowl, start, args=45, method="BFGS"))
    agree(lambda library: library.scipy.optimize.minimize(bowl, start, method="CG"))
    agree(lambda library: library.scipy.optimize.minimize(bowl, start))
    agree(lambda library: library.scipy.optimize.minimize(bowl, start, method="BFGS", options={"nothing": 1}))
    rough = minimize(rosenbrock, jnp.zeros(2), method="BFGS", tol=1.0)
    assert int(rough.nit) < int(minimize(rosenbrock, jnp.zeros(2), method="BFGS").nit)
    assert jax.scipy.optimize.OptimizeResults._fields == type(rough)._fields
