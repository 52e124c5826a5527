"""Meshes and shardings as torch's DeviceMeshes and placements, and back.

A partition spec says per dimension which axes split it, major first. Placements say per axis which dimension it splits,
and of several axes that split one the first in the mesh is the major one. Where a spec has another order, an axis has a
strided shard, which says into how many parts the axes behind it in the mesh have split the dimension before.
"""

import functools
import math
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import torch

from . import devices
from .meshes import AbstractMesh, AxisType, Mesh
from .shardings import NamedSharding, PartitionSpec, names_in

_meshes: dict[Any, Mesh] = {}  # what a DeviceMesh was made of, or is called


def forget() -> None:
    """Forget the meshes, whose groups of processes are gone."""
    _made.cache_clear()
    _meshes.clear()


def to_device_mesh(mesh: Mesh | AbstractMesh) -> Any:
    """Return a mesh as torch's `DeviceMesh`, whose ranks are the processes that the devices belong to.

    All processes have to call this in the same order, since torch makes groups of processes for it.
    Raises `TypeError` for what has no devices, `RuntimeError` where the program is not one of a process per device.
    """
    if not isinstance(mesh, Mesh):
        raise TypeError(f"to_device_mesh takes a jax.sharding.Mesh, with devices, got {type(mesh)}.")
    made = _made(mesh)
    _meshes[made] = mesh
    return made


@functools.cache
def _made(mesh: Mesh) -> Any:
    import torch.distributed as dist
    from torch.distributed.device_mesh import DeviceMesh

    ranks = np.vectorize(lambda d: d.process_index, otypes=[int])(mesh.devices)
    if not (dist.is_available() and dist.is_initialized()):
        raise RuntimeError(
            f"{mesh} has no DeviceMesh, which is of processes in a group, and this process is in none. Start the program "
            "with torchrun, and call jax.distributed.initialize() before the mesh is made."
        )
    if len(set(ranks.flat)) < ranks.size:
        raise RuntimeError(
            f"{mesh} has no DeviceMesh, in which each device has a process of its own: these are several devices of one."
        )
    kind = mesh.devices.flat[0].torch_device.type
    return DeviceMesh(kind, torch.tensor(ranks, device="cpu"), mesh_dim_names=tuple(map(str, mesh.axis_names)))


def from_device_mesh(
    device_mesh: Any, axis_names: str | Sequence[Hashable] | None = None,
    axis_types: tuple[AxisType, ...] | None = None,
) -> Mesh:  # fmt: skip
    """Return torch's `DeviceMesh` as a mesh of the devices of its processes.

    Its axes are called by the `mesh_dim_names`. Where there are none, `axis_names` are needed, and are known from there on,
    also to `jaxish.from_torch`. They are `Auto` axes unless `axis_types` says otherwise.
    Raises `ValueError` for a mesh without names, `RuntimeError` before `jax.distributed.initialize()`.
    """
    if axis_names is None and axis_types is None and device_mesh in _meshes:
        return _meshes[device_mesh]
    names = device_mesh.mesh_dim_names if axis_names is None else axis_names
    if names is None:
        raise ValueError(
            f"{device_mesh} has no names for its dimensions, which the axes of a mesh have. Make it with mesh_dim_names=, "
            "or name them: jaxish.interop.from_device_mesh(device_mesh, axis_names)."
        )
    _meshes[device_mesh] = mesh = Mesh(_devices_of(device_mesh), names, axis_types)
    return mesh


def _devices_of(device_mesh: Any) -> np.ndarray:
    ranks = device_mesh.mesh.numpy()
    count = devices.process_count()
    if ranks.max() >= count:
        raise RuntimeError(
            f"{device_mesh} is of processes that jaxish has not joined: it sees {count}. Call jax.distributed.initialize() "
            "first, in each of them."
        )
    found = {d.process_index: d for d in devices.devices(device_mesh.device_type)}
    grid = np.empty(ranks.shape, dtype=object)
    for place in np.ndindex(ranks.shape):
        grid[place] = found[ranks[place]]
    return grid


