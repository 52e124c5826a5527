"""Joining the processes of a program, by torch.distributed.

Private torch API used here (tried on 2.13): `DTensor._op_dispatcher._allow_implicit_replication`, by which operators
take tensors that are the same in all processes together with DTensors.
"""

import os
from datetime import timedelta
from typing import Any

import torch

from .._core import primitive
from . import device_meshes, devices, laid, spmd


def initialize(
    coordinator_address: str | None = None, num_processes: int | None = None, process_id: int | None = None,
    local_device_ids: Any = None, cluster_detection_method: str | None = None, initialization_timeout: int = 300,
    heartbeat_timeout_seconds: int = 100, shutdown_timeout_seconds: int = 300,
    coordinator_bind_address: str | None = None, slice_index: int | None = None, partition_index: int | None = None,
) -> None:  # fmt: skip
    """Join this process with the others of the program: by NCCL on GPUs, by Gloo on CPUs, one device per process.

    Started by `torchrun`, no argument is needed: address, number and index of the processes come from the environment.
    Else `coordinator_address` is `host:port` of process 0. `local_device_ids` names the GPU of this process, by default
    the one that `LOCAL_RANK` counts. Timeouts are in seconds; torch has one timeout, `initialization_timeout`.

    Where the processes are in a group already (`torch.distributed.init_process_group`) it is that of the program, and outlives
    `shutdown`. To be called before arrays are made. Raises `RuntimeError` when called twice, `ValueError` where the address
    or the numbers are not known, or are others than the group's, `NotImplementedError` for options that torch.distributed
    does not have.
    """
    import torch.distributed as dist

    unused = {
        "cluster_detection_method": cluster_detection_method, "coordinator_bind_address": coordinator_bind_address,
        "slice_index": slice_index, "partition_index": partition_index,
    }  # fmt: skip
    for name, value in unused.items():
        if value is not None:
            raise NotImplementedError(f"distributed.initialize({name}=...) is not supported; leave it out.")
    if (heartbeat_timeout_seconds, shutdown_timeout_seconds) != (100, 300):
        raise NotImplementedError("torch.distributed has one timeout: give initialization_timeout only.")
    if is_initialized():
        raise RuntimeError("distributed.initialize should only be called once.")
    was_there = dist.is_initialized()
    if not was_there:
        _join(coordinator_address, num_processes, process_id, local_device_ids, initialization_timeout)
    index, count = dist.get_rank(), dist.get_world_size()
    given = {"process_id": (process_id, index), "num_processes": (num_processes, count)}
    for name, (wanted, found) in given.items():
        if wanted not in (None, found):
            raise ValueError(f"{name}={wanted}, but torch.distributed was initialized with {found}; leave it out.")
    _joined.append(not was_there)
    devices.join_processes(index, count)
    if count > 1:
        from torch.distributed.tensor import DTensor

        DTensor._op_dispatcher._allow_implicit_replication = True
        primitive.among_devices = spmd.run_primitive


_joined: list[bool] = []  # whether the group is our own, once there is one


def _join(address: str | None, num_processes: int | None, process_id: int | None, local_ids: Any, timeout: int) -> None:
    """Make a group of the processes."""
    import torch.distributed as dist

    index = int(_known(process_id, "RANK", "process_id"))
    count = int(_known(num_processes, "WORLD_SIZE", "num_processes"))
    if torch.cuda.is_available():
        local = os.environ.get("LOCAL_RANK", "0") if local_ids is None else local_ids
        torch.cuda.set_device(int(local[0] if isinstance(local, list | tuple) else local))
    if not address:
        _known(None, "MASTER_ADDR", "coordinator_address")
    dist.init_process_group(
        "nccl" if torch.cuda.is_available() else "gloo", init_method=f"tcp://{address}" if address else "env://",
        rank=index, world_size=count, timeout=timedelta(seconds=timeout),
    )  # fmt: skip


def _known(given: Any, variable: str, name: str) -> Any:
    found = os.environ.get(variable) if given is None else given
    if found is None:
        raise ValueError(
            f"{name} should be defined: give it, or start the program with torchrun, which sets {variable}."
        )
    return found


def is_initialized() -> bool:
    """Tell whether `initialize` was called."""
    return bool(_joined)


def shutdown() -> None:
    """Leave the other processes. Does nothing where `initialize` was not called."""
    import torch.distributed as dist

    if not is_initialized():
        return
    if _joined.pop():
        dist.destroy_process_group()
    device_meshes.forget()
    devices.join_processes(0, 1)
    primitive.among_devices = laid.run_primitive if laid.in_use else None


class State:
    """What libraries ask JAX's private `global_state` for: which of how many processes this is.

    There is no `client` or `service`: processes meet through `torch.distributed`.
    """

    client = service = preemption_sync_manager = partition_index = None

    @property
    def process_id(self) -> int:
        """The number of this process."""
        return torch.distributed.get_rank() if is_initialized() else 0

    @property
    def num_processes(self) -> int:
        """How many processes there are."""
        return torch.distributed.get_world_size() if is_initialized() else 1


global_state = State()
