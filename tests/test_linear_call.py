"""linear_call and fwd_and_bwd: transposes of the user's own, and backward passes as functions."""

from functools import partial

import jax
import numpy as np
import pytest
from oracle import agree

import jaxish

X, R = np.arange(1.0, 4.0, dtype=np.float32), np.float32(4.0)


def divided(lib, x, r, factor=1.0):
    """x / r, whose transpose is wrong by a factor, so that one sees that it is used."""

    def over(r, t):
        return {"q": t["x"] / r}

    def transposed(r, t):
        return {"x": factor * t["q"] / r}

    return lib.custom_derivatives.linear_call(over, transposed, r, {"x": x})["q"]


TRANSFORMED = {
    "value": lambda lib, f: f(X),
    "jit": lambda lib, f: lib.jit(f)(X),
    "grad": lambda lib, f: lib.grad(lambda x: (f(x) ** 2).sum())(X),
    "jit of grad": lambda lib, f: lib.jit(lib.grad(lambda x: (f(x) ** 2).sum()))(X),
    "grad of jit": lambda lib, f: lib.grad(lambda x: lib.jit(f)(x).sum())(X),
    "jvp": lambda lib, f: lib.jvp(f, (X,), (X * 2,)),
    "transpose": lambda lib, f: lib.linear_transpose(f, X)(X * 3),
    "twice": lambda lib, f: lib.linear_transpose(lambda c: lib.linear_transpose(f, X)(c)[0], X)(X * 3),
}


@pytest.mark.parametrize("factor", [1.0, 10.0])
@pytest.mark.parametrize("how", TRANSFORMED)
def test_linear_call_under_transformations(how, factor):
    agree(lambda lib: TRANSFORMED[how](lib, lambda x: divided(lib, x, R, factor)))


@pytest.mark.parametrize("how", ["value", "grad", "jvp", "transpose", "twice"])
def test_linear_call_is_mapped(how):
    # JAX has no batching rule: what it gives row by row is what is wanted.
    rows = np.stack([X, X * 2])
    one = lambda lib, x: TRANSFORMED[how](lib, lambda v: divided(lib, v * x.sum(), R, 3.0))
    wanted = [one(jax, row) for row in rows]
    found = jaxish.vmap(lambda x: one(jaxish, x))(rows)
    for w, f in zip(zip(*map(jax.tree.leaves, wanted), strict=True), jaxish.tree.leaves(found), strict=True):
        np.testing.assert_allclose(f, np.stack(w), rtol=1e-6)


def test_residuals_may_be_mapped_and_linear_arguments_not():
    rs = np.array([1.0, 2.0, 4.0], np.float32)
    total = lambda lib, x, r: divided(lib, x, r, 3.0).sum()
    wanted = sum(np.asarray(jax.grad(lambda x: total(jax, x, r))(X)) for r in rs)
    found = jaxish.grad(lambda x: jaxish.vmap(lambda r: total(jaxish, x, r))(rs).sum())(X)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_a_transpose_of_another_structure_is_refused():
    def program(lib):
        f = lambda x: lib.custom_derivatives.linear_call(lambda r, t: t, lambda r, t: (t, t), (), x)
        return f(X), lib.grad(lambda x: f(x).sum())(X)

    agree(program)


def layer(lib, x, weights, scale=1):
    return {"out": lib.numpy.tanh(x @ weights["w"] + weights["b"]) * scale, "mean": x.mean()}


ARGUMENTS = (np.ones((2, 3), np.float32), {"w": np.eye(3, dtype=np.float32) * 0.5, "b": np.float32(0.1)}, 3)
COTANGENTS = {"out": np.arange(6, dtype=np.float32).reshape(2, 3), "mean": np.float32(2.0)}


@pytest.mark.parametrize("jitted", [True, False])
@pytest.mark.parametrize("argnums", [0, 1, (1,), (1, 0), (-2, 2)])
def test_fwd_and_bwd(argnums, jitted):
    def program(lib):
        fwd, bwd = lib.fwd_and_bwd(partial(layer, lib), argnums, jitted=jitted)
        found = []
        for factor in (1, 2):
            out, residuals = fwd(ARGUMENTS[0] * factor, *ARGUMENTS[1:])
            found += [out, bwd(residuals, COTANGENTS)]
        return found

    agree(program)


def test_fwd_and_bwd_with_an_auxiliary_result():
    def program(lib):
        fwd, bwd = lib.fwd_and_bwd(lambda x, y: ((x * y).sum(), (x + y, 1)), (0, 1), has_aux=True)
        out, residuals, aux = fwd(X, X * 2)
        return out, aux[0], bwd(residuals, np.float32(3.0)), residuals(np.float32(1.0))

    agree(program)


def test_fwd_and_bwd_compose():
    def program(lib):
        fwd, bwd = lib.fwd_and_bwd(lambda x: lib.numpy.sin(x) * x, 0)

        def gradient(x):
            out, residuals = fwd(x)
            return bwd(residuals, lib.numpy.ones_like(out))

        complex_fwd, complex_bwd = lib.fwd_and_bwd(lambda z: z**2 * (1 + 2j), 0)
        z = np.complex64(1 - 3j)
        return [
            gradient(X), lib.jit(gradient)(X), lib.vmap(gradient)(np.stack([X, X])),
            lib.grad(lambda x: gradient(x).sum())(X), complex_bwd(complex_fwd(z)[1], np.complex64(2 + 1j)),
        ]  # fmt: skip

    agree(program)


def test_wrong_cotangents_are_refused():
    def program(lib, cotangent):
        fwd, bwd = lib.fwd_and_bwd(lambda x: x * 2, 0, jitted=False)
        return bwd(fwd(X)[1], cotangent)

    agree(program, np.ones(4, np.float32))
    agree(program, np.ones(3, np.int32))
    agree(program, (np.ones(3, np.float32),))
    agree(lambda lib: lib.fwd_and_bwd(lambda x: x, 2)[0](X))
