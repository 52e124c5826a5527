"""Host callbacks against JAX: what they return, what they print, and how often."""

import importlib

import jax
import numpy as np
import pytest
import torch
from oracle import agree

import jaxish

X = np.arange(6, dtype=np.float32).reshape(3, 2)


def summed(j, **kwargs):
    return lambda x: j.pure_callback(
        lambda v: np.asarray(np.sum(np.asarray(v)), np.float32), j.ShapeDtypeStruct((), np.float32), x, **kwargs
    )


def scaled(j, method, y=2.0):
    def host(x, y):
        x, y = np.asarray(x), np.asarray(y)
        return x * y + x.ndim * 100 + y.ndim

    return lambda x: j.pure_callback(
        host, j.ShapeDtypeStruct((2,), np.float32), x, j.numpy.full(2, y, np.float32), vmap_method=method
    )


def with_rule(j):
    f = j.custom_jvp(summed(j, vmap_method="sequential"))
    f.defjvp(lambda primals, tangents: (f(*primals), tangents[0].sum()))
    return f


PURE = {
    "eager": lambda j: summed(j)(X),
    "jit": lambda j: j.jit(summed(j))(X),
    "jit of a tree": lambda j: j.jit(
        lambda x: j.pure_callback(
            lambda t: {"a": np.asarray(t["u"]) + 1, "b": np.asarray(t["v"])},
            {"a": j.ShapeDtypeStruct((2,), np.float32), "b": j.ShapeDtypeStruct((), np.int32)},
            {"u": x, "v": j.numpy.int32(3)},
        )
    )(X[0]),
    "keywords": lambda j: j.pure_callback(
        lambda x, y: np.asarray(x) * np.asarray(y), np.zeros(2, np.float32), X[0], y=2.0
    ),
    "vmap without a method": lambda j: j.vmap(summed(j))(X),
    "sequential": lambda j: j.vmap(scaled(j, "sequential"))(X),
    "sequential_unrolled": lambda j: j.vmap(scaled(j, "sequential_unrolled"))(X),
    "expand_dims": lambda j: j.vmap(scaled(j, "expand_dims"))(X),
    "broadcast_all": lambda j: j.vmap(scaled(j, "broadcast_all"))(X),
    "legacy_vectorized": lambda j: j.vmap(scaled(j, "legacy_vectorized"))(X),
    "vmap of vmap": lambda j: j.vmap(j.vmap(scaled(j, "sequential")), 1, 1)(np.stack([X, X + 1, X], 1)),
    "jit of vmap": lambda j: j.jit(j.vmap(scaled(j, "broadcast_all")))(X),
    "vmap of jit": lambda j: j.vmap(j.jit(scaled(j, "expand_dims")))(X),
    "in scan": lambda j: j.lax.scan(lambda c, x: (c + summed(j)(x), c), np.float32(0), X),
    "grad": lambda j: j.grad(summed(j))(X),
    "jvp": lambda j: j.jvp(summed(j), (X,), (X,)),
    "grad of a vector": lambda j: j.grad(lambda x: j.pure_callback(np.sin, x, x))(X),
    "grad that does not read it": lambda j: j.grad(lambda x: (summed(j)(x), x.sum())[1])(X),
    "grad of what it does to a constant": lambda j: j.grad(lambda x: x.sum() * summed(j)(j.lax.stop_gradient(x)))(X),
    "grad with a rule": lambda j: j.grad(with_rule(j))(X),
    "vmap of grad with a rule": lambda j: j.jit(j.vmap(j.grad(with_rule(j))))(X),
    "unknown method": lambda j: summed(j, vmap_method="bogus")(X),
    "wrong shape": lambda j: j.pure_callback(lambda x: np.ones(3, np.float32), j.ShapeDtypeStruct((), np.float32), X),
    "wrong dtype": lambda j: j.pure_callback(lambda x: np.ones((), np.int32), j.ShapeDtypeStruct((), np.float32), X),
    "64 bits": lambda j: j.pure_callback(lambda x: np.ones(()), np.zeros(()), X),
    "64 bits back": lambda j: j.pure_callback(lambda x: np.ones(()), j.ShapeDtypeStruct((), np.float32), X),
    "python number": lambda j: j.pure_callback(lambda x: 2.0, j.ShapeDtypeStruct((), np.float32), X),
    "that raises": lambda j: j.pure_callback(lambda x: 1 / 0, j.ShapeDtypeStruct((), np.float32), X),
}


