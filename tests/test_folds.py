"""Rows and columns folded in compiled code, their elements computed as they are read: sums, extrema and where these are."""

import numpy as np
import pytest
from oracle import agree

from jaxish._compile import loop_blocks

RANDOM = np.random.default_rng(0)
SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 24, 31, 33, 40, 63, 64, 65, 100, 128, 130, 300)


pytestmark = pytest.mark.usefixtures("compiled")


def numbers(dtype, *shape):
    drawn = RANDOM.normal(size=shape) * 20
    if dtype == "float32":
        drawn[RANDOM.random(shape) < 0.003] = np.nan
        drawn[RANDOM.random(shape) < 0.01] = -np.inf
    return (drawn > 0) if dtype == "bool" else drawn.astype(dtype)


def folds(jnp, x, axis):
    """Return folds of expressions of x, none of which is in memory."""
    changed = ~x if x.dtype == bool else x * 2 - 3
    found = [changed.max(axis), changed.min(axis), jnp.argmax(changed, axis), jnp.argmin(changed, axis)]
    return [*found, (changed > 1).any(axis), (changed != 1).all(axis), (changed > 0).sum(axis)]


def sums(jnp, x, axis):
    finite = jnp.where(abs(x) < 100, x, 1) * 0.25
    return [
        finite.sum(axis),
        (finite**2).mean(axis),
        jnp.exp(-abs(finite)).sum(axis),
        jnp.cos(finite * 0.01).prod(axis),
    ]


@pytest.mark.parametrize("dtype", ["float32", "int32", "int8", "uint8", "bool"])
@pytest.mark.parametrize("axis", [0, 1, None])
def test_extrema_and_their_places(dtype, axis):
    arrays = [numbers(dtype, *((5, n) if axis else (n, 5))) for n in SIZES]
    agree(lambda jax, xs: jax.jit(lambda xs: [folds(jax.numpy, x, axis) for x in xs])(xs), arrays)


@pytest.mark.parametrize("axis", [0, 1, None])
def test_sums(axis):
    arrays = [numbers("float32", *((5, n) if axis else (n, 5))) for n in SIZES]
    agree(lambda jax, xs: jax.jit(lambda xs: [sums(jax.numpy, x, axis) for x in xs])(xs), arrays, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "int8"])
@pytest.mark.parametrize("shape", [(40, 16), (40, 20), (6, 10), (9, 5), (7, 33)])
def test_what_is_read_by_a_condition(shape, dtype, monkeypatch):
    monkeypatch.setattr(loop_blocks, "_IN_BLOCK", 64)
    monkeypatch.setattr(loop_blocks, "_FEW", 8)
    a, b = (RANDOM.normal(size=(2, *shape)) * 5).astype(dtype)

    def program(jax, a, b):
        jnp, row = jax.numpy, jax.numpy.arange(len(a))[:, None]

        def function(a, b):
            found = [
                jnp.where(row > 2, b, a * 2),
                jnp.where(a[:, :1].real > 0, b, 0),
                jnp.pad(b[2:], ((2, 0), (0, 0))) + a,
            ]
            return [x.sum(axis) for x in found for axis in (0, 1, None)]

        with jax.enable_x64(dtype == "float64"):
            return jax.jit(function)(a, b)

    agree(program, a, b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("axis", [0, 1, 2, (0, 1), (1, 2), (0, 2)])
def test_other_dimensions_and_views(axis):
    x = numbers("float32", 6, 7, 35)

    def program(jax, x):
        views = lambda x: (
            x,
            x[:, ::-1],
            x.transpose(2, 0, 1),
            x[1:, :, 3:],
            jax.numpy.broadcast_to(x[:, :1], (6, 9, 35)),
        )
        return jax.jit(lambda x: [(sums(jax.numpy, v, axis), v.max(axis), (v * 2).min(axis)) for v in views(x)])(x)

    agree(program, x, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("shape", [(40, 3), (40, 16), (41, 64), (42, 100), (9, 300)])
def test_columns_in_blocks(shape, monkeypatch):
    monkeypatch.setattr(loop_blocks, "_IN_BLOCK", 64)
    monkeypatch.setattr(loop_blocks, "_FEW", 8)
    monkeypatch.setattr(loop_blocks, "_TALL", 3)

    def program(jax, x):
        function = lambda x: (sums(jax.numpy, x, 0), x.max(0), (x - x.mean(0)).min(0), ((x - 1) ** 2).sum((0, 1)))
        tests = lambda x: ((x > 1.5).any(0), (x > -2).all(0), ~(x > 9).any(), x.astype(bool).all(1), (x > 0).max(0))
        return jax.jit(function)(x), jax.jit(tests)(x)

    agree(program, RANDOM.normal(size=shape).astype(np.float32), rtol=2e-5, atol=2e-5)
