"""Products kept in factors: the values are those of JAX, which makes them, and what is not made is told."""

import functools
import logging
from importlib import import_module

import numpy as np
import pytest
from oracle import agree

from jaxish._core import config

BATCH = 24


def normal(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def labels(seed, high, *shape):
    return np.random.default_rng(seed).integers(0, high, shape).astype(np.int32)


# -- models: parameters, examples, and the loss of one example


def mlp(xp, params, x, y):
    for w, b in params[:-1]:
        x = xp.numpy.tanh(x @ w + b)
    w, b = params[-1]
    return -xp.nn.log_softmax(x @ w + b)[y]


def mlp_case():
    params = [
        (0.2 * normal(i, n, m), 0.1 * normal(i + 9, m)) for i, (n, m) in enumerate([(40, 48), (48, 32), (32, 30)])
    ]
    return mlp, params, normal(20, BATCH, 40), labels(21, 30, BATCH)


def tied(xp, params, x, y):
    """The same matrix twice, so that its gradient is a sum of two products."""
    w, v = params
    x = xp.numpy.tanh(x @ w)
    return (xp.numpy.tanh(x @ w) @ v)[y]


def tied_case():
    return tied, (0.2 * normal(0, 40, 40), normal(1, 40, 8)), normal(2, BATCH, 40), labels(3, 8, BATCH)


def sequence(xp, params, x, y):
    """Embeddings that are also what scores are made with, two dense layers on a sequence, and a norm."""
    e = params["embedding"][x]
    mean = e.mean(-1, keepdims=True)
    e = (e - mean) * params["scale"]
    q, k = e @ params["q"], e @ params["k"]
    e = e + xp.nn.softmax(q @ k.T) @ e
    scores = xp.nn.log_softmax(e @ params["embedding"].T)
    return -xp.numpy.take_along_axis(scores, y[:, None], 1).mean()


def sequence_case():
    params = {
        "embedding": normal(0, 64, 32), "scale": 1 + 0.1 * normal(1, 32),
        "q": 0.1 * normal(2, 32, 32), "k": 0.1 * normal(3, 32, 32),
    }  # fmt: skip
    return sequence, params, labels(4, 64, BATCH, 6), labels(5, 64, BATCH, 6)


def recurrent(xp, params, x, y):
    def step(state, x):
        return xp.numpy.tanh(x @ params["x"] + state @ params["state"] + params["b"]), None

    state, _ = xp.lax.scan(step, xp.numpy.zeros(32), x)
    return -xp.nn.log_softmax(state @ params["out"])[y]


def recurrent_case():
    params = {
        "x": 0.2 * normal(0, 24, 32),
        "state": 0.2 * normal(1, 32, 32),
        "b": normal(2, 32),
        "out": normal(3, 32, 8),
    }
    return recurrent, params, normal(4, BATCH, 7, 24), labels(5, 8, BATCH)


CASES = {"mlp": mlp_case, "tied": tied_case, "sequence": sequence_case, "recurrent": recurrent_case}

# -- what is done with the gradients of single examples


def norm(xp, tree):
    return xp.numpy.sqrt(sum(xp.numpy.sum(leaf**2) for leaf in xp.tree.leaves(tree)))


def gradients(xp, loss, params, x, y):
    return xp.vmap(xp.grad(functools.partial(loss, xp)), (None, 0, 0))(params, x, y)


def factor(xp, norm):
    return xp.numpy.minimum(1.0, 0.5 / (norm + 1e-12))


def by_tensordot(xp, loss, params, x, y):
    g = gradients(xp, loss, params, x, y)
    scale = factor(xp, xp.vmap(functools.partial(norm, xp))(g))
    return xp.tree.map(lambda leaf: xp.numpy.tensordot(scale, leaf, 1), g)


def by_mean_of_clipped(xp, loss, params, x, y):
    def clipped(params, x, y):
        g = xp.grad(functools.partial(loss, xp))(params, x, y)
        scale = factor(xp, norm(xp, g))
        return xp.tree.map(lambda leaf: leaf * scale, g)

    return xp.tree.map(lambda leaf: leaf.mean(0), xp.vmap(clipped, (None, 0, 0))(params, x, y))


def by_scaled_leaves(xp, loss, params, x, y):
    g = gradients(xp, loss, params, x, y)
    norms = sum(xp.numpy.square(leaf).reshape(leaf.shape[0], -1).sum(1) for leaf in xp.tree.leaves(g))
    scale = factor(xp, xp.numpy.sqrt(norms))
    return xp.tree.map(lambda leaf: xp.numpy.einsum("b...,b->...", leaf, scale) / len(scale), g)


def by_one_vector(xp, loss, params, x, y):
    ravel_pytree = import_module(f"{xp.__name__}.flatten_util").ravel_pytree

    def clipped(params, x, y):
        g, unravel = ravel_pytree(xp.grad(functools.partial(loss, xp))(params, x, y))
        return g * factor(xp, xp.numpy.linalg.norm(g)), unravel

    def one(params, x, y):
        g, unravel = clipped(params, x, y)
        return unravel(g)

    return xp.tree.map(lambda leaf: leaf.sum(0), xp.vmap(one, (None, 0, 0))(params, x, y))


def by_divisors_of_last_axis(xp, loss, params, x, y):
    g = gradients(xp, loss, params, x, y)
    divisors = xp.numpy.maximum(xp.vmap(functools.partial(norm, xp))(g) / 0.5, 1.0)
    return xp.tree.map(lambda leaf: (xp.numpy.moveaxis(leaf, 0, -1) / divisors).sum(-1), g)


def norms_alone(xp, loss, params, x, y):
    return xp.vmap(functools.partial(norm, xp))(gradients(xp, loss, params, x, y))


def noise_scale(xp, loss, params, x, y):
    g = gradients(xp, loss, params, x, y)
    mean = xp.tree.map(lambda leaf: leaf.mean(0), g)
    return norm(xp, mean) ** 2 / (xp.vmap(functools.partial(norm, xp))(g) ** 2).mean()


def influence(xp, loss, params, x, y):
    """The product of each gradient with that of the first example."""
    g = gradients(xp, loss, params, x, y)
    first = xp.grad(functools.partial(loss, xp))(params, x[0], y[0])
    dots = xp.tree.map(lambda leaf, v: xp.vmap(lambda one: xp.numpy.vdot(one, v))(leaf), g, first)
    return sum(xp.tree.leaves(dots))


def masked(xp, loss, params, x, y):
    """As when a batch is padded: the examples at the end do not count, whatever their gradients."""
    g = gradients(xp, loss, params, x.at[-1].set(x[-1] * xp.numpy.inf) if x.dtype == "float32" else x, y)
    real = xp.numpy.arange(len(y)) < len(y) - 3
    g = xp.tree.map(lambda leaf: xp.numpy.where(real.reshape(-1, *[1] * (leaf.ndim - 1)), leaf, 0), g)
    scale = factor(xp, xp.vmap(functools.partial(norm, xp))(g))
    return xp.tree.map(lambda leaf: xp.numpy.tensordot(scale, leaf, 1), g)


WAYS = [
    by_tensordot, by_mean_of_clipped, by_scaled_leaves, by_one_vector, by_divisors_of_last_axis, norms_alone,
    noise_scale, influence, masked,
]  # fmt: skip


@pytest.fixture
def told(caplog):
    """What the pass says."""
    with caplog.at_level(logging.WARNING, "jaxish"), config.explain_per_example(True):
        yield lambda: [r.message for r in caplog.records if "kept in factors" in r.message]


def run(way, case):
    loss, params, x, y = case

    def program(xp, params, x, y):
        params, x, y = xp.tree.map(xp.numpy.asarray, (params, x, y))
        return xp.jit(functools.partial(way, xp, loss))(params, x, y)

    return program, params, x, y


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", CASES)
def test_gradients_of_examples_that_are_not_made(way, case, told):
    program, *args = run(way, CASES[case]())
    agree(program, *args, rtol=1e-4, atol=1e-5)
    assert told()


@pytest.mark.parametrize("way", WAYS[:4])
def test_compiled(way, compiled, told):
    program, *args = run(way, sequence_case())
    agree(program, *args, rtol=1e-4, atol=1e-5)
    assert told()
