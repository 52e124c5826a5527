"""Loops: recurrent networks, tiny bodies, derivatives through loops, solvers, and the first call of a long loop."""

import contextlib
import itertools
from typing import Any

import numpy as np

from .harness import Case

W = np.random.RandomState(0).randn(64, 64).astype(np.float32) / 8
XS = np.random.RandomState(1).randn(100, 8, 64).astype(np.float32)


def _rnn(jax: Any) -> Any:
    jnp = jax.numpy
    return lambda w, h, xs: jax.lax.scan(lambda h, x: (jnp.tanh(h @ w + x), h), h, xs)


def rnn(jax: Any) -> Any:
    f, args = jax.jit(_rnn(jax)), [jax.numpy.asarray(a) for a in (W, XS[0], XS)]
    return lambda: f(*args)


def _loss_of_rnn(jax: Any) -> tuple[Any, list[Any]]:
    run = _rnn(jax)
    return lambda w, h, xs: run(w, h, xs)[1].sum(), [jax.numpy.asarray(a) for a in (W, XS[0], XS)]


def grad_of_rnn(jax: Any) -> Any:
    loss, args = _loss_of_rnn(jax)
    f = jax.jit(jax.grad(loss))
    return lambda: f(*args)


def jvp_of_rnn(jax: Any) -> Any:
    loss, (w, *others) = _loss_of_rnn(jax)
    f = jax.jit(lambda w: jax.jvp(lambda v: loss(v, *others), (w,), (w,)))
    return lambda: f(w)


def hvp_of_rnn(jax: Any) -> Any:
    loss, (w, *others) = _loss_of_rnn(jax)
    f = jax.jit(lambda w: jax.jvp(jax.grad(lambda v: loss(v, *others)), (w,), (w,))[1])
    return lambda: f(w)


def vmap_of_scan(jax: Any) -> Any:
    jnp = jax.numpy
    f = jax.jit(jax.vmap(lambda c: jax.lax.scan(lambda c, x: (jnp.sin(c) + x, c), c, jnp.ones(100))))
    c = jnp.arange(64.0)
    return lambda: f(c)


def scalar_scan(jax: Any) -> Any:
    f = jax.jit(lambda x: jax.lax.scan(lambda c, _: (c * 0.999 + 0.5, None), x, None, length=10_000)[0])
    x = jax.numpy.ones(())
    return lambda: f(x)


def scalar_while(jax: Any) -> Any:
    f = jax.jit(lambda x: jax.lax.while_loop(lambda c: c < 1000, lambda c: c + 1, x))
    x = jax.numpy.zeros((), np.int32)
    return lambda: f(x)


def newton(jax: Any) -> Any:
    jnp = jax.numpy

    def objective(x: Any) -> Any:
        return jnp.sum((x**2 - 2) ** 2) + jnp.sum(x) ** 2

    def step(x: Any, _: Any) -> Any:
        return x - jnp.linalg.solve(jax.hessian(objective)(x), jax.grad(objective)(x)), None

    f = jax.jit(lambda x: jax.lax.scan(step, x, None, length=10)[0])
    x = jnp.linspace(1.0, 2.0, 5)
    return lambda: f(x)


def rk4(jax: Any) -> Any:
    jnp = jax.numpy

    def field(y: Any) -> Any:
        return jnp.stack([y[1], (1 - y[0] ** 2) * y[1] - y[0]])

    def step(y: Any, _: Any) -> Any:
        a = field(y)
        b = field(y + 0.005 * a)
        c = field(y + 0.005 * b)
        d = field(y + 0.01 * c)
        return y + 0.01 / 6 * (a + 2 * b + 2 * c + d), None

    f = jax.jit(lambda y: jax.lax.scan(step, y, None, length=1000)[0])
    y = jnp.array([2.0, 0.0])
    return lambda: f(y)


def leapfrog(jax: Any) -> Any:
    jnp = jax.numpy
    potential = jax.grad(lambda q: 0.5 * jnp.sum(q**2) + jnp.sum(jnp.cos(q)))

    def step(state: Any, _: Any) -> Any:
        q, p = state
        p = p - 0.05 * potential(q)
        q = q + 0.1 * p
        return (q, p - 0.05 * potential(q)), None

    f = jax.jit(lambda q, p: jax.lax.scan(step, (q, p), None, length=100)[0])
    q, p = jnp.ones(1000), jnp.zeros(1000)
    return lambda: f(q, p)


def sieve(jax: Any) -> Any:
    jnp = jax.numpy
    size = 20_000

    def crossed(i: Any, is_prime: Any) -> Any:
        cross = lambda k, found: found.at[k * i].set(False)  # noqa: E731
        return jax.lax.fori_loop(2, (size - 1) // i + 1, cross, is_prime)

    f = jax.jit(lambda x: jax.lax.fori_loop(2, 142, crossed, x))
    x = jnp.ones(size, bool)
    return lambda: f(x)


def recurrence(jax: Any) -> Any:
    f = jax.jit(lambda x: jax.lax.fori_loop(1, 20_000, lambda i, x: x.at[i].set(x[i - 1] * 0.5 + i), x))
    x = jax.numpy.zeros(20_000)
    return lambda: f(x)


def first_call(jax: Any) -> Any:
    """A function that nobody has compiled yet, on the default tier: what a program that runs one long loop waits for."""
    X = jax.random.normal(jax.random.key(0), (442, 10))
    y, q = X[:, 0], jax.numpy.zeros(10)
    gradient = jax.grad(lambda w: jax.numpy.sum((y - X @ w) ** 2))
    numbers = itertools.count()

    def default_tier() -> Any:
        if jax.__name__ == "jax":
            return contextlib.nullcontext()
        from jaxish._core import config

        return config.jit_tier("auto")

    def run() -> Any:
        size = 1e-4 * (1 + next(numbers) / 1000)

        def step(_: Any, state: Any) -> Any:
            q, p = state
            return q + size * p, p - size * gradient(q)

        with default_tier():
            return jax.jit(lambda q: jax.lax.fori_loop(0, 20_000, step, (q, q)))(q)

    return run


CASES = [
    Case("rnn, 100 steps of 8 x 64", rnn, 3.0),
    Case("grad of rnn", grad_of_rnn, 3.0),
    Case("jvp of rnn", jvp_of_rnn, 3.0),
    Case("Hessian-vector product of rnn", hvp_of_rnn, 3.0),
    Case("vmap of scan, 64 x 100 steps", vmap_of_scan, 3.0),
    Case("scalar scan, 10,000 steps", scalar_scan, 3.0),
    Case("scalar while, 1,000 steps", scalar_while, 3.0),
    Case("newton, 10 steps with hessian", newton, 3.0),
    Case("rk4, 1,000 steps", rk4, 3.0),
    Case("leapfrog, 100 steps of 1,000", leapfrog, 3.0),
    Case("recurrence in an array of 20,000", recurrence, 3.0),
    Case("sieve of 20,000", sieve, 3.0),
    Case("first call of 20,000 steps", first_call, 3.0),
]
