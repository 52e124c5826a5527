"""Draws over devices: the same numbers as on one device, of which each device makes its own."""

from typing import Any

import jax
import numpy as np
import pytest
import torch
from launched import in_processes
from oracle import agree, compare_values
from random_programs import COMPUTED, DRAWS, GRAPHS, LOOPS, WHOLE, trained

import jaxish
from jaxish._compile import executable
from jaxish._core.boxes import Box
from jaxish._devices import partition

pytestmark = pytest.mark.usefixtures("unoptimized_jax")

SPECS = [("x",), ("x", "y"), (("x", "y"),), (None, "x")]
LOOSE: Any = {"rtol": 1e-4, "atol": 1e-5}  # the values themselves are compared to the last bits in test_random_samplers


@pytest.mark.parametrize("name", DRAWS)
def test_out_sharding(name):
    def program(jax):
        P = jax.sharding.PartitionSpec
        with jax.set_mesh(jax.make_mesh((4, 2), ("x", "y"))):
            found = DRAWS[name](jax, out_sharding=P("x"))
        shards = [(str(s.device), str(s.index), np.asarray(s.data)) for s in found.addressable_shards]
        return np.asarray(found), shards, str(found.sharding)

    agree(program, **LOOSE)


def test_out_sharding_inside_a_jitted_function():
    def program(jax):
        P = jax.sharding.PartitionSpec
        with jax.set_mesh(jax.make_mesh((4, 2), ("x", "y"))):
            found = jax.jit(lambda key: 2 * jax.random.normal(key, (8, 4), out_sharding=P("x", "y")) + 1)(
                jax.random.key(0)
            )
        return np.asarray(found), str(found.sharding)

    agree(program)


def test_gradients_through_a_draw_over_devices():
    def program(jax):
        P = jax.sharding.PartitionSpec
        with jax.set_mesh(jax.make_mesh((4, 2), ("x", "y"))):
            draw = lambda a: jax.random.gamma(jax.random.key(0), a, (8, 4), out_sharding=P("x", "y")).sum()
            return np.asarray(jax.grad(draw)(2.0))

    agree(program, **LOOSE)


