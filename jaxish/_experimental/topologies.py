"""jax.experimental.topologies: devices that are there, as a topology to make meshes of."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from .._devices.devices import Device, devices
from .._devices.meshes import Mesh, create_device_mesh


@dataclass(eq=False)
class TopologyDescription:
    """A list of devices."""

    devices: list[Device]


def get_attached_topology(platform: str | None = None) -> TopologyDescription:
    """Return the devices of a platform, by default the one that arrays are made on."""
    return TopologyDescription(devices(platform))


def get_topology_desc(topology_name: str = "", platform: str | None = None, **kwargs: Any) -> NoReturn:
    """Refused: torch compiles for devices that are there."""
    raise NotImplementedError(
        f"get_topology_desc({topology_name!r}) is not supported: code is compiled for devices that are there. Set "
        "jax_num_cpu_devices to write programs for many devices on one."
    )


def make_mesh(
    topo: TopologyDescription,
    mesh_shape: Sequence[int],
    axis_names: tuple[str, ...],
    *,
    contiguous_submeshes: bool = False,
) -> Mesh:
    """Return a mesh of the topology's devices; see `mesh_utils.create_device_mesh`."""
    found = create_device_mesh(mesh_shape, list(topo.devices), contiguous_submeshes=contiguous_submeshes)
    return Mesh(found, axis_names)
