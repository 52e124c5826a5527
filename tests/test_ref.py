"""References to mutable arrays: what they hold afterwards, and what functions with them give, is what JAX says."""

import jax
import numpy as np
import pytest
from oracle import agree

import jaxish


def held(j, value, use, *, kind=None):
    """Return what `use` gives for a reference, and what that holds then."""
    ref = j.new_ref(j.numpy.asarray(value), kind=kind)
    return use(ref), ref[...]


THREE = np.arange(3.0, dtype=np.float32)
TABLE = np.arange(12.0, dtype=np.float32).reshape(3, 4)
CUBE = np.arange(24, dtype=np.int32).reshape(2, 3, 4)

READS = [
    (THREE, np.s_[...]), (THREE, np.s_[()]), (THREE, 1), (THREE, -1), (THREE, np.int32(2)), (THREE, np.s_[1:]), (THREE, np.s_[::2]),
    (THREE, np.s_[1:9]), (THREE, np.s_[2:1]), (THREE, np.s_[-2:]), (TABLE, 1), (TABLE, np.s_[1, :]), (TABLE, np.s_[:, 1]),
    (TABLE, np.s_[..., 0]), (TABLE, np.s_[1, 2]), (TABLE, (np.array([0, 1]), 1)), (TABLE, (1, np.array([0, 3]))),
    (TABLE, (np.array([0, 2]), slice(None))), (TABLE, (np.array([0, 2]), np.array([1, 3]))),
    (CUBE, (np.array([0, 1]), slice(None), np.array([0, 1]))), (CUBE, (slice(None), np.array([[0], [1]]), np.array([0, 1]))),
    (CUBE, (np.array([0, 1]), Ellipsis, np.array([0, 3]))), (THREE, np.array([-1, 0])), (THREE, np.array([7, 0])),
    (THREE, np.array([-7, 1])), (THREE, True), (THREE, np.array(1)),
]  # fmt: skip
WRONG_INDICES = [
    (THREE, 3), (THREE, np.array(5)), (THREE, np.s_[::-1]), (THREE, np.s_[0, 0]), (THREE, np.s_[..., ...]),
    (THREE, np.array([True, False, True])), (TABLE, np.s_[0, 4]), (TABLE, np.s_[..., 4]),
]  # fmt: skip


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("case", range(len(READS)))
def test_elements_are_read_written_and_added_to(case, jit):
    value, index = READS[case]
    wrap = (lambda j: j.jit) if jit else (lambda j: lambda f: f)

    def program(j):
        new = j.numpy.asarray(value)[index] * 2 + 1 if not isinstance(index, bool) else j.numpy.float32(9)

        def write(ref):
            ref[index] = new

        def add(ref):
            j.ref.addupdate(ref, index, new)

        return [
            held(j, value, wrap(j)(lambda ref: ref[index])), held(j, value, wrap(j)(write)), held(j, value, wrap(j)(add)),
            held(j, value, wrap(j)(lambda ref: (j.ref.get(ref, index), j.ref.swap(ref, index, new)))),
            held(j, value, wrap(j)(lambda ref: j.ref.set(ref, index, new))),
        ]  # fmt: skip

    agree(program)


@pytest.mark.parametrize("case", range(len(WRONG_INDICES)))
def test_indices_out_of_bounds_are_refused(case):
    value, index = WRONG_INDICES[case]
    agree(lambda j: j.new_ref(j.numpy.asarray(value))[index])


def test_indices_may_be_traced():
    def program(j):
        def use(ref, i):
            ref[i] = ref[i] + 10
            ref[i, 1:3] *= 2
            ref[i, j.numpy.arange(2)] += i.astype(j.numpy.float32)
            return ref[i], ref[:, i]

        return [held(j, TABLE, lambda ref: j.jit(use)(ref, j.numpy.int32(i))) for i in (0, 2, -1, 7, -9)]

    agree(program)


VALUES = [
    lambda n: 1.0, lambda n: 1, lambda n: 2.5j, lambda n: True, lambda n: np.float64(2), lambda n: np.int8(3),
    lambda n: n.int32(3), lambda n: n.float16(3), lambda n: n.bfloat16(3), lambda n: [1.0], lambda n: n.ones(1),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "uint8", "bool", "complex64"])
