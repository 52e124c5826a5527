"""Small names that libraries import: of ad_checkpoint, sharding, stages, extend.backend, mesh_utils, multihost_utils."""

import functools
import importlib

import jax
import jax.ad_checkpoint
import jax.experimental.mesh_utils
import jax.experimental.multihost_utils
import jax.experimental.pjit
import jax.export
import jax.extend.backend
import jax.interpreters.partial_eval
import jax.interpreters.xla
import numpy as np
import pytest
from oracle import agree

import jaxish
import jaxish.ad_checkpoint
import jaxish.experimental.mesh_utils
import jaxish.experimental.multihost_utils
import jaxish.experimental.pjit
import jaxish.export
import jaxish.extend.backend
import jaxish.interpreters.ad
import jaxish.interpreters.partial_eval
import jaxish.interpreters.xla

X, W = np.linspace(0.1, 1.0, 6, dtype=np.float32).reshape(2, 3), np.ones((3, 4), np.float32)

# ---------------------------------------------------------------------------------------------------------- checkpoint


def network(lib, x, w):
    return (lib.numpy.tanh(lib.ad_checkpoint.checkpoint_name(lib.numpy.sin(x), "first") @ w) ** 2).sum()


def printed(lib, f, capsys):
    """The residuals' lines, with their places in the source."""
    lib.ad_checkpoint.print_saved_residuals(functools.partial(f, lib), X, W)
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("policy", [None, "dots_saveable", "first", "other"])
def test_saved_residuals_of_a_checkpoint(policy, capsys):
    def program(lib, x, w):
        policies = lib.checkpoint_policies
        chosen = policies.save_only_these_names(policy) if policy in ("first", "other") else policy
        chosen = getattr(policies, chosen) if isinstance(chosen, str) else chosen
        return lib.checkpoint(functools.partial(network, lib), policy=chosen)(x, w)

    assert printed(jaxish, program, capsys) == printed(jax, program, capsys)


def test_saved_residuals_of_a_loop_over_a_checkpoint(capsys):
    def lines(lib):
        body = lib.checkpoint(lambda c, x: (lib.numpy.sin(lib.numpy.sin(c * x)), None))
        lib.ad_checkpoint.print_saved_residuals(lambda x, c: lib.lax.scan(body, c, x)[0].sum(), X, X[0])
        return capsys.readouterr().out.splitlines()

    assert lines(jaxish) == lines(jax)


def layers(lib, x, w):
    return lib.numpy.sin(lib.numpy.sin(x) @ w)


def checkpoint_within(lib, x, w):
    half = lib.checkpoint(lambda x: lib.numpy.sin(lib.numpy.sin(x)))
    return lib.numpy.sin(half(lib.numpy.sin(x)) @ w).sum()


def checkpoint_within_another(lib, x, w):
    inner = lib.checkpoint(lib.numpy.sin)
    outer = lib.checkpoint(lambda x: inner(inner(x)))
    return lib.numpy.sin(outer(lib.numpy.sin(outer(x)))) @ w


def checkpoint_with_policy_within(lib, x, w):
    half = lib.checkpoint(
        lambda x, w: lib.numpy.sin(lib.numpy.sin(x @ w)), policy=lib.checkpoint_policies.dots_saveable
    )
    return lib.numpy.sin(half(lib.numpy.sin(x), w)).sum()


@pytest.mark.parametrize(
    "f", [layers, checkpoint_within, checkpoint_within_another, checkpoint_with_policy_within], ids=lambda f: f.__name__
)
def test_saved_residuals_of_a_function(f, capsys):
    found, wanted = (printed(lib, f, capsys) for lib in (jaxish, jax))
    assert found == wanted


@pytest.mark.parametrize("answer", ["Saveable", "Recompute", True, False, None, 3, "Offloadable"])
def test_policies_may_answer_by_these_classes(answer):
    def program(lib):
        found = getattr(lib.ad_checkpoint, answer) if isinstance(answer, str) else answer
        f = lib.checkpoint(functools.partial(network, lib), policy=lambda *args, **params: found)
        return lib.grad(f)(X, W)

    agree(program)


# ------------------------------------------------------------------------------------------------------------ shardings


