"""Large arrays computed in blocks of rows, by several threads: JAX's numbers, whatever follows what."""

import re

import jax
import numpy as np
import pytest
import torch
from oracle import agree

import jaxish
from jaxish._compile import (
    executable,
    loop_blocks,
    loop_columns,
    loop_compiler,
    loop_nodes,
    loop_products,
    loop_ranges,
    loop_sources,
    lowering,
    pieces,
    piecewise,
)
from jaxish._core.target import PIECES

RANDOM = np.random.default_rng(0)


@pytest.fixture(params=[1, 3])
def small_blocks(request, monkeypatch):
    """Blocks of so few elements that small arrays have many, and threads for them."""
    monkeypatch.setattr(loop_blocks, "_IN_BLOCK", 7)
    monkeypatch.setattr(loop_blocks, "_FEW", 8)
    monkeypatch.setattr(loop_blocks, "_SHARED_OUT", 64)
    monkeypatch.setattr(loop_columns, "_IN_BLOCK", 5)
    monkeypatch.setattr(loop_columns, "_FEW", 2)
    monkeypatch.setattr(loop_nodes, "_MANY", 8)
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield
    torch.set_num_threads(before)


def source_of(function, *args):
    graph = lowering.spelled_out(jaxish.jit(function).trace(*args)._program.closed.graph, PIECES)
    return "\n".join(form.source.function for form in piecewise._written(graph, pieces.cut(graph).pieces))


def check(program, *args, rtol=2e-5, atol=2e-5):
    graph = jaxish.jit(program(jaxish)).trace(*args)._program.closed.graph
    found = piecewise.compiled(graph, "a program")
    assert found is not None
    results = found.module.forward(*(torch.tensor(a) for a in args))
    for result, wanted in zip(results, jax.tree.leaves(jax.jit(program(jax))(*args)), strict=True):
        assert result.dtype == torch.tensor(np.asarray(wanted)).dtype
        np.testing.assert_allclose(result, wanted, rtol=rtol, atol=atol)


def softmax(xp):
    return lambda x: xp.nn.softmax(x * 2 + 1)


def standardized(xp):
    def function(x):
        centred = x - x.mean(1, keepdims=True)
        return centred / xp.numpy.sqrt((centred**2).mean(1, keepdims=True) + 1e-3) * 2 + 1

    return function


def of_all(xp):
    def function(x):
        y = xp.numpy.tanh(x) * 2
        return y / xp.numpy.sqrt((y**2).sum() + 1), y.max() - y.min(), (y > 0).all(), (y * 3).mean()

    return function


def of_columns(xp):
    def function(x):
        y = xp.numpy.sin(x) + 1
        return y - y.sum(0) * 0.1, (y * y).max(0) + y.mean(0)

    return function


def turned(xp):
    def function(x):
        y = xp.numpy.exp(x) + 1
        z = y.T * 2 + 1
        return z + z[::-1], (y[1:] - y[:-1]) * 2, z.reshape(-1)[::3] + 1

    return function


def gathered(xp):
    def function(x):
        y = x * 2 + 1
        order = xp.numpy.argsort(y[:, 0])
        running = xp.numpy.cumsum(y, 1) * 0.5 + xp.numpy.argmax(y * 2, 1)[:, None]
        return y[order] * 3 + 1, (y.at[order[:4]].add(1.5) * 2).sum(1), running

    return function


def flat_and_in_rows(xp):
    def function(x):
        flat = (x * 2).reshape(-1) + 1
        rows = flat.reshape(x.shape) - xp.numpy.abs(x).max(1)[:, None]
        return (flat**2 + rows.reshape(-1)).reshape(-1, 2).sum(1) * 0.5

    return function


def of_types(xp):
    def function(x):
        whole, test = (x * 10).astype("int32"), x > 0.1
        return (whole % 7) << 1, (test & (whole > 3)).sum(1), (x + 1j * x) * (2 - 1j), whole.astype("uint8") + 1

    return function


