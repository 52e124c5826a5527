"""vmap against JAX: axes, pytrees, names, bad input."""

import importlib

import numpy as np
import pytest
from oracle import agree

from jaxish._transforms import vmappables

X = np.arange(12.0, dtype=np.float32).reshape(3, 4)


def shapes(j, tree):
    """Return a tree with what types say in their place."""
    is_type = lambda leaf: isinstance(leaf, j.ShapeDtypeStruct)
    return j.tree.map(lambda leaf: (leaf.shape, str(leaf.dtype)) if is_type(leaf) else leaf, tree)


VALUES = {
    "rows": lambda j: j.vmap(lambda r: r.sum())(X),
    "columns": lambda j: j.vmap(lambda r: r.sum(), in_axes=1)(X),
    "negative axis": lambda j: j.vmap(lambda r: r * 2, in_axes=-1, out_axes=-1)(X),
    "out axis": lambda j: j.vmap(lambda r: r * 2, out_axes=1)(X),
    "unmapped argument": lambda j: j.vmap(lambda x, y: x * y, (0, None))(X, X),
    "unmapped result": lambda j: j.vmap(lambda x: (x, 3.0), out_axes=(0, None))(X),
    "constant result": lambda j: j.vmap(lambda x: 1)(X),
    "axes of a pytree": lambda j: j.vmap(lambda p, s: p["a"] * p["b"] + s, ({"a": 0, "b": None}, None))(
        {"a": X, "b": X[0]}, 2.0
    ),
    "axes as a prefix": lambda j: j.vmap(lambda p, x: p["a"] * x, (None, 0))({"a": X[0]}, X),
    "axes as a list": lambda j: j.vmap(lambda x, y: x * y, [0, None])(X, 2.0),
    "out axes of a pytree": lambda j: j.vmap(lambda x: {"u": x, "v": (x, x.sum())}, out_axes={"u": 1, "v": (0, 0)})(X),
    "keyword arguments": lambda j: j.vmap(lambda x, *, y: x * y)(X, y=X),
    "axis size alone": lambda j: j.vmap(lambda: 3.0, axis_size=4)(),
    "a stand-in that is asked for its shape": lambda j: j.vmap(lambda x, y: x * y.shape[0] + y.ndim, (0, 1))(
        X, j.ShapeDtypeStruct((5, 3, 2), "int8")
    ),
    "a stand-in in nested calls": lambda j: j.vmap(j.vmap(lambda x, y: x * y.size))(
        X, j.ShapeDtypeStruct((3, 4, 2), "int8")
    ),
    "a stand-in of another size": lambda j: j.vmap(lambda x, y: x)(X, j.ShapeDtypeStruct((4,), "int8")),
    "a stand-in that comes back": lambda j: shapes(
        j, j.vmap(lambda x, y: (x, y), (0, -1), (0, 1))(X, j.ShapeDtypeStruct((4, 3), "int8"))
    ),
    "a type that is returned": lambda j: shapes(
        j, j.vmap(lambda x: (x, j.ShapeDtypeStruct((4,), "int8")), out_axes=(0, None))(X)
    ),
    "the type of a batch": lambda j: shapes(
        j, j.eval_shape(j.vmap(lambda x: (x, j.ShapeDtypeStruct((4, 2), "int8")), out_axes=(0, -1)), X)
    ),
    "a type that is returned, to be repeated": lambda j: j.vmap(lambda x: j.ShapeDtypeStruct((4,), "int8"))(X),
    "a stand-in that comes back unmapped": lambda j: j.vmap(lambda x: x, out_axes=None)(
        j.ShapeDtypeStruct((4,), "int8")
    ),
    "a stand-in that is computed with": lambda j: j.vmap(lambda x, y: x + y)(X, j.ShapeDtypeStruct((3,), "int8")),
    "unmapped python number stays one": lambda j: j.vmap(lambda x, n: x * n if isinstance(n, int) else 0, (0, None))(
        X, 3
    ),
    "nested": lambda j: j.vmap(j.vmap(lambda x: x * x))(X),
    "outer product": lambda j: j.vmap(j.vmap(lambda x, y: x * y, (0, None)), (None, 0))(X[0], X[1]),
    "jit": lambda j: j.jit(j.vmap(lambda r: r / r.max()))(X),
    "of jit": lambda j: j.vmap(j.jit(lambda r: r / r.max()))(X),
    "closure": lambda j: j.vmap(lambda r: j.vmap(lambda s: (r * s).sum())(X))(X),
    "of integers": lambda j: j.vmap(lambda i: i % 3)(np.arange(5)),
    "empty batch": lambda j: j.vmap(lambda r: r.sum())(X[:0]),
}
ERRORS = {
    "in_axes length": lambda j: j.vmap(lambda x, y: x, in_axes=(0,))(X, X),
    "in_axes type": lambda j: j.vmap(lambda x: x, in_axes="a"),
    "in_axes prefix": lambda j: j.vmap(lambda x: x, in_axes=({"a": 0},))(X),
    "sizes": lambda j: j.vmap(lambda x, y: x)(X, X[:2]),
    "rank": lambda j: j.vmap(lambda x: x, in_axes=2)(X),
    "scalar": lambda j: j.vmap(lambda x: x)(1.0),
    "nothing mapped": lambda j: j.vmap(lambda x: x, in_axes=None)(1.0),
    "out axis None": lambda j: j.vmap(lambda x: x, out_axes=None)(X),
    "out axis range": lambda j: j.vmap(lambda x: x, out_axes=3)(X),
    "out axes tree": lambda j: j.vmap(lambda x: x, out_axes=(0, 0))(X),
    "no arrays": lambda j: j.vmap(lambda x: x)({}),
    "string": lambda j: j.vmap(lambda x: x)("abc"),
    "truth value": lambda j: j.vmap(lambda x: 1 if x > 0 else 0)(X[0]),
    "string result": lambda j: j.vmap(lambda x: "1")(X),
    "axis size disagrees": lambda j: j.vmap(lambda x: x, axis_size=7)(X),
}


