"""jax.scipy and the modules beside jax.numpy: special functions, solvers, segments, equations, images, small libraries."""

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from .harness import Case

RANDOM = np.random.RandomState(0)
MILLION = RANDOM.rand(1_000_000).astype(np.float32) * 0.9 + 0.05
MATRIX = RANDOM.randn(200, 200).astype(np.float32) / 20
POSITIVE = MATRIX @ MATRIX.T + np.eye(200, dtype=np.float32)
VECTOR = RANDOM.randn(200).astype(np.float32)
IDS = RANDOM.randint(0, 10_000, 1_000_000).astype(np.int32)


def module(jax: Any, path: str) -> Any:
    return importlib.import_module(f"{jax.__name__}.{path}")


def special(name: str, *shift: float) -> Callable[[Any], Any]:
    def make(jax: Any) -> Any:
        f = jax.jit(getattr(module(jax, "scipy.special"), name))
        args = [jax.numpy.asarray(MILLION + s) for s in shift or (0.0,)]
        return lambda: f(*args)

    return make


def cho_solve(jax: Any) -> Any:
    linalg = module(jax, "scipy.linalg")
    f = jax.jit(lambda a, b: linalg.cho_solve(linalg.cho_factor(a), b))
    a, b = jax.numpy.asarray(POSITIVE), jax.numpy.asarray(VECTOR)
    return lambda: f(a, b)


def expm(jax: Any) -> Any:
    f, a = jax.jit(module(jax, "scipy.linalg").expm), jax.numpy.asarray(MATRIX)
    return lambda: f(a)


def solve_triangular(jax: Any) -> Any:
    f = jax.jit(lambda a, b: module(jax, "scipy.linalg").solve_triangular(a, b, lower=True))
    a, b = jax.numpy.asarray(np.tril(POSITIVE)), jax.numpy.asarray(VECTOR)
    return lambda: f(a, b)


def segment_sum(jax: Any) -> Any:
    f = jax.jit(lambda x, i: jax.ops.segment_sum(x, i, num_segments=10_000))
    x, i = jax.numpy.asarray(MILLION), jax.numpy.asarray(IDS)
    return lambda: f(x, i)


def _network(jax: Any) -> Any:
    jnp = jax.numpy
    return lambda y, t, w: jnp.tanh(w[1] @ jnp.tanh(w[0] @ y + t))


WEIGHTS = [RANDOM.randn(16, 2).astype(np.float32) / 2, RANDOM.randn(2, 16).astype(np.float32) / 4]


def odeint(jax: Any) -> Any:
    jnp, solve = jax.numpy, module(jax, "experimental.ode").odeint
    f = jax.jit(lambda y, t, w: solve(_network(jax), y, t, w, rtol=1e-5, atol=1e-5))
    y, t, w = jnp.ones(2), jnp.linspace(0.0, 5.0, 20), [jnp.asarray(v) for v in WEIGHTS]
    return lambda: f(y, t, w)


def grad_of_odeint(jax: Any) -> Any:
    jnp, solve = jax.numpy, module(jax, "experimental.ode").odeint
    f = jax.jit(jax.grad(lambda w, y, t: solve(_network(jax), y, t, w, rtol=1e-5, atol=1e-5).sum()))
    y, t, w = jnp.ones(2), jnp.linspace(0.0, 5.0, 20), [jnp.asarray(v) for v in WEIGHTS]
    return lambda: f(w, y, t)


def conjugate_gradients(jax: Any) -> Any:
    jnp, cg = jax.numpy, module(jax, "scipy.sparse.linalg").cg

    def product(x: Any) -> Any:  # of a tridiagonal matrix
        return 4 * x - jnp.pad(x[1:], (0, 1)) - jnp.pad(x[:-1], (1, 0))

    f = jax.jit(lambda b: cg(product, b, maxiter=50)[0])
    b = jnp.asarray(MILLION[:10_000])
    return lambda: f(b)


def sparse_product(jax: Any) -> Any:
    jnp, sparse = jax.numpy, module(jax, "experimental.sparse")
    size = 4_000
    places = np.unique(RANDOM.randint(0, size * size, size * size // 100))
    indices = np.stack([places // size, places % size], 1).astype(np.int32)
    a = sparse.BCOO((jnp.asarray(np.resize(MILLION, len(places))), jnp.asarray(indices)), shape=(size, size))
    f, b = jax.jit(lambda a, b: a @ b), jnp.asarray(np.resize(MILLION, (size, 16)))
    return lambda: f(a, b)


def image_resize(jax: Any) -> Any:
    f = jax.jit(lambda x: jax.image.resize(x, (8, 128, 128, 3), "bilinear"))
    x = jax.numpy.asarray(np.resize(MILLION, (8, 224, 224, 3)))
    return lambda: f(x)


def stax_step(jax: Any) -> Any:
    jnp = jax.numpy
    stax, optimizers = module(jax, "example_libraries.stax"), module(jax, "example_libraries.optimizers")
    init, apply = stax.serial(stax.Dense(256), stax.Relu, stax.Dense(256), stax.Relu, stax.Dense(10), stax.LogSoftmax)
    _, params = init(jax.random.key(0), (-1, 784))
    start, update, get = optimizers.adam(1e-3)
    state = start(params)
    x, y = jnp.asarray(np.resize(MILLION, (128, 784))), jnp.asarray(np.eye(10, dtype=np.float32)[IDS[:128] % 10])

    @jax.jit
    def step(i: Any, state: Any, x: Any, y: Any) -> Any:
        loss = lambda p: -jnp.mean(jnp.sum(apply(p, x) * y, 1))  # noqa: E731
        return update(i, jax.grad(loss)(get(state)), state)

    return lambda: step(0, state, x, y)


CASES = [
    *(
        Case(f"{name}, 1M elements", special(name))
        for name in ("erf", "gammaln", "digamma", "ndtri", "i0e", "logsumexp")
    ),
    Case("betainc, 1M elements", special("betainc", 0.5, 1.5, 0.0)),
    *(Case(f"{name}, 1M elements", special(name)) for name in ("dawsn", "expi", "spence")),
    Case("cho_solve of 200 x 200", cho_solve),
    Case("expm of 200 x 200", expm),
    Case("solve_triangular of 200 x 200", solve_triangular),
    Case("segment_sum of 1M into 10k", segment_sum),
    Case("odeint of a network of 2 layers", odeint),
    Case("grad of odeint", grad_of_odeint),
    Case("cg, 50 steps on 10k unknowns", conjugate_gradients),
    Case("BCOO 4k x 4k of 1%, times 4k x 16", sparse_product),
    Case("bilinear resize of 8 images", image_resize),
    Case("Adam step of a network of stax", stax_step),
]
