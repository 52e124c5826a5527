"""How results lie over devices by how operands do, and what types tell of it, as in JAX."""

import copy
import threading

import numpy as np
import pytest
from oracle import agree

import jaxish

X = np.arange(32, dtype=np.float32).reshape(8, 4) / 8
W = np.arange(64, dtype=np.float32).reshape(4, 16) / 10


def _laid(jax, kind):
    """Return a mesh and arrays split over both axes of it, over the first, and over the second."""
    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(getattr(jax.sharding.AxisType, kind),) * 2)
    specs = jax.P("x", "y"), jax.P("x"), jax.P(None, "y")
    put = lambda values, spec: jax.device_put(values, jax.NamedSharding(mesh, spec))
    return mesh, *map(put, (X, X, W), specs)


def _told(jax, result):
    """Everything that results tell of where they are, and their values."""
    return jax.tree.map(lambda r: (str(r.sharding), str(jax.typeof(r)), r), result)


EAGER = {
    "elementwise": lambda jax, x, r, w: [jax.numpy.sin(x), x + 1, x * x, x > 2, -r, abs(r), x**3, r % 2],
    "broadcast": lambda jax, x, r, w: [x[None] * np.ones((3, 1, 1), "f"), r + np.ones(4, "f"), x + r[:, :1]],
    "selected": lambda jax, x, r, w: [jax.numpy.where(r > 1, r, 0), jax.numpy.clip(r, 0, 1), jax.nn.relu(x)],
    "cast": lambda jax, x, r, w: [x.astype("int32"), x.astype("bfloat16") + 1, r.astype("float8_e4m3fn")],
    "reduced": lambda jax, x, r, w: [x.sum(0), x.sum(), x.mean(1), x.sum(1, keepdims=True), r.max(1), r.min(0), x.std(0)],
    "found": lambda jax, x, r, w: [x.argmax(1), r.argmin(0), jax.lax.top_k(r, 2), jax.numpy.sort(r, 1)],
    "normalized": lambda jax, x, r, w: [jax.nn.softmax(r), jax.nn.logsumexp(r, 1), r / jax.numpy.linalg.norm(r)],
    "turned": lambda jax, x, r, w: [x.T, jax.numpy.swapaxes(r, 0, 1), jax.numpy.moveaxis(x, 0, 1), x[:, None]],
    "reshaped": lambda jax, x, r, w: [r.ravel(), r.reshape(4, 2, 4), r.reshape(8, 2, 2), x[None].squeeze(0)],
    "spread": lambda jax, x, r, w: [jax.numpy.broadcast_to(r, (3, 8, 4)), jax.numpy.outer(np.ones(3, "f"), r[:, 0])],
    "joined": lambda jax, x, r, w: [jax.numpy.concatenate([r, r], 1), jax.numpy.stack([r, r]), jax.numpy.stack([r, r], 1)],
    "taken": lambda jax, x, r, w: [r[:, 1:3], jax.numpy.take(w, np.array([0, 1]), axis=0), r[:, 0]],
    "updated": lambda jax, x, r, w: [r.at[:, 0].set(0.0), r.at[:, 1].add(1.0)],
    "like": lambda jax, x, r, w: [jax.numpy.zeros_like(x), jax.numpy.full_like(r, 3)],
    "product": lambda jax, x, r, w: [r @ w, jax.numpy.einsum("bi,bi->b", r, r), jax.numpy.tensordot(r, w, 1)],
    "vectors": lambda jax, x, r, w: [
        jax.numpy.dot(W[:, 0], w),
        r @ W[:, 0],
        r.sum(0) @ w,
        *jax.jit(lambda r, w: (r.sum(0) @ w, r @ W[:, 0]))(r, w),
        jax.jit(jax.grad(lambda w: (W[:, 0] @ w).sum()))(w),
    ],
    "layers": lambda jax, x, r, w: [jax.nn.relu(r @ w + np.ones(16, "f")).sum(1), (r @ w).mean(0)],
    "convolved": lambda jax, x, r, w: jax.lax.conv(r.reshape(8, 1, 2, 2), np.ones((3, 1, 1, 1), "f"), (1, 1), "SAME"),
    "copied": lambda jax, x, r, w: [copy.copy(x), copy.deepcopy(r)],
    "moved": lambda jax, x, r, w: [jax.device_put(x, r.sharding) * 2, jax.device_put(r, x.sharding)],
    "mapped": lambda jax, x, r, w: [
        jax.vmap(lambda a: a.sum())(r),
        jax.vmap(lambda a: a * 2, 1, 1)(r),
        jax.vmap(jax.grad(lambda a: (a**2).sum()))(r),
    ],
    "pushed": lambda jax, x, r, w: [jax.jvp(jax.numpy.sin, (r,), (r,)), jax.linearize(jax.numpy.sin, r)[1](r)],
    "loops": lambda jax, x, r, w: [
        jax.lax.scan(lambda c, _: (c * 1.01, None), x, None, length=3)[0],
        jax.lax.fori_loop(0, 3, lambda i, c: c + 1, x),
        jax.lax.while_loop(lambda c: c.sum() < 1e3, lambda c: c * 2, x),
        jax.lax.cond(True, lambda c: c * 2, lambda c: c, x),
    ],
    "jitted": lambda jax, x, r, w: [
        jax.jit(jax.numpy.sin)(x),
        jax.jit(lambda a, b: jax.nn.relu(a @ b))(r, w),
        jax.jit(lambda a: (a.sum(0), a.T))(x),
        jax.jit(lambda a: jax.jit(jax.numpy.cos)(a) + 1)(x),
        jax.jit(jax.vmap(lambda a: a - a.mean()))(r),
    ],
    "differentiated": lambda jax, x, r, w: [
        jax.jit(jax.grad(lambda a: (a**2).sum()))(x),
        jax.jit(jax.grad(lambda a, b: jax.numpy.tanh(a @ b).sum(), (0, 1)))(r, w),
        jax.jit(jax.value_and_grad(lambda b, a: (jax.nn.relu(a @ b) ** 2).mean()))(w, r),
    ],
    "donated": lambda jax, x, r, w: jax.jit(lambda a: a + 1, donate_argnums=0)(r + 0),
}  # fmt: skip


