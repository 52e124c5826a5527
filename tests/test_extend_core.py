"""What libraries ask of transformations and types: jax.extend.core and jax.core, against JAX."""

import importlib

import numpy as np
import pytest
from oracle import agree

X = np.arange(3.0, dtype=np.float32)


def ext(j):
    return importlib.import_module(f"{j.__name__}.extend.core")


def aval(j, *shape):
    return importlib.import_module(f"{j.__name__}.core").ShapedArray(shape, np.float32)


PROGRAMS = {
    "mapped": lambda j: [ext(j).mapped_aval(3, axis, aval(j, 3, 3)).shape for axis in (0, 1)],
    "not mapped": lambda j: ext(j).mapped_aval(3, None, aval(j, 3, 4)).shape,
    "unmapped": lambda j: [ext(j).unmapped_aval(5, axis, aval(j, 3, 4)).shape for axis in (0, 2)],
    "tangent dtypes": lambda j: [str(ext(j).primal_dtype_to_tangent_dtype(np.dtype(d))) for d in ("f4", "i4", "?")],
    "valid types": lambda j: [ext(j).valid_jaxtype(x) for x in (1, X, "a", None, j.numpy.ones(2), object())],
    "concrete": lambda j: ext(j).concrete_or_error(int, j.numpy.int32(3), "n"),
    "not concrete": lambda j: j.jit(lambda x: ext(j).concrete_or_error(int, x, "n"))(1),
    "in jit": lambda j: (lambda seen: (j.jit(lambda x: seen.append(under(j)) or x)(1), seen, under(j)))([])[1:],
    "in vmap": lambda j: (lambda seen: (j.vmap(lambda x: seen.append(under(j)) or x, axis_name="i")(X), seen))([])[1:],
    "states": lambda j: states(j),
    "out of a trace": lambda j: j.jit(lambda x: x + float(outside(j)))(1.0),
}


def under(j):
    e = ext(j)
    return (
        e.unsafe_am_i_under_a_jit_DO_NOT_USE(), e.unsafe_am_i_under_a_vmap_DO_NOT_USE(), e.nonempty_axis_env_DO_NOT_USE(),
        list(e.unsafe_get_axis_names_DO_NOT_USE()),
    )  # fmt: skip


def states(j):
    state, seen = ext(j).get_opaque_trace_state, []
    here = state()
    j.jit(lambda x: seen.append((state() == here, state() == state())) or x)(1)
    j.vmap(lambda x: seen.append((state() == here, state() == state())) or x)(X)
    return [bool(same) for pair in seen for same in pair], bool(state() == here)


def outside(j):
    with importlib.import_module(f"{j.__name__}.core").eval_context():
        return j.numpy.sin(j.numpy.float32(2))


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_jax(name):
    agree(PROGRAMS[name], weak=False)


# ------------------------------------------------------------------------------------------------------- partial_eval


def pe(j):
    return importlib.import_module(f"{j.__name__}.interpreters.partial_eval")


def without_dead_code(j):
    jaxpr = j.make_jaxpr(lambda x, y, z: (x * 2.0, y + z, y * 3.0))(X, X, X).jaxpr
    found = []
    for used in ([True, False, False], [False, True, False], [False, False, False]):
        smaller, inputs = pe(j).dce_jaxpr(jaxpr, used)
        found.append((str(smaller), list(inputs)))
    kept, inputs = pe(j).dce_jaxpr(jaxpr, [True, False, False], instantiate=True)
    return [len(text) for text, _ in found], [i for _, i in found], len(kept.invars), list(inputs)


def partly_known(j):
    linear_util = importlib.import_module(f"{j.__name__}.extend.linear_util")
    info = importlib.import_module(f"{j.__name__}.api_util").debug_info("test", partly_known, (1, 2), {})
    fun = linear_util.wrap_init(lambda x, y: [j.numpy.sin(x), x * y], debug_info=info)
    values = [pe(j).PartialVal.known(j.numpy.asarray(X)), pe(j).PartialVal.unknown(aval(j, 3))]
    _, found, _ = pe(j).trace_to_jaxpr_nounits(fun, values)
    return [v.is_known() for v in found], found[0].get_known(), found[1].get_aval().shape


@pytest.mark.parametrize("program", [without_dead_code, partly_known])
def test_partial_evaluation(program):
    agree(program)


def test_names_around_operations():
    def program(j):
        info = importlib.import_module(f"{j.__name__}.extend.source_info_util")
        with info.extend_name_stack("a"), info.extend_name_stack("b"):
            inner = str(info.current_name_stack())
            with info.reset_name_stack():
                reset = str(info.current_name_stack())
        return len(inner), inner.count("/"), reset == "", str(info.current_name_stack()) == ""

    agree(program)


def test_traces_of_values():
    def program(j):
        core, ad = (importlib.import_module(f"{j.__name__}.{m}") for m in ("extend.core", "interpreters.ad"))
        found = []

        def f(x, y):
            trace = core.find_top_trace([x])
            found.extend(isinstance(v, ad.JVPTracer) and v._trace.main is trace.main for v in (x, x * 2, y, y + 1))
            found.extend(isinstance(v._trace, ad.JVPTrace) for v in (x, x * 2))
            found.append(isinstance(1.0, ad.JVPTracer))
            return x * y

        j.jvp(lambda x: f(x, j.numpy.ones(2)), (np.ones(2),), (np.ones(2),))
        j.jit(lambda x: j.jvp(lambda v: f(v, x), (x,), (x,)))(np.ones(2))
        return found

    agree(program)


def test_types_know_tangents_and_shardings():
    def program(j):
        types = [j.typeof(j.numpy.ones((2, 3), d)) for d in ("float32", "int32", "bool", "complex64")]
        shardings = [(len(t.sharding.spec), t.sharding.is_fully_replicated) for t in types]
        tangents = [[str(t.dtype) for t in (v.to_tangent_aval(), v.at_least_vspace())] for v in types]
        return tangents, shardings

    agree(program)
