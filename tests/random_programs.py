"""Draws that are laid over devices in tests: each is a function of jax (or jaxish) and of options for the sampler."""

import numpy as np


def _key(jax):
    return jax.random.key(7)


# Shapes divide by 8 along both dimensions. What is made whole and then cut stands in WHOLE.
DRAWS = {
    "bits": lambda jax, **o: jax.random.bits(_key(jax), (64, 32), **o),
    "bits of a byte": lambda jax, **o: jax.random.bits(_key(jax), (64, 32), "uint8", **o),
    "uniform": lambda jax, **o: jax.random.uniform(_key(jax), (64, 32), **o),
    "uniform between": lambda jax, **o: jax.random.uniform(
        _key(jax),
        (64, 32),
        minval=-np.arange(64.0, dtype=np.float32)[:, None],
        maxval=np.arange(32.0, dtype=np.float32),
        **o,
    ),
    "normal": lambda jax, **o: jax.random.normal(_key(jax), (64, 32), **o),
    "complex normal": lambda jax, **o: jax.random.normal(_key(jax), (64, 32), "complex64", **o),
    "three dimensions": lambda jax, **o: jax.random.normal(_key(jax), (64, 32, 3), **o),
    "truncated_normal": lambda jax, **o: jax.random.truncated_normal(
        _key(jax), -1.0, np.ones((64, 1), np.float32), (64, 32), **o
    ),
    "randint": lambda jax, **o: jax.random.randint(_key(jax), (64, 32), 0, np.arange(1, 33), **o),
    "bernoulli": lambda jax, **o: jax.random.bernoulli(_key(jax), 0.3, (64, 32), **o),
    "rademacher": lambda jax, **o: jax.random.rademacher(_key(jax), (64, 32), **o),
    "gumbel": lambda jax, **o: jax.random.gumbel(_key(jax), (64, 32), **o),
    "exponential": lambda jax, **o: jax.random.exponential(_key(jax), (64, 32), **o),
    "laplace": lambda jax, **o: jax.random.laplace(_key(jax), (64, 32), **o),
    "logistic": lambda jax, **o: jax.random.logistic(_key(jax), (64, 32), **o),
    "cauchy": lambda jax, **o: jax.random.cauchy(_key(jax), (64, 32), **o),
    "maxwell": lambda jax, **o: jax.random.maxwell(_key(jax), (64, 32), **o),
    "gamma": lambda jax, **o: jax.random.gamma(_key(jax), np.arange(1, 33, dtype=np.float32), (64, 32), **o),
    "loggamma": lambda jax, **o: jax.random.loggamma(_key(jax), 0.5, (64, 32), **o),
    "beta": lambda jax, **o: jax.random.beta(_key(jax), 2.0, 3.0, (64, 32), **o),
    "chisquare": lambda jax, **o: jax.random.chisquare(_key(jax), 3.0, (64, 32), **o),
    "f": lambda jax, **o: jax.random.f(_key(jax), 3.0, 5.0, (64, 32), **o),
    "t": lambda jax, **o: jax.random.t(_key(jax), 3.0, (64, 32), **o),
    "dirichlet": lambda jax, **o: jax.random.dirichlet(_key(jax), np.ones(32, np.float32), (64,), **o),
    "generalized_normal": lambda jax, **o: jax.random.generalized_normal(_key(jax), 1.5, (64, 32), **o),
    "ball": lambda jax, **o: jax.random.ball(_key(jax), 32, 2, (64,), **o),
    "pareto": lambda jax, **o: jax.random.pareto(_key(jax), 3.0, (64, 32), **o),
    "rayleigh": lambda jax, **o: jax.random.rayleigh(_key(jax), 3.0, (64, 32), **o),
    "wald": lambda jax, **o: jax.random.wald(_key(jax), 3.0, (64, 32), **o),
    "triangular": lambda jax, **o: jax.random.triangular(_key(jax), 0.0, 1.0, 2.0, (64, 32), **o),
    "lognormal": lambda jax, **o: jax.random.lognormal(_key(jax), 2.0, (64, 32), **o),
    "geometric": lambda jax, **o: jax.random.geometric(_key(jax), 0.3, (64, 32), **o),
    "categorical": lambda jax, **o: jax.random.categorical(_key(jax), np.zeros((64, 32), np.float32), **o),
    "multivariate_normal": lambda jax, **o: jax.random.multivariate_normal(
        _key(jax), np.zeros(32, np.float32), np.eye(32, dtype=np.float32), (64,), **o
    ),
    "poisson": lambda jax, **o: jax.random.poisson(_key(jax), 3.0, (64, 32), **o),
    "permutation": lambda jax, **o: jax.random.permutation(_key(jax), 64, **o),
    "orthogonal": lambda jax, **o: jax.random.orthogonal(_key(jax), 8, (64,), **o),
}
WHOLE = {"poisson", "permutation", "orthogonal"}


