"""Arrays and indices without elements, under the transformations, as in JAX."""

import importlib

import numpy as np
import pytest
from oracle import agree

X = np.arange(12.0, dtype=np.float32).reshape(3, 4)
NONE = np.zeros(0, np.int32)

PROGRAMS = {
    "x[none]": lambda jnp, x: x[jnp.asarray(NONE)],
    "x[none, none]": lambda jnp, x: x[jnp.asarray(NONE), jnp.asarray(NONE)],
    "x[:, none]": lambda jnp, x: x[:, jnp.asarray(NONE)],
    "x[(0, 3) none]": lambda jnp, x: x[jnp.zeros((0, 3), int)],
    "x[no mask]": lambda jnp, x: x[np.zeros(3, bool)],
    "take": lambda jnp, x: jnp.take(x, NONE, axis=1),
    "set": lambda jnp, x: x.at[jnp.asarray(NONE)].set(1.0),
    "add": lambda jnp, x: x.at[jnp.asarray(NONE), 0].add(1.0),
    "set of another shape": lambda jnp, x: (
        x.at[3:].set(jnp.ones(7)) + x.at[:, jnp.asarray(NONE)].max(jnp.ones((5, 5, 5)))
    ),
    "insert nothing": lambda jnp, x: jnp.insert(x, NONE, 1.0, 0),
    "fft of no rows": lambda jnp, x: abs(jnp.fft.fft(x[:0])),
    "rfft of no rows": lambda jnp, x: abs(jnp.fft.rfft(x[:0], 6)),
    "fft2 of no matrices": lambda jnp, x: abs(jnp.fft.fft2(x[None][:0])),
    "sort": lambda jnp, x: jnp.sort(x[:0], 0),
    "where": lambda jnp, x: jnp.where(x[:0] > 0, x[:0], 1.0),
}


def _sum(jax, f):
    return lambda x: jax.numpy.sum(f(jax.numpy, x))


