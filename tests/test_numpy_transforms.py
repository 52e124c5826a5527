"""jax.numpy under jit, vmap and their compositions: each function gives what it gives without them, as in JAX."""

from typing import Any

import numpy as np
import pytest
from oracle import agree

X = np.array([[0.5, 2.0, -1.5, 3.0], [1.0, -0.25, 4.0, 0.75], [2.5, 1.5, -3.0, 0.125]], np.float32)
IDS = np.array([2, 0, 3, 1])

# Functions of a matrix `x` (3, 4) and a vector of integers `i` (4): each returns arrays.
FUNCTIONS = {
    "arithmetic": lambda jnp, x, i: (
        x + i,
        x - 1,
        2 * x,
        x / i[0],
        x // 2,
        x % 3,
        x**2,
        -x,
        abs(x),
        divmod(x, 2),
        x @ x.T,
    ),
    "comparison": lambda jnp, x, i: (x > 1, x == x, i != 2, (i > 1) & (i < 3), ~(i > 1), i << 1, i >> 1, i ^ 3),
    "elementary": lambda jnp, x, i: (
        jnp.sin(x),
        jnp.exp(x),
        jnp.tanh(x),
        jnp.log1p(abs(x)),
        jnp.sqrt(abs(x)),
        jnp.arctan2(x, 2),
        jnp.logaddexp(x, 0),
        jnp.hypot(x, 1),
        jnp.cbrt(x),
        jnp.sinc(x),
    ),
    "rounding": lambda jnp, x, i: (
        jnp.floor(x),
        jnp.round(x, 1),
        jnp.sign(x),
        jnp.modf(x),
        jnp.frexp(x),
        jnp.ldexp(x, 2),
        jnp.nan_to_num(x),
        jnp.isfinite(x),
        jnp.signbit(x),
        jnp.heaviside(x, 0.5),
        jnp.gcd(i, 6),
        jnp.bitwise_count(i),
    ),
    "extrema": lambda jnp, x, i: (
        jnp.maximum(x, 1),
        jnp.minimum(x, i),
        jnp.clip(x, 0, 2),
        jnp.fmax(x, 0),
        jnp.max(x),
        jnp.min(x, 0),
        jnp.argmax(x, 1),
        jnp.argmin(x),
        jnp.ptp(x),
    ),
    "sums": lambda jnp, x, i: (
        x.sum(),
        x.mean(0),
        x.var(1),
        x.std(),
        jnp.prod(x, 1),
        jnp.cumsum(x, 1),
        jnp.cumprod(x, 0),
        jnp.any(x > 2, 1),
        jnp.all(x > 0),
        jnp.count_nonzero(x > 0),
        jnp.nanmean(x),
        jnp.average(x, weights=abs(x)),
        jnp.sum(x, where=x > 0),
    ),
    "sorting": lambda jnp, x, i: (
        jnp.sort(x),
        jnp.argsort(x, 0),
        jnp.sort(i)[::-1],
        jnp.lexsort((x[0], i)),
        jnp.median(x, 1),
        jnp.quantile(x, 0.3),
        jnp.searchsorted(jnp.sort(x[0]), x[1]),
        jnp.partition(x[0], 2)[2],
        jnp.digitize(x, jnp.array([0.0, 1.0])),
    ),
    "shapes": lambda jnp, x, i: (
        x.reshape(4, 3),
        x.T,
        jnp.roll(x, 1),
        jnp.roll(x, i[0], 1),
        jnp.flip(x),
        jnp.tile(x, 2),
        jnp.repeat(x, 2, 1),
        jnp.pad(x, 1),
        jnp.pad(x, 2, "reflect"),
        jnp.tril(x),
        jnp.diag(x[0]),
        jnp.moveaxis(x, 0, 1),
        jnp.squeeze(x[:1]),
        jnp.rot90(x),
        jnp.broadcast_to(x[0], (2, 4)),
    ),
    "joining": lambda jnp, x, i: (
        jnp.concatenate([x, x]),
        jnp.stack([x, x], 1),
        jnp.split(x, 2, 1),
        jnp.array([x[0, 0], 1.0, i[0]]),
        jnp.vstack([x, i]),
        jnp.append(x, 1),
        jnp.insert(x[0], 1, 9.0),
        jnp.delete(x, 1, 1),
        jnp.array([[x[0, 0], 1], [2, 3]]),
    ),
    "reading": lambda jnp, x, i: (
        x[0],
        x[-1, 1:],
        x[:, i],
        x[i[0] % 3],
        x[jnp.array([0, 2]), i[:2]],
        x[..., None],
        x[::-1, ::2],
        jnp.take(x, i, 1),
        jnp.take_along_axis(x, jnp.argsort(x), 1),
        x.at[:, 9].get(mode="fill"),
        x[i[0], i[1]],
    ),
    "writing": lambda jnp, x, i: (
        x.at[0].set(1),
        x.at[:, i].add(x),
        x.at[i[0] % 3].set(x[0]),
        x.at[0, i].mul(2),
        x.at[:, 1:3].set(x[:, :2]),
        x.at[::-1, 0].add(1),
        x.at[i, 0].max(5),
        x.at[jnp.array([0, 0]), i[:2]].set(7),
        x.at[1, 1].min(-9),
    ),
    "selection": lambda jnp, x, i: (
        jnp.where(x > 0, x, 0),
        jnp.where(x[0] > 0, x, i),
        jnp.select([x > 2, x > 0], [x, -x]),
        jnp.nonzero(x > 1, size=3),
        jnp.choose(i % 2, [x[0], x[1]], mode="clip"),
        jnp.compress(i > 1, x, 1, size=2),
        jnp.piecewise(x, [x < 0], [0.0, lambda v: v + 1]),
        jnp.unravel_index(i, (2, 2)),
    ),
    "sets": lambda jnp, x, i: (
        jnp.unique(i, size=3),
        jnp.isin(i, jnp.array([1, 2])),
        jnp.union1d(i, i + 1, size=5),
        jnp.bincount(i, length=4),
        jnp.histogram(x, 3),
        jnp.setdiff1d(i, i[:2], size=2),
        jnp.intersect1d(i, i[:2], size=2),
    ),
    "products": lambda jnp, x, i: (
        jnp.dot(x, x[0]),
        jnp.einsum("ij,kj->ik", x, x),
        jnp.tensordot(x, x, ((1,), (1,))),
        jnp.outer(x, i),
        jnp.kron(x, x),
        jnp.cross(x[:, :3], x[:, 1:]),
        jnp.inner(x, x),
        jnp.vdot(x, x),
        jnp.einsum("ij,j,ij->i", x, i, x),
    ),
    "linalg": lambda jnp, x, i: (
        jnp.linalg.norm(x),
        jnp.linalg.norm(x, axis=1),
        jnp.linalg.inv(x[:, :3]),
        jnp.linalg.det(x[:, 1:]),
        jnp.linalg.solve(x[:, :3], x[:, 3]),
        jnp.linalg.svd(x, compute_uv=False),
        jnp.linalg.eigvalsh(x @ x.T),
        jnp.linalg.cholesky(x @ x.T + 9 * jnp.eye(3)),
        jnp.linalg.matrix_power(x[:, :3], 2),
        abs(jnp.fft.fft(x)),
        jnp.linalg.slogdet(x[:, :3])[1],
    ),
    "calculus": lambda jnp, x, i: (
        jnp.diff(x),
        jnp.gradient(x),
        jnp.trapezoid(x),
        jnp.interp(x, jnp.arange(4.0), i * 1.0),
        jnp.convolve(x[0], x[1]),
        jnp.polyval(x[0], x[1]),
        jnp.unwrap(x),
        jnp.cov(x),
        jnp.corrcoef(x),
        jnp.vander(x[0]),
    ),
    "creation": lambda jnp, x, i: (
        jnp.zeros_like(x),
        jnp.full_like(x, i[0]),
        jnp.linspace(x[0], x[1], 3),
        jnp.eye(3) * x[0, 0],
        jnp.arange(3) + i[0],
        jnp.meshgrid(x[0], i),
        jnp.full((2,), x[0, 0]),
        jnp.tri(3) * x[0, 1],
        jnp.logspace(x[0, 0], 1, 3),
    ),
}

