"""Tensors over several processes, one device each: DTensors, of which each process holds its part.

DTensor says per axis of the mesh which dimension it splits, major axes first; a partition spec says per dimension which
axes split it.
"""

import functools
from typing import Any

import torch
from torch import Tensor

from .._core import unsigned
from . import devices
from .meshes import Mesh
from .shardings import NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding, names_in


def are_several() -> bool:
    """Tell whether this is one of several processes."""
    return devices.process_count() > 1


def is_distributed(tensor: Tensor) -> bool:
    """Tell whether a tensor is one that lies over processes."""
    return type(tensor) is not Tensor and hasattr(tensor, "full_tensor")


def forget() -> None:
    """Forget the meshes, whose groups of processes are gone."""
    _device_mesh.cache_clear()
    _meshes.clear()


@functools.cache
def _device_mesh(mesh: Mesh) -> Any:
    """Return torch's counterpart of a mesh. All processes have to call this in the same order."""
    from torch.distributed.device_mesh import DeviceMesh

    kind = mesh.devices.flat[0].torch_device.type
    names = tuple(map(str, mesh.axis_names))
    return DeviceMesh(kind, torch.tensor(mesh.device_ids.reshape(mesh.axis_sizes), device="cpu"), mesh_dim_names=names)


_meshes: dict[Any, Mesh] = {}


def _named(sharding: Sharding) -> NamedSharding:
    if isinstance(sharding, NamedSharding):
        return sharding
    raise NotImplementedError(
        f"{sharding}: with several processes an array is placed on all devices of a mesh, by a NamedSharding."
    )


def _placements(sharding: NamedSharding) -> list[Any]:
    from torch.distributed.tensor import Replicate, Shard

    found: dict[Any, Any] = {name: Replicate() for name in sharding.mesh.axis_names}
    for dim, part in enumerate(sharding.spec):
        names = names_in(part)
        if list(names) != [n for n in sharding.mesh.axis_names if n in names]:
            raise NotImplementedError(
                f"{sharding.spec} splits a dimension by mesh axes in another order than the mesh has them, which torch's "
                f"DTensor does not know; name them in the order {sharding.mesh.axis_names}."
            )
        found.update({name: Shard(dim) for name in names})
    return list(found.values())


def from_part(part: Tensor, sharding: Sharding, shape: tuple[int, ...]) -> Tensor:
    """Return the tensor of this shape of which `part` is what this process holds."""
    if isinstance(sharding, SingleDeviceSharding):
        return part
    from torch.distributed.tensor import DTensor

    named = _named(sharding)
    assert isinstance(named.mesh, Mesh)
    mesh = _device_mesh(named.mesh)
    _meshes[mesh] = named.mesh
    stride = torch.empty(shape, device="meta").stride()
    return DTensor.from_local(
        part.contiguous(), mesh, _placements(named), run_check=False, shape=torch.Size(shape), stride=stride
    )


def distributed(tensor: Tensor, sharding: Sharding) -> Tensor:
    """Return a tensor, the same in all processes or distributed already, as one that lies as `sharding` says."""
    if is_distributed(tensor):
        mesh = sharding.mesh if isinstance(sharding, NamedSharding) else None
        if isinstance(mesh, Mesh) and tensor.device_mesh == _device_mesh(mesh):  # pyright: ignore
            return _moved(tensor, _placements(_named(sharding)))
        tensor = replicated(tensor)
    return from_part(tensor[own_index(sharding, tuple(tensor.shape))], sharding, tuple(tensor.shape))


def _moved(tensor: Any, placements: list[Any]) -> Any:
    """Return a distributed tensor with other placements. Communication knows no unsigned and complex numbers."""
    if tensor.dtype not in _SENT_AS:
        return tensor.redistribute(tensor.device_mesh, placements)
    sent = _relabelled(_summed(tensor), _SENT_AS[tensor.dtype])
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
    return _summed(tensor).to_local()  # pyright: ignore


def _summed(tensor: Any) -> Any:
    """Return a distributed tensor whose sums over processes are made."""
    if not any(p.is_partial() for p in tensor.placements):
        return tensor
    from torch.distributed.tensor import Replicate

    return tensor.redistribute(tensor.device_mesh, [Replicate() if p.is_partial() else p for p in tensor.placements])


def replicated(tensor: Any) -> Tensor:
    """Return the whole of a tensor that may be distributed."""
    from torch.distributed.tensor import Replicate

    return _moved(tensor, [Replicate()] * len(tensor.placements)).to_local() if is_distributed(tensor) else tensor


def sharding_of(tensor: Any, ndim: int) -> NamedSharding:
    """Return how a distributed tensor lies, as a sharding of an array of `ndim` dimensions."""
    mesh = _meshes[tensor.device_mesh]
    parts: list[list[Any]] = [[] for _ in range(tensor.dim())]
    for name, placement in zip(mesh.axis_names, tensor.placements, strict=True):
        if placement.is_shard():
            parts[placement.dim].append(name)
    return NamedSharding(mesh, PartitionSpec(*(tuple(p) or None for p in parts[:ndim])))