@pytest.mark.parametrize("case", range(len(VALUES)))
def test_only_values_of_the_references_type_are_written(case, dtype):
    def written(j, write):
        ref = j.new_ref(j.numpy.zeros((), dtype))
        write(ref, VALUES[case](j.numpy))
        return ref[...]

    agree(lambda j: written(j, lambda ref, v: j.ref.set(ref, ..., v)), weak=False)
    agree(lambda j: written(j, lambda ref, v: j.ref.addupdate(ref, ..., v)), weak=False)


@pytest.mark.parametrize("shape", [(), (1,), (4,), (2, 3)])
def test_values_are_not_broadcast(shape):
    agree(lambda j: j.ref.set(j.new_ref(j.numpy.zeros(3)), ..., j.numpy.ones(shape)))
    agree(lambda j: j.ref.addupdate(j.new_ref(j.numpy.zeros(3)), ..., j.numpy.ones(shape)))
    agree(lambda j: j.ref.set(j.new_ref(j.numpy.zeros(3)), slice(0, 2), j.numpy.ones(shape)))


def test_what_a_reference_is():
    def program(j):
        ref = j.new_ref(j.numpy.asarray(TABLE))
        of_jit = j.jit(lambda r: (isinstance(r, j.Ref), r.shape, len(r), str(r.aval)) and r[...] * r.ndim)(ref)
        facts = [ref.shape, ref.ndim, ref.size, len(ref), str(ref.dtype), str(ref.aval), str(j.typeof(ref)), ref == ref]
        kinds = [isinstance(ref, j.Ref), isinstance(ref, j.Array), isinstance(j.numpy.ones(2), j.Ref)]
        return facts, kinds, of_jit, repr(j.new_ref(j.numpy.arange(3))), repr(j.new_ref(j.numpy.float32(2)))

    agree(program)


@pytest.mark.parametrize(
    "use",
    [
        lambda j, r: r + 1, lambda j, r: j.numpy.sin(r), lambda j, r: float(r), lambda j, r: len(j.new_ref(1.0)),
        lambda j, r: j.ref.get(j.numpy.ones(2), 0), lambda j, r: j.ref.swap(j.numpy.ones(2), 0, 1.0),
        lambda j, r: j.ref.set(3, 0, 1.0), lambda j, r: j.new_ref([1.0, 2.0]), lambda j, r: r.__setitem__(0, j.new_ref(1.0)),
        lambda j, r: j.new_ref(1.0, memory_space="x"),
    ],
)  # fmt: skip
def test_what_a_reference_is_not(use):
    agree(lambda j: use(j, j.new_ref(j.numpy.ones(2))))


def test_keys_are_held():
    def program(j):
        key = j.new_ref(j.random.key(0))

        def draw():
            key[...], own = j.random.split(key[...])
            return j.random.uniform(own)

        return draw(), j.jit(draw)(), j.random.key_data(key[...])

    agree(program)


def test_parts_are_read_and_written():
    def use(r):
        first = r.at[1:].at[0]
        first[...] = first[...] + 1
        r.at[:, 1][1:] += 2
        swapped = r.at[0].swap(r[2])
        r.set(r.get((0, 0)) * 3, (0, 0))
        r.addupdate(r[2], 1)
        return swapped, first[...], first.shape

    agree(lambda j: held(j, TABLE, j.jit(use)))


def test_other_shapes_of_a_reference_are_read_and_written():
    ref, wanted = jaxish.new_ref(jaxish.numpy.asarray(TABLE)), TABLE.copy()  # JAX lowers these for its kernels only

    @jaxish.jit
    def use(r):
        r.T[0] = r.transpose((1, 0))[1]
        r.reshape(4, 3)[0] = r.reshape(2, -1)[1, :3]
        r.at[1].reshape(2, 2).T[1] += 1.0
        return r.reshape(12)[3:]

    found = use(ref)
    wanted.T[0] = wanted.T[1]
    wanted.reshape(4, 3)[0] = wanted.reshape(2, -1)[1, :3]
    wanted[1].reshape(2, 2).T[1] += 1.0
    np.testing.assert_array_equal(found, wanted.reshape(12)[3:])
    np.testing.assert_array_equal(ref[...], wanted)