TOLERANCE: dict[str, Any] = {"rtol": 3e-4, "atol": 3e-4}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_under_jit(name):
    agree(lambda jax: jax.jit(lambda x, i: FUNCTIONS[name](jax.numpy, x, i))(X, IDS), **TOLERANCE)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("axes", [(0, 0), (0, None), (None, 0)])
def test_under_vmap(name, axes):
    xs = np.stack([X, X[::-1] + 0.125]) if axes[0] == 0 else X
    ids = np.stack([IDS, IDS[::-1]]) if axes[1] == 0 else IDS

    def program(jax):
        return jax.vmap(lambda x, i: FUNCTIONS[name](jax.numpy, x, i), axes)(xs, ids)

    agree(program, **TOLERANCE, weak=False)


@pytest.mark.parametrize(
    "name",
    [
        "arithmetic",
        "elementary",
        "extrema",
        "sums",
        "shapes",
        "reading",
        "writing",
        "selection",
        "products",
        "calculus",
        "linalg",
        "joining",
        "sorting",
    ],
)
def test_batched_gradients_in_jit(name):
    def program(jax):
        jnp = jax.numpy

        def loss(x, i):
            leaves = jax.tree_util.tree_leaves(FUNCTIONS[name](jnp, x, i))
            return sum((jnp.sin(leaf).sum() for leaf in leaves if jnp.issubdtype(leaf.dtype, jnp.floating)), 0.0)

        return jax.jit(jax.vmap(jax.grad(loss), (0, None)))(np.stack([X, X[::-1] + 0.125]), IDS)

    agree(program, rtol=3e-3, atol=3e-3)
