"""Where arrays are: moving pytrees to devices and to the host, waiting for them."""

from typing import Any

import numpy as np
import torch

from .._backends import devices
from .._core import graph, tree
from .._core.array import Array, as_array, from_kind, tensor_of
from .._core.avals import ShapedArray, aval_of


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


def with_sharding_constraint(x: Any, shardings: Any) -> Any:
    """Return the pytree `x` on the devices that `shardings` says: `SingleDeviceSharding`s or devices, or a prefix of them.

    Raises `NotImplementedError` for shardings over several devices.
    """
    return device_put(x, shardings)


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


def _sharding(self: Array) -> devices.SingleDeviceSharding:
    """The array's sharding: one device."""
    return devices.SingleDeviceSharding(devices.of(self._tensor))


def _shards(self: Array) -> list[devices.Shard]:
    """The parts of the array on this process's devices: one."""
    return [devices.Shard(devices.of(self._tensor), (slice(None),) * self.ndim, 0, self)]


def _addressable_data(self: Array, index: int) -> Array:
    """Return the data of a shard. Raises `IndexError` for an index other than 0."""
    return _shards(self)[index].data


def _aval(self: Array) -> ShapedArray:
    """The array's type."""
    return aval_of(self)


def _always(value: bool, doc: str) -> property:
    return property(lambda self: value, doc=doc)


# Where an array is belongs to the array in JAX, and to the floor above `_core` here.
_ATTRIBUTES: dict[str, Any] = {
    "device": property(_device),
    "devices": _devices,
    "platform": _platform,
    "to_device": _to_device,
    "sharding": property(_sharding),
    "addressable_shards": property(_shards),
    "global_shards": property(_shards),
    "addressable_data": _addressable_data,
    "aval": property(_aval),
    "committed": _always(False, "Whether the array was placed explicitly; with one device it never matters."),
    "is_fully_addressable": _always(True, "Whether this process has all of the array."),
    "is_fully_replicated": _always(True, "Whether every device of the array has all of it."),
}
for _name, _attribute in _ATTRIBUTES.items():
    setattr(Array, _name, _attribute)