@pytest.mark.parametrize("kind", ["Auto", "Explicit"])
@pytest.mark.parametrize("name", EAGER)
def test_results_lie_as_operands_do(name, kind):
    def program(jax):
        mesh, *arrays = _laid(jax, kind)
        with jax.set_mesh(mesh):
            return _told(jax, EAGER[name](jax, *arrays))

    agree(program, rtol=1e-4)


def test_what_the_compiler_decides_about_is_gathered_anywhere():
    def program(jax):
        _, _, r, w = _laid(jax, "Auto")
        take = jax.numpy.take_along_axis
        return _told(jax, [take(w, np.zeros((4, 1), "i"), 1), take(r, np.zeros((8, 1), "i"), 1)])

    agree(program)


@pytest.mark.parametrize("name", ["elementwise", "jitted", "differentiated", "loops", "donated"])
def test_compiled_results_lie_so_too(name, compiled):
    test_results_lie_as_operands_do(name, "Explicit")


TYPES = {
    "in jit": lambda jax, P, x, r, w: _seen(jax, jax.jit, x),
    "in vmap": lambda jax, P, x, r, w: _seen(jax, jax.vmap, x),
    "in jit of vmap": lambda jax, P, x, r, w: _seen(jax, lambda f: jax.jit(jax.vmap(f, 1)), x),
    "in vmap of jit": lambda jax, P, x, r, w: _seen(jax, lambda f: jax.vmap(jax.jit(f)), x),
    "in a loop": lambda jax, P, x, r, w: _seen(jax, lambda f: lambda x: jax.lax.fori_loop(0, 2, lambda i, c: f(c), x), x),
    "in grad": lambda jax, P, x, r, w: jax.jit(jax.grad(lambda a: (a * len(str(jax.typeof(a)))).sum()))(x),
    "aval": lambda jax, P, x, r, w: [str(x.aval), repr(x.aval), str(x.aval.sharding.spec)],
    "jaxpr": lambda jax, P, x, r, w: str(
        jax.make_jaxpr(lambda a, b: (a * 2 + 1, jax.numpy.sin(b).T, b.sum(0), a[None]))(x, r)
    ),
    "jaxpr of a product": lambda jax, P, x, r, w: str(jax.make_jaxpr(lambda a, b: jax.lax.dot(a, b))(r, w)),
    "jaxpr without shardings": lambda jax, P, x, r, w: str(jax.make_jaxpr(lambda a: a * 2)(X)),
    "eval_shape": lambda jax, P, x, r, w: str(jax.eval_shape(lambda a: a * 2, x)),
    "asked for": lambda jax, P, x, r, w: _told(jax, jax.numpy.dot(x, x.T, out_sharding=P("x"))),
    "normal": lambda jax, P, x, r, w: str(jax.typeof(jax.random.normal(jax.random.key(0), (8, 4), out_sharding=P("x")))),
    "disagree": lambda jax, P, x, r, w: x + jax.reshard(X, P("y")),
    "same axis twice": lambda jax, P, x, r, w: r[:, :1] + jax.reshard(np.ones((1, 8), "f"), P(None, "x")),
    "contracted": lambda jax, P, x, r, w: jax.jit(lambda a, b: a @ b)(x, jax.reshard(w, P("y"))),
    "contracted in einsum": lambda jax, P, x, r, w: jax.numpy.einsum("bi,bj->ij", r, r),
    "other devices": lambda jax, P, x, r, w: jax.device_put(X, jax.devices()[3]) + jax.device_put(X, jax.devices()[2]),
    "other devices in jit": lambda jax, P, x, r, w: jax.jit(lambda a, b: a + b)(
        jax.device_put(X, jax.devices()[3]), jax.device_put(X, jax.devices()[2])
    ),
    "unused": lambda jax, P, x, r, w: _told(jax, jax.jit(lambda a, b: b)(jax.device_put(X, jax.devices()[0]), x)),
    "reshard in another mesh": lambda jax, P, x, r, w: _told(jax, _through_other_axes(jax, x)),
    "auto axes": lambda jax, P, x, r, w: _told(
        jax, jax.sharding.auto_axes(lambda a, b: a + b)(x, jax.reshard(X, P("y")), out_sharding=P("x", None))
    ),
    "explicit axes": lambda jax, P, x, r, w: _told(
        jax, jax.jit(jax.sharding.auto_axes(lambda a: _explicitly(jax, a), out_sharding=P("x")))(x)
    ),
}  # fmt: skip


