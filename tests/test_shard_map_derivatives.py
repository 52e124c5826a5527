"""Derivatives within `shard_map`: what is the same for all devices and what varies are of different types, as in JAX."""

import numpy as np
import pytest
from oracle import agree

pytestmark = pytest.mark.usefixtures("unoptimized_jax")

X = np.arange(12, dtype=np.float32).reshape(4, 3) / 7
W = np.array([0.5, -1, 2], np.float32)


def mapped(j, body, out="same", check=True, axes=("i",), shape=(4,)):
    """Return the body, of parameters that all devices have and rows of their own, over the devices."""
    part = j.sharding.PartitionSpec
    mesh = j.sharding.Mesh(np.array(j.devices()[: np.prod(shape)]).reshape(shape), axes)
    outs = part() if out == "same" else part(axes[0])
    return j.shard_map(body, mesh=mesh, in_specs=(part(), part(axes)), out_specs=outs, check_vma=check)


def loss(j, w, x):
    return j.numpy.sin(x @ w).sum()


def custom(j):
    @j.custom_vjp
    def f(w, x):
        return j.numpy.sin(x @ w).sum()

    def forward(w, x):
        return f(w, x), (w, x)

    def backward(kept, g):
        w, x = kept
        slope = j.numpy.cos(x @ w) * g
        return j.lax.psum(x.T @ slope, "i"), slope[:, None] * w

    f.defvjp(forward, backward)
    return f


def pushed(j):
    @j.custom_jvp
    def f(w, x):
        return j.numpy.sin(x @ w).sum()

    @f.defjvp
    def rule(primals, tangents):
        (w, x), (dw, dx) = primals, tangents
        return f(w, x), (j.numpy.cos(x @ w) * (x @ dw + dx @ w)).sum()

    return f


def scanned(j, w, x):
    def step(c, _):
        return j.numpy.sin(c * w), j.lax.psum((x @ (c * w)).sum(), "i")

    return j.lax.scan(step, w, None, length=3)[1].sum()


def branched(j, w, x):
    return j.lax.cond(w[0] > 0, lambda: j.lax.psum((x @ w).sum(), "i"), lambda: w.sum())


