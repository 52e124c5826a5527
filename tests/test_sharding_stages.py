"""What is said of shardings before arrays are there, and of arrays made while a mesh is in force, as in JAX."""

import threading

import numpy as np
import pytest
from oracle import agree

import jaxish

X = np.arange(64, dtype=np.float32).reshape(8, 8)


def _meshes(jax):
    kinds = jax.sharding.AxisType
    return [jax.make_mesh((4, 2), ("x", "y"), axis_types=(kind,) * 2) for kind in (kinds.Auto, kinds.Explicit)]


def _text(jax, tree):
    """Return a tree with the texts of what it holds."""
    return jax.tree.map(str, tree, is_leaf=lambda leaf: not isinstance(leaf, dict | tuple | list))


def _struct(jax, sharding, shape=(8, 8)):
    return jax.ShapeDtypeStruct(shape, "float32", sharding=sharding)


STRUCTS = {
    "made": lambda jax, s: _struct(jax, s),
    "other rank": lambda jax, s: _struct(jax, s, (8,)),
    "indivisible": lambda jax, s: _struct(jax, s, (7, 8)).shape,
    "no sharding": lambda jax, s: _struct(jax, 3),
    "no sharding, and false": lambda jax, s: _struct(jax, 0),
    "empty spec without mesh": lambda jax, s: _struct(jax, jax.P()),
    "spec without mesh": lambda jax, s: _struct(jax, jax.P("x")),
    "updated": lambda jax, s: _struct(jax, s).update(shape=(4, 4)),
    "updated to another rank": lambda jax, s: _struct(jax, s).update(shape=(4,)),
    "like": lambda jax, s: jax.ShapeDtypeStruct.like(jax.device_put(X, s)).sharding,
    "zeros": lambda jax, s: jax.numpy.zeros_like(_struct(jax, s)).sharding,
    "ones of another shape": lambda jax, s: jax.numpy.ones_like(_struct(jax, s), shape=(4,)).sharding,
    "filled": lambda jax, s: [m.full_like(_struct(jax, s), 3).sharding for m in (jax.numpy, jax.lax)],
    "types": lambda jax, s: jax.eval_shape(lambda x: x * 2, _struct(jax, s)),
    "jaxpr": lambda jax, s: jax.make_jaxpr(lambda x: x * 2)(_struct(jax, s)),
    "lowered": lambda jax, s: jax.jit(lambda x: x.T).lower(_struct(jax, s)).compile().output_shardings,
    "called": lambda jax, s: jax.jit(lambda x: x * 2).lower(_struct(jax, s)).compile()(X).sharding,
    "called with another": lambda jax, s: (
        jax.jit(lambda x: x * 2)
        .lower(_struct(jax, s))
        .compile()(jax.device_put(X, jax.NamedSharding(s.mesh, jax.P("y"))))
    ),
}


@pytest.mark.parametrize("explicit", [False, True], ids=["auto", "explicit"])
@pytest.mark.parametrize("name", STRUCTS)
def test_types_with_shardings(name, explicit):
    def program(jax):
        mesh = _meshes(jax)[explicit]
        return _text(jax, STRUCTS[name](jax, jax.NamedSharding(mesh, jax.P("x", "y"))))

    agree(program)


def test_specs_of_types_mean_the_mesh_in_force():
    def program(jax):
        with jax.set_mesh(_meshes(jax)[1]):
            structs = [_struct(jax, jax.P("x")), _struct(jax, jax.P())]
            return _text(jax, [structs, [jax.numpy.zeros_like(s).sharding for s in structs]])

    agree(program)


COMPILED = {
    "as it is": lambda jax, put: jax.jit(lambda x: x).lower(put("x", "y")),
    "results": lambda jax, put: jax.jit(lambda x: {"a": x * 2, "b": x.sum(), "c": x.T}).lower(put("x", "y")),
    "constrained": lambda jax, put: jax.jit(
        lambda x: x * 2, out_shardings=jax.NamedSharding(put("x").sharding.mesh, jax.P("y"))
    ).lower(put("x", "y")),
    "from the host": lambda jax, put: jax.jit(
        lambda x: x * 2, in_shardings=jax.NamedSharding(put("x").sharding.mesh, jax.P("y"))
    ).lower(X),
    "one device": lambda jax, put: jax.jit(lambda x: x * 2).lower(jax.ShapeDtypeStruct((8, 8), "float32")),
    "another device": lambda jax, put: jax.jit(lambda x: x * 2).lower(jax.device_put(X, jax.devices()[3])),
    "not used": lambda jax, put: jax.jit(lambda x, y: x * 2).lower(put("x"), np.ones(3)),
    "static": lambda jax, put: jax.jit(lambda x, n: x * n, static_argnums=1).lower(put("x"), 3),
}


