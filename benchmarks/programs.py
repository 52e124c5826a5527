"""Small programs and parts of programs, eager and jitted: draws, training loops, linear algebra, indexing, calls."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from .harness import Case

Make = Callable[[Any], Callable[[], Any]]


def _draw(*shape: int, scale: float = 1.0) -> np.ndarray:
    return scale * np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def _positive(*shape: int) -> np.ndarray:
    x = _draw(*shape)
    return x @ x.swapaxes(-1, -2) + shape[-1] * np.eye(shape[-1], dtype=np.float32)


def _of(function: Callable[..., Any], *arrays: np.ndarray, jit: bool = True) -> Make:
    """Return a case that calls `function(library, *arrays)`."""

    def make(j: Any) -> Callable[[], Any]:
        given = [j.numpy.asarray(a) for a in arrays]

        def run(*args: Any) -> Any:
            return function(j, *args)

        called = j.jit(run) if jit else run
        return lambda: called(*given)

    return make


def _indices(high: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(high).integers(0, high, shape).astype(np.int32)


# -- random numbers


def ten_normals(j: Any) -> Callable[[], Any]:
    key = j.random.key(0)
    draw = j.jit(lambda key: j.random.normal(key, (10,)))
    return lambda: draw(key)


def a_draw_for_each_key(j: Any) -> Callable[[], Any]:
    keys = j.random.split(j.random.key(0), 1000)
    draw = j.jit(j.vmap(lambda key: j.random.normal(key)))
    return lambda: draw(keys)


def noisy_step(j: Any) -> Callable[[], Any]:
    """A step of Langevin dynamics: keys are split and drawn with."""

    @j.jit
    def step(key: Any, x: Any) -> Any:
        key, own = j.random.split(key)
        return key, x - 0.1 * x + 0.1 * j.random.normal(own, x.shape)

    key, x = j.random.key(0), j.numpy.zeros(20)
    return lambda: step(key, x)


# -- loops and branches


def training_in_scan(j: Any) -> Callable[[], Any]:
    """100 steps of SGD on minibatches of 32."""
    x, y, w = j.numpy.asarray(_draw(100, 32, 20)), j.numpy.asarray(_draw(100, 32)), j.numpy.zeros(20)

    def loss(w: Any, x: Any, y: Any) -> Any:
        return ((x @ w - y) ** 2).mean()

    run = j.jit(lambda w: j.lax.scan(lambda w, xy: (w - 0.1 * j.grad(loss)(w, *xy), loss(w, *xy)), w, (x, y)))
    return lambda: run(w)


def network_in_scan(j: Any) -> Callable[[], Any]:
    """50 steps of SGD of a network with a hidden layer of 32."""
    x, y = j.numpy.asarray(_draw(50, 32, 20)), j.numpy.asarray(_draw(50, 32))
    params = (j.numpy.asarray(_draw(20, 32, scale=0.2)), j.numpy.asarray(_draw(32, scale=0.2)))

    def loss(params: Any, x: Any, y: Any) -> Any:
        w, v = params
        return ((j.numpy.tanh(x @ w) @ v - y) ** 2).mean()

    def step(params: Any, xy: Any) -> Any:
        value, slopes = j.value_and_grad(loss)(params, *xy)
        return j.tree.map(lambda p, g: p - 0.1 * g, params, slopes), value

    run = j.jit(lambda params: j.lax.scan(step, params, (x, y)))
    return lambda: run(params)


def small_branches(j: Any) -> Callable[[], Any]:
    run = j.jit(lambda x: j.lax.cond(x[0] > 0, lambda x: x * 2 + 1, lambda x: j.numpy.sin(x), x))
    x = j.numpy.arange(10.0)
    return lambda: run(x)


def products_in_scan(j: Any) -> Callable[[], Any]:
    matrices = j.numpy.asarray(_draw(20, 16, 16, scale=0.2))
    run = j.jit(lambda x: j.lax.scan(lambda x, a: (a @ x, None), x, matrices)[0])
    x = j.numpy.eye(16)
    return lambda: run(x)


def collatz(j: Any) -> Callable[[], Any]:
    """A loop of integers with a condition of the value."""

    @j.jit
    def steps(n: Any) -> Any:
        def body(state: Any) -> Any:
            n, count = state
            return j.numpy.where(n % 2 == 0, n // 2, 3 * n + 1), count + 1

        return j.lax.while_loop(lambda state: state[0] != 1, body, (n, 0))[1]

    n = j.numpy.asarray(77031)
    return lambda: steps(n)


# -- derivatives


def _logistic(j: Any, w: Any, x: Any, y: Any) -> Any:
    scores = x @ w
    return (j.numpy.logaddexp(0.0, scores) - y * scores).mean() + 0.01 * (w**2).sum()


def newton_steps(j: Any) -> Callable[[], Any]:
    """Ten Newton steps of a logistic regression with 8 features."""
    x, y = j.numpy.asarray(_draw(200, 8)), j.numpy.asarray((_draw(200) > 0).astype(np.float32))

    def step(w: Any, _: Any) -> Any:
        g, h = j.grad(_logistic, 1)(j, w, x, y), j.hessian(_logistic, 1)(j, w, x, y)
        return w - j.numpy.linalg.solve(h, g), None

    run = j.jit(lambda w: j.lax.scan(step, w, None, length=10)[0])
    w = j.numpy.zeros(8)
    return lambda: run(w)


def hessian(j: Any, w: Any, x: Any, y: Any) -> Any:
    return j.hessian(_logistic, 1)(j, w, x, y)


def hessian_vector(j: Any, w: Any, v: Any, x: Any) -> Any:
    """The product of a network's Hessian with a vector."""

    def loss(w: Any) -> Any:
        return (j.numpy.tanh(j.numpy.tanh(x @ w) @ w) ** 2).mean()

    return j.jvp(j.grad(loss), (w,), (v,))[1]