SAME = {  # the gradient by what all devices have
    "loss of one device": lambda j, w, x: j.grad(lambda w: loss(j, w, x))(w),
    "mean": lambda j, w, x: j.grad(lambda w: j.lax.pmean(loss(j, w, x), "i"))(w),
    "sum": lambda j, w, x: j.grad(lambda w: j.lax.psum(loss(j, w, x), "i"))(w),
    "sum of the same": lambda j, w, x: j.grad(lambda w: j.lax.psum((w * w).sum(), "i"))(w),
    "sum, used further": lambda j, w, x: j.grad(lambda w: (j.lax.psum(x @ w, "i") ** 2 * (x @ w)).sum())(w),
    "sum of sums": lambda j, w, x: j.grad(lambda w: j.lax.psum(j.lax.psum(x @ w, "i") ** 2, "i").sum())(w),
    "a penalty on what all have": lambda j, w, x: j.grad(lambda w: (w**2).sum() + j.lax.pmean(loss(j, w, x), "i"))(w),
    "a penalty at each device": lambda j, w, x: j.grad(lambda w: (w**2).sum() + loss(j, w, x))(w),
    "a penalty, jit": lambda j, w, x: j.grad(j.jit(lambda w: (w**2).sum() + j.lax.psum(loss(j, w, x), "i")))(w),
    "what all have only": lambda j, w, x: j.grad(lambda w: (w**3).sum())(w),
    "value": lambda j, w, x: j.value_and_grad(lambda w: j.lax.pmean(loss(j, w, x), "i"))(w)[1],
    "vjp": lambda j, w, x: j.vjp(lambda w: loss(j, w, x), w)[1](1.0 + 0 * x.sum())[0],
    "jacrev": lambda j, w, x: j.jacrev(lambda w: j.lax.psum(x @ w, "i"))(w),
    "second": lambda j, w, x: j.jacfwd(j.grad(lambda w: j.lax.pmean(loss(j, w, x), "i")))(w),
    "second, backwards": lambda j, w, x: j.jacrev(j.grad(lambda w: j.lax.pmean(loss(j, w, x), "i")))(w),
    "grad of grad": lambda j, w, x: j.grad(lambda w: (j.grad(lambda w: loss(j, w, x))(w) ** 2).sum())(w),
    "linearize": lambda j, w, x: j.linear_transpose(lambda w: w * j.lax.psum(x.sum(), "i"), w)(w)[0],
    "jvp": lambda j, w, x: j.jvp(lambda w: j.lax.psum(loss(j, w, x), "i"), (w,), (w,))[1],
    "jit within": lambda j, w, x: j.grad(j.jit(lambda w: j.lax.pmean(loss(j, w, x), "i")))(w),
    "jit around": lambda j, w, x: j.jit(j.grad(lambda w, x: loss(j, w, x)))(w, x),
    "jit of a sum": lambda j, w, x: j.jit(lambda w, x: j.lax.psum(x @ w, "i"))(w, x),
    "checkpoint": lambda j, w, x: j.grad(j.checkpoint(lambda w: j.lax.pmean(loss(j, w, x), "i")))(w),
    "vmap": lambda j, w, x: j.vmap(j.grad(lambda w: loss(j, w, x)))(j.numpy.stack([w, w * 2])),
    "examples": lambda j, w, x: j.vmap(j.grad(lambda w, x: j.numpy.sin(x @ w)), (None, 0))(w, x),
    "custom_vjp": lambda j, w, x: j.grad(lambda w: custom(j)(w, x))(w),
    "custom_vjp and more": lambda j, w, x: j.grad(lambda w: (w**2).sum() + j.lax.psum(custom(j)(w, x), "i"))(w),
    "custom_vjp with a sum": lambda j, w, x: j.grad(lambda w: own_rule(j, "i")(x @ w) + own_rule(j)(w))(w),
    "custom_vjp with a sum, jit": lambda j, w, x: j.jit(j.grad(lambda w: own_rule(j, "i")(x @ w) + w.sum()))(w),
    "custom_jvp": lambda j, w, x: j.grad(lambda w: j.lax.psum(pushed(j)(w, x), "i"))(w),
    "scan": lambda j, w, x: j.grad(lambda w: scanned(j, w, x))(w),
    "cond": lambda j, w, x: j.grad(lambda w: branched(j, w, x))(w),
    "greatest": lambda j, w, x: j.grad(lambda w: (x @ w).sum() * j.lax.pmax(x.sum(), "i"))(w),
    "cast within": lambda j, w, x: j.grad(lambda w: loss(j, j.lax.pcast(w, "i", to="varying"), x))(w),
    "cast before": lambda j, w, x: j.lax.pmean(j.grad(lambda w: loss(j, w, x))(j.lax.pcast(w, "i", to="varying")), "i"),
}

