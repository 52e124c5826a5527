"""Loops and branches against JAX, under jit, vmap, grad, jvp and their mixes."""

import functools

import jax as real_jax
import numpy as np
import pytest
from oracle import agree

import jaxish

pytestmark = pytest.mark.usefixtures("unoptimized_jax")

XS = np.linspace(-1, 1, 5).astype(np.float32)
W = np.random.RandomState(0).randn(3, 3).astype(np.float32)
X = np.random.RandomState(1).randn(4, 3).astype(np.float32)
H = X[0]


def rnn(jax):
    jnp = jax.numpy
    return lambda w, h, xs: jax.lax.scan(lambda h, x: (jnp.tanh(w @ h + x), jnp.sin(h) * 2), h, xs)


def rnn_loss(jax):
    def loss(w, h, xs):
        h, ys = rnn(jax)(w, h, xs)
        return (h**2).sum() + ys.sum()

    return loss


def power_while(jax):
    return lambda x: jax.lax.while_loop(lambda c: c[0] < 4, lambda c: (c[0] + 1, c[1] * x), (0, 1.0))[1]


def count_while(jax):
    return lambda n: jax.lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * 2.0), (0, 1.0))


def sine_or_double(jax):
    return lambda x, p: jax.lax.cond(p, lambda x: jax.numpy.sin(x), lambda x: x * 2.0, x)


def scan_over_cond(jax):
    branch = sine_or_double(jax)
    return lambda x: jax.lax.scan(lambda c, y: (branch(c, y > 0), c), x, XS)[0]


def switched(jax):
    branches = [lambda x: jax.numpy.sin(x), lambda x: x * 2.0, lambda x: x**3]
    return lambda x, i: jax.lax.switch(i, branches, x)


SCAN = {
    "eager": lambda j: rnn(j)(W, H, X),
    "jit": lambda j: j.jit(rnn(j))(W, H, X),
    "grad": lambda j: j.grad(rnn_loss(j), (0, 1, 2))(W, H, X),
    "jit of grad": lambda j: j.jit(j.grad(rnn_loss(j), (0, 1, 2)))(W, H, X),
    "grad of jit": lambda j: j.grad(j.jit(rnn_loss(j)), (0, 1, 2))(W, H, X),
    "vmap over the carry": lambda j: j.vmap(rnn(j), (None, 0, None))(W, X, X),
    "vmap over a constant": lambda j: j.vmap(rnn(j), (0, None, None))(np.stack([W, W * 2]), H, X),
    "vmap over xs": lambda j: j.vmap(rnn(j), (None, None, 2))(W, H, np.stack([X, X * 2], 2)),
    "vmap of grad": lambda j: j.vmap(j.grad(rnn_loss(j), (0, 1, 2)), (None, 0, None))(W, X, X),
    "grad of vmap": lambda j: j.grad(lambda w: j.vmap(rnn_loss(j), (None, 0, None))(w, X, X).sum())(W),
    "jit of vmap of grad": lambda j: j.jit(j.vmap(j.grad(rnn_loss(j)), (None, 0, None)))(W, X, X),
    "jvp": lambda j: j.jvp(rnn(j), (W, H, X), (W, H, X)),
    "jvp of xs": lambda j: j.jvp(lambda x: rnn(j)(W, H, x), (X,), (X,)),
    "hessian": lambda j: j.hessian(rnn_loss(j), 1)(W, H, X),
    "jit of hessian": lambda j: j.jit(j.hessian(rnn_loss(j), 1))(W, H, X),
    "grad of grad": lambda j: j.grad(lambda h: (j.grad(rnn_loss(j), 1)(W, h, X) ** 2).sum())(H),
    "reverse": lambda j: j.lax.scan(lambda c, x: (c + x, c * x), 0.0, XS, reverse=True),
    "grad of reverse": lambda j: j.grad(lambda a: j.lax.scan(lambda c, x: (c * a + x, c), a, XS, reverse=True)[0])(
        np.float32(2)
    ),
    "unroll with a rest": lambda j: j.lax.scan(lambda c, x: (c + x, c * x), 0.0, XS, unroll=2),
    "unroll in reverse": lambda j: j.lax.scan(lambda c, x: (c + x, c * x), 0.0, XS, unroll=2, reverse=True),
    "unroll all": lambda j: j.lax.scan(lambda c, x: (c + x, c * x), 0.0, XS, unroll=True),
    "closure over a mapped value": lambda j: j.vmap(
        j.grad(lambda a: j.lax.scan(lambda c, x: (c * a + x, c), 1.0, XS)[0])
    )(XS),
    "nested": lambda j: j.grad(
        lambda a: j.lax.scan(lambda c, x: (j.lax.scan(lambda d, y: (d * y + a, d), c, XS)[0] + x, c), a, XS)[0]
    )(np.float32(0.5)),
    "no ys": lambda j: j.lax.scan(lambda c, x: (c + 1, None), 0, None, length=3),
    "no steps": lambda j: j.lax.scan(lambda c, x: (c + 1, c), 0, None, length=0),
    "pytrees": lambda j: j.lax.scan(
        lambda c, x: ({"a": c["a"] + x["u"], "b": c["b"]}, (x["u"], c)),
        {"a": 0.0, "b": np.ones(2, np.float32)},
        {"u": XS},
    ),
    "weak carry": lambda j: j.lax.scan(lambda c, x: (c + x, c), 0.0, XS),
    "promoted carry": lambda j: j.lax.scan(lambda c, x: (c + 1.0, x), 0, XS),
    "over keys": lambda j: j.lax.scan(
        lambda k, _: (j.random.split(k)[0], j.random.bits(k)), j.random.key(0), None, length=3
    )[1],
    "with a branch": lambda j: j.jit(j.grad(scan_over_cond(j)))(np.float32(2)),
    "with a branch, mapped": lambda j: j.jit(j.vmap(j.grad(scan_over_cond(j))))(XS),
    "without jit": lambda j: disabled_jit(j),
}


