"""Random numbers under jit, vmap, grad and the loops: the same numbers, and JAX's gradients."""

from functools import partial

import numpy as np
import pytest
from oracle import agree

exactly = partial(agree, rtol=0, atol=0)
A = np.linspace(0.5, 4, 6).astype("float32")

SAMPLERS = {
    "bits": lambda j, k: j.random.bits(k, (7,)),
    "uniform": lambda j, k: j.random.uniform(k, (7,), minval=-1.0, maxval=3.0),
    "normal": lambda j, k: j.random.normal(k, (7,)),
    "randint": lambda j, k: j.random.randint(k, (7,), 0, 100),
    "bernoulli": lambda j, k: j.random.bernoulli(k, 0.3, (7,)),
    "permutation": lambda j, k: j.random.permutation(k, 9),
    "choice": lambda j, k: j.random.choice(k, 9, (4,), p=np.ones(9, "float32") / 9),
    "categorical": lambda j, k: j.random.categorical(k, A, shape=(5,)),
    "poisson": lambda j, k: j.random.poisson(k, A * 8),
    "binomial": lambda j, k: j.random.binomial(k, np.floor(A * 30), 0.4),
    "split": lambda j, k: j.random.key_data(j.random.split(k, 3)),
    "fold_in": lambda j, k: j.random.key_data(j.random.fold_in(k, 3)),
}


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
def test_jit_vmap_and_scan_give_the_same_numbers(name, impl):
    if (name, impl) == ("poisson", "rbg"):
        pytest.skip("JAX has no Poisson samples of rbg keys")
    sample = SAMPLERS[name]
    exactly(lambda j: j.jit(lambda k: sample(j, k))(j.random.key(3, impl=impl)))
    if impl == "threefry2x32":
        exactly(lambda j: j.vmap(lambda k: sample(j, k))(j.random.split(j.random.key(3), 4)))
        exactly(lambda j: j.vmap(j.vmap(lambda k: sample(j, k)))(j.random.split(j.random.key(3), (2, 3))))
        exactly(lambda j: j.jit(j.vmap(lambda k: sample(j, k)))(j.random.split(j.random.key(3), 4)))
    exactly(lambda j: j.lax.scan(lambda k, _: (k, sample(j, k)), j.random.key(3, impl=impl), None, length=2)[1])


def test_vmap_over_rbg_keys_draws_from_the_first_as_in_jax():
    exactly(lambda j: j.vmap(lambda k: j.random.bits(k, (7,)))(j.random.split(j.random.key(3, impl="rbg"), 4)))


def test_vmap_over_parameters():
    exactly(lambda j: j.vmap(lambda a: j.random.uniform(j.random.key(1), (5,), minval=a, maxval=5.0))(A))
    exactly(
        lambda j: j.vmap(lambda a, k: j.random.randint(k, (5,), 0, a))(
            np.arange(1, 5), j.random.split(j.random.key(1), 4)
        )
    )
    exactly(lambda j: j.vmap(lambda a: j.random.poisson(j.random.key(1), a, (5,)))(A * 8))
    exactly(lambda j: j.vmap(lambda p: j.random.bernoulli(j.random.key(1), p, (5,)))(A / 8))
    agree(lambda j: j.vmap(lambda a: j.random.gamma(j.random.key(1), a, (5,)))(A))


GRADIENTS = {
    "uniform": lambda j, k, a: j.random.uniform(k, (5,), minval=a, maxval=9.0),
    "truncated_normal": lambda j, k, a: j.random.truncated_normal(k, -a, a, (5,)),
    "gamma": lambda j, k, a: j.random.gamma(k, a, (5,)),
    "loggamma": lambda j, k, a: j.random.loggamma(k, a, (5,)),
    "beta": lambda j, k, a: j.random.beta(k, a, 2.0, (5,)),
    "dirichlet": lambda j, k, a: j.random.dirichlet(k, a * np.ones(3, "float32"), (5,))[:, 0],
    "t": lambda j, k, a: j.random.t(k, a, (5,)),
    "chisquare": lambda j, k, a: j.random.chisquare(k, a, (5,)),
    "lognormal": lambda j, k, a: j.random.lognormal(k, a, (5,)),
    "pareto": lambda j, k, a: j.random.pareto(k, a, (5,)),
    "rayleigh": lambda j, k, a: j.random.rayleigh(k, j.numpy.asarray(a), (5,)),
    "wald": lambda j, k, a: j.random.wald(k, j.numpy.asarray(a), (5,)),
    "triangular": lambda j, k, a: j.random.triangular(k, 0.0, a, 9.0, (5,)),
    "weibull_min": lambda j, k, a: j.random.weibull_min(k, a, 2.0, (5,)),
    "multivariate_normal": lambda j, k, a: j.random.multivariate_normal(
        k, np.zeros(2), a * np.eye(2, dtype="float32"), (5,)
    ),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_in_the_parameters(name):
    sample = GRADIENTS[name]
    agree(lambda j: j.grad(lambda a: (sample(j, j.random.key(3), a) ** 2).sum())(1.3), rtol=1e-4)
    agree(lambda j: j.jvp(lambda a: sample(j, j.random.key(3), a), (1.3,), (1.0,))[1], rtol=1e-4, atol=1e-5)
    agree(lambda j: j.vmap(j.grad(lambda a: sample(j, j.random.key(3), a).sum()))(A), rtol=1e-4, atol=1e-5)


def test_a_key_threads_through_loops():
    def walk(j):
        def step(carry):
            i, k, x = carry
            k, own = j.random.split(k)
            return i + 1, k, x + j.random.normal(own)

        return j.lax.while_loop(lambda c: c[0] < 5, step, (0, j.random.key(3), 0.0))[2]

    agree(walk)
    agree(lambda j: j.jit(lambda: walk(j))())
