"""Products kept in factors: the values are those of JAX, which makes them, and what is not made is told."""

import functools
import logging
from importlib import import_module

import jax
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import agree
from torch import fx
from torch.utils._python_dispatch import TorchDispatchMode

import jaxish
from jaxish._compile.factored import contraction, terms
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


def layered(xp, params, x, y):
    """Checkpointed layers with parameters of their own, by scan, on a sequence."""

    @xp.checkpoint
    def layer(x, w):
        return x + xp.numpy.tanh(x @ w), None

    x, _ = xp.lax.scan(layer, x, params["layers"])
    return -xp.nn.log_softmax(x.mean(0) @ params["out"])[y]


def layered_case():
    params = {"layers": 0.2 * normal(0, 3, 32, 32), "out": normal(1, 32, 8)}
    return layered, params, normal(2, BATCH, 5, 32), labels(3, 8, BATCH)


def convolved(xp, params, x, y):
    """Strides, dilated kernels and kernels of one element; two images in each example."""
    x = xp.numpy.stack([x, x[:, ::-1]])
    layers = (((2, 1), "SAME", (1, 1)), ((1, 1), [(2, 2), (1, 1)], (2, 1)), ((1, 1), "VALID", (1, 1)))
    for filters, (strides, padding, dilation) in zip(params["filters"], layers):
        x = xp.numpy.tanh(xp.lax.conv_general_dilated(x, filters, strides, padding, rhs_dilation=dilation))
    return -xp.nn.log_softmax(x.mean((0, 2, 3)) @ params["out"])[y]


def convolved_case():
    shapes = [(32, 12, 3, 2), (32, 32, 3, 3), (32, 32, 1, 1)]
    filters = [0.1 * normal(i, *shape) for i, shape in enumerate(shapes)]
    return (
        convolved,
        {"filters": filters, "out": normal(3, 32, 8)},
        normal(4, BATCH, 12, 5, 4),
        labels(5, 8, BATCH),
    )


def convolved_in_time(xp, params, x, y):
    x = xp.numpy.tanh(xp.lax.conv_general_dilated(x[None], params["filters"], (2,), "SAME")[0])
    return -xp.nn.log_softmax(x.mean(1) @ params["out"])[y]


def convolved_in_time_case():
    params = {"filters": 0.1 * normal(0, 32, 40, 5), "out": normal(1, 32, 8)}
    return convolved_in_time, params, normal(2, BATCH, 40, 6), labels(3, 8, BATCH)