@pytest.mark.parametrize("name", PURE)
def test_pure_callback(name):
    agree(PURE[name])


def shown(j, text="x={}", **kwargs):
    return lambda x: (j.debug.print(text, x, **kwargs), x * x)[1]


def shown_cotangent(j):
    f = j.custom_vjp(lambda x: x * x)
    f.defvjp(lambda x: (x * x, x), lambda x, g: (j.debug.print("g={} x={}", g, x), (2 * x * g,))[1])
    return f


PRINTS = {
    "eager": lambda j: j.debug.print("x={x} {} {:.2f} {y}", X, 2.5, x=j.numpy.arange(3), y="text"),
    "numbers": lambda j: j.debug.print("{} {} {} {}", True, np.int32(3), 1e-7, j.numpy.float32(1 / 3)),
    "jit": lambda j: j.jit(shown(j))(X),
    "vmap": lambda j: j.vmap(shown(j))(X),
    "vmap along 1": lambda j: j.vmap(shown(j), 1)(X),
    "vmap of what is the same": lambda j: j.vmap(lambda x: (j.debug.print("once"), x)[1])(X),
    "vmap of vmap": lambda j: j.vmap(j.vmap(shown(j)))(X),
    "vmap of jit": lambda j: j.vmap(j.jit(shown(j)))(X),
    "jit of vmap of vmap": lambda j: j.jit(j.vmap(j.vmap(shown(j))))(X),
    "grad": lambda j: j.grad(shown(j))(2.0),
    "jit of grad": lambda j: j.jit(j.grad(shown(j)))(2.0),
    "grad of jit": lambda j: j.grad(j.jit(shown(j)))(2.0),
    "grad of grad of jit": lambda j: j.jit(j.grad(j.grad(shown(j))))(2.0),
    "jvp": lambda j: j.jvp(shown(j), (2.0,), (1.0,)),
    "vmap of grad": lambda j: j.vmap(j.grad(shown(j)))(X[:, 0]),
    "grad of vmap": lambda j: j.grad(lambda x: j.vmap(shown(j))(x).sum())(X[:, 0]),
    "vmap of jit of grad": lambda j: j.vmap(j.jit(j.grad(shown(j))))(X[:, 0]),
    "scan": lambda j: j.lax.scan(lambda c, x: (shown(j, ordered=True)(c + x), c), np.float32(1), X[:, 1]),
    "grad of scan": lambda j: j.grad(
        lambda y: j.lax.scan(lambda c, x: (shown(j, ordered=True)(c * x), c), y, X[:, 1])[0]
    )(np.float32(2)),
    "jit of grad of scan": lambda j: j.jit(
        j.grad(lambda y: j.lax.scan(lambda c, x: (shown(j, ordered=True)(c * x), c), y, X[:, 1])[0])
    )(np.float32(2)),
    "cond": lambda j: j.jit(lambda y: j.lax.cond(y > 0, shown(j, "then {}"), shown(j, "else {}"), y))(2.0),
    "grad of cond": lambda j: j.grad(lambda y: j.lax.cond(y > 0, shown(j), lambda y: y, y))(2.0),
    "jit of grad of cond": lambda j: j.jit(j.grad(lambda y: j.lax.cond(y > 0, shown(j), lambda y: y, y)))(2.0),
    "while loop": lambda j: j.jit(
        lambda n: j.lax.while_loop(lambda i: i < n, lambda i: (shown(j, ordered=True)(i), i + 1)[1], 0)
    )(3),
    "jvp of jit": lambda j: j.jvp(j.jit(shown(j)), (2.0,), (1.0,)),
    "hessian of jit": lambda j: j.hessian(j.jit(shown(j)))(2.0),
    "vmap of jvp of scan": lambda j: j.vmap(
        lambda x: j.jvp(lambda y: j.lax.scan(lambda c, _: (shown(j)(c), None), y, None, length=2)[0], (x,), (1.0,))
    )(X[:, 0]),
    "linearize": lambda j: j.linearize(shown(j), 2.0)[1](1.0),
    "cotangents": lambda j: j.grad(shown_cotangent(j))(3.0),
    "cotangents in grad of jit": lambda j: j.grad(j.jit(shown_cotangent(j)))(3.0),
    "cotangents in jit of grad of scan": lambda j: j.jit(
        j.grad(lambda x: j.lax.scan(lambda c, _: (shown_cotangent(j)(c), None), x, None, length=2)[0])
    )(2.0),
    "nothing": lambda j: j.jit(lambda: j.debug.print("nothing"))(),
    "too few arguments": lambda j: j.debug.print("{} {}", 1),
    "an argument too many": lambda j: j.debug.print("text", 1),
    "a keyword too many": lambda j: j.debug.print("text", x=1),
}


