"""Arrays and indices without elements, under the transformations, as in JAX."""

import numpy as np
import pytest
from oracle import agree

X = np.arange(12.0, dtype=np.float32).reshape(3, 4)
NONE = np.zeros(0, np.int32)

PROGRAMS = {
    "x[none]": lambda jnp, x: x[jnp.asarray(NONE)],
    "x[none, none]": lambda jnp, x: x[jnp.asarray(NONE), jnp.asarray(NONE)],
    "x[:, none]": lambda jnp, x: x[:, jnp.asarray(NONE)],
    "x[(0, 3) none]": lambda jnp, x: x[jnp.zeros((0, 3), int)],
    "x[no mask]": lambda jnp, x: x[np.zeros(3, bool)],
    "take": lambda jnp, x: jnp.take(x, NONE, axis=1),
    "set": lambda jnp, x: x.at[jnp.asarray(NONE)].set(1.0),
    "add": lambda jnp, x: x.at[jnp.asarray(NONE), 0].add(1.0),
    "insert nothing": lambda jnp, x: jnp.insert(x, NONE, 1.0, 0),
    "fft of no rows": lambda jnp, x: abs(jnp.fft.fft(x[:0])),
    "rfft of no rows": lambda jnp, x: abs(jnp.fft.rfft(x[:0], 6)),
    "fft2 of no matrices": lambda jnp, x: abs(jnp.fft.fft2(x[None][:0])),
    "sort": lambda jnp, x: jnp.sort(x[:0], 0),
    "where": lambda jnp, x: jnp.where(x[:0] > 0, x[:0], 1.0),
}


def _sum(jax, f):
    return lambda x: jax.numpy.sum(f(jax.numpy, x))


FORMS = {
    "eager": lambda jax, f: f(jax.numpy, jax.numpy.asarray(X)),
    "jit": lambda jax, f: jax.jit(lambda x: f(jax.numpy, x))(X),
    "vmap": lambda jax, f: jax.vmap(lambda x: f(jax.numpy, x))(np.stack([X, X])),
    "jit(vmap(grad))": lambda jax, f: jax.jit(jax.vmap(jax.grad(_sum(jax, f))))(np.stack([X, X])),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_no_elements(name, form):
    agree(lambda jax: FORMS[form](jax, PROGRAMS[name]), weak=False)


def test_complex_numbers_that_are_not_finite_in_traced_functions():
    agree(lambda jax: jax.jit(lambda x: jax.numpy.where(x > 5, complex("nan+nanj"), x))(X))
