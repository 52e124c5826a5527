"""Long graphs piece by piece: they give JAX's numbers, and what comes again is compiled once."""

import importlib
import itertools
import operator
import time
import types

import jax
import numpy as np
import pytest
import torch
from oracle import agree

import jaxish
from jaxish._compile import background, executable, in_turn, loop_compiler, lowering, onednn, pieces, piecewise
from jaxish._core import graph, machine, operators
from jaxish._core.target import PIECES

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(6, 8)).astype(np.float32)


def network(depth, size=8):
    draw = lambda *shape: RANDOM.normal(size=shape).astype(np.float32) * 0.3
    return [{"w": draw(size, size), "b": draw(size), "scale": 1 + draw(size)} for _ in range(depth)]


def loss(xp):
    def function(layers, x):
        for layer in layers:
            centred = x - x.mean(-1, keepdims=True)
            normal = centred / xp.numpy.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
            x = x + xp.nn.gelu((normal * layer["scale"]) @ layer["w"] + layer["b"])
        return (xp.nn.log_softmax(x) * xp.nn.one_hot(xp.numpy.arange(len(x)) % 3, x.shape[1])).sum()

    return function


def adam(xp):
    """Return a step of Adam whose gradients are clipped by their norm, all together."""

    def step(layers, first, second, count, x):
        value, gradients = xp.value_and_grad(loss(xp))(layers, x)
        norm = xp.numpy.sqrt(sum((g**2).sum() for g in xp.tree.leaves(gradients)))
        gradients = xp.tree.map(lambda g: g * xp.numpy.minimum(1, 1 / norm), gradients)
        first = xp.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradients)
        second = xp.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, second, gradients)
        early = 1 - 0.9 ** (count + 1), 1 - 0.99 ** (count + 1)
        update = lambda p, m, v: p - 0.01 * (m / early[0]) / (xp.numpy.sqrt(v / early[1]) + 1e-8)
        return xp.tree.map(update, layers, first, second), first, second, count + 1, value

    return step


def adam_case(depth=3, size=8):
    layers = network(depth, size)
    zeros = jax.tree.map(np.zeros_like, layers)
    return layers, zeros, zeros, np.float32(0), RANDOM.normal(size=(6, size)).astype(np.float32)


def updates(xp):
    def function(x):
        for i in range(4):
            x = x.at[i].set(xp.numpy.sin(x[i + 1]) * 2).at[:, i].add(x[:, -1] * 0.5)
        return x

    return function


def norms(xp):
    def function(x):
        for _ in range(4):
            x = x / (1 + xp.numpy.linalg.norm(x)) + x.max() * 0.1 - xp.numpy.exp(x).mean()
        return x, x.sum()

    return function


def views(xp):
    def function(x):
        y = xp.numpy.sin(x).T.reshape(4, 12)
        z = (y[:, ::2] * 2 + 1).reshape(2, 12)[:, None]
        return (z * xp.numpy.ones((3, 1))).transpose(1, 2, 0), y.T[1:3] - 1, xp.numpy.broadcast_to(y[0] + 1, (2, 12))

    return function


