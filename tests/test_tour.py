"""A page of small programs that show every capability once. It runs in seconds, before all other tests."""

import numpy as np
import pytest

import jaxish as jax
import jaxish.numpy as jnp
from jaxish import lax, random


def test_an_array_is_immutable_and_prints_as_jax_prints_it():
    x = jnp.arange(3.0)
    assert repr(x) == "Array([0., 1., 2.], dtype=float32)"
    with pytest.raises(TypeError, match=r"x\.at\[idx\]\.set"):
        x[0] = 1
    assert x.at[0].set(5.0).tolist() == [5.0, 1.0, 2.0]


def test_64_bits_are_off_by_default():
    with pytest.warns(UserWarning, match="float64"):
        assert jnp.zeros(2, jnp.float64).dtype == np.float32
    with jax.enable_x64(True):
        assert jnp.zeros(2, jnp.float64).dtype == np.float64


def test_a_gradient():
    assert f"{jax.grad(jnp.tanh)(1.0):.7f}" == "0.4199743"


def test_a_third_derivative():
    # d^3 tanh = (4 tanh^2 - 2 sech^2) sech^2
    t = np.tanh(1.0)
    assert np.isclose(jax.grad(jax.grad(jax.grad(jnp.tanh)))(1.0), (4 * t**2 - 2 * (1 - t**2)) * (1 - t**2))


def test_a_batched_function():
    assert jax.vmap(jnp.square)(jnp.arange(4)).tolist() == [0, 1, 4, 9]


def test_the_gradient_of_a_sum_of_logistics():
    def sum_logistic(x):
        return jnp.sum(1.0 / (1.0 + jnp.exp(-x)))

    x = np.arange(3.0)
    wanted = np.exp(-x) / (1 + np.exp(-x)) ** 2
    np.testing.assert_allclose(jax.grad(sum_logistic)(jnp.arange(3.0)), wanted, rtol=1e-6)


def test_selu_with_and_without_jit():
    def selu(x, alpha=1.67, lmbda=1.05):
        return lmbda * jnp.where(x > 0, x, alpha * jnp.exp(x) - alpha)

    x = np.array([-1.0, 0.0, 2.0], np.float32)
    wanted = 1.05 * np.where(x > 0, x, 1.67 * np.exp(x) - 1.67)
    np.testing.assert_allclose(selu(jnp.asarray(x)), wanted, rtol=1e-6)
    np.testing.assert_allclose(jax.jit(selu)(jnp.asarray(x)), wanted, rtol=1e-6)


def test_gradient_descent_by_hand():
    def f(x):
        return x * x

    x = 1.0
    for _ in range(10):
        x -= 0.1 * jax.grad(f)(x)
    assert np.isclose(x, 0.8**10)


def test_a_hessian_by_forward_over_reverse():
    def f(x):
        return jnp.sum(x**3)

    hessian = jax.jit(jax.jacfwd(jax.jacrev(f)))(jnp.array([1.0, 2.0]))
    np.testing.assert_allclose(hessian, np.diag([6.0, 12.0]))


def test_per_example_gradients():
    def loss(params, x, y):
        return (jnp.dot(params, x) - y) ** 2

    params, xs, ys = jnp.ones(2), jnp.array([[1.0, 2.0], [3.0, 4.0]]), jnp.array([1.0, 2.0])
    from functools import partial

    gradients = jax.vmap(partial(jax.grad(loss), params))(xs, ys)
    np.testing.assert_allclose(gradients, [[4.0, 8.0], [30.0, 40.0]])


def test_python_control_flow_outside_jit_and_its_error_inside():
    def abs_val(x):
        return x if x > 0 else -x

    assert jax.grad(abs_val)(3.0) == 1.0
    assert jax.grad(abs_val)(-3.0) == -1.0
    with pytest.raises(jax.errors.TracerBoolConversionError, match="argument x"):
        jax.jit(abs_val)(3.0)


def test_a_loop_and_its_gradient():
    def power(x):
        return lax.scan(lambda c, _: (c * x, c), 1.0, None, length=5)[0]

    assert np.isclose(jax.jit(jax.grad(power))(2.0), 5 * 2.0**4)


def test_a_branch():
    f = jax.jit(lambda p, x: lax.cond(p, jnp.sin, jnp.cos, x))
    assert np.isclose(f(True, 1.0), np.sin(1.0))
    assert np.isclose(f(False, 1.0), np.cos(1.0))


def test_a_random_number_is_a_pure_function_of_its_key():
    key = random.key(0)
    # The value that JAX 0.10.2 gives.
    np.testing.assert_array_equal(random.uniform(key, (2,)), np.array([0.947667, 0.9785799], np.float32))
    assert random.uniform(key) == random.uniform(key)


def test_a_derivative_of_ones_own():
    @jax.custom_jvp
    def f(x):
        return jnp.sin(x)

    f.defjvp(lambda primals, tangents: (f(*primals), 10.0 * tangents[0]))
    assert jax.jit(jax.grad(f))(1.0) == 10.0


def test_a_pytree_of_parameters():
    tree = {"w": jnp.ones(2), "b": (1.0, None)}
    assert jax.tree.map(lambda x: x * 2, tree)["b"] == (2.0, None)
    assert str(jax.tree.structure(tree)) == "PyTreeDef({'b': (*, None), 'w': *})"


def test_a_graph_can_be_looked_at():
    assert "sin a" in str(jax.make_jaxpr(jnp.sin)(1.0))


def test_a_device():
    assert jax.devices()[0].platform in ("cpu", "gpu")
    assert jax.device_put(np.ones(2)).devices() == {jax.devices()[0]}