@pytest.mark.parametrize("program", [*VALUES.values(), *ERRORS.values()], ids=[*VALUES, *ERRORS])
def test_like_jax(program):
    agree(program)


@pytest.mark.parametrize("out_axes", [(0, {"b": None}), (0, None), None])
def test_result_that_is_batched_against_out_axes_is_named(out_axes):
    import jax

    import jaxish

    def message(library):
        with pytest.raises(ValueError) as error:
            library.vmap(lambda x: (x, {"b": x}) if out_axes else x, out_axes=out_axes)(X)
        return str(error.value)

    assert message(jaxish).startswith(message(jax))


def test_what_is_not_mapped_comes_back_as_it_is():
    import jax

    import jaxish

    def found(lib):
        f = lambda x, y: (x + y, y * 2.0, None, 3, np.float32(2.0), {"y": y})
        _, *others = lib.vmap(f, in_axes=(0, None), out_axes=(0, None, None, None, None, None))(X[0], 4.0)
        return others

    assert repr(found(jaxish)) == repr(found(jax))


def test_sizes_that_differ_are_named():
    import jaxish

    with pytest.raises(ValueError, match=r"axis 0 of argument x of type float32\[3,4\] has size 3"):
        jaxish.vmap(lambda x, y: x)(X, X[:2])


def test_an_array_that_leaves_its_vmap_is_refused():
    import jaxish

    kept = []
    jaxish.vmap(lambda x: kept.append(x) or x)(X)
    with pytest.raises(jaxish.errors.UnexpectedTracerError, match="escape the scope"):
        kept[0] + kept[0]


def test_imaginary_part_of_what_is_conjugated():
    c = (np.arange(6, dtype=np.float32).reshape(2, 3) * (1 + 2j)).astype(np.complex64)

    def program(j):
        pull = lambda m: j.linear_transpose(lambda x: m.conj() @ x, c[0])
        return j.vmap(lambda m: m.conj().imag)(c), j.vmap(lambda v: pull(c)(v)[0].imag)(c[:, :2])

    agree(program)


def test_flattened_batches_of_nothing():
    def program(j):
        f = lambda x: j.lax.scan(lambda c, r: (c, r.ravel()), 0.0, x)[1].reshape(-1)
        return j.vmap(f)(np.ones((0, 3, 2), np.float32)), j.vmap(j.jit(f))(np.ones((2, 0, 3), np.float32))

    agree(program)


def test_arguments_that_are_handed_on():
    def program(j):
        x, y = j.numpy.ones((2, 3)), j.numpy.ones(2)
        same = j.vmap(lambda x: x)(y), j.vmap(lambda x: (x * 2, x))(y)[1]
        moved = [j.vmap(lambda x: x, 1, out)(x) for out in (0, 1, -1)]
        return [s is y for s in same], [m is x for m in moved], moved

    agree(program)


# ------------------------------------------------------------------------------------------ classes that vmap takes whole


class Named:
    def __init__(self, names, data):
        self.names, self.data = names, data


class Axis:
    def __init__(self, name, axis):
        self.name, self.axis = name, axis


class Counted:
    def __init__(self, data, index):
        self.data, self.index = data, index


def named_element(cont, index, x, spec):
    if spec.name is None:
        return x
    names = list(x.names)
    assert names.pop(spec.axis) == spec.name
    return Named(names, cont(x.data, spec.axis))


def named_batch(cont, size, x, spec):
    names = list(x.names)
    if spec.axis is not None:
        names.insert(spec.axis, spec.name)
    return Named(names, cont(size, x.data, spec.axis))