def of_three_dimensions(xp):
    def function(x):
        y = xp.numpy.tanh(x * xp.numpy.arange(1, 4, dtype="float32")[:, None, None])
        scaled = (y - y.mean((0, 1))) / xp.numpy.sqrt(y.var(-1, keepdims=True) + 0.1) * (1 + x[0])
        masked = xp.nn.softmax(xp.numpy.where(xp.numpy.tril(xp.numpy.ones(y.shape[1:], bool)), scaled, -9.0))
        return (
            masked * 2 + 1,
            scaled.sum((0, 1)),
            y.max(0) * 2,
            (y * scaled).min(1),
            (scaled > 0).sum((0, 1)),
            y.prod((0, 2)),
        )

    return function


def padded(xp):
    def function(x):
        around = xp.numpy.pad(x * 2, 2)
        return (
            around + 1,
            xp.numpy.pad(x + 1, 1, mode="edge") * 2,
            xp.numpy.pad(around, ((1, 0), (0, 3)), constant_values=5),
        )

    return function


def of_neighbours(xp):
    def function(x):
        np = xp.numpy
        inner = x.at[1:-1, :-1].set(x[2:, :-1] + x[:-2, :-1] + x[1:-1, 1:] * 2)
        around = np.pad(x, ((1, 1), (2, 0)))
        return (
            inner,
            np.roll(x, 1, 0) + np.roll(x, -1, 0) * 2 + np.roll(x, 3, 1) - 4 * x,
            x * 2 + around[2:, 2:] + around[:-2, 2:] - around[1:-1, :-2],
            x - np.concatenate([x[:, :1] * 2, x[:, 1:]], 1) - np.concatenate([x[2:], x[:1], x[1:2]]),
            x.at[::2, 1:].add(1.5) * np.concatenate([x[:, :0], x], 1),
        )

    return function


def side_by_side(xp):
    """Columns that are set one next to the other, of which others are made."""

    def function(x):
        a, b = x[:, 0], x[:, -1]
        three = xp.numpy.stack([b - a, a * (2 - b), xp.numpy.where(a > b, a, 1.0)], axis=1)
        four = xp.numpy.concatenate([three[:, :1] * x[:, :1], three], axis=1)
        eight = xp.numpy.stack([*(four.T * 2), *xp.numpy.tanh(four.T)], axis=1)
        flags = xp.numpy.stack([a > 0, b > 0], axis=1)
        return three * 2 + three[:, 2:], four, eight, flags, (eight**2).sum(1), eight[:, 3:8] + eight[:, 0:1]

    return function


def masked(xp):
    """What all of a batch share, as a mask, beside what each has of its own."""

    def function(x):
        scores = x[:, :, None] * x[:, None, :]
        mask = xp.numpy.tril(xp.numpy.ones(scores.shape[1:], bool))
        weights = xp.nn.softmax(xp.numpy.where(mask, scores / 3, -1e30))
        row = x[0][:, None] * xp.numpy.sqrt(abs(x[0]) + 1)
        return weights, scores * 2 + row, (scores - x[:, :1, None]).sum(-1) + row[0], scores.max(2) * x[1]

    return function


def across(xp):
    """What is folded and accumulated along other dimensions than the last."""

    def function(x):
        y, three = x * 2 + 1, x[:, None] * xp.numpy.arange(1, 4, dtype="float32")[:, None] - 1
        sums = [y.sum(0), three.mean((0, 1)), three.min(1), (three * 2).sum((0, 2)), three.transpose(2, 0, 1).max(1)]
        turned = [
            y.T.sum(1),
            y.T[1:].prod(1),
            xp.numpy.isnan(three.swapaxes(0, 2)).any(2),
            three.transpose(2, 1, 0).sum(-1),
        ]
        places = [
            xp.numpy.argmax(y, 0),
            xp.numpy.argmin(three, 1),
            xp.numpy.argmax(three.T, 0),
            xp.numpy.argmax(y[None], -1),
        ]
        running = [
            xp.numpy.cumsum(y, 0),
            xp.numpy.cumsum(three * 0.5, 1),
            xp.lax.cummax(y.T, axis=0),
            xp.lax.cummin(three, axis=2),
        ]
        return (
            *sums,
            *turned,
            *places,
            *running,
            xp.lax.cumprod(three, axis=0),
            xp.lax.cumlogsumexp(y, axis=0, reverse=True),
        )

    return function


