"""What is differentiated is computed as often as in JAX: results together with their tangents, and no product with a zero tangent."""

import jax
import numpy as np
import pytest

import jaxish

W = np.linspace(-1, 1, 9, dtype=np.float32).reshape(3, 3)
X = np.linspace(0.1, 1, 6, dtype=np.float32).reshape(2, 3)

FUNCTIONS = {
    "plain": lambda j, f: f,
    "jit": lambda j, f: j.jit(f),
    "scan": lambda j, f: lambda x: j.lax.scan(lambda c, _: (f(c), c.sum()), x, None, length=4)[0],
    "while_loop": lambda j, f: lambda x: j.lax.while_loop(lambda c: c[1] < 4, lambda c: (f(c[0]), c[1] + 1), (x, 0))[0],
    "fori_loop": lambda j, f: lambda x: j.lax.fori_loop(0, 4, lambda _, c: f(c), x),
    "cond": lambda j, f: lambda x: j.lax.cond(x.sum() > 0, f, lambda x: x, x),
    "checkpoint": lambda j, f: j.checkpoint(f),
    "map": lambda j, f: lambda x: j.lax.map(f, x * j.numpy.ones((3, 1, 1))),
}

TRANSFORMS = {
    "jvp": lambda j, f: lambda x: j.jvp(f, (x,), (x,)),
    "jvp of jit": lambda j, f: lambda x: j.jvp(j.jit(f), (x,), (x,)),
    "jit of jvp": lambda j, f: j.jit(lambda x: j.jvp(f, (x,), (x,))),
    "jvp of jvp": lambda j, f: lambda x: j.jvp(lambda y: j.jvp(f, (y,), (y,))[1], (x,), (x,)),
    "jvp of vmap": lambda j, f: lambda x: j.jvp(j.vmap(f), (x[None],), (x[None],)),
    "vmap of jvp": lambda j, f: lambda x: j.vmap(lambda y: j.jvp(f, (y,), (y,)))(x[None]),
    "linearize": lambda j, f: lambda x: j.linearize(f, x)[0],
    "grad": lambda j, f: j.grad(lambda x: f(x).sum()),
    "jvp of grad": lambda j, f: lambda x: j.jvp(j.grad(lambda y: f(y).sum()), (x,), (x,)),
    "jit of jvp of grad": lambda j, f: j.jit(lambda x: j.jvp(j.grad(lambda y: f(y).sum()), (x,), (x,))),
}

# JAX runs a checkpoint's effects again on the way back, and does not go back through a while_loop.
REVERSE = {"grad", "jvp of grad", "jit of jvp of grad"}
CASES = [(t, f) for t in TRANSFORMS for f in FUNCTIONS if not (t in REVERSE and f in ("while_loop", "checkpoint"))]


def products(jaxpr):
    """Return how many matrix products a jaxpr has, those in its parameters included."""
    found = 0
    for equation in jaxpr.eqns:
        found += equation.primitive.name == "dot_general"
        for value in equation.params.values():
            for part in value if isinstance(value, tuple | list) else [value]:
                inner = getattr(part, "jaxpr", part)
                found += products(inner) if hasattr(inner, "eqns") else 0
    return found


@pytest.mark.parametrize(("transform", "function"), CASES)
def test_effects_and_products_are_as_many_as_in_jax(transform, function):
    def measured(j):
        calls = []

        def layer(x):
            j.debug.callback(lambda _: calls.append(1), x.sum())
            return j.numpy.tanh(x @ W)

        whole = TRANSFORMS[transform](j, FUNCTIONS[function](j, layer))
        values = j.tree.map(np.asarray, whole(j.numpy.asarray(X)))
        j.effects_barrier()
        count = len(calls)
        return values, count, products(j.make_jaxpr(whole)(X).jaxpr)

    (found, calls, dots), (wanted, jax_calls, jax_dots) = measured(jaxish), measured(jax)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    assert (calls, dots) == (jax_calls, jax_dots)


PRODUCTS = {
    "matrices": lambda j, x, w: x @ w,
    "vector": lambda j, x, w: x @ w[:, 0],
    "dot": lambda j, x, w: j.numpy.dot(x[0], w[0]),
    "vdot": lambda j, x, w: j.numpy.vdot(x[0], w[0]),
    "batch": lambda j, x, w: j.numpy.einsum("bij,bjk->bik", x[None], w[None]),
    "convolution": lambda j, x, w: j.lax.conv(x[None, None], w[None, None, :2, :2], (1, 1), "SAME"),
    "transposed convolution": lambda j, x, w: j.lax.conv_transpose(x[None, None], w[None, None], (2, 2), "SAME", (1, 1), ("NCHW", "OIHW", "NCHW")),
}  # fmt: skip


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("name", PRODUCTS)
def test_an_operand_that_is_not_differentiated_adds_no_product(name, first):
    infinite = np.full_like(W if first else X, np.inf)  # times a zero that is computed with it is NaN

    def tangent(j, jitted):
        def of(t):
            return PRODUCTS[name](j, t, infinite) if first else PRODUCTS[name](j, infinite, t)

        values = j.numpy.asarray(X if first else W)
        run = lambda t: j.jvp(of, (t,), (j.numpy.ones_like(t),))[1]
        return np.asarray((j.jit(run) if jitted else run)(values))

    for jitted in (False, True):
        np.testing.assert_array_equal(tangent(jaxish, jitted), tangent(jax, jitted))