def output(program, j, capfd):
    try:
        program(j)
        jax.effects_barrier()
    except Exception as error:
        return type(error).__name__
    return capfd.readouterr().out


@pytest.mark.parametrize("tier", ["direct", "compiled"])
@pytest.mark.parametrize("name", PRINTS)
def test_debug_print(name, tier, capfd):
    wanted = output(PRINTS[name], jax, capfd)
    before = jaxish.config.jaxish_jit_tier
    jaxish.config.update("jaxish_jit_tier", tier)
    try:
        found = output(PRINTS[name], jaxish, capfd)
    finally:
        jaxish.config.update("jaxish_jit_tier", before)
    # XLA may call for the examples of a batch in any order.
    assert sorted(found.splitlines()) == sorted(wanted.splitlines()) if "vmap" in name else found == wanted


def test_a_pure_callback_within_compiled_code():
    before = jaxish.config.jaxish_jit_tier
    jaxish.config.update("jaxish_jit_tier", "compiled")
    try:
        program = jaxish.jit(lambda x: summed(jaxish)(x * 2) + 1)
        assert [float(program(X)), float(program(X + 1))] == [31.0, 43.0]
    finally:
        jaxish.config.update("jaxish_jit_tier", before)


def test_an_unused_pure_callback_is_left_out():
    calls = []
    f = jaxish.jit(lambda x: (jaxish.pure_callback(lambda v: calls.append(v) or np.float32(0), np.float32(0), x), x)[1])
    f(X)
    assert not calls


def test_debug_callback_gets_arrays_and_what_else_it_was_given():
    def program(j):
        seen = []
        j.jit(lambda x: j.debug.callback(lambda *args, **kwargs: seen.append((args, kwargs)), x, 3, "text", z=x[0]))(
            X[0]
        )
        jax.effects_barrier()
        ((args, kwargs),) = seen
        return np.asarray(args[0]), np.asarray(args[1]), args[2] == "text", np.asarray(kwargs["z"])

    agree(program)


@pytest.mark.parametrize("around", ["as it is", "vmap", "jit", "vmap of jit", "scan", "cond"])
def test_what_a_debug_callback_raises_is_an_error_of_the_program_that_calls_it(around):
    def failing(j):
        def doubled(x):
            j.debug.callback(lambda value: 1 / 0, x)
            return x * 2

        return {
            "as it is": doubled,
            "vmap": j.vmap(doubled),
            "jit": j.jit(doubled),
            "vmap of jit": j.vmap(j.jit(doubled)),
            "scan": lambda x: j.lax.scan(lambda carry, row: (doubled(carry), row), x[0], x),
            "cond": lambda x: j.lax.cond(x[0] < 1, doubled, lambda x: x, x),
        }[around]

    def program(j):
        result = j.block_until_ready(failing(j)(j.numpy.arange(3.0)))
        j.effects_barrier()  # where JAX raises what no result waits for
        return result

    agree(program)


WRAPPERS = {
    "call": lambda j, f: f(X[0]),
    "jit": lambda j, f: j.jit(f)(X[0]),
    "vmap": lambda j, f: j.vmap(f)(X),
    "jit of vmap": lambda j, f: j.jit(j.vmap(f))(X),
}