OWN = {  # the gradient by what each device has of its own
    "loss of one device": lambda j, w, x: j.grad(lambda x: loss(j, w, x))(x),
    "sum": lambda j, w, x: j.grad(lambda x: j.lax.psum(loss(j, w, x), "i"))(x),
    "mean": lambda j, w, x: j.grad(lambda x: j.lax.pmean(loss(j, w, x), "i"))(x),
    "sum, used further": lambda j, w, x: j.grad(lambda x: (j.lax.psum(x, "i") * x).sum())(x),
    "gathered": lambda j, w, x: j.grad(lambda x: (j.lax.all_gather(x, "i", tiled=True) @ w).sum())(x),
    "gathered, own part": lambda j, w, x: j.grad(
        lambda x: (j.lax.all_gather(x, "i") ** 2).sum() * (j.lax.axis_index("i") + 1.0)
    )(x),
    "gathered first": lambda j, w, x: j.lax.psum_scatter(
        j.grad(lambda y: (y @ w * (j.lax.axis_index("i") + 1.0)).sum())(j.lax.all_gather(x, "i", tiled=True)),
        "i",
        tiled=True,
    ),
    "scattered": lambda j, w, x: j.grad(lambda y: (j.lax.psum_scatter(y, "i", tiled=True) ** 2).sum())(
        j.numpy.tile(x, (4, 1))
    ),
    "permuted": lambda j, w, x: j.grad(
        lambda x: (j.lax.ppermute(x, "i", [(i, (i + 1) % 4) for i in range(4)]) * x**2).sum()
    )(x),
    "jit": lambda j, w, x: j.grad(j.jit(lambda x: j.lax.psum(loss(j, w, x), "i")))(x),
    "checkpoint": lambda j, w, x: j.grad(j.checkpoint(lambda x: j.lax.psum(loss(j, w, x), "i")))(x),
    "custom_vjp": lambda j, w, x: j.grad(lambda x: custom(j)(w, x))(x),
    "cast before": lambda j, w, x: j.grad(lambda w: loss(j, w, x))(j.lax.pcast(w, "i", to="varying")),
    "transposed": lambda j, w, x: j.linear_transpose(lambda v: j.numpy.sin(x) * v, x)(x)[0],
    "transposed sum": lambda j, w, x: j.linear_transpose(lambda v: j.lax.psum(v * x, "i"), x)(j.lax.psum(x, "i"))[0],
    "greatest": lambda j, w, x: x / j.lax.pmax(x.sum(), "i"),
    "a key": lambda j, w, x: j.random.uniform(j.lax.pcast(j.random.key(3), "i", to="varying"), x.shape),
}


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("name", SAME)
def test_gradients_by_what_all_devices_have(name, jit):
    def program(j, w, x):
        f = mapped(j, lambda w, x: SAME[name](j, w, x))
        return (j.jit(f) if jit else f)(j.numpy.asarray(w), j.numpy.asarray(x))

    agree(program, W, X, weak=False, at_once=True)


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("name", OWN)
def test_gradients_by_what_each_device_has(name, jit):
    def program(j, w, x):
        f = mapped(j, lambda w, x: OWN[name](j, w, x), "own")
        return (j.jit(f) if jit else f)(j.numpy.asarray(w), j.numpy.asarray(x))

    agree(program, W, X, weak=False, at_once=True)


AROUND = {  # functions of one device's part, differentiated from without
    "plain": lambda j, w, x: j.lax.pmean(loss(j, w, x), "i"),
    "jit": lambda j, w, x: j.jit(lambda w, x: j.lax.psum(loss(j, w, x), "i") * w.sum())(w, x),
    "jit of the same": lambda j, w, x: j.jit(lambda w: (w**2).sum())(w) + j.lax.psum(loss(j, w, x), "i"),
    "checkpoint": lambda j, w, x: j.checkpoint(lambda w: j.lax.psum(loss(j, w, x), "i") * w[0])(w),
    "custom_vjp": lambda j, w, x: j.lax.psum(own_rule(j)(x @ w), "i"),
    "custom_vjp of the same": lambda j, w, x: own_rule(j)(w) * j.lax.pmean(x.sum(), "i"),
    "custom_vjp with a sum": lambda j, w, x: own_rule(j, "i")(x @ w),
    "custom_jvp": lambda j, w, x: j.lax.psum(pushed(j)(w, x), "i"),
    "scan": scanned,
    "cond": branched,
    "a gradient": lambda j, w, x: (j.grad(lambda w: loss(j, w, x))(w) ** 2).sum(),
    "a gradient of jit": lambda j, w, x: (j.jit(j.grad(lambda w: loss(j, w, x)))(w) ** 2).sum(),
}