# ------------------------------------------------------------------------------------------------------ traced functions


def count(ref):
    ref[...] += 1.0


def within_jit(j, r):
    def body():
        count(r)
        inner = j.new_ref(r[...] * 2)
        inner[...] *= r[...]
        return j.freeze(inner)

    f = j.jit(body)
    return f(), f(), j.jit(j.jit(body))()


def in_pytrees(j, r):
    other = j.new_ref(j.numpy.zeros(2))

    def body(refs, x):
        refs["a"][...] += x
        refs["b"][0][0] = x
        return refs["b"][0][...] + refs["a"][...]

    return j.jit(body)({"a": r, "b": [other]}, 3.0), other[...]


def in_scan(j, r):
    def body(c, x):
        r[...] += x
        return c + r[...], r[...] * 2

    return j.lax.scan(body, 0.0, j.numpy.arange(4.0))


def over_scanned(j, r):
    rows = j.new_ref(j.numpy.asarray(TABLE))

    def body(c, row):
        row[...] = row[...] + c
        row[0] *= r[...]
        count(r)
        return c + 1, row[...].sum()

    return j.lax.scan(body, 0.0, rows, reverse=True), rows[...]


def in_loops(j, r):
    def step(i, c):
        r[...] = r[...] * 2 + i
        return c + r[...]

    def dynamic(n):
        return j.lax.fori_loop(0, n, step, 0.0)

    return (
        j.lax.fori_loop(0, 3, step, 0.0),
        j.jit(dynamic)(3),
        j.lax.while_loop(lambda c: c < 5, lambda c: step(1, c), 0.0),
    )


def in_branches(j, r):
    def use(p):
        return j.lax.cond(p, lambda: count(r), lambda: r.addupdate(j.numpy.float32(10)))

    def choose(i, s):
        return j.lax.switch(i, [lambda s: count(s), lambda s: None, lambda s: s.addupdate(s[...])], s)

    other = j.new_ref(j.numpy.float32(3))
    for i in range(3):
        choose(i, other)
        j.jit(choose)(i, other)
    return use(True), j.jit(use)(False), other[...]


def in_nested(j, r):
    def outer(c, x):
        j.jit(count)(r)

        def inner(c, y):
            j.lax.cond(y > 1, lambda: r.addupdate(x), lambda: None)
            return c * r[...], y

        return j.lax.scan(inner, c, j.numpy.arange(3.0))

    return j.jit(lambda: j.lax.scan(outer, 1.0, j.numpy.arange(2.0)))()


def in_map(j, r):
    return j.lax.map(lambda x: (r.addupdate(x), r[...])[1], j.numpy.arange(3.0))


def shared_between_programs(j, r):
    f, g = j.jit(lambda: count(r)), j.jit(lambda s: count(s))
    for call in (f, lambda: g(r)) * 2:
        call()
    return j.jit(lambda: r[...])()


def empty_and_freed(j, r):
    def body(x):
        new = j.empty_ref(j.ShapeDtypeStruct((2,), "float32"))
        new[...] = x
        result = new[0]
        j.free_ref(new)
        return result

    return j.jit(body)(j.numpy.arange(2.0))


def shared_value(j, r):
    x = j.numpy.float32(1.0)
    one, two = j.new_ref(x), j.new_ref(x)

    def body():
        one[...] += x
        return one[...] + two[...] + x

    f = j.jit(body)
    return f(), f(), x, one[...], two[...]


def ahead_of_time(j, r):
    compiled = (
        j.jit(lambda s, x: (count(s), s[...] + r[...] * x)[1])
        .lower(j.ShapeDtypeStruct((), "float32", is_ref=True), 2.0)
        .compile()
    )
    other = j.new_ref(j.numpy.float32(3))
    return compiled(other, 2.0), compiled(other, 4.0), other[...]