def disabled_jit(jax):
    with jax.disable_jit():
        return rnn(jax)(W, H, X)


WHILE = {
    "eager": lambda j: j.lax.while_loop(lambda c: c < 10, lambda c: c * 2, 1),
    "jit": lambda j: j.jit(count_while(j))(5),
    "vmap of the predicate": lambda j: j.vmap(count_while(j))(np.arange(5)),
    "jit of vmap of the predicate": lambda j: j.jit(j.vmap(count_while(j)))(np.arange(5)),
    "vmap of the body": lambda j: j.vmap(power_while(j))(XS),
    "jvp": lambda j: j.jvp(power_while(j), (np.float32(2),), (np.float32(1),)),
    "jit of jacfwd": lambda j: j.jit(j.jacfwd(power_while(j)))(np.float32(2)),
    "vmap of jacfwd": lambda j: j.vmap(j.jacfwd(power_while(j)))(XS),
    "promoted carry": lambda j: j.lax.while_loop(lambda c: c < 3, lambda c: c + 1.0, 0),
    "no step for any lane": lambda j: j.vmap(count_while(j))(np.zeros(3, np.int32)),
    "fori": lambda j: j.lax.fori_loop(0, 5, lambda i, c: c + i, 0),
    "fori to float": lambda j: j.lax.fori_loop(0, 5, lambda i, c: c + i, 0.0),
    "fori backwards is empty": lambda j: j.lax.fori_loop(3, 0, lambda i, c: c + i, 0),
    "grad of static fori": lambda j: j.grad(lambda x: j.lax.fori_loop(0, 3, lambda i, c: c * x, x))(np.float32(2)),
    "jit of grad of static fori": lambda j: j.jit(j.grad(lambda x: j.lax.fori_loop(0, 3, lambda i, c: c * x + i, x)))(
        np.float32(2)
    ),
    "dynamic fori": lambda j: j.jit(lambda n: j.lax.fori_loop(0, n, lambda i, c: c + i, 0))(4),
    "mapped fori": lambda j: j.vmap(lambda n: j.lax.fori_loop(0, n, lambda i, c: c + i, 0))(np.arange(4)),
    "fori index type": lambda j: j.lax.fori_loop(np.int32(0), 3, lambda i, c: i, 0),
}
COND = {
    "eager": lambda j: [j.lax.cond(p, lambda x: x, lambda x: x + 1.0, 3.0) for p in (True, False)],
    "operand keyword": lambda j: j.lax.cond(True, lambda x: x, lambda x: x + 1.0, operand=3.0),
    "operand each": lambda j: j.lax.cond(False, 3.0, lambda x: x, 4.0, lambda x: x + 1),
    "no operand": lambda j: j.lax.cond(True, lambda: 1, lambda: 2),
    "weak and strong": lambda j: j.lax.cond(True, lambda x: x, lambda x: j.numpy.float32(3), 3.0),
    "strong and weak": lambda j: j.lax.cond(True, lambda x: j.numpy.float32(3), lambda x: x, 3.0),
    "strong and weak, traced": lambda j: j.jit(
        lambda p, x: j.lax.cond(p, lambda: j.numpy.float32(3) * x, lambda: 2 * j.numpy.asarray(1.5))
    )(True, np.float32(2)),
    "switch, weak and strong": lambda j: [
        j.lax.switch(i, [lambda: j.numpy.asarray(1.5), lambda: j.numpy.float32(3)]) for i in (0, 1)
    ],
    "weak and strong, mapped": lambda j: j.vmap(
        lambda p: j.lax.cond(p, lambda: j.numpy.float32(3), lambda: j.numpy.asarray(1.5))
    )(np.array([True, False])),
    "integer predicate": lambda j: j.lax.cond(3, lambda x: x, lambda x: x + 1, 3.0),
    "jit": lambda j: [j.jit(sine_or_double(j))(2.0, p) for p in (True, False)],
    "grad": lambda j: [j.grad(sine_or_double(j))(2.0, p) for p in (True, False)],
    "jit of grad": lambda j: [j.jit(j.grad(sine_or_double(j)))(2.0, p) for p in (True, False)],
    "grad of jit": lambda j: [j.grad(j.jit(sine_or_double(j)))(2.0, p) for p in (True, False)],
    "grad of grad of jit": lambda j: [
        j.grad(j.grad(j.jit(sine_or_double(j))))(np.float32(2), p) for p in (True, False)
    ],
    "jit of hessian": lambda j: [j.jit(j.hessian(sine_or_double(j)))(np.float32(2), p) for p in (True, False)],
    "vmap of the predicate": lambda j: j.vmap(sine_or_double(j))(XS[:3], np.array([True, False, True])),
    "vmap of the operand": lambda j: j.vmap(sine_or_double(j), (0, None))(XS[:3], True),
    "jit of vmap of grad": lambda j: j.jit(j.vmap(j.grad(sine_or_double(j))))(XS[:3], np.array([True, False, True])),
    "grad of vmap": lambda j: j.jit(j.grad(lambda x, p: j.vmap(sine_or_double(j))(x, p).sum()))(
        XS[:2], np.array([True, False])
    ),
    "closures": lambda j: j.jit(
        j.grad(lambda x, y, p: j.lax.cond(p, lambda: x * y, lambda: j.numpy.sin(y)) * x, (0, 1))
    )(2.0, 3.0, False),
    "switch clamps": lambda j: [switched(j)(3.0, i) for i in (-5, 0, 2, 7)],
    "grad of switch": lambda j: [j.jit(j.grad(switched(j)))(2.0, i) for i in (-1, 0, 1, 2, 7)],
    "switch of one": lambda j: j.lax.switch(1, [lambda x: x], 3.0),
}
OTHERS = {
    "map": lambda j: j.lax.map(lambda x: x * 2, np.arange(5)),
    "map in batches with a rest": lambda j: j.lax.map(lambda x: x * 2, np.arange(5), batch_size=2),
    "map with batches of no size": lambda j: j.lax.map(lambda x: x * 2, np.arange(5), batch_size=0),
    "scan's pair may be a list": lambda j: j.lax.scan(lambda c, x: [c + x, x], 0.0, XS),
    "scan's pair may be a dict": lambda j: j.lax.scan(lambda c, x: {"a": c + x, "b": x}, 0.0, XS),
    "map of pytrees": lambda j: j.lax.map(lambda x: {"a": x[0] * x[1]}, (XS, XS)),
    "associative scan": lambda j: j.lax.associative_scan(j.numpy.add, np.arange(5)),
    "associative scan in reverse": lambda j: j.lax.associative_scan(
        j.numpy.add, np.arange(6).reshape(2, 3), reverse=True, axis=1
    ),
    "grad of associative scan": lambda j: j.jit(j.grad(lambda x: j.lax.associative_scan(j.numpy.multiply, x).sum()))(
        XS
    ),
    "associative scan of pairs": lambda j: j.vmap(
        lambda x: j.lax.associative_scan(lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (x, x))
    )(X),
}
ERRORS = {
    "carry shape": lambda j: j.lax.scan(lambda c, x: (j.numpy.ones(3), x), 0.0, XS),
    "carry tree": lambda j: j.lax.scan(lambda c, x: ((c, c), x), 0.0, XS),
    "no pair": lambda j: j.lax.scan(lambda c, x: c, 0.0, XS),
    "no length": lambda j: j.lax.scan(lambda c, x: (c, c), 0.0),
    "traced length": lambda j: j.jit(lambda n: j.lax.scan(lambda c, x: (c, c), 0.0, length=n))(3),
    "lengths differ": lambda j: j.lax.scan(lambda c, x: (c, c), 0.0, (XS, X)),
    "length disagrees": lambda j: j.lax.scan(lambda c, x: (c, c), 0.0, XS, length=7),
    "no leading axis": lambda j: j.lax.scan(lambda c, x: (c, c), 0.0, 1.0),
    "unroll": lambda j: j.lax.scan(lambda c, x: (c, c), 0, None, length=3, unroll=-1),
    "while carry tree": lambda j: j.lax.while_loop(lambda c: c < 3, lambda c: (c, c), 0),
    "while predicate type": lambda j: j.lax.while_loop(lambda c: c, lambda c: c, 0),
    "while predicate shape": lambda j: j.lax.while_loop(lambda c: j.numpy.ones(3) > 0, lambda c: c, 0),
    "while predicate tree": lambda j: j.lax.while_loop(lambda c: (c < 3,), lambda c: c, 0),
    "reverse mode through while": lambda j: j.jit(
        j.grad(lambda x: j.lax.while_loop(lambda c: c < 3, lambda c: c + 1.0, x))
    )(0.0),
    "reverse mode through jit of while": lambda j: j.grad(
        j.jit(lambda x: j.lax.while_loop(lambda c: c < 3, lambda c: c + 1.0, x))
    )(0.0),
    "fori bounds differ": lambda j: j.lax.fori_loop(np.int8(0), np.int32(3), lambda i, c: c + i, 1),
    "fori float": lambda j: j.lax.fori_loop(0.0, 3, lambda i, c: c * 2.0, 1.0),
    "branch dtype": lambda j: j.lax.cond(True, lambda x: x, lambda x: 1, 3.0),
    "branch tree": lambda j: j.lax.cond(True, lambda x: (x, x), lambda x: x, 3.0),
    "branch shape": lambda j: j.lax.cond(True, lambda x: x, lambda x: j.numpy.ones(3), 3.0),
    "predicate shape": lambda j: j.lax.cond(j.numpy.ones(3) > 0, lambda x: x, lambda x: x, 3.0),
    "predicate type": lambda j: j.lax.cond("a", lambda x: x, lambda x: x, 3.0),
    "branches": lambda j: j.lax.cond(True, 1, 2, 3),
    "empty switch": lambda j: j.lax.switch(0, [], 3.0),
    "switch index": lambda j: j.lax.switch(1.0, [lambda x: x, lambda x: x + 1], 3.0),
    "associative function": lambda j: j.lax.associative_scan(3, np.arange(5)),
    "associative sizes": lambda j: j.lax.associative_scan(lambda a, b: a, (np.arange(5), np.arange(3))),
}
PROGRAMS = {
    f"{group}: {name}": program
    for group, programs in {"scan": SCAN, "while": WHILE, "cond": COND, "other": OTHERS, "error": ERRORS}.items()
    for name, program in programs.items()
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_like_jax(program):
    agree(program)


# What a while loop gives is not differentiated, whatever is around it: where nothing reads it, or beside what is read.
BESIDE_A_WHILE = {
    "in jit, unused": lambda j, loop: lambda x: (j.jit(loop)(x), x * 2)[1],
    "in cond, unused": lambda j, loop: lambda x: (j.lax.cond(x > 0, loop, lambda x: x, x), x * 2)[1],
    "in scan, unused": lambda j, loop: lambda x: (
        j.lax.scan(lambda c, y: (c + loop(y), None), 0.0, x * np.ones(3, "float32")), x * 2
    )[1],
    "a result of jit": lambda j, loop: lambda x: j.jit(lambda x: (loop(x), x * 3))(x)[1],
    "a result of cond": lambda j, loop: lambda x: j.lax.cond(x > 0, lambda x: (loop(x), x * x), lambda x: (x, x), x)[1],
    "a result of checkpoint": lambda j, loop: lambda x: j.checkpoint(lambda x: (loop(x), j.numpy.sin(x)))(x)[1],
    "a carry of scan": lambda j, loop: lambda x: j.lax.scan(
        lambda c, y: ((c[0] + loop(y), c[1] * y), c[1]), (0.0, 1.0), x * np.ones(3, "float32")
    )[0][1],
    "an output of scan": lambda j, loop: lambda x: j.lax.scan(
        lambda c, y: (j.numpy.tanh(c * y), (loop(c), c)), 0.5, x * np.ones(3, "float32")
    )[1][1].sum(),
    "stopped": lambda j, loop: lambda x: j.jit(lambda x: j.lax.stop_gradient(loop(x)) * x)(x),
}  # fmt: skip


@pytest.mark.parametrize("how", ["grad", "jit of grad", "vmap of grad", "grad of vmap", "hessian"])
@pytest.mark.parametrize("name", BESIDE_A_WHILE)
def test_reverse_mode_goes_back_beside_a_while_loop(name, how):
    def program(j):
        loop = lambda x: j.lax.while_loop(lambda s: s[1] < 3, lambda s: (s[0] * x, s[1] + 1), (x, 0))[0]
        f, xs = BESIDE_A_WHILE[name](j, loop), np.array([0.5, 2.0], "float32")
        if how == "vmap of grad":
            return j.vmap(j.grad(f))(xs)
        if how == "grad of vmap":
            return j.grad(lambda x: j.vmap(f)(x).sum())(xs)
        found = {"grad": j.grad(f), "jit of grad": j.jit(j.grad(f)), "hessian": j.jacrev(j.jacrev(f))}[how]
        return found(np.float32(1.5))

    agree(program)


UNUSED_COTANGENTS = {
    "the last carry alone": lambda j, x: rnn(j)(W, x, X)[0].sum(),
    "the outputs alone": lambda j, x: rnn(j)(W, x, X)[1].sum(),
    "one of three carries": lambda j, x: j.lax.scan(
        lambda c, y: ((c[1] * 2.0, c[2] + y, c[0] * y), c[1]), (x, x, x), X
    )[0][1].sum(),
    "a carry that is set anew": lambda j, x: j.lax.scan(lambda c, y: ((y, c[1] + c[0]), None), (x, x), X)[0][1].sum(),
    "one result of a branch": lambda j, x: j.lax.cond(x.sum() > 9, lambda x: (x, x * x), lambda x: (x * 3, x.sum() * x), x)[1].sum(),
    "one result of a checkpoint": lambda j, x: j.checkpoint(lambda x: (W @ x, j.numpy.sin(W @ x)))(x)[1].sum(),
    "one result of jit": lambda j, x: j.jit(lambda x: (x.at[0].set(x[1]), j.numpy.sort(x), x[::-1]))(x)[1][0],
}  # fmt: skip


@pytest.mark.parametrize("name", UNUSED_COTANGENTS)
@pytest.mark.parametrize("how", ["grad", "jit of grad", "vmap of grad", "grad of vmap", "hessian"])
def test_results_that_are_not_used_have_no_cotangents(name, how):
    def program(j):
        f = lambda x: UNUSED_COTANGENTS[name](j, x)
        xs = np.stack([H, 2 * H, X[1]])
        if how == "vmap of grad":
            return j.vmap(j.grad(f))(xs)
        if how == "grad of vmap":
            return j.grad(lambda x: j.vmap(f)(x).sum())(xs)
        return {"grad": j.grad(f), "jit of grad": j.jit(j.grad(f)), "hessian": j.hessian(f)}[how](H)

    agree(program)


def test_reverse_mode_goes_through_a_while_loop_outside_jit():
    import jaxish

    def power(x):
        return jaxish.lax.while_loop(lambda c: c[0] < 4, lambda c: (c[0] + 1, c[1] * x), (0, 1.0))[1]

    unrolled = real_jax.grad(lambda x: x * x * x * x)(2.0)
    assert float(jaxish.grad(power)(2.0)) == float(unrolled)


def test_a_carry_error_names_the_leaf_by_its_key_path():
    import jaxish

    with pytest.raises(TypeError, match=r"c\['b'\]\[0\] .* has type float32\[\]"):
        jaxish.lax.scan(lambda c, x: ({"b": [jaxish.numpy.ones(2)]}, x), {"b": [0.0]}, XS)


class Vector:
    """A pytree whose class looks at the array that it is made of."""

    def __init__(self, array):
        assert array.ndim == 1
        self.array = array


def with_vectors(jax):
    """Return a subclass of `Vector` that `jax` knows as a pytree with keys."""
    kind = type("Vector", (Vector,), {})
    children = lambda v: (((jax.tree_util.GetAttrKey("array"), v.array),), None)
    jax.tree_util.register_pytree_with_keys(kind, children, lambda _, children: kind(*children))
    return kind


VECTORS = {
    "while_loop": lambda j, kind, change: j.lax.while_loop(
        lambda c: c.array.sum() < 50, lambda c: kind(change(c.array * 2)), kind(j.numpy.arange(3.0))
    ),
    "scan": lambda j, kind, change: j.lax.scan(
        lambda c, x: (kind(change(c.array + x)), kind(c.array * x)), kind(j.numpy.arange(3.0)), XS
    ),
    "cond": lambda j, kind, change: j.lax.cond(
        j.numpy.array(True), lambda x: kind(x), lambda x: kind(change(x * 2)), j.numpy.arange(3.0)
    ),
}


@pytest.mark.parametrize("program", VECTORS.values(), ids=VECTORS)
def test_classes_that_look_at_their_arrays(program):
    agree(lambda jax: jax.tree.leaves(program(jax, with_vectors(jax), lambda x: x)))
    wrong = lambda jax: program(jax, with_vectors(jax), lambda x: x[:2])
    (kind, text), (wanted, expected) = raised(wrong, jaxish), raised(wrong, real_jax)
    assert (kind, ".array" in text) == (wanted, ".array" in expected) == ("TypeError", True)


def test_the_graph_of_a_scan_does_not_grow_with_its_length():
    import jaxish

    def sizes(length):
        jaxpr = jaxish.make_jaxpr(lambda c: jaxish.lax.scan(lambda c, _: (c * 2, c), c, None, length=length))(1.0)
        return len(jaxpr.eqns)

    assert sizes(10) == sizes(10_000)


def test_a_body_is_traced_once_for_its_types():
    import jaxish

    traces = []

    def body(c, x):
        traces.append(1)
        return c + x, c

    for _ in range(3):
        jaxish.lax.scan(body, 0.0, XS)
    assert len(traces) == 1


def test_the_gradient_of_a_scan_stacks_only_what_going_back_reads():
    import jaxish
    from jaxish._core import residuals
    from jaxish._lax.control_flow.scan import _carries_read

    traced = jaxish.jit(lambda h: jaxish.lax.scan(lambda h, x: (jaxish.numpy.tanh(h + x), None), h, X)).trace(H)
    scan = next(n.target for n in traced._program.closed.graph.module.graph.nodes if hasattr(n.target, "carries"))
    forward, backward = residuals.split(scan.body, [True, True])
    # The derivative of tanh reads its result, which is saved once; the carry itself is not.
    assert len(forward.out_types) == len(scan.body.out_types) + 1
    assert _carries_read(backward, scan.consts, scan.carries) == []


def test_of_what_going_back_reads_transposed_the_gradient_of_a_scan_stacks_the_original():
    import jaxish

    def loss(w, u, xs):
        return jaxish.lax.scan(lambda h, x: (jaxish.numpy.tanh(h @ w + x @ u), None), xs[0], xs)[0].sum()

    xs, w = np.ones((7, 5, 4), np.float32), np.ones((4, 4), np.float32)
    gradient = jaxish.jit(jaxish.grad(loss, (0, 1))).trace(w, w, xs)._program.closed.graph
    forward = next(n for n in gradient.module.graph.nodes if hasattr(n.target, "carries"))
    # The results of tanh and the carries; xs are there, and only h.T and x.T are read.
    assert [tuple(found.shape) for found in forward.meta["val"]] == [(5, 4), (7, 5, 4), (7, 5, 4)]


def raised(program, jax):
    with pytest.raises(Exception) as caught:
        program(jax)
    return type(caught.value).__name__, str(caught.value)


STRUCTURES = {
    "another length": lambda j: j.lax.scan(lambda c, x: ((1, 2), x), (1, 2, 3), XS),
    "another key": lambda j: j.lax.scan(lambda c, x: ({"a": 1}, x), {"b": 1}, XS),
    "another key below": lambda j: j.lax.while_loop(lambda c: True, lambda c: ({"a": 1},), ({"b": 1},)),
    "further key": lambda j: j.lax.scan(lambda c, x: ({"a": 1, "b": 2}, x), {"a": 1}, XS),
    "several places": lambda j: j.lax.scan(
        lambda c, x: ({"a": (1,), "b": {"a": 3}}, x), {"a": (1, 2), "b": {"c": 3}}, XS
    ),
    "no body": lambda j: j.lax.scan(42, 0, XS),
    "no predicate": lambda j: j.lax.cond(None, lambda: 0, lambda: 1),
    "a function for a predicate": lambda j: j.lax.cond(rnn, lambda: 0, lambda: 1),
    "a function for an index": lambda j: j.lax.switch(rnn, [lambda: 0, lambda: 1]),
    "branches": lambda j: j.lax.cond(True, lambda: {"a": 1}, lambda: {"b": 1}),
    "types of branches": lambda j: j.lax.cond(True, lambda: {"a": np.ones(2)}, lambda: {"a": np.int32(1)}),
    "branches of a switch": lambda j: j.lax.switch(1, [lambda: {"a": 1}, lambda: {"a": (1, 2)}]),
    "bounds": lambda j: j.lax.fori_loop(np.uint8(0), 3, lambda i, c: c, 1.0),
    "bounds of one kind": lambda j: j.lax.fori_loop(np.int16(0), np.int32(3), lambda i, c: c, 1.0),
}


@pytest.mark.parametrize("program", STRUCTURES.values(), ids=STRUCTURES)
def test_errors_are_in_jax_words(program):
    assert raised(program, jaxish) == raised(program, real_jax)


BOUNDS = {
    "of floats": lambda j: j.lax.fori_loop(0.5, 3.5, lambda i, c: c + i, 1.0),
    "that are differentiated": lambda j: j.grad(lambda x: j.lax.fori_loop(x, x + 2.0, lambda i, c: c * i, x))(2.0),
    "of floats, traced": lambda j: j.jit(lambda n: j.lax.fori_loop(0.0, n, lambda i, c: c + i, 1.0))(3.0),
    "of 16 bits and a number": lambda j: j.lax.fori_loop(np.int16(0), 3, lambda i, c: c + i, np.int16(1)),
    "of a number and 16 bits": lambda j: j.lax.fori_loop(0, np.int16(3), lambda i, c: c + i, np.int16(1)),
    "of 16 bits and a traced number": lambda j: j.jit(
        lambda n: j.lax.fori_loop(np.int16(0), n, lambda i, c: c + i, np.int16(1))
    )(3),
}


@pytest.mark.parametrize("program", BOUNDS.values(), ids=BOUNDS)
def test_bounds(program):
    agree(program)


def test_lanes_do_not_see_the_derivatives_of_branches_that_they_do_not_take():
    def safe_root(j):
        return lambda x: j.lax.cond(x < 1e-3, lambda _: 1e-3, lambda _: j.numpy.sqrt(x), ())

    def loss(j):
        return lambda x: j.vmap(safe_root(j))(x).sum()

    xs = np.array([0.0, 1.0, 4.0], np.float32)
    agree(lambda j: j.grad(loss(j))(xs))
    agree(lambda j: j.jit(j.grad(loss(j)))(xs))
    agree(lambda j: j.vmap(lambda x: j.lax.switch(j.numpy.int32(x), [lambda x: 0.0, j.numpy.sqrt], x))(xs))


def test_what_a_batched_loop_hands_on_stays_unbatched():
    def handed_on(j):
        def f(w, x, stop):
            _, x, w = j.lax.while_loop(lambda c: c[0] < stop, lambda c: (c[0] + 1, c[1] @ c[2], c[2]), (0, x, w))
            return w, x

        return j.vmap(f, (None, 0, 0), (None, 0))(W, X, np.arange(4))

    agree(handed_on)


@pytest.mark.parametrize("loop", ["scan", "cond"])
@pytest.mark.parametrize("wrap", [lambda j, f: f, lambda j, f: j.jit(f)], ids=["plain", "jit"])
def test_rules_of_what_is_not_differentiated_do_not_run(loop, wrap):
    """A carry or an operand that does not depend on what is differentiated has no tangent."""

    def program(j):
        f = j.custom_jvp(lambda x: x * 2.0)

        @functools.partial(f.defjvp, symbolic_zeros=True)
        def rule(primals, tangents):
            raise RuntimeError("differentiated")

        def run(x, y):
            if loop == "cond":
                return j.lax.cond(x > 0, lambda x, y: x * f(y), lambda x, y: x + y, x, y)
            body = lambda carry, _: ((carry[0] * carry[1], f(carry[1]), carry[0] + carry[2]), carry[1])
            (x, y, z), _ = j.lax.scan(body, (x, y, y), None, length=3)
            return x + y + z

        return wrap(j, j.value_and_grad(run))(1.5, 0.5), j.jvp(lambda x: run(x, 0.5), (1.5,), (1.0,))

    program(real_jax)
    agree(program)


def test_what_all_branches_hand_on_stays_unbatched():
    def handed_on(j):
        branches = [lambda w, x: (w, w, x), lambda w, x: (w, x, x), lambda w, x: (w, x * 2, x)]
        chosen = lambda i, w, x: j.lax.switch(i, branches, w, x)
        return j.vmap(chosen, (0, None, 0), (None, 0, 0))(np.arange(4), W, X[:4])

    agree(handed_on)
    agree(
        lambda j: j.grad(
            lambda w: sum(v.sum() for v in j.lax.cond(w[0, 0] > 0, lambda w: (w, w**2), lambda w: (w, w), w))
        )(W)
    )


def test_what_all_branches_hand_on_is_no_result_of_the_equation():
    def written(j):
        f = lambda i, x, y: j.lax.cond(i > 0, lambda x, y: (y, x + 1, x), lambda x, y: (y, y, x), x, y)
        return str(j.make_jaxpr(f)(1.0, 2.0, 3.0))

    agree(written)


def test_what_all_branches_hand_on_beside_a_written_reference():
    def program(j):
        def f(i, x):
            ref = j.new_ref(x)

            def add(x):
                ref[...] += x
                return x, x * 2

            found = j.lax.cond(i > 0, add, lambda x: (x, x), x)
            return found, ref[...]

        return [j.jit(f)(i, X) for i in (0, 1)]

    agree(program)


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("steps", [0, 1, 6])
def test_gradients_of_matrices_that_a_scan_multiplies_by(batched, reverse, steps):
    """The sums of products over the steps are made after the loop, from factors that the steps stack."""
    rng = np.random.default_rng(0)
    w, v, m, own = (0.3 * rng.normal(size=s).astype(np.float32) for s in ((5, 7), (7, 7), (3, 7, 7), (steps, 7, 7)))
    x = rng.normal(size=(steps, 3, 5) if batched else (steps, 5)).astype(np.float32)

    def program(xp, w, v, m, x, own):
        def loss(w, v, m, x, own):
            def step(state, x_and_own):
                # As it is, transposed, a batch of matrices, one whose factor is no slice, and one of each step.
                x, own = x_and_own
                state = xp.numpy.tanh(x @ w + state @ v.T + xp.numpy.sin(state) @ v) @ own
                return state, xp.numpy.einsum("...i,bij->b...j", state, m)

            state, ys = xp.lax.scan(step, xp.numpy.zeros((*x.shape[1:-1], 7)), (x, own), reverse=reverse)
            return (state**2).sum() + (ys**2).sum()

        gradient = xp.grad(loss, (0, 1, 2, 3, 4))(w, v, m, x, own)
        again = xp.jit(xp.grad(lambda w: (xp.grad(loss, 4)(w, v, m, x, own) ** 2).sum()))(w)
        mapped = xp.vmap(xp.grad(loss, (1, 4)), (None, None, None, 0, None))(w, v, m, xp.numpy.stack([x, -x]), own)
        return gradient, again, mapped, xp.jacfwd(xp.grad(loss, 1), 1)(w, v, m, x, own)

    agree(program, w, v, m, x, own, rtol=1e-4, atol=1e-4, at_once=True)
