"""Loops written out as C++ give JAX's numbers; bodies that cannot be written out run step by step."""

import gc
import importlib
import os
import re
import subprocess
import sys
import time

import jax
import numpy as np
import pytest
from oracle import agree

import jaxish
from jaxish._compile import (
    background,
    loop_compiler,
    loop_emitter,
    loop_indexing,
    loop_repeats,
    loop_sources,
    loop_values,
    native_loop,
)
from jaxish._core import config

pytestmark = pytest.mark.usefixtures("compiled", "unoptimized_jax")
V = np.array([0.3, -0.7, 1.5], np.float32)
M = np.array([[0.5, 0.1, 0.0], [0.2, 0.3, 0.1], [0.0, 0.1, 0.4]], np.float32)


STEPS = {
    "arithmetic": lambda jnp, c: (c * 0.5 + 1) / (c * c + 2) - c,
    "sin cos tanh": lambda jnp, c: jnp.sin(c) + jnp.cos(c) * jnp.tanh(c),
    "exp log sqrt": lambda jnp, c: jnp.sqrt(jnp.log(1 + jnp.exp(c)) + jnp.expm1(c * c)),
    "powers": lambda jnp, c: (c * c + 1) ** 0.3,
    "where and comparison": lambda jnp, c: jnp.where(c > 0.2, c * 0.5, 1 - c),
    "maximum and minimum": lambda jnp, c: jnp.maximum(jnp.minimum(c, 0.9), -0.5) * 1.1,
    "nan passes through maximum": lambda jnp, c: jnp.maximum(c, jnp.nan),
    "abs sign floor": lambda jnp, c: jnp.abs(c) + jnp.floor(c * 3) * 0.1,
    "matrix times vector": lambda jnp, c: M @ c + 0.1,
    "vector times matrix": lambda jnp, c: jnp.tanh(c @ M),
    "outer product and sum": lambda jnp, c: (c[:, None] * c[None, :]).sum(1) * 0.5,
    "sum and mean": lambda jnp, c: c / (1 + c.sum()) + c.mean(),
    "stack and index": lambda jnp, c: jnp.stack([c[1], c[2] * 0.5, c[0]]),
    "concatenate and slice": lambda jnp, c: jnp.concatenate([c[1:], c[:1] * 0.5]),
    "reverse": lambda jnp, c: c[::-1] * 0.9,
    "transpose": lambda jnp, c: (jnp.reshape(c, (3, 1)).T * 0.5).reshape(3),
    "solve": lambda jnp, c: jnp.linalg.solve(M + 2 * jnp.eye(3), c),
    "split": lambda jnp, c: jnp.concatenate(jnp.split(jnp.stack([c, 2 * c]), 2)[::-1]).sum(0),
    "arange": lambda jnp, c: c * jnp.arange(3) * 0.3,
    "clip": lambda jnp, c: jnp.clip(c * 3, -0.5, 0.7),
    "the bits of numbers": lambda jnp, c: ((c.view("int32") & 0x7FFFFF) | 0x3F800000).view("float32") - 0.5,
    "shifted bits": lambda jnp, c: (((c.view("int32") << 3) ^ (c.view("int32") >> 2)) % 17).astype("float32"),
    "dot": lambda jnp, c: c * jnp.dot(c, c) * 0.1,
    "places of the greatest and least": lambda jnp, c: c * 0.5 + jnp.argmax(c) - jnp.argmin(jnp.outer(c, c), 1),
    "running sums and products": lambda jnp, c: jnp.cumsum(c) * 0.1 + jnp.cumprod(jnp.outer(c, c), 0)[1],
    "elements set of what was computed": lambda jnp, c: (c * 0.5).at[jnp.array([0, 2])].set(c[:2]),
    "elements added to what was computed": lambda jnp, c: jnp.zeros(3).at[jnp.array([2, 2, 0])].add(c * 0.3),
    "the least and greatest at a place": lambda jnp, c: (
        (c * 0.9).at[jnp.array([2, 2, 0])].min(c * 0.3) + c.at[1].max(c[0]).at[jnp.array([0, 7])].max(0.1)
    ),
    "logaddexp2": lambda jnp, c: jnp.logaddexp2(c, 0.3) - 1,
    "powers of two": lambda jnp, c: jnp.ldexp(c, 2) * 0.1,
}


@pytest.fixture
def refused(monkeypatch):
    """Return what loops were not written out for."""
    found = []

    def note(self, *reasons):
        if not isinstance(self, loop_indexing.NeedsMemory):  # which the emitter finds
            found.extend(reasons)

    monkeypatch.setattr(loop_values.Unsupported, "__init__", note)
    return found


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS.keys())
def test_a_scan_of_each_operation(step, refused):
    agree(
        lambda j: j.lax.scan(
            lambda c, x: (step(j.numpy, c) + x, c), j.numpy.asarray(V), np.ones((4, 3), np.float32) * 0.1
        )
    )
    assert not refused


@pytest.mark.parametrize(
    "program",
    [
        lambda j: j.lax.scan(lambda c, x: (c + x, c * x), 0, np.arange(5)),
        lambda j: j.lax.scan(lambda c, x: (c + x, c * x), np.int8(100), np.arange(5, dtype=np.int8) * 20),
        lambda j: j.lax.scan(lambda c, x: (c & x, c | x), True, np.array([True, False])),
        lambda j: j.lax.scan(lambda c, x: (c * 0.9 + x, c), 0.0, V, reverse=True),
        lambda j: j.lax.scan(lambda c, x: ((c[1], c[0] + x), c), (0.0, 1.0), V),
        lambda j: j.lax.scan(lambda c, _: (c + 1, None), 0, None, length=0),
        lambda j: j.lax.while_loop(lambda c: c[0] < 100, lambda c: (c[0] * 2 + 1, c[1] + 0.5), (0, 0.0)),
        lambda j: j.lax.while_loop(lambda c: c.sum() < 10, lambda c: c * 1.5 + 0.1, j.numpy.asarray(np.abs(V))),
        lambda j: j.vmap(lambda n: j.lax.while_loop(lambda c: c < n, lambda c: c * 2 + 1, 1))(np.array([3, 50, 9])),
        lambda j: j.lax.fori_loop(0, 20, lambda i, c: c + i * 0.5, 1.0),
        lambda j: j.jit(j.grad(lambda a: j.lax.scan(lambda c, x: (j.numpy.sin(c * a) + x, c), a, V)[0]))(np.float32(0.5)),
        lambda j: j.jit(j.vmap(lambda a: j.lax.scan(lambda c, x: (c * a + x, c), a, V)))(V),
        lambda j: j.lax.scan(lambda c, x: (j.lax.scan(lambda d, y: (d + y, d), c, V)[0] * x, c), 1.0, V),
        lambda j: j.lax.scan(lambda c, x: (c + 0.7, (j.lax.lgamma(c), j.lax.digamma(c))), j.numpy.asarray(V), V),
        lambda j: j.lax.scan(lambda c, x: (abs(j.numpy.linalg.eigvalsh(c)) + 1, x), j.numpy.asarray(M), V),
    ],
    ids=[
        "integers", "bytes wrap", "booleans", "reverse", "swapped carries", "no steps", "while", "while on an array",
        "while, mapped", "fori", "gradient", "mapped", "nested", "gamma functions", "with eigenvalues: step by step",
    ],
)  # fmt: skip
def test_loops_like_jax(program):
    agree(program, weak=False)


NUMBERS = np.array([3.0, -0.5, np.nan, 0.0, -0.0, np.inf, -np.inf, 1e20, -1e20, 200.7, 2.5], np.float32)
INTEGERS = np.array([0, 1, -1, 5, 100, -100, 2**31 - 1, -(2**31), 46341, -7], np.int32)
DIVISORS = np.array([0, -1, 3, -3, 7, 0, -1, -1, 2, -2], np.int32)
BYTES = np.array([0, 1, -1, 5, 127, -128, 12, -7, 31, 8])
ZEROS = np.zeros(0, np.float32)


def stepwise(f, *xs, init=0):
    """Return a program: a scan that applies `f` to the elements of `xs`."""
    return lambda j: j.lax.scan(lambda c, x: (c, f(j.numpy, *x)), init, xs)


def carried(f, init, xs):
    """Return a program: a scan that carries `f` of the carry and an element."""
    return lambda j: j.lax.scan(lambda c, x: (f(j.numpy, c, x), c), init, xs)


