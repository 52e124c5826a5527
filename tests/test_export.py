"""jax.export: functions as data. What is stored and loaded computes what JAX's jitted function does."""

import collections
import dataclasses
import json
import struct
import subprocess
import sys

import jax
import numpy as np
import portable_programs
import pytest
from exported_programs import EXPORTED
from oracle import agree, assert_same

import jaxish
from jaxish import export
from jaxish._export import container

pytestmark = pytest.mark.usefixtures("unoptimized_jax")

P = collections.namedtuple("P", "x y")


def loaded(exported, vjp_order=0):
    return export.deserialize(exported.serialize(vjp_order=vjp_order))


def program(library, name):
    if name not in EXPORTED:
        return *portable_programs.program(library, name), {}
    text, given, *named = EXPORTED[name]
    names = {"jax": library, "jnp": library.numpy, "lax": library.lax, "np": np}
    kwargs = eval(f"dict({named[0]})", names) if named else {}
    return eval(text, names), eval(f"[{given}]", names), kwargs


def described(exported):
    """What an exported function says of itself, in terms that both libraries share."""
    types = [(a.shape, str(a.dtype), a.weak_type) for a in (*exported.in_avals, *exported.out_avals)]
    return {
        "trees": [str(exported.in_tree), str(exported.out_tree)], "types": repr(types), "name": exported.fun_name,
        "rest": repr((exported.nr_devices, exported.platforms, exported.ordered_effects, exported.unordered_effects,
                      exported.disabled_safety_checks, exported.calling_convention_version, exported.module_kept_var_idx,
                      exported.uses_global_constants, exported.has_vjp(), str(exported))),
    }  # fmt: skip


STORABLE = [
    *EXPORTED,
    *(name for name in portable_programs.PROGRAMS if name != "qr"),
]  # no file knows QRResult, on JAX either


