"""Jaxprs against JAX: their text, what their equations compute, and what users do with them."""

import importlib

import jax
import numpy as np
import pytest
import torch
from composition_cases import cases
from compositions import Case, function_of, loss_of
from oracle import agree, compare_values

import jaxish
import jaxish.extend.core
from jaxish.interop import from_torch_function

V = np.arange(1.0, 4.0, dtype=np.float32)
M = np.arange(12.0, dtype=np.float32).reshape(3, 4)
S = np.float32(2.0)
P = np.array([[4, 1, 0.5], [1, 5, 0.3], [0.5, 0.3, 6]], np.float32)


def inner_sum(j):
    def inner(second, argument):
        return j.numpy.sum(second + j.numpy.sin(argument) * 3.0)

    return lambda first, second: first + inner(second, first)


def closing_jit(j):
    def f(a):
        g = j.jit(lambda x: x * a + np.float32(1))
        return g(a - np.float32(2)) * a

    return f


def nested(j):
    step = lambda c, x: (c * x, j.lax.cond(x > 1, lambda v: v + c, lambda v: v - c, x))
    return lambda c, xs: j.lax.scan(step, c, xs)


def customised(j, zeros=False):
    @j.custom_jvp
    def f(x):
        return j.numpy.sin(x)

    def rule(primals, tangents):
        return f(*primals), tangents[0]

    f.defjvp(rule, symbolic_zeros=zeros)
    return lambda x: f(x) * x


def with_a_pullback(j, zeros=False):
    @j.custom_vjp
    def f(x):
        return j.numpy.sin(x)

    def forward(x):
        return f(x), x

    def backward(x, cotangent):
        return (cotangent * x,)

    f.defvjp(forward, backward, symbolic_zeros=zeros)
    return lambda x: f(x) * x


