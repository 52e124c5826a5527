"""What every program pays: dispatch, the transformations, a cached jit call; and the two headline programs."""

import itertools
from typing import Any

import numpy as np

from .harness import Case

BATCH = np.random.RandomState(1).randn(128, 784).astype(np.float32)
LABELS = np.arange(128, dtype=np.int32) % 10
MILLION = np.random.RandomState(0).randn(1_000_000).astype(np.float32)


def eager_add(jax: Any) -> Any:
    a, b = jax.numpy.arange(10.0), jax.numpy.ones(10)
    return lambda: a + b


def eager_grad(jax: Any) -> Any:
    gradient, x = jax.grad(lambda x: jax.numpy.tanh(x) * x), jax.numpy.ones(())
    return lambda: gradient(x)


def eager_vmap(jax: Any) -> Any:
    mapped, x = jax.vmap(lambda x: jax.numpy.tanh(x) * x), jax.numpy.arange(10.0)
    return lambda: mapped(x)


def jit_call(jax: Any) -> Any:
    f, x = jax.jit(lambda x: jax.numpy.tanh(x) * x), jax.numpy.arange(10.0)
    return lambda: f(x)


def jit_call_of_a_dict(jax: Any) -> Any:
    f = jax.jit(lambda p, x: jax.numpy.tanh(x) * p["w"] + p["b"])
    x = jax.numpy.arange(10.0)
    p = {"w": x, "b": x}
    return lambda: f(p, x)


def indexing(jax: Any) -> Any:
    x = jax.numpy.arange(10.0)
    return lambda: x[0]


def index_update(jax: Any) -> Any:
    x = jax.numpy.arange(10.0)
    return lambda: x.at[0].set(1.0)


def selu(jax: Any) -> Any:
    jnp = jax.numpy
    f = jax.jit(lambda x: 1.05 * jnp.where(x > 0, x, 1.67 * jnp.exp(x) - 1.67))
    x = jnp.asarray(MILLION)
    return lambda: f(x)


def dp_sgd_step(jax: Any) -> Any:
    """Per-example gradients of an MLP 784-256-256-10, each clipped, averaged, applied; batch 128."""
    jnp = jax.numpy
    rng, sizes = np.random.RandomState(0), [784, 256, 256, 10]
    params = [
        (jnp.asarray(rng.randn(a, b).astype(np.float32) / np.sqrt(a)), jnp.zeros(b))
        for a, b in itertools.pairwise(sizes)
    ]

    def loss(params: Any, x: Any, y: Any) -> Any:
        for w, b in params[:-1]:
            x = jnp.tanh(x @ w + b)
        w, b = params[-1]
        return -jax.nn.log_softmax(x @ w + b)[y]

    def clipped(gradient: Any) -> Any:
        norm = jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(gradient)))
        return jax.tree.map(lambda leaf: leaf * jnp.minimum(1.0, 1.0 / norm), gradient)

    @jax.jit
    def step(params: Any, x: Any, y: Any) -> Any:
        gradients = jax.vmap(lambda x, y: clipped(jax.grad(loss)(params, x, y)))(x, y)
        return jax.tree.map(lambda p, g: p - 0.1 * g.mean(0), params, gradients)

    x, y = jnp.asarray(BATCH), jnp.asarray(LABELS)
    return lambda: step(params, x, y)


CASES = [
    Case("eager a + b, 10 elements", eager_add, 0.5),
    Case("eager x[0]", indexing),
    Case("eager x.at[0].set", index_update),
    Case("eager grad of a small function", eager_grad, 0.25),
    Case("eager vmap of a small function", eager_vmap, 0.25),
    Case("cached jit call", jit_call, 1.5),
    Case("cached jit call, dict argument", jit_call_of_a_dict, 1.5),
    Case("selu, 1M, jit", selu, 1.0),
    Case("dp-sgd step, mlp 784-256-256-10, batch 128", dp_sgd_step, 0.25),
]
