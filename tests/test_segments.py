"""jax.ops against JAX's."""

import numpy as np
import pytest
from expressions import agree_on
from oracle import agree

NAMES = ["segment_sum", "segment_prod", "segment_max", "segment_min"]
DATA = np.random.default_rng(0).normal(size=(7, 2)).astype("float32")
IDS = np.array([0, 3, 1, 1, -1, 5, 0], "int32")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["float32", "int8", "uint32", "bfloat16"])
def test_segments_of_dtypes(name, dtype):
    def program(j):
        data = j.numpy.asarray(DATA * 10).astype(dtype)
        f = getattr(j.ops, name)
        return f(data, IDS, 5), f(data, IDS), f(data, IDS, 4, bucket_size=3), f(data, IDS, 4, mode="clip")

    agree(program)


def test_complex_numbers():
    values = np.round(DATA) + 1j * np.round(DATA[::-1])  # with equal real parts

    def program(j):
        x = j.numpy.asarray(values, "complex64")
        updated = x[0].at[np.array([0, 1, 1, 5])].min(x[1:5, 0]), j.vmap(lambda x: x.at[IDS].max(x[::-1]))(x.T)
        return [getattr(j.ops, name)(x, IDS, 4) for name in NAMES], updated

    agree(program)


@pytest.mark.parametrize("name", ["segment_sum", "segment_max", "segment_min"])  # JAX has no gradient of segment_prod
def test_segments_under_transformations(name):
    def program(j):
        f = lambda data, ids: getattr(j.ops, name)(data, ids, num_segments=4)
        batch = j.numpy.stack([IDS, IDS[::-1]])
        gradient = j.grad(lambda d: (f(d, IDS) * DATA[:4]).sum() if name == "segment_sum" else f(d, IDS)[:2].sum())(
            DATA
        )
        return (
            j.jit(f)(DATA, IDS),
            j.vmap(f, (None, 0))(DATA, batch),
            gradient,
            j.jvp(lambda d: f(d, IDS), (DATA,), (DATA,)),
        )

    agree(program)


@pytest.mark.parametrize(
    "case",
    [
        "jax.ops.segment_sum(f, i[:2], -1)", "jax.ops.segment_sum([1, 2], [0, 0])", "jax.ops.segment_sum(f[0], i)",
        "jax.ops.segment_sum(jnp.zeros((0, 3)), jnp.zeros(0, int), 2)", "jax.ops.segment_max(jnp.zeros(0), jnp.zeros(0, int), 2)",
        "jax.jit(jax.ops.segment_sum)(f, i[:2])", "jax.ops.segment_sum(f, i[:2], 2.5)",
        "jax.ops.segment_sum(f, jnp.array([[0, 1, 0], [1, 1, 0]]), 3)", "jax.ops.segment_sum(f, i, 3)",
        "jax.ops.segment_max(b, jnp.array([0, 2]), 3)", "jax.ops.segment_sum(f[0], i, 3, indices_are_sorted=True, unique_indices=True)",
    ],
)  # fmt: skip
def test_edges(case):
    agree_on(case)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("bucket_size", [None, 2])
def test_booleans_have_extrema_alone(name, bucket_size):
    def program(jax):
        x, ids = jax.numpy.array([True, False, True]), jax.numpy.array([0, 1, 1])
        return getattr(jax.ops, name)(x, ids, 3, bucket_size=bucket_size)

    agree(program)
