"""custom_root and custom_linear_solve against JAX: values, and derivatives that go through the equation."""

import numpy as np
import pytest
from oracle import agree

RNG = np.random.default_rng(1)
A = (RNG.normal(size=(3, 3)) + 4 * np.eye(3)).astype(np.float32)
B = RNG.normal(size=(3,)).astype(np.float32)
XS = np.array([1.5, 2.0, 3.0], np.float32)


def newton(j, f, x0):
    return j.lax.fori_loop(0, 12, lambda i, x: x - f(x) / j.grad(f)(x), x0)


def root(j, y, aux=False):
    def solve(f, x0):
        x = newton(j, f, x0)
        return (x, {"residual": f(x), "count": x * 0 + 12}) if aux else x

    return j.lax.custom_root(lambda x: x**3 - y, 1.0 + 0 * y, solve, lambda g, b: b / g(1.0), has_aux=aux)


def tree_root(j, y):
    jnp = j.numpy

    def f(x):
        return {"a": x["a"] ** 2 - y, "b": x["b"] - jnp.sin(x["a"]) * y}

    def solve(f, x0):
        a = jnp.sqrt(y)
        return {"a": a, "b": jnp.sin(a) * y}

    def tangent_solve(g, t):
        one, zero = jnp.ones_like(t["a"]), jnp.zeros_like(t["a"])
        first = g({"a": one, "b": zero})
        a = t["a"] / first["a"]
        return {"a": a, "b": t["b"] - first["b"] * a}

    found = j.lax.custom_root(f, {"a": y, "b": y}, solve, tangent_solve)
    return found["a"] * found["b"]


ROOTS = {
    "value": lambda j: root(j, np.float32(5)),
    "grad": lambda j: j.grad(lambda y: root(j, y))(np.float32(5)),
    "jvp": lambda j: j.jvp(lambda y: root(j, y), (np.float32(5),), (np.float32(2),)),
    "grad of grad": lambda j: j.grad(j.grad(lambda y: root(j, y)))(np.float32(5)),
    "jacfwd of grad": lambda j: j.jacfwd(j.grad(lambda y: root(j, y)))(np.float32(5)),
    "vmap": lambda j: j.vmap(lambda y: root(j, y))(XS),
    "vmap of grad": lambda j: j.vmap(j.grad(lambda y: root(j, y)))(XS),
    "grad of vmap": lambda j: j.grad(lambda y: j.vmap(lambda z: root(j, z))(y).sum())(XS),
    "jit": lambda j: j.jit(lambda y: root(j, y))(np.float32(5)),
    "jit of grad": lambda j: j.jit(j.grad(lambda y: root(j, y)))(np.float32(5)),
    "grad of jit": lambda j: j.grad(j.jit(lambda y: root(j, y)))(np.float32(5)),
    "vmap of jit of grad": lambda j: j.vmap(j.jit(j.grad(lambda y: root(j, y))))(XS),
    "aux": lambda j: root(j, np.float32(5), aux=True),
    "grad with aux": lambda j: j.grad(lambda y: root(j, y, aux=True), has_aux=True)(np.float32(5)),
    "pytree": lambda j: tree_root(j, np.float32(2)),
    "grad of pytree": lambda j: j.jit(j.grad(lambda y: tree_root(j, y)))(np.float32(2)),
    "not differentiated": lambda j: j.grad(lambda y: root(j, np.float32(5)) * y)(np.float32(2)),
    "in scan": lambda j: j.grad(lambda y: j.lax.scan(lambda c, x: (root(j, c + x), c), y, XS)[0])(np.float32(2)),
    "wrong structure of f": lambda j: j.lax.custom_root(lambda x: (x, x), 1.0, lambda f, x: x, lambda g, y: y),
    "wrong structure of solve": lambda j: j.lax.custom_root(lambda x: x, 1.0, lambda f, x: (x, x), lambda g, y: y),
    "aux that is missing": lambda j: j.lax.custom_root(lambda x: x, 1.0, lambda f, x: x, lambda g, y: y, has_aux=True),
}


@pytest.mark.parametrize("name", ROOTS)
def test_custom_root(name):
    agree(ROOTS[name], rtol=1e-4, atol=1e-4, weak=False)