# The programs whose primitives correspond one to one.
TEXTS = {
    "arithmetic": (lambda j: lambda x: 3 * x**2 + 2 * x + 1.0, (S,)),
    "reductions": (inner_sum, (V, V)),
    "two equations on a line": (lambda j: lambda x: j.numpy.exp(j.numpy.tanh(x)), (V,)),
    "integer powers": (lambda j: lambda x: x**3 - x**-1, (S,)),
    "conversion": (lambda j: lambda x: x.astype("int32") + 1, (V,)),
    "broadcasting": (lambda j: lambda x, y: x + y, (M, M[0])),
    "mean and maximum": (lambda j: lambda x: j.numpy.sum(x, axis=0) + j.numpy.max(x) + x.mean(), (M,)),
    "products": (lambda j: lambda x, y: (x @ y, j.numpy.dot(x[0], x[0])), (M, M.T.copy())),
    "dot_general": (lambda j: lambda x: j.lax.dot_general(x, x, (((1,), (1,)), ((), ()))), (M,)),
    "shapes": (lambda j: lambda x: x.reshape(4, 3).T, (M,)),
    "parts": (lambda j: lambda x: (x[0], x[1:], j.numpy.concatenate([x, x])), (V,)),
    "rev and pad": (lambda j: lambda x: j.lax.pad(j.lax.rev(x, (0,)), np.float32(0), [(1, 2, 1)]), (V,)),
    "iota": (lambda j: lambda: j.numpy.arange(5), ()),
    "select": (lambda j: lambda x: j.lax.select(x > 0, x, -x), (V,)),
    "clamp": (lambda j: lambda x: j.lax.clamp(np.float32(0), x, np.float32(1)), (V,)),
    "argmax": (lambda j: lambda x: j.numpy.argmax(x), (V,)),
    "gather": (lambda j: lambda x, i: j.lax.dynamic_slice(x, (i,), (2,)), (V, np.int32(1))),
    "captured arrays": (lambda j: lambda x: x + V, (V,)),
    "pytrees": (lambda j: lambda d: d["a"] + d["b"][0], ({"a": S, "b": (S,)},)),
    "logistic": (lambda j: lambda x: j.lax.logistic(x), (V,)),
    "jit used twice": (lambda j: lambda x, f=None: (f := j.jit(j.numpy.sin))(f(x)), (V,)),
    "jit": (lambda j: j.jit(lambda x: x * 2.0), (V,)),
    "jit that closes over an array": (closing_jit, (S,)),
    "cond": (lambda j: lambda p, x: j.lax.cond(p > 0, lambda x: x + 1.0, j.numpy.sin, x), (S, V)),
    "cond whose branches read different operands": (
        lambda j: lambda p, x, y: j.lax.cond(p > 0, lambda x, y: x * V, lambda x, y: y, x, y), (S, V, V)),
    "while": (lambda j: lambda n: j.lax.while_loop(lambda c: c < n, lambda c: c + 1, 0), (3,)),
    "fori": (lambda j: lambda x, n: j.lax.fori_loop(0, n, lambda i, a: a + 3.0 * x, x), (V, 5)),
    "scan": (lambda j: lambda c, xs: j.lax.scan(lambda c, x: (c + x, c * x), c, xs), (S, V)),
    "cond in scan": (nested, (S, V)),
    "vmap": (lambda j: j.vmap(lambda x: j.numpy.sin(x) * 2.0), (V,)),
    "jvp": (lambda j: lambda x, t: j.jvp(j.numpy.sin, (x,), (t,)), (S, S)),
    "broadcast in front and behind": (lambda j: lambda x: j.lax.broadcast_in_dim(x, (3, 2), (0,)) * x[:, None], (V,)),
    "scans": (lambda j: lambda x: (j.lax.cummax(x), j.lax.cummin(x, 1, reverse=True), j.lax.cumsum(x, 1, reverse=True)), (M,)),
    "reduction by a function": (lambda j: lambda x: j.lax.reduce(x, np.float32(0), lambda a, b: a + b + a * b, (1,)), (M,)),
    "reduction by a sum": (lambda j: lambda x: j.lax.reduce(x, np.float32(0), j.lax.add, (1,)), (M,)),
    "sum of windows": (lambda j: lambda x: j.lax.reduce_window(x, 0.0, j.lax.add, (2, 2), (1, 2), "SAME"), (M,)),
    "maximum of windows": (lambda j: lambda x: j.lax.reduce_window(x, -np.inf, j.lax.max, (2, 2), (1, 1), "VALID"), (M,)),
    "product of windows": (lambda j: lambda x: j.lax.reduce_window(x, np.float32(1), j.lax.mul, (2, 2), (1, 1), "VALID"), (M,)),
    "sort by two keys": (lambda j: lambda x: j.lax.sort((x, -x), num_keys=2), (M,)),
    "approximate maxima": (lambda j: lambda x: j.lax.approx_max_k(x, 2), (M,)),
    "random bits of a state": (lambda j: lambda k: j.lax.rng_bit_generator(k, (3,)), (np.arange(4, dtype=np.uint32),)),
    "eigh": (lambda j: lambda x: j.lax.linalg.eigh(x, symmetrize_input=False), (P,)),
    "eigenvalues": (lambda j: lambda x: j.lax.linalg.eig(x, compute_left_eigenvectors=False, compute_right_eigenvectors=False), (P,)),
    "lu": (lambda j: lambda x: j.lax.linalg.lu(x), (P,)),
    "qr": (lambda j: lambda x: j.lax.linalg.qr(x, full_matrices=False), (P,)),
    "pivoted qr": (lambda j: lambda x: j.lax.linalg.qr(x, pivoting=True), (P,)),
    "svd": (lambda j: lambda x: j.lax.linalg.svd(x), (P,)),
    "singular values": (lambda j: lambda x: j.lax.linalg.svd(x, compute_uv=False), (P,)),
    "schur": (lambda j: lambda x: j.lax.linalg.schur(x), (P,)),
    "hessenberg": (lambda j: lambda x: j.lax.linalg.hessenberg(x), (P,)),
    "tridiagonal": (lambda j: lambda x: j.lax.linalg.tridiagonal(x), (P,)),
    "reflections": (lambda j: lambda x, t: (j.lax.linalg.householder_product(x, t), j.lax.linalg.ormqr(x, t, x)), (P, V)),
    "triangular_solve": (lambda j: lambda x, b: j.lax.linalg.triangular_solve(x, b, left_side=True, transpose_a=True), (P, V)),
    "tridiagonal_solve": (lambda j: lambda d, b: j.lax.linalg.tridiagonal_solve(d, d * 4, d, b), (V, P)),
    "symmetric product": (lambda j: lambda x: j.lax.linalg.symmetric_product(x, x, alpha=2.0), (P,)),
    "weak types": (lambda j: lambda x, y, n: (x * y, n + x, n / n, y < x, y**x), (2.0, V, 3)),
    "weak carry": (lambda j: lambda x: j.lax.scan(lambda c, y: (c + y, c * y), 0.0, x), (V,)),
    "weak index": (lambda j: lambda i, x: j.lax.switch(i, [j.numpy.sin, j.numpy.cos], x), (1, 2.0)),
    "where": (lambda j: lambda x: j.numpy.where(x > 0, x, 0.0) + j.numpy.where(x > 0, 1, 2.0), (V,)),
    "where in a batch": (lambda j: j.vmap(lambda x: j.numpy.where(x > 0, x, -x)), (V,)),
    "functions that JAX has jitted": (
        lambda j: lambda x: [getattr(j.numpy, f)(x) for f in ("round", "cumsum", "sort", "tril", "triu", "flip", "isinf")],
        (M,)),
    "arrays of weak numbers": (
        lambda j: lambda a, b: (j.numpy.array([a, b]), j.numpy.array([[a], [b]]), j.numpy.float32(a), a.astype("float32")), (1.0, 2.0)),
    "clip": (lambda j: lambda x: j.numpy.clip(x, 0, 1), (V,)),
    "remainder": (lambda j: lambda x, y: x % y, (V, 2.0)),
    "square and sign": (lambda j: lambda x: (j.numpy.square(x), j.lax.square(x), j.numpy.sign(x)), (V,)),
    "position in the whole": (lambda j: lambda x: x.argmax(), (M,)),
    "einsum": (lambda j: lambda x, y: (j.numpy.einsum("ij,jk->ik", x, y), j.numpy.einsum("ij,kj->ik", x, x)), (M, M.T.copy())),
    "outer": (lambda j: lambda x: j.numpy.outer(x, x), (V,)),
    "stack": (lambda j: lambda x: j.numpy.stack([x, x], 1), (V,)),
    "a traced index": (lambda j: lambda x, i: x[i], (V, np.int32(1))),
    "two traced indices": (lambda j: lambda x, i: x[i, i], (M, np.int32(1))),
    "rows of traced indices": (lambda j: lambda x, i: (x[i], x[i, i], x.at[i].get(mode="fill")), (M, np.array([0, 2], np.int32))),
    "updates at one place": (
        lambda j: lambda x, i: (x.at[0, 1].set(2.0), x.at[1].add(x[0]), x.at[-1, 1:3].max(2.0), x.at[:, 1].multiply(2.0), x.at[i, 2:].set(1.0),
                                x.at[i, i].min(0.0), x.at[i].get(mode="fill"), x.at[7].set(1.0)), (M, np.int32(1))),
    "updates at several places": (
        lambda j: lambda x, i: (x.at[i].add(1.0), x.at[i].set(x[:2], unique_indices=True), x.at[i, i].multiply(2.0)), (M, np.array([0, 2], np.int32))),
    "positions": (
        lambda j: lambda: (j.lax.broadcasted_iota("int32", (2, 3), 1), j.numpy.eye(3, 2, 1), j.numpy.tri(2, 3, -1), j.lax.iota("float32", 3)), ()),
    "ranges": (lambda j: lambda: [j.numpy.arange(*a) for a in ((2, 5), (2, 9, 3), (5, 0, -1), (0, 9, 3))], ()),
    "tiles": (lambda j: lambda x, y: (j.numpy.tile(x, (2, 1)), j.numpy.tile(y, (2, 2)), j.numpy.tile(y, 2)), (M, V)),
    "logarithms": (lambda j: lambda x: (j.numpy.log2(x), j.numpy.log10(x)), (V,)),
    "real and imaginary parts": (lambda j: lambda x: (j.numpy.real(x), x.imag), (M + 1j * M,)),
    "nan_to_num": (lambda j: lambda x: j.numpy.nan_to_num(x), (V,)),
    "take": (
        lambda j: lambda x, i: (j.numpy.take(x, i), j.numpy.take(x, i, axis=0), j.numpy.take(x, i, axis=0, mode="clip")),
        (M, np.array([0, -1], np.int32))),
    "one hot": (lambda j: lambda i: (j.nn.one_hot(i, 4), j.nn.one_hot(i, 3, axis=0, dtype="int8")), (np.array([0, 2], np.int32),)),
    "variance": (
        lambda j: lambda x, n: (j.numpy.var(x), j.numpy.std(n, 0, keepdims=True), j.numpy.var(x, 1, ddof=1), j.numpy.std(x, mean=x.mean())),
        (M, M.astype(np.int32))),
    "relu": (lambda j: lambda x: j.nn.relu(x), (V,)),
    "gelu": (lambda j: lambda x: j.nn.gelu(x), (V,)),
    "sigmoid and silu": (lambda j: lambda x: (j.nn.sigmoid(x), j.nn.silu(x)), (V,)),
    "softmax": (lambda j: lambda x: (j.nn.softmax(x), j.nn.log_softmax(x, 0)), (M,)),
    "attention": (lambda j: lambda q, k: j.nn.softmax(q @ k.T / j.numpy.sqrt(4)) @ k, (M, M)),
    "checkpoint": (lambda j: j.checkpoint(lambda x: j.numpy.sin(j.numpy.sin(x))), (S,)),
    "checkpoint in a loop": (lambda j: j.checkpoint(lambda x: j.numpy.sin(x), prevent_cse=False), (S,)),
    "symbolic zeros": (lambda j: lambda x: customised(j, True)(x) + with_a_pullback(j, True)(x), (S,)),
    "custom_jvp": (customised, (S,)),
    "custom_vjp": (with_a_pullback, (S,)),
    "permutation of pivots": (lambda j: lambda p: j.lax.linalg.lu_pivots_to_permutation(p, 4), (np.array([2, 1, 2], np.int32),)),
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_text_is_jaxs(name):
    make, args = TEXTS[name]
    assert str(jaxish.make_jaxpr(make(jaxish))(*args)) == str(jax.make_jaxpr(make(jax))(*args))


def test_gelu_of_torch_is_written_out():
    """torch's exact gelu, which jax.nn's is not made of, in JAX's words."""
    jaxpr = jaxish.make_jaxpr(from_torch_function(torch.nn.functional.gelu))(V)
    (call,) = jaxpr.eqns
    assert {e.primitive.name for e in call.params["jaxpr"].eqns} == {"neg", "mul", "erfc"}
    (found,) = jaxish.core.eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, V)
    np.testing.assert_allclose(found, jax.nn.gelu(V, approximate=False), rtol=1e-6)


