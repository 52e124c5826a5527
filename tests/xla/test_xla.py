"""Programs on XLA's devices give what JAX gives on the CPU, and random numbers to the last bit."""

import jax
import numpy as np
import pytest
from oracle import compare_values
from portable_programs import PROGRAMS, program

import jaxish
from jaxish import lax, random
from jaxish import numpy as jnp

jax.config.update("jax_platforms", "cpu")

# Fake tensors of this device keep a dimension that the loop over the columns loses (torch 2.9).
KNOWN = {"qr with pivots"}


@pytest.fixture(autouse=True)
def compiled(monkeypatch):
    before = jaxish.config.jaxish_jit_tier
    jaxish.config.update("jaxish_jit_tier", "auto")
    yield
    jaxish.config.update("jaxish_jit_tier", before)


def plain(library, leaf):
    is_key = library.numpy.issubdtype(leaf.dtype, library.dtypes.prng_key)
    return np.asarray(library.random.key_data(leaf) if is_key else leaf)


@pytest.mark.parametrize("name", [n for n in PROGRAMS if n not in KNOWN])
def test_a_program_gives_there_what_jax_gives(name):
    function, args = program(jaxish, name)
    found = jaxish.tree.leaves(jaxish.jit(function)(*args))
    assert all(d.torch_device.type == "xla" for leaf in found for d in leaf.devices())
    function, args = program(jax, name)
    for f, w in zip(found, jax.tree.leaves(function(*args)), strict=True):
        compare_values(plain(jaxish, f), plain(jax, w), 1e-5, 1e-5)


def test_devices():
    first, *rest = jaxish.devices()
    assert len(rest) == 3 and jaxish.default_backend() == first.platform == "xla"
    assert jnp.ones(3).devices() == {first} == random.key(0).devices()
    assert jaxish.devices("cpu")[0].platform == "cpu"


def test_an_array_is_put_on_a_device_and_computed_with_there():
    third = jaxish.devices()[2]
    x = jaxish.device_put(np.arange(3, dtype=np.float32), third)
    y = jaxish.jit(lambda x: jnp.sin(x) + x)(x)
    assert x.devices() == y.devices() == (x + x).devices() == {third}
    np.testing.assert_allclose(y, np.sin(np.arange(3.0)) + np.arange(3), rtol=1e-6)
    back = jaxish.device_put(y, jaxish.devices("cpu")[0])
    assert back.devices() == {jaxish.devices("cpu")[0]}


def test_the_default_device():
    with jaxish.default_device(jaxish.devices("cpu")[0]):
        assert jnp.ones(2).devices() == {jaxish.devices("cpu")[0]}
        assert jaxish.jit(lambda x: x + 1)(jnp.ones(2)).tolist() == [2.0, 2.0]
    assert jnp.ones(2).devices() == {jaxish.devices()[0]}


@pytest.mark.parametrize("draw", ["bits", "uniform", "normal", "exponential", "gumbel", "split"])
def test_random_numbers_are_jax_s_to_the_last_bit(draw):
    shape = 7 if draw == "split" else (10,)
    wanted = getattr(jax.random, draw)(jax.random.key(3), shape)
    for call in (getattr(random, draw), jaxish.jit(getattr(random, draw), static_argnums=1)):
        np.testing.assert_array_equal(plain(jaxish, call(random.key(3), shape)), plain(jax, wanted))


def test_inputs_that_were_equal_at_the_first_call_are_two():
    x = jnp.arange(3.0)
    for first, second in ((jnp.float32(2), jnp.float32(2)), (x, x), (jnp.zeros(3), jnp.zeros(3))):
        f = jaxish.jit(lambda a, b: (a, a - b, b))
        f(first, second)
        assert np.array_equal(f(first * 3 + 1, second)[1], np.asarray(first) * 2 + 1)
        assert np.array_equal(f(first, second * 3 + 1)[2], np.asarray(second) * 3 + 1)


def test_graphs_that_differ_in_which_input_they_read_are_two():
    a, b = jnp.float32(7), jnp.float32(2)
    for f, wanted in ((lambda a, b: (a - b, a * 3), 21), (lambda a, b: (a - b, b * 3), 6)):
        assert jaxish.jit(f)(a, b)[1] == wanted == f(a, b)[1]
        assert f(a, b)[0] == 5


def test_eager_functions_and_transformations():
    x = jnp.arange(4.0)
    assert (x * 2 + 1).tolist() == [1.0, 3.0, 5.0, 7.0]
    assert jaxish.grad(lambda x: (x**3).sum())(x).tolist() == [0.0, 3.0, 12.0, 27.0]
    assert jaxish.vmap(lambda a: a * x)(x).tolist() == np.outer(np.arange(4.0), np.arange(4.0)).tolist()
    assert lax.fori_loop(0, 3, lambda i, c: c * 2, jnp.float32(1)) == 8
    assert x.at[1].set(7.0).tolist() == [0.0, 7.0, 2.0, 3.0]


@pytest.mark.parametrize("by", [0, 1, 13, 31])
def test_shifts_to_the_right_keep_the_sign(by):
    values = np.array([-(2**31), -5, -1, 0, 1, 5, 2**31 - 1], np.int32)
    assert (jnp.asarray(values) >> by).tolist() == (values >> by).tolist()
    assert jnp.right_shift(jnp.asarray(values), jnp.full(7, by)).tolist() == (values >> by).tolist()


@pytest.mark.parametrize("dtype", ["uint32", "int32", "float32", "uint16", "uint8", "int8", "bfloat16"])
def test_bits_seen_as_another_dtype(dtype):
    def seen(library):
        words = library.numpy.asarray(np.array([2**31 + 5, 7, 2**20 + 3], np.uint32))
        return np.asarray(library.lax.bitcast_convert_type(words, dtype)).view(np.uint8)

    np.testing.assert_array_equal(seen(jaxish), seen(jax))


def test_bits_seen_as_complex_numbers_and_back():
    values = np.arange(8, dtype=np.float32)
    seen = jaxish.jit(lambda x: jnp.asarray(x).view("complex64"))(values)
    np.testing.assert_array_equal(seen, values.view(np.complex64))
    np.testing.assert_array_equal(jaxish.jit(lambda x: x.view("float32"))(seen), values)


def test_a_graph_with_an_operator_of_the_host():
    def f(x):
        return lax.fori_loop(0, 2, lambda i, x: jnp.linalg.cholesky(x @ x.T + jnp.eye(2)), x)

    with jax.default_device(jax.devices("cpu")[0]):
        wanted = jnp_of(jax)
    np.testing.assert_allclose(jaxish.jit(f)(jnp.array([[2.0, 0.5], [0.5, 1.0]])), wanted, rtol=1e-5)


def jnp_of(library):
    x, np_ = library.numpy.array([[2.0, 0.5], [0.5, 1.0]]), library.numpy
    return library.lax.fori_loop(0, 2, lambda i, x: np_.linalg.cholesky(x @ x.T + np_.eye(2)), x)
