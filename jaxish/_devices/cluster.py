"""Joining the processes of a program, by torch.distributed.

Private torch API used here (tried on 2.13): `DTensor._op_dispatcher._allow_implicit_replication`, by which operators
take tensors that are the same in all processes together with DTensors.
"""

import os
from datetime import timedelta
from typing import Any

import torch

from .._core import primitive
from . import devices, processes, spmd


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

    To be called before arrays are made. Raises `RuntimeError` when called twice, `ValueError` where the address or the
    numbers are not known, `NotImplementedError` for options that torch.distributed does not have.
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
    index = int(_known(process_id, "RANK", "process_id"))
    count = int(_known(num_processes, "WORLD_SIZE", "num_processes"))
    if torch.cuda.is_available():
        local = os.environ.get("LOCAL_RANK", "0") if local_device_ids is None else local_device_ids
        torch.cuda.set_device(int(local[0] if isinstance(local, list | tuple) else local))
    address = f"tcp://{coordinator_address}" if coordinator_address else "env://"
    if not coordinator_address:
        _known(None, "MASTER_ADDR", "coordinator_address")
    dist.init_process_group(
        "nccl" if torch.cuda.is_available() else "gloo", init_method=address, rank=index, world_size=count,
        timeout=timedelta(seconds=initialization_timeout),
    )  # fmt: skip
    devices.join_processes(index, count)
    if count > 1:
        from torch.distributed.tensor import DTensor

        DTensor._op_dispatcher._allow_implicit_replication = True
        primitive.among_processes = spmd.run_primitive


def _known(given: Any, variable: str, name: str) -> Any:
    found = os.environ.get(variable) if given is None else given
    if found is None:
        raise ValueError(
            f"{name} should be defined: give it, or start the program with torchrun, which sets {variable}."
        )
    return found


def is_initialized() -> bool:
    """Tell whether `initialize` was called."""
    import torch.distributed as dist

    return dist.is_available() and dist.is_initialized()


def shutdown() -> None:
    """Leave the other processes. Does nothing where `initialize` was not called."""
    import torch.distributed as dist

    if is_initialized():
        dist.destroy_process_group()
        processes.forget()
        devices.join_processes(0, 1)
        primitive.among_processes = None