HARD = {
    "negation of a predicate": lambda j: j.lax.while_loop(lambda c: ~(c > 10.0), lambda c: c * 2, 1.0),
    "a flag": lambda j: j.lax.while_loop(lambda s: ~s[1] & (s[0] < 100), lambda s: (s[0] + 1, s[0] > 5), (0, False)),
    "negated comparison": carried(lambda jnp, c, x: jnp.where(~(c > x), c, x), np.float32(1), NUMBERS),
    "and not": stepwise(lambda jnp, a: (a > 0) & ~(a > 2), NUMBERS),
    "or not": stepwise(lambda jnp, a: (a == 0) | ~(a != 3), NUMBERS),
    "squares": stepwise(lambda jnp, a, b: (jnp.square(a), jnp.square(b)), INTEGERS, BYTES.astype(np.int8)),
    "cubes": stepwise(lambda jnp, a, b: (a**3, b**3), INTEGERS, BYTES.astype(np.int8)),
    "powers": stepwise(lambda jnp, a, b: (a**b, b**a), BYTES.astype(np.int16), abs(BYTES).astype(np.int16)),
    "negation, absolute": stepwise(lambda jnp, a, b: (-a, abs(a), -b, abs(b)), INTEGERS, BYTES.astype(np.int8)),
    "sums and products": carried(lambda jnp, c, x: c * x + x - c, np.int32(7), INTEGERS),
    "bytes": carried(lambda jnp, c, x: c * x + x - c, np.uint8(7), BYTES.astype(np.uint8)),
    "division": stepwise(lambda jnp, a, b: (a // b, a % b), INTEGERS, DIVISORS),
    "division of numbers": stepwise(lambda jnp, a, b: (a // b, a % b), NUMBERS, NUMBERS[::-1].copy()),
    "relu": lambda j: j.lax.scan(lambda c, a: (c, j.nn.relu(a)), 0, NUMBERS),
    "selection": stepwise(lambda jnp, a: (jnp.where(a > 0, a, -a), jnp.where(a != a, 1, 2)), NUMBERS),
    "conversion": stepwise(lambda jnp, a: [a.astype(d) for d in ("int32", "int8", "uint8", "int16", "bool")], NUMBERS),
    "sign": stepwise(lambda jnp, a: jnp.sign(a), NUMBERS),
    "clip": stepwise(lambda jnp, a: (jnp.clip(a, -1, 2), jnp.clip(a, jnp.nan, 2)), NUMBERS),
    "booleans": stepwise(lambda jnp, a, b: (a + b, a * b, jnp.maximum(a, b), a < b), NUMBERS > 0, NUMBERS < 1),
    "counting": stepwise(lambda jnp, a: (a.sum(), a.sum(dtype="int8"), a.any(), a.all()), (NUMBERS > 0)[:, None]),
    "sums of bytes": stepwise(
        lambda jnp, a: (a.sum(), a.prod(), a.sum(dtype="int8"), a.mean()), BYTES.astype(np.int8).reshape(5, 2)
    ),
    "extrema": stepwise(lambda jnp, a: (a.max(), a.min(), a.max(0), a.min(1)), NUMBERS[:9].reshape(1, 3, 3)),
    "nothing": stepwise(lambda jnp, a: (a.sum(), a.prod(), a.any(), jnp.concatenate([a, a]), a.mean()), ZEROS.reshape(2, 0)),
    "different types": stepwise(lambda jnp, a, b: (a < b, a + b, a == b), BYTES.astype(np.int8), BYTES.astype(np.uint8)),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
@pytest.mark.parametrize("program", HARD.values(), ids=HARD.keys())
def test_hard_values(program):
    agree(program, weak=False)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32"])
def test_shifts_by_any_distance(dtype):
    width = 8 * np.dtype(dtype).itemsize
    values, distances = (
        g.ravel().astype(dtype) for g in np.meshgrid(BYTES, [-1, 0, 1, 5, width - 1, width, width + 1, 100])
    )
    agree(
        lambda j: j.lax.scan(
            lambda c, x: (
                c,
                (
                    j.lax.shift_left(*x),
                    j.lax.shift_right_arithmetic(*x),
                    j.lax.shift_right_logical(*x),
                    x[0] << 3,
                    x[0] >> 2,
                    x[0] >> 7,
                ),
            ),
            0,
            (values, distances),
        )
    )


def _scan_in(jitted, *args):
    graph = jitted.trace(*args)._program.closed.graph.module.graph
    return next(n.target for n in graph.nodes if hasattr(n.target, "carries"))


MATRICES = {
    "inverse": lambda j, a, c: j.numpy.linalg.inv(a) @ c,
    "inverse of a singular matrix": lambda j, a, c: j.numpy.linalg.inv(a.at[1].set(0)) @ c,
    "cholesky": lambda j, a, c: j.numpy.linalg.cholesky(a @ a.T + 1) @ c,
    "cholesky, upper": lambda j, a, c: j.scipy.linalg.cholesky(a @ a.T + 1) @ c,
    "cholesky of what is not positive": lambda j, a, c: j.numpy.linalg.cholesky(-a @ a.T) @ c,
    "a solve by cholesky": lambda j, a, c: j.scipy.linalg.cho_solve(j.scipy.linalg.cho_factor(a @ a.T + 1), c),
    "a positive solve": lambda j, a, c: j.scipy.linalg.solve(a @ a.T + 1, c, assume_a="pos"),
    "a lower solve": lambda j, a, c: j.scipy.linalg.solve_triangular(a, c, lower=True),
    "an upper solve": lambda j, a, c: j.scipy.linalg.solve_triangular(a, c),
    "a transposed solve": lambda j, a, c: j.scipy.linalg.solve_triangular(a, c, lower=True, trans=1, unit_diagonal=True),
    "solves from the right": lambda j, a, c: j.lax.linalg.triangular_solve(a, a + 1, lower=True) @ c,
    "upper solves from the right": lambda j, a, c: j.lax.linalg.triangular_solve(a, a + 1, transpose_a=True) @ c,
    "qr": lambda j, a, c: sum(j.numpy.linalg.qr(a)) @ c,
    "qr of a tall matrix": lambda j, a, c: j.numpy.linalg.qr(a[:, :2])[0] @ j.numpy.linalg.qr(a[:, :2])[1] @ c[:2],
    "all of qr": lambda j, a, c: j.numpy.linalg.qr(a[:, :2], "complete")[0] @ c,
    "qr of a wide matrix": lambda j, a, c: j.numpy.linalg.qr(a[:2])[1] @ c,
    "qr of zeros": lambda j, a, c: j.numpy.linalg.qr(a * 0)[0] @ c,
    "qr as reflections": lambda j, a, c: sum(j.numpy.linalg.qr(a, "raw")) @ c,
    "reflections of a tall matrix": lambda j, a, c: j.lax.linalg.householder_product(*j.lax.linalg.geqrf(a[:, :2]))[1] @ c[:2] + c,
    "a product with reflections": lambda j, a, c: j.lax.linalg.ormqr(*j.lax.linalg.geqrf(a[:, :2]), c[:, None], transpose=True)[:, 0],
    "reflections of a batch": lambda j, a, c: j.vmap(lambda x: sum(j.numpy.linalg.qr(x, "raw")))(j.numpy.stack([a, -a.T]))[1] @ c,
    "determinants": lambda j, a, c: c * j.numpy.linalg.det(a) + j.numpy.linalg.det(j.numpy.kron(a, a[:2, :2])),
    "sign and logarithm of determinants": lambda j, a, c: sum(j.numpy.linalg.slogdet(a[::-1])) * c,
    "a solve": lambda j, a, c: j.numpy.linalg.solve(a[::-1], c),
    "solves of a batch": lambda j, a, c: j.vmap(j.numpy.linalg.solve)(j.numpy.stack([a, a.T]), j.numpy.stack([c, -c]))[1],
    "factors of a batch": lambda j, a, c: j.vmap(j.numpy.linalg.qr)(j.numpy.stack([a, -a.T]))[0][1] @ c,
    "norms": lambda j, a, c: j.numpy.linalg.norm(a, axis=0) + j.numpy.linalg.norm(c, 1) + j.numpy.linalg.norm(c, np.inf),
    "cross products": lambda j, a, c: j.numpy.cross(c, a).sum(0) + j.numpy.cross(a, a.T, axis=0)[1],
    "sorted": lambda j, a, c: j.numpy.sort(c) + j.numpy.sort(c, descending=True) * 0.5 + j.numpy.argsort(j.numpy.sign(c)),
    "sorted with NaN": lambda j, a, c: j.numpy.sort(c.at[0].set(np.nan)),
    "sorted integers": lambda j, a, c: j.numpy.sort((c * 100).astype("int8")) + j.numpy.argsort(c > 0),
    "the greatest": lambda j, a, c: c + j.lax.top_k(j.numpy.tile(c, 5), 7)[0].sum() * 0.01 + j.lax.top_k(c * np.array([3, 1, 2], np.float32), 2)[1][1],
    "the median": lambda j, a, c: c * 0.5 + j.numpy.median(j.numpy.tile(a @ c, 9)),
    "a permutation": lambda j, a, c: j.random.permutation(j.random.PRNGKey(3), c),
    "sorted columns": lambda j, a, c: j.numpy.sort(a, 0)[1] + j.numpy.argsort(j.numpy.stack([a, -a]), 1)[1].sum(0) * 0.1,
    "diagonals": lambda j, a, c: j.numpy.diag(a) + j.numpy.diag(c, 1)[:3, :3].sum(0) + j.numpy.diag(c, -1)[1:, 0].sum(),
    "diagonals of a batch": lambda j, a, c: j.numpy.diagonal(j.numpy.stack([a, a.T]), 1, 1, 2)[1].sum() + c,
    "a density": lambda j, a, c: c + j.scipy.stats.multivariate_normal.logpdf(c, c[::-1], a @ a.T) * 0.01,
    "special functions": lambda j, a, c: j.scipy.special.gammaln(c * c + 1) + j.scipy.special.xlogy(c, c * c),
    "a jacobian": lambda j, a, c: j.jacfwd(lambda x: a @ j.numpy.sin(x))(c) @ c,
    "padded": lambda j, a, c: j.numpy.pad(c, (2, 1), constant_values=0.5)[1:4] + j.lax.pad(c, 0.1, [(-1, 1, 0)]),
    "derivative of a cholesky": lambda j, a, c: j.grad(lambda x: j.numpy.linalg.cholesky(a @ a.T + j.numpy.outer(x, x)).sum())(c),
    "derivative of an inverse": lambda j, a, c: j.grad(lambda x: j.numpy.linalg.inv(a + j.numpy.outer(x, x)).sum())(c),
}  # fmt: skip


@pytest.mark.parametrize("name", MATRICES)
def test_factorizations_and_sorting_in_a_loop(name, refused):
    def program(j):
        start = j.numpy.asarray(M + 2 * np.eye(3, dtype=np.float32)), j.numpy.asarray(V)

        def step(state, x):
            a, c = state
            found = MATRICES[name](j, a, c)
            return (a + 0.01 * j.numpy.outer(c, c), j.numpy.tanh(c + found) + x), found

        return j.lax.scan(step, start, np.ones((4, 3), np.float32) * 0.1)

    agree(program, rtol=2e-4, atol=2e-5)
    assert not refused


def test_arrays_that_a_lowering_holds_are_written_into_a_loop(refused):
    def program(j):
        of = lambda path: importlib.import_module(f"{j.__name__}.{path}")
        core, mlir, shifted = of("core"), of("interpreters.mlir"), of("extend.core").Primitive("shifted")
        shifted.def_abstract_eval(lambda x: core.ShapedArray(x.shape, x.dtype))
        held = [j.numpy.asarray(a) for a in (V, M, np.array([], np.float32), np.float32(np.inf), np.int32(3), np.True_)]

        def lowered(x):
            vector, matrix, empty, infinity, number, flag = held
            x = x * 0.5 + vector - matrix[1] / infinity + empty.sum()
            return j.numpy.where(flag, x * number, x)

        mlir.register_lowering(shifted, mlir.lower_fun(lowered, multiple_results=False))
        return j.lax.scan(lambda c, _: (j.numpy.tanh(shifted.bind(c)), c.sum()), j.numpy.asarray(V), length=5)

    agree(program, rtol=1e-5, atol=1e-6)
    assert not refused


WIDE = np.random.default_rng(1).standard_normal((37, 41)).astype(np.float32)  # which no step changes

# Of more rows than a vector has lanes, and not a multiple of them.
LARGER = {
    "inverse": lambda j, a: j.numpy.linalg.inv(a),
    "solve": lambda j, a: j.numpy.linalg.solve(a, a[:, :5]) @ a[:5],
    "solve for a vector": lambda j, a: a + j.numpy.linalg.solve(a, a[0]),
    "cholesky": lambda j, a: j.numpy.linalg.cholesky(a @ a.T),
    "cholesky, upper": lambda j, a: j.scipy.linalg.cholesky(a @ a.T),
    "one lower matrix for a batch": lambda j, a: j.vmap(lambda x: j.scipy.linalg.solve_triangular(a, x, lower=True))(a),
    "one upper matrix for a batch": lambda j, a: j.vmap(lambda x: j.scipy.linalg.solve_triangular(a, x))(a),
    "one cholesky for a batch": lambda j, a: j.vmap(lambda x: j.scipy.linalg.cho_solve((a, True), x))(a),
    "one lu for a batch": lambda j, a: j.vmap(lambda x: j.scipy.linalg.lu_solve(j.scipy.linalg.lu_factor(a), x))(a),
    "solve from the right": lambda j, a: j.lax.linalg.triangular_solve(a, a[:7], lower=True).T @ a[:7],
    "upper solve from the right": lambda j, a: j.lax.linalg.triangular_solve(a, a[:7], transpose_a=True).T @ a[:7],
    "qr": lambda j, a: j.numpy.linalg.qr(a)[1],
    "qr of a tall matrix": lambda j, a: j.numpy.linalg.qr(j.numpy.tile(a, (4, 1))[:, :9])[0][:37] @ a[:9],
    "all of a tall qr": lambda j, a: j.numpy.linalg.qr(a[:, :9], "complete")[1] @ a[:9],
    "factors": lambda j, a: sum(j.scipy.linalg.lu(a)),
    "determinant": lambda j, a: a * j.numpy.linalg.slogdet(a)[1],
    "products": lambda j, a: (a @ a[:, :19]) @ (a[:19, :5] @ a[:5]) + a @ a[0] + a[1] @ a,
    "products of a batch": lambda j, a: j.numpy.einsum("bij,bjk->bik", j.numpy.stack([a, a.T]), j.numpy.stack([a, a]))[1],
    "products of turned matrices": lambda j, a: (
        (j.numpy.tile(a, (3, 3)).T @ j.numpy.tile(a, (3, 1)))[:37] @ a[:, ::-1] / 9 + (a[:9].T @ a[:9]) @ WIDE.T[:37] + j.numpy.einsum("bij,bkj->bik", *[j.numpy.stack([a, a.T])] * 2)[1]
    ),
    "products of integers": lambda j, a: ((10 * a).astype("int32") @ (9 * a.T).astype("int32")).astype("float32"),
    "products of complex numbers": lambda j, a: (a.astype(j.numpy.complex64) @ a.T.astype(j.numpy.complex64)).real,
    "a tall product": lambda j, a: j.numpy.tile(a, (9, 1)).T @ j.numpy.tile(a, (9, 1)),
}  # fmt: skip


@pytest.mark.parametrize("name", LARGER)
def test_larger_matrices_in_a_loop(name, refused):
    noise = np.random.default_rng(0).standard_normal((37, 37)).astype(np.float32)

    def program(j):
        def step(a, x):
            found = LARGER[name](j, a)
            return a + x * found / (1 + j.numpy.abs(found).max()), a.sum()

        return j.lax.scan(step, j.numpy.asarray(noise + 9 * np.eye(37, dtype=np.float32)), np.ones(3, np.float32) * 0.1)

    agree(program, rtol=2e-4, atol=2e-4)
    assert not refused


DRAWS = {
    "normal": lambda j, k, x: j.random.normal(k, x.shape),
    "uniform": lambda j, k, x: j.random.uniform(k, x.shape, minval=-1, maxval=x),
    "integers": lambda j, k, x: j.random.randint(k, x.shape, 0, 7),
    "bernoulli": lambda j, k, x: j.random.bernoulli(k, 0.3, x.shape),
    "categorical": lambda j, k, x: j.random.categorical(k, x),
    "one choice": lambda j, k, x: j.random.choice(k, x),
    "a folded key": lambda j, k, x: j.random.exponential(j.random.fold_in(k, 3)),
    "split keys under vmap": lambda j, k, x: j.vmap(j.random.gumbel)(j.random.split(k, 4)),
    "words": lambda j, k, x: j.random.bits(k, x.shape) >> 8,
    "bytes and half words": lambda j, k, x: j.random.bits(k, x.shape, "uint8") * j.random.bits(k, x.shape, "uint16"),
    "an old key": lambda j, k, x: j.random.normal(j.random.PRNGKey(5), x.shape),
    "gamma": lambda j, k, x: j.random.gamma(k, abs(x) + 0.1),
    "logarithm of a gamma": lambda j, k, x: j.random.loggamma(k, 0.1),
    "beta": lambda j, k, x: j.random.beta(k, 2.0, 3.0),
    "dirichlet": lambda j, k, x: j.random.dirichlet(k, abs(x) + 0.5),
    "student's t": lambda j, k, x: j.random.t(k, 3.0),
    "poisson": lambda j, k, x: j.random.poisson(k, np.array([0.5, 3.0, 9.0, 30.0], np.float32)),
    "binomial": lambda j, k, x: j.random.binomial(k, np.array([5.0, 9.0, 40.0, 100.0], np.float32), 0.3),
    "a permutation": lambda j, k, x: j.random.permutation(k, x),
    "a choice without replacement": lambda j, k, x: j.random.choice(k, 10, (4,), replace=False),
    "truncated": lambda j, k, x: j.random.truncated_normal(k, -1.0, abs(x)),
    "several normals": lambda j, k, x: j.random.multivariate_normal(k, x, np.eye(4, dtype=np.float32) + 0.5),
    "pareto": lambda j, k, x: j.random.pareto(k, 2.0),
    "gamma under vmap": lambda j, k, x: j.vmap(lambda k, a: j.random.gamma(k, a))(j.random.split(k, 4), abs(x) + 0.1),
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS.keys())
def test_draws_in_a_loop(draw, refused):
    def chain(j):
        def step(carry, _):
            key, x = carry
            key, own = j.random.split(key)
            x = x * 0.5 + draw(j, own, x)
            return (key, x), x

        def run(key, x):
            (key, x), xs = j.lax.scan(step, (key, x), None, length=5)
            return j.random.key_data(key), x, xs

        return run

    start = np.arange(4, dtype=np.float32)
    agree(lambda j: chain(j)(j.random.key(3), start))
    assert "threefry(" in source_of(chain(jaxish), jaxish.random.key(3), start)


def source_of(function, *args):
    return _source(function, *args).text


def _source(function, *args):
    scan = _scan_in(jaxish.jit(function), *args)
    return loop_sources.scan_source(scan.body, scan.consts, scan.carries)


def test_bodies_are_as_long_as_what_they_compute():
    def several(j):
        def step(carry, _):
            key, x = carry
            for _ in range(20):
                key, own = j.random.split(key)
                x = x * 0.5 + j.random.normal(own, (3,))
            return (key, x), x

        return lambda key, x: j.lax.scan(step, (key, x), None, length=4)[1]

    start = np.ones(3, np.float32)
    scan = _scan_in(jaxish.jit(several(jaxish)), jaxish.random.key(3), start)
    nodes = loop_emitter.spelled_out(scan.body).module.graph.nodes
    assert len(nodes) > loop_emitter._MOST_IN_BODY  # constants, views and parts among them
    assert "threefry(" in source_of(several(jaxish), jaxish.random.key(3), start)
    agree(lambda j: several(j)(j.random.key(3), start))


def test_a_body_of_thousands_of_operations_is_one_function():
    def program(x):
        def step(x, _):
            for i in range(700):
                x = jaxish.numpy.sin(x * (i + 1)) + 1
            return x, x.sum()

        return jaxish.lax.scan(step, x, None, length=4)

    assert len(re.findall(r"\bsin\w*\(", source_of(program, np.ones(3, np.float32)))) >= 700


@pytest.mark.parametrize("size", [67, 7])
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.complex64])
def test_statements_that_are_repeated_are_written_out_once(dtype, size, monkeypatch):
    monkeypatch.setattr(loop_repeats, "_LEAST_OF_FEW", 1_000)

    def program(j):
        def step(x, y):
            for i in range(60):
                found = j.numpy.where(x.real > y.real, x * y - 1, x + j.numpy.roll(x, 1 + i % 2) * y)
                x = found // 2 if dtype is np.int32 else found / 2
            return x, x

        return lambda x, ys: j.lax.scan(step, x, ys)

    rng = np.random.default_rng(5)
    x, ys = rng.integers(-2, 2, (size,)).astype(dtype), rng.integers(-2, 2, (3, size)).astype(dtype)
    source = source_of(program(jaxish), x, ys)
    assert len(re.findall(r"(?m)^ *repeated_\d+\(", source)) > 4 * source.count("const auto repeated_") > 0
    agree(lambda j: program(j)(x, ys), rtol=1e-4)


def test_folds_that_are_repeated_are_written_out_once(monkeypatch):
    monkeypatch.setattr(loop_repeats, "_LEAST_REPEATED", 1_000)
    corners = [np.array([c >> d & 1 for d in range(3)], np.int32) for c in range(8)]

    def program(j):
        def step(x, y):
            weights = j.numpy.stack([j.numpy.where(corner == 1, x * y, 1 - x).prod(-1) for corner in corners])
            return x * 0.5 + weights.sum(0)[:, None] * 0.1, weights

        return lambda x, ys: j.lax.scan(step, x, ys)

    rng = np.random.default_rng(6)
    x, ys = rng.normal(size=(70, 3)).astype(np.float32), rng.normal(size=(4, 70, 3)).astype(np.float32)
    source = source_of(program(jaxish), x, ys)
    assert re.search(r"const auto repeated_\d+ = .*folded<", source)
    agree(lambda j: program(j)(x, ys), rtol=1e-4, atol=1e-5)


def test_mapped_choices_are_part_of_a_loop():
    def program(j):
        def chosen(key, odds):
            return j.random.choice(key, j.numpy.arange(4) * 2, p=odds)

        def step(total, key):
            found = j.vmap(chosen, (0, None))(j.random.split(key, 6), j.numpy.array([0.1, 0.2, 0.3, 0.4]))
            found += j.vmap(chosen)(j.random.split(key, 6), j.random.dirichlet(key, j.numpy.ones(4), (6,)))
            return total + found, found

        return lambda key: j.lax.scan(step, j.numpy.zeros(6, int), j.random.split(key, 5))

    source_of(program(jaxish), jaxish.random.key(3))
    agree(lambda j: program(j)(j.random.key(3)))


SAME_IN_ALL_STEPS = {
    "a transposed matrix": lambda j, a, c: j.lax.scan(lambda c, _: (j.numpy.tanh(c @ a.T), c), c, None, length=5),
    "no step": lambda j, a, c: j.lax.scan(lambda c, _: (j.numpy.tanh(c @ a.T), c), c, None, length=0),
    "functions of a matrix": lambda j, a, c: j.lax.scan(
        lambda c, x: (c * 0.5 + x @ j.numpy.exp(a)[::-1] + j.numpy.sin(a[0, 0]), j.numpy.exp(a).sum()), c, a
    ),
    "in a loop within, where steps around it change it": lambda j, a, c: j.lax.scan(
        lambda b, x: (j.lax.fori_loop(0, 3, lambda i, d: j.numpy.tanh(d @ b.T) * 0.9 + i, b) + x, b[0]), a * 0.1, a
    ),
    "in a while loop within": lambda j, a, c: j.lax.scan(
        lambda b, x: (
            j.lax.while_loop(lambda s: s[0] < x[0] + 3, lambda s: (s[0] + 1, s[1] @ b.T / 9), (0.0, b))[1] + x, b[0],
        ), a * 0.1, a,
    ),
    "sums of one element": lambda j, a, c: j.lax.scan(
        lambda c, x: (c * 0.5 + j.numpy.exp(a[:1, 0]).sum() + j.numpy.sin(a[:1, :1]).max(1)[0], c), c, None, length=5
    ),
    "in one branch": lambda j, a, c: j.lax.scan(
        lambda c, x: (j.lax.cond(x[0] > 0, lambda c: c @ a.T / 9, lambda c: c + a[1], c), c), c, a
    ),
    "the gradient of a recurrent network": lambda j, a, c: j.grad(
        lambda a: j.lax.scan(lambda c, x: (j.numpy.tanh(c @ a / 9 + x), c.sum()), c, a)[1].sum()
    )(a),
}  # fmt: skip


@pytest.mark.parametrize("name", SAME_IN_ALL_STEPS)
def test_what_is_the_same_in_all_steps(name, refused):
    a = np.random.default_rng(0).normal(size=(21, 21)).astype(np.float32)
    agree(
        lambda j: j.jit(lambda a, c: SAME_IN_ALL_STEPS[name](j, a, c))(
            a, a[0] if "gradient" in name or "functions" in name else a[:9]
        ),
        rtol=1e-4,
        atol=1e-5,
    )
    assert not refused


def test_what_is_the_same_in_all_steps_is_made_before_them():
    a = np.ones((21, 21), np.float32)
    text = source_of(
        lambda c: jaxish.lax.scan(lambda c, _: (c @ jaxish.numpy.asarray(a).T, None), c, None, length=3), a
    )
    before, steps = text[text.index("void loop") :].split("for (int64_t n = 0; n < length; ++n)")
    assert re.search(r"\bc0\[", before) and not re.search(r"\bc0\[", steps)


def loops_that_stack(j, a, c, d):
    e, forth = j.lax.scan(lambda e, i: (e * 0.9 + d * i, (e, e.sum(), d)), c, j.numpy.arange(3.0))
    f, back = j.lax.scan(lambda e, x: (j.numpy.sin(e) + x, (e, x * 2)), c[0], d, reverse=True)
    return (e, d + f), (forth, back)


STACKED = {
    "the new carry, twice, and the old one": lambda j, a, c, d: ((n := j.numpy.tanh(c * a), d * 0.5), (n, c, n, d + c[::-1])),
    "carries that change places": lambda j, a, c, d: ((d, c), (d, c, c + d)),
    "a carry that stays, and constants": lambda j, a, c, d: ((c, d + c), (c, j.numpy.exp(a), a.sum(), 3)),
    "a carry in which elements are set": lambda j, a, c, d: ((c.at[2].set(d[0]), d * a), (c, c.at[2].set(d[0]), c[2])),
    "one in which they are set in both": lambda j, a, c, d: ((n := c.at[1].add(d[1]), n.at[0].set(a[0])), (n, d[:1])),
    "what loops within stack": loops_that_stack,
}  # fmt: skip


@pytest.mark.parametrize("size", [(5,), (150, 70)])
@pytest.mark.parametrize("name", STACKED)
def test_what_a_scan_stacks(name, size, refused):
    a, c, d = np.random.default_rng(2).uniform(-1, 1, (3, *size)).astype(np.float32)
    agree(
        lambda j: j.jit(lambda a, c, d: j.lax.scan(lambda cd, _: STACKED[name](j, a, *cd), (c, d), None, length=4))(
            a, c, d
        ),
        rtol=1e-4,
        atol=1e-5,
    )
    assert not refused


def test_what_is_stacked_is_computed_once_and_in_place():
    x = np.ones((200, 100), np.float32)
    text = source_of(lambda c: jaxish.lax.scan(lambda c, _: ((n := jaxish.numpy.tanh(c), n)), c, None, length=3), x)
    steps = text[text.index("void loop") :]
    assert steps.count("tanh_") == 1 and "memory" not in steps


def test_a_large_body_is_in_blocks_or_left_to_kernels():
    def scanned(step, size):
        x = np.ones((size, size), np.float32)
        return source_of(lambda c: jaxish.lax.scan(lambda c, _: (step(c), None), c, None, length=3), x)

    assert "for (int block" in scanned(jaxish.numpy.sin, 700)
    with pytest.raises(loop_values.Unsupported, match="along rows"):
        scanned(lambda c: jaxish.numpy.sin(c.T), 700)
    with pytest.raises(loop_values.Unsupported, match="large"):
        scanned(jaxish.numpy.sin, 2100)


def test_a_loop_is_compiled_once_for_its_text():
    def loop(c):
        return jaxish.lax.scan(lambda c, _: (c * 3 + 1, c), c, None, length=3)

    first, second = source_of(loop, 1.0), source_of(loop, 2.0)
    assert first == second
    assert loop_compiler.compile_source(first) is loop_compiler.compile_source(second)


def test_one_body_serves_loops_with_different_predicates():
    def body(c):
        return c * 2

    # Fresh predicates come and go: one must not be taken for another that lived at its address.
    agree(lambda j: [j.lax.while_loop(lambda c, n=n: c < n, body, 1) for n in (10, 100, 1000, 10_000, 30, 5)])


def _logistic(j, c, x):
    """A number of steps that depends on the value."""
    return j.lax.while_loop(
        lambda s: (s[0] < 1) & (s[1] < 20), lambda s: (s[0] * 1.3 + 0.01, s[1] + 1), (abs(c) + x, 0)
    )


NESTED = {
    "while in scan": lambda j, c, x: (_logistic(j, c[0], x)[0] * c * 0.5, _logistic(j, c[1], x)),
    "scan in scan": lambda j, c, x: j.lax.scan(lambda a, b: (a * b + x, (a[0], b)), c * 0.1, j.numpy.linspace(0.1, 1, 5)),
    "reversed scan of rows": lambda j, c, x: j.lax.scan(lambda a, r: (a @ M * 0.5 + r, a), c, x * M, reverse=True),
    "empty scan": lambda j, c, x: j.lax.scan(lambda a, _: (a * 2, a), c, None, length=0),
    "cond": lambda j, c, x: (j.lax.cond(c[0] > x, lambda c: c * 0.5, lambda c: c + 0.2, c), c.sum()),
    "switch": lambda j, c, x: (
        j.lax.switch(
            j.numpy.int32(c[0] * 4), [lambda c: c + 1, lambda c: j.numpy.sin(c), lambda c: c[::-1] * 0.3], c
        ),
        x,
    ),
    "cond in while in scan": lambda j, c, x: (
        j.lax.while_loop(
            lambda s: s[1] < 7,
            lambda s: (j.lax.cond(s[0].sum() > 1, lambda a: a * 0.5, lambda a: a + x, s[0]), s[1] + 1), (c, 0),
        )[0],
        x,
    ),
    "scan in cond": lambda j, c, x: (
        j.lax.cond(c[1] > 0, lambda c: j.lax.fori_loop(0, 3, lambda i, a: a * 0.5 + i, c), lambda c: -c, c), c[::-1],
    ),
    "exchanged": lambda j, c, x: (
        j.numpy.stack(j.lax.fori_loop(0, 3, lambda i, s: (s[1], s[2], s[0] + x), (c[0], c[1], c[2]))), x,
    ),
    "carried flag": lambda j, c, x: (
        j.lax.while_loop(lambda s: ~s[1], lambda s: (s[0] * 0.5, s[0].max() < 0.1), (abs(c), False))[0], x,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NESTED)
def test_loops_and_branches_within_a_loop(name, refused):
    def program(j):
        step = lambda c, x: NESTED[name](j, c, x)
        xs = np.linspace(0.1, 0.7, 4).astype("float32")
        run = j.jit(lambda c: j.lax.scan(step, c, xs))
        return run(V), j.vmap(run)(np.stack([V, 0.5 * V, -V]))

    agree(program)
    assert not refused


@pytest.mark.parametrize(
    "name", ["scan in scan", "reversed scan of rows", "cond", "switch", "scan in cond", "exchanged"]
)
def test_derivatives_of_loops_within_a_loop(name):
    def program(j):
        xs = np.linspace(0.1, 0.7, 4).astype("float32")
        run = lambda c: j.lax.scan(lambda c, x: NESTED[name](j, c, x), c, xs)
        loss = lambda c: (run(c)[0] ** 2).sum()
        return j.jit(j.grad(loss))(V), j.jit(j.jvp, static_argnums=0)(loss, (V,), (V,))

    agree(program)


# ------------------------------------------------------------------------------ loops that become native on their way


@pytest.fixture
def switching(monkeypatch):
    """Run a test on the default tier, where each loop becomes native before its fourth step; count those that do."""
    switched = []

    def ask(self):
        self.asked = getattr(self, "asked", 0) + 1
        if self.asked < 4:
            return None
        found = self._body.cache[self._entry]
        if isinstance(found, native_loop.Awaited):
            found = self._body.cache[self._entry] = found.settled(self._source)
        self.is_over = found is None
        switched.extend([found] * (not self.is_over))
        return found

    monkeypatch.setattr(native_loop.Upcoming, "__call__", ask)
    with config.jit_tier("auto"):
        yield switched


def _ball(j, c, x):
    return (c[0] + 0.1 * c[1], c[1] * 0.9 - 0.1 * j.numpy.sin(c[0]) + x), {"sum": c[0] + c[1], "x": x * 2}


XS = np.linspace(-1, 1, 30, dtype=np.float32).reshape(10, 3)
SWITCHING = {
    "scan": lambda j: j.lax.scan(lambda c, x: _ball(j, c, x), (V, V), XS),
    "reversed scan": lambda j: j.lax.scan(lambda c, x: _ball(j, c, x), (V, V), XS, reverse=True),
    "unrolled scan": lambda j: j.lax.scan(lambda c, x: _ball(j, c, x), (V, V), np.tile(XS, (2, 1)), unroll=3),
    "unrolled scan, reversed": lambda j: j.lax.scan(
        lambda c, x: _ball(j, c, x), (V, V), np.tile(XS, (2, 1)), unroll=3, reverse=True
    ),
    "columns": lambda j: j.lax.scan(lambda c, x: _ball(j, c, x), (V, V), j.numpy.asarray(np.tile(XS, 4)).T[:, :3]),
    "fori": lambda j: j.lax.fori_loop(0, 10, lambda i, c: _ball(j, c, i * 0.1)[0], (V, V)),
    "fori with bounds that are not static": lambda j: j.jit(
        lambda n: j.lax.fori_loop(0, n, lambda i, c: _ball(j, c, i * 0.1)[0], (V, V))
    )(10),
    "while": lambda j: j.lax.while_loop(lambda c: c[0] < 100, lambda c: (c[0] + c[1], c[1] + 1, c[2] * 0.5), (0, 1, V)),
    "captured": lambda j: j.jit(lambda w: j.lax.scan(lambda c, x: (w @ c + x, c), V, XS))(M),
    "vmap": lambda j: j.vmap(lambda v: j.lax.scan(lambda c, x: _ball(j, c, x), (v, v), XS))(M),
    "vmap of while": lambda j: j.vmap(lambda v: j.lax.while_loop(lambda c: c < 5, lambda c: c * 1.1 + 0.1, v))(V),
    "grad": lambda j: j.jit(j.grad(lambda v: j.lax.scan(lambda c, x: _ball(j, c, x), (v, v), XS)[1]["sum"].sum()))(V),
    "grad of elements": lambda j: j.lax.fori_loop(
        0, 10, lambda _, v: v - 0.1 * j.grad(lambda v: v[0] ** 2 + (v[1:] * v[-1]).sum() + v[::2].sum() * v[1])(v), V
    ),
    "jvp": lambda j: j.jvp(lambda v: j.lax.fori_loop(0, 10, lambda i, c: _ball(j, c, 0.1)[0], (v, v)), (V,), (V,)),
    "loop in loop": lambda j: j.lax.scan(
        lambda c, x: (j.lax.fori_loop(0, 8, lambda i, s: _ball(j, s, x)[0], c), c[0]), (V, V), XS
    ),
    "no results": lambda j: j.lax.scan(lambda c, _: (c + 1, None), 0, None, length=10),
    "integers that wrap around": lambda j: j.lax.fori_loop(0, 20, lambda i, c: c * 1103515245 + 12345 + i, np.int32(1)),
}


@pytest.mark.parametrize("program", SWITCHING.values(), ids=SWITCHING.keys())
def test_a_loop_that_has_begun_step_by_step_goes_on_natively(switching, program):
    agree(program, atol=1e-5, rtol=1e-5)
    assert switching


@pytest.mark.parametrize("name", ["scan", "reversed scan", "while", "loop in loop"])
def test_a_loop_that_is_on_disk_may_be_native_before_its_first_step(monkeypatch, name):
    agree(SWITCHING[name], atol=1e-5, rtol=1e-5)
    monkeypatch.setattr(native_loop, "_PATIENCE", 0)
    with config.jit_tier("auto"):
        agree(SWITCHING[name], atol=1e-5, rtol=1e-5)


def test_a_loop_that_writes_a_reference_goes_on_natively(switching):
    def program(j):
        total = j.new_ref(j.numpy.zeros(3))

        @j.jit
        def run(x):
            def step(i, c):
                total[...] = total[...] + c
                return c * 0.5 + i

            return j.lax.fori_loop(0, 10, step, x)

        return run(V), total[...]

    agree(program)
    assert switching


def _with_callback(j):
    seen = []
    experimental = importlib.import_module(f"{j.__name__}.experimental")

    def step(i, c):
        experimental.io_callback(lambda n: seen.append(int(n)), None, i, ordered=True)
        return c + i

    run = j.jit(lambda x: j.lax.fori_loop(0, 10, step, x))
    found = [run(1), run(2)]
    j.effects_barrier()
    return found, seen


def test_a_loop_with_an_effect_runs_step_by_step():
    agree(_with_callback)


def test_a_loop_with_an_effect_stays_step_by_step(switching):
    agree(_with_callback)
    assert not switching


def test_a_long_loop_becomes_native_in_its_first_call():
    length = 3_000_000  # a minute, step by step
    loop = jaxish.jit(lambda c: jaxish.lax.fori_loop(0, length, lambda i, c: c * 1103515245 + 12345 + i, c))
    real = jax.jit(lambda c: jax.lax.fori_loop(0, length, lambda i, c: c * 1103515245 + 12345 + i, c))
    with config.jit_tier("auto"):
        scan = _scan_in(loop, np.int32(1))
        found = int(loop(np.int32(1)))
    assert isinstance(scan.body.cache["native loop", (scan.consts, scan.carries)], native_loop.Loop)
    assert found == int(real(np.int32(1)))


def test_short_loops_that_run_once_compile_nothing(monkeypatch):
    monkeypatch.setattr(native_loop, "_PATIENCE", 1e9)
    monkeypatch.setattr(loop_compiler, "begun", lambda *_: pytest.fail("a loop was compiled"))
    monkeypatch.setattr(background.Compiler, "submit", lambda self, executable: pytest.fail("a body was compiled"))
    with config.jit_tier("auto"):
        for factor in range(5):
            agree(lambda j, factor=factor: j.jit(lambda c: j.lax.fori_loop(0, 9, lambda i, c: c * factor + i, c))(1.0))
            agree(lambda j, factor=factor: j.lax.while_loop(lambda c: c < 9, lambda c: c + 0.5 + factor, 1.0))


def test_a_loop_that_the_compiler_refuses_goes_on_step_by_step(monkeypatch, caplog):
    monkeypatch.setattr(native_loop, "_PATIENCE", 0)
    monkeypatch.setattr(native_loop, "_PAUSE", 0)
    monkeypatch.setattr(loop_compiler, "extra_flags", ["-no-such-flag"])
    with config.jit_tier("auto"):
        agree(lambda j: j.lax.fori_loop(0, 20_000, lambda i, c: (c * 5 + i) % 1013, 1))
    assert "step by step" in caplog.text


def test_a_compiler_that_nobody_waits_for_is_ended(monkeypatch, tmp_path):
    monkeypatch.setenv(
        "TMPDIR", str(tmp_path)
    )  # where compilers write by default, and what they leave when they are killed
    source = source_of(lambda c: jaxish.lax.scan(lambda c, _: (c * 0.123 + 4567, c), c, None, length=3), 1.0)
    build = loop_compiler.begun(source + "// compiled by nobody yet\n" + f"// {np.random.rand()}")
    assert isinstance(build, loop_compiler.Build)
    process, folder = build._process._running[0], build._process.folder
    while (
        process.poll() is None and len(list(folder.iterdir())) <= 2
    ):  # until it writes more than the source and what it says
        time.sleep(0.002)
    del build
    gc.collect()
    assert process.returncode is not None and not folder.exists() and not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["scan", "reversed scan", "columns", "fori", "while", "vmap of while", "no results"])
def test_native_loops_run_in_parts(monkeypatch, name):
    monkeypatch.setattr(loop_sources, "_at_once", lambda *emitters: 1)
    monkeypatch.setattr(native_loop, "_next_count", lambda count, seconds: 3)
    agree(SWITCHING[name], atol=1e-5, rtol=1e-5)


def test_a_native_loop_that_never_ends_can_be_interrupted():
    program = """
import signal, jaxish
signal.signal(signal.SIGALRM, signal.default_int_handler)
endless = jaxish.jit(lambda x, n: jaxish.lax.while_loop(lambda c: c[0] < n, lambda c: (c[0], c[1] + 1), (x, 0)))
endless(1, 0)
signal.setitimer(signal.ITIMER_REAL, 0.5)
try:
    endless(1, 2)
except KeyboardInterrupt:
    print("interrupted")
"""
    environment = {**os.environ, "JAXISH_JIT_TIER": "compiled"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=200)
    assert (done.stdout, done.stderr) == ("interrupted\n", "")


W, ROWS = np.arange(12, dtype=np.float32) * 0.5 + 1, np.arange(12, dtype=np.float32).reshape(4, 3) + 1
CUBE = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
PLACES = np.array([0, 2, 5])  # some of them in no array


# Loops over an index: the step, and what it starts with. They are to set elements where they lie.
INDEXED = {
    "set": (lambda j, i, x: x.at[i].set(x[i - 1] * 0.5 + i), W),
    "set twice": (lambda j, i, x: x.at[i].set(x[i + 1] + 1).at[i + 1].add(x[i]), W),
    "exchange": (lambda j, i, x: x.at[i].set(x[i + 1]).at[i + 1].set(x[i]), W),
    "add": (lambda j, i, x: x.at[i % 5].add(x[i]), W),
    "a row": (lambda j, i, x: x.at[i].set(x[i - 1] * 2 + 1), ROWS),
    "a column": (lambda j, i, x: x.at[:, i].set(x[:, i - 1] * 2 + 1), ROWS),
    "an element": (lambda j, i, x: x.at[i, i].set(x[i - 1, i] + x[i, i - 1]), ROWS),
    "an element of a slice": (lambda j, i, x: x.at[i % 2, 1, i].add(x[0, i - 1, i]), CUBE),
    "an element of the transpose": (lambda j, i, x: x.T.at[i].set(9.0 * i).T, ROWS),
    "reversed": (lambda j, i, x: x[::-1].at[i].set(9.0)[::-1], W),
    "a factor": (lambda j, i, x: x.at[i].multiply(3.0), W),
    "several": (lambda j, i, x: x.at[j.numpy.array([0, 3, 7]) + i].set(x[j.numpy.array([1, 2, 3]) * i]), W),
    "several sums": (lambda j, i, x: x.at[j.numpy.array([0, 3, 3]) + i].add(x[j.numpy.array([1, 2, 3]) * i]), W),
    "a window": (lambda j, i, x: j.lax.dynamic_update_slice(x, x[:2] * i, (i,)), W),
    "a window in two dimensions": (lambda j, i, x: j.lax.dynamic_update_slice(x, x[:2, :1] * i + 1, (i, i)), ROWS),
    "two carries": (lambda j, i, c: (c[0].at[i].set(c[1][i + 1]), c[1].at[i].set(c[0][i])), (W, 3 * W)),
    "carries exchanged": (lambda j, i, c: (c[1], c[0].at[i].set(7.0)), (W, 2 * W)),
    "a carry that stays": (lambda j, i, c: (c[0], c[1] + c[0][i]), (W, np.float32(0))),
    "read after it was set": (
        lambda j, i, c: (lambda y: (y, c[1] * 0.5 + y[i] + y.sum()))(c[0].at[i].set(c[1])), (W, np.float32(0)),
    ),
    "several, and what was": (
        lambda j, i, c: (c[0].at[j.numpy.array([0, 3, 7]) + i].set(1.0 * i), c[0] * 0.5 + c[1] * 0.1), (W, 2 * W),
    ),
    "a place in each row": (
        lambda j, i, x: j.numpy.put_along_axis(x, (j.numpy.arange(4)[:, None] + i) % 3, x[:, :1] + i, 1, inplace=False), ROWS,
    ),
    "a loop within": (
        lambda j, i, x: j.lax.fori_loop(0, i % 3 + 1, lambda k, x: x.at[k].set(x[i % 4] + k), x), W,
    ),
    "a loop of rows within": (
        lambda j, i, x: j.lax.scan(lambda c, r: (c.at[i].add(r), c[0]), x, np.ones((2, 3), np.float32))[0], ROWS,
    ),
    "a branch within": (lambda j, i, x: j.lax.cond(x[i] > 3, lambda x: x.at[i].set(0.0), lambda x: x, x), W),
    "a branch that keeps what was": (
        lambda j, i, c: j.lax.cond(
            c[0][i] > 3, lambda x, y: (x.at[i].set(0.0), x), lambda x, y: (x, y.at[i].add(x[i - 1])), *c
        ), (W, 2 * W),
    ),
    "a branch that exchanges": (
        lambda j, i, c: j.lax.cond(c[0][i] > 3, lambda x, y: (y.at[i].set(0.0), x), lambda x, y: (x, y), *c), (W, 2 * W),
    ),
    "a branch of all of it": (
        lambda j, i, x: j.lax.cond(i % 2 == 0, lambda x: x.at[i].set(x[i - 1] + x.sum()), lambda x: x * 0.5, x), W,
    ),
    "branches without a question of it": (
        lambda j, i, x: j.lax.switch(
            i % 3, [lambda x: x.at[i].set(x[i - 1] + 1), lambda x: x.at[i + 1].add(x[0]), lambda x: x], x
        ), W,
    ),
    "loops within, exchanged": (
        lambda j, i, c: (c[1], j.lax.fori_loop(0, 2, lambda k, x: x.at[k].set(x[i % 4] + k), c[0])), (W, 2 * W),
    ),
    "two loops within": (
        lambda j, i, x: j.lax.fori_loop(
            0, 2, lambda k, x: x.at[k + 1].set(x[k]), j.lax.fori_loop(0, i % 3, lambda k, x: x.at[k].add(x[i % 4]), x)
        ), W,
    ),
    "a loop within, and what was": (
        lambda j, i, c: (j.lax.fori_loop(0, 2, lambda k, x: x.at[k].set(x[i % 4] + k), c[0]), c[0] + c[1] * 0.1), (W, 2 * W),
    ),
    "a loop within after it was set": (
        lambda j, i, x: j.lax.fori_loop(0, 2, lambda k, x: x.at[k].set(x[i % 4] + k), x.at[i].set(3.0)), W,
    ),
    "a while loop within": (
        lambda j, i, x: j.lax.while_loop(
            lambda c: (c[0] < 4) & (c[1][c[0]] < 9), lambda c: (c[0] + 1, c[1].at[c[0]].add(c[1][c[0] + 1])), (i % 3, x)
        )[1], W,
    ),
    "an index that is carried": (lambda j, i, x: x.at[x[i] % 8].set(x[i] + i), np.arange(8, dtype=np.int32)),
    "flags": (lambda j, i, x: x.at[(i * i) % 8].set(~x[i]), np.zeros(8, bool)),
    "where a test holds": (lambda j, i, x: j.numpy.where(i % 3 == 0, x.at[i].set(x[i - 1] + 1), x), W),
    "unless a test holds": (lambda j, i, x: j.numpy.where(x[i] > 3, x, x.at[i].add(x[0] + 2)), W),
    "where its own test holds": (lambda j, i, x: j.numpy.where(x > i, x.at[PLACES + i].set(0.5), x), W),
    "where tests of rows hold": (
        lambda j, i, x: j.numpy.where(x[:, :1] > i, x.at[PLACES - i].set(x[0] * i), x), ROWS,
    ),
    "where two tests hold": (
        lambda j, i, x: j.numpy.where(x[3] > i, j.numpy.where(x > 2, x.at[PLACES + i].add(1.0 * i), x), x), W,
    ),
    "a window, where a test holds": (
        lambda j, i, x: j.numpy.where(i % 2 == 0, j.lax.dynamic_update_slice(x, x[:2] * i, (i,)), x), W,
    ),
    "exchanged, where a test holds": (
        lambda j, i, c: (j.numpy.where(i % 2 == 0, c[0].at[i].set(c[1][0]), c[0]), j.numpy.where(c[0] > i, c[1], c[1].at[i].set(c[0][i]))),
        (W, 2 * W),
    ),
}  # fmt: skip


# Loops over an index that read in the same step what several elements were set in: a copy.
COPIED = {
    "several, read after they were set": (
        lambda j, i, x: (lambda y: y.at[0].add(0.1 * y.sum()))(x.at[j.numpy.array([0, 3, 7]) + i].set(x[:3] + i)), W,
    ),
    "several, then one, read": (
        lambda j, i, c: (lambda y: (y.at[i].set(0.5), c[1] + y[i - 1]))(c[0].at[j.numpy.array([1, 1, 7]) + i].add(0.3 * i)),
        (W, np.float32(0)),
    ),
    "one, then several, read": (
        lambda j, i, c: (lambda y: (y, c[1] + y[3] - c[0][3]))(c[0].at[3].set(c[1]).at[j.numpy.array([3, 5]) - i].mul(0.5)),
        (W, np.float32(0)),
    ),
    "several of one carry, given out by another": (
        lambda j, i, c: (lambda y: (y, y))(c[0].at[j.numpy.array([0, 3, 7]) + i].set(c[1][:3] + i)), (W, 2 * W),
    ),
    "several of one carry, chosen in another": (
        lambda j, i, c: (lambda y: (j.numpy.where(i % 3 == 0, y, c[1]), j.numpy.where(i % 2 == 0, y, c[0])))(
            c[0].at[PLACES + i].set(c[1][:3] + i)
        ), (W, 2 * W),
    ),
    "several, turned and chosen": (
        lambda j, i, x: j.numpy.where(i % 2 == 0, x.at[PLACES + i].set(x[:3] + i)[::-1], x), W,
    ),
    "several of a square, transposed and chosen": (
        lambda j, i, x: j.numpy.where(i % 2 == 0, x.at[PLACES + i].set(x[0] + i).T, x), W[:9].reshape(3, 3),
    ),
    "several times": (
        lambda j, i, x: x[:, ::-1] * 0.5
        + (x + i).at[PLACES + i, PLACES - i].set(2.0).at[PLACES - i, 1].add(0.5 * i).at[:, PLACES + i].mul(3.0).at[i, 2].set(x[0, 0]),
        ROWS,
    ),
    "several times, and seen between": (
        lambda j, i, x: (lambda y: y.at[PLACES + i, 1].add(x[0, 0]) - 0.5 * y)((x * 0.5).at[PLACES - i, 0].set(x[1, 1] + i)), ROWS,
    ),
    "several times, by what is there": (
        lambda j, i, x: (lambda y: x * 0.3 + y.at[PLACES - i, 1].set(y[PLACES, 0]))((x * 0.5).at[PLACES + i, 0].set(x[1, 1])), ROWS,
    ),
    "several times, in parts and turned": (
        lambda j, i, x: 0.5 * x
        + (x * 2).at[PLACES + i].set(i).reshape(3, 4).at[PLACES - i, 1].set(x[0, 0]).T.at[PLACES, 1].add(2.0).reshape(4, 3),
        ROWS,
    ),
    "several times, in rows of a part": (
        lambda j, i, x: j.numpy.concatenate([(x * 2).at[PLACES + i, 0].set(i)[:2].at[PLACES - i, 1].set(3.0), x[2:] * 0.5]), ROWS,
    ),
}  # fmt: skip


def loops_over_an_index(loop, step, start):
    """Return a program: a loop of a kind over such a step."""

    def program(j):
        run = lambda x: j.lax.fori_loop(-5, 15, lambda i, x: step(j, i, x), x)
        first = j.tree.map(j.numpy.asarray, start)
        if loop == "scan":
            return j.jit(lambda x: j.lax.scan(lambda c, i: (step(j, i, c), c), x, j.numpy.arange(-5, 15)))(first)
        if loop == "while":
            body = lambda c: (c[0] + 1, step(j, c[0], c[1]))
            return j.jit(lambda x: j.lax.while_loop(lambda c: c[0] < 15, body, (-5, x)))(first)
        if loop == "lanes":
            lane = lambda end, x: j.lax.while_loop(
                lambda c: c[0] < end, lambda c: (c[0] + 1, step(j, c[0], c[1])), (-5, x)
            )
            lanes = j.tree.map(lambda x: j.numpy.stack([x, 2 * x, x]), first)
            return j.jit(j.vmap(lane))(np.array([7, -5, 15]), lanes)
        if loop == "vmap":
            return j.jit(j.vmap(run))(j.tree.map(lambda x: j.numpy.stack([x, x[::-1] if x.ndim else x]), first))
        if loop == "grad" and all(np.issubdtype(v.dtype, np.inexact) for v in j.tree.leaves(start)):
            return j.jit(j.grad(lambda x: sum(v.sum() for v in j.tree.leaves(run(x)))))(first)
        return j.jit(run)(first)

    return program


@pytest.mark.parametrize("loop", ["fori", "scan", "while", "lanes", "vmap", "grad"])
@pytest.mark.parametrize("name", INDEXED)
def test_elements_are_set_where_they_lie(name, loop, monkeypatch):
    refused = []
    monkeypatch.setattr(loop_values.Unsupported, "__init__", lambda self, *reasons: refused.extend(reasons))
    agree(loops_over_an_index(loop, *INDEXED[name]), rtol=1e-5)
    assert loop in ("lanes", "vmap", "grad") or not refused


def test_lanes_of_a_loop_that_are_done_keep_what_they_have_where_it_lies(monkeypatch):
    kept, texts = loop_compiler.kept, []
    monkeypatch.setattr(loop_compiler, "kept", lambda text: texts.append(text) or kept(text))

    def program(j):
        step = lambda c: (c[0] + 1, c[1].at[c[0]].set(c[1][c[0] - 1] + 1))
        lane = lambda end, x: j.lax.while_loop(lambda c: c[0] < end, step, (0, x))
        return j.jit(j.vmap(lane))(np.array([3, 900]), np.ones((2, 777), np.float32))

    agree(program)
    (loop,) = (text.partition("for (;;)")[2] for text in texts)
    assert loop and not re.search(r"< (777|1554); \+\+", loop)


@pytest.mark.parametrize("loop", ["fori", "scan", "while", "lanes", "vmap"])
@pytest.mark.parametrize("name", COPIED)
def test_what_several_elements_were_set_in_is_read_in_the_same_step(name, loop, refused):
    agree(loops_over_an_index(loop, *COPIED[name]), rtol=1e-5)
    assert not refused


def test_what_is_set_several_times_is_copied_once():
    def sets(count):
        def scan(x):
            def step(x, i):
                y = x * 0.5
                for n in range(count):
                    y = y.at[:, (PLACES + n) * i, PLACES + n].set(x[0, 0, n] * n)
                return y[:, ::-1], None

            return jaxish.lax.scan(step, x, np.arange(5))

        return source_of(scan, np.ones((20, 30, 9), np.float32))

    assert sets(8).count("memory.place") == sets(2).count("memory.place")


def test_exponentials_are_those_of_jax_to_the_last_bit():
    numbers = np.random.default_rng(0).uniform(-87.3, 90, (20, 101)).astype(np.float32)
    numbers[:, :9] = [np.nan, np.inf, -np.inf, 0.0, -0.0, 88.722, 88.73, -88.0, -1e30]

    def program(j):
        return j.jit(lambda x: j.lax.scan(lambda c, row: (c, (j.numpy.exp(row), j.numpy.exp(row[4:9]))), 0, x)[1])(
            numbers
        )

    agree(program, rtol=0, atol=0)


def test_lanes_that_are_done_keep_what_no_step_changes():
    def while_loop(j, x, i):
        step = lambda c: (c[0] + 1, c[1], c[2] + c[1][c[0]])
        return j.lax.while_loop(lambda c: c[0] < len(x), step, (i, x, 0.0))

    args = np.stack([W, W[::-1]]), np.array([3, 9])
    agree(lambda j: j.jit(j.vmap(lambda x, i: while_loop(j, x, i)))(*args), rtol=1e-5)
    traced = jaxish.make_jaxpr(jaxish.vmap(lambda x, i: while_loop(jaxish, x, i)))(*args)
    (loop,) = (e for e in traced.eqns if e.primitive.name == "while")
    body = loop.params["body_jaxpr"].jaxpr
    assert body.outvars[1] in body.invars


def test_elements_scattered_in_a_loop(refused):
    def program(j):
        def step(c, i):
            values, first = j.numpy.unique(c, size=4, return_inverse=True)
            return (c * 3 + i) % 5, (values, first)

        return j.jit(lambda x: j.lax.scan(step, x, np.arange(6, dtype=np.int32)))(np.array([3, 1, 3, 2], np.int32))

    agree(program)
    assert not refused


def test_a_large_array_is_no_obstacle_to_setting_an_element():
    text = source_of(
        lambda x: jaxish.lax.scan(lambda c, i: (c.at[i].set(i), c[i]), x, jaxish.numpy.arange(3)),
        np.ones(1_000_000, np.float32),
    )
    assert "< 1000000; ++i" not in text  # no loop over its elements


@pytest.mark.parametrize("size", [7, 40, 200])
def test_loops_over_neighbours(size):
    def program(j, x):
        np = j.numpy

        def step(i, u):
            u = u.at[1:-1, 1:-1].set(0.25 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]))
            u = u + 0.1 * (np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1) - 4 * u)
            around = np.pad(u, 1, mode="edge")  # GCC took an array on the stack for aligned that was not
            return u + 0.1 * (around[2:, 1:-1] + around[:-2, 1:-1] + around[1:-1, 2:] + around[1:-1, :-2] - 4 * u)

        return j.jit(lambda x: j.lax.fori_loop(0, 5, step, x))(x)

    agree(program, np.random.default_rng(0).random((size, size), np.float32))