def read_often(xp):
    """What is computed again wherever it is read, and what is stored."""

    def function(x):
        a = x - x.mean(0)
        b = a * x[0] + 1
        c = xp.numpy.where(b > 0, b * a, b - 0.5)
        return a * b, (a**2).sum(1), (b * c).sum(0), c.max(0) + a[0], b @ a.T, (c - a)[::-1], xp.numpy.cumsum(b, 1)

    return function


PROGRAMS = [
    across,
    read_often,
    masked,
    side_by_side,
    of_neighbours,
    of_three_dimensions,
    padded,
    softmax,
    standardized,
    of_all,
    of_columns,
    turned,
    gathered,
    flat_and_in_rows,
    of_types,
]


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("shape", [(6, 8), (31, 4), (18, 1), (5, 26)])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_programs_in_blocks(program, shape):
    x = RANDOM.normal(size=shape).astype(np.float32)
    check(program, x)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("name, number", [("_MOST_LOCAL", 64), ("_IN_BLOCK", 30), ("MOST_IN_ROW", 20)])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_programs_by_other_bounds(program, name, number, monkeypatch):
    for module in (loop_blocks, loop_columns):
        if hasattr(module, name):
            monkeypatch.setattr(module, name, number)
    check(program, RANDOM.normal(size=(10, 26)).astype(np.float32))


@pytest.mark.usefixtures("small_blocks")
def test_a_function_that_gives_up_has_threads(compiled):
    """Loops whose steps are counted, and blocks beside them: the function says whether it went on to the end."""

    def program(j):
        def function(x, n):
            y = j.nn.softmax(x * 2) + 1
            return j.lax.while_loop(lambda s: s[1] < n, lambda s: (s[0] * 0.5 + y, s[1] + 1), (y, 0))[0] * 2 - y.sum(0)

        return j.jit(function)

    x = RANDOM.normal(size=(20, 30)).astype(np.float32)
    for n in (3, 100_000):  # and to where it gives up
        np.testing.assert_allclose(program(jaxish)(x, n), program(jax)(x, n), rtol=2e-5, atol=2e-5)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("loop", ["scan", "reverse", "while"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_loops_whose_steps_are_in_blocks(program, loop, compiled, monkeypatch):
    kept, texts = loop_compiler.kept, []
    monkeypatch.setattr(loop_compiler, "kept", lambda text: texts.append(text) or kept(text))

    def run(j):
        def step(c, b=0.1):
            made = jax.tree.leaves(program(j)(c))
            return c * 0.9 + b + abs(made[0]).mean() * 0.01, made

        if loop != "while":
            return j.lax.scan(step, x, np.array([0.1, 0.2, -0.4], np.float32), reverse=loop == "reverse")
        start = j.tree.map(j.numpy.zeros_like, step(j.numpy.asarray(x))[1])
        return j.lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, *step(s[1])), (0, j.numpy.asarray(x), start))

    x = np.random.default_rng(4).normal(size=(10, 26)).astype(np.float32)
    agree(run, rtol=3e-4, atol=1e-4)
    assert "for (int block" in texts[-1]


@pytest.mark.usefixtures("small_blocks")
def test_an_element_is_read_of_what_becomes_another_afterwards(compiled):
    def run(j):
        step = lambda c, i: (j.numpy.where(i % 3 == 0, c[::-1] * 2, c), c[i] + 1)
        return j.lax.scan(step, x, np.arange(7))

    x = np.random.default_rng(5).normal(size=40).astype(np.float32)
    agree(run)


