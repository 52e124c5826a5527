"""Small graphs as one C++ function: what the default tier runs them by."""

import dataclasses
import functools
import gc
import re
import subprocess
import time

import jax
import numpy as np
import pytest
import scipy.special
import torch
from oracle import agree

import jaxish
import jaxish.interop
from jaxish._compile import (
    background,
    executable,
    loop_compiler,
    loop_operators,
    loop_sources,
    lowering,
    native_graph,
    registry,
    structured,
)
from jaxish._compile.loop_values import Unsupported
from jaxish._core import config, graph, machine
from jaxish._core.graph import Trace
from jaxish._devices import propagation

X = np.random.default_rng(0).normal(size=(5, 7)).astype(np.float32)
I = np.array([3, 0, 4, 4], np.int32)  # noqa: E741


def collatz(xp):
    return lambda s: (xp.numpy.where(s[0] % 2 == 0, s[0] // 2, 3 * s[0] + 1), s[1] + 1)


def refused(x):
    if (x > 30).any():
        raise ValueError(f"{x.max()} is too much")
    return np.asarray(x) * 2


FUNCTIONS = {
    "elementwise": lambda xp: lambda x: xp.numpy.tanh(x) * 2 + xp.numpy.where(x > 0, x, -1.0),
    "reductions": lambda xp: lambda x: (x.sum(0), x.max(), x.prod(1), (x > 0).any()),
    "several and the same": lambda xp: lambda x: (x, x + 1, x),
    "nothing of it": lambda xp: lambda x: xp.numpy.arange(3.0) * 2,
    "running extrema": lambda xp: (
        lambda x: (
            xp.lax.cummax(x, 1),
            xp.lax.cummin(xp.numpy.log(x), 0, reverse=True),
            xp.lax.cummin((9 * x).astype("uint8"), 1),
            xp.lax.cummax(x > 1, 0),
            xp.lax.cummax(x[:0], 0),
            xp.lax.cummax((9 * x).astype("bfloat16"), 1),
        )
    ),
    "empty": lambda xp: lambda x: (x[:0] * 2, x[:0].sum(), xp.numpy.concatenate([x[:0], x])),
    "product": lambda xp: lambda x: xp.numpy.exp(x @ x.T / 9),
    "integers": lambda xp: lambda x: (xp.numpy.asarray(I) << 30, xp.numpy.asarray(I) // 3 - 7 % xp.numpy.asarray(I)),
    "gather and set": lambda xp: lambda x: x[xp.numpy.asarray(I)].at[1].add(x[0]),
    "branch": lambda xp: lambda x: xp.lax.cond(x[0, 0] > 0, lambda x: x * 2, xp.numpy.sin, x),
    "called": lambda xp: lambda x: xp.jit(lambda x: x * 3)(x).sum(),
    "gradient": lambda xp: xp.grad(lambda x: xp.numpy.log1p(xp.numpy.exp(x)).sum() + (x[1] ** 3).mean()),
    "scan": lambda xp: lambda x: xp.lax.scan(lambda c, x: (c + x.sum(), c * x), 0.0, x),
    "backward scan": lambda xp: lambda x: xp.lax.scan(lambda c, x: (c * 0.5 + x, c), x[0], x, reverse=True)[1].sum(0),
    "gradient of a scan": lambda xp: xp.grad(
        lambda x: xp.lax.scan(lambda c, x: (xp.numpy.tanh(c + x), c.sum()), x[0], x)[1].sum()
    ),
    "while": lambda xp: lambda x: xp.lax.while_loop(lambda s: s[0] != 1, collatz(xp), (27, x[:2])),
    "loops in loops": lambda xp: (
        lambda x: xp.lax.fori_loop(
            0, 3, lambda i, c: xp.lax.while_loop(lambda c: (c < i + 1.0).any(), lambda c: c + 0.25, c), x
        )
    ),
    "a branch that calls Python": lambda xp: (
        lambda x: xp.lax.fori_loop(
            0, 3, lambda i, x: xp.lax.cond((x > 9).any(), lambda x: xp.pure_callback(refused, x, x), xp.numpy.sin, x), x
        )
    ),
    "a loop in one branch": lambda xp: (
        lambda x: xp.lax.cond(
            x.sum() > 0, lambda x: xp.lax.fori_loop(0, 5, lambda i, x: x * 0.9 + i, x), lambda x: x, x
        )
    ),
    "eigenvalues": lambda xp: lambda x: xp.numpy.linalg.eigh(x.T @ x + xp.numpy.diag(xp.numpy.arange(7.0))),
    "of any matrix": lambda xp: lambda x: xp.numpy.sort_complex(xp.numpy.linalg.eig(x[:, :5])[0]),
    "singular values": lambda xp: lambda x: (xp.numpy.linalg.svd(x, False), xp.numpy.linalg.svd(x.T, compute_uv=False)),
    "large factorizations": lambda xp: (
        lambda x: (
            lambda a: (
                xp.numpy.linalg.solve(a, a[0]),
                xp.numpy.linalg.inv(a),
                xp.numpy.linalg.slogdet(a),
                xp.numpy.linalg.cholesky(a @ a.T),
                xp.numpy.linalg.qr(a),
                xp.scipy.linalg.solve_triangular(a, a.T, lower=True),
                xp.scipy.linalg.solve_triangular(a, x[0, 0] + a[:3].T, trans=1),
            )
        )(xp.numpy.tile(x, (14, 10)) + 40 * xp.numpy.eye(70))
    ),
    "a large product": lambda xp: lambda x: (lambda a: (a @ a.T)[:2])(xp.numpy.tile(x, (40, 20))),
    "complex quotients and roots": lambda xp: (
        lambda x: (lambda z: (z / (z[0] + 2), xp.numpy.sqrt(z), xp.numpy.log(z)))(x + 1j * x[:, ::-1])
    ),
    "compound operators": lambda xp: xp.grad(
        lambda x: xp.nn.gelu(x).sum() + xp.nn.elu(x).sum() + xp.nn.glu(x[:, 1:]).sum()
    ),
    "running": lambda xp: (
        lambda x: (xp.lax.cumlogsumexp(x, 1), xp.lax.cumlogsumexp(9 * x, reverse=True), xp.numpy.cumsum(x[0]))
    ),
    "running from infinity": lambda xp: (
        lambda x: xp.lax.cumlogsumexp(xp.numpy.log(xp.numpy.maximum(x, 0)).at[1, 2].set(xp.numpy.inf), 0)
    ),
    "no step": lambda xp: lambda x: xp.lax.scan(lambda c, x: (c + x, x), x[0], x[:0]),
    "complex": lambda xp: lambda x: (xp.numpy.exp(1j * x), (x + 2j) / (x - 1j), xp.numpy.abs(x @ x.T + 1j)),
    "functions of complex numbers": lambda xp: (
        lambda x: (
            lambda z: (
                [getattr(xp.numpy, f)(z) for f in ["exp", "sin", "cos", "tan", "sinh", "cosh", "tanh", "log", "sqrt"]]
                + [z ** (z[0] - 1j), z**2.5, xp.scipy.special.digamma(3 * x)]
            )
        )(x + 1j * x[:, ::-1])
    ),
    "complex scan": lambda xp: lambda x: xp.lax.scan(lambda z, c: (z * z + c, abs(z) < 2), x[0] * 0j, x * (0.3 + 0.2j)),
    "complex gradient": lambda xp: xp.grad(lambda x: (abs(xp.numpy.exp(1j * x) + x) ** 2).sum()),
    "nan and infinity": lambda xp: lambda x: (x / 0, xp.numpy.sqrt(x), xp.numpy.maximum(x, xp.numpy.nan)),
}


def function_of(body):
    """Return what the executable of a graph runs."""
    return executable.of(body).run.__name__ if hasattr(executable.of(body).run, "__name__") else ""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_small_graphs_run_as_one_function_without_the_worker(name, automatic, monkeypatch):
    monkeypatch.setattr(background, "compiler", lambda: pytest.fail("a worker was asked for"))

    def program(xp):
        if xp is jax:
            return xp.jit(FUNCTIONS[name](xp))(X)
        jitted = xp.jit(FUNCTIONS[name](xp))
        deadline = time.monotonic() + 100
        while True:
            jitted(X)
            ((_, made),) = jitted._programs.items()
            if function_of(made.closed.graph) in ("written", "counted"):
                return jitted(X)
            assert time.monotonic() < deadline

    agree(program, rtol=1e-5, atol=1e-6)


def graph_of(function, x: np.ndarray = X):
    jitted = jaxish.jit(function)
    jitted.trace(x)
    (program,) = jitted._programs.values()
    return program.closed.graph


def scanned(x):
    return jaxish.lax.scan(lambda c, x: (c + x.sum(), c), 0.0, x)


def checked(xp):
    return lambda x: xp.lax.cond(x.max() > 9, lambda x: xp.pure_callback(refused, x, x), lambda x: x + 1, x) * 3


def test_a_branch_that_calls_python_does_so_when_it_is_taken(compiled):
    body = graph_of(checked(jaxish))
    assert function_of(body) == "_compile_and_run"
    for x in (X, X + 40, X):
        if x.max() > 30:
            with pytest.raises(jaxish.errors.JaxRuntimeError, match=r"refused raised ValueError: 4.* is too much"):
                executable.of(body).run(torch.tensor(x))
        else:
            (found,) = executable.of(body).run(torch.tensor(x))
            np.testing.assert_allclose(found, jax.jit(checked(jax))(x))
        assert function_of(body) == "counted"


def test_a_graph_whose_branch_returns_from_python_runs_there_from_then_on(compiled):
    body = graph_of(checked(jaxish))
    for x in (X, X + 10, X, X + 10):
        (found,) = executable.of(body).run(torch.tensor(x))
        np.testing.assert_allclose(found, jax.jit(checked(jax))(x))
    assert function_of(body) != "counted"


def test_a_graph_that_calls_python_in_all_branches_is_left_to_the_backend():
    call = lambda x: jaxish.pure_callback(refused, x, x)
    body = graph_of(lambda x: jaxish.lax.cond(x[0, 0] > 0, call, lambda x: call(-x), x))
    with pytest.raises(Unsupported):
        native_graph.Whole(body, "f", pytest.fail, pytest.fail).run_when_compiled()


CONVOLUTIONS = {
    "rows": ((2, 3, 20), (4, 3, 5), [(1, 0)], {}),
    "padded by more than the window": ((1, 2, 9, 6), (3, 2, 3, 2), [(4, 4), (2, 2)], {}),
    "with holes": ((2, 2, 9, 8), (3, 2, 3, 2), [(1, 1), (0, 0)], {"rhs_dilation": (2, 3)}),
    "of each channel": ((2, 4, 7, 6), (8, 1, 3, 3), [(1, 1), (1, 1)], {"feature_group_count": 4}),
    "of groups": ((2, 4, 7, 6), (6, 2, 2, 3), [(0, 0), (1, 1)], {"feature_group_count": 2}),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_derivatives_of_convolutions_with_few_weights_are_written_out(name, compiled):
    shape, of_weights, pads, options = CONVOLUTIONS[name]
    random = np.random.default_rng(0)
    x, w = (random.normal(size=size).astype(np.float32) for size in (shape, of_weights))

    def derivatives(j):
        convolve = lambda x, w: j.lax.conv_general_dilated(x, w, (1,) * len(pads), pads, **options)
        return j.grad(lambda x, w: (convolve(x, w) ** 3).sum(), (0, 1))

    loop_sources.graph_source(graph_of(lambda _: derivatives(jaxish)(x, w)))
    agree(lambda j: j.jit(derivatives(j))(x, w), rtol=1e-4, atol=1e-3)


def test_derivatives_by_the_weights_of_a_convolution_with_strides_are_written_out(compiled):
    convolve = lambda j: lambda w: j.lax.conv_general_dilated(X[None, None], w, (2, 3), [(1, 0), (2, 1)])
    derivative = lambda j: j.grad(lambda w: (convolve(j)(w) ** 2).sum())
    w = np.random.default_rng(1).normal(size=(2, 1, 3, 2)).astype(np.float32)
    loop_sources.graph_source(graph_of(lambda x: derivative(jaxish)(x[0, 0] * w)))
    agree(lambda j: j.jit(derivative(j))(w), rtol=1e-4)


def test_a_second_derivative_of_a_convolution_is_written_out(compiled):
    second = lambda j: j.hessian(lambda w: (j.numpy.convolve(X[0], w) ** 4).sum())
    loop_sources.graph_source(graph_of(lambda x: second(jaxish)(x[0, :3])))
    agree(lambda j: j.jit(second(j))(X[1, :3]), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("size", range(4, 10))
def test_complex_elements_read_by_a_condition_are_those_that_it_says(size, compiled):
    """Of a matrix of three diagonals: GCC made vectors with permuted masks of its products."""
    rng = np.random.default_rng(size)
    diagonals, x = ((rng.normal(size=s) + 1j * rng.normal(size=s)).astype(np.complex64) for s in ((3, size), size))

    def program(xp):
        def product(x):
            own = 1j * xp.numpy.array(diagonals)
            y = xp.numpy.zeros_like(x).at[:-1].add(own[0, 1:] * x[1:])
            return y.at[:].add(own[1] * x).at[1:].add(own[2, :-1] * x[:-1])

        step = lambda i, c: (c[0], product(c[0] + 0.1 * c[1]))
        return xp.jit(lambda x: xp.lax.fori_loop(0, 3, step, (x, x)))

    agree(lambda xp: program(xp)(x))


def test_elements_set_again_and_again_are_no_longer_text_each_time(compiled):
    def program(x):
        for shift in range(7):
            row = (x[0, shift] * 10).astype("int32") % 5
            x = x.at[row, row + 1].set(x[1, shift] * 2 + 1)
        return x

    assert len(loop_sources.graph_source(graph_of(program)).text) < 100_000
    agree(lambda j: j.jit(program)(X))


@pytest.mark.skipif("g++" not in (machine.compiler() or ""), reason="another compiler has other limits")
def test_long_functions_have_vectors_as_short_ones_have(tmp_path):
    def program(x):
        for i in range(60):
            x = x / (1 + jaxish.numpy.where(x[0] > i, jaxish.numpy.logaddexp(x, -x), 2).sum(1, keepdims=True))
        return x

    text = loop_sources.graph_source(graph_of(program)).text
    (tmp_path / "long.cpp").write_text(text)
    command = [part for part in loop_compiler._command(machine.compiler() or "", text) if part != "-shared"]
    said = subprocess.run(
        [*command, "-S", tmp_path / "long.cpp", "-o", "-"], check=True, capture_output=True, text=True
    ).stdout
    assert not re.findall(r"call\s+\w*(?:logaddexp|folded)\w*", said)


SELECTIONS = {
    "numbers": lambda j, x: j.numpy.where(x > 1, 2.0, 0.0),
    "what is asked about": lambda j, x: j.numpy.where(x > 1, 0, x),
    "not numbers": lambda j, x: j.numpy.nan_to_num(x, nan=3.0),
    "the sum of what is not": lambda j, x: j.numpy.nansum(x, 1),
}


@pytest.mark.parametrize("name", SELECTIONS)
def test_what_a_condition_reads_is_read_unasked(name, compiled):
    program = SELECTIONS[name]
    text = loop_sources.graph_source(graph_of(lambda x: program(jaxish, x))).function
    assert ") ? (" not in text
    agree(lambda j: j.jit(lambda x: program(j, x))(np.where(X > 1.5, np.float32(np.nan), X)))


def test_the_logarithm_of_a_softmax_is_one_for_each_row(compiled):
    text = loop_sources.graph_source(graph_of(lambda x: jaxish.nn.log_softmax(2 * x))).function
    assert [re.findall(r"int i\d", line) for line in text.splitlines() if "log_(" in line] == [["int i0"]]
    agree(lambda j: j.jit(lambda x: j.nn.log_softmax(2 * x))(X), rtol=1e-5, atol=1e-5)


READ_OFTEN = {
    "by what is wider": lambda j, x: j.numpy.logaddexp(x, 0)[:, :, None] * x[0],
    "by two, as a column": lambda j, x: (lambda y: (y + x.T, y * x.T))(j.numpy.tanh(x[0])[:, None]),
    "by two, reversed": lambda j, x: (lambda y: (y + x, y * x))(j.scipy.special.xlogy(x[::-1], x)[::-1]),
}


@pytest.mark.parametrize("name", READ_OFTEN)
def test_what_takes_long_is_computed_once_however_often_it_is_read(name, compiled):
    program = READ_OFTEN[name]
    text = loop_sources.graph_source(graph_of(lambda x: program(jaxish, x))).function
    assert len(re.findall(r"(?:logaddexp|tanh_|xlogy)\(", text)) == 1
    (line,) = [line for line in text.splitlines() if re.search(r"(?:logaddexp|tanh_|xlogy)\(", line)]
    assert "int i2" not in line
    agree(lambda j: j.jit(lambda x: program(j, x))(X), rtol=1e-5, atol=1e-6)


EMPTY_PARTS = {
    "a slice": lambda j, x: x[2:2],
    "rows behind the last": lambda j, x: x[5:],
    "odd ones of one": lambda j, x: x[:1][1::2],
    "of complex numbers": lambda j, x: abs((x + 1j * x)[3:3]),
}


@pytest.mark.parametrize("name", EMPTY_PARTS)
def test_derivatives_of_parts_without_elements_are_written_out(name, compiled):
    part = EMPTY_PARTS[name]
    gradient = lambda j: j.grad(lambda x: part(j, x).sum() + (x**2).sum())
    loop_sources.graph_source(graph_of(gradient(jaxish)))
    agree(lambda j: j.jit(gradient(j))(X))


def test_the_gradient_of_an_associative_scan_of_complex_numbers_is_written_out(compiled):
    def loss(j):
        join = lambda a, b: (a[0] * b[0], b[0] * a[1] + b[1])
        return lambda x: abs(j.lax.associative_scan(join, (j.numpy.exp(1j * x), x + 0j))[1]).sum()

    loop_sources.graph_source(graph_of(jaxish.grad(loss(jaxish))))
    agree(lambda j: j.jit(j.grad(loss(j)))(X), rtol=1e-4, atol=1e-5)


def test_remainders_of_numbers_of_all_sizes_are_exact(compiled):
    """Quotients of few digits are taken in float64: the others, infinities and NaN are left to the library of C."""
    bits = np.random.default_rng(0).integers(0, 1 << 32, (2, 20_000), dtype=np.uint32)
    bits[1, ::2] = (
        (bits[0, ::2] & 0xFF800000) - (bits[1, ::2] % 31 << 23) + (bits[1, ::2] & 0x7FFFFF)
    )  # near the former
    x, y = bits.view(np.float32)
    with np.errstate(invalid="ignore"):
        wanted = np.fmod(x, y)
    found = np.asarray(jaxish.jit(jaxish.lax.rem)(x, y))
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(np.signbit(found[wanted == 0]), np.signbit(x[wanted == 0]))


def test_words_are_mixed_in_one_function(compiled):
    def mixed(j, x):
        for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B), (16, 1)):
            x = (x ^ (x >> shift)) * j.numpy.uint32(factor)
        return j.numpy.where((x & 1 == 0) | (x != 7), ~x, x | j.numpy.uint32(5))

    x = np.random.default_rng(0).integers(0, 1 << 32, (5, 7), np.uint32)
    words = lambda x: jaxish.lax.bitcast_convert_type(x, jaxish.numpy.uint32)
    loop_sources.graph_source(graph_of(lambda x: mixed(jaxish, words(x))))
    agree(lambda j: j.jit(lambda x: mixed(j, x))(x))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(8, 8), (8, 3), (9, 16), (17, 21), (30, 1), (7, 40)])
def test_products_with_a_column_sum_up_each_row_by_itself(shape, dtype, compiled):
    random = np.random.default_rng(0)
    a, x = (random.normal(size=size).astype(dtype) for size in (shape, shape[1]))
    product = lambda j: j.jit(lambda a, x: (a + 1) @ (x + 1))
    with jaxish.enable_x64(True), jax.enable_x64(True):
        agree(lambda j: product(j)(a, x), rtol=1e-5, atol=1e-5)
        rows = [float(product(jaxish)(a[i : i + 1], x)[0]) for i in range(len(a))]
        assert rows == np.asarray(product(jaxish)(a, x)).tolist()


def steps_of(xp, depth):
    def function(x):
        for i in range(3):
            x, _ = xp.lax.scan(lambda x, _, i=i: (waves_of(xp, x, i, depth), None), x, None, 2)
        return x

    return function


def waves_of(xp, x, salt, depth):
    for i in range(depth):
        x = xp.numpy.sin(x) + 1 / (i + salt + 2)
    return x


def test_what_loops_in_a_graph_do_does_not_make_it_a_long_one(compiled):
    agree(lambda xp: xp.jit(steps_of(xp, 400))(X), rtol=1e-4, atol=1e-5)
    assert loop_sources.graph_source(graph_of(steps_of(jaxish, 400))).loops == 3
    with pytest.raises(Unsupported, match="are long"):
        loop_sources.graph_source(graph_of(steps_of(jaxish, 900)))


def test_large_graphs_are_left_to_the_backend():
    assert not loop_sources.is_small(graph_of(lambda x: jaxish.numpy.broadcast_to(x.sum(), (200000,))))


SAMPLES = {
    "loggamma": lambda xp: lambda x: xp.random.loggamma(xp.random.key(3), 2 + x[0, 0] ** 2, (1000,)),
    "multinomial": lambda xp: (
        lambda x: xp.random.multinomial(xp.random.key(3), 20.0, xp.numpy.exp(x[0, :3]), shape=(3000, 3))
    ),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_many_operations_on_arrays_that_are_not_large_are_one_function(name, compiled):
    function = SAMPLES[name]
    agree(lambda xp: xp.jit(function(xp))(X), rtol=1e-5, atol=1e-5)
    assert loop_sources.graph_source(graph_of(function(jaxish))).function


def test_of_the_stack_a_function_takes_what_threads_have():
    found = loop_sources.graph_source(graph_of(SAMPLES["loggamma"](jaxish))).function
    sizes = {kind: dtype.itemsize for dtype, kind in loop_operators.C_TYPES.items()}
    arrays = re.findall(r"ALIGNED ([\w<>]+) v\d+\[(\d+)\];", found)
    assert 1 << 19 < sum(sizes[kind] * int(count) for kind, count in arrays) <= 1 << 20


def extrema_at(xp, dtype):
    values = np.array([np.nan, 1, -np.inf, np.inf, 2, np.nan, -3, np.nan, np.nan, 5] * 3)
    x = np.where(np.isnan(values), -128, np.clip(values, -127, 127)) if np.issubdtype(dtype, np.integer) else values
    places = np.array([0, 0, 1, 1, 2, 2, 3, 4, 4, 9] * 3)[::-1].copy()

    def function(x):
        return (
            xp.ops.segment_max(x, places, 6),
            xp.ops.segment_min(x, places, 6),
            xp.numpy.ones(5, dtype).at[places].max(x),
        )

    return xp.jit(function)(x.astype(dtype))


@pytest.mark.parametrize("dtype", ["float32", "int8", "int32"])
def test_extrema_of_what_is_set_at_one_place(dtype, compiled):
    agree(lambda xp: extrema_at(xp, dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16"])
@pytest.mark.parametrize("width", [1, 3, 16, 37])
def test_rows_that_are_set_at_one_place(width, dtype, compiled):
    random = np.random.default_rng(0)
    rows = (random.normal(size=(60, 2, width)) * 9).astype(dtype)
    if dtype != "int16":
        rows[random.random(rows.shape) < 0.05] = np.nan
        rows[random.random(rows.shape) < 0.05] = -np.inf
    places, others = random.integers(-9, 9, 60), random.integers(0, 60, 60)

    def program(xp):
        def function(x):
            zeros = xp.numpy.zeros((7, 2, width), dtype)
            found = [zeros.at[places].max(x), zeros.at[places].min(x, mode="drop"), zeros.at[places].add(x[others] * 2)]
            turned = zeros.transpose(2, 0, 1).at[:, places].max(x.transpose(2, 0, 1))
            return *found, turned, xp.ops.segment_max(x, abs(places), 7), found[0].at[places].max(x / 2)

        with xp.enable_x64(dtype == "float64"):
            return xp.jit(function)(rows)

    agree(program)


def test_what_is_seen_twice_as_other_bits_is_computed_once(compiled):
    def bits(x):
        x = x - ((x >> 1) & 0x55555555)
        x = (x & 0x33333333) + ((x >> 2) & 0x33333333)
        return ((((x + (x >> 4)) & 0x0F0F0F0F) * np.uint32(0x01010101)) >> 24).astype("int32")

    words = np.random.default_rng(0).integers(0, 1 << 32, 1000, dtype=np.uint32)
    agree(lambda xp: xp.jit(bits)(words))
    assert loop_sources.graph_source(graph_of(bits, words)).function.count("shift_right(") == 4


def slices(xp):
    def function(x):
        i = (x[0, 0] * 3).astype("int32")
        part = xp.lax.dynamic_slice(x, (i, i), (3, 4))
        rows = xp.lax.dynamic_slice_in_dim(x, xp.numpy.argmax(x) - 9, 2)
        return part, part.sum(1), (rows[:, ::-1] @ rows.T), xp.lax.dynamic_index_in_dim(x, i + 2, 1)

    return function


@pytest.mark.parametrize("first", [-9, -1, -0.4, 0, 0.4, 1, 9])
def test_slices_that_start_at_a_value_look_at_no_index_by_itself(first, compiled):
    x = X.copy()
    x[0, 0] = first
    agree(lambda xp: xp.jit(slices(xp))(x), rtol=1e-5, atol=1e-6)
    found = loop_sources.graph_source(graph_of(slices(jaxish))).function
    assert "at<" in found and not re.search(r"\[[^\];]*\bat<", found)


def until_done(xp, steps, depth=4):
    """Return `steps` steps as a loop whose derivatives are needed has them: scans of branches of scans."""

    def loop(state, depth):
        if depth == 0:
            return state[0] + 1, xp.numpy.sin(state[1]) + 0.1
        take = lambda s: xp.lax.cond(s[0] < steps, lambda s: loop(s, depth - 1), lambda s: s, s)
        return xp.lax.scan(lambda s, _: (take(s), None), state, None, 32)[0]

    return lambda x: loop((0, x), depth)[1]


@pytest.mark.parametrize("steps", [20, 300_000])
def test_of_branches_the_work_counts_that_is_done(steps, compiled):
    body = graph_of(until_done(jaxish, steps))
    assert loop_sources.graph_source(body).open_ended
    for _ in range(2):
        (found,) = executable.of(body).run(torch.tensor(X))
        np.testing.assert_allclose(found, jax.jit(until_done(jax, steps))(X), rtol=1e-5, atol=1e-6)
    assert (function_of(body) == "counted") is (steps == 20)


def long_scan(x):
    return jaxish.lax.fori_loop(0, 10_000_000, lambda i, x: x + 1, x)


@pytest.mark.parametrize("function", [lambda x: jaxish.numpy.linalg.svd(x + 0j)[1], long_scan])
def test_what_is_not_written_out_is_left_to_the_backend(function):
    with pytest.raises(Unsupported):
        native_graph.Whole(graph_of(lambda x: function(x)), "f", pytest.fail, pytest.fail).run_when_compiled()


def test_calls_run_step_by_step_beside_a_compiler_that_takes_long(automatic, monkeypatch):
    unknown = np.random.rand()  # so that it is not in the cache

    def function(xp):
        return lambda x: xp.lax.scan(lambda c, x: (xp.lax.fori_loop(0, 3, lambda i, c: c * unknown + x, c), c), x[0], x)

    jitted, expected = jaxish.jit(function(jaxish)), jax.jit(function(jax))(X)
    jitted(X)  # whose inner loop waits for its own compiler
    for name in ("_PATIENCE", "_RUNS_TO_WAIT_FOR"):
        monkeypatch.setattr(executable, name, 0)
    started, begin, at_work = [], loop_compiler.started, [True]
    monkeypatch.setattr(loop_compiler, "started", lambda *given: started.append(given) or begin(*given))
    monkeypatch.setattr(loop_compiler, "has_room", lambda: True)
    monkeypatch.setattr(loop_compiler.Build, "is_running", property(lambda build: bool(at_work)))
    monkeypatch.setattr(
        loop_compiler.Build, "loop", lambda build, loop=loop_compiler.Build.loop: None if at_work else loop(build)
    )
    for _ in range(5):
        for found, value in zip(jitted(X), expected, strict=True):
            np.testing.assert_allclose(found, value, rtol=1e-5, atol=1e-5)
    assert len(started) == 1
    at_work.clear()
    ((_, made),) = jitted._programs.items()
    deadline = time.monotonic() + 100
    while function_of(made.closed.graph) not in ("written", "counted"):
        jitted(X)
        assert time.monotonic() < deadline
    for found, value in zip(jitted(X), expected, strict=True):
        np.testing.assert_allclose(found, value, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("tier", ["compiled", "auto"])
def test_loops_that_take_long_are_left_to_run_in_parts(tier, automatic, monkeypatch):
    config.jit_tier.set(tier)
    jitted = jaxish.jit(
        lambda n, x: jaxish.lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] * 0.5 + 1), (0, x))
    )
    for n in (3, 3):
        np.testing.assert_allclose(jitted(n, X)[1], X * 0.5**n + 2 * (1 - 0.5**n), rtol=1e-6)
    ((_, made),) = jitted._programs.items()
    counted = executable.of(made.closed.graph).run
    assert counted.__name__ == "counted"
    for n in (1_000_000, 1_000_000):
        done, x = jitted(n, X)
        assert done == n
        np.testing.assert_array_equal(x, np.full_like(X, 2))
        assert executable.of(made.closed.graph).run is not counted


def test_a_graph_that_does_not_compile_goes_to_the_worker(automatic, monkeypatch):
    asked = []
    monkeypatch.setattr(executable.Executable, "_submit", lambda self: (asked.append(1), self._use(self.direct)))
    monkeypatch.setattr(loop_sources, "_HEADER", "this is no C++\n")
    jitted = jaxish.jit(lambda x: x * 12345.678 + 1)
    deadline = time.monotonic() + 100
    while not asked:
        np.testing.assert_allclose(jitted(X), X * np.float32(12345.678) + 1, rtol=1e-6)
        assert time.monotonic() < deadline


@pytest.mark.parametrize("shape", [(5, 26), (7, 52)])
def test_columns_are_folded_to_the_last_one(shape, compiled):
    """GCC 12 left some out where it made one loop over several rows (loop_prelude.py)."""
    x = np.random.default_rng(3).normal(size=shape).astype(np.float32)
    agree(lambda j: j.jit(lambda x: ((j.numpy.sin(x) + 1) ** 2).max(0) + (j.numpy.sin(x) + 1).mean(0))(x), rtol=1e-5)


@pytest.mark.parametrize("told", [None, propagation.record], ids=["plain", "arrays lie over devices elsewhere"])
def test_a_gradient_alone_does_not_compute_the_value(told, monkeypatch):
    monkeypatch.setattr(graph, "on_record", told)

    def operators(function):
        traced = jaxish.jit(function).trace(X)._program.closed.graph
        return {node.target for node in traced.module.graph.nodes}

    loss = lambda x: jaxish.numpy.log(jaxish.numpy.cosh(x)).sum()
    log = torch.ops.aten.log.default
    assert log in operators(jaxish.value_and_grad(loss)) and log not in operators(jaxish.grad(loss))


def test_a_loop_whose_equal_ends_while_it_is_lowered(monkeypatch):
    target, emit = registry.lookup(registry.DEFAULT).target, Trace.emit
    first, second = graph_of(lambda x: scanned(x)), graph_of(lambda x: scanned(x))
    equals = [first, lowering.lowered(first, target)]
    del first

    def emit_at_a_collection(*args):
        equals.clear()
        gc.collect()
        return emit(*args)

    monkeypatch.setattr(Trace, "emit", emit_at_a_collection)
    assert len(structured.types_in(lowering.lowered(second, target))) == 1 and not equals


def waves(j, count, salt):
    """Small functions that no other test has compiled."""
    return [j.jit(lambda x, n=n: j.numpy.sin(x + salt) * n + j.numpy.roll(x, n)) for n in range(1, count + 1)]


def compiled_when_called(functions, x):
    """Call the functions in turn until each is C++; return the last results."""
    deadline = time.monotonic() + 200
    while True:
        results = [f(x) for f in functions]
        bodies = [made.closed.graph for f in functions for made in f._programs.values()]
        if all(function_of(body) == "written" for body in bodies):
            return results
        assert time.monotonic() < deadline


@pytest.fixture
def fresh_cache(tmp_path):
    with config.cache_dir(str(tmp_path)):
        yield


@pytest.mark.usefixtures("automatic", "fresh_cache")
def test_graphs_that_wait_for_a_compiler_are_compiled_together(monkeypatch):
    started, start = [], loop_compiler.started
    monkeypatch.setattr(loop_compiler, "started", lambda *given: started.append(given) or start(*given))
    monkeypatch.setattr(loop_compiler, "has_room", lambda: not any(b.is_running for b in loop_compiler._builds))
    salt = np.float32(np.random.rand())
    functions = waves(jaxish, 12, salt)
    for found, f in zip(compiled_when_called(functions, X), waves(jax, 12, salt), strict=True):
        np.testing.assert_allclose(found, f(X), rtol=1e-6, atol=1e-6)
    assert len(started) < 6
    for again in (functions, waves(jaxish, 12, salt)):  # from memory, and as another process finds them
        started.clear()
        for found, f in zip(compiled_when_called(again, X), waves(jax, 12, salt), strict=True):
            np.testing.assert_allclose(found, f(X), rtol=1e-6, atol=1e-6)
        assert not started
        functions.clear()
        again.clear()
        gc.collect()


@pytest.mark.usefixtures("automatic", "fresh_cache")
def test_a_graph_that_cannot_be_compiled_does_no_harm_to_those_in_its_file(monkeypatch, caplog):
    """Only a mistake of ours is one."""
    source = loop_sources.graph_source

    def written(body, name):
        found = source(body, name)
        return dataclasses.replace(found, function=found.function + "no C++") if name == "unfit" else found

    def unfit(x):
        return jaxish.numpy.cos(x + salt)

    monkeypatch.setattr(loop_sources, "graph_source", written)
    salt = np.float32(np.random.rand())
    first, *functions = waves(jaxish, 4, salt)
    refused = jaxish.jit(unfit)
    for f in (first, refused, *functions) * 2:
        f(X)
    for found, f in zip(compiled_when_called([first, *functions], X), waves(jax, 4, salt), strict=True):
        np.testing.assert_allclose(found, f(X), rtol=1e-6, atol=1e-6)
    deadline = time.monotonic() + 100
    while "goes on without" not in caplog.text:
        np.testing.assert_allclose(refused(X), np.cos(X + salt), rtol=1e-5, atol=1e-6)
        assert time.monotonic() < deadline


@pytest.mark.usefixtures("automatic", "fresh_cache")
def test_a_function_that_is_waited_for_is_compiled_alone_where_its_file_cannot_be(monkeypatch):
    source = loop_sources.graph_source

    def written(body, name):
        found = source(body, name)
        return dataclasses.replace(found, function=found.function + "no C++") if name == "unfit" else found

    def unfit(x):
        return jaxish.numpy.cos(x + salt)

    monkeypatch.setattr(loop_sources, "graph_source", written)
    monkeypatch.setattr(loop_compiler, "has_room", lambda: False)
    salt = np.float32(np.random.rand())
    waiting = jaxish.jit(unfit)
    for _ in range(3):
        waiting(X)
    fit = native_graph.Whole(graph_of(lambda x: jaxish.numpy.sin(x + salt)), "fit", pytest.fail, pytest.fail)
    (found,) = fit.run_when_compiled()(torch.tensor(X))
    np.testing.assert_allclose(found, np.sin(X + salt), rtol=1e-5)


READ_BY_CONDITIONS = {
    "padded": lambda j, a, b: a * j.numpy.pad(b[2:], ((2, 0), (0, 0))),
    "rolled": lambda j, a, b: a + j.numpy.roll(b, 2, 0),
    "joined": lambda j, a, b: a + j.numpy.concatenate([b[:2], b[1:-1]]),
    "set": lambda j, a, b: (a * 2).at[1:-1].set(b[1:-1]),
    "chosen by place": lambda j, a, b: a + j.numpy.where(j.numpy.arange(len(a))[:, None] > 2, b, 0),
    "gradient of parts": lambda j, a, b: j.grad(lambda x: (x[1:] * x[:-1] * b[1:]).sum())(a) + a,
    "on the diagonal": lambda j, a, b: a[:, None, : len(a)] + j.vmap(j.numpy.diag)(b[:, : len(a)]),
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "int8", "int32"])
@pytest.mark.parametrize("shape", [(6, 10), (9, 5), (10, 13), (6, 6)])
def test_what_is_read_by_a_condition_in_short_loops(shape, dtype):
    a, b = (np.random.default_rng(0).normal(size=(2, *shape)) * 5).astype(dtype)
    with config.jit_tier("compiled"):
        for name, f in READ_BY_CONDITIONS.items():
            of_floats = "gradient" in name and not dtype.startswith("float")
            if not of_floats and (name != "on the diagonal" or shape[0] <= shape[1]):
                agree(lambda j: j.jit(lambda a, b: f(j, a, b))(a, b))


PUT_OFF = {  # conj and imag of it: torch does both when the numbers are read
    "returned": lambda j, z, c, i: (c(z), i(z)),
    "to a jitted function": lambda j, z, c, i: j.jit(lambda a, b: (a.real, a.imag, b))(c(z), i(z)),
    "to a branch": lambda j, z, c, i: j.lax.cond(
        z[0].real > 0, lambda a, b: (a.imag, b), lambda a, b: (a.real, b), c(z), i(z)
    ),
    "to a scan": lambda j, z, c, i: j.lax.scan(lambda s, x: (s + x[0].imag + x[1], s), 0.0, (c(z), i(z))),
    "to a branch in a loop": lambda j, z, c, i: (
        lambda a, b: j.lax.fori_loop(
            0, 3, lambda _, s: j.lax.cond(s[0] < 9, lambda s: s + a.imag + b, lambda s: s, s), j.numpy.zeros(5)
        )
    )(c(z), i(z)),
}


@pytest.mark.parametrize("tier", ["direct", "compiled", "auto"])
@pytest.mark.parametrize("name", PUT_OFF)
def test_what_torch_puts_off_is_in_memory_where_compiled_code_reads_it(name, tier):
    z = (np.arange(1, 6) + 0.3j * np.arange(5)).astype(np.complex64)
    wanted = jax.tree.leaves(PUT_OFF[name](jax, z, jax.numpy.conj, lambda z: -z.imag))
    conj, imag = (jaxish.interop.from_torch_function(f) for f in (lambda t: t.conj(), lambda t: t.conj().imag))
    program = lambda z: PUT_OFF[name](jaxish, z, conj, imag)
    with config.jit_tier(tier):
        for function in (program, jaxish.jit(program)):
            for _ in range(3):
                for found, value in zip(jax.tree.leaves(function(jaxish.numpy.asarray(z))), wanted, strict=True):
                    np.testing.assert_allclose(found, value, rtol=1e-5, atol=1e-6)


def loops_with_vectors(source: loop_sources.Source, folder) -> int:
    text = folder / "function.cpp"
    text.write_text(source.text)
    compiler = machine.compiler()
    assert compiler is not None
    options = ["-fopt-info-vec-optimized", str(text), *loop_compiler._VECTORS, "-o", str(folder / "function.so")]
    command = [*loop_compiler._command(compiler, source.text), *options]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    own = source.text[: -len(source.function)].count("\n")
    lines = {int(line) for line in re.findall(r"function\.cpp:(\d+):\d+: optimized: loop vectorized", said)}
    return sum(line > own for line in lines)


MASKED = {
    "chosen": lambda mask, x: torch.where(mask, x, 0.0),
    "both": lambda mask, x: torch.where(mask & (x > 0), x, -x),
    "converted": lambda mask, x: mask.to(x.dtype) * x,
    "denied": lambda mask, x: ~mask,
}


@pytest.mark.skipif("g++" not in str(machine.compiler()), reason="GCC says which loops have vectors")
@pytest.mark.parametrize("function", MASKED.values(), ids=MASKED)
def test_what_reads_booleans_from_memory_has_vectors(function, tmp_path):
    types = [graph.TensorType((1000,), dtype, torch.device("cpu")) for dtype in (torch.bool, torch.float32)]
    body = graph.trace(lambda *x: [function(*x)], types).graph
    assert loops_with_vectors(loop_sources.graph_source(body), tmp_path)


@pytest.mark.skipif("g++" not in str(machine.compiler()), reason="GCC says which loops have vectors")
def test_a_graph_of_many_arrays_has_vectors(tmp_path):
    row = graph.TensorType((1000,), torch.float32, torch.device("cpu"))
    body = graph.trace(lambda *rows: [functools.reduce(torch.add, rows)], [row] * 12).graph
    assert loops_with_vectors(loop_sources.graph_source(body), tmp_path)


@pytest.mark.skipif("g++" not in str(machine.compiler()), reason="GCC says which loops have vectors")
def test_gamma_functions_have_vectors(tmp_path):
    row = graph.TensorType((1000,), torch.float32, torch.device("cpu"))
    body = graph.trace(lambda x: [torch.lgamma(x) + torch.where(x > 0, torch.digamma(x), 0.0)], [row]).graph
    assert loops_with_vectors(loop_sources.graph_source(body), tmp_path)


def test_logarithms_of_gamma_functions_are_those_of_scipy():
    draws = np.random.default_rng(7)
    spread = [draws.uniform(-30, 30, 1000), 1 + draws.normal(size=500) / 1000, 2 + draws.normal(size=500) / 1000]
    sizes = 10 ** draws.uniform(-44, 36, 1000)
    special = [0.0, -0.0, 1, 2, -1, -7, np.inf, np.nan, 1e-45, -1e-45, 0.5, -0.5, -1e30]
    x = np.concatenate([*spread, sizes, -sizes, special]).astype(np.float32)
    with config.jit_tier("compiled"):
        found = jaxish.jit(lambda x: jaxish.lax.lgamma(x) + 0)(x)
    np.testing.assert_allclose(found, scipy.special.gammaln(x.astype(np.float64)), rtol=1.2e-7, atol=1e-45)


FLATTENED = {
    "rolled": lambda np, x: (4 * x - np.roll(x, 1, 0) - np.roll(x, -1, -1)).reshape(-1) * 2,
    "transposed": lambda np, x: (np.swapaxes(x, 0, -1) + 1).reshape(-1),
    "joined": lambda np, x: np.concatenate([x, x[..., 1:]], -1).reshape(-1) * 2,
    "in part": lambda np, x: np.pad(x[1:].reshape(-1) * 2, (3, 2)),
}


@pytest.mark.parametrize("shape", [(64, 64), (33, 17), (17, 33), (20, 3), (9, 20, 33), (1, 300), (0, 40)], ids=str)
@pytest.mark.parametrize("name", FLATTENED)
def test_what_is_flattened_when_it_has_been_computed(name, shape):
    x = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    with config.jit_tier("compiled"):
        found = jaxish.jit(lambda x: FLATTENED[name](jaxish.numpy, x))(x)
    np.testing.assert_array_equal(found, FLATTENED[name](np, x))


def test_no_place_in_what_is_flattened_is_found_by_dividing():
    rows = graph.TensorType((64, 48), torch.float32, torch.device("cpu"))
    body = graph.trace(lambda x: [(x - torch.roll(x, 1, 1)).reshape(-1)], [rows]).graph
    assert not re.search(r"[/%]48\b", loop_sources.graph_source(body).function)


def test_products_and_joined_arrays_are_made_where_they_are_returned():
    a, b = (np.random.default_rng(2).normal(size=(9, 9)).astype(np.float32) for _ in range(2))

    def function(j):
        def made(a, b):
            product = j.numpy.sin(a) @ b
            return product, j.numpy.concatenate([a * 2, b + 1], 1), product * 2 + product[:1]

        return made

    traced = jaxish.jit(function(jaxish)).trace(a, b)._program.closed.graph
    assert not re.search(r"y\d\[[^]]*\] = v\d+\[[^]]*\];", loop_sources.graph_source(traced).function)
    agree(lambda j: j.jit(function(j))(a, b), rtol=1e-5, atol=1e-5)