def scaled(jax):
    """A layer's initial weights, as a jitted function makes them."""
    return jax.random.normal(_key(jax), (64, 32)) * 0.1 + 1


def per_key(jax):
    """A row for each of many keys."""
    return jax.vmap(lambda key: jax.random.normal(key, (32,)))(jax.random.split(_key(jax), 64))


def choices(jax):
    """So many choices that their noise is drawn in parts."""
    return jax.random.categorical(_key(jax), np.log(np.arange(1.0, 9.0, dtype=np.float32)), shape=(2**17,))


def gammas_per_key(jax):
    """Rejection samples for each of many keys."""
    return jax.vmap(lambda key: jax.random.gamma(key, 2.0, (4, 8)))(jax.random.split(_key(jax), 64)).reshape(64, 32)


def turned(jax):
    """Samples whose dimensions are exchanged, and one dropped."""
    return jax.random.normal(_key(jax), (32, 64, 3)).transpose(1, 0, 2)[..., 1]


GRAPHS = {f.__name__: f for f in (scaled, per_key, choices, gammas_per_key, turned)}


def steps(jax):
    """Rows drawn one after the other, by a scan."""

    def step(key, _):
        key, own = jax.random.split(key)
        return key, jax.random.normal(own, (32,))

    return jax.lax.scan(step, _key(jax), None, length=64)[1]


def either(jax):
    """Samples of a branch."""
    return jax.lax.cond(
        _key(jax) == _key(jax),
        lambda k: jax.random.normal(k, (64, 32)),
        lambda k: jax.random.uniform(k, (64, 32)),
        _key(jax),
    )


def nested(jax):
    """Samples of a jitted function within the jitted one."""
    return jax.jit(lambda k: jax.random.normal(k, (64, 32)))(_key(jax)) * 2


LOOPS = {f.__name__: f for f in (steps, either, nested)}


def trained(jax, weights, inputs):
    """Weights after three steps of gradient descent."""
    numpy = jax.numpy
    step = jax.jit(lambda w: w - 0.1 * jax.grad(lambda w: numpy.mean(numpy.tanh(inputs @ w) ** 2))(w))
    for _ in range(3):
        weights = step(weights)
    return weights


# What is computed with an array over devices.
COMPUTED = {
    "eager": lambda jax, x: x * 2 + 1,
    "exponentials": lambda jax, x: jax.numpy.exp(x) - x,
    "jit": lambda jax, x: jax.jit(lambda x: jax.numpy.tanh(x) @ x.T)(x),
    "gradient": lambda jax, x: jax.grad(lambda x: (jax.nn.gelu(x) ** 2).sum())(x),
    "sum": lambda jax, x: x.sum(0),
    "loop": lambda jax, x: jax.lax.fori_loop(0, 3, lambda i, x: x * 0.5 + i, x),
    "with the same in all": lambda jax, x: x + jax.numpy.arange(32.0),
}