def test_manual_axis_types():
    def program(lib, **axes):
        make = lib.sharding.ManualAxisType
        found = make(**{k: frozenset(v) for k, v in axes.items()})
        return (
            repr(found),
            found is make(**{k: frozenset(v) for k, v in axes.items()}),
            repr(found.update(varying=frozenset("z"))),
        )

    agree(lambda lib: program(lib, varying="a"))
    agree(lambda lib: program(lib, unreduced="b", reduced="b"))
    agree(lambda lib: program(lib, varying="a", reduced="a"))
    agree(lambda lib: program(lib, varying="a", unreduced="a"))


def mesh_of(lib, kind="Auto"):
    devices = np.array(lib.devices()[:4]).reshape(2, 2)
    return lib.sharding.Mesh(devices, ("x", "y"), axis_types=(getattr(lib.sharding.AxisType, kind),) * 2)


def test_auto_axes_and_explicit_axes():
    def program(lib, kind, decorate, **options):
        with lib.set_mesh(mesh_of(lib, kind)):
            x = lib.numpy.arange(8.0).reshape(4, 2)
            x = lib.reshard(x, lib.P("x", None)) if kind == "Explicit" else x
            result = getattr(lib.sharding, decorate)(lambda v: v.T * 2)(x, **options)
            return result, str(result.sharding.spec) if decorate == "auto_axes" else ""

    agree(lambda lib: program(lib, "Explicit", "auto_axes", out_sharding=lib.P("y", None)))
    agree(lambda lib: program(lib, "Explicit", "auto_axes"))
    agree(lambda lib: program(lib, "Auto", "explicit_axes"))
    agree(lambda lib: program(lib, "Auto", "explicit_axes", in_sharding=lib.P("y", None)))
    agree(lambda lib: lib.sharding.explicit_axes(lambda v: v, in_sharding=lib.P())(X))


def test_smap():
    def program(lib, f=lambda lib, x, y: x + lib.lax.psum(y, "x"), args=(X[:, 0], W[:2, 0]), **axes):
        with lib.set_mesh(mesh_of(lib)):
            return lib.jit(lib.smap(functools.partial(f, lib), axis_name="x", **axes))(*args)

    agree(lambda lib: program(lib, in_axes=(0, None), out_axes=0))
    agree(lambda lib: program(lib, f=lambda lib, x: x * 2, args=(X.T @ X,), in_axes=None, out_axes=None))
    agree(lambda lib: program(lib, f=lambda lib, x: x.sum(0, keepdims=True), args=(W.T,), in_axes=0, out_axes=1))
    for axes in [
        {"in_axes": "a", "out_axes": 0},
        {"in_axes": 0, "out_axes": "q"},
        {"in_axes": (0, "b"), "out_axes": 0},
    ]:
        agree(lambda lib: program(lib, **axes))
    agree(lambda lib: lib.smap(lambda x: x, in_axes=0, out_axes=0, axis_name=("x",)))


# ---------------------------------------------------------------------------------------- devices, processes, backends


def test_hybrid_meshes():
    def program(lib, shape, groups, **options):
        class Slice:
            device_kind, platform = "cpu", "cpu"

            def __init__(self, i):
                self.id, self.slice_index, self.process_index = i, 3 - i // 2, i // 4

        devices = [Slice(i) for i in range(8)]
        mesh = lib.experimental.mesh_utils.create_hybrid_device_mesh(shape, groups, devices, **options)
        return np.vectorize(lambda d: d.id)(mesh)

    agree(program, (2, 1), (2, 2))
    agree(program, (1, 2), (4, 1))
    agree(lambda lib: program(lib, (2, 1), (1, 4), should_sort_granules_by_key=False))
    agree(lambda lib: program(lib, (2, 2), (2, 1), process_is_granule=True))
    agree(program, (2, 1), (3, 1))
    agree(program, (4, 1), (2, 2))
    agree(lambda lib: lib.experimental.mesh_utils.create_hybrid_device_mesh((8,), (1,)))


def test_host_local_arrays():
    def program(lib, spec):
        utils, mesh = lib.experimental.multihost_utils, mesh_of(lib)
        whole = utils.host_local_array_to_global_array({"a": X.T[:2], "b": np.arange(4)}, mesh, spec(lib))
        back = utils.global_array_to_host_local_array(whole, mesh, spec(lib))
        return whole, back, str(whole["b"].sharding.spec), str(back["b"].sharding.spec)

    agree(program, lambda lib: lib.P("x"))
    agree(program, lambda lib: {"a": lib.P("x", "y"), "b": lib.P()})
    agree(program, lambda lib: None)
    agree(lambda lib: lib.experimental.multihost_utils.reached_preemption_sync_point(3))


