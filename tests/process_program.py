"""One of four processes, started by test_random_sharding.py with torchrun's variables: writes down what it finds."""

import pickle
import sys
from pathlib import Path

import numpy as np
from random_programs import COMPUTED, DRAWS, GRAPHS, LOOPS, trained

import jaxish as jax
from jaxish.experimental.multihost_utils import (
    assert_equal,
    broadcast_one_to_all,
    process_allgather,
    sync_global_devices,
)
from jaxish.sharding import AxisType, NamedSharding
from jaxish.sharding import PartitionSpec as P

SPECS = [P("x"), P("x", "y"), P(("y", "x"))]


def own_part(x):
    (shard,) = x.addressable_shards
    return shard.index, np.asarray(shard.data)


def drawn(explicit, auto):
    found = {}
    for name, draw in DRAWS.items():
        specs = [s for s in SPECS if len(s) <= len(draw(jax).shape)][-1:] if name != "normal" else SPECS
        for spec in specs:
            direct = draw(jax, out_sharding=NamedSharding(explicit, spec))
            jitted = jax.jit(lambda draw=draw: draw(jax), out_shardings=NamedSharding(auto, spec))()
            for how, x in (("out_sharding", direct), ("out_shardings", jitted)):
                found.setdefault((how, name), []).append((str(spec), *own_part(x), x.shape))
    return found


def jitted(mesh):
    """Whole programs, whose results are laid over the processes."""
    sharding = NamedSharding(mesh, P("x"))
    programs = {name: f for name, f in {**GRAPHS, **LOOPS}.items() if name != "choices"}
    found = {name: jax.jit(lambda f=f: f(jax), out_shardings=sharding)() for name, f in programs.items()}
    return {("jitted", name): own_part(x) for name, x in found.items()}


def trained_on(mesh):
    weights = jax.jit(lambda: DRAWS["normal"](jax) * 0.1, out_shardings=NamedSharding(mesh, P(None, "y")))()
    inputs = jax.device_put(jax.random.normal(jax.random.key(2), (16, 64)), NamedSharding(mesh, P("x")))
    return process_allgather(trained(jax, weights, inputs))


def computed(mesh):
    x = DRAWS["normal"](jax, out_sharding=NamedSharding(mesh, P("x", "y")))
    values = {name: program(jax, x) for name, program in COMPUTED.items()}
    return {("computed", name): process_allgather(value) for name, value in values.items()}


def tiers(mesh):
    """Run one jitted function on the same numbers, then on an array over the processes, on each tier."""
    found = {}
    x = DRAWS["normal"](jax, out_sharding=NamedSharding(mesh, P("x", "y")))
    for tier in ("direct", "auto", "compiled"):
        jax.config.update("jaxish_jit_tier", tier)
        squared = jax.jit(lambda x: jax.numpy.tanh(x) ** 2 + 1)
        for _ in range(3):
            whole = squared(DRAWS["normal"](jax))
        found[tier] = np.asarray(whole), process_allgather(squared(x))
    return found


def error_of(action):
    try:
        action()
    except Exception as error:
        return type(error).__name__
    return None


def main(path):
    jax.distributed.initialize()
    explicit = jax.make_mesh((2, 2), ("x", "y"))
    auto = jax.make_mesh((2, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    x = DRAWS["bits"](jax, out_sharding=NamedSharding(explicit, P("x", "y")))
    keys = jax.device_put(jax.random.split(jax.random.key(1), 8), NamedSharding(explicit, P("x")))
    rows = jax.vmap(lambda key: jax.random.normal(key, (4,)))
    weights = np.arange(8.0, dtype=np.float32)
    found = {
        **drawn(explicit, auto),
        **computed(explicit),
        **jitted(auto),
        "trained": trained_on(auto),
        "keys": [own_part(rows(keys)), own_part(jax.jit(rows)(keys))],
        "devices": [str(d) for d in jax.devices()],
        "own": [str(d) for d in jax.local_devices()],
        "counts": (jax.device_count(), jax.process_count(), jax.local_device_count(), jax.process_index()),
        "is": (x.is_fully_addressable, x.is_fully_replicated, x.committed),
        "errors": {
            "fetch": error_of(lambda: np.asarray(x)),
            "twice": error_of(jax.distributed.initialize),
            "pmap": error_of(lambda: jax.pmap(lambda x: x)(weights[:4])),
        },
        "gathered": process_allgather(x),
        "first": broadcast_one_to_all({"rank": np.int32(jax.process_index() + 5)}),
        "second": broadcast_one_to_all(np.int32(jax.process_index()), jax.process_index() == 1),
        "unequal": error_of(lambda: assert_equal(np.int32(jax.process_index()), "ranks")),
        "equal": error_of(lambda: assert_equal(weights)),
        "tiers": tiers(explicit),
        "ranks": process_allgather(np.int32(jax.process_index())),
        "assembled": process_allgather(
            jax.make_array_from_callback((8,), NamedSharding(auto, P("y")), lambda index: weights[index])
        ),
    }
    (shard,) = jax.device_put(weights, NamedSharding(auto, P("x"))).addressable_shards
    whole = NamedSharding(auto, P("x"))
    found["made"] = {
        "of parts": process_allgather(jax.make_array_from_single_device_arrays((8,), whole, [shard.data])),
        "of local data": process_allgather(jax.make_array_from_process_local_data(whole, weights[shard.index])),
        "of all data": process_allgather(jax.make_array_from_process_local_data(whole, weights, (8,))),
        "on another mesh": process_allgather(
            jax.device_put(jax.device_put(weights, whole), NamedSharding(explicit, P("y")))
        ),
    }
    found["errors"]["local data"] = error_of(lambda: jax.make_array_from_process_local_data(whole, weights[:3], (8,)))
    other = jax.devices()[(jax.process_index() + 1) % 4]
    found["errors"]["device elsewhere"] = error_of(lambda: jax.device_put(weights, other))
    own = jax.device_put(jax.device_put(weights, whole), jax.local_devices()[0])
    found["own device"] = np.asarray(own), str(own.device)
    sync_global_devices("done")
    jax.distributed.shutdown()
    Path(path).write_bytes(pickle.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