FORMS = {
    "eager": lambda jax, f: f(jax.numpy, jax.numpy.asarray(X)),
    "jit": lambda jax, f: jax.jit(lambda x: f(jax.numpy, x))(X),
    "vmap": lambda jax, f: jax.vmap(lambda x: f(jax.numpy, x))(np.stack([X, X])),
    "jit(vmap(grad))": lambda jax, f: jax.jit(jax.vmap(jax.grad(_sum(jax, f))))(np.stack([X, X])),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_no_elements(name, form):
    agree(lambda jax: FORMS[form](jax, PROGRAMS[name]), weak=False)


def flat(jax):
    return importlib.import_module(f"{jax.__name__}.flatten_util").ravel_pytree


OF_A_BATCH_OF_NONE = {
    "cumsum": lambda jax, x: jax.numpy.cumsum(x),
    "nancumprod": lambda jax, x: jax.numpy.nancumprod(x),
    "nanargmax": lambda jax, x: jax.numpy.nanargmax(x) + x,
    "column_stack": lambda jax, x: jax.numpy.column_stack([x[0], x[1]]),
    "cov": lambda jax, x: (jax.numpy.cov(x), jax.numpy.corrcoef(x[0, 0])),
    "convolve": lambda jax, x: (jax.numpy.convolve(x[0], x[1]), jax.numpy.correlate(x[0], x[1], "full")),
    "ediff1d": lambda jax, x: jax.numpy.ediff1d(x),
    "packbits": lambda jax, x: jax.numpy.packbits(x > 0).astype("float32") + x.sum(),
    "tensorinv of a number": lambda jax, x: jax.vmap(lambda y: jax.numpy.linalg.tensorinv(y, ind=1))(x.reshape(12, 1)[:, :, None]),
    "fft": lambda jax, x: (abs(jax.numpy.fft.fft(x)), jax.numpy.fft.irfft2(x), abs(jax.numpy.fft.hfft(x, 5, 0))),
    "lax.fft": lambda jax, x: abs(jax.lax.fft(x, "RFFT", (4,))),
    "ravel": lambda jax, x: (x.ravel(), x.reshape(-1, 2), flat(jax)({"a": x, "b": x[0]})[0]),
    "roll and repeat": lambda jax, x: (jax.numpy.roll(x, 1), jax.numpy.repeat(x, 2), jax.numpy.resize(x, (5, 3))),
    "insert and delete": lambda jax, x: (jax.numpy.insert(x, 1, 2.0), jax.numpy.delete(x, 1), jax.numpy.append(x, x)),
    "a loop": lambda jax, x: jax.lax.while_loop(lambda c: c.sum() < 10, lambda c: c + 1, x),
    "a scan": lambda jax, x: jax.lax.scan(lambda c, r: (c + r, c * r), x[0], x),
}  # fmt: skip


@pytest.mark.parametrize("form", ["vmap", "jit of vmap", "grad of vmap"])
@pytest.mark.parametrize("name", OF_A_BATCH_OF_NONE)
def test_a_batch_of_none(name, form):
    def program(jax):
        mapped = jax.vmap(lambda x: OF_A_BATCH_OF_NONE[name](jax, x))
        if form == "grad of vmap":
            return jax.grad(lambda x: sum(leaf.sum() for leaf in jax.tree.leaves(mapped(x))))(X[None][:0])
        return (jax.jit(mapped) if form == "jit of vmap" else mapped)(X[None][:0])

    agree(program, weak=False)


def test_complex_numbers_that_are_not_finite_in_traced_functions():
    agree(lambda jax: jax.jit(lambda x: jax.numpy.where(x > 5, complex("nan+nanj"), x))(X))


EMPTY, FLAT = np.zeros((3, 0), np.float32), np.zeros(0, np.float32)
READINGS = {
    "x[(0,)]": lambda jax, x: x[jax.numpy.array([0])],
    "x[:, (0,)]": lambda jax, x: jax.numpy.asarray(EMPTY)[:, jax.numpy.array([0])],
    "x[(1,), (0,)]": lambda jax, x: jax.numpy.asarray(EMPTY)[jax.numpy.array([1]), jax.numpy.array([0])],
    "x[none]": lambda jax, x: x[jax.numpy.asarray(NONE)],
    "x[0]": lambda jax, x: x[0],
    "get, fill": lambda jax, x: x.at[jax.numpy.array([0])].get(mode="fill", fill_value=3.0),
    "get, clip": lambda jax, x: x.at[jax.numpy.array([0])].get(mode="clip"),
    "set": lambda jax, x: x.at[jax.numpy.array([0])].set(1.0),
    "take": lambda jax, x: jax.numpy.take(x, np.array([0])),
    "take none": lambda jax, x: jax.numpy.take(x, NONE),
    "take_along_axis": lambda jax, x: jax.numpy.take_along_axis(x, np.array([0]), 0),
    "index_take": lambda jax, x: jax.lax.index_take(x, (jax.numpy.array([0]),), (0,)),
    "dynamic_index_in_dim": lambda jax, x: jax.lax.dynamic_index_in_dim(x, 0, 0),
    "gather": lambda jax, x: jax.lax.gather(x, np.zeros((1, 1), int), jax.lax.GatherDimensionNumbers((), (0,), (0,)), (1,)),
    "gather none": lambda jax, x: jax.lax.gather(x, np.zeros((0, 1), int), jax.lax.GatherDimensionNumbers((), (0,), (0,)), (1,)),
    "argmax": lambda jax, x: jax.numpy.argmax(x),
    "argmin along": lambda jax, x: jax.numpy.argmin(EMPTY, 1),
    "argmin across": lambda jax, x: jax.numpy.argmin(EMPTY, 0),
    "lax.argmax": lambda jax, x: jax.lax.argmax(x, 0, "int32"),
    "max": lambda jax, x: jax.numpy.max(x),
    "ravel_multi_index": lambda jax, x: jax.numpy.ravel_multi_index((0,), (0,), mode="wrap"),
    "fft": lambda jax, x: jax.numpy.fft.fft(x),
}  # fmt: skip


@pytest.mark.parametrize("name", READINGS)
def test_reading_from_no_elements(name):
    agree(lambda jax: READINGS[name](jax, jax.numpy.asarray(FLAT)), weak=False)
    agree(lambda jax: jax.jit(lambda x: READINGS[name](jax, x))(FLAT), weak=False)


@pytest.mark.parametrize(
    "transform",
    [
        lambda j, f: j.vmap(f),
        lambda j, f: j.jit(j.vmap(f)),
        lambda j, f: j.vmap(j.grad(f)),
        lambda j, f: j.grad(lambda x: j.vmap(f)(x).sum()),
        lambda j, f: lambda x: j.jvp(j.vmap(f), (x,), (x,)),
        lambda j, f: lambda x: j.vmap(lambda a: (f(a), 3.0), out_axes=(0, None))(x),
    ],
)
@pytest.mark.parametrize(
    "function",
    [
        lambda j: lambda a: a + 1,
        lambda j: lambda a: a * j.numpy.float32(2),
        lambda j: lambda a: (a + j.numpy.ones(3)).sum(),
        lambda j: lambda a: j.lax.fori_loop(0, 3, lambda _, c: c * 2.0, a),
    ],
)
def test_numbers_mapped_over_an_axis_of_none(transform, function):
    agree(lambda j, x: transform(j, function(j))(x), np.zeros(0, np.float32))


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (0, 2, 0), (0, 0, 2)])
@pytest.mark.parametrize(
    "program",
    [
        lambda j, x, i: x[i],
        lambda j, x, i: x[:, i],
        lambda j, x, i: x[i, i],
        lambda j, x, i: x[i[:, None], 0:0],
        lambda j, x, i: x.at[i].get(mode="fill"),
        lambda j, x, i: j.jit(lambda y, k: y[k])(x, i),
        lambda j, x, i: j.grad(lambda y: y[i].sum())(x),
        lambda j, x, i: j.numpy.take(x, i, axis=0),
    ],
)
def test_elements_of_a_dimension_of_none_where_the_result_has_none_either(program, shape):
    agree(lambda j: program(j, j.numpy.ones(shape), j.numpy.array([0, -1])))
