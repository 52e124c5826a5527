"""jax.scipy.ndimage, interpolate, integrate and cluster against JAX's."""

import itertools
from typing import Any

import jax.scipy.cluster.vq
import jax.scipy.integrate
import jax.scipy.interpolate
import jax.scipy.ndimage  # noqa: F401
import numpy as np
import pytest
from oracle import agree

RNG = np.random.default_rng(0)
MODES = ["wrap", "constant", "nearest", "mirror", "reflect"]
LOOSE: dict[str, Any] = {"rtol": 1e-3, "atol": 1e-4}
SHORT: dict[str, Any] = {"rtol": 2e-2, "atol": 5e-2}
X = RNG.normal(size=(4, 5)).astype("float32")
PLACES = 3 * RNG.normal(size=(2, 6)).astype("float32")


@pytest.mark.parametrize("dtype", ["float32", "int32", "float16", "bool", "complex64", "uint8"])
@pytest.mark.parametrize("mode", [*MODES, "some"])
def test_map_coordinates(mode, dtype):
    shapes = [(5,), (3, 4), (1, 2), ()]
    for kind, order, shape, size in itertools.product(["float32", "int32"], [0, 1, 2], shapes, [(7,), (2, 3)]):
        x = np.abs(9 * RNG.normal(size=shape)).astype(dtype)
        places = [(9 * RNG.normal(size=size)).astype(kind) for _ in shape]
        tolerance = SHORT if dtype == "float16" else LOOSE
        agree(lambda j: j.scipy.ndimage.map_coordinates(x, places, order, mode, cval=2.0), **tolerance)


def test_map_coordinates_of_lists_and_extreme_places():
    agree(lambda j: j.scipy.ndimage.map_coordinates([1.0, 2, 3], [[0.5, 1]], 1))
    agree(lambda j: j.scipy.ndimage.map_coordinates(X, PLACES[:1], 1))
    extreme = np.array([np.nan, np.inf, -np.inf, 1e10], "float32")
    agree(lambda j: j.scipy.ndimage.map_coordinates(X[0], [extreme], 1, "nearest"))


@pytest.mark.parametrize("mode", MODES)
def test_map_coordinates_transformed(mode):
    def f(j):
        return lambda x, c: j.scipy.ndimage.map_coordinates(x, list(c), 1, mode)

    def loss(j):
        return lambda x, c: (f(j)(x, c) ** 3).sum()

    agree(lambda j: j.hessian(loss(j), (0, 1))(X, PLACES), **LOOSE)
    agree(lambda j: j.jvp(f(j), (X, PLACES), (X, PLACES)), **LOOSE)
    pairs = np.stack([X, X]), np.stack([PLACES, 2 * PLACES])
    agree(lambda j: j.jit(j.vmap(j.grad(loss(j), (0, 1))))(*pairs), **LOOSE)


def test_trapezoid():
    agree(lambda j: j.scipy.integrate.trapezoid(X))
    agree(lambda j: j.scipy.integrate.trapezoid(X, dx=0.5, axis=0))
    agree(lambda j: j.scipy.integrate.trapezoid(X, np.arange(5.0)))


GRID = np.linspace(0, 10, 7).astype("float32"), np.arange(4)
VALUES = RNG.normal(size=(7, 4)).astype("float32")
POINTS = RNG.uniform([-2, -1], [12, 4], size=(20, 2)).astype("float32")


@pytest.mark.parametrize("method", ["linear", "nearest", "some"])
@pytest.mark.parametrize("fill", [np.nan, None, 3, 2.5, 1j])
def test_regular_grid(method, fill):
    several = [
        VALUES, np.stack([VALUES, 2 * VALUES], -1), (10 * VALUES).astype(int), VALUES.astype("float16"),
        VALUES.astype("complex64"), VALUES[0], VALUES.tolist(),
    ]  # fmt: skip
    queries = [
        POINTS, POINTS.reshape(4, 5, 2), tuple(POINTS.T), POINTS[0], (1, 2.0), [1.0, 2.0], POINTS[:, :1],
        POINTS.astype(int), (POINTS[:, 0], 1.0),
    ]  # fmt: skip
    for values, query in itertools.product(several, queries):
        tolerance = SHORT if getattr(values, "dtype", None) == "float16" else LOOSE
        make = lambda j: j.scipy.interpolate.RegularGridInterpolator(GRID, values, method, False, fill)
        agree(lambda j: make(j)(query), **tolerance)


def test_regular_grid_of_one_axis_and_other_arguments():
    def make(j, *args, **kwargs):
        return j.scipy.interpolate.RegularGridInterpolator((GRID[0],), VALUES[:, 0], *args, **kwargs)

    agree(lambda j: make(j)(POINTS[:, 0]))
    agree(lambda j: make(j)((POINTS[:, 0],), method="nearest"))
    agree(lambda j: make(j)(POINTS[:, 0], method="some"))
    agree(lambda j: make(j, bounds_error=True))


def test_regular_grid_transformed():
    def value(j, values, points, fill=None):
        return j.scipy.interpolate.RegularGridInterpolator(GRID, values, fill_value=fill)(points)

    agree(lambda j: j.jit(lambda f, x: f(x))(j.scipy.interpolate.RegularGridInterpolator(GRID, VALUES), POINTS))
    agree(lambda j: j.vmap(lambda v, x: value(j, v, x))(np.stack([VALUES] * 2), np.stack([POINTS] * 2)))
    agree(lambda j: j.jacfwd(lambda v, x: value(j, v, x), (0, 1))(VALUES, POINTS), **LOOSE)
    agree(lambda j: j.grad(lambda v, x: (value(j, v, x, 2.0) ** 2).sum(), (0, 1))(VALUES, POINTS), **LOOSE)


@pytest.mark.parametrize("dtype", ["float32", "int32", "complex64"])
def test_vq(dtype):
    for a, b in [((5, 3), (4, 3)), ((5,), (3,)), ((5, 3), (3,)), ((2, 5, 3), (2, 4, 3)), ((5, 3), (4, 2))]:
        points, codes = ((5 * RNG.normal(size=s)).astype(dtype) for s in (a, b))
        agree(lambda j: j.scipy.cluster.vq.vq(points, codes))


def test_vq_transformed():
    points, codes = (RNG.normal(size=(n, 3)).astype("float32") for n in (5, 4))
    agree(lambda j: j.hessian(lambda o, b: j.scipy.cluster.vq.vq(o, b)[1].sum(), (0, 1))(points, codes), **LOOSE)
    agree(lambda j: j.jit(j.vmap(j.scipy.cluster.vq.vq))(np.stack([points] * 2), np.stack([codes] * 2)))
