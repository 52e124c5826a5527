"""Collectives over axes that vmap names, against JAX: values, and derivatives at every place that grad can stand."""

import jax
import numpy as np
import pytest
from oracle import agree

import jaxish
from jaxish._core.primitive import graph_identity
from jaxish._jaxprs.raising import graph_of

X = np.random.default_rng(0).normal(size=(4, 4, 3)).astype(np.float32)
V = np.arange(4, dtype=np.float32) + 1
SHIFT = [(i, (i + 1) % 4) for i in range(4)]
SWAP = [(0, 2), (1, 0), (2, 1), (3, 3)]


def pbroadcast(j, x):
    """JAX 0.10.2 cannot batch pbroadcast when it traces: there, by what its documentation says it is equal to."""
    if j is jaxish:
        return j.lax.pbroadcast(x, "i", 2)
    return j.lax.psum(j.numpy.where(j.lax.axis_index("i") == 2, x, j.numpy.zeros_like(x)), "i")


def all_to_all(j, x):
    """JAX 0.10.2 cannot differentiate an all_to_all that moves a dimension: there, by the one that does not."""
    return j.lax.all_to_all(x, "i", 0, 1) if j is jaxish else j.lax.all_to_all(x, "i", 0, 0).swapaxes(0, 1)


COLLECTIVES = {
    "psum": lambda j, x: j.lax.psum(x, "i"),
    "psum of a product": lambda j, x: j.lax.psum(x * x, "i") * x,
    "psum over a dimension too": lambda j, x: j.lax.psum(x, (0, "i")),
    "psum of a constant array": lambda j, x: j.lax.psum(j.numpy.ones(3), "i") * x,
    "psum of a number": lambda j, x: j.lax.psum(2.5, "i") * x,
    "pmean": lambda j, x: j.lax.pmean(j.numpy.sin(x), "i"),
    "ppermute": lambda j, x: j.lax.ppermute(x * x, "i", SWAP),
    "ppermute by one": lambda j, x: j.lax.ppermute(x * x, "i", SHIFT),
    "pshuffle": lambda j, x: j.lax.pshuffle(x * x, "i", [2, 0, 3, 1]),
    "pbroadcast": lambda j, x: pbroadcast(j, x * x) * x,
    "all_gather": lambda j, x: j.lax.all_gather(x * x, "i").sum(1),
    "all_gather along 1": lambda j, x: j.lax.all_gather(x * x, "i", axis=1),
    "all_gather along -1": lambda j, x: j.lax.all_gather(x * x, "i", axis=-1),
    "all_gather tiled": lambda j, x: j.lax.all_gather(x * x, "i", axis=1, tiled=True),
    "all_gather of a constant": lambda j, x: j.lax.all_gather(j.numpy.arange(3.0), "i") @ x.T,
    "psum_scatter": lambda j, x: j.lax.psum_scatter(x * x, "i"),
    "psum_scatter tiled": lambda j, x: j.lax.psum_scatter(x * x, "i", tiled=True),
    "psum_scatter of a constant": lambda j, x: j.lax.psum_scatter(j.numpy.arange(4.0), "i") * x,
    "all_to_all": lambda j, x: all_to_all(j, x * x),
    "all_to_all in place": lambda j, x: j.lax.all_to_all(x * x, "i", 0, 0),
    "all_to_all tiled": lambda j, x: j.lax.all_to_all(x * x, "i", 0, 1, tiled=True),
    "pswapaxes": lambda j, x: j.lax.pswapaxes(x * x, "i", 0),
    "axis_index": lambda j, x: j.lax.axis_index("i") * x,
    "axis_index of a tuple": lambda j, x: j.lax.axis_index(("i",)) * x,
    "axis_size": lambda j, x: j.lax.axis_size("i") * x,
    "softmax over lanes": lambda j, x: j.numpy.exp(x) / j.lax.psum(j.numpy.exp(x), "i"),
    "normalised": lambda j, x: (x - j.lax.pmean(x, "i")) / j.numpy.sqrt(j.lax.pmean(x**2, "i") + 1),
    "in jit": lambda j, x: j.jit(lambda y: j.lax.psum(y * y, "i") * j.lax.axis_index("i"))(x),
    "in jit, of constants": lambda j, x: j.jit(lambda y: j.lax.psum_scatter(j.numpy.arange(4.0), "i") * y)(x),
    "in nested jit": lambda j, x: j.jit(lambda y: j.jit(lambda z: j.lax.all_gather(z * z, "i"))(y).sum(0))(x),
    "in scan": lambda j, x: j.lax.scan(lambda c, r: (c * r + j.lax.psum(c * r, "i"), j.lax.pmean(r, "i")), x[0], x),
    "gathered in scan": lambda j, x: j.lax.scan(
        lambda c, r: (c + (j.lax.all_gather(c * r, "i") * j.numpy.arange(4.0)[:, None]).sum(0), r), x[0], x
    ),
    "index in scan": lambda j, x: j.lax.scan(lambda c, r: (c * j.lax.axis_index("i") + r, c), x[0], x)[0],
    "in cond": lambda j, x: j.lax.cond(x[0, 0] > 0, lambda y: y * 2, lambda y: y, j.lax.psum(x, "i")),
    "in checkpoint": lambda j, x: j.checkpoint(lambda y: j.lax.psum(j.numpy.sin(y), "i") * y)(x),
    "pytree": lambda j, x: j.lax.psum({"a": x, "b": (x * x, x[0])}, "i"),
}


