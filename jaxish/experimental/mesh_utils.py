"""jax.experimental.mesh_utils: devices in the shape of a mesh."""

from .._devices.meshes import create_device_mesh as create_device_mesh
from .._devices.meshes import create_hybrid_device_mesh as create_hybrid_device_mesh
from .._devices.meshes import device_kind_handler_dict as device_kind_handler_dict