@pytest.mark.parametrize("name", COMPILED)
@pytest.mark.parametrize("what", ["input_shardings", "output_shardings", "input_formats", "output_formats", "out_info"])
def test_compiled_functions_tell_how_arrays_lie(name, what):
    def program(jax):
        put = lambda *spec: jax.device_put(X, jax.NamedSharding(_meshes(jax)[0], jax.P(*spec)))
        compiled = COMPILED[name](jax, put).compile()
        if what == "out_info":  # whose text has layouts in JAX
            return _text(jax, jax.tree.map(lambda t: (t.shape, t.sharding), compiled.out_info))
        return _text(jax, getattr(compiled, what))

    agree(program)


def _layouts(jax):
    return __import__(f"{jax.__name__}.experimental.layout", fromlist=["Layout"])


FORMATS = {
    "automatic": lambda jax, L, s: jax.jit(lambda x: x, out_shardings=L.Format(L.Layout.AUTO))(X).format,
    "in order": lambda jax, L, s: jax.device_put(X, L.Format(L.Layout((0, 1)), s)).format,
    "no sharding": lambda jax, L, s: L.Format(L.Layout((0, 1))),
    "no layout": lambda jax, L, s: L.Format(3),
    "another sharding": lambda jax, L, s: L.Format(None, 3),
    "another rank": lambda jax, L, s: jax.device_put(X, L.Format(L.Layout((0,)), s)),
    "another rank in jit": lambda jax, L, s: jax.jit(lambda x: x, out_shardings=L.Format(L.Layout((0,)), s))(X),
    "put automatically": lambda jax, L, s: jax.device_put(X, L.Format(L.Layout.AUTO, s)),
    "equal": lambda jax, L, s: [
        L.Layout((1, 0)) == L.Layout([1, 0]), L.Format() == L.Format(None, s), L.Layout((1, 0)).update(tiling=((2,),)),
    ],
    "hashed": lambda jax, L, s: len({L.Layout((1, 0)), L.Layout([1, 0]), L.Format(None, s), L.Format(None, s)}),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMATS)
def test_formats(name):
    def program(jax):
        sharding = jax.NamedSharding(_meshes(jax)[0], jax.P("x"))
        return _text(jax, FORMATS[name](jax, _layouts(jax), sharding))

    agree(program)


def test_layouts_that_torch_does_not_choose_are_refused():
    layouts = _layouts(jaxish)
    sharding = jaxish.sharding.SingleDeviceSharding(jaxish.devices()[0])
    with pytest.raises(NotImplementedError, match="Transpose the array"):
        jaxish.device_put(X, layouts.Format(layouts.Layout((1, 0)), sharding))


MADE = {
    "constants": lambda jax, x: [jax.numpy.ones(8), jax.numpy.eye(3), jax.numpy.arange(8), jax.numpy.full(3, 2.0)],
    "numbers": lambda jax, x: jax.numpy.float32(3),
    "draws": lambda jax, x: [jax.random.normal(jax.random.key(0), (8,)), jax.random.PRNGKey(0)],
    "keys": lambda jax, x: jax.random.key(0),
    "results": lambda jax, x: [jax.numpy.add(np.ones(8), np.ones(8)), jax.jit(lambda: jax.numpy.ones(8))()],
    "moved": lambda jax, x: jax.device_put(np.ones(8)),
    "mixed": lambda jax, x: [x + jax.numpy.ones(8), x * jax.numpy.ones(8, "f"), jax.numpy.where(x > 0, 1, 0)],
    "like": lambda jax, x: [jax.numpy.zeros_like(x), jax.numpy.ones_like(x), jax.numpy.zeros_like(jax.numpy.ones(3))],
    "differentiated": lambda jax, x: [
        jax.grad(lambda a: (a**2).sum())(jax.numpy.ones(3)),
        jax.grad(lambda a: (a * a).sum())(x),
    ],
    "mapped": lambda jax, x: jax.vmap(lambda a: a * 2)(jax.numpy.ones(8)),
}