REFUSED = {
    "no mesh": lambda jax, P, auto, explicit: jax.random.normal(jax.random.key(0), (8,), out_sharding=P("x")),
    "automatic axis": lambda jax, P, auto, explicit: jax.random.normal(
        jax.random.key(0), (8,), out_sharding=jax.sharding.NamedSharding(auto, P("x"))
    ),
    "one device": lambda jax, P, auto, explicit: jax.random.normal(
        jax.random.key(0), (8,), out_sharding=jax.sharding.SingleDeviceSharding(jax.devices()[0])
    ),
    "no sharding": lambda jax, P, auto, explicit: jax.random.normal(jax.random.key(0), (8,), out_sharding="x"),
    "unknown axis": lambda jax, P, auto, explicit: jax.random.normal(
        jax.random.key(0), (8,), out_sharding=jax.sharding.NamedSharding(explicit, P("z"))
    ),
    "uneven": lambda jax, P, auto, explicit: jax.random.normal(
        jax.random.key(0), (7,), out_sharding=jax.sharding.NamedSharding(explicit, P("x"))
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_out_shardings_that_are_refused(name):
    def program(jax):
        P, Mesh = jax.sharding.PartitionSpec, jax.sharding.Mesh
        auto = Mesh(np.array(jax.devices()).reshape(4, 2), ("x", "y"))
        return REFUSED[name](jax, P, auto, jax.make_mesh((4, 2), ("x", "y")))

    agree(program)


def test_weights_over_devices():
    def program(jax):
        P = jax.sharding.PartitionSpec
        with jax.set_mesh(jax.make_mesh((4, 2), ("x", "y"))):
            made = [
                init(jax.random.key(0), (8, 4), np.float32, P("x", "y"))
                for init in (jax.nn.initializers.he_normal(), jax.nn.initializers.uniform(), jax.nn.initializers.zeros)
            ]
        return [(np.asarray(x), str(x.sharding)) for x in made]

    agree(program)


# Parts, made without the whole


def _parts(program, specs):
    """Yield, for some parts of each spec: where the part is, the part, and the largest tensor on the way to it."""
    closed = jaxish.jit(program).trace()._program.closed
    (whole,) = closed.graph.out_types
    mesh = jaxish.sharding.Mesh(np.array(jaxish.devices()).reshape(4, 2), ("x", "y"))
    for spec in specs:
        sharding = jaxish.sharding.NamedSharding(mesh, jaxish.P(*spec))
        if len(spec) > len(whole.shape):
            continue
        parts = list({str(index): index for index in sharding.devices_indices_map(whole.shape).values()}.values())
        for index in (parts[0], parts[len(parts) // 2 - 1], parts[-1]):  # they differ in where they begin
            local = partition.local_graph(closed.graph, [Box.of(index, whole.shape)])
            (part,) = executable.of(local.graph).run(*local.captured, *closed.captured)
            values = [n.meta.get("val") for n in local.graph.module.graph.nodes if n.op == "call_function"]
            yield index, part, max(v.numel() for v in values if isinstance(v, torch.Tensor) and 0 not in v.stride())


# Of these a device makes whole rows, or reads parameters whole (the logits of categorical, keys).
_ROWS = {"dirichlet": 32, "ball": 32, "categorical": 256, "multivariate_normal": 32, "maxwell": 3, "per_key": 2}


@pytest.mark.parametrize("name", [*DRAWS, *GRAPHS])
def test_a_device_makes_its_own_part(name):
    program = DRAWS.get(name) or GRAPHS[name]
    wanted = np.asarray(program(jax))
    count = 0
    for index, part, largest in _parts(lambda: program(jaxish), SPECS):
        compare_values(np.asarray(jaxish.numpy.asarray(part.numpy())), wanted[index], **LOOSE)
        count += 1
        if name not in WHOLE:
            assert largest <= part.numel() * _ROWS.get(name, 1)
    assert count >= 6


# Processes


@pytest.fixture(scope="module")
def processes(tmp_path_factory):
    """What four processes with one device each found: a dict by name, per process."""
    return in_processes("process_program.py", 4, tmp_path_factory.mktemp("processes"))


@pytest.mark.parametrize("how", ["out_sharding", "out_shardings"])
@pytest.mark.parametrize("name", DRAWS)
def test_processes_make_their_parts(processes, how, name):
    wanted = np.asarray(DRAWS[name](jax))
    for found in processes:
        for spec, index, part, whole in found[how, name]:
            assert whole == wanted.shape, spec
            compare_values(part, wanted[index], **LOOSE)


@pytest.mark.parametrize("name", [name for name in [*GRAPHS, *LOOPS] if name != "choices"])
def test_processes_run_their_parts_of_programs(processes, name):
    wanted = np.asarray({**GRAPHS, **LOOPS}[name](jax))
    for found in processes:
        index, part = found["jitted", name]
        assert part.shape[0] == wanted.shape[0] // 2
        compare_values(part, wanted[index], **LOOSE)


def test_processes_train(processes):
    inputs = jax.random.normal(jax.random.key(2), (16, 64))
    wanted = np.asarray(trained(jax, DRAWS["normal"](jax) * 0.1, inputs))
    for found in processes:
        np.testing.assert_allclose(found["trained"], wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", COMPUTED)
def test_processes_compute_with_what_they_drew(processes, name):
    wanted = np.asarray(COMPUTED[name](jax, DRAWS["normal"](jax)))
    for found in processes:
        np.testing.assert_allclose(found["computed", name], wanted, rtol=2e-4, atol=2e-4)


def test_a_jitted_function_takes_both_kinds_of_arrays_on_every_tier(processes):
    wanted = np.asarray(jax.numpy.tanh(DRAWS["normal"](jax)) ** 2 + 1)
    for found in processes:
        for whole, distributed in found["tiers"].values():
            np.testing.assert_allclose(whole, wanted, rtol=1e-5)
            np.testing.assert_allclose(distributed, wanted, rtol=1e-5)


def test_processes_draw_for_their_keys(processes):
    keys = jax.random.split(jax.random.key(1), 8)
    wanted = np.asarray(jax.vmap(lambda key: jax.random.normal(key, (4,)))(keys))
    for found in processes:
        for index, part in found["keys"]:
            compare_values(part, wanted[index], **LOOSE)
            assert part.shape == (4, 4)


def test_processes_know_each_other(processes):
    for rank, found in enumerate(processes):
        assert found["devices"] == ["cpu:0", "cpu:1", "cpu:2", "cpu:3"]
        assert found["own"] == [f"cpu:{rank}"]
        assert found["counts"] == (4, 4, 1, rank)
        assert found["is"] == (False, False, True)


def test_what_a_process_cannot_do(processes):
    for found in processes:
        assert found["errors"] == {
            "fetch": "RuntimeError", "twice": "RuntimeError", "pmap": "NotImplementedError",
            "local data": "ValueError", "device elsewhere": "ValueError",
        }  # fmt: skip


def test_processes_exchange_values(processes):
    weights = np.arange(8.0, dtype=np.float32)
    for found in processes:
        np.testing.assert_array_equal(found["gathered"], np.asarray(DRAWS["bits"](jax)))
        np.testing.assert_array_equal(found["ranks"], np.arange(4))
        assert (found["first"]["rank"], found["second"]) == (5, 1)
        assert (found["unequal"], found["equal"]) == ("AssertionError", None)
        np.testing.assert_array_equal(found["assembled"], weights)
        np.testing.assert_array_equal(found["own device"][0], weights)
        assert found["own device"][1] == found["own"][0]
        for made in found["made"].values():
            np.testing.assert_array_equal(made, weights)
