"""Graphs that Inductor by itself compiles wrongly, or not at all, give JAX's values on the compiled tier."""

import logging
import threading

import numpy as np
import pytest
import torch
from oracle import agree
from torch._subclasses.fake_tensor import FakeTensorMode

import jaxish
from jaxish._compile import inductor, piecewise
from jaxish._core import config, graph

pytestmark = pytest.mark.usefixtures("compiled")
RANDOM = np.random.RandomState(0)
TRANSITIONS, EMISSIONS = RANDOM.randn(3, 3).astype(np.float32), RANDOM.randn(3, 5).astype(np.float32)
SEQUENCES, LENGTHS = RANDOM.randint(0, 5, (4, 6)), np.array([2, 6, 4, 3])
X, LABELS = RANDOM.randn(20, 3).astype(np.float32), RANDOM.randint(0, 3, 20)


def likelihood(j, parameters, sequence, length):
    """A hidden Markov model's, by forward and backward recursions over the first `length` observations."""
    jnp = j.numpy
    moves, emits = (j.nn.log_softmax(p, axis=1) for p in parameters)
    steps = (jnp.arange(1, len(sequence)), sequence[1:])

    def forward(a, step):
        t, o = step
        a = jnp.where(t < length, j.nn.logsumexp(a[:, None] + moves, axis=0) + emits[:, o], a)
        return a, a

    def backward(b, step):
        t, o = step
        b = jnp.where(t < length, j.nn.logsumexp(moves + (emits[:, o] + b)[None], axis=1), b)
        return b, b

    last, before = j.lax.scan(forward, emits[:, sequence[0]], steps)
    _, after = j.lax.scan(backward, jnp.zeros(3), steps, reverse=True)
    return j.nn.logsumexp(last) + (j.nn.softmax(before + after) ** 2).sum()


def loss(j):
    one = lambda p: lambda s, n: likelihood(j, p, s, n)
    return lambda *p: j.vmap(one(p))(SEQUENCES, LENGTHS).sum()


def curvature(j, f):
    return lambda *p: j.jvp(j.grad(f, tuple(range(len(p)))), p, p)[1]


MODELS = {
    "gradient": lambda j: j.jit(j.grad(loss(j), (0, 1))),
    "curvature": lambda j: j.jit(curvature(j, loss(j))),
}


@pytest.mark.parametrize("function", MODELS.values(), ids=MODELS.keys())
def test_a_hidden_markov_model(function):
    agree(lambda j: function(j)(j.numpy.asarray(TRANSITIONS), j.numpy.asarray(EMISSIONS)), rtol=1e-4)


def test_the_curvature_of_a_classifier():
    def loss(j):
        classes = lambda w: j.nn.log_softmax(j.vmap(lambda x: j.numpy.tanh(x @ w))(j.numpy.asarray(X)))
        return lambda w: -classes(w)[j.numpy.arange(20), LABELS].sum() + 0.5 * (w**2).sum()

    agree(lambda j: j.jit(j.hessian(loss(j)))(j.numpy.asarray(TRANSITIONS)), rtol=1e-4)


NUMBERS = np.array([1e-8, -1e-4, -0.0, 0.3, -0.9, 1.0, 1.5, 5.0, 1e20, -1e20, np.inf, -np.inf, np.nan], np.float32)
MATRIX = np.array([[100, 2], [3, 100]])

