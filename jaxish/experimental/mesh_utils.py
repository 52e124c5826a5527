"""jax.experimental.mesh_utils: devices in the shape of a mesh."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._devices.devices import devices as all_devices


def create_device_mesh(
    mesh_shape: Sequence[int], devices: Sequence[Any] | None = None, *, contiguous_submeshes: bool = False,
    allow_split_physical_axes: bool = False,
) -> np.ndarray:  # fmt: skip
    """Return an array of devices (all of them by default) for `jax.sharding.Mesh`, in their order.

    CPUs and GPUs have no grid of their own that `contiguous_submeshes` and `allow_split_physical_axes` would be about: the
    order is the same with both. Raises `ValueError` unless the shape has as many places as there are devices.
    """
    given = list(all_devices() if devices is None else devices)
    if math.prod(mesh_shape) != len(given):
        raise ValueError(
            f"Number of devices {len(given)} must equal the product of mesh_shape {tuple(mesh_shape)}; give the devices "
            "to be used, or use jax.make_mesh."
        )
    mesh = np.empty(len(given), dtype=object)
    mesh[:] = given
    return mesh.reshape(tuple(mesh_shape))