@pytest.mark.parametrize("explicit", [False, True], ids=["auto", "explicit"])
@pytest.mark.parametrize("name", MADE)
def test_arrays_made_under_a_mesh_lie_on_it(name, explicit):
    def program(jax):
        with jax.set_mesh(_meshes(jax)[explicit]):
            found = MADE[name](jax, jax.device_put(np.arange(8.0), jax.P("x")))
        return _text(jax, jax.tree.map(lambda a: a.sharding, found))

    agree(program)


def test_arguments_from_the_host_are_laid_as_jit_is_told():
    def program(jax):
        mesh = _meshes(jax)[0]
        rows = jax.NamedSharding(mesh, jax.P("x"))
        with jax.set_mesh(mesh):
            double = jax.jit(lambda x, y: x * y, in_shardings=(rows, jax.NamedSharding(mesh, jax.P())))
            found = [double(X, 2.0), double(jax.device_put(X, rows), np.float32(3)), jax.jit(lambda x: x)(X)]
            lowered = jax.jit(lambda x: x * 2, in_shardings=(rows,)).lower(X).compile()
        return _text(jax, [a.sharding for a in (*found, lowered(X))]), found

    agree(program)


@pytest.mark.parametrize("stage", [lambda f: f, lambda f: f.lower(X).compile()], ids=["jit", "compiled"])
def test_arrays_of_the_mesh_are_not_laid_anew(stage):
    def program(jax):
        mesh = _meshes(jax)[0]
        rows = jax.NamedSharding(mesh, jax.P("x"))
        with jax.set_mesh(mesh):
            return stage(jax.jit(lambda x: x * 2, in_shardings=rows))(jax.numpy.ones((8, 8)))

    agree(program)


def test_arrays_made_elsewhere_do_not_lie_on_the_mesh():
    def program(jax):
        before, made = jax.numpy.ones(3), []
        with jax.set_mesh(_meshes(jax)[0]):
            thread = threading.Thread(target=lambda: made.append(jax.numpy.ones(3)))
            thread.start()
            thread.join()
        return _text(jax, [a.sharding for a in (before, *made, jax.numpy.ones(3))])

    agree(program)


RULES = {
    "bits": lambda jax, x, r: [jax.lax.bitcast_convert_type(x, d) for d in ("int8", "int16", "int32", "uint32")],
    "slices": lambda jax, x, r: [jax.lax.dynamic_slice_in_dim(r, np.int32(1), 4), jax.lax.slice(r, (0, 0), (4, 4))],
    "gradient of a slice": lambda jax, x, r: jax.grad(lambda r: jax.lax.dynamic_slice_in_dim(r, np.int32(1), 4).sum())(
        r
    ),
    "rows of a loop": lambda jax, x, r: jax.lax.scan(
        lambda c, row: (c + 1, jax.numpy.sin(row)), 0.0, jax.reshard(x, jax.P(None, "y"))
    ),
    "gradient of a convolution": lambda jax, x, r: jax.grad(
        lambda r: jax.lax.conv(r.reshape(8, 1, 8), np.ones((3, 1, 3), "f"), (1,), "SAME").sum()
    )(r),
    "asserted": lambda jax, x, r: jax.lax.with_sharding_constraint(r, jax.P("x")),
    "asserted wrongly": lambda jax, x, r: jax.lax.with_sharding_constraint(r, jax.P("y")),
}