def gradient_of_rows(j: Any, table: Any, index: Any) -> Any:
    return j.grad(lambda table: (table[index] ** 2).sum())(table)


# -- calls


def keywords(j: Any) -> Callable[[], Any]:
    f = j.jit(lambda x, *, scale, shift: x * scale + shift)
    x = j.numpy.arange(10.0)
    return lambda: f(x, scale=x, shift=x)


def static_arguments(j: Any) -> Callable[[], Any]:
    f = j.jit(lambda x, n, mode: x * n if mode == "times" else x + n, static_argnums=1, static_argnames="mode")
    x = j.numpy.arange(10.0)
    return lambda: f(x, 3, mode="times")


def ten_arguments(j: Any) -> Callable[[], Any]:
    f = j.jit(lambda *args: sum(args))
    args = [j.numpy.arange(10.0) + i for i in range(10)]
    return lambda: f(*args)


def tree_of_a_hundred(j: Any) -> Callable[[], Any]:
    f = j.jit(lambda tree: j.tree.map(lambda x: x + 1, tree))
    tree = {f"layer{i}": {"w": j.numpy.zeros(3), "b": j.numpy.zeros(3)} for i in range(50)}
    return lambda: f(tree)


# -- arrays


def attention(j: Any, q: Any, k: Any, v: Any) -> Any:
    weights = j.nn.softmax(j.numpy.einsum("bqhd,bkhd->bhqk", q, k) / 8)
    return j.numpy.einsum("bhqk,bkhd->bqhd", weights, v)


def chain(j: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    return j.numpy.einsum("ij,jk,kl,lm->im", a, b, c, d)


def piecewise(j: Any, x: Any) -> Any:
    return j.numpy.piecewise(x, [x < -1, x > 1], [lambda x: -x, lambda x: x**2, 0.5])


HEADS = [_draw(4, 128, 8, 64) + i for i in range(3)]
TABLE = _draw(1000, 64)

CASES = [
    Case("normal of 10, jit", ten_normals, 1),
    Case("a normal for each of 1,000 keys, jit", a_draw_for_each_key, 1),
    Case("noisy step of 20, jit", noisy_step, 1),
    Case("100 steps of SGD in scan", training_in_scan, 1.5),
    Case("50 steps of a network in scan", network_in_scan, 1.5),
    Case("cond with small branches", small_branches, 1.5),
    Case("20 products of 16 x 16 in scan", products_in_scan, 1.5),
    Case("while on an integer", collatz, 1.5),
    Case("10 newton steps of 8 features", newton_steps, 1.5),
    Case("hessian, 40 features", _of(hessian, np.zeros(40, np.float32), _draw(500, 40), _draw(500)), 1.5),
    Case("hessian-vector product", _of(hessian_vector, _draw(64, 64), _draw(64, 64), _draw(128, 64)), 1.5),
    Case("gradient of 256 x 64 rows", _of(gradient_of_rows, TABLE, _indices(1000, 256, 64)), 1.5),
    Case("jit, keyword arguments", keywords, 1.5),
    Case("jit, static arguments", static_arguments, 1.5),
    Case("jit, ten arguments", ten_arguments, 1.5),
    Case("jit, tree of 100", tree_of_a_hundred, 1.5),
    *(
        Case(f"{name}, {'jit' if jit else 'eager'}", _of(function, *arrays, jit=jit), 1.5)
        for (name, function, arrays), jit in itertools.product(
            [
                ("inverse 200", lambda j, x: j.numpy.linalg.inv(x), [_positive(200, 200)]),
                ("determinant 200", lambda j, x: j.numpy.linalg.det(x / 200), [_positive(200, 200)]),
                ("cholesky 100 x 20", lambda j, x: j.numpy.linalg.cholesky(x), [_positive(100, 20, 20)]),
                (
                    "solve 100 x 20",
                    lambda j, x, y: j.numpy.linalg.solve(x, y),
                    [_positive(100, 20, 20), _draw(100, 20, 1)],
                ),
                ("batched product 32 x 64", lambda j, x, y: x @ y, [_draw(32, 64, 64), _draw(32, 64, 64)]),
                ("attention", attention, HEADS),
                ("einsum chain of 100", chain, [_draw(100, 100) for _ in range(4)]),
                ("rows gathered", lambda j, x, i: x[i], [TABLE, _indices(1000, 256, 64)]),
                ("top_k", lambda j, x: j.lax.top_k(x, 10), [_draw(100, 1000)]),
                ("sum over two axes", lambda j, x: x.sum((0, 2)), [_draw(100, 50, 40)]),
                ("piecewise 1M", piecewise, [_draw(1_000_000)]),
            ],
            [True, False],
        )
    ),
]
