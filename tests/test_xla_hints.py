"""What programs tell XLA (groups, metadata, compute types, shardings alike): values, jaxprs and errors are JAX's."""

import importlib

import jax
import numpy as np
import pytest
from oracle import agree

import jaxish
from jaxish.experimental.fused import fused

X = np.linspace(0.5, 2, 8, dtype=np.float32)


def of(lib, module, name):
    return getattr(importlib.import_module(f"{lib.__name__}.experimental.{module}"), name)


def in_group(lib):
    group = of(lib, "scheduling_groups", "scheduling_group")
    return lambda x: group("first")(lambda y: {"a": lib.numpy.sin(y) * x})(x)["a"]


def with_metadata_of_a_call(lib):
    call = of(lib, "scheduling_groups", "xla_metadata_call")
    return lambda x: call(lambda y, z=2.0: y * lib.numpy.cos(z), mark="here")(x, z=x)


def with_metadata_of_a_value(lib):
    mark = of(lib, "xla_metadata", "set_xla_metadata")
    return lambda x: mark({"b": lib.numpy.sin(x)}, place="b", number=3, sure=True)["b"]


def on_the_host(lib):
    compute_on2, space = of(lib, "compute_on", "compute_on2"), lib.memory.Space.Device
    return lambda x: compute_on2(lambda y: y * lib.numpy.exp(x), compute_type="device_host", out_memory_spaces=space)(x)


def alike(lib):
    return lambda x: sum(of(lib, "shard_alike", "shard_alike")(x * x, lib.numpy.sin(x)))


PROGRAMS = [in_group, with_metadata_of_a_call, with_metadata_of_a_value, on_the_host, alike]


@pytest.mark.parametrize("program", PROGRAMS)
def test_values_and_derivatives_are_those_of_the_function(program):
    def run(lib):
        f, jit = program(lib), lib.jit(program(lib))
        total = lambda x: f(x).sum()
        return (
            jit(X),
            lib.vmap(f)(X),
            lib.vmap(jit)(X),
            lib.grad(total)(X),
            lib.hessian(total)(X),
            lib.jvp(f, (X,), (X,)),
        )

    agree(run)


@pytest.mark.parametrize("program", PROGRAMS)
def test_jaxprs_show_them(program):
    assert str(jaxish.make_jaxpr(program(jaxish))(1.0)) == str(jax.make_jaxpr(program(jax))(1.0))


@pytest.mark.parametrize("compute_type", ["device_host", "device", "bogus", 3])
def test_compute_types(compute_type):
    def run(lib):
        with of(lib, "compute_on", "compute_on")(compute_type):
            return lib.jit(lib.numpy.sin)(X)

    agree(run)


@pytest.mark.parametrize("compute_type", ["gpu_stream:1", "tpu_sparsecore"])
def test_parts_of_other_processors_are_refused(compute_type):
    with pytest.raises(NotImplementedError, match="device_put"), of(jaxish, "compute_on", "compute_on")(compute_type):
        pass


def test_what_is_of_xla_alone_is_refused():
    with pytest.raises(NotImplementedError, match="Triton"):
        fused(out_spaces=(jaxish.memory.Space.Device,))
    with pytest.raises(NotImplementedError, match="optimization_barrier"):
        of(jaxish, "control_deps", "schedule")([X, X])
    assert of(jaxish, "control_deps", "schedule")([X]) is None
    with pytest.raises(NotImplementedError, match="TraceAnnotation"):
        of(jaxish, "xla_metadata", "set_xla_metadata")(a="b")
    agree(lambda lib: lib.jit(of(lib, "scheduling_groups", "xla_metadata_call")(lambda x: x, a=1))(X))


@pytest.mark.parametrize("jitted", [False, True])
def test_results_in_a_memory(jitted):
    def run(lib):
        spaces = (lib.memory.Space.Host, lib.memory.Space.Device)
        both = lambda x: (x * 2, lib.numpy.sin(x))
        f = of(lib, "compute_on", "compute_on2")(both, compute_type="device_host", out_memory_spaces=spaces)
        results = (lib.jit(f) if jitted else f)(X)
        return results, [str(x.sharding) for x in results]

    agree(run)


def laid_out(lib):
    mesh = lib.make_mesh((8,), ("x",), axis_types=(lib.sharding.AxisType.Auto,))
    return lib.sharding.NamedSharding(mesh, lib.sharding.PartitionSpec("x"))


@pytest.mark.parametrize("swapped", [False, True])
def test_arrays_lie_alike(swapped):
    def run(lib):
        shard_alike, sharding = of(lib, "shard_alike", "shard_alike"), laid_out(lib)
        order = (lambda a, b: (b, a)) if swapped else (lambda a, b: (a, b))
        eager = shard_alike(*order(lib.device_put(X, sharding), lib.numpy.ones(8)))
        constrained = lambda x: lib.lax.with_sharding_constraint(x * 2, sharding)
        jitted = lib.jit(lambda x: shard_alike(*order(constrained(x), lib.numpy.arange(8.0))))(X)
        return eager, jitted, [str(a.sharding.spec) for a in (*eager, *jitted)]

    agree(run)


@pytest.mark.parametrize("given", [(X, (X,)), (X, X[:2]), ({"a": X}, {"b": X})])
def test_other_trees_and_shapes_are_no_pair(given):
    agree(lambda lib: of(lib, "shard_alike", "shard_alike")(*given))


@pytest.mark.parametrize("program", [in_group, with_metadata_of_a_call, on_the_host])
def test_equations_of_calls_evaluate(program):
    def run(lib):
        jaxpr = lib.make_jaxpr(program(lib))(X)
        again = lib.make_jaxpr(lambda x: lib.core.eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, x))(X)
        names = [[e.primitive.name for e in j.eqns] for j in (jaxpr, again)]
        return lib.core.eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, X), names[0] == names[1]

    agree(run)
