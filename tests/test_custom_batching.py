"""custom_vmap and sequential_vmap against JAX."""

import importlib

import jax
import numpy as np
import pytest
from oracle import agree

import jaxish

X = np.arange(6, dtype=np.float32).reshape(3, 2) / 3


def batching(j):
    return importlib.import_module(f"{j.__name__}.custom_batching")


def marked(j):
    """A function whose rule gives another value than the function, so that one sees which of them ran."""
    jnp = j.numpy
    f = batching(j).custom_vmap(lambda x, y: {"a": jnp.sin(x) * y, "b": y + 0})

    @f.def_vmap
    def rule(size, batched, x, y):
        assert len(batched) == 2
        return {"a": jnp.cos(x) * y * size + batched[0] * 10 + batched[1] * 100, "b": y + 0}, {
            "a": True,
            "b": batched[1],
        }

    return f


def closing(j, z):
    f = batching(j).custom_vmap(lambda x: x * z)
    f.def_vmap(lambda size, batched, x: (x * z + 1, True))
    return f


def badly(j, rule):
    f = batching(j).custom_vmap(lambda x: (x, x))
    f.def_vmap(rule)
    return lambda: j.vmap(f)(X)


def of_tree(j):
    f = batching(j).custom_vmap(lambda t, s: t["u"] * s + t["v"])
    f.def_vmap(lambda size, batched, t, s: ((t["u"] * s + t["v"]) * (1 + batched[0]["u"] + 10 * batched[0]["v"]), True))
    return f


def sequential(j):
    return batching(j).sequential_vmap(lambda x, y: (x * y, y * 2))


def steep(j):
    """A sine whose rule has cosine in its place, so that it shows whether the rule was asked, and for a batch."""
    f = batching(j).custom_vmap(j.numpy.sin)
    f.def_vmap(lambda size, batched, x: (j.numpy.cos(x) * (2.0 if batched[0] else 1.0), batched[0]))
    return f


PROGRAMS = {
    "call": lambda j: marked(j)(X, X),
    "keyword": lambda j: marked(j)(X, y=X),
    "jit": lambda j: j.jit(marked(j))(X, X),
    "vmap": lambda j: j.vmap(marked(j))(X, X),
    "vmap along 1": lambda j: j.vmap(marked(j), (1, 0), 1)(X, X[:2]),
    "vmap over the first": lambda j: j.vmap(marked(j), (0, None))(X, X[0]),
    "vmap over the second": lambda j: j.vmap(marked(j), (None, 0))(X[0], X),
    "vmap of vmap": lambda j: j.vmap(j.vmap(marked(j), (0, None)))(X, X[:, 0]),
    "jit of vmap": lambda j: j.jit(j.vmap(marked(j)))(X, X),
    "vmap of jit": lambda j: j.vmap(j.jit(marked(j)))(X, X),
    "in scan": lambda j: j.vmap(lambda x: j.lax.scan(lambda c, r: (marked(j)(c, r)["a"], c), x[0], x))(X),
    "jvp": lambda j: j.jvp(lambda x: marked(j)(x, X), (X,), (X,)),
    "vmap of jvp in both": lambda j: j.vmap(lambda x: j.jvp(marked(j), (x, x), (x, x)))(X),
    "jvp of vmap": lambda j: j.jvp(lambda x: j.vmap(marked(j), (0, None))(x, X[0])["a"], (X,), (X,)),
    "vmap of jvp, tangents alone": lambda j: j.vmap(lambda t: j.jvp(steep(j), (X[0],), (t,))[1])(X),
    "vmap of jvp, primals alone": lambda j: j.vmap(lambda x: j.jvp(steep(j), (x,), (X[0],))[1])(X),
    "jacfwd": lambda j: j.jacfwd(steep(j))(X[0]),
    "vmap of jacfwd": lambda j: j.vmap(j.jacfwd(steep(j)))(X),
    "jit of jacfwd": lambda j: j.jit(j.jacfwd(steep(j)))(X[0]),
    "grad of vmap": lambda j: j.grad(lambda x: j.vmap(lambda a, b: marked(j)(a, b)["a"])(x, X).sum())(X),
    "constant in closure": lambda j: j.vmap(closing(j, j.numpy.float32(3)))(X),
    "traced value in closure": lambda j: j.jit(lambda z: j.vmap(closing(j, z))(X))(2.0),
    "mapped value in closure": lambda j: j.vmap(lambda z: j.vmap(closing(j, z))(X))(X[:, 0]),
    "pytree": lambda j: j.vmap(of_tree(j), ({"u": 0, "v": None}, None))(
        {"u": j.numpy.asarray(X), "v": j.numpy.asarray(X[0])}, j.numpy.float32(2)
    ),
    "no rule": lambda j: batching(j).custom_vmap(lambda x: x)(X),
    "wrong structure": lambda j: badly(j, lambda n, b, x: (x, True))(),
    "wrong structure of flags": lambda j: badly(j, lambda n, b, x: ((x, x), True))(),
    "three results": lambda j: badly(j, lambda n, b, x: (x, x, True))(),
    "sequential": lambda j: j.vmap(sequential(j), (0, None))(X, X[0]),
    "sequential call": lambda j: sequential(j)(X, X),
    "sequential vmap of vmap": lambda j: j.vmap(j.vmap(sequential(j)), (0, None))(np.stack([X, X + 1]), X),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name):
    agree(PROGRAMS[name], weak=False)


