"""`out_sharding=` of functions that make arrays."""

import jax
import numpy as np
import pytest

import jaxish

PROGRAMS = [
    lambda j, s: j.numpy.zeros((4, 2), out_sharding=s),
    lambda j, s: j.numpy.ones((4, 2), out_sharding=s),
    lambda j, s: j.numpy.full((4, 2), 3, out_sharding=s),
    lambda j, s: j.numpy.arange(4, out_sharding=s),
    lambda j, s: j.numpy.reshape(np.arange(8), (4, 2), out_sharding=s),
    lambda j, s: j.numpy.einsum("ij,jk->ik", np.ones((4, 2)), np.ones((2, 4)), out_sharding=s),
    lambda j, s: j.numpy.matmul(np.ones((4, 2)), np.ones((2, 4)), out_sharding=s),
    lambda j, s: j.numpy.repeat(np.arange(2), 2, total_repeat_length=4, out_sharding=s),
    lambda j, s: j.numpy.zeros((4, 2)).at[1].set(2.0, out_sharding=s),
    lambda j, s: j.lax.broadcast_in_dim(np.float32(1), (4, 2), (), out_sharding=s),
    lambda j, s: j.lax.broadcasted_iota("float32", (4, 2), 0, out_sharding=s),
    lambda j, s: j.jit(lambda: j.numpy.ones((4, 2), out_sharding=s))(),
]


def _sharding(j, kind):
    mesh = j.make_mesh((1,), ("x",), axis_types=(kind(j),), devices=j.devices()[:1])
    return j.sharding.NamedSharding(mesh, j.P("x"))


def _in_mesh(j, program):
    sharding = _sharding(j, lambda j: j.sharding.AxisType.Explicit)
    with j.set_mesh(sharding.mesh):
        return program(j, sharding)


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_result_lies_as_out_sharding_says(program):
    wanted, found = (_in_mesh(j, program) for j in (jax, jaxish))
    np.testing.assert_array_equal(np.asarray(found), np.asarray(wanted))
    assert (found.dtype, str(found.sharding.spec)) == (wanted.dtype, str(wanted.sharding.spec))


def test_axes_that_are_not_explicit_are_refused():
    with pytest.raises(ValueError, match="cannot contain axis names that are of type Auto or Manual"):
        jaxish.numpy.ones(4, out_sharding=_sharding(jaxish, lambda j: j.sharding.AxisType.Auto))