@pytest.mark.parametrize("name", WRAPPERS)
def test_io_callback_is_called_for_each_example_although_nothing_uses_it(name):
    def program(j):
        io_callback = importlib.import_module(f"{j.__name__}.experimental").io_callback
        seen = []

        def host(x):
            seen.append(np.asarray(x).tolist())
            return np.asarray(x) * 2

        def f(x):
            io_callback(host, j.ShapeDtypeStruct((2,), np.float32), x)
            return io_callback(host, j.ShapeDtypeStruct((2,), np.float32), x) + 1

        result = np.asarray(WRAPPERS[name](j, f))
        jax.effects_barrier()
        return result, sorted(seen)

    agree(program)


def test_ordered_io_callbacks_refuse_vmap():
    def program(j):
        io_callback = importlib.import_module(f"{j.__name__}.experimental").io_callback
        return j.vmap(lambda x: io_callback(lambda v: v, j.ShapeDtypeStruct((2,), np.float32), x, ordered=True))(X)

    agree(program)


def test_print_and_callback_without_what_to_call_take_options():
    def program(j):
        seen = []
        j.debug.callback(ordered=True)(lambda x: seen.append(float(x)), 2.0)
        j.debug.print(ordered=True)("{}", 1)
        jax.effects_barrier()
        return seen

    agree(program)


@pytest.mark.parametrize("call", [lambda j: j.named_scope(3), lambda j: j.named_call(lambda x: x, name="f")(2)])
def test_named_scopes(call):
    agree(call)


def test_named_scopes_name_profiled_work():
    @jaxish.named_scope("decorated")
    def f(x):
        return x + 1

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        with jaxish.named_scope("outer"):
            f(jaxish.numpy.ones(3))
        jaxish.jit(f)(jaxish.numpy.ones(3))
    assert {"outer", "decorated"} <= {event.key for event in profile.key_averages()}


def test_live_arrays_are_those_that_have_not_been_deleted():
    x = jaxish.numpy.arange(5.0)
    assert any(y is x for y in jaxish.live_arrays())
    x.delete()
    assert not any(y is x for y in jaxish.live_arrays())


def test_environment_info_names_versions():
    assert "torch" in (jaxish.print_environment_info(return_string=True) or "")


class Wrapped:
    """What other libraries return: no array, but something NumPy makes one of."""

    def __array__(self, dtype=None, copy=None):
        return np.array(42.0, np.float32)


@pytest.mark.parametrize("call", ["pure_callback", "io_callback"])
def test_results_of_other_libraries(call):
    def program(j):
        callback = getattr(j, call, None) or j.experimental.io_callback
        return j.jit(lambda x: callback(lambda x: Wrapped(), j.ShapeDtypeStruct((), np.float32), x))(0.0)

    agree(program)


@pytest.mark.parametrize("call", ["pure_callback", "io_callback"])
def test_errors_of_callbacks_are_logged(call, caplog):
    def text(j):
        def fails(x):
            raise KeyError("missing")

        callback = getattr(j, call, None) or j.experimental.io_callback
        caplog.clear()
        with pytest.raises(RuntimeError):
            j.jit(lambda x: callback(fails, j.ShapeDtypeStruct((), np.float32), x))(0.0).block_until_ready()
        return next((r.name, r.message) for r in caplog.records if r.levelname == "ERROR")

    assert text(jaxish) == text(jax)


@pytest.mark.parametrize("transform", ["jvp", "grad"])
@pytest.mark.parametrize("call", ["pure_callback", "io_callback"])
def test_callbacks_have_no_derivatives(call, transform):
    def text(j):
        callback = getattr(j, call, None) or j.experimental.io_callback
        f = lambda x: callback(lambda x: x, j.ShapeDtypeStruct((), np.float32), x)
        with pytest.raises(ValueError) as error:
            j.jvp(f, (0.0,), (1.0,)) if transform == "jvp" else j.grad(f)(0.0)
        return str(error.value).split(".")[0]

    assert text(jaxish) == text(jax)