def transposed(xp, params, x, y):
    """Transposed convolutions, whose filters are flipped."""
    x = xp.numpy.tanh(xp.lax.conv_transpose(x[None], params["first"], (2, 1), "SAME"))
    x = xp.lax.conv_general_dilated(
        x, params["second"], (1, 2), [(1, 2), (0, 1)], (3, 1), dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    return -xp.nn.log_softmax(xp.numpy.tanh(x[0]).mean((0, 1)) @ params["out"])[y]


def transposed_case():
    params = {"first": 0.1 * normal(0, 3, 2, 24, 32), "second": 0.1 * normal(1, 3, 3, 32, 32), "out": normal(2, 32, 8)}
    return transposed, params, normal(3, BATCH, 4, 5, 24), labels(4, 8, BATCH)


def gated(xp, params, x, y):
    """A recurrent layer whose matrices stand on the left, two steps at a time."""

    def step(h, x):
        gate = xp.nn.sigmoid(params["gate"] @ xp.numpy.concatenate([x, h]))
        new = xp.numpy.tanh(params["new"] @ xp.numpy.concatenate([x, gate * h]))
        h = (1 - gate) * h + gate * new
        return h, h

    _, states = xp.lax.scan(step, xp.numpy.zeros(40), x, reverse=True, unroll=2)
    return -xp.nn.log_softmax(states.mean(0) @ params["out"])[y]


def gated_case():
    params = {"gate": 0.2 * normal(0, 40, 64), "new": 0.2 * normal(1, 40, 64), "out": normal(2, 40, 8)}
    return gated, params, normal(3, BATCH, 6, 24), labels(4, 8, BATCH)


def residual(xp, params, x, y):
    """Layers by scan that add to what they are given, so that the last factor is the loop's own cotangent."""

    @xp.checkpoint
    def layer(x, w):
        return x + xp.numpy.tanh(x @ w["up"]) @ w["down"], None

    x, _ = xp.lax.scan(layer, x, params["layers"])
    return -xp.nn.log_softmax(x.mean(0) @ params["out"])[y]


def residual_case():
    layers = {"up": 0.2 * normal(0, 3, 32, 40), "down": 0.2 * normal(1, 3, 40, 32)}
    return residual, {"layers": layers, "out": normal(2, 32, 8)}, normal(3, BATCH, 5, 32), labels(4, 8, BATCH)


CASES = {
    "gated": gated_case,
    "residual": residual_case,
    "transposed": transposed_case,
    "convolved": convolved_case,
    "convolved in time": convolved_in_time_case,
    "layered": layered_case,
    "mlp": mlp_case,
    "tied": tied_case,
    "sequence": sequence_case,
    "recurrent": recurrent_case,
}

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
    """As Optax does, squares of absolute values included."""
    g = gradients(xp, loss, params, x, y)
    squares = [(leaf.real**2 + leaf.imag**2).sum(tuple(range(1, leaf.ndim))) for leaf in xp.tree.leaves(g)]
    divisors = xp.numpy.maximum(xp.numpy.sqrt(sum(squares)) / 0.5, 1.0)
    return xp.tree.map(lambda leaf: (xp.numpy.moveaxis(leaf, 0, -1) / divisors).sum(-1), g)


def by_selection(xp, loss, params, x, y):
    """As Optax's `clip_by_global_norm` does: an example whose norm is small enough is left as it is."""

    def clipped(params, x, y):
        g = xp.grad(functools.partial(loss, xp))(params, x, y)
        size = norm(xp, g)
        most = xp.numpy.float32(0.5)
        return xp.tree.map(lambda leaf: xp.lax.select(size < most, leaf, (leaf / size) * most), g)

    return xp.tree.map(lambda leaf: leaf.mean(0), xp.vmap(clipped, (None, 0, 0))(params, x, y))


def by_selection_of_one_of_two(xp, loss, params, x, y):
    """A choice between two different values: each is kept where it is taken."""
    g, other = gradients(xp, loss, params, x, y), gradients(xp, loss, params, x[::-1], y)
    first = xp.numpy.arange(len(y)) % 3 == 0
    g = xp.tree.map(lambda a, b: xp.numpy.where(first.reshape(-1, *[1] * (a.ndim - 1)), a, 2 * b), g, other)
    return xp.tree.map(lambda leaf: leaf.sum(0), g)


def by_absolute_values(xp, loss, params, x, y):
    """Each leaf by its own norm, which is taken of absolute values, with the examples last."""
    g = xp.vmap(xp.grad(functools.partial(loss, xp)), (None, 0, 0), out_axes=-1)(params, x, y)

    def clipped(leaf):
        square = xp.numpy.sum(xp.numpy.abs(leaf) ** 2, tuple(range(leaf.ndim - 1)), keepdims=True)
        return xp.numpy.sum(leaf / xp.numpy.maximum(1.0, xp.numpy.sqrt(square) / 0.5), -1)

    return xp.tree.map(clipped, g)


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
    noise_scale, influence, masked, by_selection, by_absolute_values,
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


# -- the programs around it


def clipped_step(xp, loss, params, x, y):
    g = by_mean_of_clipped(xp, loss, params, x, y)
    return xp.tree.map(lambda p, g: p - 0.1 * g, params, g)


def a_scan_of_steps(xp, loss, params, x, y):
    batches = xp.tree.map(lambda a: a.reshape(2, -1, *a.shape[1:]), (x, y))
    return xp.lax.scan(lambda p, xy: (clipped_step(xp, loss, p, *xy), None), params, batches)[0]


def microbatches(xp, loss, params, x, y):
    def one(xy):
        g = xp.grad(functools.partial(loss, xp))(params, *xy)
        return norm(xp, g), xp.tree.map(lambda leaf: leaf * factor(xp, norm(xp, g)), g)

    norms, g = xp.lax.map(one, (x, y), batch_size=12)
    return norms, xp.tree.map(lambda leaf: leaf.sum(0), g)


def gradient_of_norms(xp, loss, params, x, y):
    return xp.grad(lambda p: norms_alone(xp, loss, p, x, y).sum())(params)


def derivative_of_a_step(xp, loss, params, x, y):
    step = functools.partial(by_tensordot, xp, loss)
    return xp.jvp(lambda x: step(params, x, y), (x,), (xp.numpy.ones_like(x),))


def steps_side_by_side(xp, loss, params, x, y):
    return xp.vmap(lambda p: by_one_vector(xp, loss, p, x, y))(
        xp.tree.map(lambda leaf: xp.numpy.stack([leaf, 1.1 * leaf]), params)
    )


def checkpointed(xp, loss, params, x, y):
    kept = xp.checkpoint(functools.partial(loss, xp))
    return by_tensordot(xp, lambda xp, *args: kept(*args), params, x, y)


def examples_of_users(xp, loss, params, x, y):
    """Two batch dimensions: the examples of each user."""
    x, y = (a.reshape(4, -1, *a.shape[1:]) for a in (x, y))
    g = xp.vmap(xp.vmap(xp.grad(functools.partial(loss, xp)), (None, 0, 0)), (None, 0, 0))(params, x, y)
    scale = factor(xp, xp.vmap(xp.vmap(functools.partial(norm, xp)))(g))
    return xp.tree.map(lambda leaf: xp.numpy.einsum("ub,ub...->...", scale, leaf), g)


def called(xp, loss, params, x, y):
    """The gradient within another jitted function."""
    return by_tensordot(xp, lambda xp, *args: xp.jit(functools.partial(loss, xp))(*args), params, x, y)


def frozen_and_integer_leaves(xp, loss, params, x, y):
    step = xp.numpy.asarray(3)

    def trained(xp, given, x, y):
        first, _ = given
        return loss(xp, [first, *params[1:]], x, y)

    g = xp.vmap(xp.grad(functools.partial(trained, xp), allow_int=True), (None, 0, 0))((params[0], step), x, y)[0]
    scale = factor(xp, xp.vmap(functools.partial(norm, xp))(g))
    return xp.tree.map(lambda leaf: (scale.reshape(-1, *[1] * (leaf.ndim - 1)) * leaf).sum(0), g)


@pytest.mark.parametrize("way", [a_scan_of_steps, gradient_of_norms, steps_side_by_side, checkpointed, called])
def test_programs_around_it(way, told):
    program, *args = run(way, mlp_case())
    agree(program, *args, rtol=1e-4, atol=1e-4)
    assert told()


def test_a_choice_between_two_gradients(told):
    program, *args = run(by_selection_of_one_of_two, mlp_case())
    agree(program, *args, rtol=1e-4, atol=1e-5)
    assert told()


def test_two_dimensions_of_examples(told):
    program, *args = run(examples_of_users, sequence_case())
    agree(program, *args, rtol=1e-4, atol=1e-4)
    assert any("shape [4, 6, 64, 32]" in line for line in told())  # the embedding's


@pytest.mark.parametrize("bad", [np.nan, np.inf, 0.0])
def test_a_choice_of_a_factor_takes_nothing_from_the_other_side(bad, told):
    """Where a gradient is zero, and its norm a divisor of zero, the example is left as it is."""
    loss, params, x, y = mlp_case()
    x[3] = bad
    frozen = [(np.zeros_like(w), np.zeros_like(b)) for w, b in params] if bad == 0.0 else params
    program, *args = run(by_selection, (loss, frozen, x, y))
    agree(program, *args, rtol=1e-4, atol=1e-5)
    assert told()


@pytest.mark.parametrize("way", [microbatches, derivative_of_a_step, frozen_and_integer_leaves])
def test_more_programs_around_it(way):
    program, *args = run(way, mlp_case())
    agree(program, *args, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("batch", [0, 1, 2])
def test_small_batches(batch):
    loss, params, x, y = mlp_case()
    program, *args = run(by_one_vector, (loss, params, x[:batch], y[:batch]))
    agree(program, *args, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_parameters(dtype, told):
    """Products of narrow factors are rounded later than JAX's, and so are no farther from the values in float32."""
    loss, params, x, y = mlp_case()

    def program(xp, x, dtype):
        narrow = xp.tree.map(lambda p: xp.numpy.asarray(p, dtype), params)
        return xp.jit(functools.partial(by_scaled_leaves, xp, loss))(narrow, xp.numpy.asarray(x, dtype), y)

    leaves = [np.asarray(leaf, np.float32) for leaf in jax.tree.leaves(program(jax, x, "float32"))]
    wanted = jax.tree.leaves(program(jax, x, dtype))
    found = jaxish.tree.leaves(program(jaxish, x, dtype))
    assert told()
    for f, w, exact in zip(found, wanted, leaves, strict=True):
        assert f.dtype == w.dtype
        error, bound = (np.abs(np.asarray(v, np.float32) - exact).max() for v in (f, w))
        assert error <= 2 * bound + 1e-3 * np.abs(exact).max()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("way", [by_tensordot, norms_alone])
def test_an_example_without_a_finite_gradient(bad, way, told):
    loss, params, x, y = mlp_case()
    x[3] = bad

    def program(xp, params, x, y):
        found = run(way, (loss, params, x, y))[0](xp, params, x, y)
        return xp.tree.map(xp.numpy.isfinite, found)

    agree(program, params, x, y)
    assert told()


class _Products(TorchDispatchMode):
    """Notes the largest product that is made."""

    elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        if func is torch.ops.aten.bmm.default:
            self.elements = max(self.elements, found.numel())
        return found


def test_products_are_made_in_blocks_of_bounded_memory():
    """The norm of a long sequence's gradient is cheaper made than not; not more of it is made at a time than allowed."""
    a, d = torch.randn(16, 400, 80), torch.randn(16, 400, 90)
    nodes = fx.Graph()
    left, right = (nodes.placeholder(name) for name in "ad")
    a_value, d_value = (terms.expanded(terms.reshaped(terms.of_node(n, x.shape), shape), (16, 400, 80, 90)) for n, x, shape in
                        ((left, a, (16, 400, 80, 1)), (right, d, (16, 400, 1, 90))))  # fmt: skip
    product = terms.summed(terms.multiplied(a_value, d_value), [1], keepdims=False)
    plan = contraction.plan(terms.summed(terms.multiplied(product, product, are_same=True), [1, 2], keepdims=False))
    wanted = (torch.einsum("bti,btj->bij", a.double(), d.double()) ** 2).sum((1, 2))
    most = 3 * 80 * 90  # of the product: three examples
    made = []
    for limit in (10**9, most):
        with _Products() as products:
            found = plan.run({left: a, right: d}, torch.float32, limit)
        torch.testing.assert_close(found.double(), wanted, rtol=1e-4, atol=0)
        made.append(products.elements)
    assert made == [16 * 80 * 90, most]


def test_products_are_made_in_the_order_that_is_wanted():
    """A product that is made transposed would be copied by whoever wants its numbers in order."""
    a, d = torch.randn(16, 7), torch.randn(16, 5)
    nodes = fx.Graph()
    left, right = (nodes.placeholder(name) for name in "ad")
    a_value, d_value = (terms.expanded(terms.reshaped(terms.of_node(n, x.shape), shape), (16, 7, 5)) for n, x, shape in
                        ((left, a, (16, 7, 1)), (right, d, (16, 1, 5))))  # fmt: skip
    for factors in ((a_value, d_value), (d_value, a_value)):
        plan = contraction.plan(terms.summed(terms.multiplied(*factors), [0], keepdims=False))
        found = plan.run({left: a, right: d}, torch.float32, 10**9)
        torch.testing.assert_close(found, torch.einsum("bi,bj->ij", a, d))
        assert found.is_contiguous()


def test_a_product_of_more_than_the_allowed_memory_is_not_made(told):
    a, d = normal(0, 16, 300, 160), normal(1, 16, 300, 160)

    def program(xp, a, d):
        return xp.jit(lambda a, d: ((xp.numpy.swapaxes(a, 1, 2) @ d) ** 2).sum((1, 2)))(a, d)

    agree(program, a, d, rtol=1e-4)
    assert not told()
    with config.per_example_memory(1):
        agree(program, a, d, rtol=1e-4)
    assert told()


def test_parts_of_one_element(told):
    """They have no index of their own, like any dimension of size one."""
    a, d, s = normal(0, 32, 40), normal(1, 32, 48), normal(2, 32, 1, 1)

    def program(xp, a, d, s):
        def sums(a, d, s):
            g = a[:, :, None] * d[:, None, :]
            column, one = g[:, :, 2:3], xp.numpy.concatenate([g[:, 3:4, :], g[:, 5:6, :]], 1)
            return (
                (column * s).sum(0),
                (g * g[:, :1]).sum((1, 2)),
                (one * one).sum((1, 2)),
                (g[:, 7, :] * s[:, 0]).sum(0),
            )

        return xp.jit(sums)(a, d, s)

    agree(program, a, d, s, rtol=1e-4, atol=1e-4)
    assert told()


@pytest.mark.parametrize("case", [convolved_case, convolved_in_time_case])
def test_derivatives_of_convolutions_in_little_memory(case, told):
    """What is more than the allowed memory is not made whole: products, nor the windows that they are made of."""
    program, *args = run(norms_alone, case())
    with config.per_example_memory(1):
        agree(program, *args, rtol=1e-4, atol=1e-5)
    assert told()


@pytest.mark.parametrize("groups", [1, 2])
def test_parts_of_derivatives_by_filters(groups, told):
    def loss(xp, filters, x):
        x = xp.lax.conv_general_dilated(x[None], filters, (2,), "SAME", feature_group_count=groups)
        return xp.numpy.tanh(x).sum()

    def program(xp, filters, x):
        def sums(filters, x):
            g = xp.vmap(xp.grad(functools.partial(loss, xp)), (None, 0))(filters, x)
            return (g**2).sum((1, 2, 3)), (g[:, :, 8:, 1:] ** 2).sum((1, 2, 3))

        return xp.jit(sums)(filters, x)

    with config.per_example_memory(1):
        agree(program, normal(0, 64, 64 // groups, 5), normal(1, 30, 64, 6), rtol=1e-4, atol=1e-4)
    assert told()


def test_the_mean_of_gradients_as_one_vector(told):
    """What is joined, weighted and summed is made part by part."""
    a, d, s = normal(0, 32, 40), normal(1, 32, 48), normal(2, 32)

    def program(xp, a, d, s):
        def mean(a, d, s):
            g = a[:, :, None] * d[:, None, :]
            both = xp.numpy.concatenate([-g.reshape(32, -1), 3 * xp.numpy.swapaxes(g, 1, 2).reshape(32, -1)], 1)
            return (s[:, None] * both).mean(0)

        return xp.jit(mean)(a, d, s)

    agree(program, a, d, s, rtol=1e-4, atol=1e-5)
    assert told()


# -- drawn programs: what is done with two products `(b, ...)`, one after the other, and what is taken of them in the end


def per_example(xp, s, g):
    return xp.reshape(s, (-1, *[1] * (g.ndim - 1)))


def counted(xp, *shape):
    return xp.sin(xp.arange(np.prod(shape), dtype=xp.float32)).reshape(shape)


def others(g):
    return tuple(range(1, g.ndim))


DONE = {
    "negated": lambda xp, g, h, s: (-g, h),
    "exchanged": lambda xp, g, h, s: (h, g),
    "added": lambda xp, g, h, s: (g + h, h),
    "subtracted": lambda xp, g, h, s: (g - 2 * h, g),
    "scaled": lambda xp, g, h, s: (g * per_example(xp, s, g), h / 3),
    "divided": lambda xp, g, h, s: (g / (2 + per_example(xp, s, g) ** 2), h),
    "masked": lambda xp, g, h, s: (xp.where(per_example(xp, s, g) > 0, g, 0), h),
    "turned": lambda xp, g, h, s: (xp.swapaxes(g, 1, -1), xp.swapaxes(h, 1, -1)),
    "flattened": lambda xp, g, h, s: (g.reshape(len(g), -1), h.reshape(len(h), -1)),
    "folded": lambda xp, g, h, s: tuple(x.reshape(len(x), 2, -1) if x[0].size % 2 == 0 else x for x in (g, h)),
    "joined": lambda xp, g, h, s: (xp.concatenate([g, h], 1), xp.concatenate([2 * h, g], 1)),
    "extended": lambda xp, g, h, s: tuple(xp.concatenate([counted(xp, len(x), 2, *x.shape[2:]), x], 1) for x in (g, h)),
    "cut": lambda xp, g, h, s: (g[:, 1:], h[:, 1:]),
    "halved": lambda xp, g, h, s: (g[:, g.shape[1] // 2 :], h[:, : (h.shape[1] + 1) // 2]),
    "weighted": lambda xp, g, h, s: (g * counted(xp, *g.shape[1:]), h),
}
TAKEN = {
    "norms": lambda xp, g, h, s: (g * g).sum(others(g)),
    "sum": lambda xp, g, h, s: g.sum(0),
    "mean": lambda xp, g, h, s: (g * per_example(xp, s, g)).mean(0),
    "weighted sum": lambda xp, g, h, s: xp.tensordot(s, g, 1),
    "dot": lambda xp, g, h, s: (g * counted(xp, *g.shape[1:])).sum(others(g)),
    "dot of both": lambda xp, g, h, s: (g * h).sum(others(g)),
    "norm of the mean": lambda xp, g, h, s: (g.mean(0) ** 2).sum(),
}


@settings(max_examples=60, deadline=None)
@given(
    st.tuples(*[st.integers(1, 4)] * 3),
    st.lists(st.sampled_from(list(DONE)), max_size=6),
    st.lists(st.sampled_from(list(TAKEN)), min_size=1, max_size=3, unique=True),
)
def test_drawn_programs(sizes, done, taken):
    """Programs of what the pass knows give what NumPy makes of them in float64."""
    t, i, j = sizes[0], 8 * sizes[1], 8 * sizes[2]

    def program(xp, a, d, x, y, s):
        g, h = xp.swapaxes(a, 1, 2) @ d, x[:, :, None] * y[:, None, :]
        for name in done:
            g, h = DONE[name](xp, g, h, s)
        return [TAKEN[name](xp, g, h, s) for name in taken]

    args = [normal(k, *shape) for k, shape in enumerate([(24, t, i), (24, t, j), (24, i), (24, j), (24,)])]
    wanted = program(np, *(x.astype(np.float64) for x in args))
    found = jaxish.jit(functools.partial(program, jaxish.numpy))(*args)
    for f, w in zip(found, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(f), w, rtol=1e-3, atol=1e-3 * (1 + np.abs(w).max(initial=0)))