def test_batches_of_host_local_arrays():
    def program(lib, dim, names):
        sharding = lib.sharding
        mesh = sharding.Mesh(np.array(lib.devices()[:1]).reshape(1, 1), ("a", "b"))
        data = importlib.import_module("types").SimpleNamespace(spmd_name=names)
        return lib.experimental.multihost_utils.ltg_batcher(
            False, data, [lib.numpy.asarray(X)], [dim], mesh, sharding.PartitionSpec("a")
        )

    for dim, names in ((0, None), (1, "b"), (None, None)):
        agree(lambda lib, dim=dim, names=names: program(lib, dim, names))


def test_names_that_are_refused_say_what_to_use():
    for call, instead in (
        (lambda: jaxish.interpreters.ad.jvp(np.sin, (1.0,), (1.0,)), "jax.jvp"),
        (lambda: jaxish.interpreters.ad.linearize(np.sin, (1.0,)), "jax.linearize"),
        (lambda: jaxish.experimental.primal_tangent_dtype("int8", "float32"), "custom_vjp"),
        (lambda: jaxish.experimental.EArray(None, None), "pytree"),
    ):
        with pytest.raises(NotImplementedError, match=instead):
            call()


def test_backends():
    backends = {lib: lib.extend.backend for lib in (jax, jaxish)}
    assert set(backends[jax].backends()) <= set(backends[jaxish].backends())
    for lib, backend in backends.items():
        found = backend.get_backend("cpu")
        assert found.platform == "cpu" and found.device_count() == 8 == len(found.local_devices())
        assert backend.get_default_device() == lib.devices()[0]
        assert backend.backend_xla_version() is None
    agree(lambda lib: lib.extend.backend.get_backend("no such platform"))


def test_clearing_backends_traces_again():
    def program(lib):
        traced, cleared = [], []

        class Cache:
            def cache_clear(self):
                cleared.append(1)

        double = lib.jit(lambda x: [traced.append(1), x * 2][1])
        cache = Cache()
        lib.extend.backend.register_backend_cache(cache, "a test")
        found = [double(1.0)]
        lib.extend.backend.clear_backends()
        return [*found, double(1.0)], len(traced), bool(cleared)

    agree(program)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_pjit_is_jit():
    agree(lambda lib: lib.experimental.pjit.pjit(lambda x: x + 1)(X))


def test_memory_spaces():
    agree(lambda lib: [str(space) for space in lib.memory.Space])
    agree(lambda lib: lib.device_put(X, lib.memory.Space.Device))
    agree(lambda lib: lib.device_put(X, lib.memory.Space.Host))


def test_types_that_are_like_a_value():
    def program(lib):
        like = lib.ShapeDtypeStruct.like
        return [str(like(x)) for x in (1.0, np.ones(2, "int8"), lib.numpy.arange(3), like(True))]

    agree(lambda lib: repr(program(lib)))
    agree(lambda lib: lib.ShapeDtypeStruct.like("a"))


def test_arrays_of_float0_are_made_as_others_are():
    def program(lib):
        jnp, float0 = lib.numpy, lib.dtypes.float0
        made = [
            jnp.zeros((2,), float0), jnp.ones(3, dtype=float0), jnp.full((2,), True, float0), jnp.empty((0, 2), float0),
            jnp.zeros_like(np.zeros(2, float0)), jnp.full_like(X, 0, dtype=float0),
        ]  # fmt: skip
        return repr([(x.dtype, x.shape) for x in made])

    agree(program)


def test_copies_to_the_host_begin_where_leaves_can():
    class Leaf:
        calls = 0

        def copy_to_host_async(self):
            self.calls += 1

    def program(lib):
        leaf = Leaf()
        given = [leaf, lib.numpy.ones(2), 3, None]
        return lib.copy_to_host_async(given) is given, leaf.calls

    agree(program)


def test_what_lies_there_already_is_not_put_anew():
    def program(lib):
        there = lib.sharding.SingleDeviceSharding(lib.devices()[0])
        x, y = lib.device_put(X, there), lib.numpy.ones(2)
        return (
            lib.device_put(x, there) is x,
            lib.device_put(x) is x,
            lib.device_put(y) is y,
            lib.device_put(y, there) is y,
        )

    agree(program)


