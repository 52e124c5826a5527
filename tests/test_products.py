"""Products of matrices in C++ take their factors as they lie in memory: JAX's numbers for every way to lie."""

import jax
import numpy as np
import pytest
import torch
from oracle import agree

import jaxish
from jaxish._compile import loop_blocks, loop_sources, native_graph, onednn, pieces, piecewise

RANDOM = np.random.default_rng(5)

# From a batch of matrices to how it lies, and back: the same numbers, seen by another index.
LAYOUTS = {
    "in order": (lambda x: x, lambda xp, x: x),
    "turned": (lambda x: x.transpose(0, 2, 1), lambda xp, x: xp.swapaxes(x, 1, 2)),
    "row by row of all": (lambda x: x.transpose(1, 0, 2), lambda xp, x: xp.swapaxes(x, 0, 1)),
    "innermost the batch": (lambda x: x.transpose(1, 2, 0), lambda xp, x: xp.moveaxis(x, 2, 0)),
    "column by column of all": (lambda x: x.transpose(2, 0, 1), lambda xp, x: xp.moveaxis(x, 0, 2)),
    "a part": (lambda x: np.pad(x, ((0, 0), (1, 2), (3, 1))), lambda xp, x: x[:, 1:-2, 3:-1]),
    "every other": (lambda x: np.repeat(x, 2, 2), lambda xp, x: x[:, :, ::2]),
    "backwards": (lambda x: x[:, ::-1], lambda xp, x: x[:, ::-1]),
    "one for all": (lambda x: x[0], lambda xp, x: xp.broadcast_to(x, (3, *x.shape))),
    "one row for all": (lambda x: x, lambda xp, x: xp.broadcast_to(x[:, :1], x.shape)),
}
# Rows, inner, columns: vectors, nothing, odd rests, what is brought in order on the way, what is left to BLAS.
SIZES = [(5, 7, 9), (1, 6, 4), (6, 5, 1), (1, 9, 1), (4, 1, 3), (17, 33, 20), (2, 0, 3), (40, 16, 32), (70, 90, 130)]


@pytest.fixture(params=[1, 3])
def threads(request, monkeypatch):
    """Threads, which share the products of few matrices."""
    monkeypatch.setattr(loop_blocks, "_SHARED_PRODUCTS", 1)
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def draw(shape, dtype):
    x, y = 3 * RANDOM.normal(size=(2, *shape))
    return (x + 1j * y if dtype is np.complex64 else x).astype(dtype)


def program(left, right):
    return lambda xp: lambda a, b: xp.matmul(LAYOUTS[left][1](xp, a), LAYOUTS[right][1](xp, b))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.complex64])
@pytest.mark.parametrize("shift, sizes", list(enumerate(SIZES)))
def test_factors_are_taken_as_they_lie(shift, sizes, dtype, threads):
    rows, inner, columns = sizes
    names, cases = list(LAYOUTS), {}
    for number, left in enumerate(names):
        right = names[(number + shift) % len(names)]
        a, b = LAYOUTS[left][0](draw((3, rows, inner), dtype)), LAYOUTS[right][0](draw((3, inner, columns), dtype))
        cases[left, right] = program(left, right), a.copy(), b.copy()
    with jax.enable_x64(True), jaxish.enable_x64(True):
        check_together(cases)


def check_together(cases):
    """Check functions that are compiled in one file."""
    graphs, sources = {}, {}
    for name, (function, *given) in cases.items():
        graphs[name] = jaxish.jit(function(jaxish.numpy)).trace(*given)._program.closed.graph
        sources[name] = loop_sources.graph_source(graphs[name], function=f"product_{len(sources)}")
    library = native_graph.compiled_together([source.function for source in sources.values()], "products")
    assert library is not None
    for number, (name, (function, *given)) in enumerate(cases.items()):
        called = native_graph.called(library, f"product_{number}", graphs[name], sources[name])
        (found,) = called(*map(torch.tensor, given))
        np.testing.assert_allclose(found, jax.jit(function(jax.numpy))(*given), rtol=1e-4, atol=1e-3, err_msg=str(name))


def attention(xp):
    def function(q, k, v):
        weights = xp.nn.softmax(xp.numpy.einsum("bthc,bshc->bhts", q, k), axis=-1)
        return xp.numpy.einsum("bhts,bshc->bthc", weights, v)

    return function


@pytest.mark.parametrize("length", [1, 30])
def test_what_products_alone_read_is_not_copied_before(length):
    q, k, v = (draw((2, n, 4, 16), np.float32) for n in (length, 30, 30))
    graph = jaxish.jit(attention(jaxish)).trace(q, k, v)._program.closed.graph
    products = [piece for piece in pieces.cut(graph).pieces if piece.nodes[-1].target is torch.ops.aten.bmm.default]
    assert [[node.op for node in piece.inputs if "clone" in node.name] for piece in products] == [[], []]
    assert not [form for form in piecewise._written(graph, products) if "for (int i" in form.source.function]
    found = piecewise.compiled(graph, "attention")
    assert found is not None
    (result,) = found.module.forward(*map(torch.tensor, (q, k, v)))
    np.testing.assert_allclose(result, attention(jax)(q, k, v), rtol=1e-4, atol=1e-4)


def of_bytes(jax, a, b):
    def product(a, b, numbers=(((1,), (0,)), ((), ()))):
        return jax.lax.dot_general(a, b, numbers, preferred_element_type="int32")

    def steps(a, b):
        return jax.lax.scan(lambda total, _: (total * 3 + product(a, b), None), product(a, b), None, length=3)[0]

    rows = (((1,), (1,)), ((), ()))
    found = [product(a, b), product(b, a, (((0,), (1,)), ((), ()))), product(a[:, ::2], b[::2])]
    found += [jax.jit(product)(a, b) * 2, jax.jit(lambda a: product(a, a, rows) + a.sum())(a), jax.jit(steps)(a, b)]
    return found, jax.vmap(lambda a: product(a[None], b))(a), jax.jit(jax.vmap(product, (None, 1)))(a, b[:, :, None])


@pytest.mark.parametrize("tier", ["direct", "compiled"])
@pytest.mark.parametrize("has_instructions", [True, False])
@pytest.mark.parametrize("sizes", [(5, 7, 9), (17, 300, 20), (0, 3, 2), (3, 0, 2), (64, 2048, 8)])
def test_products_of_bytes(sizes, has_instructions, tier, monkeypatch, request):
    if tier == "compiled":
        request.getfixturevalue(tier)
    if not has_instructions:
        monkeypatch.setattr(onednn, "_has_instructions_for_bytes", lambda: False)
    monkeypatch.setattr(onednn, "_FROM_OF_BYTES", 1)
    rows, inner, columns = sizes
    a = RANDOM.integers(-128, 128, (rows, inner)).astype("int8")
    b = RANDOM.integers(-128, 128, (inner, columns)).astype("int8")
    agree(of_bytes, a, b)
    agree(of_bytes, np.full_like(a, -128), np.full_like(b, -128))