def test_derivatives_of_softmax_are_written_out():
    """In primitives that JAX has, which interpreters of jaxprs know."""
    for name in ("softmax", "log_softmax"):
        gradient = lambda j, name=name: j.grad(lambda x: (getattr(j.nn, name)(x, 1) ** 2).sum())
        jaxpr = jaxish.make_jaxpr(gradient(jaxish))(M)
        inner = [e for call in jaxpr.eqns if "jaxpr" in call.params for e in call.params["jaxpr"].eqns]
        assert not any("softmax" in e.primitive.name for e in (*jaxpr.eqns, *inner))
        (found,) = jaxish.core.eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, M)
        np.testing.assert_allclose(found, gradient(jax)(M), rtol=1e-5, atol=1e-6)


# Keys, and named axes that have a size but no lanes.
KEYS = {
    "bits": lambda j: lambda k: j.random.bits(k, (3,)),
    "split": lambda j: lambda k: j.random.split(k, 3),
    "fold_in": lambda j: lambda k: j.random.fold_in(k, 5),
    "a chain": lambda j: lambda k: j.random.bits(j.random.split(j.random.fold_in(k, 1))[1]),
    "words": lambda j: lambda k: j.random.key_data(k),
}
COLLECTIVES = {
    "psum": lambda j: lambda x: j.lax.psum(x, "i"),
    "pmean": lambda j: lambda x: j.lax.pmean(x, "i"),
    "groups": lambda j: lambda x: j.lax.pmax(x, "i", axis_index_groups=[[0, 1], [2, 3]]),
    "ppermute": lambda j: lambda x: j.lax.ppermute(x, "i", [(0, 1), (1, 2)]),
    "all_gather": lambda j: lambda x: j.lax.all_gather(x, "i"),
    "tiled all_gather": lambda j: lambda x: j.lax.all_gather(x, "i", axis=1, tiled=True),
    "all_to_all": lambda j: lambda x: j.lax.all_to_all(x, "i", 1, 0, tiled=True),
    "psum_scatter": lambda j: lambda x: j.lax.psum_scatter(x, "i", scatter_dimension=1),
    "axis_index": lambda j: lambda x: j.lax.axis_index("i"),
}


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
@pytest.mark.parametrize("name", KEYS)
def test_text_and_values_with_keys(name, impl):
    def run(j):
        key, f = j.random.key(3, impl=impl), KEYS[name](j)
        jaxpr = j.make_jaxpr(f)(key)
        core = importlib.import_module(f"{j.__name__}.core")
        (found,) = core.eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, key)
        words = lambda a: j.random.key_data(a) if j.dtypes.issubdtype(a.dtype, j.dtypes.prng_key) else a
        return str(jaxpr), np.asarray(words(found)).tolist(), np.asarray(words(f(key))).tolist()

    text, found, direct = run(jax)
    found_text, *values = run(jaxish)
    assert values == [found, direct]
    if name != "a chain":  # an index of keys is one of their words
        assert found_text == text


