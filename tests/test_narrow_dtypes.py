"""Integers of less than eight bits, and floats that torch has no arithmetic for."""

import pickle

import ml_dtypes
import numpy as np
import pytest
import torch
from oracle import agree

import jaxish
import jaxish.numpy as jnp

INTEGERS = ["int2", "int4", "uint2", "uint4"]
FLOATS = [
    "float4_e2m1fn", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2",
    "float8_e5m2fnuz",
]  # fmt: skip
NUMBERS = np.array([0.0, 1.0, 1.5, 3.0, -1.0, -2.0, 0.3], np.float32)


def _agree(program):
    names = []

    def widened(jax):
        leaves = jax.tree.leaves(program(jax))
        names.append([x.dtype.name for x in leaves])
        return [np.asarray(x).astype(np.float32) for x in leaves]

    agree(widened)
    assert names[0] == names[-1]


# XLA's compiler for the CPU ends the process on some operators of small integers: NumPy is the oracle, with wide ones.
@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize(
    "program",
    [
        lambda np, a: a + a,
        lambda np, a: a * 3 - 1,
        lambda np, a: -a,
        lambda np, a: a // np.ones_like(a),
        lambda np, a: np.sort(a),
        lambda np, a: np.where(a > 0, a, 0),
        lambda np, a: np.concatenate([a, a]),
        lambda np, a: np.stack([a, a])[:, ::-1],
        lambda np, a: np.max(a),
        lambda np, a: np.take(a, np.array([3, 0])),
        lambda np, a: a @ a,
        lambda np, a: a & ~a,
        lambda np, a: a << 1,
        lambda np, a: a >> 1,
        lambda np, a: np.pad(a, 1, constant_values=1),
        lambda np, a: np.tril(a.reshape(4, 4)),
        lambda np, a: a.reshape(4, 4).T,
    ],
)
def test_small_integers_wrap_around(dtype, program):
    kind = np.dtype(getattr(ml_dtypes, dtype))
    values = np.arange(-5, 11).astype(kind)
    found = np.asarray(program(jnp, jnp.asarray(values)))
    assert found.dtype == kind
    np.testing.assert_array_equal(found, program(np, values.astype(np.int32)).astype(kind))


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize(
    "program",
    [
        lambda jnp, a: a < jnp.ones_like(a),
        lambda jnp, a: a.astype("int32"),
        lambda jnp, a: a.astype("bool"),
        lambda jnp, a: a.astype("float8_e5m2"),
        lambda jnp, a: jnp.full(2, 21, a.dtype),
    ],
)
def test_small_integers_give_what_they_do_in_jax(dtype, program):
    _agree(lambda jax: program(jax.numpy, jax.numpy.arange(-5, 11).astype(dtype)))


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
def test_conversion_from_floats_saturates_or_rounds(dtype):
    values = np.concatenate([np.linspace(-20, 20, 333), np.linspace(-0.1, 0.1, 77), [np.nan, -0.0, 1e6, -1e6]])
    _agree(lambda jax: jax.numpy.asarray(values.astype(np.float32)).astype(dtype))


@pytest.mark.parametrize("dtype", FLOATS)
def test_conversion_to_a_float_is_that_of_ml_dtypes(dtype):
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.normal(size=2000), 100 * rng.normal(size=2000), 0.01 * rng.normal(size=2000)])
    values = values.astype(np.float32)
    with np.errstate(all="ignore"):
        wanted = values.astype(getattr(ml_dtypes, dtype))
    found = np.asarray(jnp.asarray(values).astype(dtype))
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found.view(np.uint8), wanted.view(np.uint8))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    "program",
    [
        lambda jnp, a: a + a,
        lambda jnp, a: a * 2,
        lambda jnp, a: a / (a + 1),
        lambda jnp, a: jnp.sin(a),
        lambda jnp, a: jnp.sort(a),
        lambda jnp, a: a > 1,
        lambda jnp, a: a[::-1],
        lambda jnp, a: jnp.where(a > 1, a, 0),
        lambda jnp, a: jnp.maximum(a, a[::-1]),
        lambda jnp, a: jnp.stack([a, a]),
        lambda jnp, a: a.astype("int4"),
        lambda jnp, a: jnp.isnan(a),
    ],
)
def test_floats_round_after_each_operator(dtype, program):
    _agree(lambda jax: program(jax.numpy, jax.numpy.asarray(NUMBERS).astype(dtype)))


