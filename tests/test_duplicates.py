"""What a program computes twice is computed once in compiled code, and nothing else is taken for the same."""

import numpy as np
import pytest
from oracle import agree

import jaxish
from jaxish._compile import duplicates

X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)


def computing(function, *args):
    """Return how many operators of a function are left."""
    graph = jaxish.jit(function).trace(*args)._program.closed.graph
    return sum(node.op == "call_function" for node in duplicates.merged(graph).module.graph.nodes)


def test_what_is_the_same_is_computed_once():
    jnp = jaxish.numpy
    once = computing(lambda x: jnp.sin(x) * 2, X)
    assert computing(lambda x: jnp.sin(x) * 2 + jnp.sin(x) * 2, X) == once + 1
    assert computing(lambda x: (jnp.sin(x) * 2 + jnp.sin(x) * 2, jnp.sin(x) * 2), X) == once + 1  # a result, and more


def test_results_that_are_equal_have_memory_of_their_own(compiled):
    first, second = jaxish.jit(lambda x: (x + 1, x + 1))(X)
    jaxish.jit(lambda y: y * 2, donate_argnums=0)(first).block_until_ready()
    np.testing.assert_array_equal(second, X + 1)


PROGRAMS = {
    "signs of zeros": lambda jnp, x: (jnp.copysign(x, 0.0), jnp.copysign(x, -0.0)),
    "numbers of other types": lambda jnp, x: (jnp.full(3, 1), jnp.full(3, 1.0), jnp.full(3, True), x + 1, x + True),
    "axes": lambda jnp, x: (x.sum(0) + x.sum(0, keepdims=True), x.sum(1) + x.sum(1), x.max(0) - x.max()),
    "one returned": lambda jnp, x: (jnp.sin(x), jnp.sin(x) * 2, jnp.sin(x).T, jnp.sin(x).T + 1),
    "views": lambda jnp, x: (x.T, x.T, x.T * 2, x[0], x[0] + 1),
    "updates": lambda jnp, x: (jnp.zeros(4).at[0].set(x[0, 0]), jnp.zeros(4), jnp.zeros(4).at[1].add(1)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_else_is(name, compiled):
    agree(lambda j, x: j.jit(lambda x: PROGRAMS[name](j.numpy, x))(x), X)


def test_equal_zeros_that_are_written_into_stay_apart(compiled):
    x, y = (np.random.RandomState(seed).randn(5, 5).astype(np.float32) for seed in range(2))

    def program(j):
        def loss(x, y):
            return j.numpy.sin(j.numpy.histogram2d(x, y, 2, weights=x)[0]).sum()

        return j.jit(j.vmap(j.jacfwd(loss, (0, 1)), (1, 1)))(x, y)

    agree(program)