@pytest.mark.parametrize("name", COLLECTIVES)
def test_text_of_collectives(name):
    text = lambda j: str(j.make_jaxpr(COLLECTIVES[name](j), axis_env=[("i", 4)])(np.ones((4, 4), np.float32)))
    assert text(jaxish) == text(jax)


@pytest.mark.parametrize("name", ["uniform", "normal", "gamma", "permutation"])
def test_samplers_show_their_bits_and_have_the_same_values(name):
    arguments = {"gamma": (np.array([0.5, 2.0, 3.0], np.float32),), "permutation": (7,)}.get(name, ((2, 3),))
    draw = lambda j: lambda k: getattr(j.random, name)(k, *arguments)
    jaxpr = jaxish.make_jaxpr(draw(jaxish))(jaxish.random.key(5))
    assert ("random_gamma" if name == "gamma" else "random_bits") in {e.primitive.name for e in jaxpr.eqns}
    (found,) = jaxish.core.eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, jaxish.random.key(5))
    np.testing.assert_allclose(found, draw(jax)(jax.random.key(5)), rtol=2e-6)


def test_every_primitive_is_listed():
    listed = lambda name: {n for n in dir(importlib.import_module(name)) if n.endswith("_p")}
    for module in ("lax", "lax.linalg", "extend.random"):
        assert listed(f"jax.{module}") - listed(f"jaxish.{module}") == set()
    # What JAX's references and linearize are made of.
    missing = {"custom_lin_p", "empty2_p", "get_p", "swap_p"}
    assert listed("jax.extend.core.primitives") - listed("jaxish.extend.core.primitives") == missing