def test_what_is_done_in_blocks():
    x = np.ones((400, 300), np.float32)
    for program in (softmax, standardized, of_all):
        text = source_of(program(jaxish), x)
        assert "for (int block" in text and "memory.place" not in text
    assert "for (int block" not in source_of(softmax(jaxish), x[:4, :9])


def test_rows_of_a_batch_that_share_a_mask_are_in_blocks():
    def weights(scores):
        return jaxish.nn.softmax(jaxish.numpy.where(jaxish.numpy.tri(256, dtype=bool), scores / 3, -1e30))

    text = source_of(weights, np.ones((4, 256, 256), np.float32))
    assert "for (int block" in text and "memory.place" not in text
    assert "either<float>" in text and ") ? (" not in text  # of branches GCC makes no vectors


def test_the_gradient_of_a_cross_entropy_is_one_piece_with_one_exponential():
    loss = lambda j: lambda x, y: -(j.nn.log_softmax(x) * j.nn.one_hot(y, x.shape[1])).sum(1).mean()
    x, y = np.random.default_rng(0).normal(size=(300, 70)).astype(np.float32), np.arange(300, dtype=np.int32) % 70
    text = source_of(jaxish.grad(loss(jaxish)), x, y)
    assert text.count("exp_(") == text.count("void piece_") == 1
    check(lambda j: lambda x, y: j.grad(loss(j))(x, y), x, y, rtol=1e-5, atol=1e-8)


def test_exponentials_of_logarithms_of_probabilities():
    def entropy(j):
        def function(x):
            logs = j.nn.log_softmax(x * 2, 0)
            return j.numpy.exp(logs), -(j.numpy.exp(logs) * logs).sum(0), logs

        return function

    x = np.random.default_rng(0).normal(size=(300, 70)).astype(np.float32) * 20
    check(entropy, x, rtol=1e-5, atol=1e-6)


def test_exponentials_of_logarithms_of_which_an_element_is_set():
    def changed(j):
        def function(x, i):
            once = j.nn.log_softmax(x[0]).at[i].set(0.5, mode="promise_in_bounds")
            many = lambda c, row: (c + 1, j.numpy.exp(j.nn.log_softmax(row + c).at[i].set(1.0, mode="clip")))
            return j.numpy.exp(once), j.lax.scan(many, 0.0, x)[1]

        return function

    check(changed, np.random.default_rng(0).normal(size=(6, 5)).astype(np.float32), np.int32(3))


def drawn(random):
    """Return a program of a dozen operators on arrays that broadcast against each other."""
    kinds = [*random.choice(6, 12), 3]
    picks, seeds = random.random((13, 2)), random.integers(0, 100, 13)

    def program(xp):
        def function(x):
            values = [x, x * 2 + 1]
            for kind, pick, seed in zip(kinds, picks, seeds, strict=True):
                a, b = (values[int(p * len(values))] for p in pick)
                if kind == 0:
                    found = xp.numpy.tanh(a) + 0.5 * b
                elif kind == 1:
                    found = xp.numpy.where(a > 0.3, b, xp.numpy.sin(a * 2))
                elif kind == 2:
                    found = (a.sum(1, keepdims=True), a.mean(0, keepdims=True), a.max(1, keepdims=True))[
                        seed % 3
                    ] * 0.1 + b
                elif kind == 3:
                    found = a * b + a.mean()
                elif kind == 4:
                    found = xp.numpy.roll(a, seed % 5, seed % 2) - b
                else:
                    found = a[::-1] * 0.5 + b[:, ::-1]
                values.append(xp.numpy.broadcast_to(xp.numpy.tanh(found), x.shape))
            return values[-1], values[-3].sum(0), values[-5] * 2

        return function

    return program


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("seed", range(12))
def test_drawn_programs_in_blocks(seed):
    random = np.random.default_rng(seed)
    check(
        drawn(random), random.normal(size=(int(random.integers(3, 14)), int(random.integers(1, 12)))).astype(np.float32)
    )


