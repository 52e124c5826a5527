"""jax.experimental.mesh_utils: devices in the shape of a mesh."""

from .._devices.meshes import create_device_mesh as create_device_mesh
