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


# ---------------------------------------------------------------------------------------------------- kernels for TPUs


def for_tpus(lib):
    return importlib.import_module(f"{lib.__name__}.experimental.pallas.tpu")


def test_products_of_blocks_that_add_up_in_memory_of_a_tpu():
    def program(lib, a, b):
        (pl, _, struct), pltpu = of(lib), for_tpus(lib)

        def kernel(a, b, out, sums):
            @pl.when(pl.program_id(2) == 0)
            def _():
                sums[...] = lib.numpy.zeros_like(sums)

            sums[...] += lib.numpy.dot(a[...], b[...], preferred_element_type=np.float32)

            @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
            def _():
                out[...] = sums[...]

        spec = pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=0, grid=(2, 2, 2),
            in_specs=[pl.BlockSpec((3, 2), lambda i, j, k: (i, k)), pl.BlockSpec((2, 3), lambda i, j, k: (k, j))],
            out_specs=pl.BlockSpec((3, 3), lambda i, j, k: (i, j), memory_space=pltpu.VMEM),
            scratch_shapes=[pltpu.VMEM((3, 3), np.float32)],
        )  # fmt: skip
        told = pltpu.CompilerParams(
            dimension_semantics=["parallel", pltpu.PARALLEL, "arbitrary"], vmem_limit_bytes=2**20
        )
        call = pl.pallas_call(kernel, struct((6, 6), np.float32), grid_spec=spec, interpret=True, compiler_params=told)
        return (
            call(lib.numpy.asarray(a), lib.numpy.asarray(b)),
            len(told.dimension_semantics),
            told.replace(flags={}).collective_id,
        )

    agree(program, M, M.T)


@pytest.mark.parametrize("transformation", [None, "jit", "vmap"])
def test_maps_of_indices_are_given_what_is_known_ahead(transformation):
    def program(lib, x):
        (pl, _, struct), pltpu = of(lib), for_tpus(lib)

        def kernel(rows, scale, row, out):
            out[...] = row[...] * scale[0] + rows[pl.program_id(0)]

        spec = pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=2, grid=(4,), out_specs=pl.BlockSpec((1, 4), lambda i, rows, scale: (i, 0)),
            in_specs=[pl.BlockSpec((1, 4), lambda i, rows, scale: (rows[i], 0))],
        )  # fmt: skip
        call = pl.pallas_call(kernel, struct((4, 4), np.float32), grid_spec=spec, interpret=True)
        rows, scale = lib.numpy.array([5, 0, 0, 3]), lib.numpy.array([3.0])
        f = lambda x: call(rows, scale, x)
        f = lib.jit(f) if transformation == "jit" else f
        return lib.vmap(f)(lib.numpy.stack([x, 2 * x])) if transformation == "vmap" else f(x)

    agree(program, M)


def test_an_output_that_begins_as_an_input_counts_what_is_known_ahead():
    def program(lib, x):
        (pl, _, struct), pltpu = of(lib), for_tpus(lib)

        def kernel(at, x, out):
            out[at[0]] = 7.0

        spec = pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=1)
        call = pl.pallas_call(
            kernel, struct((8,), np.float32), grid_spec=spec, interpret=True, input_output_aliases={1: 0}
        )
        return call(lib.numpy.array([2]), lib.numpy.asarray(x))

    agree(program, X)


@pytest.mark.parametrize(
    "program",
    [
        lambda tpu, x: tpu.roll(x, 2, 1),
        lambda tpu, x: tpu.roll(x, 1, 0, stride=2, stride_axis=1),
        lambda tpu, x: tpu.roll(x, 1, 1, stride=1, stride_axis=0),
        lambda tpu, x: tpu.bitcast(x, np.int32),
        lambda tpu, x: tpu.bitcast(x, np.int16),
        lambda tpu, x: tpu.bitcast(tpu.bitcast(x, np.uint8), np.int32),
        lambda tpu, x: tpu.roll(x, -1, 0),
        lambda tpu, x: tpu.roll(x, 1, 2),
        lambda tpu, x: tpu.roll(x, 1, 0, stride=1),
        lambda tpu, x: tpu.roll(x, 1, 0, stride=1, stride_axis=0),
        lambda tpu, x: tpu.bitcast(x[0], np.int16),
    ],
)
def test_what_kernels_for_tpus_call(program):
    agree(lambda lib, x: lib.jit(lambda x: program(for_tpus(lib), x))(x), M)  # JAX has them in compiled code only


def test_what_needs_semaphores_or_a_tpu_is_refused():
    (pl, _, struct), pltpu = of(jaxish), for_tpus(jaxish)
    call = pl.pallas_call(
        cube, struct((8,), np.float32), scratch_shapes=[pltpu.SemaphoreType.DMA], interpret=True, in_specs=blocks(8)(pl)
    )
    for refused in (lambda: call(X), lambda: pltpu.SemaphoreType.DMA((2,)), pltpu.get_tpu_info, pltpu.InterpretParams):
        with pytest.raises(NotImplementedError, match=r"interpreted"):
            refused()


READY_MADE = {
    "tpu.megablox": "gmm", "tpu.flash_attention": "flash_attention", "tpu.paged_attention": "paged_attention",
    "tpu.ragged_paged_attention": "ragged_paged_attention", "tpu.splash_attention": "make_splash_mha CausalMask BlockSizes",
    "tpu.splash_attention.splash_attention_kernel": "BlockSizes SplashAttentionKernel",
    "tpu.splash_attention.splash_attention_mask": "CausalMask LogicalAnd", "gpu.attention": "mha BlockSizes",
    "gpu.decode_attention": "mqa gqa", "gpu.layer_norm": "layer_norm", "gpu.rms_norm": "rms_norm", "gpu.softmax": "softmax",
    "gpu.paged_attention": "paged_attention",
}  # fmt: skip


@pytest.mark.parametrize("module", READY_MADE)
def test_ready_made_kernels_are_imported_and_refused(module):
    """Programs import them for one kind of device, and name their classes in annotations."""
    found, theirs = (importlib.import_module(f"{lib}.experimental.pallas.ops.{module}") for lib in ("jaxish", "jax"))
    for name in READY_MADE[module].split():
        assert getattr(theirs, name)
        assert getattr(found, name) | None
        with pytest.raises(NotImplementedError, match=r"Use jax\."):
            getattr(found, name)(1)