def linear(j, a, b, transpose=True, symmetric=False, aux=False):
    jnp = j.numpy

    def matvec(x):
        return a @ x

    def explicit(mv, y):
        matrix = j.vmap(mv)(jnp.eye(y.shape[0], dtype=y.dtype)).T
        x = jnp.linalg.solve(j.lax.stop_gradient(matrix), y)
        return (x, {"norm": (x * x).sum()}) if aux else x

    given = explicit if transpose and not symmetric else None
    return j.lax.custom_linear_solve(matvec, b, explicit, given, symmetric=symmetric, has_aux=aux)


def loss(j, a, b, **kwargs):
    x = linear(j, a, b, **kwargs)
    x = x[0] if kwargs.get("aux") else x
    return j.numpy.sum(j.numpy.sin(x))


SYMMETRIC = A + A.T
LINEAR = {
    "value": lambda j: linear(j, A, B),
    "grad in b": lambda j: j.grad(lambda b: loss(j, A, b))(B),
    "grad in the matrix": lambda j: j.grad(lambda a: loss(j, a, B))(A),
    "jvp in both": lambda j: j.jvp(lambda a, b: linear(j, a, b), (A, B), (A + 1, B + 1)),
    "jvp without transpose": lambda j: j.jvp(lambda b: linear(j, A, b, transpose=False), (B,), (B,)),
    "grad without transpose": lambda j: j.grad(lambda b: loss(j, A, b, transpose=False))(B),
    "symmetric": lambda j: j.grad(lambda a, b: loss(j, a, b, symmetric=True), (0, 1))(SYMMETRIC, B),
    "hessian in b": lambda j: j.hessian(lambda b: loss(j, A, b))(B),
    "hessian in the matrix": lambda j: j.hessian(lambda s: loss(j, s * A, B))(np.float32(1.5)),
    "jacrev": lambda j: j.jacrev(lambda b: linear(j, A, b))(B),
    "jacfwd": lambda j: j.jacfwd(lambda b: linear(j, A, b))(B),
    "vmap over b": lambda j: j.vmap(lambda b: linear(j, A, b))(np.stack([B, 2 * B])),
    "vmap over the matrix": lambda j: j.vmap(lambda a: linear(j, a, B))(np.stack([A, 2 * A])),
    "vmap of grad": lambda j: j.vmap(j.grad(lambda a: loss(j, a, B)))(np.stack([A, 2 * A])),
    "grad of vmap": lambda j: j.grad(lambda a: j.vmap(lambda b: loss(j, a, b))(np.stack([B, 2 * B])).sum())(A),
    "jit": lambda j: j.jit(lambda a, b: linear(j, a, b))(A, B),
    "jit of grad": lambda j: j.jit(j.grad(lambda a: loss(j, a, B)))(A),
    "grad of jit": lambda j: j.grad(j.jit(lambda a: loss(j, a, B)))(A),
    "aux": lambda j: linear(j, A, B, aux=True),
    "grad with aux": lambda j: j.grad(lambda a: loss(j, a, B, aux=True))(A),
    "vmap with aux": lambda j: j.vmap(lambda b: linear(j, A, b, aux=True))(np.stack([B, 2 * B])),
    "complex": lambda j: j.grad(lambda b: j.numpy.abs(linear(j, A + 1j * A.T, b)).sum())(B + 1j),
    "linear_transpose": lambda j: j.linear_transpose(lambda b: linear(j, A, b), B)(B),
    "pytree": lambda j: j.lax.custom_linear_solve(
        lambda x: {"u": 2 * x["u"], "v": 3 * x["v"]},
        {"u": B, "v": B[:2]},
        lambda mv, y: {"u": y["u"] / 2, "v": y["v"] / 3},
    ),
    "wrong shape": lambda j: j.lax.custom_linear_solve(lambda x: x[:2], B, lambda mv, y: y),
    "wrong structure": lambda j: j.lax.custom_linear_solve(lambda x: x, B, lambda mv, y: (y, y)),
}


@pytest.mark.parametrize("name", LINEAR)
def test_custom_linear_solve(name):
    agree(LINEAR[name], rtol=1e-3, atol=1e-4, weak=False)
