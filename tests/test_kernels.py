"""Compiled kernels: random draws of every length, and boolean arrays at the border of compiled code."""

import functools
import pickle

import numpy as np
import pytest
import torch
from oracle import agree

from jaxish._compile import executable, inductor, kernels, loop_compiler, masks, native_loop, registry
from jaxish._core import config, graph, machine
from jaxish._core.graph import TensorType
from jaxish._core.target import INDUCTOR
from jaxish._random import draws

pytestmark = pytest.mark.usefixtures("compiled")
MASK = np.random.RandomState(0).rand(64, 64) < 0.5
X = np.random.RandomState(1).randn(64, 64).astype(np.float32)


DRAWS = {
    "bits": lambda r, k, n: r.bits(k, (n,)),
    "bytes": lambda r, k, n: r.bits(k, (n,), dtype=np.uint8),
    "uniform": lambda r, k, n: r.uniform(k, (n,), minval=-3.0, maxval=2.0),
    "normal": lambda r, k, n: r.normal(k, (n,)),
    "randint": lambda r, k, n: r.randint(k, (n,), 0, 77),
    "exponential": lambda r, k, n: r.exponential(k, (n,)),
    "truncated_normal": lambda r, k, n: r.truncated_normal(k, -1.0, 2.0, (n,)),
    "poisson": lambda r, k, n: r.poisson(k, 30.0, (n,)),
    "split": lambda r, k, n: r.key_data(r.split(k, n)),
}


@pytest.mark.parametrize("count", [5, 1000, 70_000])
@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS.keys())
def test_draws_of_every_length_are_jaxs(draw, count):
    agree(lambda j: draw(j.random, j.random.key(3), count), rtol=0, atol=0)


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS.keys())
def test_draws_made_part_by_part(draw, monkeypatch):
    monkeypatch.setattr(kernels, "_PART", 999)
    agree(lambda j: draw(j.random, j.random.key(3), 2000), rtol=0, atol=0)


def test_long_draws_are_compiled_at_the_first_call(monkeypatch):
    monkeypatch.setattr(draws, "_counting", functools.cache(draws._counting.__wrapped__))
    config.jit_tier.set("auto")  # until the fixture is torn down
    agree(lambda j: j.random.normal(j.random.key(5), (70_000,)), rtol=0, atol=0)


def test_a_compiler_without_openmp(monkeypatch):
    monkeypatch.setattr(draws, "_counting", functools.cache(draws._counting.__wrapped__))
    monkeypatch.setattr(loop_compiler, "_OPENMP", "-fno-such-option")
    agree(lambda j: j.random.uniform(j.random.key(6), (70_000,)), rtol=0, atol=0)


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS.keys())
@pytest.mark.parametrize("tracing", [0.0, 2.0], ids=["while it is compiled", "before it is traced"])
def test_draws_for_which_no_kernel_is_ready(draw, tracing, monkeypatch):
    monkeypatch.setattr(kernels, "_TRACING", tracing)
    monkeypatch.setattr(draws, "_counting", functools.cache(draws._counting.__wrapped__))
    config.jit_tier.set("auto")  # until the fixture is torn down
    # XLA contracts products and sums of arrays as short as these on some processors, and not on others: two units.
    agree(lambda j: [draw(j.random, j.random.key(seed), 7) for seed in range(20)], rtol=2**-22, atol=0)


@pytest.mark.parametrize("alpha", [0.3, 1.0, 25.0])
def test_gamma_takes_jaxs_path(alpha):
    agree(lambda j: j.random.gamma(j.random.key(5), alpha, (3000,)), rtol=2e-6)
    agree(lambda j: j.random.loggamma(j.random.key(5), alpha, (300,)), rtol=2e-5)


SPECIAL = {
    "erf_inv": lambda j, a, x: j.lax.erf_inv(x - 1),
    "of numbers": lambda j, a, x: [
        getattr(j.scipy.special, name)(x[0, 0]) for name in ("ndtri", "dawsn", "expi", "spence")
    ],
    "expn": lambda j, a, x: j.scipy.special.expn(3, x),
    "betainc": lambda j, a, x: j.scipy.special.betainc(a, 1.5, x / 2),
    "hyp2f1": lambda j, a, x: j.scipy.special.hyp2f1(a, 0.5, 2.0, x / 3),
    "igamma_grad_a": lambda j, a, x: j.lax.igamma_grad_a(*j.numpy.broadcast_arrays(a, x)),
    "gradient of samples": lambda j, a, x: j.grad(lambda a: j.random.gamma(j.random.key(0), a).sum())(a),
    "mapped": lambda j, a, x: j.vmap(j.grad(j.scipy.special.gammainc), (0, None))(a, x[1, 0]),
}