def _seen(jax, transformation, x):
    """The types of an array, and of what is made of it, as a transformed function sees them."""
    found = []

    def f(a):
        found.extend(jax.typeof(v) for v in (a, a.T, a.sum(0), a * 2))
        return a

    transformation(f)(x)
    return [(str(t), str(t.sharding.spec)) for t in found[:4]]


def _through_other_axes(jax, x):
    other = jax.sharding.AbstractMesh((8,), ("a",), (jax.sharding.AxisType.Explicit,))

    def moved(a):
        with jax.sharding.use_abstract_mesh(other):
            return jax.reshard(a, jax.P("a", None)) * 2

    return jax.jit(moved)(x)


def _explicitly(jax, a):
    within = jax.sharding.explicit_axes(lambda b: b * len(str(jax.typeof(b))))
    return within(a, in_sharding=jax.P("x", "y")) + 1


@pytest.mark.parametrize("name", TYPES)
def test_types_tell_of_shardings(name):
    def program(jax):
        mesh, *arrays = _laid(jax, "Explicit")
        with jax.set_mesh(mesh):
            return TYPES[name](jax, jax.P, *arrays)

    agree(program, rtol=1e-4)


def _printed(jax, capsys, function, *args):
    function(*args)
    return capsys.readouterr().out


PRINTED = {
    "split": (("x", "y"), lambda jax, a: a * 2),
    "summed": ((None, "y"), lambda jax, a: jax.lax.psum(a, "x")),
    "same for all": ((), lambda jax, a: jax.lax.psum(a, ("x", "y"))),
    "gathered": (("x", "y"), lambda jax, a: jax.lax.all_gather(a, "x", tiled=True)[:2]),
}