def io(j):
    return lambda x: j.experimental.io_callback(lambda x: x, j.ShapeDtypeStruct((), np.float32), x)


EFFECTS = {
    "vmap of cond": lambda j: j.vmap(lambda x: j.lax.cond(x > 1, io(j), lambda x: x, x))(X[:, 0]),
    "derivative of checkpoint": lambda j: j.grad(j.checkpoint(lambda x: (io(j)(2.0), x)[1]))(1.0),
    "checkpoint": lambda j: j.checkpoint(lambda x: (io(j)(2.0), x)[1])(1.0),
    "derivative": lambda j: j.grad(lambda x: io(j)(2.0) * x)(1.0),
}


@pytest.mark.parametrize("name", EFFECTS)
def test_where_effects_have_a_place(name):
    agree(EFFECTS[name], weak=False)


def test_logged_values(caplog):
    caplog.set_level("INFO")

    def texts(j):
        caplog.clear()
        j.jit(lambda x: j.debug.log("x={}", x * x))(2)
        j.effects_barrier()
        return [r.message for r in caplog.records if r.message.startswith("x=")]

    assert texts(jaxish) == texts(jax) == ["x=4"]


@pytest.mark.parametrize("call", ["pure_callback", "io_callback"])
@pytest.mark.parametrize("make", [lambda j: j.core.ShapedArray, lambda j: j.ShapeDtypeStruct])
@pytest.mark.parametrize("dtype", [np.int64, np.float64, np.int32])
def test_types_of_64_bits_are_refused(call, make, dtype):
    def program(j):
        callback = getattr(j, call, None) or j.experimental.io_callback
        return callback(lambda: np.int32(1), make(j)((), dtype))

    agree(program)


@pytest.mark.parametrize("wrap", [lambda j, f: f, lambda j, f: j.jit(f)], ids=["plain", "jit"])
@pytest.mark.parametrize("call", ["pure_callback", "io_callback", "debug"])
def test_weak_types_of_what_callbacks_get(call, wrap):
    def program(j):
        seen = []

        def host(*args):
            seen.extend(a.weak_type for a in args)
            return np.float32(0)

        def f(x):
            if call == "debug":
                return j.debug.callback(host, x, x * 2)
            callback = getattr(j, call, None) or importlib.import_module(f"{j.__name__}.experimental").io_callback
            return callback(host, j.ShapeDtypeStruct((), np.float32), x, x * 2)

        for x in (1.0, j.numpy.asarray(2.0), j.numpy.float32(3)):
            j.block_until_ready(wrap(j, f)(x))
        j.effects_barrier()
        return seen

    agree(program)


OVER_DEVICES = {
    "pmap": lambda j, f: j.pmap(f)(X),
    "pmap, named": lambda j, f: j.pmap(lambda x: f(x) + j.lax.axis_index("d"), "d")(X),
    "shard_map": lambda j, f: j.shard_map(
        f, mesh=j.sharding.Mesh(np.array(j.devices()[:3]), "d"), in_specs=j.P("d"), out_specs=j.P("d")
    )(X),
    "jit of shard_map": lambda j, f: j.jit(
        j.shard_map(f, mesh=j.sharding.Mesh(np.array(j.devices()[:3]), "d"), in_specs=j.P("d"), out_specs=j.P("d"))
    )(X),
}


@pytest.mark.parametrize("method", [None, "expand_dims", "sequential"])
@pytest.mark.parametrize("name", OVER_DEVICES)
def test_each_device_calls_a_pure_callback(name, method):
    def program(j):
        def f(x):
            type = j.ShapeDtypeStruct(x.shape, x.dtype)
            return j.pure_callback(lambda v: np.asarray(v) * 2 + np.ndim(v), type, x, vmap_method=method)

        return OVER_DEVICES[name](j, f)

    agree(program)


def test_a_batch_within_a_device_needs_a_method():
    def f(j):
        return lambda x: j.pure_callback(lambda v: np.asarray(v), j.ShapeDtypeStruct((), np.float32), x)

    agree(lambda j: j.pmap(j.vmap(f(j)))(X))
