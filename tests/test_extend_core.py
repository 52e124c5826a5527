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