def integers(xp):
    def function(x):
        n = (x * 100).astype("int32")
        odd = (n % 2 == 1) | ~(n > 3)
        return xp.numpy.where(odd, n << 3, n // 7), odd.sum(), (n.view("uint32") >> 5) ^ 3, xp.lax.population_count(n)

    return function


def loops(xp):
    def function(x):
        total, parts = xp.lax.scan(lambda c, r: (c * 0.5 + xp.numpy.tanh(r), c.sum()), x[0] * 2 + 1, x * x - 1)
        noise = xp.random.normal(xp.random.key(3), (8,)) * total + 1
        small = xp.lax.while_loop(lambda c: c.sum() > 1, lambda c: c * 0.5, abs(total) + 1)
        return noise * small - 1, xp.numpy.sort(x * 3 + 1, axis=0) * 2 - 1, xp.numpy.cumsum(parts + 1) * 2

    return function


def matrices(xp):
    def function(x):
        matrix = x.T @ x + 3 * xp.numpy.eye(8)
        factor = xp.numpy.linalg.cholesky(matrix * 0.5 + 1)
        return xp.numpy.linalg.solve(matrix + 1, x.T * 2 - 1) * 3 + 1, xp.numpy.log(xp.numpy.diag(factor)).sum() * 2

    return function


def primitives_of_one_name(xp):
    def function(x):
        coarse = xp.lax.reduce_precision(x * 2 + 1, 5, 3) * 3 @ xp.numpy.eye(8)
        return xp.lax.reduce_precision(coarse * 2 + 1, 8, 7) * 3, (x.T @ x + 3.0) ** x[:1, :].T

    return function


def complexes(xp):
    return lambda x: (xp.numpy.exp(1j * x) * (x + 2j), xp.numpy.fft.fft(x * 2 + 1).real * 3 - 1)


def hard_values(xp):
    return lambda x: (x / 0 * 2, xp.numpy.sqrt(x) + 1, xp.numpy.maximum(x * 2, xp.numpy.nan), xp.numpy.log(x * 0) - 1)


def empty(xp):
    return lambda x: (x[:0] * 2 + 1, (x[:0] * 2 + 1).sum(), xp.numpy.concatenate([x[:0] + 1, x * 2 + 1]) * 2)


def through_indices(xp):
    index = np.array([[3, 0], [5, -1]])
    return xp.grad(lambda x: (x[index] ** 3 + xp.numpy.sin(x[index] * 2)).sum() + (x[1] * x[:, 0][:, None]).sum())


PROGRAMS = {
    "training": (adam, adam_case()),
    "gradient": (lambda xp: xp.grad(loss(xp), (0, 1)), (network(3), X)),
    "second derivatives": (lambda xp: xp.hessian(lambda x: (xp.numpy.sin(x) ** 3).sum() * x.mean()), (X[0],)),
    "per example": (lambda xp: xp.vmap(xp.grad(loss(xp)), (None, 0)), (network(2), X[:, None])),
    "parts set": (updates, (X,)),
    "gradient of parts set": (lambda xp: xp.grad(lambda x: (updates(xp)(x) ** 2).sum()), (X,)),
    **{
        f.__name__: (f, (X,))
        for f in (norms, views, integers, loops, matrices, primitives_of_one_name, complexes, hard_values, empty)
    },
    "through indices": (through_indices, (X,)),
}


def traced(function, *args):
    return jaxish.jit(function).trace(*args)._program.closed


def graph_of(function, *args):
    return traced(function, *args).graph


def tensors(args):
    return [torch.tensor(np.asarray(a)) for a in jax.tree.leaves(args)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_pieces_give_the_values_of_the_whole(name):
    program, args = PROGRAMS[name]
    closed = traced(program(jaxish), *args)
    found = piecewise.compiled(closed.graph, name)
    assert found is not None
    results = found.module.forward(*closed.captured, *tensors(args))
    wanted = jax.tree.leaves(jax.jit(program(jax))(*args))
    for f, w in zip(results, wanted, strict=True):
        agree(lambda j, f=f, w=w: f.numpy() if j is jaxish else np.asarray(w), rtol=2e-5, atol=2e-5)


def test_what_is_written_in_place_is_read_in_the_programs_order():
    def function(x):
        y = (x * 2 + 1).clone()
        before = y * 3 + 1
        y[0] = (x * 5 - 1)[2]
        between = y * 3 + 1
        y.add_(between[1] * 2 + 1)
        return [before * 2 - 1, y, between * 2 - 1, y * 3 + 1]

    x = torch.tensor([0.5, -1.0, 2.0])
    traced = graph.trace(function, [graph.TensorType.of(x)]).graph
    assert any(node.meta.get("writes") for node in traced.module.graph.nodes)
    found = piecewise.compiled(traced, "function")
    assert found is not None
    for result, wanted in zip(found.module.forward(x), function(x), strict=True):
        torch.testing.assert_close(result, wanted)


WRITTEN = {  # whether it becomes a new value, and what writes into the new tensor y
    "numbers": (True, lambda x, y: y.mul_(3).add_(x).sub_(x * x, alpha=2).div_(y + 4)),
    "where a mask is": (True, lambda x, y: y.masked_fill_(x > 0, 7)),
    "flags": (True, lambda x, y: (x > 0).logical_and_(y > -1)),
    "laid out otherwise": (False, lambda x, y: y.t().contiguous().t().masked_fill_(x > 0, 7)),
    "with a view": (False, lambda x, y: (y[0], y.mul_(3))[0] + y),
    "under another name": (False, lambda x, y: (lambda flags: (flags.detach(), flags.logical_and_(y > -1))[0])(x > 0)),
    "an argument": (False, lambda x, y: y + x.mul_(2)),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_what_is_written_into_a_new_tensor_is_a_new_value(name):
    is_new, write = WRITTEN[name]
    x = torch.tensor([[0.5, -1.0, 2.0], [3.0, -0.1, 0.0]])

    def function(x):
        y = x * 2 + 1
        before = y * 5
        return [write(x, y), y * 2, before]

    body = graph.trace(function, [graph.TensorType.of(x)]).graph
    assert is_new != any(node.meta.get("writes") for node in body.module.graph.nodes)
    for result, wanted in zip(body.module.forward(x.clone()), function(x.clone()), strict=True):
        torch.testing.assert_close(result, wanted)


@pytest.mark.parametrize("mapped", [False, True])
def test_derivatives_that_torch_writes_in_place_are_part_of_pieces(mapped):
    def program(xp):
        gradient = xp.grad(lambda x, y: (xp.numpy.minimum(x * y, xp.numpy.clip(y, -0.5, 0.5) * x) ** 2).sum(), (0, 1))
        return xp.vmap(gradient, 1, 1) if mapped else gradient

    x, y = np.random.default_rng(1).normal(size=(2, 20, 7)).astype(np.float32)
    body = graph_of(program(jaxish), x, y)
    assert not any(node.meta.get("writes") for node in body.module.graph.nodes)
    found = piecewise.compiled(body, "function")
    assert found is not None and found.is_enough
    results = found.module.forward(torch.tensor(x), torch.tensor(y))
    for result, wanted in zip(results, program(jax)(x, y), strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-6)


def weighted_products(xp):
    """Return what each sample along a ray gets of the light, and its derivative."""
    return xp.value_and_grad(lambda x: (xp.numpy.cumprod(x, 1) * xp.numpy.flip(x, 1)).sum())


def encoded(xp):
    """Return small arrays, joined to a large one, that rows are multiplied with."""

    def function(x):
        parts = [f(x * 2.0**i) for i in range(8) for f in (xp.numpy.sin, xp.numpy.cos)]
        return xp.nn.relu(xp.numpy.concatenate(parts, -1) @ xp.numpy.ones((48, 64)) * 0.1)

    return function


def shifted_medians(xp):
    def function(x):
        around = xp.numpy.pad(x, 1, mode="edge")
        shifts = [around[i : i + x.shape[0], j : j + x.shape[1]] for i in range(3) for j in range(3)]
        return xp.numpy.sort(xp.numpy.stack(shifts), 0)[4], xp.numpy.argsort(xp.numpy.stack(shifts, -1))[..., 0]

    return function


def zeros_among(x):
    return np.where(np.random.default_rng(4).random(x.shape) < 0.1, np.float32(0), x)


@pytest.mark.parametrize(
    "program, x",
    [
        (weighted_products, zeros_among(np.random.default_rng(5).normal(size=(40, 8)).astype(np.float32))),
        (encoded, np.random.default_rng(6).normal(size=(2000, 3)).astype(np.float32)),
        (shifted_medians, zeros_among(np.random.default_rng(7).normal(size=(130, 301)).astype(np.float32))),
    ],
)
def test_programs_that_pieces_are_enough_for(program, x):
    found = piecewise.compiled(graph_of(program(jaxish), x), "function")
    assert found is not None and found.is_enough
    for result, wanted in zip(found.module.forward(torch.tensor(x)), jax.tree.leaves(program(jax)(x)), strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-4)


def hard(dtype, shape):
    generator = np.random.default_rng(9)
    numbers = generator.integers(-4, 5, shape)
    if not np.issubdtype(dtype, np.floating):
        return np.abs(numbers).astype(dtype) if np.dtype(dtype).kind in "ub" else numbers.astype(dtype)
    return generator.choice(np.array([np.nan, 0, -0.0, np.inf, -np.inf, 1, 2, 3], dtype), shape)


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint32, np.int8, np.uint8, np.bool_])
@pytest.mark.parametrize(
    "shape, axis", [((2, 16), 0), ((9, 37), 0), ((32, 3, 50), 0), ((5, 7, 31), 1), ((4, 50, 25), 2)]
)
@pytest.mark.parametrize("descending", [False, True])
def test_short_rows_and_columns_are_sorted_side_by_side(dtype, shape, axis, descending):
    def program(xp):
        def function(x):
            order = {"axis": axis, "descending": descending}
            return xp.numpy.sort(x, **order), xp.numpy.argsort(x, **order)

        return function

    x = hard(dtype, shape)
    body = graph_of(program(jaxish), x)
    assert "sort_side_by_side<" in "".join(f.source.function for f in piecewise._written(body, pieces.cut(body).steps))
    found = piecewise.compiled(body, "function")
    assert found is not None and found.is_enough
    for result, wanted in zip(found.module.forward(torch.tensor(x)), program(jax)(x), strict=True):
        np.testing.assert_array_equal(result, wanted)
        if dtype is np.float32:
            np.testing.assert_array_equal(np.signbit(result.numpy()), np.signbit(wanted))


def test_what_has_nothing_to_compile_together_is_left_to_torch():
    def program(xp):
        return lambda x, w: xp.nn.relu(xp.lax.conv_general_dilated(x, w, (2, 2), "VALID", feature_group_count=2))

    x, w = (np.random.default_rng(8).normal(size=s).astype(np.float32) for s in ((2, 8, 41, 41), (16, 4, 3, 3)))
    found = piecewise.compiled(graph_of(program(jaxish), x, w), "function", is_for_now=False)
    assert found is not None and found.is_enough
    (result,) = found.module.forward(torch.tensor(x), torch.tensor(w))
    np.testing.assert_allclose(result, program(jax)(x, w), rtol=1e-4, atol=1e-4)


def test_what_torch_puts_off_is_there_when_a_piece_reads_it():
    def function(x):
        return [
            torch.cumsum(x.conj().index_select(0, torch.tensor([1, 0])) * 2 + 1, 0),
            (x @ x.conj().T).conj() * 2 + 1,
        ]

    x = torch.tensor([[0.5 + 1j, -1.0], [2.0 - 3j, 4.0j]])
    found = piecewise.compiled(graph.trace(function, [graph.TensorType.of(x)]).graph, "function")
    assert found is not None
    for result, wanted in zip(found.module.forward(x), function(x), strict=True):
        torch.testing.assert_close(result, wanted)


def test_a_deeper_network_has_no_more_to_compile():
    forms = [{p.form for p in pieces.cut(graph_of(adam(jaxish), *adam_case(depth))).pieces} for depth in (4, 9)]
    assert len(forms[0] ^ forms[1]) == 2  # the norm of all gradients


def test_pieces_that_follow_each_other_are_one_call():
    body = graph_of(adam(jaxish), *adam_case(9, 12))
    found = piecewise.compiled(body, "adam")
    assert found is not None and found.is_enough
    (call,) = {
        n.target for n in found.module.graph.nodes if n.op == "call_function" and n.target is not operator.getitem
    }
    assert isinstance(call, types.FunctionType)


def test_parts_of_arrays_are_part_of_pieces():
    def program(xp):
        def function(x, w, v):
            for _ in range(4):
                a, b = xp.numpy.split(x @ w, 2, axis=1)
                x = xp.numpy.tanh(a) * xp.nn.sigmoid(b)
            first, second, *_ = xp.numpy.unstack(x @ v)
            return x, first * second + 1

        return lambda *args: (function(*args), xp.jacfwd(xp.grad(lambda *a: (function(*a)[1] ** 2).sum()), 1)(*args))

    x, w, v = (RANDOM.normal(size=size).astype(np.float32) for size in [(6, 8), (8, 16), (8, 5)])
    found = piecewise.compiled(lowering.spelled_out(graph_of(program(jaxish), x, w, v), PIECES), "function")
    assert found is not None
    called = [
        n.target for n in found.module.graph.nodes if n.op == "call_function" and n.target is not operator.getitem
    ]
    assert sum(not operators.of(target).is_view for target in called) == 1
    wanted = jax.tree.leaves(program(jax)(x, w, v))
    for result, value in zip(found.module.forward(*map(torch.tensor, (x, w, v))), wanted, strict=True):
        np.testing.assert_allclose(result, value, rtol=1e-3, atol=1e-4)


def test_rows_of_what_no_piece_computes_with_are_read_by_pieces():
    def program(xp):
        def function(x, y):
            first, second = x  # float16, which no piece takes: nor the list of its rows
            return xp.numpy.cumsum(y, 0) * first.astype("float32") + xp.numpy.tanh(y) * second.astype("float32")

        return function

    x, y = np.array([0.5, -2], np.float16), RANDOM.normal(size=(30, 30)).astype(np.float32)
    found = piecewise.compiled(graph_of(program(jaxish), x, y), "function")
    assert found is not None
    (result,) = found.module.forward(torch.tensor(x), torch.tensor(y))
    np.testing.assert_allclose(result, program(jax)(x, y), rtol=1e-4, atol=1e-4)


def test_a_call_of_several_pieces_takes_what_lies_anyhow_and_returns_what_it_made():
    def program(xp):
        def function(x, y):
            a = xp.numpy.tanh(x @ y)
            b = xp.numpy.sin(a @ y).sum(0)
            c = (b + a) @ y.T
            return a.T, xp.numpy.cos(c @ y)[1:], b, y * 2 + c[0, 0], (x[:0] @ y).sum(0)

        return function

    x, y = RANDOM.normal(size=(2, 9, 9)).astype(np.float32)
    found = piecewise.compiled(graph_of(program(jaxish), x, y), "function")
    assert found is not None
    wanted = program(jax)(x, y)
    for result in (
        found.module.forward(torch.tensor(x), torch.tensor(y)),
        found.module.forward(torch.tensor(x.T.copy()).T, torch.tensor(np.repeat(y, 2, 1))[:, ::2]),
    ):
        for r, w in zip(result, wanted, strict=True):
            np.testing.assert_allclose(r.contiguous(), w, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("seed", range(20))
def test_arrays_that_are_needed_at_once_lie_apart(seed):
    random = np.random.default_rng(seed)
    sizes = {name: int(random.integers(1, 300)) for name in range(40)}
    used = [(random.choice(name, min(name, 3), replace=False).tolist(), [name]) for name in range(40)]
    places, room = in_turn._in_block(used, sizes, 40)
    last = {name: number for number, names in enumerate(used) for name in itertools.chain(*names)}
    for number in range(40):
        filled = [name for name in range(number + 1) if last[name] >= number]
        alive = sorted([(0, 40), *((places[name], places[name] + sizes[name]) for name in filled)])
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(alive))
        assert alive[-1][1] <= room
    assert room < 40 + sum(sizes.values()) + 40 * 64


def test_one_piece_for_each_parameter():
    body = graph_of(adam(jaxish), *adam_case(4))
    results = body.module.graph.output_node().args[0]
    updating = [p for p in pieces.cut(body).pieces if {results[0], results[12], results[24]} & {*p.outputs}]
    assert len(updating) == 1 and len(updating[0].outputs) == 3  # a new parameter, and both its averages


def test_products_of_small_matrices_are_part_of_pieces():
    def program(turns, x):
        for turn in turns:
            x = jaxish.numpy.sin(turn) @ x + jaxish.numpy.cos(x @ turn)
        return x

    assert len(pieces.cut(graph_of(program, np.zeros((5, 4, 4), np.float32), np.eye(4, dtype=np.float32))).pieces) == 1
    assert len(pieces.cut(graph_of(program, np.zeros((5, 9, 9), np.float32), np.eye(9, dtype=np.float32))).pieces) > 1


def large(xp):
    return lambda x: (xp.numpy.exp(x) * 2 + 1, (x.sum(1) * 2 + 1) * 3)


def large_and_moved(xp):
    return lambda x: xp.numpy.concatenate([x[1:] * 2 + 1, x[::-1] * 3 + 1]) @ xp.numpy.ones((300, 3)) * 2 + 1


def large_and_scattered(xp):
    def function(x):
        places = xp.numpy.arange(150_000) * 7 % 45
        return xp.ops.segment_sum(x.ravel() * 2 + 1, places, 40), xp.ops.segment_max(x, places[:500], 40)

    return function


@pytest.mark.parametrize("function, is_enough", [(large, True), (large_and_scattered, True), (large_and_moved, False)])
def test_large_arrays_are_enough_where_all_is_done_in_blocks(function, is_enough):
    x = RANDOM.normal(size=(500, 300)).astype(np.float32)
    found = piecewise.compiled(graph_of(function(jaxish), x), "function")
    assert found is not None and found.is_enough is is_enough
    for result, wanted in zip(found.module.forward(torch.tensor(x)), jax.tree.leaves(function(jax)(x)), strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-4)


def test_zeros_that_are_added_to_are_no_reason_for_another_compiler():
    """A matrix of few elements that are not zero times one: most of what goes over rows are the zeros to begin with."""
    generator = np.random.default_rng(3)
    rows, columns = (generator.integers(low, high, 20_000, np.int32) for low, high in ((-3, 2003), (0, 2000)))
    values, x = (generator.normal(size=shape).astype(np.float32) for shape in (20_000, (2000, 32)))

    def product(xp):
        def function(rows, columns, values, x):
            taken = xp.numpy.asarray(x).at[columns].get(mode="clip")
            return xp.ops.segment_sum(values[:, None] * taken, rows, 2000)

        return function

    found = piecewise.compiled(graph_of(product(jaxish), rows, columns, values, x), "product")
    assert found is not None
    assert found.is_enough
    (result,) = found.module.forward(*map(torch.tensor, (rows, columns, values, x)))
    np.testing.assert_allclose(result, product(jax)(rows, columns, values, x), rtol=1e-5, atol=1e-5)


def test_operators_that_are_no_pieces_are_left_to_a_compiler():
    def function(x):
        y = x.astype(jaxish.numpy.bfloat16)
        for _ in range(5):
            y = jaxish.numpy.sin(y) * 2 + 1
        return y, x * 2 + 1

    found = piecewise.compiled(graph_of(function, X), "function")
    assert found is not None and not found.is_enough


@pytest.mark.parametrize("size, by_onednn", [(8, False), (128, True)])
def test_large_products_are_done_as_in_other_compiled_code(size, by_onednn, monkeypatch):
    monkeypatch.setattr(machine, "has_whole_wide_vectors", lambda: True)
    x = RANDOM.normal(size=(size, size)).astype(np.float32)
    function = lambda xp: lambda x: xp.numpy.sin((x * 2 + 1) @ (x - 1)) * 2 + 1
    found = piecewise.compiled(graph_of(function(jaxish), x), "function")
    assert found is not None and found.is_enough
    called = [n.target for n in found.module.graph.nodes if n.op == "call_function"]
    assert (onednn.product in called) is by_onednn
    np.testing.assert_allclose(found.module.forward(torch.tensor(x))[0], function(jax)(x), rtol=1e-3, atol=1e-3)


def test_what_is_left_is_freed_on_its_way():
    def function(x):
        for _ in range(300):
            x = jaxish.numpy.sin(x @ x) * 0.5
        return x

    found = piecewise.compiled(graph_of(function, np.ones((300, 300), np.float32)), "function")
    assert found is not None
    assert "(mm_default_150);  mm_default_150 = None\n" in found.module.code


def waited_for(condition):
    deadline = time.monotonic() + 100
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def asked_of_worker(monkeypatch):
    waited_for(lambda: not background.compiler().is_busy)  # with what other tests have left
    asked = []
    monkeypatch.setattr(background.Compiler, "_worker_compiles", lambda self, request: asked.append(request))
    return asked


def is_cut(found):
    """Tell whether a graph runs piece by piece, or does so until it is compiled."""
    return found._meanwhile not in (None, found.direct)


def test_a_program_of_many_small_arrays_runs_in_pieces_for_good(automatic, monkeypatch):
    asked = asked_of_worker(monkeypatch)
    args, step = adam_case(4, 96), jaxish.jit(adam(jaxish))  # more elements than graphs that are one function have

    def check():
        for f, w in zip(jax.tree.leaves(step(*args)), jax.tree.leaves(wanted), strict=True):
            np.testing.assert_allclose(f, w, rtol=2e-3, atol=2e-3)

    wanted = jax.jit(adam(jax))(*args)
    check()
    check()
    (program,) = step._programs.values()
    found = executable.of(program.closed.graph)
    waited_for(lambda: not background.compiler().is_busy)
    assert is_cut(found) and not asked
    check()


def test_a_program_that_pieces_are_not_best_for_runs_in_them_until_it_is_compiled(automatic, monkeypatch):
    asked = asked_of_worker(monkeypatch)
    x = RANDOM.normal(size=(500, 300)).astype(np.float32)
    jitted, wanted = jaxish.jit(large_and_moved(jaxish)), large_and_moved(jax)(x)
    for _ in range(2):
        np.testing.assert_allclose(jitted(x), wanted, rtol=1e-4, atol=1e-4)
    waited_for(lambda: not background.compiler().is_busy)
    np.testing.assert_allclose(jitted(x), wanted, rtol=1e-4, atol=1e-4)
    (program,) = jitted._programs.values()
    assert is_cut(executable.of(program.closed.graph)) and len(asked) == 1


def test_primitives_of_users_are_part_of_pieces(automatic):
    def program(j, run):
        of = lambda path: importlib.import_module(f"{j.__name__}.{path}")
        core, mlir, marked = of("core"), of("interpreters.mlir"), of("extend.core").Primitive("marked")
        marked.def_abstract_eval(lambda x: core.ShapedArray(x.shape, x.dtype))
        marked.def_impl(lambda x: run.append(x.shape) or x)
        mlir.register_lowering(marked, mlir.lower_fun(lambda x: x, multiple_results=False))
        halved = j.custom_jvp(lambda x: x / 2)
        halved.defjvps(lambda t, y, x: t / 2)
        return j.jit(lambda x: halved(marked.bind(j.numpy.sin(x) * 2 + 1) - 1) * marked.bind(x))

    run, x = [], RANDOM.normal(size=(400, 200)).astype(np.float32)
    jitted, wanted = program(jaxish, run), program(jax, run)(x)
    for _ in range(2):
        np.testing.assert_allclose(jitted(x), wanted, rtol=1e-5, atol=1e-6)
    waited_for(lambda: not background.compiler().is_busy)
    (compiled,) = jitted._programs.values()
    assert is_cut(executable.of(compiled.closed.graph)) and run
    run.clear()
    np.testing.assert_allclose(jitted(x), wanted, rtol=1e-5, atol=1e-6)
    assert not run


def test_without_what_compiles_the_operators_run(automatic, monkeypatch):
    monkeypatch.setattr(loop_compiler, "begun", lambda *_: None)
    assert piecewise.compiled(graph_of(norms(jaxish), X), "norms") is None


def test_layers_that_multiply_rows_are_pieces_of_one_form():
    """A network is compiled in the time that a layer takes, and none of it is left to another compiler."""
    generator = np.random.default_rng(4)
    draw = lambda *shape: generator.normal(size=shape).astype(np.float32) * 0.3
    sizes = [3, *[40] * 6, 1]
    given = [(draw(*pair), draw(pair[1])) for pair in itertools.pairwise(sizes)], draw(2000, 3)

    def network(xp):
        def function(layers, x):
            for weights, bias in layers[:-1]:
                x = xp.numpy.tanh(x @ weights + bias)
            return x @ layers[-1][0] + layers[-1][1]

        return function

    body = graph_of(network(jaxish), *given)
    found = pieces.cut(body).pieces
    assert len(found) == 7 and len({piece.form for piece in found}) == 3
    compiled = piecewise.compiled(body, "network")
    assert compiled is not None and compiled.is_enough
    (result,) = compiled.module.forward(*tensors(given))
    np.testing.assert_allclose(result, network(jax)(*given), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
@pytest.mark.parametrize(("rows", "size", "count"), [(300, 400, 5), (1, 90_000, 20), (70, 1000, 64), (20_000, 4, 4)])
def test_the_greatest_of_many_rows(rows, size, count, dtype, compiled):
    x = np.round(RANDOM.normal(size=(rows, size)), 2)  # of which some are equal
    x[RANDOM.random(x.shape) < 0.001] = np.nan if dtype == "float32" else np.inf
    x = np.clip(x * 100, -300, 300).astype(dtype if dtype != "bfloat16" else "float32")

    def program(xp):
        function = lambda x: (*xp.lax.top_k(x, count), xp.lax.top_k(-x, 1)[0], *xp.lax.top_k(x.T, 2, axis=0))
        return xp.jit(function)(xp.numpy.asarray(x, dtype))

    agree(program)