@pytest.mark.parametrize("name", PRINTED)
def test_arrays_in_shard_map_print_what_each_device_has(name, capsys):
    spec, function = PRINTED[name]

    def program(jax):
        mesh, x, *_ = _laid(jax, "Explicit")

        def of_parts(a):
            result = function(jax, a)
            print(a, result, jax.typeof(a), jax.typeof(result))
            return result

        with jax.set_mesh(mesh):
            result = jax.shard_map(of_parts, out_specs=jax.P(*spec))(x)
        return capsys.readouterr().out, str(result.sharding), result

    agree(program)


SHARD_MAPS = {
    "inferred": lambda jax, P, x: jax.shard_map(lambda a: a * 2, out_specs=P("x", "y"))(x),
    "inferred for one axis": lambda jax, P, x: jax.shard_map(lambda a: a * 2, out_specs=P("x"), axis_names={"x"})(x),
    "inferred by smap": lambda jax, P, x: jax.smap(lambda a: a * 2, out_axes=0, axis_name="x")(x),
    "in vmap": lambda jax, P, x: jax.jit(
        jax.vmap(jax.shard_map(lambda a: a, in_specs=P("y"), out_specs=P("y"), axis_names={"y"}))
    )(x),
    "not laid": lambda jax, P, x: jax.shard_map(lambda a: a, in_specs=P("x"), out_specs=P("x"))(X),
    "constrained within": lambda jax, P, x: jax.jit(
        jax.shard_map(lambda a: jax.lax.with_sharding_constraint(a, P("x")), out_specs=P("x", "y"))
    )(x),
    "permuted over two axes": lambda jax, P, x: [
        _permuted(jax, P, names, pairs)
        for names in (("x", "y"), ("y", "x"))
        for pairs in ([(i, (i + 3) % 8) for i in range(8)], [(0, 3), (5, 1)], [])
    ],
    "differentiated": lambda jax, P, x: jax.jit(
        jax.grad(lambda a: jax.shard_map(lambda b: jax.numpy.sin(b), out_specs=P("x", "y"))(a).sum())
    )(x),
}  # fmt: skip


def _permuted(jax, P, names, pairs):
    both = P(("x", "y"))
    f = jax.shard_map(lambda a: jax.lax.ppermute(a, names, pairs), in_specs=both, out_specs=both)
    a = jax.device_put(X, both)
    return f(a), jax.jit(jax.grad(lambda a: (f(a) ** 2).sum()))(a)


@pytest.mark.parametrize("name", SHARD_MAPS)
def test_shard_map_goes_by_types(name):
    def program(jax):
        mesh, x, *_ = _laid(jax, "Explicit")
        with jax.set_mesh(mesh):
            return _told(jax, SHARD_MAPS[name](jax, jax.P, x))

    agree(program)


def test_an_array_over_devices_goes_anywhere():
    _, x, r, _ = _laid(jaxish, "Auto")
    for array in (x, r, x + 1):
        tensor = array.to_torch()
        assert type(tensor).__name__ == "Tensor" and (np.from_dlpack(array) == np.asarray(array)).all()
        assert (tensor.numpy() == np.asarray(array)).all() and array.tolist() == np.asarray(array).tolist()
    assert float(x.sum()) == pytest.approx(X.sum()) and x[0, 1].item() == X[0, 1]


