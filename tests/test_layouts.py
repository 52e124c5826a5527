"""Pieces of graphs take and return arrays as they lie in memory, and compute what JAX does."""

import numpy as np
import pytest
from oracle import agree

import jaxish
from jaxish._compile import executable, layouts, lowering, piecewise
from jaxish._core.target import PIECES

RANDOM = np.random.default_rng(0)
draw = lambda *shape: RANDOM.normal(size=shape).astype(np.float32)
IMAGES, WEIGHTS, QUERIES = draw(4, 40, 40, 12), draw(3, 3, 12, 16) * 0.1, draw(3, 90, 4, 16)


def network(jax, images, weights):
    """Return what a network of images with their channels last computes."""
    dimensions = ("NHWC", "HWIO", "NHWC")
    x = jax.lax.conv_general_dilated(images, weights, (1, 1), "SAME", dimension_numbers=dimensions)
    x = jax.nn.relu(x - x.mean((0, 1, 2))) * 2 + 1
    x = jax.lax.reduce_window(x, -jax.numpy.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return jax.numpy.tanh(x) * 2 - x


def attention(jax, q, k):
    weights = jax.nn.softmax(jax.numpy.einsum("bqhd,bkhd->bhqk", q, k) / 4)
    return jax.numpy.einsum("bhqk,bkhd->bqhd", weights, k) * 2 + q


PROGRAMS = {
    "network": (network, (IMAGES, WEIGHTS)),
    "network's gradient": (
        lambda jax, *given: jax.grad(lambda *g: (network(jax, *g) ** 2).mean(), (0, 1))(*given),
        (IMAGES, WEIGHTS),
    ),
    "attention": (attention, (QUERIES, QUERIES[::-1].copy())),
    "attention's gradient": (
        lambda jax, q, k: jax.grad(lambda q: (attention(jax, q, k) ** 2).mean())(q),
        (QUERIES, QUERIES),
    ),
    "moved": (lambda jax, x: (x.transpose(0, 3, 1, 2) * 2 + 1, x.transpose(3, 2, 1, 0) + x[0, 0, 0, 0]), (IMAGES,)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_agree(name, compiled):
    function, given = PROGRAMS[name]
    agree(lambda jax, *given: jax.jit(lambda *given: function(jax, *given))(*given), *given, rtol=2e-4, atol=2e-4)


def lowered(function, *given):
    body = jaxish.jit(lambda *given: function(jaxish, *given)).trace(*given)._program.closed.graph
    return lowering.spelled_out(body, PIECES)


def test_images_stay_as_they_lie():
    found = piecewise.compiled(lowered(network, IMAGES, WEIGHTS), "a network")
    assert found is not None
    pool = next(n for n in found.module.graph.nodes if "max_pool" in str(n.target))
    assert layouts.order_of(pool.args[0]) == (0, 2, 3, 1)


def test_factors_are_copied_as_they_lie():
    before = lowered(attention, QUERIES, QUERIES)
    after = layouts.for_products(before)
    across = [layouts._order(n) for n in before.module.graph.nodes if layouts._is_factor(n)]
    assert any(across) and not any(layouts._order(n) for n in after.module.graph.nodes if layouts._is_factor(n))


def test_no_backend_where_nearly_all_is_in_pieces(compiled, monkeypatch):
    asked = []
    monkeypatch.setattr(executable.Request, "compile", lambda request: asked.append(request))
    x = draw(500, 400)
    agree(lambda jax, x: jax.jit(lambda x: jax.nn.softmax(x * 2) - x.mean(1, keepdims=True))(x), x)
    assert not asked


def test_what_is_the_same_in_all_steps_is_multiplied_before_them(compiled):
    x, w = draw(5, 6), draw(6, 6) * 0.3

    def program(jax, length):
        def run(c, x, w):
            step = lambda c, _: (jax.numpy.tanh(c @ w + (x @ w).sum(0) + x @ w @ w), (x * 2).max())
            return jax.lax.scan(step, c, None, length=length)

        return jax.jit(run)(x, x, w)

    for length in (0, 1, 7):
        agree(lambda jax, length=length: program(jax, length), rtol=1e-4, atol=1e-5)
