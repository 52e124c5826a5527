"""composite, scaled_dot, platform_dependent and tokens against JAX."""

import numpy as np
import pytest
from oracle import agree

X = np.linspace(-2, 2, 24, dtype=np.float32).reshape(4, 6)


def scaled(j):
    return j.lax.composite(lambda x, *, k=1: {"y": x * k}, "my.scaled", version=2)


def branches(j, **kwargs):
    return lambda x: j.lax.platform_dependent(x, **kwargs)


PROGRAMS = {
    "composite": lambda j: scaled(j)(X),
    "composite with an attribute": lambda j: scaled(j)(X, k=3),
    "composite in jit": lambda j: j.jit(scaled(j))(X),
    "composite in vmap of jit": lambda j: j.jit(lambda x: scaled(j)(x)["y"] + 1)(X),
    "grad of composite": lambda j: j.grad(lambda x: scaled(j)(x)["y"])(2.0),
    "grad of jit of composite": lambda j: j.grad(j.jit(lambda x: scaled(j)(x)["y"]))(2.0),
    "composite with a traced attribute": lambda j: j.jit(lambda k: scaled(j)(2.0, k=k))(3.0),
    "composite that closes over": lambda j: j.jit(lambda y: j.lax.composite(lambda x: x * y, "a")(2.0))(3.0),
    "scaled_dot": lambda j: j.lax.scaled_dot(X.astype("bfloat16"), X.T.astype("bfloat16")),
    "scaled_dot with scales": lambda j: j.lax.scaled_dot(
        X, X.T, lhs_scale=abs(X[:, ::2]), rhs_scale=abs(X[:, ::3].T), preferred_element_type=np.float32
    ),
    "scaled_dot with batches": lambda j: j.lax.scaled_dot(
        np.stack([X, X]), np.stack([X.T, X.T]), lhs_scale=np.stack([abs(X[:, ::2])] * 2)
    ),
    "scaled_dot in jit": lambda j: j.jit(lambda x: j.lax.scaled_dot(x, x.T))(X),
    "scaled_dot of vectors": lambda j: j.lax.scaled_dot(X[0], X[0]),
    "scaled_dot sizes": lambda j: j.lax.scaled_dot(X, X),
    "scaled_dot ranks": lambda j: j.lax.scaled_dot(X, X.T, lhs_scale=X[0]),
    "scaled_dot scale size": lambda j: j.lax.scaled_dot(X, X.T, lhs_scale=X[:, :4]),
    "scaled_dot scale of each": lambda j: j.lax.scaled_dot(X, X.T, lhs_scale=X),
    "platform": lambda j: branches(j, cpu=lambda x: x + 1, default=lambda x: x)(X),
    "platform in jit": lambda j: j.jit(branches(j, cpu=lambda x: x + 1, cuda=lambda x: x * 2))(X),
    "grad of jit of platform": lambda j: j.grad(j.jit(branches(j, cpu=lambda x: x**2, cuda=lambda x: x)))(3.0),
    "default platform": lambda j: branches(j, cuda=lambda x: x + 1, default=lambda x: x)(X),
    "no platform": lambda j: branches(j, cuda=lambda x: x)(X),
    "platform gpu": lambda j: branches(j, gpu=lambda x: x)(X),
    "platform that is no function": lambda j: branches(j, cpu=3)(X),
    "platforms that differ": lambda j: j.jit(branches(j, cpu=lambda x: x, cuda=lambda x: (x, x)))(X),
    "tokens": lambda j: len([j.lax.after_all(j.lax.create_token(), j.lax.create_token())]),
    "after_all of no token": lambda j: j.lax.after_all(1.0),
    "dce_sink": lambda j: j.lax.dce_sink({"a": X}),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name):
    agree(PROGRAMS[name], rtol=1e-2)


def test_vmap_of_composite():
    import jaxish

    np.testing.assert_array_equal(np.asarray(jaxish.vmap(scaled(jaxish))(X)["y"]), X)