def own_rule(j, axis=None):
    @j.custom_vjp
    def f(y):
        return total(j.numpy.sin(y).sum())

    def total(y):
        return j.lax.psum(y, axis) if axis else y

    f.defvjp(lambda y: (f(y), y), lambda y, g: (3 * j.numpy.cos(y) * g,))
    return f


@pytest.mark.parametrize("name", AROUND)
def test_gradients_of_the_whole(name):
    def program(j):
        f = mapped(j, lambda w, x: AROUND[name](j, w, x))
        return j.grad(f, (0, 1))(j.numpy.asarray(W), j.numpy.asarray(X))

    agree(program, weak=False)


@pytest.mark.parametrize("name", ["sum", "mean", "sum, used further", "gathered", "custom_vjp", "permuted"])
def test_without_the_check_cotangents_are_summed_by_hand(name):
    agree(lambda j: mapped(j, lambda w, x: OWN[name](j, w, x), "own", check=False)(W, X), weak=False)


def test_sums_over_one_axis_of_two():
    def program(j):
        def body(w, x):
            total = lambda w: (j.lax.psum(x @ w, "k") ** 2).sum()
            return j.grad(total)(w), j.grad(lambda w: j.lax.psum(total(w), "i"))(w)

        return mapped(j, body, axes=("i", "k"), shape=(2, 2))(W, X)

    agree(program, weak=False)


def talking(j, kind):
    """A function whose rule of its own sums over the devices, or asks which one it is on."""
    total = lambda x: j.lax.psum(x, "i")
    if kind == "custom_vjp":
        f = j.custom_vjp(lambda x: j.numpy.tan(total(x)))
        f.defvjp(lambda x: (j.numpy.tan(total(x)), total(x)), lambda s, g: (total(g) * j.numpy.cos(s),))
    else:
        f = j.custom_jvp(lambda x: j.numpy.tan(total(x)))
        f.defjvp(lambda primals, tangents: (f(*primals), total(tangents[0]) * j.lax.axis_index("i")))
    return f


WITHIN = {
    "called": lambda j, f: f,
    "checkpoint": lambda j, f: j.checkpoint(f),
    "scan": lambda j, f: lambda x: j.lax.scan(lambda c, _: (f(c) / 2, c), x, None, length=2)[0],
    "cond": lambda j, f: lambda x: j.lax.cond(j.lax.axis_index("i") >= 0, f, j.numpy.sin, x),
}


@pytest.mark.parametrize("how", ["shard_map", "pmap"])
@pytest.mark.parametrize("within", WITHIN)
@pytest.mark.parametrize("kind", ["custom_vjp", "custom_jvp"])
def test_rules_of_users_know_the_devices_whenever_they_run(kind, within, how):
    x = np.arange(4, dtype=np.float32) / 10

    def program(j):
        f = WITHIN[within](j, talking(j, kind))
        if how == "pmap":
            g = j.pmap(f, axis_name="i")
        else:
            part, mesh = j.sharding.PartitionSpec("i"), j.sharding.Mesh(np.array(j.devices()[:4]), ("i",))
            g = j.shard_map(f, mesh=mesh, in_specs=part, out_specs=part, check_vma=False)
        jitted = lambda x: j.jit(g)(x).sum()
        return j.grad(jitted)(x), j.jit(j.grad(jitted))(x), j.vmap(j.grad(jitted))(np.stack([x, 2 * x]))

    agree(program, rtol=1e-4)


