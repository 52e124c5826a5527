"""jax.test_util: derivatives held against finite differences, wrong ones found."""

import functools

import jax
import jax.test_util
import numpy as np
import pytest
from oracle import agree

import jaxish
import jaxish.test_util


def smooth(lib, tree):
    return {"a": lib.numpy.sin(tree["a"]) * tree["b"], "b": tree["b"] ** 3}


TREE = {"a": np.linspace(0.1, 1.0, 6, dtype=np.float32).reshape(2, 3), "b": np.float32(1.5)}


@pytest.mark.parametrize("modes", [("fwd",), ("rev",), ("lin",), ("fwd", "rev")])
@pytest.mark.parametrize("order", [1, 2])
def test_check_grads_passes_right_derivatives(modes, order):
    def program(lib):
        return lib.test_util.check_grads(functools.partial(smooth, lib), (TREE,), order, modes, atol=1e-2, rtol=1e-2)

    agree(program)


@pytest.mark.parametrize("value", [1.5, 2.0 - 1.0j, np.complex64(0.3 + 0.4j), np.arange(1.0, 4.0, dtype=np.float16)])
def test_check_grads_of_scalars_and_dtypes(value):
    eps = 1e-1 if getattr(value, "dtype", None) == np.float16 else None
    agree(lambda lib: lib.test_util.check_grads(lambda x: x * x * 0.5, (value,), 1, eps=eps))


def wrong(lib, slope):
    @lib.custom_jvp
    def f(x):
        return lib.numpy.sin(x)

    f.defjvp(lambda primals, tangents: (f(*primals), slope * lib.numpy.cos(primals[0]) * tangents[0]))
    return f


@pytest.mark.parametrize("slope", [1.0, 1.1])
@pytest.mark.parametrize("modes", [("fwd",), ("rev",), ("lin",)])
def test_wrong_derivatives_are_found(slope, modes):
    agree(lambda lib: lib.test_util.check_grads(wrong(lib, slope), (np.float32(0.7),), 1, modes))


@pytest.mark.parametrize("tolerance", [0.5, {np.float32: 0.5}])
def test_tolerances_are_numbers_or_go_by_dtype(tolerance):
    agree(
        lambda lib: lib.test_util.check_grads(
            wrong(lib, 1.1), (np.float32(0.7),), 1, ("fwd",), atol=tolerance, rtol=tolerance
        )
    )


@pytest.mark.parametrize("factor", [1.0, 1.2])
def test_check_jvp_and_check_vjp_take_derivatives_to_check(factor):
    x = (np.float32(0.4),)

    def pushed(lib, primals, tangents):
        return lib.numpy.sin(*primals), factor * lib.numpy.cos(*primals) * tangents[0]

    def pulled(lib, x):
        return lib.numpy.sin(x), lambda ct: (factor * lib.numpy.cos(x) * ct,)

    agree(lambda lib: lib.test_util.check_jvp(lib.numpy.sin, functools.partial(pushed, lib), x))
    agree(lambda lib: lib.test_util.check_vjp(lib.numpy.sin, functools.partial(pulled, lib), x))


def test_check_vjp_draws_jax_directions():
    def program(lib):
        drawn = []

        def pulled(*primals):
            value, pullback = lib.vjp(lambda x, y: x * y, *primals)
            return value, lambda cotangent: (drawn.append(np.asarray(cotangent)), pullback(cotangent))[1]

        lib.test_util.check_vjp(lambda x, y: x * y, pulled, (np.arange(3, dtype=np.float32), np.float32(2)))
        return drawn

    agree(program)


def test_dtypes_of_tangents_are_checked():
    def pushed(lib, primals, tangents):
        return primals[0] * 2, (tangents[0] * 2).astype("float16")

    agree(lambda lib: lib.test_util.check_jvp(lambda x: x * 2, functools.partial(pushed, lib), (np.float32(1),)))


def test_the_messages_say_which_derivative():
    for lib in (jax, jaxish):
        with pytest.raises(AssertionError, match="VJP cotangent projection"):
            lib.test_util.check_grads(wrong(lib, 1.1), (np.float32(0.7),), 1, ("rev",))
