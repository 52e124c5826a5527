"""What samplers are given: parameters and dtypes at the edges, and what is refused, with JAX's class of error."""

import jax
import numpy as np
import pytest
from oracle import agree

import jaxish

PROGRAMS = [
    lambda j, r, k: r.weibull_min(k, 1.0, 0.0),
    lambda j, r, k: r.weibull_min(k, 2, 3, (4,)),
    lambda j, r, k: r.weibull_min(k, 1.0, 2**31),
    lambda j, r, k: r.weibull_min(k, [1.0], 2.0),
    lambda j, r, k: r.generalized_normal(k, 0.0, (3,)),
    lambda j, r, k: r.generalized_normal(k, np.array([0.5, 1.0, 2.0], np.float32), (3,)),
    lambda j, r, k: r.generalized_normal(k, np.ones((1, 3), np.float32), (3,)),
    lambda j, r, k: r.generalized_normal(k, np.ones(2, np.float32), (3,)),
    lambda j, r, k: r.ball(k, 2, 0.0, (3,)),
    lambda j, r, k: r.ball(k, -1),
    lambda j, r, k: r.dirichlet(k, np.ones((2, 0), np.float32), (3, 2)),
    lambda j, r, k: r.orthogonal(k, -1),
    lambda j, r, k: r.orthogonal(k, 2, dtype="int32"),
    lambda j, r, k: r.poisson(k, 4.0, dtype="float32"),
    lambda j, r, k: r.poisson(k, 4.0, dtype=bool),
    lambda j, r, k: r.poisson(k, np.array([4.0, 4e9, 1e12, np.nan, 0.0], np.float32), dtype="uint32"),
    lambda j, r, k: r.poisson(k, 40.0, (5,), dtype="uint16"),
    lambda j, r, k: r.multinomial(k, 10.0, np.array([0.2, 0.8], np.float32), shape=()),
    lambda j, r, k: r.multinomial(k, 10.0, np.array([0.2, 0.8], np.float32), shape=(2, 3)),
    lambda j, r, k: r.gamma(k, k),
    lambda j, r, k: r.poisson(k, k),
    lambda j, r, k: r.uniform(k, (3,), minval=k),
    lambda j, r, k: r.truncated_normal(k, k, 3.0),
    lambda j, r, k: r.geometric(k, k),
    lambda j, r, k: r.binomial(k, k, 0.3),
    lambda j, r, k: r.binomial(k, 5.0, k),
    lambda j, r, k: k.item(),
    lambda j, r, k: r.choice(k, 5, (2,), False, axis=1),
    lambda j, r, k: r.choice(k, 5, (2,), True, axis=1),
    lambda j, r, k: [r.choice(k, j.numpy.arange(4) + 1j, (2,), again) for again in (True, False)],
    lambda j, r, k: [r.choice(k, j.numpy.full((4, 4), 2.0), (2,), again, axis=1) for again in (True, False)],
    lambda j, r, k: r.permutation(k, j.numpy.full((4, 4), 2)),
    lambda j, r, k: r.categorical(k, np.zeros((2, 0), np.float32)),
    lambda j, r, k: r.categorical(k, np.zeros((0, 3), np.float32)),
    lambda j, r, k: r.normal(k, np.int32(3)),
    lambda j, r, k: r.gamma(k, 1.0, np.array(3)),
    lambda j, r, k: r.randint(k, j.numpy.array(3), 0, 2),
    lambda j, r, k: r.normal(k, np.array([2, 3])),
    lambda j, r, k: r.normal(k, (np.int32(3),)),
    lambda j, r, k: r.uniform(k, (3,), "float8_e5m2"),
    lambda j, r, k: [
        r.uniform(k, (), "float32", low, high)
        for low, high in [(np.ones(1), np.full(1, 2.0)), (np.ones(1), 2.0), (1.0, np.full((1, 1), 2.0))]
    ],
    lambda j, r, k: j.vmap(r.uniform, (0, None, None, 0, 0))(
        r.split(k, 3), (), j.numpy.float32, np.arange(3.0)[:, None], np.arange(1.0, 4)[:, None]
    ),
    lambda j, r, k: [
        j.vmap(lambda a: r.gamma(a, 2.0))(r.split(r.key(3, impl=name), 3)) for name in ("rbg", "unsafe_rbg")
    ],
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_parameters_at_the_edges(program):
    agree(lambda j: program(j, j.random, j.random.key(42)))


@pytest.mark.parametrize(
    "program",
    [
        lambda j, r, k: r.gamma(k, 1j),
        lambda j, r, k: r.uniform(k, (3,), minval=1j),
        lambda j, r, k: r.truncated_normal(k, 1j, 3.0),
    ],
)
def test_the_imaginary_part_of_a_parameter_is_dropped_with_a_warning(program):
    for library in (jax, jaxish):
        with pytest.warns(np.exceptions.ComplexWarning):
            program(library, library.random, library.random.key(0))


@pytest.mark.parametrize("bounds", [(1j, 5), (0, np.complex64(5)), (0, np.array([5 + 1j, 4], np.complex64))])
def test_complex_bounds_are_deprecated(bounds):
    found = []
    for library in (jax, jaxish):
        with pytest.warns(DeprecationWarning, match="complex to real"):
            found.append(np.asarray(library.random.randint(library.random.key(0), (2,), *bounds)))
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize(
    "draw",
    [
        lambda r, k: r.normal(k, (3,), "float8_e5m2"),
        lambda r, k: r.gamma(k, 2.0, dtype="float8_e4m3fn"),
        lambda r, k: r.bernoulli(k, jaxish.numpy.asarray(0.5, "float8_e5m2")),
        lambda r, k: r.categorical(k, jaxish.numpy.zeros(3, "float8_e5m2")),
    ],
)
def test_samplers_say_that_they_cannot_compute_in_8_bit_floats(draw):
    with pytest.raises(NotImplementedError, match="bfloat16 or float32"):
        draw(jaxish.random, jaxish.random.key(0))