@pytest.mark.parametrize("dtype", ["float32", "int32", "bool"])
def test_comparisons_in_total_order(dtype):
    values = np.array([-np.nan, -np.inf, -1, -0.0, 0.0, 1, np.inf, np.nan], np.float32)
    values = values if dtype == "float32" else np.nan_to_num(values, posinf=3, neginf=-3).astype(dtype)
    x, y = (a.ravel() for a in np.meshgrid(values, values))
    for name in ("eq_to_p", "le_to_p", "lt_to_p"):
        agree(lambda j, name=name: getattr(j.lax, name).bind(j.numpy.asarray(x), j.numpy.asarray(y)))


def test_selections_by_windows():
    x = np.array([[1, 5, 2, 5], [4, 5, 0, 3], [7, 1, 1, 8]], np.float32)
    around = {"window_dimensions": (2, 2), "window_strides": (1, 1), "padding": ((0, 0), (1, 0))}
    dilated = {"base_dilation": (1, 1), "window_dilation": (1, 1)}
    source = np.arange(8, dtype=np.float32).reshape(2, 4)
    for select in ("ge_p", "le_p"):
        agree(lambda j: j.lax.select_and_scatter_add_p.bind(source, x, select_prim=getattr(j.lax, select), **around))
        agree(
            lambda j: j.lax.select_and_gather_add_p.bind(
                x * 3, x, select_prim=getattr(j.lax, select), **around, **dilated
            )
        )


def test_options_of_pretty_print():
    program = lambda j: j.make_jaxpr(lambda x: j.numpy.sin(x) * 2.0 + j.lax.cond(x > 0, lambda: x, lambda: -x))(S)
    for options in ({}, {"print_shapes": False}, {"print_effects": True}):
        assert program(jaxish).pretty_print(**options) == program(jax).pretty_print(**options)
    assert [repr(e) for e in program(jaxish).eqns] == [repr(e) for e in program(jax).eqns]


def evaluated(j, f, *args):
    core = importlib.import_module(f"{j.__name__}.core")
    jaxpr = j.make_jaxpr(f)(*args)
    return lambda *flat: core.eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, *flat)


@pytest.mark.parametrize("name", TEXTS)
def test_evaluates_to_the_function(name):
    make, args = TEXTS[name]
    flat = jax.tree.leaves(args)
    for around in ((lambda j, f: f), lambda j, f: j.jit(f)):
        agree(lambda j, around=around: around(j, evaluated(j, make(j), *args))(*flat), weak=False)


@pytest.mark.parametrize("expression", [*cases()][::9])
def test_evaluates_every_kind_of_function(expression):
    case = Case(expression, cases()[expression])
    args = [jaxish.numpy.asarray(a[0]) for a in case.args]
    everything = tuple(range(len(args)))

    def functions(j):
        f = function_of(j, case.expression, case.names)
        return f, lambda *a: j.grad(loss_of(j, f), everything)(*a)

    for f, by_jax in zip(functions(jaxish), functions(jax), strict=True):
        try:
            jaxpr = jaxish.make_jaxpr(f)(*args)
            wanted = jax.tree.leaves(by_jax(*map(jax.numpy.asarray, args)))
        except (NotImplementedError, ValueError):  # without a derivative
            continue
        jaxish.extend.core.check_jaxpr(jaxpr.jaxpr)
        found = jaxish.core.eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, *args)
        for g, w in zip(found, wanted, strict=True):
            assert g.dtype == w.dtype
            compare_values(np.asarray(g), np.asarray(w), 2e-3, 2e-3)


def test_evaluates_a_custom_rule_around_a_loop_that_tests_an_element():
    """What the loop is compiled by describes the parameters of the element's equation."""

    def make(j):
        element = lambda x, i: x.at[i].get(mode="clip")
        until = lambda x: j.lax.while_loop(lambda i: element(x, i) < V[1], lambda i: i + 1, 0) * x
        f = j.custom_vjp(until)
        f.defvjp(lambda x: (until(x), x), lambda x, cotangent: (cotangent * x,))
        return f

    agree(lambda j: evaluated(j, make(j), V)(V))


