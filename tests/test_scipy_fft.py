"""jax.scipy.fft against JAX's."""

import itertools
from typing import Any

import numpy as np
import pytest
from oracle import agree

NORMS = [None, "ortho", "backward", "forward"]


def draw(shape, dtype="float32"):
    rng = np.random.default_rng(len(shape))
    x = 3 * rng.normal(size=shape)
    return (x + 1j * rng.normal(size=shape)).astype(dtype) if dtype.startswith("complex") else x.astype(dtype)


@pytest.mark.parametrize("name", ["dct", "idct"])
@pytest.mark.parametrize("dtype", ["float32", "complex64", "int32", "float16", "bool"])
def test_one_axis(name, dtype):
    for shape, n, axis, norm in itertools.product([(10,), (2, 5)], [None, 1, 7, 13, 20], [-1, 0, 2], NORMS):
        x = draw(shape, dtype)
        wide = 1e-2 if dtype == "float16" else 1e-4
        agree(lambda j: getattr(j.scipy.fft, name)(x, n=n, axis=axis, norm=norm), rtol=wide, atol=10 * wide)
    agree(lambda j: getattr(j.scipy.fft, name)(draw((3,)), type=3))


@pytest.mark.parametrize("name", ["dctn", "idctn"])
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_several_axes(name, dtype):
    cases = [
        ((9,), None, None), ((3, 4), None, None), ((3, 4), (5,), None), ((3, 4), (5, 2), None), ((3, 4), 6, None),
        ((3, 4), (1, 2, 3), None), ((3, 4), None, 0), ((3, 4), (2, 7), (-1, 0)), ((3, 4), None, (0, 0)),
        ((2, 3, 4), None, None), ((2, 3, 4), (3, 3, 3), (2, 0, 1)), ((2, 3, 4, 5), None, (0, 3)), ((2, 3), None, (5,)),
    ]  # fmt: skip
    for (shape, s, axes), norm in itertools.product(cases, NORMS):
        x = draw(shape, dtype)
        agree(lambda j: getattr(j.scipy.fft, name)(x, s=s, axes=axes, norm=norm), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["dct", "idct", "dctn", "idctn"])
def test_transformations(name):
    x = draw((3, 4))

    def f(j):
        return lambda x: getattr(j.scipy.fft, name)(x, norm="ortho")

    def loss(j):
        return lambda x: (f(j)(x) ** 3).sum()

    loose: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-3}
    agree(lambda j: j.jvp(f(j), (x,), (x,)), **loose)
    agree(lambda j: j.jit(j.vmap(j.grad(loss(j))))(np.stack([x, 2 * x])), **loose)
    agree(lambda j: j.hessian(loss(j))(x), **loose)


def test_double_precision():
    import jax
    import scipy.fft

    import jaxish

    x = np.random.default_rng(0).normal(size=11)
    with jaxish.enable_x64(True), jax.enable_x64(True):
        agree(lambda j: j.scipy.fft.dct(x))
        for name in ("dct", "idct"):
            found = getattr(jaxish.scipy.fft, name)(x, n=20)
            np.testing.assert_allclose(found, getattr(scipy.fft, name)(x, n=20), rtol=1e-12, atol=1e-13)
