"""One of several processes, started by test_interop_dtensor.py: takes and gives DTensors, and writes down what it finds."""

import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from dtensor_layouts import LAYOUTS, VALUES, sharding
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

import jaxish as jax
import jaxish.numpy as jnp
from jaxish import interop


def error_of(action):
    try:
        action()
    except Exception as error:
        return type(error).__name__, str(error)
    return None


def laid(layout) -> dict[str, Any]:
    """Lay an array out by both libraries, and hand it from each to the other."""
    wanted = sharding(jax, layout)
    mesh = interop.to_device_mesh(wanted.mesh)
    placements = interop.to_placements(wanted)
    theirs = distribute_tensor(torch.tensor(VALUES), mesh, placements)
    ours = jax.device_put(VALUES, wanted).to_torch()
    taken = jax.from_torch(theirs)
    (shard,) = taken.addressable_shards
    back: Any = taken.to_torch()
    return {
        "theirs": theirs.to_local().numpy(),
        "ours": (type(ours) is DTensor, ours.to_local().numpy(), ours.full_tensor().numpy()),  # pyright: ignore
        "taken": (str(taken.sharding.spec), np.asarray(shard.data)),
        "is shared": back.to_local().data_ptr() == theirs.to_local().data_ptr(),
        "placements": tuple(back.placements) == tuple(placements),
        "round trip": interop.from_placements(mesh, placements) == wanted and interop.from_device_mesh(mesh) == wanted.mesh,
        "computed": whole(jax.jit(lambda x: jnp.tanh(x) @ x.T)(taken).to_torch()),
        "without sums": [p.is_partial() for p in taken.sum(0).to_torch().placements],  # pyright: ignore
        "differentiated": differentiated(theirs),
    }  # fmt: skip


def whole(tensor):
    return (tensor.full_tensor() if isinstance(tensor, DTensor) else tensor).numpy()


def differentiated(tensor):
    """Go back through a function of arrays, called in torch code that knows of the processes."""
    leaf = tensor.detach().requires_grad_()
    interop.to_torch(lambda x: jnp.sin(x) * x)(leaf).sum().backward()
    return leaf.grad.full_tensor().numpy()


def wrapped(rank: int, count: int) -> dict[str, Any]:
    """Take the parameters of modules that torch has laid over the processes."""
    torch.manual_seed(0)
    model = nn.Linear(6, 4 * count)
    values = model.weight.detach().clone()
    fully_shard(model)
    weight: Any = model.weight
    nameless = error_of(lambda: jax.from_torch(weight))
    interop.from_device_mesh(weight.device_mesh, "fsdp")
    array = jax.from_torch(weight)
    found: dict[str, Any] = {
        "fsdp": (str(array.sharding.spec), whole((array * 2).to_torch()), values.numpy() * 2),
        "nameless": nameless,
    }
    if count == 4:
        both = torch.distributed.device_mesh.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        model = nn.Linear(6, 8)
        values = model.weight.detach().clone()
        parallelize_module(model, both["tp"], ColwiseParallel())
        fully_shard(model, mesh=both["dp"])
        array = jax.from_torch(model.weight)
        (shard,) = array.addressable_shards
        found["fsdp and tp"] = (
            str(array.sharding.spec), whole((array * 2).to_torch()), values.numpy() * 2, np.asarray(shard.data), values[shard.index].numpy(),
        )  # fmt: skip
    return found


def arrived(tensor):
    array = jax.from_torch(tensor)
    assert type(array.to_torch()) is torch.Tensor
    return np.asarray(array)


def main(path):
    torch.distributed.init_process_group("gloo")
    rank, count = torch.distributed.get_rank(), torch.distributed.get_world_size()
    mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (count,), mesh_dim_names=("x",))
    early = error_of(lambda: jax.from_torch(distribute_tensor(torch.tensor(VALUES), mesh, [Shard(0)])))
    wrong = error_of(lambda: jax.distributed.initialize(num_processes=count + 1))
    jax.distributed.initialize()
    part = torch.ones(2, 2) * (rank + 1)
    asynchronous = distribute_tensor(torch.tensor(VALUES), mesh, [Shard(0)]).redistribute(
        placements=[Replicate()], async_op=True
    )
    found = {
        "laid": {name: laid(layout) for name, layout in LAYOUTS[count].items()},
        **wrapped(rank, count),
        "early": early,
        "wrong number": wrong,
        "partial": error_of(lambda: jax.from_torch(DTensor.from_local(part, mesh, [Partial()]))),
        "uneven": error_of(lambda: jax.from_torch(distribute_tensor(torch.ones(2 * count + 1, 2), mesh, [Shard(0)]))),
        "asynchronous": arrived(asynchronous.to_local()),
        "narrowed": str(jnp.asarray(distribute_tensor(torch.arange(8), mesh, [Shard(0)])).dtype),
    }  # fmt: skip
    jax.distributed.shutdown()
    found["group outlives"] = torch.distributed.is_initialized()
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
    Path(path).write_bytes(pickle.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