@pytest.fixture
def vmappable(monkeypatch):
    monkeypatch.setattr(vmappables, "registered", {})  # what is registered stays, and all calls look at it
    monkeypatch.setattr(vmappables, "spec_types", {int})

    def register(lib):
        batching = importlib.import_module(f"{lib.__name__}.interpreters.batching")
        batching.register_vmappable(Named, Axis, int, named_element, named_batch, None)
        batching.register_vmappable(
            Counted,
            int,
            int,
            lambda cont, index, x, spec: Counted(cont(x.data + 1, spec), index()),
            lambda cont, size, x, spec: Counted(cont(size, x.data * 2, spec), cont(size, x.index, spec)),
            lambda size: lib.numpy.arange(size) * 10,
        )

    return register


def named_and_array(lib, x, **axes):
    f = lambda x, s: (Named(x.names, lib.numpy.sin(x.data) * s), s + 1)
    found, other = lib.vmap(f, in_axes=(Axis("i", 0), 0), out_axes=(Axis("i", 1), 0))(Named(["i", "j"], x), x[:, 0])
    return found.names, found.data, other


def counted(lib, x, f=lambda c: Counted(c.data * 2, c.index + 1), **axes):
    found = lib.vmap(f, axis_size=3, **axes)(Counted(x, None))
    return (found.data, found.index) if isinstance(found, Counted) else found


def named_alone(lib, x, **options):
    f = lambda v: Named(v.names, v.data**2)
    return lib.vmap(f, in_axes=Axis("i", 0), out_axes=Axis("i", 0), **options)(Named(["i", "j"], x)).data


VMAPPABLE = {
    "with arrays": named_and_array,
    "alone": lambda lib, x: named_alone(lib, x, axis_size=3),
    "without a size": named_alone,
    "gradient": lambda lib, x: lib.grad(lambda x: named_alone(lib, x, axis_size=3).sum())(x),
    "jit": lambda lib, x: lib.jit(lambda x: named_alone(lib, x, axis_size=3))(x),
    "index": counted,
    "taken apart": lambda lib, x: counted(lib, x, lambda c: c.data.sum() + c.index),
    "another axis": lambda lib, x: counted(lib, x.T, lambda c: Counted(c.data, c.data[0] + c.index), in_axes=1),
    "no such axis of a part": lambda lib, x: counted(lib, x, out_axes=1),
    "arrays as ever": lambda lib, x: lib.vmap(lambda x, y: (x.sum(), y), in_axes=(1, None))(x, 2.0),
    "no such axis": lambda lib, x: lib.vmap(lambda x: x, in_axes=("a",))(x),
    "result that differs": lambda lib, x: lib.vmap(lambda x: x, out_axes=None)(x),
}


@pytest.mark.parametrize("program", VMAPPABLE.values(), ids=VMAPPABLE)
def test_classes_that_vmap_takes_whole(vmappable, program):
    def run(lib):
        vmappable(lib)
        return program(lib, lib.numpy.arange(12.0).reshape(3, 4))

    agree(run)


def test_batches_have_integer_sizes(vmappable):
    with pytest.raises(NotImplementedError, match="integer sizes"):
        vmappables.register_vmappable(Named, Axis, list, named_element, named_batch, None)


def _ruled(lib):
    f = lib.custom_vjp(lambda x, y, n: (x * y, y * 3, n + 1))
    f.defvjp(lambda x, y, n: (f(x, y, n), (x, y)), lambda kept, c: (c[0] * kept[1], c[0] * kept[0], None))
    return f


def _counted(lib):
    f = lib.custom_jvp(lambda x, y, n: (x * y, n + 1))
    f.defjvp(lambda p, t: (f(*p), (t[0] * p[1] + t[1] * p[0], t[2])))
    return f


def _straight_through(lib):
    f = lib.custom_jvp(lambda x: 1.0)
    f.defjvp(lambda p, t: (1.0, t[0] * p[0]))
    return f


def _looped(lib, x, y, n):
    def step(carry):
        return lib.lax.cond(
            carry[2] > 2, lambda c: (c[0] * c[1], c[1], c[2] - 1), lambda c: (c[0], c[1], c[2] - 1), carry
        )

    return lib.lax.while_loop(lambda carry: carry[2] > 0, step, (x, y, n))