PROGRAMS = [
    within_jit, in_pytrees, in_scan, over_scanned, in_loops, in_branches, in_nested, in_map, shared_between_programs,
    empty_and_freed, shared_value, ahead_of_time,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS)
def test_functions_read_and_write(program):
    agree(lambda j: held(j, np.float32(1.5), lambda ref: program(j, ref)), weak=False)


@pytest.mark.parametrize("program", [in_scan, over_scanned, in_loops, in_nested, in_map])
def test_functions_read_and_write_within_jit(program):
    agree(lambda j: held(j, np.float32(1.5), j.jit(lambda ref: program(j, ref))), weak=False)


def test_without_jit_functions_read_and_write():
    def program(j):
        with j.disable_jit():
            return held(j, np.float32(0), lambda ref: (j.jit(lambda r: (count(r), r[...])[1])(ref), in_map(j, ref)))

    agree(program, weak=False)


def test_a_predicate_sees_what_the_body_writes():
    ref = jaxish.new_ref(jaxish.numpy.float32(0))  # JAX refuses a loop whose predicate and body both use one
    steps = jaxish.lax.while_loop(lambda i: ref[...] < 4, lambda i: (count(ref), i + 1)[1], 0)
    assert (int(steps), float(ref[...])) == (4, 4.0)


# ----------------------------------------------------------------------------------------------------- transformations


def square_in_place(j, x):
    r = j.new_ref(x)
    r[...] = r[...] * r[...]
    return j.numpy.sin(r[...]).sum()


def built_in_scan(j, x):
    r = j.new_ref(x)

    def body(c, _):
        r[...] = j.numpy.sin(r[...]) + r[...]
        return c + r[...].sum(), None

    return j.lax.scan(body, 0.0, None, length=3)[0]


def inner_jit(j, x):
    r = j.new_ref(x)

    @j.jit
    def step():
        r[...] = j.numpy.sin(r[...]) + r[...]

    step()
    step()
    return j.freeze(r).sum()


def partly(j, x):
    r = j.new_ref(j.numpy.ones(5))
    r.addupdate(x * x, slice(1, 4))
    j.ref.swap(r, slice(0, 2), x[:2] * r[2])
    return (r[...] ** 2).sum()


def branched(j, x):
    r = j.new_ref(x)
    j.lax.cond(x.sum() > 0, lambda: r.__setitem__(..., r[...] ** 2), lambda: None)
    return r[...].sum()


def rows_scanned(j, x):
    rows = j.new_ref(x)

    def body(c, row):
        row[...] = row[...] * c
        return c + row[...], None

    out, _ = j.lax.scan(body, 2.0, rows)
    return out + rows[...].sum()


PURE = [square_in_place, built_in_scan, inner_jit, partly, branched, rows_scanned]


@pytest.mark.parametrize("f", PURE)
@pytest.mark.parametrize("outer", ["plain", "jit", "remat"])
def test_functions_with_references_within_have_derivatives(f, outer):
    if outer == "remat" and f in (partly, branched):
        pytest.skip("JAX 0.10.2 fails")

    def program(j):
        wrap = {"plain": lambda g: g, "jit": j.jit, "remat": j.checkpoint}[outer]
        g = wrap(lambda x: f(j, x))
        x = j.numpy.asarray(THREE + 0.5)
        return j.value_and_grad(g)(x), j.jvp(g, (x,), (x * 2,)), j.jit(j.grad(g))(x), j.vjp(g, x)[0]

    agree(program, weak=False)


@pytest.mark.parametrize("f", [square_in_place, built_in_scan, inner_jit, partly])
def test_functions_with_references_within_are_mapped(f):
    def program(j):
        batch = j.numpy.asarray(TABLE[:, :3] / 7)
        g = lambda x: f(j, x)
        return j.vmap(g)(batch), j.jit(j.vmap(g))(batch), j.vmap(j.jit(g))(batch), j.vmap(j.grad(g))(batch)

    agree(program, weak=False)


