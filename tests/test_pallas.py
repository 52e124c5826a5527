"""jax.experimental.pallas: kernels by the interpreter, and what is refused."""

import importlib

import numpy as np
import pytest
from oracle import agree

import jaxish

X = np.arange(8, dtype=np.float32)
M = np.arange(24, dtype=np.float32).reshape(6, 4)


def of(lib):
    name = f"{lib.__name__}.experimental.pallas"
    return importlib.import_module(name), importlib.import_module(f"{name}.triton"), lib.ShapeDtypeStruct


def add(x, y, out):
    out[...] = x[...] + y[...]


def cube(x, out):
    out[...] = x[...] ** 3


def called(kernel, shape=(8,), dtype=np.float32, **options):
    """Return a program: a kernel that is made of the library, called with `options`, which are made of pallas."""

    def program(lib, *args):
        pl, triton, struct = of(lib)
        given = {name: value(pl) for name, value in options.items()}
        function = kernel(lib, pl, triton) if kernel.__code__.co_varnames[0] == "lib" else kernel
        call = pl.pallas_call(function, out_shape=struct(shape, dtype), interpret=True, **given)
        return call(*map(lib.numpy.asarray, args))

    return program


def blocks(size, *more):
    return lambda pl: [pl.BlockSpec((size,), lambda i: (i,))] * (1 + len(more))


def grid(*steps):
    return lambda pl: steps


def test_a_kernel_without_a_grid_sees_whole_arrays():
    agree(called(add), X, X)


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint8, np.bool_])
def test_blocks_reach_beyond_the_end_and_what_is_not_written_is_not_initialized(dtype):
    first = lambda lib, pl, triton: lambda x, out, beyond: out.__setitem__(0, x[2])

    def program(lib):
        pl, _, struct = of(lib)
        specs = [pl.BlockSpec((3,), lambda i: i)] * 2
        call = pl.pallas_call(
            first(lib, pl, None), out_shape=[struct((8,), dtype)] * 2, grid=3, in_specs=specs[:1], out_specs=specs,
            interpret=True,
        )  # fmt: skip
        return call(lib.numpy.asarray(X.astype(dtype)))

    agree(program)


def test_products_of_blocks_over_a_grid_of_two_dimensions():
    def product(a, b, out):
        out[...] = a[...] @ b[...]

    rows_and_columns = lambda pl: [
        pl.BlockSpec((3, 4), lambda i, j: (i, 0)), pl.BlockSpec((4, 2), lambda i, j: (0, j)),
    ]  # fmt: skip
    out = lambda pl: pl.BlockSpec((3, 2), lambda i, j: (i, j))
    agree(called(product, (6, 6), grid=grid(2, 3), in_specs=rows_and_columns, out_specs=out), M, M.T)


def test_steps_add_up_in_a_block_that_they_share():
    def summing(lib, pl, triton):
        def kernel(x, out):
            @pl.when(pl.program_id(1) == 0)
            def _():
                out[...] = lib.numpy.zeros_like(out)

            out[...] += x[...] * (pl.program_id(0) + 1) * pl.num_programs(1)

        return kernel

    rows = lambda pl: [pl.BlockSpec((None, 4), lambda i, j: (i * 3 + j, 0))]
    out = lambda pl: pl.BlockSpec((None, 4), lambda i, j: (i, 0))
    agree(called(summing, (2, 4), grid=grid(2, 3), in_specs=rows, out_specs=out), M)


@pytest.mark.parametrize("masked", [False, True])
def test_windows_beyond_the_end_are_moved_unless_there_is_a_mask(masked):
    def doubling(lib, pl, triton):
        def kernel(x, out):
            start = pl.program_id(0) * 3
            window, mask = pl.ds(start, 3), start + lib.numpy.arange(3) < 8
            if masked:
                value = triton.load(x.at[window], mask=mask, other=0.0)
                triton.store(out.at[window], value * 2, mask=mask)
            else:
                out[window] = x[window] * 2

        return kernel

    agree(called(doubling, grid=grid(3)), X)