ELEMENTWISE = {
    "expm1": lambda j, x: j.numpy.expm1(x),
    "erf": lambda j, x: j.lax.erf(x),
    "gelu": lambda j, x: j.nn.gelu(x, approximate=False),
    "arctanh": lambda j, x: j.numpy.arctanh(x),
    "arccosh": lambda j, x: j.numpy.arccosh(x),
    "absolute": lambda j, x: 1 / j.numpy.abs(x),
    "quotients rounded down": lambda j, x: [x // d for d in (0.25, 3.0, -2.0, np.float32(np.inf))],
    "remainders": lambda j, x: [(x % d, 1 / (x % d)) for d in (0.25, -2.0)],
    "triangle of unsigned numbers": lambda j, x: j.numpy.tril(j.numpy.ones((3, 3), "uint32")),
}


@pytest.mark.parametrize("function", ELEMENTWISE.values(), ids=ELEMENTWISE.keys())
def test_operators_in_vectors(function):
    agree(lambda j: j.jit(lambda x: function(j, x))(np.resize(NUMBERS, 40)), rtol=3e-6, atol=0)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32"])
def test_products_of_integers_wrap_around(dtype):
    def products(j):
        return lambda a: (a @ a, a[0] @ a[0], a @ a[0], j.vmap(lambda x: a @ x)(a), j.vmap(lambda x: x @ x)(a))

    agree(lambda j: j.jit(products(j))((MATRIX * (1 if dtype != "int32" else 2**14)).astype(dtype)))


@pytest.mark.parametrize("dtype", ["int8", "int32"])
def test_overflow_is_no_licence_to_the_compiler(dtype):
    def program(j, x):
        return x + 1 > x, x * 2 // 2, -x < 0, (2 - x) % 11

    least, greatest = np.iinfo(dtype).min, np.iinfo(dtype).max
    agree(lambda j: j.jit(lambda x: program(j, x))(np.array([least, 5, greatest], dtype)))
    agree(lambda j: j.jit(lambda x: program(j, x))(np.array(least, dtype)))


def test_compiling_in_several_threads_at_once():
    found = {}

    def compile_one(number):
        f = jaxish.jit(lambda x: jaxish.numpy.sin(x * number) + x[0])
        found[number] = f(np.arange(number, dtype=np.float32))

    threads = [threading.Thread(target=compile_one, args=(n,)) for n in range(2, 6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for number in range(2, 6):
        x = np.arange(number, dtype=np.float32)
        np.testing.assert_allclose(found[number], np.sin(x * number) + x[0], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("shape", [(4, 3, 3), (40, 7, 20)])
def test_sums_scattered_by_several_threads_stay_in_bounds(shape):
    rows, width, columns = shape
    places = RANDOM.randint(0, 5, (rows, 1))
    values = RANDOM.randn(rows, columns, width).astype(np.float32)

    def program(j):
        def f(v):
            into = j.numpy.zeros((rows, 5, width)).at[j.numpy.arange(rows)[:, None], places].add(v.sum(1)[:, None])
            return into.swapaxes(1, 2) + 1, v.sum(1)

        return j.jit(f)(values)

    agree(program, rtol=1e-4)


@pytest.mark.parametrize("shape", [(0, 0), (0,), (2, 0, 3)])
def test_sums_of_complex_arrays_without_elements(shape):
    z = np.zeros(shape, np.complex64)
    agree(lambda j: j.jit(lambda z: (z + j.numpy.conj(z) + z.real.astype("int8"), j.numpy.cumsum(z)))(z))


@pytest.mark.parametrize(
    "made",
    [
        lambda j: j.numpy.array([1.0, 2.0], ndmin=2)[0],
        lambda j: j.numpy.asarray([1.0, 2.0], device=j.devices("cpu")[0]),
        lambda j: j.numpy.histogram(X[0, :2], 2, range=(-2, 2))[1][:2],
    ],
)
def test_arrays_made_within_a_gradient(made):
    # A level of torch's wraps what operators make of it, and compiled code finds no memory in that.
    agree(lambda j: j.jit(j.grad(lambda x: (j.numpy.sin(x) * made(j)).sum()))(X[0, :2]))


def test_what_others_draw_meanwhile_does_not_come_again(monkeypatch, tmp_path):
    """A DataLoader's order, or dropout's masks: the generators are the process's."""
    import torch._inductor.compile_fx as compile_fx

    monkeypatch.setattr(piecewise, "LEAST_IN_ROWS", 2)  # so that pieces are never enough
    compile_fx_inner, drawn = compile_fx.compile_fx_inner, []

    def beside_another_thread(*given, **options):
        other = threading.Thread(target=lambda: drawn.append(torch.rand(3)))
        other.start()
        other.join()
        return compile_fx_inner(*given, **options)

    monkeypatch.setattr(compile_fx, "compile_fx_inner", beside_another_thread)
    torch.manual_seed(0)
    with config.cache_dir(str(tmp_path / "cache")):  # so that nothing is loaded
        jaxish.jit(lambda x: jaxish.numpy.sin(x).sum() + x * 1.0625)(np.ones(100_000, np.float32))
    drawn.append(torch.rand(3))
    torch.manual_seed(0)
    np.testing.assert_array_equal(torch.stack(drawn), torch.rand(2, 3))


@pytest.mark.parametrize("operators", [[], [torch.ops.aten.alias.default], [torch.ops.aten.detach.default] * 2])
def test_a_graph_that_comes_to_nothing(operators):
    made = torch.fx.Graph()
    result = made.placeholder("x")
    for called in operators:
        result = made.call_function(called, (result,))
    made.output([result])
    with FakeTensorMode():
        examples = [torch.empty(3)]
    for _ in range(2):  # the second time from the cache
        run = inductor.compile_graph(torch.fx.GraphModule(torch.nn.Module(), made), examples)
        torch.testing.assert_close(run(torch.arange(3.0))[0], torch.arange(3.0))


@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.uint64], ids=str)
@pytest.mark.parametrize(
    "function",
    [lambda x, y: torch.slice_scatter(x, y, 0, 1, 9, 2), lambda x, y: torch.select_scatter(x, y[0], 0, 3)],
    ids=["slice", "select"],
)
def test_parts_of_unsigned_integers_are_set(function, dtype, tmp_path, caplog):
    x = torch.from_numpy(RANDOM.randint(0, 2**16, (30, 20))).to(dtype)
    y = x[:4].clone()
    module = graph.trace(lambda x, y: [function(x, y)], [graph.TensorType.of(t) for t in (x, y)]).graph.module
    with config.cache_dir(str(tmp_path)), caplog.at_level(logging.WARNING, "jaxish"):
        (found,) = inductor.compile_graph(module, [x, y])(x, y)
    assert found.dtype is dtype and not caplog.text
    assert np.array_equal(found.numpy(), function(x, y).numpy())


@pytest.mark.parametrize("dtype", [np.uint16, np.uint32])
def test_lanes_choose_between_unsigned_integers(dtype, tmp_path, caplog):
    """Inductor knows no type of booleans beside these, and would leave the graph to run operator by operator."""
    x, chosen = RANDOM.randint(0, 2**16, (30, 20)).astype(dtype), RANDOM.randint(0, 3, 30)

    def program(j):
        branches = [lambda x: x + 3, lambda x: x[::-1], lambda x: x ^ x[0]]
        function = j.jit(j.vmap(lambda k, x: j.lax.switch(k, branches, x)))
        return np.asarray(function(chosen, x)) if j is not jaxish else compiled(function)

    def compiled(function):
        given = [torch.from_numpy(chosen), torch.from_numpy(x)]
        run = inductor.compile_graph(function.trace(chosen, x)._program.closed.graph.module, given)
        return run(*given)[0].numpy()

    with config.cache_dir(str(tmp_path)), caplog.at_level(logging.WARNING, "jaxish"):
        agree(program)
    assert not caplog.text


def test_code_is_of_as_many_threads_as_the_program_has(tmp_path, monkeypatch):
    """What a program on one thread leaves in the cache is not what another one, on all cores, finds there."""
    compile, threads = inductor._compiled, []
    monkeypatch.setattr(
        inductor, "_compiled", lambda *given: threads.append(given[2]["cpp.threads"]) or compile(*given)
    )
    monkeypatch.setattr(piecewise, "LEAST_IN_ROWS", 2)  # so that pieces are never enough
    before = torch.get_num_threads()
    try:
        with config.cache_dir(str(tmp_path)):
            for count in (1, 2, 1):
                torch.set_num_threads(count)
                agree(
                    lambda j: j.jit(lambda x: j.numpy.sin(x).sum() + x * 1.0625)(np.ones(100_000, np.float32)),
                    rtol=3e-5,
                )
    finally:
        torch.set_num_threads(before)
    assert threads == [1, 2]


def test_many_sums_into_few_places(tmp_path, monkeypatch):
    """Where several threads do them, each is an atomic one: the code has one thread."""
    compile, threads = inductor._compiled, []
    monkeypatch.setattr(
        inductor, "_compiled", lambda *given: threads.append(given[2]["cpp.threads"]) or compile(*given)
    )
    monkeypatch.setattr(piecewise, "LEAST_IN_ROWS", 2)
    random = np.random.RandomState(1)
    table, rows = random.randn(50, 64).astype(np.float32), random.randint(0, 50, (256, 640))
    with config.cache_dir(str(tmp_path)):
        agree(lambda j: j.jit(j.grad(lambda table: (table[rows] ** 2).sum()))(table), rtol=1e-5)
    assert threads == [1]