SAME_FOR_ALL = {
    "jit": lambda lib, *a: lib.vmap(lib.jit(lambda x, y, n: (x * y, y + 1, n)), (0, None, None), (0, None, None))(*a),
    "checkpoint": lambda lib, *a: lib.vmap(lib.checkpoint(lambda x, y: (x * y, y + 1)), (0, None), (0, None))(*a[:2]),
    "custom_vjp": lambda lib, *a: lib.vmap(_ruled(lib), (0, None, None), (0, None, None))(*a),
    "custom_jvp, of integers": lambda lib, *a: lib.vmap(_counted(lib), (0, None, None), (0, None))(*a),
    "cond within while_loop": lambda lib, *a: lib.vmap(lambda *b: _looped(lib, *b), (0, None, None), (0, None, None))(
        *a
    ),
    "custom_vjp, differentiated": lambda lib, x, y, n: lib.grad(
        lambda x: lib.vmap(_ruled(lib), (0, None, None), (0, None, None))(x, y, n)[0].sum()
    )(x),
    "custom_jvp, whose tangent differs": lambda lib, x, y, n: lib.jvp(lib.vmap(_straight_through(lib)), (x,), (x + 1,)),
}


@pytest.mark.parametrize("program", SAME_FOR_ALL.values(), ids=SAME_FOR_ALL)
@pytest.mark.parametrize("jitted", [False, True])
def test_what_is_the_same_for_the_whole_batch_stays_so(program, jitted):
    agree(
        lambda lib, *a: (lib.jit if jitted else lambda f: f)(lambda *b: program(lib, *b))(*a),
        X[0],
        X[1, 2],
        5,
        weak=False,
    )


def test_rules_back_are_given_residuals_that_are_not_batched():
    def program(lib):
        ranks = []

        def back(kept, cotangent):
            ranks.append([lib.numpy.ndim(k) for k in kept])
            return cotangent * kept[1], None

        f = lib.custom_vjp(lambda x, y: x * y)
        f.defvjp(lambda x, y: (f(x, y), (x, y)), back)
        found = lib.grad(lambda x: lib.vmap(f, (0, None))(x, 3.0).sum())(X[0])
        return found, ranks[-1]

    agree(program)


def test_rules_for_batches_see_what_is_the_same_for_all():
    def program(lib):
        name = lib.__name__
        same = importlib.import_module(f"{name}.extend.core").Primitive("same")
        batching = importlib.import_module(f"{name}.interpreters.batching")
        same.def_impl(lambda n: n)
        same.def_abstract_eval(lambda n: n)

        def refused(args, dims):
            raise ValueError("a batch")

        batching.primitive_batchers[same] = refused

        def count(x, n):
            chosen = lib.lax.cond(n > 1, lambda: (x, n - 1), lambda: (x * 2, n))
            return chosen[0], same.bind(chosen[1])

        return lib.vmap(count, (0, None), (0, None))(X[0], lib.numpy.int32(3))

    agree(program)


SELECTED = {
    "numbers": lambda j, p: j.vmap(lambda a: j.lax.select(a, 0, 1))(p),
    "arrays of none": lambda j, p: j.vmap(lambda a: j.lax.select_n(a, j.numpy.ones(()), j.numpy.zeros(())))(p),
    "jitted": lambda j, p: j.jit(j.vmap(lambda a: j.lax.select(a, 2.0, 1.0) * (a != 0), 1, 1))(p),
    "two vmaps": lambda j, p: j.vmap(j.vmap(lambda a: j.lax.select(a, 0, 1)))(p[None]),
    "integers": lambda j, p: j.vmap(lambda a: j.lax.select_n(a.astype("int32"), 2, 1, 0))(p),
    "differentiated": lambda j, p: j.grad(lambda x: j.vmap(lambda a: j.lax.select(a, x, 2 * x))(p).sum())(1.0),
    "within jit": lambda j, p: j.vmap(j.jit(lambda a: j.lax.select(a, 0, 1)))(p),
    "one dimension": lambda j, p: j.vmap(lambda a: j.lax.select(a, j.numpy.ones(1), j.numpy.ones(1)))(p),
    "without vmap": lambda j, p: j.lax.select(p, 0, 1),
}


@pytest.mark.parametrize("program", SELECTED.values(), ids=SELECTED)
def test_mapped_arrays_choose_between_scalars(program):
    agree(lambda j: program(j, j.numpy.array([[True, False], [False, True]])))


def test_axes_spread_over_classes_that_take_numbers_for_metadata():
    def program(lib):
        @lib.tree_util.register_pytree_node_class
        class Partly:
            def __init__(self, *values):
                self.values = values

            def tree_flatten(self):
                numbers = [v if isinstance(v, int) else None for v in self.values]
                return [v for v in self.values if not isinstance(v, int)], numbers

            @classmethod
            def tree_unflatten(cls, numbers, children):
                rest = iter(children)
                return cls(*(next(rest) if n is None else n for n in numbers))

        mapped = lib.vmap(lambda p: Partly(p.values[0] * p.values[1], 3), in_axes=1, out_axes=1)
        return mapped(Partly(lib.numpy.asarray(X), 2)).values[0]

    agree(program)