@pytest.mark.parametrize("how", ["shard_map", "pmap", "vmap"])
def test_the_axis_of_a_rule_is_that_of_the_devices_and_not_of_examples(how):
    x = np.arange(8, dtype=np.float32).reshape(4, 2) / 10

    def program(j):
        f = j.custom_jvp(lambda x: j.lax.psum(x * x, "i") * x)
        f.defjvp(lambda primals, tangents: (f(*primals), j.lax.psum(tangents[0], "i") * primals[0]))
        examples = lambda x: j.vmap(j.vmap(f))(j.numpy.stack([x, x / 2, 3 * x])).sum(0)
        if how == "shard_map":
            part, mesh = j.sharding.PartitionSpec("i"), j.sharding.Mesh(np.array(j.devices()[:4]), ("i",))
            g = j.shard_map(lambda x: examples(x[0])[None], mesh=mesh, in_specs=part, out_specs=part, check_vma=False)
        else:
            g = {"pmap": j.pmap, "vmap": j.vmap}[how](examples, axis_name="i")
        return [j.jvp(h, (x,), (np.cos(x),))[1] for h in (g, j.jit(g))], j.grad(lambda x: (g(x) ** 2).sum())(x)

    agree(program, rtol=1e-4)


OF_COTANGENTS = {
    "the same": lambda j, g: g,
    "summed": lambda j, g: j.lax.psum(g, "i"),
    "times the index": lambda j, g: g * j.lax.axis_index("i"),
}


@pytest.mark.parametrize("how", ["shard_map", "jitted shard_map", "pmap"])
@pytest.mark.parametrize("name", OF_COTANGENTS)
def test_rules_get_the_cotangents_of_their_own_device(name, how):
    """Without types that tell what varies: also where a value is the same for all devices, as a sum over them is."""
    x = np.arange(1, 5, dtype=np.float32) / 10

    def program(j):
        f, same = (j.custom_vjp(g) for g in (lambda x: j.lax.psum(x, "i"), lambda x: x))
        f.defvjp(lambda x: (j.lax.psum(x, "i"), None), lambda _, g: (OF_COTANGENTS[name](j, g),))
        same.defvjp(lambda x: (x, None), lambda _, g: (OF_COTANGENTS[name](j, g),))
        bodies = [
            f,
            lambda x: f(x) * x,
            lambda x: j.jit(f)(x) * x,
            lambda x: j.lax.psum(f(x) * x, "i"),
            lambda x: f(j.lax.psum(x, "i")) * x,
            lambda x: same(j.lax.psum(x, "i")) * x,
            lambda x: j.checkpoint(f)(x) * x,
            lambda x: j.lax.scan(lambda c, _: (c + f(c) * x / 9, None), x, None, length=2)[0],
        ]
        part, mesh = j.sharding.PartitionSpec("i"), j.sharding.Mesh(np.array(j.devices()[:4]), ("i",))
        over = lambda body: j.shard_map(body, mesh=mesh, in_specs=part, out_specs=part, check_vma=False)
        way = {
            "shard_map": over,
            "jitted shard_map": lambda body: j.jit(over(body)),
            "pmap": lambda body: j.pmap(body, axis_name="i"),
        }[how]
        weights = np.arange(1, 5, dtype=np.float32)
        return [j.grad(lambda x, g=g: (g(x) * weights).sum())(x) for g in map(way, bodies)]

    agree(program, rtol=1e-4)


@pytest.mark.parametrize("name", OF_COTANGENTS)
def test_rules_under_vmap_get_one_cotangent_for_what_is_the_same_for_all(name):
    x = np.arange(1, 5, dtype=np.float32) / 10

    def program(j):
        f = j.custom_vjp(lambda x: j.lax.psum(x, "i"))
        f.defvjp(lambda x: (j.lax.psum(x, "i"), None), lambda _, g: (OF_COTANGENTS[name](j, g),))
        bodies = [f, lambda x: f(x) * x, lambda x: j.jit(f)(x) * x, lambda x: j.checkpoint(f)(x) * x]
        bodies += [lambda x: j.lax.scan(lambda c, _: (c + f(c) * x / 9, None), x, None, length=2)[0]]
        mapped = [j.vmap(body, axis_name="i") for body in bodies]
        return [j.jit(j.grad(lambda x, g=g: (g(x) * np.arange(1, 5)).sum()))(x) for g in mapped]

    agree(program, rtol=1e-4)
