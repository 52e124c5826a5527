"""Kinds of memory, as JAX's CPU has them: what arrays and types tell, what moves, what is refused."""

import jax
import jax.ad_checkpoint
import numpy as np
import pytest
import torch
from oracle import agree

import jaxish
import jaxish.ad_checkpoint
from jaxish._core.graph import TensorType
from jaxish._devices.devices import Device
from jaxish._transforms import remat

X = np.arange(8, dtype=np.float32).reshape(4, 2)


def _told(lib, tree):
    """Return the values of a tree's arrays, how they lie and their types, as texts."""
    return lib.tree.map(lambda a: (np.asarray(a), str(a.sharding), str(lib.typeof(a))), tree)


class Places:
    """Shardings of one device and of a mesh in each kind of memory, and the array of the tests in them."""

    def __init__(self, lib):
        kinds = lib.sharding.AxisType
        auto, explicit = (
            lib.make_mesh((4, 2), ("x", "y"), axis_types=(kind,) * 2) for kind in (kinds.Auto, kinds.Explicit)
        )
        self.device = lib.sharding.SingleDeviceSharding(lib.devices()[0])
        self.host, self.unpinned = (self.device.with_memory_kind(kind) for kind in ("pinned_host", "unpinned_host"))
        self.rows = lib.sharding.NamedSharding(auto, lib.P("x"))
        self.rows_on_host = self.rows.with_memory_kind("pinned_host")
        self.typed_on_host = lib.sharding.NamedSharding(explicit, lib.P("x"), memory_kind="pinned_host")
        self.x = lib.numpy.asarray(X)
        self.h, self.u = (lib.device_put(self.x, s) for s in (self.host, self.unpinned))
        self.mx, self.mh = (lib.device_put(self.x, s) for s in (self.rows, self.rows_on_host))


DEVICES = {
    "memories": lambda lib, d: [(m.kind, repr(m), str(m), m.platform) for m in d.addressable_memories()],
    "default": lambda lib, d: (repr(d.default_memory()), d.default_memory() == d.memory("device")),
    "by kind": lambda lib, d: (d.memory("pinned_host").addressable_by_devices() == [d], repr(d.memory("unpinned_host"))),
    "unknown": lambda lib, d: d.memory("attic"),
    "shardings": lambda lib, d: [
        (str(s), s.memory_kind, s == lib.sharding.SingleDeviceSharding(d), hash(s) == hash(lib.sharding.SingleDeviceSharding(d)))
        for kind in (None, "device", "pinned_host", "unpinned_host")
        for s in [lib.sharding.SingleDeviceSharding(d, memory_kind=kind)]
    ],
    "unknown kind": lambda lib, d: lib.sharding.SingleDeviceSharding(d).with_memory_kind("attic"),
}  # fmt: skip


@pytest.mark.parametrize("place", [0, 3])
@pytest.mark.parametrize("name", DEVICES)
def test_memories_of_devices(name, place):
    agree(lambda lib: DEVICES[name](lib, lib.devices("cpu")[place]))


SHARDINGS = {
    "texts": lambda lib, p: [str(p.rows_on_host), repr(p.host), p.rows_on_host.memory_kind],
    "equal": lambda lib, p: [
        p.rows == p.rows_on_host, p.rows == p.rows_on_host.with_memory_kind("device"), p.host == p.unpinned,
        p.rows.is_equivalent_to(p.rows_on_host, 2), p.rows_on_host.is_equivalent_to(p.rows_on_host.update(spec=lib.P("x", None)), 2),
    ],
    "updated": lambda lib, p: str(p.rows_on_host.update(spec=lib.P("y"))),
    "unknown kind": lambda lib, p: p.rows.with_memory_kind("attic"),
    "types": lambda lib, p: [
        str(lib.core.ShapedArray((2,), "float32", memory_space=space)) for space in lib.memory.Space
    ],
    "types differ": lambda lib, p: lib.typeof(p.h) == lib.typeof(p.x),
    "types changed": lambda lib, p: lib.typeof(p.h).update(memory_space=lib.memory.Space.Device) == lib.typeof(p.x),
    "types of parts": lambda lib, p: (lib.typeof(p.h).str_short(True), str(lib.typeof(p.h).memory_space)),
    "like": lambda lib, p: str(lib.ShapeDtypeStruct.like(p.h).sharding),
}  # fmt: skip


@pytest.mark.parametrize("name", SHARDINGS)
def test_shardings_and_types(name):
    agree(lambda lib: SHARDINGS[name](lib, Places(lib)))


