"""jax.experimental.topologies: devices to make meshes of. This module only hands names on."""

from .._devices.devices import Device as Device
from .._experimental.topologies import TopologyDescription as TopologyDescription
from .._experimental.topologies import get_attached_topology as get_attached_topology
from .._experimental.topologies import get_topology_desc as get_topology_desc
from .._experimental.topologies import make_mesh as make_mesh