def test_second_derivatives_with_references_within():
    def without(x):  # JAX 0.10.2 fails with references
        for _ in range(2):
            x = jax.numpy.sin(x) + x
        return x

    x = np.float32(0.7)
    for wrap in (lambda f: f, jaxish.jit, jaxish.checkpoint):
        found = jaxish.grad(jaxish.grad(wrap(lambda x: inner_jit(jaxish, x))))(x)
        np.testing.assert_allclose(found, jax.grad(jax.grad(without))(x), rtol=1e-5)


def test_references_are_mapped():
    def program(j):
        table, row = j.new_ref(j.numpy.asarray(TABLE)), j.new_ref(j.numpy.asarray(THREE))

        def f(r, x, whole):
            r[1:] += x
            r[0] = whole[...].sum()
            return r[...] * 2

        first = j.vmap(f, in_axes=(0, 0, None))(table, THREE, row)
        return first, j.jit(j.vmap(f, in_axes=(0, 0, None)))(table, THREE, row), table[...], row[...]

    agree(program)


def test_mapped_functions_write_and_make_references():
    def program(j):
        fill = j.new_ref(j.numpy.zeros(3))
        j.vmap(lambda r: r.__setitem__(..., 1.0))(fill)
        made = j.vmap(lambda x: {"a": j.new_ref(x * 2), "b": x})(j.numpy.asarray(THREE))
        made["a"][0] = 5.0
        return fill[...], made["a"][...], made["b"], j.jit(lambda x: j.vmap(j.new_ref)(x)[1:])(THREE)

    agree(program)


def test_a_references_tangent_is_a_reference():
    def program(j, f):
        value, tangent = j.new_ref(j.numpy.float32(3)), j.new_ref(j.numpy.float32(1))
        return j.jvp(f, (value, 2.0), (tangent, 0.5)), value[...], tangent[...]

    def square(r, x):
        r[...] = r[...] ** 2 * x
        return r[...] * 2

    agree(program, lambda r, x: r[...] * x, weak=False)
    agree(program, square, weak=False)
    agree(lambda j: program(j, j.jit(square)), weak=False)
    agree(lambda j: j.jvp(lambda r: r[...] * 2.0, (j.new_ref(3),), (np.zeros((), jax.dtypes.float0),)), weak=False)


@pytest.mark.parametrize("jit", [False, True])
def test_values_without_derivatives_are_written(jit):
    def program(j):
        steps, last = j.new_ref(0), j.new_ref(j.numpy.float32(0), kind="no_grad_no_remat")

        def f(x):
            def body(c, _):
                steps[...] += 1
                return c * x, None

            last[...] = x
            return j.lax.scan(body, x, None, length=3)[0]

        f = j.jit(f) if jit else f
        return (
            j.grad(f)(2.0),
            j.jvp(f, (2.0,), (1.0,))[1],
            j.vmap(j.checkpoint(lambda x: x * steps[...]))(THREE),
            steps[...],
            last[...],
        )

    agree(program, weak=False)


def counting(j, r, x):
    count(r)
    return x * x


def counting_in_scan(j, r, x):
    return j.lax.scan(lambda c, _: (counting(j, r, c), None), x, None, length=2)[0]


def counting_in_branch(j, r, x):
    return j.lax.cond(True, lambda: counting(j, r, x), lambda: x)


def counting_in_loop(j, r, x):
    return j.lax.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, counting(j, r, c[1])), (0, x))[1]


@pytest.mark.parametrize("f", [counting, counting_in_scan, counting_in_branch, counting_in_loop])
@pytest.mark.parametrize("jit", [False, True])
def test_floats_that_do_not_depend_on_what_is_transformed_are_written(f, jit):
    def program(j):
        def of(use):
            wrap = j.jit if jit else lambda g: g
            return held(j, np.float32(0), lambda r: use(wrap(lambda x: f(j, r, x))))

        pushed = of(lambda g: j.jvp(g, (2.0,), (1.0,)))
        return pushed, None if f is counting_in_loop else of(lambda g: j.grad(g)(2.0))

    agree(program, weak=False)


def test_checkpointed_functions_write_once():
    def program(j):
        ref = j.new_ref(1.0, kind="no_grad_no_remat")

        def f(y, r):
            out = j.numpy.sin(y * y)
            r[...] += out
            return out * r[...]

        return j.grad(j.checkpoint(f))(2.0, ref), ref[...], j.grad(j.jit(j.checkpoint(f)))(2.0, ref), ref[...]

    agree(program, weak=False)


