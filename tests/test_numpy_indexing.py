"""Indexing and `.at[]`, against JAX: every kind of index, alone and mixed, read and written, under jit, vmap and grad."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import agree

SETTINGS = settings(max_examples=80, deadline=None)


@st.composite
def indices(draw, shape=(3, 4, 5), beyond=1):
    """A tuple of index entries for an array of this shape, as plain data: arrays are lists behind a tag."""
    entries = []
    rank = len(shape)
    used = 0
    batch = draw(st.sampled_from([(), (2,), (2, 3), (1, 3)]))
    ellipsis = False
    while used < rank and draw(st.booleans() if entries else st.just(True)):
        n = shape[used]
        kind = draw(st.sampled_from(["int", "slice", "slice", "array", "mask", "none", "ellipsis", "scalar"]))
        if kind == "int":
            entries.append(draw(st.integers(-n - beyond, n - 1 + beyond)))
        elif kind == "slice":
            part = st.none() | st.integers(-n - 2, n + 2)
            entries.append(slice(draw(part), draw(part), draw(st.sampled_from([None, 1, 2, -1, -2]))))
        elif kind == "array":
            dims = batch if draw(st.booleans()) else batch[-1:]
            size = int(np.prod(dims))
            values = draw(st.lists(st.integers(-n - beyond, n - 1 + beyond), min_size=size, max_size=size))
            entries.append(("array", np.array(values, np.int32).reshape(dims)))
        elif kind == "scalar":
            entries.append(("array", np.array(draw(st.integers(-n - beyond, n - 1 + beyond)), np.int32)))
        elif kind == "mask":
            values = draw(st.lists(st.booleans(), min_size=n, max_size=n))
            if batch and sum(values) not in (1, batch[-1]):
                entries.append(slice(None))
            else:
                entries.append(("mask", np.array(values)))
        elif kind == "none":
            entries.append(None)
            continue
        elif ellipsis:
            continue
        else:
            entries.append(Ellipsis)
            ellipsis = True
            continue
        used += 1
    return tuple(entries)


def made(jax, index):
    """The index with arrays of this library in the place of tagged ones."""
    return tuple(jax.numpy.array(i[1]) if isinstance(i, tuple) else i for i in index)


def operand(jax, dtype="float32"):
    return jax.numpy.arange(60).reshape(3, 4, 5).astype(dtype)


@SETTINGS
@given(indices())
def test_reading_agrees_for_every_mix_of_indices(index):
    agree(lambda jax: operand(jax)[made(jax, index)])


@SETTINGS
@given(indices(), st.sampled_from(["set", "add", "mul", "min", "max"]))
def test_updating_agrees_for_every_mix_of_indices(index, method):
    def program(jax):
        x = operand(jax)
        part = x[made(jax, index)]
        values = jax.numpy.arange(part.size).reshape(part.shape) * 2.0
        unique = method != "set"
        return getattr(x.at[made(jax, index)], method)(values if unique else 7.0)

    agree(program)


COLUMNS = np.array([2, 0, -1, 2, 9, -7])


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "uint32", "bfloat16", "float32", "complex64"])
@pytest.mark.parametrize("tier", ["direct", "compiled"])
def test_large_arrays_are_updated_along_later_dimensions(tier, dtype, request):
    request.getfixturevalue("compiled") if tier == "compiled" else None
    draw = np.random.default_rng(0).integers(0, 9, (300, 4, 60)).astype(dtype if dtype != "bfloat16" else "float32")

    def program(jax):
        def function(x, columns, rows):
            new = x[:, :1] + x[:, 3:]
            last = x[:, :, :1] + x[:, :, 1:2]
            methods = ("set", "min", "max") if dtype == "bool" else ("set", "add", "multiply", "min", "max")
            found = [getattr(x.at[:, columns], method)(new) for method in methods]
            found += [getattr(x.at[:, :, columns], method)(last, mode="clip") for method in methods[:2]]
            return [
                *found,
                x.at[..., columns, 7 * columns].set(new[:, 0, :6]),
                x.at[:, rows].set(new, unique_indices=True),
            ]

        given = jax.numpy.asarray(draw, dtype), COLUMNS, np.array([3, 1])
        return jax.jit(function)(*given), function(*given)

    agree(program)


@pytest.mark.parametrize("method", ["set", "add", "max"])
def test_derivatives_of_updates_of_large_arrays_along_later_dimensions(method):
    x, new = (
        np.sin(np.arange(72_000.0)).astype("f").reshape(300, 4, 60),
        np.cos(np.arange(900.0)).astype("f").reshape(300, 3, 1),
    )

    def program(jax):
        function = lambda x, new, columns: (getattr(x.at[:, columns], method)(new) ** 2).sum()
        lanes = jax.vmap(jax.grad(function, (0, 1)), (None, 0, 0))(
            x, np.stack([new, -new]), np.array([[2, 0, -1], [1, 3, 9]])
        )
        moved = lambda x, new: getattr(x.at[:, np.array([2, 0, -1])], method)(new)
        return lanes, jax.jvp(moved, (x, new), (new[:, :1] * x, x[:, 1:, :1]))

    agree(program)


@settings(max_examples=40, deadline=None)
@given(indices(), st.sampled_from(["fill", "clip", "promise_in_bounds"]))
def test_modes_of_get_agree(index, mode):
    if mode == "promise_in_bounds":
        index = tuple(0 if isinstance(i, int) else i for i in index)
    agree(lambda jax: operand(jax).at[made(jax, index)].get(mode=mode))


@settings(max_examples=25, deadline=None)
@given(indices(beyond=0))
def test_gradients_through_indices_agree(index):
    def program(jax):
        x = operand(jax)
        i = made(jax, index)
        w = jax.numpy.sin(x[i])
        read = jax.grad(lambda v: (v[i] * w).sum())(x)
        written = jax.grad(lambda v, u: (v.at[i].add(u) * x).sum(), (0, 1))(x, w)
        return read, written

    agree(program)


@settings(max_examples=20, deadline=None)
@given(indices())
def test_traced_indices_agree(index):
    def program(jax):
        x = operand(jax)
        arrays = [jax.numpy.array(i[1]) for i in index if isinstance(i, tuple) and i[0] == "array"]

        def read(x, arrays):
            rest = iter(arrays)
            i = tuple(
                next(rest) if isinstance(e, tuple) and e[0] == "array" else e[1] if isinstance(e, tuple) else e
                for e in index
            )
            return x[i], x.at[i].set(1.0)

        return jax.jit(read)(x, arrays)

    agree(program)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "uint16", "uint32", "float16", "bfloat16", "complex64"])
def test_dtypes(dtype):
    def program(jax):
        x = operand(jax, dtype)
        i = jax.numpy.array([0, 2, 9])
        return [
            x[i],
            x[0],
            x[::-1, 1],
            x.at[i].set(1),
            x.at[0].set(1),
            x.at[i].get(mode="fill"),
            x.at[i, 0].min(1) if dtype != "complex64" else x,
        ]

    agree(program)


WRONG = {
    "too many": lambda x: x[0, 0, 0, 0],
    "float": lambda x: x[1.0],
    "string": lambda x: x["a"],
    "list": lambda x: x[[0, 1]],
    "object": lambda x: x[object()],
    "two ellipses": lambda x: x[..., ...],
    "mask of wrong size": lambda x: x[np.array([True, False])],
    "arrays that do not broadcast": lambda x: x[np.array([0, 1]), np.array([0, 1, 2])],
    "too many values": lambda x: x.at[0, 0].set(np.ones((2, 5))),
    "values that do not fit": lambda x: x.at[0, 0].set(np.ones(4)),
    "unknown mode": lambda x: x.at[0].get(mode="no"),
    "assignment": lambda x: x.__setitem__(0, 1),
    "float slice": lambda x: x[0:1.5],
    "fill value with dimensions": lambda x: x.at[9].get(mode="fill", fill_value=np.ones(2)),
    "scalar boolean": lambda x: [x[True], x[False], x[:, True]],
    "empty": lambda x: [x[()], x[[], :], x[:0]],
    "list in a tuple": lambda x: x[[0, 1], :],
    "iteration": lambda x: list(x),
    "contains": lambda x: [3 in x[0, 0], 99 in x[0, 0]],
}


@pytest.mark.parametrize("name", WRONG)
def test_odd_and_wrong_indices_agree(name):
    agree(lambda jax: WRONG[name](operand(jax)))


def test_traced_masks_and_slices_are_refused():
    agree(lambda jax: jax.jit(lambda x, m: x[m])(operand(jax), operand(jax) > 3))
    agree(lambda jax: jax.jit(lambda x, n: x[:n])(operand(jax), 2))
    agree(lambda jax: jax.jit(lambda x: x.at[x > 3].set(0.0))(operand(jax)))


def test_methods_of_at():
    def program(jax):
        x = jax.numpy.arange(6.0)
        i = jax.numpy.array([1, 1, 4, 9])
        return [
            x.at[i].add(1),
            x.at[i].multiply(3),
            x.at[i].mul(3),
            x.at[i].divide(2),
            x.at[i].power(2),
            x.at[i].subtract(1),
            x.at[i].min(0),
            x.at[i].max(9),
            x.at[i].apply(lambda v: v * 2),
            x.at[2].apply(jax.numpy.sqrt),
            x.at[-1].set(3),
            x.at[jax.numpy.array([-1])].set(3, wrap_negative_indices=False),
            x.at[10].set(1),
            x.at[10].set(1, mode="clip"),
            x.at[i].get(mode="fill", fill_value=-1),
            x.at[i].add(1, indices_are_sorted=True),
            x.astype(int).at[0].set(2),
            x.at[x > 2].set(0),
        ]

    agree(program)


@pytest.mark.filterwarnings("ignore:scatter inputs have incompatible types")
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "complex64"])
@pytest.mark.parametrize("value", [1, -1.7, np.array([-3], "int8"), np.array([0.5], "float32")], ids=repr)
def test_updates_are_computed_in_the_dtype_of_both(dtype, value):
    def program(jax):
        x, found = jax.numpy.array([0, 1, 4, 1]).astype(dtype), []
        for index in (slice(1, 3), jax.numpy.array([1, 2, 2])):
            at = x.at[index]
            found += [at.add(value), at.multiply(value), at.subtract(value), at.max(value), at.min(value)]
            found.append(at.divide(value).astype("complex64"))
        return found

    agree(program)


@pytest.mark.parametrize("method", ["add", "subtract", "multiply", "divide", "max"])
def test_updates_by_booleans(method):
    agree(lambda jax: getattr(jax.numpy.array([True, False]).at[0], method)(True))
    agree(lambda jax: getattr(jax.numpy.array([1.0, 2.0]).at[0], method)(True))


@pytest.mark.parametrize("mode", [None, "fill", "clip", "wrap"])
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_take(mode, axis):
    agree(lambda jax: jax.numpy.take(operand(jax), jax.numpy.array([[0, -1], [7, 100]]), axis=axis, mode=mode))


@pytest.mark.parametrize("indices", [[True, False], True, [1.0], 1j])
def test_take_by_what_is_no_integer(indices):
    agree(lambda jax: jax.numpy.take(operand(jax), jax.numpy.array(indices), axis=0))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_take_and_put_along_axis(axis):
    def program(jax):
        jnp = jax.numpy
        x = operand(jax)
        order = jnp.argsort(-x, axis=axis)
        far = order * 2
        return [
            jnp.take_along_axis(x, order, axis),
            jnp.take_along_axis(x, far, axis),
            jnp.take_along_axis(x, far, axis, mode="clip"),
            jnp.take_along_axis(x, order[:1], axis),
            jnp.put_along_axis(x, order, x, axis, inplace=False),
            jax.grad(lambda v: (jnp.take_along_axis(v, order, axis) * x).sum())(x),
        ]

    agree(program)


def test_selection_functions():
    def program(jax):
        jnp = jax.numpy
        x = operand(jax)[0]
        return [
            jnp.where(x > 5, x, -1),
            jnp.select([x > 5, x > 2], [x, 2 * x]),
            jnp.choose(jnp.array([0, 1, 1]), [jnp.arange(3), 5]),
            jnp.compress(jnp.array([1, 0, 1]), x, axis=0),
            jnp.extract(x > 5, x),
            jnp.place(x, x > 4, jnp.array([1.0, 2.0]), inplace=False),
            jnp.put(x, jnp.array([0, -1, 99]), jnp.array([7.0, 8.0, 9.0]), inplace=False),
            jnp.nonzero(x > 5),
            jnp.nonzero(x > 5, size=4, fill_value=-1),
            jnp.nonzero(x > 5, size=40),
            jnp.argwhere(x > 17),
            jnp.flatnonzero(x > 17),
            jnp.unravel_index(jnp.array([3, 11, 100, -1]), (3, 4)),
            jnp.ravel_multi_index((jnp.array([1, 2]), jnp.array([3, 0])), (3, 4)),
            jnp.clip(x, 3, 8),
            jnp.clip(x, None, 8),
            jnp.piecewise(x, [x < 3, x > 9], [-1.0, lambda v: v * 2, 5.0]),
            jnp.compress(jnp.array([0, 1, 1]), x, axis=0, size=2),
            jnp.where(x > 5),
            jnp.fill_diagonal(x, 1, inplace=False),
        ]

    agree(program)


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize(
    "conditions",
    [
        lambda jnp, x: [x < 0, True],
        lambda jnp, x: [x < 0, x[:2] < 1],
        lambda jnp, x: [],
        lambda jnp, x: True,
        lambda jnp, x: x < 0,
        lambda jnp, x: jnp.stack([x < 0, x > 1]),
        lambda jnp, x: [True, False],
        lambda jnp, x: np.array([[True, False, True], [False, True, True]]),
    ],
)
def test_what_may_be_a_list_of_conditions(conditions, jitted):
    def program(j):
        def f(x):
            condlist = conditions(j.numpy, x)
            return j.numpy.piecewise(
                x, condlist, [lambda v: v * 2] * (len(condlist) if hasattr(condlist, "__len__") else 1)
            )

        return (j.jit(f) if jitted else f)(j.numpy.array([-1.0, 0.5, 2.0]))

    agree(program)


OUT_OF_BOUNDS = {
    "brackets": lambda jnp, x, i: x[i],
    "several": lambda jnp, x, i: x.reshape(1, 3)[:, i],
    "scalar": lambda jnp, x, i: x[i[1]],
    "clip": lambda jnp, x, i: x.at[i].get(mode="clip"),
    "fill": lambda jnp, x, i: x.at[i].get(mode="fill", fill_value=2.0),
    "promise": lambda jnp, x, i: x.at[i].get(mode="promise_in_bounds"),
    "take": lambda jnp, x, i: jnp.take(x, i),
    "take, clip": lambda jnp, x, i: jnp.take(x, i, mode="clip"),
    "take, wrap": lambda jnp, x, i: jnp.take(x, i, mode="wrap"),
}


@pytest.mark.parametrize("name", OUT_OF_BOUNDS)
def test_derivatives_of_reads_out_of_bounds(name):
    i = np.array([0, 5, -7, 2, -1])

    def program(jax):
        def read(x):
            return OUT_OF_BOUNDS[name](jax.numpy, x, jax.numpy.asarray(i))

        x = jax.numpy.array([1.0, 2.0, 3.0])
        out, pull = jax.vjp(read, x)
        weights = jax.numpy.arange(1.0, 1 + out.size).reshape(out.shape)

        def back(v):
            return jax.grad(lambda w: (weights * read(w) ** 2).sum())(v)

        return [
            pull(weights), jax.jvp(read, (x,), (x,)), back(x), jax.jit(back)(x),
            jax.vmap(back)(jax.numpy.stack([x, -x])), jax.jvp(back, (x,), (x,)),
        ]  # fmt: skip

    agree(program)


@pytest.mark.parametrize("method", ["set", "add", "max"])
@pytest.mark.parametrize("value", [2**32 - 1, 2**32, -1, 7])
def test_numbers_that_unsigned_arrays_hold(method, value):
    """Python's integers are int32, which holds fewer, but where an array has room for them."""
    agree(lambda jax: getattr(jax.numpy.ones(2, "uint32").at[0], method)(value))


