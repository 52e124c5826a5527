"""Transformations in several threads at once give what they give in one."""

from concurrent.futures import ThreadPoolExecutor

import jax as real_jax
import numpy as np
import pytest

import jaxish as jax
import jaxish.numpy as jnp

X = np.array([0.3, -1.2, 2.0], np.float32)


def f(j):
    return lambda x: j.numpy.sum(j.numpy.sin(x) * x**2)


PROGRAMS = {
    "jvp": lambda j: j.jvp(f(j), (X,), (X,))[1],
    "jacfwd": lambda j: j.jacfwd(lambda x: j.numpy.sin(x) * x)(X),
    "jvp of jvp": lambda j: j.jvp(lambda y: j.jvp(f(j), (y,), (X,))[1], (X,), (X,))[1],
    "jitted hessian": lambda j: j.jit(j.hessian(f(j)))(X),
    "vmapped gradient": lambda j: j.vmap(j.grad(lambda x: j.numpy.cos(x) * x))(X),
}


@pytest.mark.parametrize("names", [["jvp", "jacfwd", "jvp of jvp"], list(PROGRAMS)], ids=["forward mode", "mixed"])
def test_threads_do_not_disturb_each_other(names):
    wanted = {name: np.asarray(PROGRAMS[name](real_jax)) for name in names}

    def work(turn):
        name = names[turn % len(names)]
        return name, np.asarray(PROGRAMS[name](jax))

    with ThreadPoolExecutor(8) as pool:
        for name, found in pool.map(work, range(400)):
            np.testing.assert_allclose(found, wanted[name], rtol=1e-5, atol=1e-6)


def test_a_dual_level_of_the_users_own_stays_open():
    import torch
    from torch.autograd import forward_ad

    with forward_ad.dual_level():
        dual = forward_ad.make_dual(torch.ones(()), torch.full((), 3.0))
        np.testing.assert_allclose(jax.jvp(jnp.sin, (0.5,), (1.0,))[1], np.cos(0.5), rtol=1e-6)
        assert forward_ad.unpack_dual(dual * 2).tangent == 6.0


def test_torch_func_jvp_within_a_jvp():
    import torch

    def program(x):
        inner = torch.func.jvp(torch.sin, (torch.zeros(()),), (torch.ones(()),))[1]
        return x * float(inner)

    assert jax.jvp(program, (2.0,), (1.0,))[1] == 1.0