@pytest.mark.parametrize("dtype", ["int4", "uint4", "float4_e2m1fn", "float8_e4m3", "float8_e5m2"])
@pytest.mark.parametrize(
    "program",
    [
        lambda jax, a: jax.jit(lambda x: x * x + 1)(a) + a,
        lambda jax, a: jax.jit(lambda x: x.astype(a.dtype) + 1)(jax.numpy.arange(3.0)),
        lambda jax, a: jax.vmap(lambda x: x * x)(a) + a,
        lambda jax, a: jax.vmap(lambda x: x.astype(a.dtype))(jax.numpy.arange(3.0)) + a[:3],
        lambda jax, a: jax.lax.scan(lambda c, x: (c + x, c * x), a[0], a),
        lambda jax, a: jax.lax.fori_loop(0, 3, lambda i, x: x + x, a),
        lambda jax, a: jax.lax.cond(a[1] > 0, lambda x: x + x, lambda x: x, a),
        lambda jax, a: jax.jit(jax.vmap(lambda x, y: jax.numpy.where(x > y, x, y), (0, None)))(a, a[1]),
        lambda jax, a: jax.pure_callback(lambda x: x, jax.ShapeDtypeStruct(a.shape, a.dtype), a),
    ],
)
def test_transformations_and_loops_of_narrow_arrays(dtype, program):
    _agree(lambda jax: program(jax, jax.numpy.asarray(NUMBERS).astype(dtype)))


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
@pytest.mark.parametrize("transform", [lambda jax, f: f, lambda jax, f: jax.jit(f)])
def test_elements_are_combined(dtype, transform):
    def program(jax):
        x, updates = (jax.numpy.array(v).astype(dtype) for v in ([1, 0, -1, 1], [1, 1, -1]))
        ids, inside = np.array([0, 0, 2, 5], "int32"), x > 0

        def combined(x, updates):
            segments = [getattr(jax.ops, f"segment_{n}")(x, ids, 4) for n in ("sum", "prod", "max", "min")]
            updated = [getattr(x.at[ids[1:]], name)(updates) for name in ("set", "add", "max", "min", "mul")]
            extrema = [f(x, initial=1, where=inside) for f in (jax.numpy.max, jax.numpy.min)]
            return *segments, *updated, *extrema, jax.numpy.take(x, ids, mode="fill")

        return transform(jax, combined)(x, updates)

    _agree(program)


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_derivatives_pass_through_conversions_to_torchs_floats(dtype):
    agree(lambda jax: jax.grad(lambda x: (x.astype(dtype) * 2).astype("float32").sum())(jax.numpy.ones(3)))
    agree(lambda jax: jax.grad(jax.jit(lambda x: (x.astype(dtype) * 2).astype("float32").sum()))(jax.numpy.ones(3)))


@pytest.mark.parametrize("transform", [lambda f: f, jaxish.jit])
def test_derivatives_of_floats_that_torch_has_not_are_refused(transform):
    with pytest.raises(NotImplementedError, match="float8_e4m3fn or bfloat16"):
        jaxish.grad(transform(lambda x: x.astype("float8_e3m4").astype("float32").sum()))(jnp.ones(2))
    with pytest.raises(NotImplementedError, match="float8_e4m3fn or bfloat16"):
        jaxish.grad(lambda x: x[0] * x[0])(jnp.ones(2, "float8_e3m4"))


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("int8", "int4"),
        ("int32", "uint2"),
        ("int4", "uint8"),
        ("uint2", "uint4"),
        ("int4", "uint4"),
        ("int8", "float4_e2m1fn"),
    ],
)
def test_views_pack_and_unpack_bits(source, target):
    _agree(lambda jax: jax.numpy.arange(8).astype(source).view(target))


def test_narrow_arrays_are_printed_and_read_as_in_jax():
    agree(lambda jax: repr(jax.numpy.array([1, -8], dtype="int4")) == "Array([ 1, -8], dtype=int4)")
    agree(lambda jax: int(jax.numpy.array(-3, "int4")))
    agree(lambda jax: jax.numpy.array([1, 2], "int4").nbytes)
    agree(lambda jax: jax.numpy.array([1, 2], "int4") + jax.numpy.ones(2, "int8"))
    agree(lambda jax: jax.numpy.issubdtype("uint4", jax.numpy.unsignedinteger))
    agree(lambda jax: jax.numpy.isdtype(jax.numpy.int4, "signed integer"))
    agree(lambda jax: str(jax.make_jaxpr(lambda x: x.astype("int4"))(jax.numpy.ones(2))))


def test_torch_gets_the_tensors_whose_dtypes_it_has():
    tensor = torch.tensor([1.5, 2.0]).to(torch.float8_e5m2)
    array = jaxish.from_torch(tensor)
    assert type((array + array).to_torch()) is torch.Tensor
    assert (array + array).to_torch().tolist() == [3.0, 4.0]
    with pytest.raises(TypeError, match="bfloat16"):
        array.astype("float4_e2m1fn").to_torch()
    with pytest.raises(TypeError, match="from_torch takes"):
        jaxish.from_torch(torch.zeros(2, dtype=torch.uint8).view(torch.float4_e2m1fn_x2))


@pytest.mark.parametrize("dtype", ["int4", "float4_e2m1fn", "float8_e5m2"])
def test_narrow_arrays_are_pickled_and_copied(dtype):
    array = jnp.asarray(NUMBERS).astype(dtype)
    for copy in (
        pickle.loads(pickle.dumps(array)),
        jaxish.device_put(array),
        array.copy(),
        jnp.asarray(np.asarray(array)),
    ):
        np.testing.assert_array_equal(np.asarray(copy + copy), np.asarray(array + array))