@pytest.mark.parametrize("jitted", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("name", RULES)
def test_results_over_explicit_axes(name, jitted):
    def program(jax):
        with jax.set_mesh(_meshes(jax)[1]):
            run = lambda x, r: RULES[name](jax, x, r)
            found = (jax.jit(run) if jitted else run)(jax.device_put(X, jax.P("x", "y")), jax.device_put(X, jax.P("x")))
            return jax.tree.map(lambda a: (str(jax.typeof(a)), np.asarray(a)), found)

    agree(program)


def test_types_within_loops_tell_of_rows():
    def program(jax):
        seen = []

        def step(carry, row):
            seen.append(str(jax.typeof(row)))
            return carry, None

        with jax.set_mesh(_meshes(jax)[1]):
            jax.lax.scan(step, 0.0, jax.device_put(X, jax.P(None, "y")))
        return seen[0]

    agree(program)


def _after_donation(jax, **options):
    """Return which of an array and what `device_put` made of it are gone when the array was donated."""
    array = jax.device_put(np.arange(4.0), jax.devices()[0])
    put = jax.device_put(array, jax.devices()[0], **options)
    jax.jit(lambda x: x * 2, donate_argnums=0)(array)
    return array.is_deleted(), put.is_deleted()


def _kept(jax):
    array = jax.device_put(np.arange(4.0), jax.devices()[0])
    jax.device_put((array, array * 2), jax.devices()[1], donate=(False, True))
    return array.is_deleted()


SAID = {
    "a copy": lambda jax, mesh: _after_donation(jax, may_alias=False),
    "no copy": lambda jax, mesh: _after_donation(jax, may_alias=True),
    "one of two donated": lambda jax, mesh: _kept(jax),
    "another structure": lambda jax, mesh: jax.device_put((1.0, 2.0), jax.devices()[0], donate=(True,)),
    "both": lambda jax, mesh: jax.device_put(X, jax.devices()[0], may_alias=True, donate=True),
    "one of each": lambda jax, mesh: jax.device_put((X, X), jax.devices()[0], may_alias=(True, False)),
    "types of arguments": lambda jax, mesh: [
        str(stage.in_avals)
        for traced in [jax.jit(lambda x, *, k: x * k).trace(X, k=2.0)]
        for stage in (traced, traced.lower(), traced.lower().compile())
    ],
    "structures": lambda jax, mesh: [
        str(getattr(stage, name))
        for traced in [jax.jit(lambda x, y, *, k: {"a": x * k + y}, donate_argnums=1).trace(X, X, k=X)]
        for stage in (traced, traced.lower(), traced.lower().compile())
        for name in ("in_tree", "out_tree", "donate_argnums")
    ],
    "types of results": lambda jax, mesh: str(jax.jit(lambda x: {"a": x * 2}).trace(X).out_avals),
    "structures of a pullback": lambda jax, mesh: [
        str(getattr(jax.vjp(lambda x, y: {"a": x * y}, X, X)[1], name)) for name in ("in_tree", "out_tree")
    ],
    "fitting": lambda jax, mesh: jax.NamedSharding(mesh, jax.P("x")).check_compatible_aval((3,)),
    "not fitting": lambda jax, mesh: jax.NamedSharding(mesh, jax.P("x")).check_compatible_aval(()),
    "other kinds of axes": lambda jax, mesh: str(
        mesh.abstract_mesh.update_axis_types({"x": jax.sharding.AxisType.Explicit})
    ),
    "manual mesh": lambda jax, mesh: jax.set_mesh(
        jax.sharding.Mesh(jax.devices(), "x", axis_types=(jax.sharding.AxisType.Manual,))
    ),
    "sizes of a mesh": lambda jax, mesh: jax.make_mesh(((4,), 1), ("x", "y")),
    "arguments unconstrained": lambda jax, mesh: jax.jit(
        lambda x: x, in_shardings=jax.NamedSharding(mesh, jax.P(jax.P.UNCONSTRAINED, "x"))
    ),
    "results unconstrained": lambda jax, mesh: jax.jit(
        lambda x: x, out_shardings=jax.NamedSharding(mesh, jax.P(jax.P.UNCONSTRAINED, "x"))
    ),
    "no constraint": lambda jax, mesh: jax.lax.with_sharding_constraint(X, None),
    "a type as a value": lambda jax, mesh: jax.jit(lambda x: x)(jax.ShapeDtypeStruct((2,), "float32")),
}


@pytest.mark.parametrize("name", SAID)
def test_what_is_said_of_arrays(name):
    agree(lambda jax: SAID[name](jax, _meshes(jax)[0]))