def test_derivatives_of_evaluated_jaxprs():
    f = lambda j: lambda x: j.lax.scan(lambda c, y: (j.nn.relu(j.numpy.tanh(c) * y), c), x, V)[0]
    agree(lambda j: j.grad(lambda x: evaluated(j, f(j), S)(x)[0])(S))
    agree(lambda j: j.vmap(lambda x: evaluated(j, f(j), S)(x)[0])(V))
    agree(lambda j: j.jit(j.vmap(j.grad(lambda x: evaluated(j, f(j), S)(x)[0])))(V))


def test_custom_rules_survive():
    def program(j):
        f = j.custom_jvp(lambda x: j.numpy.sin(x))
        f.defjvp(lambda primals, tangents: (f(*primals), tangents[0] * 10.0))
        g = j.custom_vjp(lambda x: x * 2.0)
        g.defvjp(lambda x: (g(x), x), lambda x, c: (c * x,))
        both = evaluated(j, lambda x: f(g(x)), S)
        return j.grad(lambda x: both(x)[0])(S), j.vmap(j.grad(lambda x: both(x)[0]))(V)

    agree(program)


# ------------------------------------------------------------------------------------------------ what users do with it


def inverted(j):
    """The inverse of a chain of unary functions, found by walking its equations backwards."""
    inverses = {j.lax.exp_p: j.numpy.log, j.lax.tanh_p: j.numpy.arctanh}

    def inverse(f):
        def run(y):
            jaxpr = j.make_jaxpr(f)(y)
            known = dict(zip(jaxpr.jaxpr.outvars, [y], strict=True))
            for eqn in jaxpr.jaxpr.eqns[::-1]:
                known[eqn.invars[0]] = inverses[eqn.primitive](known[eqn.outvars[0]])
            return known[jaxpr.jaxpr.invars[0]]

        return run

    f = lambda x: j.numpy.exp(j.numpy.tanh(x))
    y = f(j.numpy.float32(0.5))
    return inverse(f)(y), j.jit(inverse(f))(y), j.vmap(j.grad(inverse(f)))(f(j.numpy.asarray(V / 8)))


def flops(j):
    """The number of multiplications, loops' bodies by their lengths."""

    def count(jaxpr):
        total = 0
        for eqn in jaxpr.eqns:
            if eqn.primitive.name == "scan":
                total += eqn.params["length"] * count(eqn.params["jaxpr"].jaxpr)
            elif eqn.primitive.name == "dot_general":
                (contracted, _), _ = eqn.params["dimension_numbers"]
                sizes = [eqn.invars[0].aval.shape[d] for d in contracted]
                total += int(np.prod(sizes)) * eqn.outvars[0].aval.size
            elif eqn.primitive is j.lax.mul_p:
                total += eqn.outvars[0].aval.size
        return total

    step = lambda c, x: (j.numpy.dot(x, c) * 2.0, c)
    return count(j.make_jaxpr(lambda c, xs: j.lax.scan(step, c, xs))(V, np.ones((5, 3, 3), np.float32)).jaxpr)


def replaced(j):
    """A program with another function in the place of one primitive, within loops and jits too."""
    core = importlib.import_module(f"{j.__name__}.core")

    def run(jaxpr, consts, *args):
        env = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *args], strict=True))
        read = lambda v: v.val if hasattr(v, "val") else env[v]
        for eqn in jaxpr.eqns:
            values = [read(v) for v in eqn.invars]
            if eqn.primitive is j.lax.sin_p:
                out = j.numpy.cos(*values)
            elif eqn.primitive.name == "jit":
                inner = eqn.params["jaxpr"]
                out = run(inner.jaxpr, inner.consts, *values)
            else:
                out = eqn.primitive.bind(*values, **eqn.params)
            outs = out if eqn.primitive.multiple_results else [out]
            env.update(zip(eqn.outvars, outs, strict=True))
        return [read(v) for v in jaxpr.outvars]

    closed = j.make_jaxpr(lambda x: j.jit(lambda y: j.numpy.sin(y) * 2.0)(x) + j.numpy.sin(x))(V)
    assert isinstance(closed.jaxpr.eqns[0].invars[0], importlib.import_module(f"{j.__name__}.extend.core").Var)
    assert core.eval_jaxpr(closed.jaxpr, closed.consts, V)[0].shape == (3,)
    return run(closed.jaxpr, closed.consts, V), j.grad(lambda x: run(closed.jaxpr, closed.consts, x)[0].sum())(V)


def rebuilt(j):
    """A jaxpr put together by hand, with a loop whose body is changed."""
    ext = importlib.import_module(f"{j.__name__}.extend.core")
    closed = j.make_jaxpr(lambda c: j.lax.scan(lambda c, _: (c * 2.0, None), c, None, length=3)[0])(S)
    (eqn,) = closed.eqns
    body = eqn.params["jaxpr"]
    again = body.jaxpr.replace(eqns=[e.replace(primitive=j.lax.add_p, params={}) for e in body.eqns])
    changed = eqn.replace(params={**eqn.params, "jaxpr": ext.ClosedJaxpr(again, body.consts)})
    whole = ext.ClosedJaxpr(closed.jaxpr.replace(eqns=[changed]), closed.consts)
    assert list(ext.subjaxprs(whole.jaxpr)) == [again]
    return ext.jaxpr_as_fun(whole)(S), [a.str_short() for a in whole.in_avals]