# ---------------------------------------------------------------------------------------- backward rules with references


def stash(j):
    """Return the identity of its first argument, whose cotangent is added to its second."""

    @j.custom_vjp
    def identity(x, ref):
        return x

    def bwd(ref, g):
        ref[...] = ref[...] + g
        return g, None

    identity.defvjp(lambda x, ref: (x, ref), bwd)
    return identity


def stepped(j):
    """Return a function that tells by what it adds to a reference which of its parts have run."""

    @j.custom_vjp
    def f(x, ref):
        ref[...] += 1.0
        return x * 2

    def fwd(x, ref):
        ref[...] += 10.0
        return x * 2, ref

    def bwd(ref, g):
        ref[...] += 100.0
        return g * 3, None

    f.defvjp(fwd, bwd)
    return f


def scanned(j, f):
    return lambda x, r: j.lax.scan(lambda c, _: (j.numpy.sin(f(c, r)), None), x, None, length=3)[0]


PLUMBED = {
    "plain": lambda j, w, f, r: j.grad(w(lambda x, r: j.numpy.sin(f(x * x, r))))(2.0, r),
    "closed over": lambda j, w, f, r: j.grad(w(lambda x: j.numpy.sin(f(x * x, r))))(2.0),
    "jit": lambda j, w, f, r: j.jit(j.grad(w(lambda x, r: j.numpy.sin(f(x * x, r)))))(2.0, r),
    "scan": lambda j, w, f, r: j.grad(w(scanned(j, f)))(2.0, r),
    "jit of scan": lambda j, w, f, r: j.jit(j.grad(w(scanned(j, f))))(2.0, r),
    "used around": lambda j, w, f, r: j.jit(lambda x, r: (count(r), j.grad(w(scanned(j, f)))(x, r), r[...], count(r)))(
        2.0, r
    ),
    "made within": lambda j, w, f, r: j.jit(
        lambda x: (lambda s: (j.grad(w(scanned(j, f)))(x, s), s[...]))(j.new_ref(x))
    )(2.0),
    "vjp": lambda j, w, f, r: j.vjp(lambda x: w(scanned(j, f))(x, r), 2.0)[1](1.0),
    "forward only": lambda j, w, f, r: w(lambda x, r: f(x, r) * 2)(2.0, r),
    "read after": lambda j, w, f, r: j.grad(w(lambda x, r: f(x, r) * r[...]))(2.0, r),
    "twice": lambda j, w, f, r: [j.grad(w(lambda x, r: f(f(x, r), r)))(2.0, r) for _ in range(2)],
}


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("make", [stash, stepped])
@pytest.mark.parametrize("case", PLUMBED)
def test_backward_rules_write_references(case, make, jit):
    def program(j):
        wrap = j.jit if jit else lambda f: f
        return held(j, np.float32(0.5), lambda r: PLUMBED[case](j, wrap, make(j), r))

    agree(program, weak=False)


@pytest.mark.parametrize("jit", [False, True])
def test_backward_rules_write_mapped_references(jit):
    def program(j):
        wrap = j.jit if jit else lambda f: f
        x = j.numpy.asarray(THREE)
        uses = [
            lambda f, r: j.vmap(j.grad(wrap(lambda x, r: f(x, r) * x)))(x, r),
            lambda f, r: j.grad(wrap(lambda x: (j.vmap(f)(x, r) * x).sum()))(x),
            lambda f, r: j.jit(j.vmap(j.grad(wrap(scanned(j, f)))))(x, r),
        ]
        found = [held(j, THREE, lambda r: use(make(j), r)) for use in uses for make in (stash, stepped)]
        rows = held(j, TABLE, lambda r: j.vmap(j.vmap(j.grad(wrap(stash(j)))))(j.numpy.asarray(TABLE), r))
        return found, rows

    agree(program, weak=False)


