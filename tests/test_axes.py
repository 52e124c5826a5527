"""Axes, and positions of arguments, in whatever integers and iterables they come: NumPy's, arrays, sets."""

import numpy as np
import pytest
from oracle import agree

pytestmark = pytest.mark.usefixtures("unoptimized_jax")

CUBE = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
# How two axes may be given, as functions of jax.
SEVERAL = {
    "array": lambda jax: jax.numpy.array([0, 1]),
    "NumPy's array": lambda jax: np.array([0, 1]),
    "set": lambda jax: {0, 1},
    "NumPy's integers": lambda jax: [np.int64(0), np.int32(1)],
}
OF_SEVERAL = {
    "sum": lambda jax, axes: jax.numpy.sum(CUBE, axes),
    "flip": lambda jax, axes: jax.numpy.flip(CUBE, axes),
    "squeeze": lambda jax, axes: jax.numpy.squeeze(CUBE[:1, :1], axes),
    "expand_dims": lambda jax, axes: jax.numpy.expand_dims(CUBE, axes),
    "moveaxis": lambda jax, axes: jax.numpy.moveaxis(CUBE, axes, [1, 2]),
    "roll": lambda jax, axes: jax.numpy.roll(CUBE, (1, 2), axes),
    "fftshift": lambda jax, axes: jax.numpy.fft.fftshift(CUBE, axes),
    "vector_norm": lambda jax, axes: jax.numpy.linalg.vector_norm(CUBE, axis=axes),
}
# How one may be.
ONE = {
    "NumPy's integer": lambda jax: np.int64(1),
    "NumPy's array": lambda jax: np.array(1),
    "array": lambda jax: jax.numpy.array(1),
}
OF_ONE = {
    "cumsum": lambda jax, axis: jax.lax.cumsum(CUBE, axis),
    "vecdot": lambda jax, axis: jax.numpy.vecdot(CUBE, CUBE, axis=axis),
    "dctn": lambda jax, axis: jax.scipy.fft.dctn(CUBE, axes=axis),
    "softmax": lambda jax, axis: jax.nn.softmax(jax.numpy.asarray(CUBE), axis),
}
# What takes NumPy's integers, and no arrays.
OF_INTEGERS = {
    "logsumexp": lambda jax, n: jax.nn.logsumexp(jax.numpy.asarray(CUBE), n),
    "log_softmax": lambda jax, n: jax.nn.log_softmax(jax.numpy.asarray(CUBE), n),
    "standardize": lambda jax, n: jax.nn.standardize(jax.numpy.asarray(CUBE), n),
    "one_hot": lambda jax, n: jax.nn.one_hot(jax.numpy.arange(3), 3, axis=n),
    "scan": lambda jax, n: jax.lax.scan(lambda c, x: (c + x, c), 0.0, jax.numpy.arange(4.0), unroll=n),
    "fori_loop": lambda jax, n: jax.lax.fori_loop(0, 4, lambda i, c: c + i, 0, unroll=n),
    "static": lambda jax, n: jax.jit(lambda x, y: x * y, static_argnums=n)(2.0, 3),
    "donated": lambda jax, n: jax.jit(lambda x, y: x * y, donate_argnums=n)(2.0, 3.0),
    "pmap": lambda jax, n: jax.pmap(lambda x, y: x * y, static_broadcasted_argnums=n)(jax.numpy.ones(1), 3),
}


@pytest.mark.parametrize("name", OF_SEVERAL)
@pytest.mark.parametrize("given", SEVERAL)
def test_axes_may_be_any_iterable_of_integers(name, given):
    agree(lambda jax: OF_SEVERAL[name](jax, SEVERAL[given](jax)))


@pytest.mark.parametrize("name", OF_ONE)
@pytest.mark.parametrize("given", ONE)
def test_an_axis_may_be_an_array_of_one_integer(name, given):
    agree(lambda jax: OF_ONE[name](jax, ONE[given](jax)))


@pytest.mark.parametrize("name", OF_INTEGERS)
def test_numbers_of_axes_steps_and_arguments_may_be_numpys(name):
    agree(lambda jax: OF_INTEGERS[name](jax, np.int64(1)))


@pytest.mark.parametrize("given", [{0, 1}, np.array([0, 1])], ids=["set", "array"])
def test_arguments_to_differentiate_for_may_be_any_iterable(given):
    agree(lambda jax: jax.grad(lambda x, y: x * y * y, argnums=given)(2.0, 3.0))


def test_fans_of_an_initializer_may_be_those_of_an_array_of_axes():
    init = lambda jax: jax.nn.initializers.lecun_normal(in_axis=np.array([0, 1]), out_axis=2)
    agree(lambda jax: init(jax)(jax.random.key(0), (2, 3, 4)))


def test_what_is_rolled_or_standardized_along_no_axis_is_as_by_jax():
    agree(lambda jax: jax.numpy.roll(CUBE, 1, ()))
    agree(lambda jax: jax.nn.standardize(jax.numpy.asarray(CUBE), ()))
    agree(lambda jax: jax.nn.standardize(jax.numpy.asarray(CUBE), (), where=CUBE > 3))


@pytest.mark.parametrize("mode", ["raise", "wrap", "clip"])
def test_indices_to_ravel_may_be_the_rows_of_an_array(mode):
    rows = [[0, 1, 2], [1, 1, 0]]
    agree(lambda jax: jax.numpy.ravel_multi_index(jax.numpy.array(rows), (3, 3), mode=mode))
    agree(lambda jax: jax.numpy.ravel_multi_index(np.array(rows), np.array([3, 3]), mode=mode))