def _gradient(lib, f, x):
    return lib.grad(lambda x: f(x).sum())(x)


PUT = {
    "one device": lambda lib, p: [p.h, p.u, lib.device_put(p.h, p.device), lib.device_put(p.u, p.host)],
    "a mesh": lambda lib, p: [p.mh, lib.device_put(p.mh, p.rows), lib.device_put(X, p.typed_on_host)],
    "another device": lambda lib, p: lib.device_put(
        p.h, lib.sharding.SingleDeviceSharding(lib.devices()[1], memory_kind="pinned_host")
    ),
    "spaces": lambda lib, p: [
        lib.device_put(x, space)
        for space in (lib.memory.Space.Device, lib.memory.Space.Host)
        for x in (p.x, p.h, p.u, p.mx, p.mh)
    ],
    "from the host": lambda lib, p: [lib.device_put(x, lib.memory.Space.Host) for x in (X, 1.0)],
    "nowhere else": lambda lib, p: lib.device_put(p.h),
    "a copy": lambda lib, p: [lib.device_put(p.x, p.host, may_alias=False), p.h.copy(), lib.numpy.array(p.h)],
    "computing": lambda lib, p: [p.h + 1, p.h + p.h, lib.numpy.sin(p.h), p.h.T @ p.h, p.h[0], p.h.sum(0), p.h.astype("int32")],
    "over a mesh": lambda lib, p: [p.mh + 1, lib.numpy.sin(p.mh), p.mh.sum(0)],
    "explicit axes": lambda lib, p: lib.device_put(X, p.typed_on_host) * 2,
    "unpinned": lambda lib, p: [p.u + 1, p.u + p.x],
    "numbers": lambda lib, p: [p.h * lib.numpy.float32(2), lib.device_put(lib.numpy.float32(2), p.host) * p.x],
    "updates": lambda lib, p: [p.h.at[0].set(1.0), p.h.at[0].set(p.x[0])],
    "rows": lambda lib, p: list(p.h),
    "callback": lambda lib, p: lib.make_array_from_callback((4, 2), p.rows_on_host, lambda index: X[index]),
    "vmap": lambda lib, p: [lib.vmap(lambda a: a * 2)(p.h), lib.vmap(lambda a: lib.device_put(a, p.host))(p.x)],
    "jvp": lambda lib, p: [
        lib.jvp(lambda a: a * 2, (p.h,), (p.h,)), lib.jvp(lambda a: lib.device_put(a, p.host), (p.x,), (p.x,)),
    ],
    "gradients": lambda lib, p: [
        _gradient(lib, lambda a: lib.device_put(lib.device_put(a, p.host) * 2, p.device), p.x),
        _gradient(lib, lambda a: lib.device_put(a, p.device) * 2, p.h),
        lib.jit(lib.grad(lambda a: (lib.device_put(a, p.device) * 2).sum()))(p.h),
        lib.grad(lib.jit(lambda a: (lib.device_put(a, p.device) * 2).sum()))(p.h),
    ],
    "loops": lambda lib, p: [
        lib.lax.fori_loop(0, 2, lambda i, a: a + 1, p.h),
        lib.lax.scan(lambda c, row: (c + lib.device_put(row, p.device), row), lib.numpy.zeros(2), p.h),
        lib.lax.cond(True, lambda a: a, lambda a: a * 2, p.h),
        lib.lax.cond(True, lambda a: lib.device_put(a, p.device), lambda a: lib.device_put(a * 2, p.device), p.h) + p.x,
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", PUT)
def test_arrays_in_the_memory_of_the_host(name):
    agree(lambda lib: _told(lib, PUT[name](lib, Places(lib))))


def _seen(lib, f, *args, **options):
    """Return what a jitted function gives, and the types of the arguments within it."""
    types = []

    def watched(*args):
        types.extend(str(lib.typeof(a)) for a in args)
        return f(*args)

    return _told(lib, lib.jit(watched, **options)(*args)), types


JITTED = {
    "as it comes": lambda lib, p: _seen(lib, lambda a: a * 2, p.h),
    "both": lambda lib, p: _seen(lib, lambda a, b: (a, b * 2), p.h, p.x),
    "over a mesh": lambda lib, p: _seen(lib, lambda a: a * 2, p.mh),
    "to the device": lambda lib, p: _seen(lib, lambda a: a, p.mh, out_shardings=p.rows),
    "to the host": lambda lib, p: _seen(lib, lambda a: a, p.mx, out_shardings=p.rows_on_host),
    "asked for": lambda lib, p: str(lib.jit(lambda a: a * 2, out_shardings=p.host)(p.x).sharding),
    "asked for of nothing": lambda lib, p: str(lib.jit(lambda: lib.numpy.ones(2), out_shardings=p.host)().sharding),
    "arguments": lambda lib, p: _seen(lib, lambda a: a * 2, p.h, in_shardings=p.host),
    "arguments of the host": lambda lib, p: _seen(lib, lambda a: a * 2, X, in_shardings=p.host),
    "arguments elsewhere": lambda lib, p: lib.jit(lambda a: a * 2, in_shardings=p.device)(p.h),
    "arguments of a mesh elsewhere": lambda lib, p: lib.jit(lambda a: a * 2, in_shardings=p.rows_on_host)(p.mx),
    "moved": lambda lib, p: _seen(lib, lambda a: lib.device_put(a, p.rows) + 1, p.mh, out_shardings=p.rows),
    "moved by space": lambda lib, p: _seen(lib, lambda a: lib.device_put(a, lib.memory.Space.Device) + 1, p.mh),
    "moved to the host": lambda lib, p: [
        _seen(lib, lambda a: lib.device_put(a, lib.memory.Space.Host), x) for x in (p.x, p.mx)
    ],
    "constrained": lambda lib, p: [
        _seen(lib, lambda a: lib.lax.with_sharding_constraint(a, p.rows), p.mh),
        _seen(lib, lambda a: lib.lax.with_sharding_constraint(a, p.rows_on_host), p.mx),
    ],
    "jaxpr": lambda lib, p: str(lib.make_jaxpr(lambda a: a + 1)(p.h)),
    "compiled": lambda lib, p: [
        str(s)
        for compiled in [lib.jit(lambda a: a * 2).lower(p.h).compile()]
        for s in (compiled.input_shardings, compiled.output_shardings, compiled(p.h).sharding, compiled(p.x).sharding)
    ],
    "lowered for a type": lambda lib, p: str(
        lib.jit(lambda a: a * 2).lower(lib.ShapeDtypeStruct((4, 2), "float32", sharding=p.host)).compile().input_shardings
    ),
    "compiled for the device": lambda lib, p: lib.jit(lambda a: a * 2).lower(p.x).compile()(p.h),
    "traced anew": lambda lib, p: [_told(lib, f(a)) for f in [lib.jit(lambda a: a * 2)] for a in (p.x, p.h, p.x, p.mh)],
}  # fmt: skip


@pytest.mark.parametrize("name", JITTED)
def test_jitted_functions(name):
    agree(lambda lib: JITTED[name](lib, Places(lib)))


@pytest.mark.parametrize("name", ["as it comes", "to the host", "moved", "traced anew", "both"])
def test_compiled_functions(name, compiled):
    agree(lambda lib: JITTED[name](lib, Places(lib)))


REFUSED = {
    "sums": lambda lib, p: p.h + p.x,
    "of numpy": lambda lib, p: p.h + np.ones((4, 2), "f"),
    "of a mesh": lambda lib, p: p.mh * p.mx,
    "in jit": lambda lib, p: lib.jit(lambda a, b: a + b)(p.h, p.x),
    "moved": lambda lib, p: lib.jit(lambda a: lib.device_put(a, p.host) + a)(p.x),
    "products": lambda lib, p: p.h @ p.x.T,
    "chosen": lambda lib, p: lib.numpy.where(p.x > 0, p.x, p.h),
    "put together": lambda lib, p: lib.numpy.concatenate([p.h, p.x]),
    "stacked": lambda lib, p: lib.numpy.stack([p.h, p.x]),
    "mapped": lambda lib, p: lib.vmap(lambda a, b: a * b)(p.h, p.x),
    "indexed": lambda lib, p: p.h[lib.numpy.array([0])],
    "looped": lambda lib, p: lib.lax.scan(lambda c, row: (c + row, None), lib.numpy.zeros(2), p.h),
}


@pytest.mark.parametrize("name", REFUSED)
def test_arrays_in_different_memories_are_refused(name):
    messages = []
    for lib in (jax, jaxish):
        with pytest.raises(ValueError, match="memory_space of all inputs") as raised:
            REFUSED[name](lib, Places(lib))
        messages.append(str(raised.value)[: len("memory_space of all inputs passed to `add`")])
    assert messages[0] == messages[1]


def test_unknown_spaces_are_refused():
    with pytest.raises(ValueError, match="says no memory"):
        jaxish.device_put(X, jaxish.memory.Space.Any)


def _policies(lib):
    policies = lib.checkpoint_policies
    names = {"names_which_can_be_saved": ["a"], "names_which_can_be_offloaded": ["b"]}
    memories = {"offload_src": "device", "offload_dst": "pinned_host"}
    return {
        "names": lambda: policies.save_and_offload_only_these_names(**names, **memories),
        "products": lambda: policies.offload_dot_with_no_batch_dims("device", "pinned_host"),
        "a name twice": lambda: policies.save_and_offload_only_these_names(
            names_which_can_be_saved=["a"], names_which_can_be_offloaded=["a", "b"], **memories
        ),
        "both": lambda: policies.save_from_both_policies(policies.dots_saveable, policies.save_only_these_names("a")),
        "both, one of which offloads": lambda: policies.save_from_both_policies(
            policies.dots_saveable, policies.offload_dot_with_no_batch_dims(**memories)
        ),
    }


@pytest.mark.parametrize("jitted", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("name", ["names", "products", "a name twice", "both", "both, one of which offloads"])
def test_checkpoint_policies_that_offload(name, jitted):
    def program(lib):
        named = lib.ad_checkpoint.checkpoint_name

        def f(x):
            y = named(lib.numpy.sin(x @ x.T), "a")
            return lib.numpy.sin(named(lib.numpy.cos(y), "b") @ x).sum()

        gradient = lib.grad(lib.checkpoint(f, policy=_policies(lib)[name]()))
        return (lib.jit(gradient) if jitted else gradient)(lib.numpy.asarray(X))

    agree(program)


def test_what_is_offloaded_is_kept(capsys):
    def program(lib):
        named = lib.ad_checkpoint.checkpoint_name
        f = lambda x: lib.numpy.sin(named(lib.numpy.cos(named(lib.numpy.sin(x), "a")), "b")).sum()
        lib.ad_checkpoint.print_saved_residuals(lib.checkpoint(f, policy=_policies(lib)["names"]()), X)
        return len(capsys.readouterr().out.splitlines())

    agree(program)


SIZES = {
    "elements": lambda x, y: x + y,
    "a product": lambda x, y: x @ y,
    "two products": lambda x, y: x @ y @ x,
    "four products": lambda x, y: x @ x @ x @ x @ x,
    "a view of a product": lambda x, y: (x @ y).T,
    "an argument that is not used": lambda x, y: x + x,
}


@pytest.mark.parametrize("name", SIZES)
def test_memory_that_compiled_functions_need(name):
    sizes = "argument_size_in_bytes", "output_size_in_bytes", "temp_size_in_bytes", "alias_size_in_bytes"

    def program(lib):
        stats = lib.jit(SIZES[name]).lower(*[lib.numpy.ones((64, 64))] * 2).compile().memory_analysis()
        others = [n for n in dir(stats) if n.startswith(("host_", "generated_"))]
        assert stats.peak_memory_in_bytes >= stats.argument_size_in_bytes
        return {n: getattr(stats, n) for n in (*sizes, *others)}

    agree(program)


def test_steps_of_loops_need_memory_once():
    def temporary(steps):
        f = jaxish.jit(lambda x: jaxish.lax.fori_loop(0, steps, lambda i, c: jaxish.numpy.sin(c @ c) @ c, x))
        return f.lower(jaxish.numpy.ones((64, 64))).compile().memory_analysis().temp_size_in_bytes

    assert temporary(3) == temporary(30)


def test_functions_are_lowered_for_what_was_donated():
    def program(lib):
        step = lib.jit(lambda x, y: x * y, donate_argnums=0)
        x, y = lib.numpy.ones((64, 64)), lib.numpy.float32(2)
        result = step(x, y)
        stats = step.lower(x, y).compile().memory_analysis()
        return result, x.is_deleted(), stats.argument_size_in_bytes, step.eval_shape(x, y).shape

    agree(program)


def test_gpus_have_but_their_own_memory():
    gpu = Device(torch.device("cuda", 0), 0)
    assert [m.kind for m in gpu.addressable_memories()] == ["device"]
    with pytest.raises(NotImplementedError, match="not supported on gpu"):
        jaxish.sharding.SingleDeviceSharding(gpu, memory_kind="pinned_host")
    with pytest.raises(NotImplementedError, match="save_only_these_names"):
        remat._is_saved(remat.Offloadable("device", "pinned_host"), TensorType((), torch.float32, gpu.torch_device))