def test_cotangents_are_added_to_references():
    def program(j):
        x, w = j.numpy.asarray(THREE), j.numpy.float32(3)
        total, part = j.new_ref(j.numpy.ones(3)), j.new_ref(j.numpy.float32(0))
        _, pull = j.vjp(lambda x, w: (j.numpy.sin(x) * w).sum(), x, w)
        pull.with_refs(total, part)(j.numpy.float32(2))
        pull.with_refs(total, object())(j.numpy.float32(1))
        return total[...], part[...]

    agree(program, weak=False)


@pytest.mark.parametrize("jit", [False, True])
def test_places_say_what_becomes_of_cotangents(jit):
    def program(j):
        total = j.new_ref(j.numpy.ones(3))
        x, n = j.numpy.asarray(THREE), j.numpy.arange(3)
        _, pull = j.vjp(lambda args, n: (j.numpy.sin(args["a"]) * args["b"] * n).sum(), {"a": x, "b": x}, n)

        def pulled(*places):
            call = lambda: pull.with_refs(*places)(j.numpy.float32(2))
            found = j.jit(call)() if jit else call()
            answers = [found[0]["a"], found[0]["b"], found[1]]
            return j.tree.leaves(found), [type(a).__name__ for a in answers if not hasattr(a, "dtype")]

        ad = j.ad
        return (
            pulled({"a": total, "b": ad.DontWant()}, ad.GradValue()),
            pulled({"a": ad.GradValue(), "b": total}, ad.DontWant()),
            pulled({"a": ad.DontWant(), "b": 3}, total),
            ad.GradRef() == ad.GradRef(),
            ad.DidntWant() == ad.DontWant(),
            total[...],
        )

    agree(program, weak=False)


def test_a_cotangent_that_is_not_wanted_is_not_computed():
    def program(j):
        x = j.numpy.asarray(THREE)
        _, pull = j.vjp(lambda x, y: j.numpy.sin(x) * y, x, x)
        cost = lambda place: len(j.make_jaxpr(lambda: pull.with_refs(place, j.ad.GradValue())(x))().eqns)
        return cost(j.ad.DontWant()) < cost(j.ad.GradValue())

    agree(program)


def test_places_are_a_tree_like_the_arguments():
    def program(j):
        _, pull = j.vjp(lambda x: x["a"] * x["b"], {"a": 1.0, "b": 2.0})
        try:
            pull.with_refs(j.ad.DontWant())(1.0)
        except Exception:
            return "refused"

    agree(program)


def test_a_reference_carries_a_derivative_into_a_custom_rule():
    def program(j):
        @j.custom_vjp
        def f(r):
            return r[...]

        f.defvjp(lambda r: (f(r), None), lambda _, g: (g * 5,))
        return f(j.new_ref(3.0)), j.grad(lambda x: f(j.new_ref(x * x)))(3.0), j.jit(f)(j.new_ref(2.0))

    agree(program, weak=False)


# ------------------------------------------------------------------------------------------------------------- errors


def leaked(j):
    found = []
    j.jit(lambda x: found.append(j.new_ref(x)))(1.0)
    return found[0][...]


def made_in_fwd(j, r):
    @j.custom_vjp
    def f(x, r):
        return x

    f.defvjp(lambda x, r: (x, j.new_ref(0)), lambda r, g: (g, None))
    return j.vjp(f, 3.0, r)


def returned_by_rule(j, r):
    f = j.custom_vjp(lambda r: r)
    f.defvjp(lambda r: ..., lambda *_: ...)
    return f(r)