def called(j):
    """Functions that a program wrapped, called by the two primitives for that, and in a jaxpr put together by hand."""
    ext = importlib.import_module(f"{j.__name__}.extend.core")
    primitives = importlib.import_module(f"{j.__name__}.extend.core.primitives")
    linear_util = importlib.import_module(f"{j.__name__}.extend.linear_util")
    debug_info = importlib.import_module(f"{j.__name__}.api_util").debug_info
    f = lambda x: [j.numpy.sin(x) * 2.0, x + 1.0]
    wrapped = linear_util.wrap_init(f, debug_info=debug_info("called", f, (V,), {}))
    body = j.make_jaxpr(f)(V)
    outer = j.make_jaxpr(lambda x: j.jit(f)(x))(V)

    def by_hand(primitive, jaxpr):
        eqn = outer.eqns[0].replace(primitive=primitive, params={"call_jaxpr": jaxpr})
        return ext.jaxpr_as_fun(ext.ClosedJaxpr(outer.jaxpr.replace(eqns=[eqn]), []))

    pairs = (primitives.call_p, body.jaxpr), (primitives.closed_call_p, body)
    assert all(p.multiple_results and p.call_primitive for p, _ in pairs)
    bound = [p.bind(V, subfuns=(wrapped,)) for p, _ in pairs]
    return (
        bound,
        [by_hand(*pair)(V) for pair in pairs],
        [j.jit(j.vmap(by_hand(*pair)))(V) for pair in pairs],
        [str(p) for p, _ in pairs],
    )


def equations_with_rules(j):
    """Return equations of functions with custom derivatives that close over a value, and the values of their inputs."""
    sine, product = j.custom_jvp(lambda x, y: j.numpy.sin(x) * y * V), j.custom_vjp(lambda x, y: j.numpy.sin(x) * y)
    sine.defjvp(lambda primals, tangents: (sine(*primals), tangents[0] * 3.0 * V))
    product.defvjp(lambda x, y: (product(x, y), x), lambda x, cotangent: (cotangent * x, cotangent * 2.0))
    given = V, V * 2.0 + 1.0
    bodies = [j.make_jaxpr(f)(*given) for f in (sine, product)]
    return [(b.eqns[-1], [*b.consts, *given][-len(b.eqns[-1].invars) :]) for b in bodies]


def bound_by_functions(j):
    found = []
    for eqn, values in equations_with_rules(j):
        params = eqn.primitive.get_bind_params(eqn.params)
        bind = lambda *xs, eqn=eqn, params=params: eqn.primitive.bind(*xs, **params)[0]
        found += [
            len(params["subfuns"]), params["symbolic_zeros"], params["subfuns"][0].call_wrapped(*values), bind(*values),
            j.grad(lambda *xs, bind=bind: bind(*xs).sum(), argnums=(-1, -2))(*values),
            j.jit(j.vmap(bind))(*(np.stack([v, v]) for v in values)),
        ]  # fmt: skip
    return found


def bound_by_other_functions(j):
    wrap_init = importlib.import_module(f"{j.__name__}.extend.linear_util").wrap_init
    debug_info = importlib.import_module(f"{j.__name__}.api_util").debug_info
    wrapped = lambda f, *xs: wrap_init(f, debug_info=debug_info("bound", f, xs, {}))
    (first, values), (second, others) = equations_with_rules(j)
    function, rule = first.primitive.get_bind_params(first.params)["subfuns"]
    doubled = wrapped(lambda *xs: [2.0 * r for r in function.call_wrapped(*xs)], *values)
    steeper = wrapped(lambda *xs: [5.0 * r for r in rule.call_wrapped(*xs)], *values, *values)
    sine = lambda *xs: first.primitive.bind(*xs, subfuns=(doubled, steeper), symbolic_zeros=False)[0]
    params = second.primitive.get_bind_params(second.params)
    shifted = wrapped(lambda *xs: [r + V for r in params["subfuns"][0].call_wrapped(*xs)], *others)
    params["subfuns"] = (shifted, *params["subfuns"][1:])
    product = lambda *xs: second.primitive.bind(*xs, **params)[0]
    last = len(values) - 2
    gradients = [
        j.grad(lambda *xs, f=f: f(*xs).sum(), argnums=a)(*v) for f, v, a in ((sine, values, last), (product, others, 0))
    ]
    return sine(*values), product(*others), gradients, rule.call_wrapped(*values, *values)