@pytest.mark.parametrize("name", SPECIAL)
def test_special_functions_of_a_few_numbers(name, monkeypatch):
    ready, found = native_loop.ready, []

    def waiting(*given, **_):
        found.append(ready(*given, waits=True, at_once=True))
        return found[-1]

    monkeypatch.setattr(native_loop, "ready", waiting)
    random = np.random.default_rng(2)
    a, x = random.uniform(0.5, 3, 4).astype(np.float32), random.uniform(0.1, 1.9, (3, 1)).astype(np.float32)
    agree(lambda j: SPECIAL[name](j, j.numpy.asarray(a), j.numpy.asarray(x)), rtol=1e-5, atol=1e-6)
    assert found and None not in found


MASKS = {
    "comparison": lambda j, m, x: x < 0,
    "logic": lambda j, m, x: (m & (x > 0)) | ~m,
    "selection": lambda j, m, x: j.numpy.where(m, x, -x),
    "a view of a mask": lambda j, m, x: (m ^ (x > 0)).T.reshape(32, 128),
    "tests of numbers": lambda j, m, x: [
        t(j.numpy.where(m, x, x / 0)) for t in (j.numpy.isnan, j.numpy.isinf, j.numpy.isfinite)
    ],
    "counting": lambda j, m, x: (m.sum(0), m.any(1), m & True),
    "indexing": lambda j, m, x: (x.at[m].set(0.0), m, ~m),
    "conversion": lambda j, m, x: (m.astype(np.float32) * x, m * x, m.astype(np.int8)),
    "loop": lambda j, m, x: j.lax.fori_loop(0, 3, lambda i, c: (c[0] ^ (c[1] > i), c[1] + 1), (m, x)),
    "gradient": lambda j, m, x: j.grad(lambda x: (j.numpy.where(m, x, 0.0) ** 2 * (x > 0)).sum())(x),
}


@pytest.mark.parametrize("program", MASKS.values(), ids=MASKS.keys())
def test_boolean_arrays_in_and_out(program):
    agree(lambda j: j.jit(lambda m, x: program(j, m, x))(MASK, X))


def test_a_mask_saved_for_the_gradient_of_a_jitted_function():
    agree(lambda j: j.grad(lambda x: j.jit(lambda x: j.numpy.where(x > 0, x**2, 0.1 * x))(x).sum())(X))


@pytest.mark.parametrize(
    "program",
    [
        lambda j, x: (j.lax.fori_loop(0, 3, lambda i, c: c + i, x), x),
        lambda j, x: j.lax.while_loop(lambda c: c.sum() < 100, lambda c: c + 1, x).T,
        lambda j, x: x.T[None],
        lambda j, x: x,
    ],
)
def test_what_leaves_nothing_to_fuse(program):
    agree(lambda j: j.jit(lambda x: program(j, x))(X))


def test_a_graph_read_from_a_pickle_is_compiled_from_the_same_text(monkeypatch):
    body = graph.trace(
        lambda x, y: [(x @ y) < 0], [TensorType((256, 256), torch.float32, torch.device("cpu"))] * 2
    ).graph
    request = executable.of(body).request()
    texts = []
    kept = registry.Backend(lambda module, examples: texts.append(_rewritten(module)) or module.forward, INDUCTOR)
    monkeypatch.setattr(registry, "lookup", lambda name: kept)
    monkeypatch.setattr(machine, "has_whole_wide_vectors", lambda: True)  # for which products are oneDNN's
    request.compile()
    pickle.loads(pickle.dumps(request)).compile()
    assert texts[0] == texts[1]
    assert "jaxish.product" in texts[0] and "torch.uint8" in texts[0]


def _rewritten(module):
    return masks.as_bytes(inductor.onednn.with_products(module, torch.ops.jaxish.product.default))[0].code


def test_compiled_code_keeps_the_primitives_that_it_calls():
    # The same draws by another graph, which is gone when the second one runs.
    agree(lambda j: j.random.double_sided_maxwell(j.random.key(0), 0.0, 1.0, (300,)))
    agree(lambda j: j.jit(lambda k: j.random.double_sided_maxwell(k, 0.0, 1.0, (300,)))(j.random.key(0)))