ERRORS = {
    "traced for jit returned a mutable array reference.*\n\n.*was created on line": [lambda j, r: j.jit(j.new_ref)(1.0)],
    "traced for jit returned a mutable array reference.*result\\['a'\\].*\n\n.*passed in as the argument s": [
        lambda j, r: j.jit(lambda s: {"a": s})(r)
    ],
    "returned a mutable array reference": [
        lambda j, r: j.jit(lambda: r)(), lambda j, r: j.lax.scan(lambda c, x: (c, r), 0, THREE),
        lambda j, r: j.lax.cond(True, lambda: r, lambda: r), lambda j, r: j.lax.cond(True, lambda s: s, lambda s: s, r),
        lambda j, r: j.lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1]), (0, r)),
        lambda j, r: j.lax.fori_loop(0, 2, lambda i, s: s, r), lambda j, r: j.eval_shape(j.new_ref, 3.0),
        lambda j, r: returned_by_rule(j, r), lambda j, r: j.jit(lambda r: returned_by_rule(j, r))(r),
    ],
    "appeared at both x and y": [
        lambda j, r: j.jit(lambda x, y: x[...] + y[...])(r, r), lambda j, r: j.vmap(lambda x, y: None)(r, r),
        lambda j, r: j.lax.cond(True, lambda x, y: None, lambda x, y: None, r, r),
    ],
    "appeared at both c\\[0\\] and c\\[1\\]": [lambda j, r: j.lax.scan(lambda c, _: (None, None), (r, r), None, length=1)],
    "closed over and passed as the argument s": [
        lambda j, r: j.jit(lambda s: r[...] + s[...])(r),
        lambda j, r: j.lax.cond(True, lambda s: s[...] + r[...], lambda s: s[...], r),
        lambda j, r: j.lax.scan(lambda s, _: (s[...] + r[...], None), r, None, length=1),
    ],
    "unbatched array reference": [
        lambda j, r: j.vmap(lambda x: r.addupdate(j.numpy.ones(3) * x))(THREE),
        lambda j, r: j.vmap(j.jit(lambda x: r.__setitem__(..., r[...] * x)))(THREE),
        lambda j, r: j.vmap(lambda x: counting(j, j.new_ref(r[0]), x) * (r.__setitem__(0, 1.0) or 1))(THREE),
        lambda j, r: j.vmap(j.jit(lambda x: r.__setitem__(0, 1.0)))(THREE),
        lambda j, r: j.vmap(lambda s, x: s.__setitem__(..., s[...] + 1), in_axes=(None, 0))(r, THREE),
    ],
    "Move the array reference": [
        lambda j, r: j.jvp(lambda x: (r.__setitem__(0, x), x)[1], (1.0,), (1.0,)),
        lambda j, r: j.grad(lambda x: (r.__setitem__(0, x), x)[1])(1.0),
        lambda j, r: j.grad(j.jit(lambda x: (r.__setitem__(0, x), x)[1]))(1.0),
    ],
    "must be called on `Ref` types": [
        lambda j, r: j.jit(lambda x: (lambda s: (j.freeze(s), s[...]))(j.new_ref(x)))(1.0),
        lambda j, r: j.jit(lambda x: (lambda s: (j.free_ref(s), s[...]))(j.new_ref(x)))(1.0),
        lambda j, r: j.jit(lambda x: (lambda s: (j.freeze(s), s.__setitem__(..., x)))(j.new_ref(x)))(1.0),
    ],
    "Encountered an unexpected tracer": [lambda j, r: leaked(j)],
    "custom_vjp fwd function": [made_in_fwd],
}  # fmt: skip


@pytest.mark.parametrize(("phrase", "case"), [(p, i) for p, cases in ERRORS.items() for i in range(len(cases))])
def test_aliases_and_escapes_are_refused_in_jaxs_words(phrase, case):
    for j in (jax, jaxish):
        with pytest.raises(Exception, match=phrase):
            ERRORS[phrase][case](j, j.new_ref(j.numpy.asarray(THREE)))


def test_what_cannot_work_is_refused():
    ref = jaxish.new_ref(jaxish.numpy.ones(3))
    rule = jaxish.custom_jvp(lambda r: r[...])
    rule.defjvp(lambda primals, tangents: (primals[0][...], tangents[0]))
    with pytest.raises(NotImplementedError, match="while_loop writes a mutable array reference"):
        jaxish.lax.while_loop(lambda i: (ref.addupdate(ref[...]), i < 3)[1], lambda i: i + 1, 0)
    with pytest.raises(NotImplementedError, match="takes a mutable array reference"):
        jaxish.jit(rule)(ref)
    with pytest.raises(NotImplementedError, match="closure_convert of a function that closes over"):
        jaxish.closure_convert(lambda x: x + ref[...], 1.0)
