"""Sums and extrema of moving windows within native code, and derivatives of the sums."""

import jax
import numpy as np
import pytest
from oracle import agree

import jaxish
from jaxish._compile import loop_sources

SIZES = (1, 2, 3, 4, 5, 7, 9, 16, 23, 50)


def numbers(shape, dtype="float32", seed=0, special=()):
    random = np.random.default_rng(seed)
    x = random.normal(size=shape).astype(dtype)
    places = random.random(shape)
    for i, value in enumerate(special):
        x[(places > 0.01 * i) & (places < 0.01 * (i + 1))] = value
    return x


def check(program, *args, rtol=1e-5, atol=1e-5):
    """Have a program written out as one function, and agree with JAX."""
    jitted = jaxish.jit(lambda *args: program(jaxish, *args))
    loop_sources.graph_source(jitted.trace(*args)._program.closed.graph)
    agree(lambda j: j.jit(lambda *args: program(j, *args))(*args), rtol=rtol, atol=atol)


def folds(j, x, *moves, **others):
    lax, inf = j.lax, j.numpy.inf
    kinds = ((0.0, lax.add), (-inf, lax.max), (inf, lax.min))
    return [lax.reduce_window(x, first, step, *moves, **others) for first, step in kinds]


@pytest.mark.parametrize("padding", ["VALID", "SAME", [(0, 3)]])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_windows_of_every_length(stride, padding, compiled):
    x = numbers((60,), special=(np.nan, np.inf))
    check(lambda j, x: [folds(j, x + 1, (size,), (stride,), padding) for size in SIZES], x)


@pytest.mark.parametrize(
    ("shape", "window", "strides"),
    [
        ((20, 30), (3, 3), (1, 1)), ((20, 30), (5, 1), (1, 1)), ((20, 30), (1, 11), (1, 2)), ((7, 9), (7, 9), (1, 1)),
        ((2, 12, 10, 3), (1, 2, 2, 1), (1, 2, 2, 1)), ((2, 12, 10, 3), (1, 3, 5, 1), (1, 2, 1, 1)),
        ((2, 3, 12, 10), (1, 1, 3, 3), (1, 1, 2, 3)), ((4, 6, 5), (2, 3, 2), (1, 2, 1)), ((4, 6, 5), (1, 1, 1), (2, 1, 1)),
        ((1, 40), (1, 40), (1, 1)),
    ],
)  # fmt: skip
def test_windows_of_several_dimensions(shape, window, strides, compiled):
    for dtype in ("float32", "float64"):
        with jaxish.enable_x64(True), jax.enable_x64(True):
            x = numbers(shape, dtype, special=(np.nan, -np.inf))
            for padding in ("VALID", "SAME"):
                check(lambda j, x, padding=padding: folds(j, 2 * x, window, strides, padding), x)


def test_windows_with_gaps(compiled):
    x = numbers((30, 40), special=(np.nan,))
    check(lambda j, x: folds(j, x, (3, 7), (2, 1), "VALID", window_dilation=(4, 3))[1:], x)


@pytest.mark.parametrize("padding", ["VALID", "SAME"])
@pytest.mark.parametrize(("size", "stride"), [(1, 1), (4, 1), (50, 1), (4, 4), (5, 2), (2, 3), (7, 3)])
def test_derivatives_of_sums(size, stride, padding, compiled):
    x = numbers((4, 60, 3))

    def loss(j, x):
        moves = (1, size, 1), (1, stride, 1), padding
        return (j.lax.reduce_window(x, 0.0, j.lax.add, *moves) ** 3).sum()

    check(lambda j, x: j.grad(lambda x: loss(j, x))(x), x, rtol=1e-4, atol=1e-3)


def test_derivatives_of_sums_in_images(compiled):
    x = numbers((2, 12, 10, 3))

    def loss(j, x):
        blurred = j.lax.reduce_window(x, 0.0, j.lax.add, (1, 3, 3, 1), (1, 1, 1, 1), "SAME")
        return (j.lax.reduce_window(blurred, 0.0, j.lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") ** 2).sum()

    check(lambda j, x: j.grad(lambda x: loss(j, x))(x), x, rtol=1e-4, atol=1e-3)


def test_windows_in_loops_and_under_vmap(compiled):
    def smoothed(j, x):
        step = lambda _, x: j.lax.reduce_window(x, -j.numpy.inf, j.lax.max, (3, 3), (1, 1), "SAME") * 0.9 + 0.1 * x
        return j.lax.fori_loop(0, 5, step, x)

    check(smoothed, numbers((12, 17)))
    check(lambda j, x: j.vmap(lambda x: smoothed(j, x))(x), numbers((3, 12, 17)))


def test_where_a_maximum_is_is_left_to_torch(compiled):
    def loss(j, x):
        return (j.lax.reduce_window(x, -j.numpy.inf, j.lax.max, (3, 3), (2, 2), "VALID") ** 2).sum()

    agree(lambda j: j.jit(j.grad(lambda x: loss(j, x)))(numbers((11, 13))), rtol=1e-5)
