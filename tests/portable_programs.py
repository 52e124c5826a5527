"""Programs of every capability, as text: a function, and its arguments. They mean the same on JAX and on jaxish.

`test_portable.py` lowers them to plain operators, `tests/xla` runs them on XLA's devices. Texts see `jax`, `jnp`, `lax`,
`random`.
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any

from random_programs import DRAWS


def program(library: ModuleType, name: str) -> tuple[Callable[..., Any], list[Any]]:
    """Return the function and the arguments of a program, with `library`."""
    names = {"jax": library, "jnp": library.numpy, "lax": library.lax, "random": library.random, "draw": DRAWS.get}
    function, arguments = PROGRAMS[name]
    return eval(function, names), eval(f"[{arguments}]", names)


_A = "jnp.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 2.0]])"

PROGRAMS = {
    # the tour
    "a gradient": ("jax.grad(jnp.tanh)", "1.0"),
    "a third derivative": ("jax.grad(jax.grad(jax.grad(jnp.tanh)))", "1.0"),
    "a batched function": ("jax.vmap(jnp.square)", "jnp.arange(4)"),
    "a sum of logistics": ("jax.grad(lambda x: jnp.sum(1.0 / (1.0 + jnp.exp(-x))))", "jnp.arange(3.0)"),
    "selu": ("lambda x: 1.05 * jnp.where(x > 0, x, 1.67 * jnp.exp(x) - 1.67)", "jnp.array([-1.0, 0.0, 2.0])"),
    "a hessian": ("jax.jacfwd(jax.jacrev(lambda x: jnp.sum(x**3)))", "jnp.array([1.0, 2.0])"),
    "an update": ("lambda x: x.at[jnp.array([0, 0, 2])].add(2.0)", "jnp.arange(3.0)"),
    "per-example gradients": (
        "lambda w, x, y: jax.vmap(jax.grad(lambda w, x, y: (jnp.dot(w, x) - y) ** 2), (None, 0, 0))(w, x, y)",
        "jnp.ones(2), jnp.array([[1.0, 2.0], [3.0, 4.0]]), jnp.array([1.0, 2.0])",
    ),
    "a checkpoint": ("jax.grad(jax.checkpoint(lambda x: jnp.sin(jnp.sin(x))))", "1.0"),
    # loops and branches
    "a scan": ("lambda x: lax.scan(lambda c, _: (c * x, c), 1.0, None, length=5)", "2.0"),
    "a scan's gradient": ("jax.grad(lambda x: lax.scan(lambda c, _: (c * x, c), 1.0, None, length=5)[0])", "2.0"),
    "a scan backwards": ("lambda xs: lax.scan(lambda c, x: (c + x, (c, x)), 0.0, xs, reverse=True)", "jnp.arange(5.0)"),
    "a scan of nothing": ("lambda xs: lax.scan(lambda c, x: (c + x, (c, x)), 1.0, xs)", "jnp.zeros(0)"),
    "a scan that swaps": ("lambda xs: lax.scan(lambda c, x: ((c[1], c[0]), x), (0.0, 1.0), xs)", "jnp.arange(3.0)"),
    "a scan of unsigned": (
        "lambda xs: lax.scan(lambda c, x: (c + x, c * x), jnp.uint32(2), xs)", "jnp.arange(3, dtype='uint32')",
    ),
    "a batched scan": (
        "jax.vmap(lambda x: lax.scan(lambda c, y: (c * x + y, c), 1.0, jnp.arange(3.0))[1])", "jnp.arange(4.0)",
    ),
    "a while loop": ("lambda x: lax.while_loop(lambda c: c[0] < 10, lambda c: (c[0] + 1, c[1] * x), (0, x))", "1.5"),
    "a while loop per lane": (
        "jax.vmap(lambda n: lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * 2), (0, 1.0)))",
        "jnp.arange(4)",
    ),
    "a while loop pushed forward": ("jax.jacfwd(lambda x: lax.fori_loop(0, lax.full((), 4), lambda i, c: c * x, x))", "1.5"),
    "a loop to a bound": ("lambda n: lax.fori_loop(0, n, lambda i, c: c + i, 0)", "7"),
    "a branch": ("lambda p, x: lax.cond(p, jnp.sin, jnp.cos, x)", "True, 1.0"),
    "the other branch": ("lambda p, x: lax.cond(p, jnp.sin, jnp.cos, x)", "False, 1.0"),
    "a branch's gradient": ("lambda p, x: jax.grad(lambda x: lax.cond(p, jnp.sin, jnp.cos, x))(x)", "True, 1.0"),
    "a switch": ("lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, jnp.exp, lambda x: x], x)", "3, 1.0"),
    "a branch in a loop": (
        "lambda x: lax.scan(lambda c, i: (lax.cond(i % 2 == 0, lambda v: v * x, lambda v: v + 1, c), c), 1.0, jnp.arange(6))",
        "3.0",
    ),
    "a root": (
        "lambda x: lax.custom_root(lambda y: y * y - x, 1.0, lambda f, y: lax.fori_loop(0, 20, lambda i, y: (y + x / y) / 2, y),"
        " lambda g, y: y / g(1.0))",
        "2.0",
    ),
    "prefixes": ("lambda x: lax.associative_scan(jnp.add, x)", "jnp.arange(7.0)"),
    # matrices
    "cholesky": ("jnp.linalg.cholesky", _A),
    "qr": ("jnp.linalg.qr", _A),
    "qr with pivots": ("lambda a: lax.linalg.qr(a, pivoting=True)", _A),
    "singular values": ("lambda a: jnp.linalg.svd(a, compute_uv=False)", _A),
    "eigenvalues": ("jnp.linalg.eigvalsh", _A),
    "lu": ("lax.linalg.lu", _A),
    "a solution": ("lambda a: jnp.linalg.solve(a, a[0])", _A),
    "a tridiagonal system": (
        "lambda b: lax.linalg.tridiagonal_solve(jnp.array([0.0, 1, 1]), jnp.full(3, 4.0), jnp.array([1.0, 1, 0]), b)", _A,
    ),
    "a determinant's gradient": ("jax.grad(jnp.linalg.det)", _A),
    "a singular one's": ("jax.grad(jnp.linalg.det)", "jnp.ones((3, 3))"),
    # special functions
    "betainc": ("lambda x: lax.betainc(2.0, jnp.full_like(x, 3.0), x)", "jnp.linspace(0.0, 1.0, 9)"),
    "the slope of igamma": ("jax.vmap(jax.grad(lambda a: lax.igamma(a, 2.0)))", "jnp.linspace(0.1, 5.0, 9)"),
    "erf_inv": ("lax.erf_inv", "jnp.linspace(-0.9, 0.9, 9)"),
    "reduced precision": ("lambda x: lax.reduce_precision(x, 5, 3)", "jnp.linspace(0.0, 5.0, 9)"),
    "a sorted array": ("jnp.sort", "jnp.array([3.0, 1.0, 2.0])"),
    "a convolution": ("lambda x: jnp.convolve(x, x)", "jnp.arange(4.0)"),
    # random numbers
    "keys": ("lambda k: random.key_data(random.split(random.fold_in(k, 7), 3))", "random.key(0)"),
    "numbers per lane": ("lambda k: jax.vmap(lambda k: random.normal(k, (5,)))(random.split(k, 3))", "random.key(0)"),
    "counts per lane": ("lambda k: jax.vmap(lambda k: random.poisson(k, 3.0, (5,)))(random.split(k, 4))", "random.key(0)"),
    "large counts": ("lambda k: random.poisson(k, jnp.array([0.5, 20.0, 100.0]), (50, 3))", "random.key(0)"),
    "successes": ("lambda k: random.binomial(k, jnp.array([5.0, 30.0, 100.0]), 0.4, (50, 3))", "random.key(0)"),
    "a gamma sample's slope": ("lambda k: jax.grad(lambda a: random.gamma(k, a, (50,)).sum())(2.5)", "random.key(0)"),
    "a long permutation": ("lambda k: random.permutation(k, 70000)", "random.key(0)"),
    "many choices": ("lambda k: random.categorical(k, jnp.arange(10.0), shape=(60000,))", "random.key(0)"),
    "bits of another generator": ("lambda k: random.bits(k, (50,))", "random.key(1, impl='rbg')"),
    **{f"random: {name}": (f"lambda: draw({name!r})(jax)", "") for name in DRAWS},
}  # fmt: skip