def total(j, tree):
    return sum((leaf.astype("float32") ** 2).sum() for leaf in j.tree_util.tree_leaves(tree))


PLACES = {
    "vmap": lambda j, f: j.vmap(lambda x: f(j, x), axis_name="i")(X),
    "other axes": lambda j, f: j.vmap(lambda x: f(j, x), 1, 0, axis_name="i")(X.transpose(1, 0, 2)),
    "jit of vmap": lambda j, f: j.jit(j.vmap(lambda x: f(j, x), axis_name="i"))(X),
    "vmap of grad": lambda j, f: j.vmap(j.grad(lambda x: total(j, f(j, x))), axis_name="i")(X),
    "jit of vmap of grad": lambda j, f: j.jit(j.vmap(j.grad(lambda x: total(j, f(j, x))), axis_name="i"))(X),
    "vmap of jit of grad": lambda j, f: j.vmap(j.jit(j.grad(lambda x: total(j, f(j, x)))), axis_name="i")(X),
    "grad of vmap": lambda j, f: j.grad(lambda x: total(j, j.vmap(lambda y: f(j, y), axis_name="i")(x)))(X),
    "vmap of jvp": lambda j, f: j.vmap(lambda x: j.jvp(lambda y: f(j, y), (x,), (x + 1,)), axis_name="i")(X),
    "jvp of vmap": lambda j, f: j.jvp(j.vmap(lambda y: f(j, y), axis_name="i"), (X,), (X + 1,)),
    "unnamed vmap inside": lambda j, f: j.vmap(j.vmap(lambda x: f(j, x)), axis_name="i")(np.stack([X, X + 1], 1)),
    "unnamed vmap outside": lambda j, f: j.vmap(j.vmap(lambda x: f(j, x), axis_name="i"))(np.stack([X, X + 1])),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_collective(collective, place):
    agree(lambda j: PLACES[place](j, COLLECTIVES[collective]), atol=1e-3, rtol=1e-4, weak=False)


ONE = {
    "pmax": lambda j: j.vmap(lambda x: j.lax.pmax(x, "i"), axis_name="i")(X),
    "pmin": lambda j: j.vmap(lambda x: j.lax.pmin(x, "i"), axis_name="i")(X),
    "pmax over a dimension too": lambda j: j.vmap(lambda x: j.lax.pmax(x, (0, "i")), axis_name="i")(X),
    "pmax of what is the same": lambda j: j.vmap(lambda x: x + j.lax.pmax(j.numpy.arange(3.0), "i"), axis_name="i")(X),
    "vmap of grad of pmax": lambda j: j.vmap(j.grad(lambda x: j.lax.pmax(x, "i").sum()), axis_name="i")(X),
    "booleans": lambda j: j.vmap(lambda x: j.lax.psum(x > 0, "i"), axis_name="i")(X),
    "pmax of booleans": lambda j: j.vmap(lambda x: j.lax.pmax(x > 0, "i"), axis_name="i")(X),
    "integers": lambda j: j.vmap(lambda x: j.lax.psum(x, "i"), axis_name="i")(V.astype(np.int8)),
    "unsigned integers": lambda j: j.vmap(lambda x: j.lax.psum(x, "i"), axis_name="i")(V.astype(np.uint32)),
    "two names": lambda j: j.vmap(j.vmap(lambda x: x / j.lax.psum(x, ("i", "k")), axis_name="k"), axis_name="i")(X),
    "outer name": lambda j: j.vmap(j.vmap(lambda x: x / j.lax.psum(x, "i"), axis_name="k"), axis_name="i")(X),
    "inner name": lambda j: j.vmap(j.vmap(lambda x: x / j.lax.psum(x, "k"), axis_name="k"), axis_name="i")(X),
    "index of two names": lambda j: j.vmap(
        j.vmap(lambda x: j.lax.axis_index(("i", "k")), axis_name="k"), axis_name="i"
    )(X),
    "size of two names": lambda j: j.vmap(
        j.vmap(lambda x: x * j.lax.axis_size(("i", "k")), axis_name="k"), axis_name="i"
    )(X),
    "all_to_all over two names": lambda j: j.vmap(
        j.vmap(lambda x: j.lax.all_to_all(x, ("i", "k"), 0, 0, tiled=True), axis_name="k"), axis_name="i"
    )(np.arange(2 * 3 * 12.0, dtype=np.float32).reshape(2, 3, 12)),
    "grad over two names": lambda j: j.vmap(
        j.vmap(j.grad(lambda x: j.lax.psum(j.numpy.sin(x), ("i", "k")).sum()), axis_name="k"), axis_name="i"
    )(X),
    "grad in a shared weight, inside": lambda j: j.vmap(
        lambda x: j.grad(lambda w: j.lax.pmean((w * x).sum(), "i"))(2.0), axis_name="i"
    )(X),
    "grad in a shared weight, outside": lambda j: j.grad(
        lambda w: j.vmap(lambda x: j.lax.pmean((w * x).sum() ** 2, "i"), axis_name="i")(X).sum()
    )(2.0),
    "hessian": lambda j: j.vmap(j.hessian(lambda x: j.lax.psum(x**3, "i")), axis_name="i")(V),
    "value and grad in jit": lambda j: j.jit(
        j.vmap(lambda x: j.lax.pmean(j.grad(lambda w: (w * x).sum() ** 2)(1.5), "i"), axis_name="i", out_axes=None)
    )(X),
    "result without the axis": lambda j: j.vmap(lambda x: j.lax.psum(x, "i"), axis_name="i", out_axes=None)(X),
    "unknown name": lambda j: j.vmap(lambda x: j.lax.psum(x, "k"), axis_name="i")(X),
    "unknown name of an index": lambda j: j.vmap(lambda x: j.lax.axis_index("k"), axis_name="i")(X),
    "no name": lambda j: j.lax.psum(1, "i"),
    "psend without the axis": lambda j: j.lax.psend(V, "i", [(0, 1)]),
    "no permutation": lambda j: j.vmap(lambda x: j.lax.pshuffle(x, "i", [0, 0, 1, 2]), axis_name="i")(X),
    "sizes that do not fit": lambda j: j.vmap(lambda x: j.lax.all_to_all(x, "i", 1, 0), axis_name="i")(X),
    "groups that do not cover": lambda j: j.vmap(
        lambda x: j.lax.psum(x, "i", axis_index_groups=[[0, 1], [2, 2]]), axis_name="i"
    )(X),
    "axis_env": lambda j: j.make_jaxpr(lambda x: j.lax.psum(x, "i"), axis_env=[("i", 3)])(V).out_avals[0].shape,
}


@pytest.mark.parametrize("name", ONE)
def test_one(name):
    agree(ONE[name], weak=False, atol=1e-4)


def test_all_to_all_of_what_all_lanes_share():
    found = jaxish.vmap(lambda x: jaxish.lax.all_to_all(jaxish.numpy.arange(4.0) * 2, "i", 0, 0) + x, axis_name="i")(V)
    np.testing.assert_array_equal(np.asarray(found), np.tile(2.0 * np.arange(4)[:, None], 4) + V[:, None])


def test_all_to_all_from_another_dimension():
    agree(lambda j: j.vmap(lambda x: j.lax.all_to_all(x.T, "i", 1, 0), axis_name="i")(X))
    agree(lambda j: j.vmap(lambda x: j.lax.all_to_all(x, "i", 0, 1), axis_name="i")(X))


def test_psum_of_a_constant_is_a_python_number():
    def program(j):
        found = []
        j.vmap(
            lambda x: found.extend([j.lax.psum(1, "i"), j.lax.psum(2.5, "i"), j.lax.axis_size("i")]) or x, axis_name="i"
        )(X)
        assert [type(f) for f in found] == [int, float, int]
        return found

    agree(program)


GROUPS = [[3, 1], [0, 2]]
GROUPED = {
    "psum": lambda j, x, axis, g: j.lax.psum(x, axis, axis_index_groups=g),
    "pmean": lambda j, x, axis, g: j.lax.pmean(x * x, axis, axis_index_groups=g),
    "pmax": lambda j, x, axis, g: j.lax.pmax(x, axis, axis_index_groups=g),
    "all_gather": lambda j, x, axis, g: j.lax.all_gather(x, axis, axis_index_groups=g),
    "psum_scatter": lambda j, x, axis, g: j.lax.psum_scatter(x, axis, axis_index_groups=g, tiled=True),
    "all_to_all": lambda j, x, axis, g: j.lax.all_to_all(x, axis, 0, 1, axis_index_groups=g, tiled=True),
}


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("name", GROUPED)
def test_groups_are_axes_of_their_own(name, grad):
    """JAX's vmap refuses groups, so it runs one vmap per group; jaxish takes the groups."""
    order = [lane for group in GROUPS for lane in group]
    inverse = np.argsort(order)

    def run(j, x, groups):
        def f(y):
            return GROUPED[name](j, y, "i", groups)

        g = j.grad(lambda y: (f(y) ** 2).sum()) if grad and name != "pmax" else f
        mapped = j.vmap(g, axis_name="i")
        return mapped(x) if groups else j.vmap(mapped)(x)

    wanted = np.asarray(run(jax, X[order].reshape(2, 2, 4, 3), None))
    found = run(jaxish, X, GROUPS)
    np.testing.assert_allclose(np.asarray(found), wanted.reshape(4, *wanted.shape[2:])[inverse], rtol=1e-4, atol=1e-4)


def test_lanes_without_a_source_get_zeros():
    found = jaxish.vmap(lambda x: jaxish.lax.ppermute(x, "i", [(0, 1), (3, 2)]), axis_name="i")(V)
    assert np.asarray(found).tolist() == [0.0, 1.0, 4.0, 0.0]
    slopes = jaxish.vmap(jaxish.grad(lambda x: jaxish.lax.ppermute(x, "i", [(0, 1), (3, 2)]) * 2), axis_name="i")(V)
    assert np.asarray(slopes).tolist() == [2.0, 0.0, 0.0, 2.0]


def test_loops_with_different_collectives_are_different_code():
    j = jaxish

    def loop(name):
        return lambda x: j.lax.scan(lambda c, _: (c + getattr(j.lax, name)(c, "i"), None), x, None, length=2)[0]

    jaxprs = [j.make_jaxpr(loop(n), axis_env=[("i", 2)])(np.float32(1)) for n in ("psum", "pmax")]
    bodies = [graph_of(next(e.params["jaxpr"] for e in p.eqns if e.primitive.name == "scan")) for p in jaxprs]
    assert graph_identity(bodies[0]) != graph_identity(bodies[1])


@pytest.mark.parametrize("name", ["psum", "pmean", "ppermute"])
def test_what_is_called_outside_of_its_axis_is_named(name):
    def first_words(j):
        given = ([(0, 1)],) if name == "ppermute" else ()
        with pytest.raises(NameError) as found:
            j.jit(lambda x: getattr(j.lax, name)(x, "rows", *given))(V)
        return str(found.value).split(" under ")[0]

    assert first_words(jaxish) == first_words(jax)


NAMED_REDUCTIONS = {
    "sum": lambda j, x: x.sum("i"),
    "sum along both kinds": lambda j, x: j.numpy.sum(x, ("i", -1), keepdims=True, initial=3, where=x > 0.5),
    "sum of integers": lambda j, x: j.numpy.sum((x * 5).astype("int8"), ["i"]),
    "sum of truths": lambda j, x: j.numpy.sum(x > 0.5, ("i", 0)),
    "sum in half precision": lambda j, x: j.numpy.sum(x.astype("bfloat16"), "i"),
    "mean": lambda j, x: x.mean("i"),
    "mean of some": lambda j, x: j.numpy.mean(x, ("i", 1), where=x > 0),
    "mean of integers": lambda j, x: j.numpy.mean((x * 5).astype("int32"), ("i", 0), keepdims=True),
    "max": lambda j, x: j.numpy.max(x, "i"),
    "max of some": lambda j, x: j.numpy.max(x, ("i", 0), initial=0.0, where=x > 0.5, keepdims=True),
    "min along both kinds": lambda j, x: x.min(("i", 0)),
    "max of truths": lambda j, x: (x > 0.5).max(("i", 1)),
    "var": lambda j, x: j.numpy.var(x, ("i", 0), ddof=1),
    "std": lambda j, x: j.numpy.std(x, "i"),
    "ptp": lambda j, x: j.numpy.ptp(x, "i"),
    "nanmean": lambda j, x: j.numpy.nanmean(j.numpy.where(x > 0, x, j.numpy.nan), ("i", 0)),
    "count_nonzero": lambda j, x: j.numpy.count_nonzero(x > 0, "i"),
    "in grad": lambda j, x: j.grad(lambda y: (y.mean(("i", 0)) ** 2).sum())(x),
    "in jit": lambda j, x: j.jit(lambda y: y.sum(("i", 0)))(x),
    "softmax": lambda j, x: j.nn.softmax(x, "i"),
    "softmax along both kinds": lambda j, x: j.nn.softmax(x, ("i", 0), where=x > 0),
    "log_softmax": lambda j, x: j.nn.log_softmax(x, ("i", 1)),
    "logsumexp": lambda j, x: j.nn.logsumexp(x, ("i", 0), b=x, return_sign=True, keepdims=True),
    "standardize": lambda j, x: j.nn.standardize(x, ("i", 0)),
    "logmeanexp": lambda j, x: j.nn.logmeanexp(x, ("i", 1), where=x > 0.5),
    "logmeanexp of all": lambda j, x: j.nn.logmeanexp(x, "i"),
    "prod": lambda j, x: j.numpy.prod(x, "i"),
    "all": lambda j, x: j.numpy.all(x > 0, ("i",)),
    "argmax": lambda j, x: j.numpy.argmax(x, "i"),
    "cumsum": lambda j, x: j.numpy.cumsum(x, "i"),
    "a name that is not bound": lambda j, x: x.sum("k"),
    "a mean over a name that is not bound": lambda j, x: x.mean("k"),
    "a name of several letters is several names": lambda j, x: x.sum("ik"),
    "a name twice": lambda j, x: x.sum(("i", "i")),
}


@pytest.mark.parametrize("name", NAMED_REDUCTIONS)
def test_reductions_of_arrays_along_named_axes(name):
    agree(lambda j: j.vmap(lambda x: NAMED_REDUCTIONS[name](j, x), axis_name="i")(X), atol=1e-5)
