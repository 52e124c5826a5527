"""Dtypes against JAX: the whole promotion lattice, weak types, type queries."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracle import agree

import jaxish
from jaxish._core import dtypes

NAMES = [d.name for d in dtypes.TO_TORCH]
TYPES = [*NAMES, int, float, complex, bool]


def result_of(function, *args):
    try:
        return function(*args)
    except Exception as error:
        return type(error).__name__


@pytest.fixture(params=[False, True], ids=["x32", "x64"])
def x64(request):
    with jax.enable_x64(request.param), jaxish.enable_x64(request.param):
        yield


@pytest.mark.filterwarnings("ignore:Explicitly requested dtype")
@pytest.mark.parametrize("mode", ["standard", "strict"])
def test_every_promotion_like_jax(x64, mode):
    with jax.numpy_dtype_promotion(mode), jaxish.numpy_dtype_promotion(mode):
        for a, b in itertools.product(TYPES, repeat=2):
            assert result_of(dtypes.promote_types, a, b) == result_of(jnp.promote_types, a, b), (a, b)


@pytest.mark.filterwarnings("ignore:Explicitly requested dtype")
def test_result_types_and_weakness_like_jax(x64):
    for a, b in itertools.product(TYPES, repeat=2):
        wanted = result_of(lambda x, y: jax.dtypes.result_type(x, y, return_weak_type_flag=True), a, b)
        assert result_of(lambda x, y: dtypes.result_type(x, y, return_weak_type_flag=True), a, b) == wanted, (a, b)


ABSTRACT = [
    np.generic,
    np.number,
    np.integer,
    np.signedinteger,
    np.unsignedinteger,
    np.inexact,
    np.floating,
    np.complexfloating,
]


def test_every_subtype_relation_like_jax():
    for a, b in itertools.product([*NAMES, int, float, *ABSTRACT], [*ABSTRACT, *TYPES]):
        assert result_of(dtypes.issubdtype, a, b) == result_of(jnp.issubdtype, a, b), (a, b)


@pytest.mark.parametrize("value", [1, 1.5, True, 2j, np.int8(3), np.float64(2)])
def test_scalars_have_jax_types(value):
    wanted, found = jnp.asarray(value), jaxish.numpy.asarray(value)
    assert (found.dtype, found.weak_type) == (wanted.dtype, wanted.weak_type)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int8", "uint16", "uint32", "bool", "complex64"])
def test_values_survive_the_way_to_torch_and_back(dtype):
    values = np.arange(5).astype(jnp.dtype(dtype))
    np.testing.assert_array_equal(np.asarray(jaxish.numpy.asarray(values)), values)


def test_a_python_integer_that_does_not_fit_is_an_overflow_error():
    for j in (jax, jaxish):
        with pytest.raises(OverflowError):
            j.numpy.asarray(2**40)


@pytest.mark.parametrize("target", ["int8", "uint8", "int32", "uint32", "int16", "bool"])
def test_conversion_from_float_saturates_like_jax(target):
    values = np.array([0.0, -0.5, 1.9, -1.9, 1e3, -1e3, 1e20, -1e20, np.inf, -np.inf, np.nan], np.float32)
    wanted = np.asarray(jnp.asarray(values).astype(target))
    np.testing.assert_array_equal(np.asarray(jaxish.numpy.asarray(values).astype(target)), wanted)


def test_an_array_in_the_place_of_a_dtype():
    def program(jax):
        with pytest.warns(DeprecationWarning, match="Implicit conversion of an array to a dtype is deprecated"):
            return str(np.dtype(jax.numpy.arange(3)))

    agree(program)


@pytest.mark.parametrize("name", ["logical_and", "bitwise_xor", "maximum", "add", "equal", "less"])
def test_booleans_that_are_combined_are_strong(name):
    def program(j):
        weak = j.numpy.asarray(1.0) < 2  # as comparisons with Python's numbers are
        combined = getattr(j.numpy, name)
        return weak, combined(weak, weak), j.jit(combined)(weak, weak), weak & weak, weak | weak, weak == weak, ~weak

    agree(program)
