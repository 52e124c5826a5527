"""Where arrays are: moving pytrees to devices and to the host, waiting for them."""

from typing import Any

import numpy as np
import torch

from .._backends import devices
from .._core import graph, tree
from .._core.array import Array, as_array, from_kind, tensor_of


def device_put(
    x: Any, device: Any = None, *, src: Any = None, donate: bool | Any = False, may_alias: bool | None | Any = None
) -> Any:
    """Return the pytree `x` with its leaves as arrays on `device` (a `Device`, or a prefix tree of them; None: the default).

    `donate` deletes the arrays given. `src` and `may_alias` are hints that torch has no use for: an array that is on
    the device already is shared, since arrays are immutable. Under jit the graph stays on its inputs' device.
    """
    leaves, spec = tree.flatten(x)
    if device is None or isinstance(device, devices.Device) or not isinstance(device, tuple | list | dict):
        targets = [device] * len(leaves)
    else:
        targets = tree.broadcast_prefix(device, spec, is_leaf=lambda d: d is None)
    moved = [_moved(as_array(leaf), target) for leaf, target in zip(leaves, targets, strict=True)]
    if donate:
        for leaf, new in zip(leaves, moved, strict=True):
            if isinstance(leaf, Array) and not graph.is_tracer(leaf._tensor) and new._tensor is not leaf._tensor:
                leaf.delete()
    return spec.unflatten(moved)


def _moved(array: Array, target: Any) -> Array:
    if target is None:
        return from_kind(tensor_of(array), array.kind)
    return from_kind(tensor_of(array).to(devices.to_torch(target)), array.kind)


def device_get(x: Any) -> Any:
    """Return the pytree `x` with its arrays as NumPy arrays."""
    leaves, spec = tree.flatten(x)
    return spec.unflatten(np.asarray(leaf) if isinstance(leaf, Array) else leaf for leaf in leaves)


def block_until_ready(x: Any) -> Any:
    """Wait until the arrays of the pytree `x` are computed, and return it."""
    if any(isinstance(leaf, Array) and leaf._tensor.device.type == "cuda" for leaf in tree.flatten(x)[0]):
        torch.cuda.synchronize()
    return x


def copy_to_host_async(x: Any) -> Any:
    """Return `x`; on a GPU the copy to the host is made when it is asked for."""
    return x


def _device(self: Array) -> devices.Device:
    """The device that holds the array."""
    return devices.of(self._tensor)


def _devices(self: Array) -> set[devices.Device]:
    """Return the devices that hold the array."""
    return {devices.of(self._tensor)}


def _platform(self: Array) -> str:
    """Return `cpu` or `gpu`."""
    return devices.of(self._tensor).platform


def _to_device(self: Array, device: Any, *, stream: Any = None) -> Array:
    """Return the array on another device. Raises `NotImplementedError` for a stream."""
    if stream is not None:
        raise NotImplementedError("to_device(stream=...) is not supported; leave it out: torch orders copies itself.")
    return device_put(self, device)


# An array's device is a property of the array in JAX, and an object of the floor above here.
Array.device = property(_device)  # pyright: ignore
Array.devices = _devices  # pyright: ignore
Array.platform = _platform  # pyright: ignore
Array.to_device = _to_device  # pyright: ignore