# ----------------------------------------------------------------------------------------------------- placements


def to_placements(sharding: NamedSharding) -> tuple[Any, ...]:
    """Return the placements of a DTensor that lies as the sharding says, one for each axis of the mesh.

    Axes that split one dimension in another order than the mesh has them are strided shards, as in FSDP with tensor
    parallelism. Raises `TypeError` for what is no `NamedSharding`.
    """
    from torch.distributed.tensor import Replicate, Shard

    if not isinstance(sharding, NamedSharding):
        raise TypeError(f"placements are those of a jax.sharding.NamedSharding, got {sharding}.")
    axes = list(sharding.mesh.axis_names)
    found: dict[Any, Any] = {name: Replicate() for name in axes}
    for dim, part in enumerate(sharding.spec):
        before: list[Hashable] = []
        for name in names_in(part):
            split = math.prod(sharding.mesh.shape[n] for n in before if axes.index(n) > axes.index(name))
            found[name] = _strided(dim, split) if split > 1 else Shard(dim)
            before.append(name)
    return tuple(found.values())


def from_placements(device_mesh: Any, placements: Sequence[Any], ndim: int | None = None) -> NamedSharding:
    """Return the sharding of a DTensor with these placements; see `from_device_mesh` for the names of its axes.

    `ndim` is the number of the tensor's dimensions, which dimensions counted from the end need.
    Raises `ValueError` for `Partial` placements, since an array is no sum that is still to be made, for strided shards
    that are no order of axes, and as many placements as the mesh has not axes.
    """
    mesh = device_mesh if isinstance(device_mesh, Mesh | AbstractMesh) else from_device_mesh(device_mesh)
    if len(placements) != len(mesh.axis_names):
        raise ValueError(f"{mesh} needs {len(mesh.axis_names)} placements, one for each axis, got {tuple(placements)}.")
    parts: dict[int, list[Hashable]] = {}
    for name, placement in reversed([*zip(mesh.axis_names, placements, strict=True)]):
        if placement.is_replicate():
            continue
        if placement.is_partial():
            raise ValueError(
                f"{placement} along axis {name!r} is a sum over processes that is still to be made, which no sharding of "
                "an array says. Have it made first: dtensor.redistribute(placements=[Replicate()]), or [Shard(dim)]."
            )
        axes = parts.setdefault(_dimension(placement.dim, ndim), [])
        axes.insert(_place(mesh, axes, placement), name)
    length = ndim if ndim is not None else max(parts, default=-1) + 1
    return NamedSharding(mesh, PartitionSpec(*(tuple(parts.get(dim, ())) or None for dim in range(length))))


def _dimension(dim: int, ndim: int | None) -> int:
    if dim >= 0 and (ndim is None or dim < ndim):
        return dim
    if ndim is None or not -ndim <= dim < 0:
        raise ValueError(f"Shard({dim}) is of no dimension of a tensor with ndim={ndim}; give the tensor's ndim.")
    return dim + ndim


def _place(mesh: Mesh | AbstractMesh, behind: Sequence[Hashable], placement: Any) -> int:
    """Return after how many of the axes behind it in the mesh, in their order, an axis splits a dimension."""
    wanted = getattr(placement, "split_factor", 1)
    split = [math.prod(mesh.shape[name] for name in behind[:count]) for count in range(len(behind) + 1)]
    if wanted not in split:
        raise ValueError(
            f"{placement} is no order of axes of {mesh}: those behind it split the dimension into {split[-1]} parts. "
            "Redistribute the tensor with Shard placements."
        )
    return split.index(wanted)


def _strided(dim: int, split_factor: int) -> Any:
    from torch.distributed.tensor.placement_types import _StridedShard

    return _StridedShard(dim, split_factor=split_factor)