def test_a_traced_array_says_where_its_sharding_is_to_be_found():
    def program(lib):
        return lib.jit(lambda x: x.sharding)(X)

    agree(program)
    with pytest.raises(AttributeError, match="typeof"):
        program(jaxish)


MOVED = [
    "CallPrimitive", "DebugInfo", "DropVar", "Effect", "Effects", "InconclusiveDimensionOperation", "JaxprTypeError",
    "check_jaxpr", "concrete_or_error", "find_top_trace", "gensym", "get_opaque_trace_state", "jaxprs_in_params",
    "new_jaxpr_eqn", "no_effects", "primal_dtype_to_tangent_dtype", "valid_jaxtype",
]  # fmt: skip


@pytest.mark.parametrize("name", MOVED)
def test_names_that_moved_to_extend_core_warn(name):
    with pytest.warns(DeprecationWarning) as warned:
        value = getattr(jaxish.core, name)
    assert str(warned[0].message) == jax.core._deprecations[name][0]  # pyright: ignore[reportAttributeAccessIssue]; JAX warns once in a process
    assert value is getattr(jaxish.extend.core, name)


DEPRECATED = {
    "core": [
        "JaxprTypeError", "OutputType", "abstract_token", "aval_mapping_handlers", "call", "concretization_function_error",
        "is_concrete", "is_constant_dim", "is_constant_shape", "literalable_types", "no_axis_name",
        "nonempty_axis_env_DO_NOT_USE", "pytype_aval_mappings", "trace_ctx", "unsafe_am_i_under_a_jit_DO_NOT_USE",
        "unsafe_am_i_under_a_vmap_DO_NOT_USE", "unsafe_get_axis_names_DO_NOT_USE",
    ],
    "interpreters.pxla": [
        "ArrayMapping", "Index", "MeshAxisName", "array_mapping_to_axis_resources", "thread_resources",
    ],
    "experimental.pjit": ["pjit"],
    "experimental.shard_map": ["shard_map"],
    "scipy.special": ["lpmn", "lpmn_values"],
}  # fmt: skip


@pytest.mark.parametrize(("place", "name"), [(place, name) for place, names in DEPRECATED.items() for name in names])
def test_deprecated_names_warn_in_the_same_words(place, name):
    def message(lib):
        module = importlib.import_module(f"{lib.__name__}.{place}")
        with pytest.warns(DeprecationWarning) as warned:
            getattr(module, name)
        return str(warned[0].message)

    wanted = importlib.import_module(f"jax.{place}")._deprecations[name][0]  # JAX warns once in a process
    assert message(jaxish) == wanted


@pytest.mark.filterwarnings("ignore:jax.core.:DeprecationWarning")
def test_what_is_going_on_is_told_by_trace_ctx():
    def program(lib):
        seen = []

        def look(x):
            context = lib.core.trace_ctx
            names = context.axis_env.axis_names()
            seen.append((context.is_top_level(), names, [context.axis_env.axis_size(n) for n in names]))
            return x

        look(X)
        lib.jit(look)(X)
        lib.vmap(look, axis_name="i")(X)
        lib.vmap(lib.jit(lib.vmap(look, axis_name="j")), axis_name="i")(lib.numpy.ones((2, 3)))
        seen.append(lib.core.trace_ctx.axis_env.axis_exists("i"))
        return str(seen)

    assert program(jaxish) == program(jax)
    agree(lambda lib: lib.core.trace_ctx.axis_env.axis_size("i"))


@pytest.mark.filterwarnings("ignore:jax.core.:DeprecationWarning")
@pytest.mark.parametrize("fun", [bool, int, float, hex])
def test_errors_of_conversions_by_function(fun):
    agree(lambda lib: lib.jit(lambda x: lib.core.concretization_function_error(fun, True)(None, x))(X))