def test_a_mapped_jvp_is_that_of_the_rule():
    """JAX 0.10.2 gives a result of another shape where an argument has no tangent; that of vmap inside jvp is right."""
    wanted = jax.jvp(lambda x: jax.vmap(marked(jax))(x, X)["a"], (X,), (X,))
    f = marked(jaxish)
    found = jaxish.vmap(lambda x, y: jaxish.jvp(lambda x: f(x, y)["a"], (x,), (x,)))(X, X)
    for have, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(have), np.asarray(want), rtol=1e-6)


def test_grad_of_a_call_that_is_not_mapped_is_that_of_the_function():
    slope = jaxish.grad(lambda x: marked(jaxish)(x, 2.0)["a"])(1.0)
    np.testing.assert_allclose(float(slope), 2 * np.cos(1.0), rtol=1e-6)


def test_rules_of_the_decorated_function():
    def program(j):
        f = batching(j).custom_vmap(j.custom_jvp(lambda x: 2.0 * x))
        f.def_vmap(lambda size, batched, x: (3.0 * x, batched[0]))
        f.defjvp(lambda x, t: (f(*x), 5.0 * t[0]))
        return f(1.0), j.vmap(f)(X), j.jvp(f, (1.0,), (1.0,)), hasattr(f, "defvjp")

    agree(program)


# --------------------------------------------------------------------------------- in forward mode, with rules of their own


def otherwise(j):
    """A function of one argument that its rule does not agree with, and keeps unmapped what is."""
    f = batching(j).custom_vmap(j.numpy.sin)
    f.def_vmap(lambda size, batched, x: (j.numpy.cos(x), batched[0]))
    return f


def pushed(j):
    return lambda x, t: j.jvp(otherwise(j), (x,), (t,))


V, T = X[:, 0], np.array([2, 3, 4], np.float32)

FORWARD = {
    "not mapped": lambda j: pushed(j)(1.0, 2.0),
    "tangents": lambda j: j.vmap(pushed(j), (None, 0))(1.0, T),
    "tangents alone": lambda j: j.vmap(pushed(j), (None, 0), (None, 0))(1.0, T),
    "primals": lambda j: j.vmap(pushed(j), (0, None))(V, 2.0),
    "both": lambda j: j.vmap(pushed(j))(V, T),
    "of the mapped function": lambda j: j.jvp(j.vmap(otherwise(j)), (V,), (T,)),
    "jacfwd": lambda j: j.jacfwd(otherwise(j))(V),
    "within jit": lambda j: j.jit(j.vmap(pushed(j), (None, 0)))(1.0, T),
    "around jit": lambda j: j.vmap(j.jit(pushed(j)), (None, 0))(1.0, T),
    "twice": lambda j: j.jvp(lambda x: j.jvp(otherwise(j), (x,), (x,))[1], (1.0,), (2.0,)),
    "twice, mapped": lambda j: j.vmap(lambda x: j.jvp(lambda x: pushed(j)(x, x)[1], (x,), (2.0,)))(V),
    "mapped twice": lambda j: j.vmap(j.vmap(pushed(j), (None, 0)), (0, None))(V, T),
    "second derivatives": lambda j: j.jacfwd(j.jacfwd(lambda x: otherwise(j)(x).sum()))(V),
    "within a mapped function": lambda j: j.jvp(lambda x: j.vmap(lambda y: otherwise(j)(x) * y)(V), (1.0,), (2.0,)),
    "what it closes over": lambda j: j.jvp(lambda z: j.vmap(lambda x: closing(j, z)(2.0) * x)(V), (1.0,), (2.0,)),
}


@pytest.mark.parametrize("name", FORWARD)
def test_in_forward_mode_results_are_those_of_the_rule(name):
    agree(FORWARD[name], weak=False)


def over_devices(j, f, same=False):
    part = j.sharding.PartitionSpec
    mesh = j.sharding.Mesh(np.array(j.devices()[:4]), ("i",))
    return j.shard_map(f, mesh=mesh, in_specs=part("i"), out_specs=part() if same else part("i"))


def told(j):
    f = batching(j).custom_vmap(lambda x: 2 * x)
    f.def_vmap(lambda size, batched, x: (x + 100, batched[0]))
    return f


D = np.arange(4, dtype=np.float32)
DEVICES = {
    "shard_map": lambda j: over_devices(j, told(j))(D),
    "jit": lambda j: j.jit(over_devices(j, j.jit(told(j))))(D),
    "pmap": lambda j: j.pmap(told(j))(D),
    "in a loop": lambda j: over_devices(j, lambda x: j.lax.scan(lambda c, _: (told(j)(c), None), x, None, 2)[0])(D),
    "mapped within": lambda j: over_devices(j, lambda x: j.vmap(told(j))(j.numpy.stack([x, x])).sum(0))(D),
    "mapped around": lambda j: j.vmap(over_devices(j, told(j)), 1, 1)(np.stack([D, 3 * D], 1)),
    "mapped around, what all have": lambda j: j.vmap(over_devices(j, lambda x: told(j)(x) + told(j)(j.numpy.ones(1))))(
        np.stack([D, D])
    ),
    "the same for all": lambda j: over_devices(j, lambda x: told(j)(j.lax.psum(x, "i")), same=True)(D),
    "jvp": lambda j: j.jvp(over_devices(j, told(j)), (D,), (D,)),
    "closing over": lambda j: over_devices(j, lambda x: closing(j, x)(x + 1))(D),
    "a collective": lambda j: over_devices(j, batching(j).sequential_vmap(lambda x: x + j.lax.psum(x, "i")))(D),
}


@pytest.mark.usefixtures("unoptimized_jax")
@pytest.mark.parametrize("name", DEVICES)
def test_devices_call_the_function_not_its_rule(name):
    agree(DEVICES[name], weak=False)