def test_threads_ask_at_once():
    _, x, *_ = _laid(jaxish, "Explicit")
    found = []
    threads = [threading.Thread(target=lambda: found.append(str(jaxish.typeof((x * 2).T)))) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["float32[4@y,8@x]"] * 16


def _shards(x):
    return [np.asarray(s.data) for s in x.addressable_shards]


SUMS = {
    "types": lambda jax, P, x: [
        str(jax.typeof(jax.device_put(X, P("x", **{kind: {"y"}})))) for kind in ("unreduced", "reduced")
    ],
    "left by a product": lambda jax, P, x: (
        lambda s: (str(s.sharding), jax.reshard(s, P("x")))
    )(jax.numpy.dot(x, jax.reshard(W, P("y")), out_sharding=P("x", None, unreduced={"y"}))),
    "of what was split": lambda jax, P, x: _shards(jax.device_put(x, P("x", None, unreduced={"y"}))),
    "linear": lambda jax, P, x: [
        (str(r.sharding), str(jax.typeof(r))) for r in jax.jit(lambda s: (s.T, s + s, s.sum()))(_sum(jax, P))
    ],
    "not linear": lambda jax, P, x: jax.jit(jax.numpy.sin)(_sum(jax, P)),
    "and what is none": lambda jax, P, x: jax.jit(lambda s, x: s + x)(_sum(jax, P), jax.reshard(X, P(None, None))),
    "times what is reduced": lambda jax, P, x: _lies(
        jax, jax.jit(lambda s, r: s * r)(_sum(jax, P), jax.device_put(X, P("x", None, reduced={"y"})))
    ),
    "times what is not": lambda jax, P, x: jax.jit(lambda s, r: s * r)(_sum(jax, P), jax.reshard(X, P("x", None))),
    "cast from what varies": lambda jax, P, x: _lies(
        jax,
        jax.shard_map(lambda a: jax.lax.pcast(a, "y", to="unreduced"), out_specs=P("x", None, unreduced={"y"}))(x),
    ),
    "cast from what does not vary": lambda jax, P, x: jax.shard_map(
        lambda a: jax.lax.pcast(jax.lax.psum(a, "y"), "y", to="unreduced"), out_specs=P("x", None, unreduced={"y"})
    )(x),
    "of other axes": lambda jax, P, x: jax.jit(lambda: _left_by_product(jax, P, "x") + _left_by_product(jax, P, "y"))(),
    "psum": lambda jax, P, x: _told(
        jax, jax.shard_map(lambda s: jax.lax.psum(s, "y"), in_specs=P("x", None, unreduced={"y"}), out_specs=P("x"))(_sum(jax, P))
    ),
    "psum_scatter": lambda jax, P, x: _told(
        jax,
        jax.jit(
            jax.shard_map(
                lambda s: jax.lax.psum_scatter(s, "y", scatter_dimension=1, tiled=True),
                in_specs=P("x", None, unreduced={"y"}), out_specs=P("x", "y"),
            )
        )(_sum(jax, P)),
    ),
    "of lanes": lambda jax, P, x: (
        lambda s: (str(s.sharding), jax.reshard(s, P(None, "y")))
    )(jax.jit(jax.shard_map(lambda a: a * 2, out_specs=P(None, "y", unreduced={"x"})))(x)),
    "cotangents": lambda jax, P, x: [
        (str(g.sharding), jax.reshard(g, P()))
        for g in jax.jit(jax.grad(lambda r, x: _sine(jax, P)(r, x).sum(), (0, 1)))(
            jax.device_put(W[0, :4], P(reduced={"x", "y"})), x
        )
    ],
    "gathered": lambda jax, P, x: str(
        jax.shard_map(
            lambda a: jax.lax.all_gather(a, "y", axis=1, tiled=True, to="reduced"), out_specs=P("x", None, reduced={"y"})
        )(x).sharding
    ),
}  # fmt: skip


def _left_by_product(jax, P, axis):
    left, right = jax.reshard(X, P(None, axis)), jax.reshard(W, P(axis, None))
    return jax.numpy.dot(left, right, out_sharding=P(unreduced={axis}))


def _lies(jax, s):
    return str(s.sharding), str(jax.typeof(s)), jax.reshard(s, jax.P(*[None] * s.ndim))


def _sum(jax, P):
    return jax.device_put(X, P("x", None, unreduced={"y"}))


def _sine(jax, P):
    def of_parts(r, a):
        varying = jax.lax.pcast(r, ("x", "y"), to="varying")
        return jax.numpy.sin(a) * varying[: a.shape[1]]

    return jax.shard_map(of_parts, out_specs=P("x", "y"))


@pytest.mark.parametrize("name", SUMS)
def test_sums_that_are_left_unreduced(name):
    def program(jax):
        mesh, x, *_ = _laid(jax, "Explicit")
        with jax.set_mesh(mesh):
            return SUMS[name](jax, jax.P, x)

    agree(program)
