"""`x[jax.ds(start, size)]`: windows that begin where the program says as it runs."""

import numpy as np
import pytest
from oracle import agree

X, Y = np.arange(10, dtype=np.int32), np.arange(24, dtype=np.float32).reshape(2, 3, 4)
TAKEN = [
    (X, lambda ds, i: ds(i, 4)), (X, lambda ds, i: ds(i, 3, 2)), (X, lambda ds, i: (ds(i, 2), None)),
    (X, lambda ds, i: ds(None)), (X, lambda ds, i: ds(3)), (X, lambda ds, i: ds(i, 0)),
    (Y, lambda ds, i: (0, ds(i, 2))), (Y, lambda ds, i: (ds(i, 1), slice(None), ds(1, 2))),
    (Y, lambda ds, i: (..., ds(i, 2), None)), (Y, lambda ds, i: (slice(0, 1), ds(0, 2), 1)),
    (Y, lambda ds, i: (np.array([0, 1]), ds(i, 2))),
]  # fmt: skip


@pytest.mark.parametrize("start", [0, 1, -2, 8, 100, -100])
@pytest.mark.parametrize("case", range(len(TAKEN)))
@pytest.mark.parametrize("how", ["number", "array", "jit"])
def test_windows_are_moved_into_bounds(case, start, how):
    x, index = TAKEN[case]

    def program(lib):
        take = lambda i: lib.numpy.asarray(x)[index(lib.ds, i)]
        if how == "number":
            return take(start)
        return (lib.jit(take) if how == "jit" else take)(lib.numpy.int32(start))

    agree(program)


@pytest.mark.parametrize("start", [0, 2, -3, 8, 100])
@pytest.mark.parametrize("method", ["set", "add", "multiply", "min"])
def test_updates_out_of_bounds_are_dropped(start, method):
    def program(lib, update):
        run = lambda i: update(lib, lib.numpy.asarray(Y), i)
        return run(start), lib.jit(run)(start)

    agree(program, lambda lib, x, i: getattr(x.at[:, lib.ds(i, 2)], method)(5.0))
    agree(program, lambda lib, x, i: getattr(x.at[:, lib.ds(i, 2, 2)], method)(5.0))
    agree(program, lambda lib, x, i: getattr(x.at[1, lib.ds(i, 1), lib.ds(0, 2)], method)(np.ones(2, np.float32)))


@pytest.mark.parametrize("start", [0, 2, -3, 8, 100])
@pytest.mark.parametrize("method", ["set", "add", "multiply", "min"])
def test_clipped_updates_are_moved_into_bounds(start, method):
    def program(lib):
        run = lambda i: getattr(lib.numpy.asarray(Y).at[:, lib.ds(i, 2)], method)(5.0, mode="clip")
        return run(start), lib.jit(run)(start)

    agree(program)


def test_references_are_written_where_they_are_read():
    def program(lib):
        def run(ref, i):
            ref[lib.ds(i, 2)] = ref[lib.ds(i, 2)] * 10

        ref = lib.new_ref(lib.numpy.arange(5.0))
        lib.jit(run)(ref, lib.numpy.int32(4))
        return ref[...]

    agree(program)


def test_derivatives_and_batches():
    def program(lib):
        x = lib.numpy.asarray(Y)
        total = lambda x, i: (x[:, lib.ds(i, 2)] ** 2).sum() + x.at[lib.ds(i, 1)].set(x[0] * 3).sum()
        starts = lib.numpy.arange(3)
        return lib.grad(total)(x, 1), lib.vmap(lib.grad(total), (None, 0))(x, starts)

    agree(program)


def test_what_slices_are():
    agree(lambda lib: repr(lib.ds(4, 2)) + repr(lib.ds(1, 4, 2)) + repr(lib.ds(3)))
    agree(lambda lib: lib.ds(0, 2, -1))
    agree(lambda lib: lib.ds(0, 2, lib.numpy.int32(1)))
    agree(lambda lib: lib.jit(lambda n: lib.numpy.asarray(X)[lib.ds(0, n)])(3))