@pytest.mark.filterwarnings("ignore:jax.core.:DeprecationWarning")
def test_types_of_ones_own_are_mapped_by_their_handlers():
    def program(lib):
        core, extend = lib.core, lib.extend.core

        class Many(core.AbstractValue):
            def __init__(self, n):
                self.n = n

        handlers = (lambda size, axis, a: Many(a.n // size), lambda size, axis, mesh_axis, a: Many(a.n * size))
        core.aval_mapping_handlers[Many] = handlers
        token = core.abstract_token
        return (
            extend.mapped_aval(2, 0, Many(6)).n, extend.unmapped_aval(2, 0, Many(6)).n,
            extend.mapped_aval(2, 0, token) is token, extend.unmapped_aval(2, 0, token) is token,
        )  # fmt: skip

    agree(program)


@pytest.mark.filterwarnings("ignore:jax.core.:DeprecationWarning")
@pytest.mark.parametrize("transform", ["eager", "jit", "grad"])
def test_functions_are_called_by_a_primitive(transform):
    def program(lib):
        about = lib.api_util.debug_info("called", lambda x, y: None, (1, 2), {})
        called = lib.extend.linear_util.wrap_init(lambda x, y: [lib.numpy.sin(x) * y], debug_info=about)
        f = lambda x, y: lib.core.call(x, y, subfuns=(called,))[0]
        return (f if transform == "eager" else getattr(lib, transform)(f))(0.5, 2.0)

    agree(program)
    agree(lambda lib: lib.core.call(1.0))


@pytest.mark.filterwarnings("ignore:jax.interpreters.pxla:DeprecationWarning")
@pytest.mark.parametrize("mapping", [{}, {"x": 0}, {"x": 2, "y": 0}, {"x": 1, "y": 1}])
def test_specs_of_mappings(mapping):
    agree(lambda lib: str(lib.interpreters.pxla.array_mapping_to_axis_resources(mapping)))


@pytest.mark.filterwarnings("ignore:jax.core.is_:DeprecationWarning")
def test_values_and_sizes_that_are_known():
    seen = []

    def told(lib, x):
        core = lib.core
        seen.append(
            (
                core.is_concrete(x),
                core.is_constant_dim(x),
                core.is_constant_shape((2, x)),
                core.is_constant_shape(x.shape),
            )
        )
        return x

    def program(lib):
        seen.clear()
        n, x = np.int32(3), lib.numpy.asarray(3)
        told(lib, x), lib.jit(lambda x: told(lib, x))(x), lib.vmap(lambda x: told(lib, x))(x[None])
        lib.grad(lambda x: told(lib, x))(x + 0.5)
        (size,) = lib.export.symbolic_shape("size")
        sizes = [2, n, x, x[None], 2.0, "2", None, size, size + 1, size - size]
        return np.array(seen), np.array([(lib.core.is_constant_dim(d), lib.core.is_concrete(d)) for d in sizes])

    agree(program)


class Celsius:
    """A value that is an array where it is registered."""

    def __init__(self, degrees):
        self.degrees = np.asarray(degrees, "float64")


def registered(lib, monkeypatch):
    values = lib.interpreters.xla.canonicalize_dtype_handlers
    types = lib.core.pytype_aval_mappings
    monkeypatch.setitem(types, Celsius, lambda x: types[np.ndarray](x.degrees))
    values[Celsius] = lambda x: values[np.ndarray](x.degrees)  # JAX's table lets nothing be taken out


@pytest.mark.filterwarnings("ignore:jax.core.pytype_aval_mappings:DeprecationWarning")
@pytest.mark.parametrize(
    "program",
    [
        lambda lib, x: str(lib.typeof(x)),
        lambda lib, x: lib.numpy.sin(x),
        lambda lib, x: lib.lax.add(x, x),
        lambda lib, x: lib.jit(lambda x: x + 1)(x),
        lambda lib, x: lib.jit(lambda: lib.numpy.cos(x))(),
        lambda lib, x: lib.grad(lambda x: lib.numpy.sin(x).sum())(x),
        lambda lib, x: str(lib.make_jaxpr(lambda x: x + 1)(x)),
    ],
)
def test_registered_classes_are_arrays(program, monkeypatch):
    registered(jax, monkeypatch)
    registered(jaxish, monkeypatch)
    agree(program, Celsius([1.0, 2.0]))


@pytest.mark.parametrize("transform", ["jit", "grad", "vmap"])
@pytest.mark.parametrize("name", ["DynamicJaxprTracer", "JaxprTracer"])
def test_values_of_a_trace_are_told_from_other_tracers(name, transform):
    def program(lib):
        kind, seen = getattr(lib.interpreters.partial_eval, name), []

        def function(x):
            seen.append(isinstance(x, kind))
            return (x * x).sum()

        getattr(lib, transform)(function)(X)
        lib.jit(getattr(lib, transform)(lambda x: function(x)))(X)
        return [*seen, isinstance(X, kind), isinstance(lib.numpy.ones(2), kind), issubclass(kind, lib.core.Tracer)]

    assert program(jaxish) == program(jax)
