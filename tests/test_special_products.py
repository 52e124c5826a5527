"""Products that are something simpler: those of numbers and booleans selections, as XLA has them, of columns and rows elementwise."""

import numpy as np
import pytest
from oracle import agree

from jaxish._core import config

MASK = np.array([False, False, False, True, True])
PROGRAMS = {
    "mask last": lambda jax, x, m: x * m,
    "mask first": lambda jax, x, m: m * x,
    "comparison": lambda jax, x, m: x * (x > 0),
    "negated": lambda jax, x, m: jax.numpy.multiply(x, ~m),
    "summed": lambda jax, x, m: (x * m).sum() / m.sum(),
    "vmap": lambda jax, x, m: jax.vmap(lambda x, m: 2 * x * m)(x, m),
    "grad": lambda jax, x, m: jax.grad(lambda x: (abs(x * m) ** 2).sum().real)(x),
    "scan": lambda jax, x, m: jax.lax.scan(lambda c, xm: (c, xm[0] * xm[1]), 0, (x, m))[1],
    "scan of rows": lambda jax, x, m: jax.lax.scan(lambda c, y: (c, y * m), 0, jax.numpy.stack([x, -x]))[1],
    "broadcast numbers": lambda jax, x, m: x[None] * jax.numpy.stack([m, ~m]),
    "broadcast mask": lambda jax, x, m: jax.numpy.stack([x, -x]) * m,
    "scalars": lambda jax, x, m: (x[0] * m[0], x[1] * m[3]),
    "infinite": lambda jax, x, m: (
        m * -jax.numpy.inf,
        jax.numpy.inf * ~m,
        m * jax.numpy.asarray(np.nan),
        m[0] * jax.numpy.inf,
    ),
    "broadcast twice": lambda jax, x, m: x[:, None] * m,
    "inverse": lambda jax, x, m: x * (1 - m),
}


@pytest.fixture(params=["direct", "compiled"])
def tier(request):
    before = config.jit_tier.value
    config.jit_tier.set(request.param)
    yield
    config.jit_tier.set(before)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "complex64", "int32"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_products_with_masks(name, dtype):
    def program(jax, x, m):
        return PROGRAMS[name](jax, jax.numpy.asarray(x, dtype), jax.numpy.asarray(m))

    values = [1, 2, -1, 2, -3] if dtype == "int32" else [np.nan, np.inf, -1, 2, -3]
    agree(program, np.array(values), MASK)


@pytest.mark.parametrize("name", PROGRAMS)
def test_products_with_masks_under_jit(name, tier):
    def program(jax, x, m):
        return jax.jit(lambda x, m: PROGRAMS[name](jax, x, m))(x, m)

    agree(program, np.array([np.nan, np.inf, -1, 2, -3], "float32"), MASK)


def test_a_converted_mask_under_jit(tier):
    agree(
        lambda jax, x, m: jax.jit(lambda x: x * m.astype("float32") * jax.nn.one_hot(3, 5))(x), np.full(5, np.nan), MASK
    )


def test_masks_of_numpy_and_strict_promotion():
    x = np.array([np.nan, np.inf, -1, 2, -3], "float32")
    agree(lambda jax, x, m: jax.numpy.asarray(x) * m, x, MASK)

    def strict(jax, x, m):
        with jax.numpy_dtype_promotion("strict"):
            return jax.numpy.asarray(x) * jax.numpy.asarray(m)

    agree(strict, x, MASK)


@pytest.mark.parametrize("dtype", ["float32", "complex64", "int32"])
def test_products_of_columns_and_rows(dtype, tier):
    values = np.array([0, 1, -2, 3, 4] if dtype == "int32" else [0, np.inf, np.nan, -1, 2])
    column, row = values[:, None].astype(dtype), values[None, ::-1].astype(dtype)

    def program(jax, a, b):
        several = lambda a, b: jax.vmap(lambda c: (c * a) @ b)(jax.numpy.asarray([1, 2], dtype))
        return jax.jit(lambda a, b: (a @ b, several(a, b), b @ a, a[:, :0] @ b[:0]))(a, b)

    agree(program, column, row)