COMPLEX = {
    "a part": lambda jax, z: z.at[:, 1:3].set(z[:, :2] * 2j),
    "all": lambda jax, z: z.at[:].set(z * 2j),
    "nothing": lambda jax, z: z.at[:, 1:1].set(2j),
    "an index": lambda jax, z: z.at[1, 2].multiply(z[0, 0]),
    "with steps": lambda jax, z: z.at[:, ::2].set(z[:, 1:3]),
    "backwards": lambda jax, z: z.at[:, ::-1].add(z * 1j),
    "a window": lambda jax, z: jax.lax.dynamic_update_slice(z, z[:1, :2] * 3, (1, 1)),
    "in a loop": lambda jax, z: jax.lax.fori_loop(0, 3, lambda i, c: c.at[:, 1:3].set(c[:, :2] * 1j), z),
}


@pytest.mark.parametrize("update", COMPLEX.values(), ids=COMPLEX)
@pytest.mark.parametrize("jitted", [False, True])
def test_updates_of_complex_numbers_have_derivatives(update, jitted):
    z = (np.arange(8, dtype=np.float32).reshape(2, 4) - 3) * np.complex64(1 + 2j)

    def program(jax, z):
        f = lambda z: update(jax, z)
        f = jax.jit(f) if jitted else f
        _, back = jax.vjp(f, z)
        rows = jax.vmap(lambda z: jax.vjp(f, z)[1](z * 1j)[0])(jax.numpy.stack([z, 2 * z]))
        return f(z), jax.jvp(f, (z,), (z * 1j,)), back(z + 1j), rows

    agree(program, z)


def test_unravel_index_of_shapes_that_are_traced():
    def program(j):
        unravel, flat = j.numpy.unravel_index, np.array([0, 7, -1, -13, 23, 50, -50])
        traced = j.jit(unravel)
        return [
            traced(flat, (4, 3)), traced(flat, np.array([4, 3])), traced(5, (0, 2)), traced(7, 5), unravel(flat, j.numpy.array([4, 3])),
            traced(np.int8(7), (np.int16(4), 3)), traced(np.uint8(200), (np.int8(4), np.int8(3))), unravel(np.int8(-5), (300, 2)),
            unravel(5, (-1, 2)), unravel(5, ()), traced(2.5, (4.0, 3)),
            j.vmap(unravel)(np.arange(3), np.array([[4, 3], [2, 2], [1, 5]])),
        ]  # fmt: skip

    agree(program)
    agree(lambda j: j.numpy.unravel_index(7, np.array([[4, 3]])))