def test_a_large_program_runs_in_blocks(automatic):
    x = RANDOM.normal(size=(300, 400)).astype(np.float32)
    step = jaxish.jit(standardized(jaxish))
    graph = step.trace(x)._program.closed.graph
    compiled = executable.of(graph)
    assert compiled.compile_pieces()
    wanted = jax.jit(standardized(jax))(x)
    np.testing.assert_allclose(compiled.run(torch.tensor(x))[0], wanted, rtol=1e-4, atol=1e-4)
    assert loop_sources.graph_source(graph, most_elements=1 << 24).is_parallel


def test_columns_are_set_in_one_loop():
    x = np.ones((6000, 3), np.float32)
    text = source_of(lambda x: jaxish.numpy.stack([x[:, 1] - x[:, 0], x[:, 2] * 2, x[:, 0]], axis=1) * x, x)
    assert text.count("for (int i") == 2 and "for (int block" in text
    flags = np.array([[True, False, True], [False, False, True]])
    agree(lambda j: j.jit(lambda x: j.numpy.stack([*x.T, x[:, 0] ^ x[:, 2]], axis=1))(flags))


def test_blocks_are_not_cut_where_they_begin():
    cut = loop_ranges.in_ranges("for (int i0 = first; i0 < end; ++i0) y[i0] = (((i0) >= 0 && (i0) < 3) ? (a) : (b));")
    assert cut.count("for (") == 2


def test_differences_along_two_dimensions_ask_nothing_of_an_element():
    def slope(x):
        return jaxish.numpy.sqrt(sum(d**2 for d in jaxish.numpy.gradient(x)))

    graph = jaxish.jit(slope).trace(np.zeros((300, 300), np.float32))._program.closed.graph
    text = loop_sources.graph_source(graph, most_elements=1 << 24).text
    assert "< 299 ? " in text  # a block of rows ends where another formula begins
    x = np.random.default_rng(0).normal(size=(300, 300)).astype(np.float32)
    agree(lambda j: j.jit(lambda x: j.numpy.hypot(*j.numpy.gradient(x)))(x), rtol=1e-5)


@pytest.mark.parametrize("size", [1, 2])
def test_elements_at_places_that_are_0_or_1(size):
    """GCC 12 reads before the array where it knows that an index is a comparison's result."""
    generator = np.random.default_rng(5)
    table = generator.standard_normal(size).astype(np.float32)
    places = generator.integers(-4, 6, (33, 1)).astype(np.int32)
    values = generator.standard_normal(33).astype(np.float32)

    def smallest(xp):
        return xp.grad(lambda table, places, values: table.at[places].min(table[:1] * 0.5).sum() + values.sum())

    def weighted(xp):
        def function(table, places, values):
            is_positive = (places[:, 0] != 0).astype("int32") * (size - 1)
            return (values[0] == table[is_positive]).astype("float32").sum() + (table[is_positive] * 2).sum()

        return function

    for program in smallest, weighted:
        check(program, table, places, values)


def layers(xp):
    """Layers of a network for the rows that places name, with what is computed between their products."""

    def function(x, places, first, bias, second):
        hidden = xp.numpy.tanh(x[places] @ first + bias)
        out = hidden @ second
        again = xp.numpy.einsum("abc,cd->abd", out[None], first)
        return out, xp.numpy.maximum(again * 2, 0).sum(2), (out @ out[:5].T).max(0)

    return function


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("rows", [30, 31, 1])
@pytest.mark.parametrize("inner, columns", [(5, 3), (3, 16), (4, 1)])
def test_products_are_made_some_rows_at_a_time(rows, inner, columns, monkeypatch):
    monkeypatch.setattr(loop_products, "_MANY_OF_ROWS", 8)
    generator = np.random.default_rng(6)
    draw = lambda *shape: generator.normal(size=shape).astype(np.float32)
    x, places = draw(9, inner), generator.integers(-9, 9, rows).astype(np.int32)
    x[4, 0], x[7, 1] = np.inf, np.nan
    given = x, places, draw(inner, columns), draw(columns), draw(columns, inner)
    check(layers, *given)
    if rows > 1:
        assert re.search(r"for \(int block.*product_of_rows<", source_of(layers(jaxish), *given), re.DOTALL)


