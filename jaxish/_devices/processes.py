"""Tensors over several processes, one device each: DTensors, of which each process holds its part.

How meshes and shardings are written there, device_meshes.py says.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .._core import torch_tensors, unsigned
from .._core.array import without_sums
from . import devices
from .device_meshes import from_placements, to_device_mesh, to_placements
from .meshes import Mesh
from .shardings import IndivisibleError, NamedSharding, Sharding, SingleDeviceSharding


def are_several() -> bool:
    """Tell whether this is one of several processes."""
    return devices.process_count() > 1


def is_distributed(tensor: Tensor) -> bool:
    """Tell whether a tensor is one that lies over processes."""
    return type(tensor) is not Tensor and hasattr(tensor, "full_tensor")


def _named(sharding: Sharding) -> NamedSharding:
    if isinstance(sharding, NamedSharding):
        return sharding
    raise NotImplementedError(
        f"{sharding}: with several processes an array is placed on all devices of a mesh, by a NamedSharding."
    )


def from_part(part: Tensor, sharding: Sharding, shape: tuple[int, ...]) -> Tensor:
    """Return the tensor of this shape of which `part` is what this process holds."""
    if isinstance(sharding, SingleDeviceSharding):
        return part
    from torch.distributed.tensor import DTensor

    named = _named(sharding)
    assert isinstance(named.mesh, Mesh)
    mesh = to_device_mesh(named.mesh)
    stride = torch.empty(shape, device="meta").stride()
    return DTensor.from_local(
        part.contiguous(), mesh, to_placements(named), run_check=False, shape=torch.Size(shape), stride=stride
    )


def distributed(tensor: Tensor, sharding: Sharding) -> Tensor:
    """Return a tensor, the same in all processes or distributed already, as one that lies as `sharding` says."""
    if is_distributed(tensor):
        mesh = sharding.mesh if isinstance(sharding, NamedSharding) else None
        if isinstance(mesh, Mesh) and tensor.device_mesh == to_device_mesh(mesh):  # pyright: ignore
            return _moved(tensor, to_placements(_named(sharding)))
        tensor = replicated(tensor)
    return from_part(tensor[own_index(sharding, tuple(tensor.shape))], sharding, tuple(tensor.shape))


def _moved(tensor: Any, placements: Sequence[Any]) -> Any:
    """Return a distributed tensor with other placements. Communication knows no unsigned and complex numbers."""
    if tensor.dtype not in _SENT_AS:
        return tensor.redistribute(tensor.device_mesh, placements)
    sent = _relabelled(without_sums(tensor), _SENT_AS[tensor.dtype])
    return _relabelled(sent.redistribute(tensor.device_mesh, placements), tensor.dtype)


def _relabelled(tensor: Any, dtype: torch.dtype) -> Any:
    from torch.distributed.tensor import DTensor

    mesh, placements = tensor.device_mesh, tensor.placements
    bits = tensor.to_local().contiguous().view(dtype)
    return DTensor.from_local(bits, mesh, placements, run_check=False, shape=tensor.shape, stride=tensor.stride())


_SENT_AS = {**unsigned.SIGNED, torch.complex64: torch.int64}


def own_index(sharding: Sharding, shape: tuple[int, ...]) -> tuple[slice, ...]:
    """Return the index of this process's part of an array. Raises `ValueError` where it has none."""
    indices = list(sharding.addressable_devices_indices_map(shape).values())
    if not indices:
        raise ValueError(
            f"process {devices.process_index()} has no device of {sharding}; use one of jax.local_devices()."
        )
    return indices[0]


def local_part(tensor: Tensor) -> Tensor:
    """Return the part of a distributed tensor that this process holds."""
    return without_sums(tensor).to_local()  # pyright: ignore


def replicated(tensor: Any) -> Tensor:
    """Return the whole of a tensor that may be distributed."""
    from torch.distributed.tensor import Replicate

    return _moved(tensor, [Replicate()] * len(tensor.placements)).to_local() if is_distributed(tensor) else tensor


def sharding_of(tensor: Any, ndim: int) -> NamedSharding:
    """Return how a distributed tensor lies, as a sharding of an array of `ndim` dimensions."""
    from torch.distributed.tensor import Replicate

    laid = [Replicate() if p.is_partial() else p for p in tensor.placements]
    found = from_placements(tensor.device_mesh, laid, tensor.dim())
    return found.update(spec=found.spec.update(partitions=found.spec.partitions[:ndim]))


def _taken(tensor: Any) -> Tensor:
    """Return a distributed tensor of the user's as arrays have it. Raises `ValueError` where no sharding says how it lies."""
    if hasattr(tensor, "trigger_wait"):  # which torch is still receiving
        return tensor.trigger_wait()
    if not is_distributed(tensor):
        return tensor
    if tensor.device_mesh.size() == 1:
        return tensor.full_tensor()
    sharding = from_placements(tensor.device_mesh, tensor.placements, tensor.dim())
    try:
        sharding.shard_shape(tensor.shape)
    except IndivisibleError as error:
        raise ValueError(f"{error}. Redistribute the DTensor with Replicate(), or pad it.") from None
    return tensor


torch_tensors.from_processes = _taken