@pytest.mark.parametrize("name", dict.fromkeys(STORABLE))
def test_a_function_that_was_stored_gives_what_jax_gives(name):
    function, args, kwargs = program(jaxish, name)
    found = loaded(export.export(jaxish.jit(function))(*args, **kwargs)).call(*args, **kwargs)
    function, args, kwargs = program(jax, name)
    wanted = jax.jit(function)(*args, **kwargs)
    assert str(jaxish.tree.structure(found)) == str(jax.tree.structure(wanted))
    for f, w in zip(jaxish.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert_same(f, w, weak=False)  # JAX's files do not tell of weak types


@pytest.mark.parametrize("name", EXPORTED)
def test_an_exported_function_says_and_gives_what_jax_s_does(name):
    def exported(j):
        function, args, kwargs = program(j, name)
        found = j.export.export(j.jit(function))(*args, **kwargs)
        said = described(found)
        if "random" in name or "keys" in name or name == "rejection":
            said.pop("rest")  # what is read of an argument's words
        return said, found.call(*args, **kwargs)

    agree(exported, weak=False)  # `described` tells of weak types


def test_a_function_loads_in_another_process():
    exported = export.export(jaxish.jit(lambda t: {"y": jaxish.numpy.sin(t["x"]) @ jaxish.numpy.ones((3, 2))}))
    blob = exported({"x": jaxish.ShapeDtypeStruct((2, 3), "float32")}).serialize(vjp_order=1)
    text = (
        "import sys, numpy as np, jaxish, jaxish.export\n"
        "f = jaxish.export.deserialize(sys.stdin.buffer.read())\n"
        "x = {'x': np.arange(6, dtype='float32').reshape(2, 3)}\n"
        "g = jaxish.grad(lambda x: f.call(x)['y'].sum())(x)\n"
        "print(repr([np.asarray(a).tolist() for a in (f.call(x)['y'], jaxish.vmap(f.call)({'x': x['x'][None]})['y'][0], g['x'])]))"
    )
    done = subprocess.run([sys.executable, "-c", text], input=bytes(blob), capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    x = np.arange(6, dtype="float32").reshape(2, 3)
    wanted = jax.numpy.sin(x) @ jax.numpy.ones((3, 2))
    slope = jax.grad(lambda x: (jax.numpy.sin(x) @ jax.numpy.ones((3, 2))).sum())(x)
    for found, want in zip(json.loads(done.stdout), (wanted, wanted, slope), strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-6)


# -------------------------------------------------------------------------------------------------------- derivatives


@pytest.mark.parametrize("order", [1, 2, 3])
def test_stored_derivatives_are_those_of_jax(order):
    def derivative(j, call):
        for _ in range(order):
            call = j.grad(call)
        return call(0.3)

    f = lambda x: 7 * x * x * x
    found = derivative(jaxish, loaded(export.export(jaxish.jit(f))(1.0), order).call)
    assert_same(found, derivative(jax, f), weak=False)


def test_derivatives_beyond_those_that_were_stored_are_refused():
    call = loaded(export.export(jaxish.jit(lambda x: x * x))(1.0), 1).call
    assert jaxish.grad(call)(3.0) == 6.0
    with pytest.raises(ValueError, match="No VJP is available"):
        jaxish.grad(jaxish.grad(call))(3.0)
    with pytest.raises(ValueError, match="vjps of high-enough order"):
        loaded(export.export(jaxish.jit(lambda x: x * x))(1.0)).serialize(vjp_order=1)


def test_derivatives_keep_custom_rules():
    def gradient(j, through):
        f = j.custom_vjp(lambda x: x * x)
        f.defvjp(lambda x: (x * x, x), lambda x, g: (100 * g,))
        return j.grad(through(j, f))(3.0), j.grad(lambda x: through(j, f)(x) * 2)(3.0)

    agree(lambda j: gradient(j, lambda j, f: j.export.export(j.jit(f))(1.0).call))
    assert gradient(jaxish, lambda j, f: loaded(export.export(jaxish.jit(f))(1.0), 1).call)[0] == 100.0


def test_derivatives_among_integers_and_several_results():
    def gradients(j):
        f = j.export.export(j.jit(lambda x, n: (x * n, n + 1, {"s": x.sum()})))(j.numpy.ones(3), 2)
        loss = lambda x: f.call(x, 3)[0].sum() + f.call(x, 3)[2]["s"]
        types = [(a.shape, str(a.dtype)) for a in (*f.vjp().in_avals, *f.vjp().out_avals)]
        return (
            j.grad(loss)(j.numpy.arange(3.0)),
            j.jit(j.grad(loss))(j.numpy.arange(3.0)),
            repr(types),
            f.vjp().fun_name,
        )

    agree(gradients)


def test_forward_mode_is_refused_as_in_jax():
    agree(lambda j: j.jvp(j.export.export(j.jit(j.numpy.sin))(1.0).call, (1.0,), (1.0,)))


def test_a_stored_loop_is_mapped_and_jitted():
    f = lambda x: jaxish.lax.fori_loop(0, 5, lambda i, c: c * x + i, x)
    call = loaded(export.export(jaxish.jit(f))(1.0)).call
    xs = np.arange(4, dtype="float32")
    wanted = jax.vmap(lambda x: jax.lax.fori_loop(0, 5, lambda i, c: c * x + i, x))(xs)
    for found in (jaxish.vmap(call)(xs), jaxish.jit(jaxish.vmap(call))(xs)):
        assert_same(found, wanted, weak=False)


def test_an_exported_function_calls_another():
    def outer(j):
        inner = j.export.export(j.jit(lambda x: j.numpy.sin(x) * 2))(j.numpy.ones(3))
        both = j.export.export(j.jit(lambda x: inner.call(x) + inner.call(x * 2)))(j.numpy.ones(3))
        return both.call(j.numpy.arange(3.0)), j.grad(lambda x: both.call(x).sum())(j.numpy.arange(3.0))

    agree(outer)


# -------------------------------------------------------------------------------------------------------- wrong calls

CALLS = {
    "another size": "f.call(jnp.ones(4), 1)",
    "another rank": "f.call(jnp.ones((3, 1)), 1)",
    "another dtype": "f.call(jnp.ones(3, int), 1)",
    "another dtype, of NumPy": "f.call(np.ones(3, np.float16), 1)",
    "doubles that become floats": "f.call(np.ones(3), 1)",
    "more arguments": "f.call(jnp.ones(3), 1, 1)",
    "a name": "f.call(jnp.ones(3), y=1)",
    "no array": "f.call('a', 1)",
    "in jit": "jax.jit(f.call)(jnp.ones(4), 1)",
    "no jit": "export.export(lambda x: x)(1.0)",
    "a function of jnp": "export.export(jnp.sin)(1.0).call(1.0)",
    "no function": "export.export(3)(1.0)",
    "another platform": "export.export(jax.jit(jnp.sin), platforms=['tpu'])(1.0).call(1.0)",
    "another platform, unchecked":
        "export.export(jax.jit(jnp.sin), platforms=['tpu'], disabled_checks=[export.DisabledSafetyCheck.platform()])(1.).call(1.)",
    "several platforms": "export.export(jax.jit(jnp.sin), platforms=('cuda', 'cpu'))(1.0).call(1.0)",
    "a callback": "export.export(jax.jit(lambda x: jax.pure_callback(lambda y: y, x, x)))(jnp.ones(3))",
    "a print": "export.export(jax.jit(lambda x: jax.debug.print('{}', x)))(1.0)",
    "an ordered effect": "export.export(jax.jit(lambda x: jax.experimental.io_callback(print, None, x, ordered=True)))(1.0)",
    "static arguments": "export.export(jax.jit(lambda x, n: x * n, static_argnums=1))(jnp.ones(3), 3).call(jnp.ones(3))",
    "static arguments again": "export.export(jax.jit(lambda x, n: x * n, static_argnums=1))(jnp.ones(3), 3).call(jnp.ones(3), 3)",
    "static names": "export.export(jax.jit(lambda x, n: x * n, static_argnames='n'))(jnp.ones(3), n=3).call(jnp.ones(3))",
    "donated": "(lambda x: (export.export(jax.jit(jnp.sin, donate_argnums=0))(x).call(x), x + 1))(jnp.ones(3))",
    "float0": "export.export(jax.jit(lambda x: x))(np.zeros(3, jax.dtypes.float0)).call(np.zeros(3, jax.dtypes.float0))",
    "None": "export.export(jax.jit(lambda x: None))(None).call(None)",
    "a named tuple": "export.export(jax.jit(lambda p: p))(P(1.0, 2)).call(P(1.0, 2))",
    "the default": "export.default_export_platform()",
    "the versions": "[export.minimum_supported_calling_convention_version, export.maximum_supported_calling_convention_version]",
    "a check": "str([export.DisabledSafetyCheck.platform(), export.DisabledSafetyCheck.custom_call('a:b').is_custom_call()])",
}  # fmt: skip


@pytest.mark.parametrize("what", CALLS)
def test_a_call_does_what_jax_s_does(what):
    def call(j):
        names = {"jax": j, "jnp": j.numpy, "export": j.export, "np": np, "P": P}
        names["f"] = j.export.export(j.jit(lambda x, y: x * y))(j.ShapeDtypeStruct((3,), "float32"), 1)
        return eval(CALLS[what], names)

    agree(call)


MESSAGES = {
    "f.call(jnp.ones(4), 1)": r"Shape mismatch for args\[0\].shape\[0\]",
    "f.call(jnp.ones(()), 1)": r"Rank mismatch for args\[0\]",
    "f.call(jnp.ones(3), 1.0)": r"Dtype mismatch for args\[1\]: expected int32 and called with float32",
    "f.call((jnp.ones(3),), 1)": "must have the same pytree structure as when the function 'g' was exported",
}


@pytest.mark.parametrize("text", MESSAGES)
def test_messages_have_the_phrases_of_jax(text):
    for j in (jax, jaxish):

        def g(x, y):
            return x * y

        f = j.export.export(j.jit(g))(j.ShapeDtypeStruct((3,), "float32"), 1)
        with pytest.raises(ValueError, match=MESSAGES[text]):
            eval(text, {"f": f, "jnp": j.numpy})


def test_what_the_host_has_to_do_is_refused():
    sharded = jaxish.jit(lambda x: x, out_shardings=None)
    assert export.export(sharded)(1.0).in_shardings_jax(None) == (None,)
    exported = export.export(jaxish.jit(lambda x: x))(1.0)
    for refused in (exported.mlir_module, lambda: exported.mlir_module_serialized):
        with pytest.raises(NotImplementedError, match="StableHLO"):
            refused()
    with pytest.raises(NotImplementedError, match="MLIR"):
        export.export(jaxish.jit(lambda x: x), _override_lowering_rules=[])(1.0)
    with pytest.raises(NotImplementedError, match="Schur"):
        export.export(jaxish.jit(jaxish.lax.linalg.schur))(np.eye(2, dtype="float32"))


def over_devices(j, count, axis, devices=slice(None)):
    """Return the sharding of rows over so many devices."""
    mesh = j.sharding.Mesh(j.devices()[:count][devices], axis)
    return j.sharding.NamedSharding(mesh, j.sharding.PartitionSpec(axis))


def exported_over_devices(j, stored):
    """Return an exported function whose argument is split by rows, and its result by columns, over two devices."""
    rows = over_devices(j, 2, "x")
    columns = rows.update(spec=j.sharding.PartitionSpec(None, "x"))
    found = j.export.export(j.jit(lambda x: x * 2, in_shardings=(rows,), out_shardings=columns))(ROWS)
    return j.export.deserialize(found.serialize(vjp_order=1)) if stored else found


ROWS = np.arange(64, dtype="float32").reshape(16, 4)


@pytest.mark.parametrize("stored", [False, True])
def test_functions_over_several_devices(stored):
    def layouts(j):
        exported, mesh = exported_over_devices(j, stored), j.sharding.AbstractMesh((2,), ("x",))
        given, wanted = exported.in_shardings_jax(mesh), exported.out_shardings_jax(mesh)
        return exported.nr_devices, exported.vjp().nr_devices, repr(given), repr(wanted)

    def of_other_devices(j):
        result = exported_over_devices(j, stored).call(
            j.device_put(ROWS, over_devices(j, 2, "y", slice(None, None, -1)))
        )
        return result, [(shard.index, shard.device.id) for shard in result.addressable_shards]

    def of_the_mesh_in_force(j):
        with j.set_mesh(over_devices(j, 2, "x").mesh):
            return repr(exported_over_devices(j, stored).call(ROWS).sharding.spec)

    agree(layouts)
    agree(of_other_devices)
    agree(of_the_mesh_in_force)
    agree(lambda j: exported_over_devices(j, stored).call(ROWS))  # on one device
    agree(lambda j: exported_over_devices(j, stored).call(j.device_put(ROWS, over_devices(j, 4, "x"))))
    agree(lambda j: exported_over_devices(j, stored).in_shardings_jax(over_devices(j, 4, "x").mesh))
    agree(lambda j: j.grad(lambda x: exported_over_devices(j, stored).call(x).sum())(
        j.device_put(ROWS, over_devices(j, 2, "x"))))  # fmt: skip


def test_devices_of_a_call_in_a_trace():
    def traced(j):
        exported = exported_over_devices(j, stored=False)
        return j.jit(lambda x: exported.call(x).sum())(j.device_put(ROWS, over_devices(j, 2, "x")))

    agree(traced)


def test_what_is_stored_of_devices():
    one = export.export(jaxish.jit(lambda x: x + 1))(ROWS)
    head, tensors = container.unpacked(one.serialize())
    for name in ("nr_devices", "in_layouts", "out_layouts"):  # as files were before functions over devices were stored
        del head["function"][name]
    older = export.deserialize(container.packed(head, tensors))
    assert older.nr_devices == 1
    np.testing.assert_array_equal(older.call(ROWS), ROWS + 1)
    unnamed = jaxish.sharding.NamedSharding(
        jaxish.sharding.Mesh(jaxish.devices()[:2], (("x", 0),)), jaxish.sharding.PartitionSpec()
    )
    with pytest.raises(ValueError, match="must be strings"):
        export.export(jaxish.jit(lambda x: x, in_shardings=unnamed))(ROWS).serialize()


def test_devices_that_only_types_and_constraints_name():
    def of_types(j):
        mesh = j.sharding.AbstractMesh((4,), ("a",))
        rows = j.sharding.NamedSharding(mesh, j.sharding.PartitionSpec("a"))
        return j.export.export(j.jit(lambda x: x.T @ x))(j.ShapeDtypeStruct((16, 4), "float32", sharding=rows))

    def of_a_constraint(j):
        return j.export.export(j.jit(lambda x: j.lax.with_sharding_constraint(x, over_devices(j, 2, "i")).sum(0)))(ROWS)

    agree(lambda j: (of_types(j).nr_devices, repr(of_types(j).in_shardings_jax(j.sharding.AbstractMesh((4,), ("a",))))))
    agree(lambda j: of_types(j).call(j.device_put(ROWS, over_devices(j, 4, "a"))))
    agree(lambda j: of_a_constraint(j).nr_devices)
    agree(lambda j: of_a_constraint(j).call(ROWS))


def test_a_platform_s_own_function_is_the_one_exported():
    f = jaxish.jit(lambda x: jaxish.lax.platform_dependent(x, cpu=jaxish.numpy.sin, default=jaxish.numpy.cos))
    unchecked = [export.DisabledSafetyCheck.platform()]
    assert export.export(f)(0.0).call(0.0) == 0.0
    assert export.export(f, platforms=["tpu"], disabled_checks=unchecked)(0.0).call(0.0) == 1.0
    assert export.export(f, platforms=["tpu", "cuda"], disabled_checks=unchecked)(0.0).call(0.0) == 1.0
    with pytest.raises(NotImplementedError, match="export it for each"):
        export.export(f, platforms=["cpu", "tpu"])(0.0)


def test_closing_over_a_traced_value_is_refused():
    with pytest.raises(jaxish.errors.UnexpectedTracerError, match="make that value an argument"):
        jaxish.grad(lambda x: export.export(jaxish.jit(lambda y: x * y))(1.0).call(2.0))(1.0)


# -------------------------------------------------------------------------------------------------- bytes and classes


def test_other_bytes_are_refused():
    blob = export.export(jaxish.jit(lambda x: x + jaxish.numpy.ones(500)))(np.ones(500, "float32")).serialize()
    assert export.deserialize(bytes(blob)).fun_name == "<lambda>"
    for garbage in (b"", b"abc", bytes(1000), b"\x1c\x00\x00\x00" * 99, blob[1:]):
        with pytest.raises(ValueError, match="no function that jaxish exported"):
            export.deserialize(garbage)
    for cut in (60, 500, len(blob) - 1):
        with pytest.raises(ValueError, match="damaged or cut off"):
            export.deserialize(blob[:cut])
    for place in (70, len(blob) // 2, len(blob) - 100):
        changed = bytearray(blob)
        changed[place] ^= 1
        with pytest.raises(ValueError, match="damaged or cut off"):
            export.deserialize(changed)
    later = bytearray(blob)
    later[8:12] = struct.pack("<I", 99)
    with pytest.raises(ValueError, match="version 99"):
        export.deserialize(later)
    with pytest.raises(TypeError):
        export.deserialize("text")  # pyright: ignore


@pytest.mark.parametrize(
    "operator",
    [
        "aten.from_file.default",
        "aten.nothing.default",
        "os.system",
        "aten.sym_size.int",
        "aten.add",
        "jaxish.structured.default",
    ],
)
def test_a_file_names_operators_that_compute_and_nothing_else(operator):
    blob = export.export(jaxish.jit(lambda x: x + x))(1.0).serialize()
    head, tensors = container.unpacked(blob)
    head["function"]["cases"][0]["record"]["nodes"][0][0] = operator
    with pytest.raises(ValueError, match=operator):
        export.deserialize(container.packed(head, tensors))


@pytest.mark.parametrize("key", ["cases", "in_tree", "in_avals", "platforms"])
def test_a_head_that_says_no_function_is_refused(key):
    from jaxish._export import container

    head, tensors = container.unpacked(export.export(jaxish.jit(lambda x: x))(1.0).serialize())
    for wrong in (None, 3, ["nothing"], {"a": 1}):
        broken = {**head["function"], key: wrong}
        with pytest.raises(ValueError):
            export.deserialize(container.packed({**head, "function": broken}, tensors)).call(1.0)


def test_constants_are_stored_once_and_whole():
    weights = jaxish.random.normal(jaxish.random.key(0), (1000, 1000))
    exported = export.export(jaxish.jit(lambda x: x @ weights @ weights))(np.ones((2, 1000), "float32"))
    blob = exported.serialize(vjp_order=2)
    assert weights.nbytes <= len(blob) < 1.1 * weights.nbytes
    x = np.arange(2000, dtype="float32").reshape(2, 1000) / 2000
    again = export.deserialize(blob)
    np.testing.assert_allclose(again.call(x), x @ weights @ weights, rtol=1e-4, atol=1e-3)
    assert export.deserialize(again.serialize()).call(x).shape == (2, 1000)


def test_named_tuples_and_classes_of_one_s_own_are_stored_by_name():
    Point = collections.namedtuple("Point", "x y")
    exported = export.export(jaxish.jit(lambda p: Point(p.y, p.x)))(Point(1.0, 2))
    with pytest.raises(ValueError, match="register_namedtuple_serialization"):
        exported.serialize()
    assert export.register_namedtuple_serialization(Point, serialized_name="test_export.Point") is Point
    assert loaded(exported).call(Point(1.0, 2)) == (2, 1.0)

    @jaxish.tree_util.register_dataclass
    @dataclasses.dataclass
    class Layer:
        w: jaxish.Array
        name: str = dataclasses.field(metadata={"static": True}, default="a")

    exported = export.export(jaxish.jit(lambda layer: layer))(Layer(jaxish.numpy.ones(2), "b"))
    export.register_pytree_node_serialization(
        Layer, serialized_name="test_export.Layer", serialize_auxdata=lambda data: data[0].encode(),
        deserialize_auxdata=lambda data: (data.decode(),),
    )  # fmt: skip
    found = loaded(exported).call(Layer(jaxish.numpy.ones(2), "b"))
    assert (type(found), found.name) == (Layer, "b")
    with pytest.raises(ValueError, match="pytree structure"):
        loaded(exported).call(Layer(jaxish.numpy.ones(2), "c"))
    ordered = collections.OrderedDict(b=1, a=2.0)
    assert list(loaded(export.export(jaxish.jit(lambda d: d))(ordered)).call(ordered)) == ["b", "a"]


REGISTRATIONS = {
    "no named tuple": "export.register_namedtuple_serialization(dict, serialized_name='q')",
    "no node": "export.register_pytree_node_serialization(set, serialized_name='q', serialize_auxdata=0, deserialize_auxdata=0)",
    "a name twice": "[export.register_namedtuple_serialization(N(n, 'x'), serialized_name='twice') for n in 'ab']",
    "a class twice": "[export.register_namedtuple_serialization(C, serialized_name=n) for n in ('a1', 'a2')]",
}


@pytest.mark.parametrize("what", REGISTRATIONS)
def test_registrations_are_refused_as_by_jax(what):
    C = collections.namedtuple("C", "x")
    agree(lambda j: eval(REGISTRATIONS[what], {"export": j.export, "N": collections.namedtuple, "C": C}) and None)


def test_keys_of_dicts_are_texts():
    with pytest.raises(TypeError, match="string keys"):
        export.export(jaxish.jit(lambda d: d))({1: 2.0}).serialize()
    with pytest.raises(NotImplementedError, match="OrderedDict"):
        export.export(jaxish.jit(lambda d: d))(collections.OrderedDict({1: 2.0})).serialize()