@pytest.mark.parametrize(
    "interpreter", [inverted, flops, replaced, rebuilt, called, bound_by_functions, bound_by_other_functions]
)
def test_interpreters_of_users(interpreter):
    agree(interpreter, rtol=1e-4, weak=False)


def test_check_jaxpr_finds_what_is_not_bound():
    for j in (jax, jaxish):
        ext = importlib.import_module(f"{j.__name__}.extend.core")
        jaxpr = j.make_jaxpr(lambda x: j.numpy.sin(x) + x)(S).jaxpr
        ext.check_jaxpr(jaxpr)
        with pytest.raises((ext.JaxprTypeError, AssertionError)):
            ext.check_jaxpr(jaxpr.replace(eqns=jaxpr.eqns[1:]))


@pytest.mark.parametrize(
    "name", ["sin", "dot_general", "reduce_sum", "while", "broadcast_in_dim", "conv_general_dilated"]
)
def test_parameters_have_jaxs_names(name):
    x = np.ones((1, 1, 4, 4), np.float32)
    programs = {
        "sin": lambda j: lambda x: j.numpy.sin(x),
        "dot_general": lambda j: lambda x: j.lax.dot_general(x, x, (((3,), (3,)), ((0,), (0,)))),
        "reduce_sum": lambda j: lambda x: j.numpy.sum(x, (1, 2)),
        "while": lambda j: lambda x: j.lax.while_loop(lambda c: c.sum() < 9, lambda c: c + 1, x),
        "broadcast_in_dim": lambda j: lambda x: j.lax.broadcast(x, (2,)),
        "conv_general_dilated": lambda j: lambda x: j.lax.conv_general_dilated(x, x, (1, 1), "SAME"),
    }

    def params(j):
        jaxpr = j.make_jaxpr(programs[name](j))(x)
        (eqn,) = (e for e in jaxpr.eqns if e.primitive.name == name)
        return sorted(eqn.params)

    assert params(jaxish) == params(jax)


def test_evaluates_jacobians_of_complex_functions():
    m = (np.arange(9).reshape(3, 3) * (1 - 2j) + 1j).astype(np.complex64)
    f = lambda j: j.jacrev(lambda x: j.numpy.conj(m) @ x, holomorphic=True)
    agree(lambda j: evaluated(j, f(j), m[0])(m[0])[0])
    agree(lambda j: j.jit(lambda x: evaluated(j, f(j), m[0])(x)[0])(m[0]))
    agree(lambda j: j.vmap(lambda v: j.vjp(lambda x: m @ x, m[0])[1](v)[0])(m))


@pytest.mark.parametrize("index", [-1, 1, 7])
def test_branches_are_evaluated_with_64_bit_types_on(index):
    branches = [lambda x: x + 1, lambda x: x * 3, lambda x: x - 2]

    def program(j):
        with j.enable_x64(True):
            closed = j.make_jaxpr(lambda i, x: j.lax.switch(i, branches, x))(np.int64(index), V)
            core = importlib.import_module(f"{j.__name__}.core")
            return core.eval_jaxpr(closed.jaxpr, closed.consts, np.int64(index), V)

    agree(program)


def test_weak_types_of_what_a_jaxpr_computes():
    def program(j):
        def f(a, b, c):
            sine = (j.numpy.sin(b) + 1) / 3
            return a + 1, 2.0 * b, -a, a * b, a < b, b**2, sine, c + 1, c * b

        given = j.numpy.asarray(1), j.numpy.asarray(2.0), j.numpy.zeros(2, "bfloat16")
        jaxpr = j.make_jaxpr(f)(*given)
        evaluated = lambda *args: j.core.eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, *args)
        return evaluated(*given), j.jit(evaluated)(*given), [str(a) for a in jaxpr.out_avals]

    agree(program)


@pytest.mark.parametrize("argument", [1.0, np.float32(1)], ids=["weak", "strong"])
@pytest.mark.parametrize(
    "program",
    [
        lambda j, x: 0 + j.numpy.where(x > 0, 1, 0),
        lambda j, x: j.numpy.broadcast_to(x, 2).sum(),
        lambda j, x: j.lax.cond(x > 0, lambda x: x * 2, lambda x: x, x),
        lambda j, x: j.lax.scan(lambda c, _: (c * 2, c), x, None, length=2),
        lambda j, x: j.lax.while_loop(lambda c: c < 3, lambda c: c * 2, x),
        lambda j, x: j.jit(lambda x: x * 2)(x),
    ],
    ids=["where", "sum", "cond", "scan", "while", "jit"],
)
def test_evaluated_results_are_as_weakly_typed_as_those_of_the_function(program, argument):
    def weak(j):
        closed = j.make_jaxpr(lambda x: program(j, x))(argument)
        return [r.weak_type for r in j.core.eval_jaxpr(closed.jaxpr, closed.consts, argument)]

    assert weak(jaxish) == weak(jax)
