"""jax.experimental.buffer_callback against JAX: results, batches, aliases and errors."""

import importlib

import ml_dtypes
import numpy as np
import pytest
import torch
from oracle import agree

import jaxish
from jaxish.experimental.buffer_callback import buffer_callback

X = np.linspace(0, 1, 6, dtype=np.float32).reshape(2, 3)


def wrapped(lib, callback, types, **options):
    module = importlib.import_module(f"{lib.__name__}.experimental.buffer_callback")
    return module.buffer_callback(callback, types, **options)


def like(lib, x):
    return lib.ShapeDtypeStruct(x.shape, x.dtype)


def twice(context, out, x):
    np.asarray(out)[...] = np.asarray(x) * 2


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.bool_, np.complex64, ml_dtypes.bfloat16])
def test_results_are_written_into_buffers(dtype):
    def program(lib):
        x = lib.numpy.asarray(X.astype(dtype))
        copied = wrapped(lib, lambda context, out, x: np.copyto(np.asarray(out), np.asarray(x)), like(lib, x))
        return copied(x), lib.jit(copied)(x), lib.jit(lambda x: copied(x.T.T) + copied(x))(x)

    agree(program)


def test_pytrees_and_named_arguments():
    def callback(context, out, x, *, shift):
        np.asarray(out["sum"])[...] = np.asarray(x["a"]).sum()
        np.asarray(out["rest"][0])[...] = np.asarray(x["b"]) + np.asarray(shift)

    def program(lib):
        types = {"sum": lib.ShapeDtypeStruct((), np.float32), "rest": [like(lib, X)]}
        return lib.jit(wrapped(lib, callback, types))({"a": X, "b": X}, shift=np.float32(3))

    agree(program)


@pytest.mark.parametrize("method", [
    "sequential", "sequential_unrolled", "expand_dims", "broadcast_all", "legacy_vectorized", None, "other",
])  # fmt: skip
@pytest.mark.parametrize("in_axes", [(0, 0), (0, None), (1, 1)])
def test_batches(method, in_axes):
    shapes = []

    def add(context, out, x, y):
        shapes.append((out.shape, x.shape, y.shape))
        np.asarray(out)[...] = np.asarray(x) + np.asarray(y)

    def program(lib):
        shapes.clear()
        y = X if in_axes[1] is not None else X[0]
        element = lib.ShapeDtypeStruct((X.shape[1 - in_axes[0]],), np.float32)
        result = lib.vmap(wrapped(lib, add, element, vmap_method=method), in_axes)(X, y).block_until_ready()
        return result, sorted(shapes)

    agree(program)


def test_what_buffers_say_of_themselves():
    def program(lib):
        said = []

        def callback(context, out, x):
            twice(context, out, x)
            said.extend([(b.shape, str(b.dtype), b.ndim, b.writeable) for b in (out, x)])
            said.append((context.stage.name, torch.from_dlpack(x).tolist()))

        result = wrapped(lib, callback, like(lib, X))(X).block_until_ready()
        return result, str(said)

    agree(program)


@pytest.mark.parametrize("aliases", [{0: 0}, {1: 0}, {2: 0}, {0: 1}, {-1: 0}])
def test_results_that_begin_as_arguments(aliases):
    def add_one(context, out, x, y):
        np.asarray(out)[...] += 1

    def program(lib):
        x = lib.numpy.asarray(X)
        return lib.jit(wrapped(lib, add_one, like(lib, X), input_output_aliases=aliases))(x, X[0]), x

    if aliases == {-1: 0}:  # JAX counts from the end there
        with pytest.raises(ValueError, match="outside the range"):
            program(jaxish)
        return
    agree(program)


def test_effects_happen_although_nothing_uses_the_result():
    def program(lib, effect):
        calls = []

        def callback(context, out, x):
            calls.append(1)
            twice(context, out, x)

        f = wrapped(lib, callback, like(lib, X), has_side_effect=effect)
        lib.jit(lambda x: (f(x), x + 1)[1])(X).block_until_ready()
        lib.effects_barrier()
        return len(calls)

    for effect in (False, True):
        agree(program, effect)


@pytest.mark.parametrize("callback", [lambda context, out, x: 3, lambda context, out, x: 1 / 0, lambda context: None])
def test_callbacks_that_fail(callback):
    agree(lambda lib: lib.jit(wrapped(lib, callback, like(lib, X)))(X).block_until_ready())


def test_there_is_no_derivative():
    agree(lambda lib: lib.grad(lambda x: wrapped(lib, twice, like(lib, X))(x).sum())(X))
    agree(lambda lib: lib.jvp(wrapped(lib, twice, like(lib, X)), (X,), (X,)))


def test_arguments_are_not_written():
    def callback(context, out, x):
        np.asarray(x)[...] = 1

    with pytest.raises(jaxish.errors.JaxRuntimeError, match="read-only"):
        buffer_callback(callback, like(jaxish, X))(X)