def test_loops_and_memory_to_work_with():
    def kernel_of(lib, pl, triton):
        def scoped(memory):
            memory[...] = lib.numpy.ones_like(memory)

            @pl.loop(1, 8, step=3)
            def _(i):
                memory[i] += 5.0

            return memory[...]

        def kernel(x, out, total):
            @pl.when(pl.program_id(0) == 0)
            def _():
                total[...] = lib.numpy.zeros_like(total)

            total[...] += x[...]
            last = pl.loop(0, 2, init_carry=lib.numpy.float32(0))(lambda i, carry: carry + total[i])
            out[...] = total[...] + last + pl.run_scoped(scoped, pl.ANY((8,), np.float32)).sum()

        return kernel

    scratch = lambda pl: [pl.ANY((2,), np.float32)]
    agree(
        called(
            kernel_of, grid=grid(4), in_specs=blocks(2), out_specs=lambda pl: blocks(2)(pl)[0], scratch_shapes=scratch
        ),
        X,
    )


@pytest.mark.parametrize("padding", [(0, 0), (1, 1)])
def test_blocks_that_overlap(padding):
    size = 8 if any(padding) else 6
    neighbours = lambda x, out: out.__setitem__(..., x[:2] + x[1:])
    specs = lambda pl: [pl.BlockSpec((pl.Element(3, padding),), lambda i: (i * 2,))]
    out = lambda pl: pl.BlockSpec((2,), lambda i: i)
    agree(called(neighbours, (size,), grid=grid(size // 2), in_specs=specs, out_specs=out), X)


def test_an_output_that_begins_as_an_input():
    agree(called(lambda x, out: out.__setitem__(0, x[1]), input_output_aliases=lambda pl: {0: 0}), X)


def test_pytrees_and_atomic_operations():
    def program(lib):
        pl, triton, struct = of(lib)

        def kernel(given, out):
            first = pl.program_id(0)
            out["sum"][...] = given["a"][...] + given["b"][...]
            triton.atomic_add(out["sum"], (first,), given["a"][3])
            triton.atomic_max(out["sum"], (pl.ds(first + 1, 2),), given["b"][pl.ds(first + 5, 2)])

        call = pl.pallas_call(kernel, out_shape={"sum": struct((8,), np.float32)}, grid=(1,), interpret=True)
        return call({"a": lib.numpy.asarray(X), "b": lib.numpy.asarray(X)})

    agree(program)


@pytest.mark.parametrize("transformation", ["jit", "vmap"])
def test_calls_are_transformed(transformation):
    program = called(cube, (4,), grid=grid(2), in_specs=blocks(2), out_specs=lambda pl: blocks(2)(pl)[0])
    agree(lambda lib: getattr(lib, transformation)(lambda x: program(lib, x))(M[0] if transformation == "jit" else M))


def test_calls_have_derivatives():
    program = called(cube, grid=grid(4), in_specs=blocks(2), out_specs=lambda pl: blocks(2)(pl)[0])
    found = jaxish.grad(lambda x: program(jaxish, x).sum())(X)
    np.testing.assert_allclose(found, 3 * X**2)


@pytest.mark.parametrize(
    "options",
    [
        {"in_specs": lambda pl: [pl.BlockSpec((3,), lambda i: (i, 0))], "grid": grid(3)},
        {"in_specs": lambda pl: [pl.BlockSpec((3, 1), lambda i: (i, 0))], "grid": grid(3)},
    ],
)
def test_blocks_that_do_not_fit_are_refused(options):
    agree(called(cube, **options), X)


def test_kernels_return_nothing():
    agree(called(lambda x, out: x[...]), X)


def test_calls_that_are_not_interpreted_are_refused():
    agree(lambda lib: of(lib)[0].pallas_call(cube, out_shape=of(lib)[2]((8,), np.float32))(lib.numpy.asarray(X)))
    pl, triton, struct = of(jaxish)
    with pytest.raises(NotImplementedError, match=r"interpret=True"):
        pl.kernel(cube)
    with pytest.raises(NotImplementedError, match=r"debug_print"):
        pl.pallas_call(cube, out_shape=struct((8,), np.float32), debug=True)
    with pytest.raises(NotImplementedError, match=r"jax\.numpy\.tanh"):
        triton.approx_tanh(X)


@pytest.mark.parametrize("function", ["cdiv", "align_to"])
def test_sizes_of_blocks(function):
    agree(lambda lib: [getattr(of(lib)[0], function)(a, 4) for a in (0, 1, 4, 9)])
    agree(lambda lib: [of(lib)[0].next_power_of_2(n) for n in (0, 1, 5, 8)])
    agree(lambda lib: of(lib)[0].strides_from_shape((2, 3, 4)))
    agree(lambda lib: of(lib)[0].next_power_of_2(-1))