@pytest.mark.usefixtures("small_blocks")
def test_products_in_steps_are_made_some_rows_at_a_time(compiled, monkeypatch):
    """Rows that become the product, and a matrix that changes with them."""
    monkeypatch.setattr(loop_products, "_MANY_OF_ROWS", 8)
    generator = np.random.default_rng(7)
    x, w, ys = (generator.normal(size=shape).astype(np.float32) for shape in ((20, 4), (4, 4), (3, 20, 4)))

    def run(j):
        def step(carry, y):
            x, w = carry
            x = j.numpy.tanh(x @ w + y)
            return (x, w + x[:4] * 0.1), (y @ w, x @ w)

        return j.lax.scan(step, (x, w), ys)

    agree(run, rtol=1e-4, atol=1e-5)


def test_rows_at_computed_places_are_left_to_vectors():
    """Unrolled, GCC reads and sets the elements of short rows one by one."""
    generator = np.random.default_rng(8)
    x, places = generator.normal(size=(90, 8)).astype(np.float32), generator.integers(0, 90, 3000)

    def function(x, places):
        return x.at[places].add(x[places[::-1]] * 2)

    assert re.search(r'_Pragma\("GCC unroll 1"\) for \(int w1 = 0; w1 < 8; ', source_of(function, x, places))
    taken = source_of(lambda x, places: x[places] * 2, x, places)
    assert re.search(r'_Pragma\("GCC unroll 1"\) for \(int i1 = 0; i1 < 8; ', taken)
    agree(lambda j: j.jit(function)(j.numpy.asarray(x), places), rtol=1e-5, atol=1e-5)


def test_sums_within_rows_are_made_in_blocks():
    x = np.random.default_rng(9).normal(size=(300, 3, 40)).astype(np.float32)

    def function(x):
        return (x * 2 + 1).sum(1) * 3, x.max(1) - 1

    graph = jaxish.jit(function).trace(x)._program.closed.graph
    assert {form.source.in_rows for form in piecewise._written(graph, pieces.cut(graph).pieces)} == {1}
    agree(lambda j: j.jit(function)(j.numpy.asarray(x)), rtol=1e-5, atol=1e-5)


def of_bits(xp):
    """Return what mixes bits of words, each of which is used twice."""

    def spread(x):
        for distance, mask in ((8, 0x00FF00FF), (4, 0x0F0F0F0F), (2, 0x33333333), (1, 0x55555555)):
            x = (x | (x << distance)) & mask
        return x

    def function(x, y):
        words = xp.lax.bitcast_convert_type(y, xp.numpy.uint32)
        mixed = (words ^ (words >> 15)) * xp.numpy.uint32(2654435761)
        return spread(x & 0xFFFF) | (spread(y & 0xFFFF) << 1), (mixed ^ (mixed >> 13)) % xp.numpy.uint32(1000)

    return function


def of_numbers(xp):
    """Return updates of a parameter and of its averages, and what is no element of a vector, between them."""

    def function(p, g):
        first = 0.9 * p + 0.1 * g
        second = xp.numpy.abs(first * g) + g * g
        step = first / xp.numpy.sqrt(second)
        return first, second, p - step * xp.numpy.maximum(first, second), xp.numpy.exp(step) + second, step * step

    return function


@pytest.mark.parametrize("program", [of_bits, of_numbers])
@pytest.mark.parametrize("size", [30_011, 40_000])
def test_simple_statements_that_follow_each_other_are_one_loop(program, size):
    generator = np.random.default_rng(11)
    if program is of_bits:
        x, y = generator.integers(-(1 << 31), 1 << 31, (2, size)).astype(np.int32)
    else:
        x, y = generator.choice(np.array([0.5, -2, 3, np.inf, np.nan, 1e-3], np.float32), (2, size))
    assert "own_v" in source_of(program(jaxish), x, y)
    check(program, x, y)