def test_loops_are_cut_where_tests_change():
    text = source_of(lambda x: jaxish.lax.fori_loop(0, 5, lambda i, x: x.at[1:-1].mul(2), x), np.ones(400, np.float32))
    assert "for (int i0 = 1; i0 < 399; ++i0)" in text


_LAX = {"window_strides": (1, 1), "padding": "SAME"}
CONVOLUTIONS = {  # shape of what is convolved, shape of the weights, function
    "of one channel": ((17, 13), (3, 5), lambda j, x, w: j.scipy.signal.convolve2d(x, w, mode="same")),
    "of a row": ((40,), (5,), lambda j, x, w: j.numpy.convolve(x, w, mode="same")),
    "of each channel": (
        (2, 4, 9, 8), (4, 1, 3, 3), lambda j, x, w: j.lax.conv_general_dilated(x, w, **_LAX, feature_group_count=4),
    ),
    "of groups": (
        (2, 4, 9, 8), (4, 2, 3, 3), lambda j, x, w: j.lax.conv_general_dilated(x, w, **_LAX, feature_group_count=2),
    ),
    "of channels that come last": (
        (2, 9, 8, 3), (3, 3, 3, 3),
        lambda j, x, w: j.lax.conv_general_dilated(x, w, **_LAX, dimension_numbers=("NHWC", "HWIO", "NHWC")),
    ),
    "of a volume": ((1, 1, 5, 6, 7), (1, 1, 2, 3, 2), lambda j, x, w: j.lax.conv(x, w, (1, 1, 1), "SAME")),
    "dilated": (
        (1, 1, 17, 13), (1, 1, 3, 5),
        lambda j, x, w: j.lax.conv_general_dilated(x, w, (1, 1), [(2, 2), (4, 4)], rhs_dilation=(2, 2)),
    ),
    "padded unevenly": (
        (1, 1, 17, 13), (1, 1, 3, 5), lambda j, x, w: j.lax.conv_general_dilated(x, w, (1, 1), [(2, 0), (1, 3)]),
    ),
    "with strides": (
        (1, 1, 6, 6), (1, 1, 3, 3),
        lambda j, x, w: j.numpy.tile(j.lax.conv_general_dilated(x, w, (2, 2), [(1, 1), (1, 1)]), (1, 1, 2, 2)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("transform", ["loop", "grad", "vmap"])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_in_loops(name, transform):
    shape, of_weights, function = CONVOLUTIONS[name]
    random = np.random.default_rng(0)
    x, w = (random.normal(size=size).astype(np.float32) for size in ((2, *shape), of_weights))

    def program(j, x, w):
        run = lambda x, w: j.lax.fori_loop(0, 3, lambda i, x: function(j, x, w) * 0.3, x)
        if transform == "grad":
            return j.jit(j.grad(lambda x, w: (run(x, w) ** 2).sum(), (0, 1)))(x[0], w)
        return j.jit(j.vmap(run, (0, None)))(x, w) if transform == "vmap" else j.jit(run)(x[0], w)

    agree(program, x, w, rtol=1e-4, atol=1e-4)


def test_a_convolution_with_few_weights_is_native():
    image, weights = np.ones((20, 20), np.float32), np.ones((3, 3), np.float32)
    convolve = lambda x: jaxish.scipy.signal.convolve2d(x, weights, mode="same")
    text = source_of(lambda x: jaxish.lax.fori_loop(0, 5, lambda i, x: convolve(x), x), image)
    assert text.count(" * ") >= 9


def _after_a_test(j, c, i):
    return j.lax.cond(c[i, 0] > 0, lambda c: c.at[i].set(0.5), lambda c: c.at[i + 1, 1].add(1.0), c)


def _in_a_loop(j, c, i):
    c = c.at[i].set(i * 1.0)
    rows = lambda k: j.numpy.stack([k - 1, k])
    step = lambda s: (s[0].at[rows(s[1])].set(s[0][rows(s[1])[::-1]]), s[1] - 1)
    return j.lax.while_loop(lambda s: (s[1] > 0) & (s[0][s[1] - 1, 0] > s[0][s[1], 0]), step, (c, i))[0]


# What a step sets in an array, and reads of it before and after.
WHERE_THEY_LIE = {
    "several, and read": lambda j, c, i: (c := c.at[i + j.numpy.arange(4)].set(c[i, 1] + 1.0)).at[i].add(c[i + 2] * c[i + 1]),
    "a window, and read": lambda j, c, i: (d := j.lax.dynamic_update_slice(c, c[:2] * 0.5 + c[i], (i, 0))).at[i].add(d[i + 1]),
    "by a fixed and a traced index": lambda j, c, i: c.at[i, 1].set(c[i, 2]).at[2 * i, :2].add(1.0).at[i + 1, -1].max(c[0, 0]),
    "several multiplied": lambda j, c, i: c.at[i + j.numpy.array([0, 2, 0])].multiply(c[i + 1] * 0.5).at[0, 2].set(c[i, 1]),
    "by a function": lambda j, c, i: c.at[i].apply(j.numpy.sin).at[i + 1, 0].apply(j.numpy.cos),
    "after a test of it": _after_a_test, "in a loop that tests it": _in_a_loop,
}  # fmt: skip


@pytest.mark.parametrize("name", WHERE_THEY_LIE)
def test_elements_are_set_where_they_lie_whatever_else_is_read(name):
    c = np.random.default_rng(0).normal(size=(3000, 3)).astype(np.float32)

    def program(j, c):
        def step(c, i):
            new = WHERE_THEY_LIE[name](j, c, i)
            return new, (c[i], new[i + 1, 0])

        return j.lax.scan(step, c, j.numpy.arange(1, 9))

    agree(lambda j, c: j.jit(lambda c: program(j, c))(c), c, rtol=1e-5, atol=1e-6)
    assert "memory.place" not in _source(lambda c: program(jaxish, c), c).function  # no array of so many elements


def test_unsigned_integers_are_set_where_they_lie():
    words = np.random.default_rng(0).integers(0, 1 << 32, 5000, dtype=np.uint32)

    def program(j, words):
        def step(words, i):
            words = words.at[i].set(words[i + 1] | 3).at[i + j.numpy.arange(2)].add(words[i] ^ words[3 * i])
            return words, words[i]

        return j.lax.scan(step, words, j.numpy.arange(1, 9))

    agree(lambda j, c: j.jit(lambda c: program(j, c))(c), words)
    assert "memory.place" not in _source(lambda c: program(jaxish, c), words).function


# What a step makes of an array, of which the way back changes as many elements.
WAYS_BACK = {
    "set": lambda j, c, i: c.at[i, 1].set(c[i + 1, 0] * 0.5),
    "added": lambda j, c, i: c.at[i].add(c[2 * i] * c[i, 1]),
    "multiplied": lambda j, c, i: c.at[i, 0].multiply(c[i + 1, 0] + 0.5),
    "exchanged": lambda j, c, i: c.at[i].set(c[2 * i]).at[2 * i].set(c[i]),
    "a window": lambda j, c, i: j.lax.dynamic_update_slice(c, j.lax.dynamic_slice(c, (i, 1), (2, 2)) * c[i, 0], (i, 1)),
    "the greater": lambda j, c, i: c.at[i].max(c[i + 1, 1]),
    "of all in a row": lambda j, c, i: c.at[i, 0].add(c.reshape(-1)[i + 4] * c[i, 1]),
    "by a branch": lambda j, c, i: j.lax.cond(c[i, 0] > 0, lambda c: c.at[i].set(0.5), lambda c: c.at[i + 1, 1].add(c[i, 0]), c),
}  # fmt: skip


@pytest.mark.parametrize("name", WAYS_BACK)
def test_the_way_back_changes_elements_where_they_lie(name):
    c = np.random.default_rng(0).normal(size=(3000, 3)).astype(np.float32)

    def loss(j):
        step = lambda c, i: (WAYS_BACK[name](j, c, i), c[i, 2] * 2)
        return lambda c: sum((x**2).sum() for x in j.lax.scan(step, c, j.numpy.arange(1, 9)))

    agree(lambda j, c: j.jit(j.grad(loss(j)))(c), c, rtol=1e-5, atol=1e-6)
    graph = jaxish.jit(jaxish.grad(loss(jaxish))).trace(c)._program.closed.graph.module.graph
    there, back = (n.target for n in graph.nodes if hasattr(n.target, "carries"))
    for scan in (there, back):
        text = loop_sources.scan_source(scan.body, scan.consts, scan.carries).function
        assert "000; ++" not in text, text  # no loop over all rows or elements


LANES = {
    "cond": lambda j, c, i: j.lax.cond(i % 2 == 0, lambda c: c.at[i].set(0.5), lambda c: c.at[i + 1].add(1.0), c),
    "switch": lambda j, c, i: j.lax.switch(i % 3, [lambda c: c, lambda c: c.at[i].set(i * 1.0), lambda c: c.at[0].add(c[i])], c),
}  # fmt: skip


@pytest.mark.parametrize("name", LANES)
def test_lanes_that_take_different_branches_set_elements_where_they_lie(name):
    c = np.random.default_rng(0).normal(size=(3, 3000)).astype(np.float32)
    places = np.arange(12, dtype=np.int32).reshape(3, 4)

    def program(j, c):
        return j.vmap(lambda c, own: j.lax.scan(lambda c, i: (LANES[name](j, c, i), c[i]), c, own))(c, places)

    agree(lambda j, c: j.jit(lambda c: program(j, c))(c), c, rtol=1e-5, atol=1e-6)
    assert "memory.place" not in _source(lambda c: program(jaxish, c), c).function


def test_what_was_read_before_elements_are_set_is_set_as_it_was():
    def program(j):
        def swapped(x, places):
            def step(carry, place):
                i, x = carry
                a, b = x[i], x[place]
                return (i + 1, x.at[i].set(b).at[place].set(a) * 2), None

            return j.lax.scan(step, (0, x), places)[0][1]

        return j.vmap(swapped, (None, 0))

    x = np.random.default_rng(0).uniform(0.5, 1.5, (6, 3)).astype(np.float32)
    for places in ([[0], [4], [5]], [[0, 3], [4, 4], [5, 1]]):
        agree(lambda j, x, places: j.jit(program(j))(x, places), x, np.array(places, np.int32))


def test_expressions_are_within_each_other_up_to_a_depth():
    def chain(x):
        for _ in range(400):
            x = x[::-1] * 1.01
        return x

    agree(
        lambda j: j.jit(lambda x: j.lax.scan(lambda c, _: (chain(c), None), x, None, length=3)[0])(
            np.arange(3, dtype=np.float32)
        )
    )
