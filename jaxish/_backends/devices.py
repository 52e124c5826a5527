"""Devices: the CPU, and the GPUs that torch sees, as JAX's device objects."""

import functools
from dataclasses import dataclass
from typing import Any

import torch

from .._core.array import default_torch_device


class Device:
    """A place where arrays live. `torch_device` is torch's name for it."""

    def __init__(self, torch_device: torch.device, id: int) -> None:
        self.torch_device, self.id, self.process_index, self.local_hardware_id = torch_device, id, 0, id

    @property
    def platform(self) -> str:
        """`cpu` or `gpu`."""
        return "gpu" if self.torch_device.type == "cuda" else self.torch_device.type

    @property
    def device_kind(self) -> str:
        """The device's name, as its maker gives it."""
        return torch.cuda.get_device_name(self.torch_device) if self.platform == "gpu" else "cpu"

    @property
    def host_id(self) -> int:
        """The index of the process that the device belongs to."""
        return self.process_index

    def memory_stats(self) -> dict[str, int] | None:
        """Return bytes in use and the peak on a GPU, None on the CPU."""
        if self.platform != "gpu":
            return None
        return {
            "bytes_in_use": torch.cuda.memory_allocated(self.torch_device),
            "peak_bytes_in_use": torch.cuda.max_memory_allocated(self.torch_device),
            "bytes_limit": torch.cuda.get_device_properties(self.torch_device).total_memory,
        }

    def __repr__(self) -> str:
        return f"{'CudaDevice' if self.platform == 'gpu' else 'CpuDevice'}(id={self.id})"

    def __str__(self) -> str:
        return f"{'cuda' if self.platform == 'gpu' else 'cpu'}:{self.id}"


@functools.cache
def _all(platform: str) -> tuple[Device, ...]:
    if platform == "gpu":
        return tuple(Device(torch.device("cuda", i), i) for i in range(torch.cuda.device_count()))
    return (Device(torch.device("cpu"), 0),)


class SingleDeviceSharding:
    """The sharding of an array that lives on one device."""

    memory_kind = "device"
    is_fully_addressable = is_fully_replicated = True
    num_devices = 1

    def __init__(self, device: Device, *, memory_kind: str | None = None) -> None:
        if memory_kind not in (None, "device"):
            raise NotImplementedError(f"memory kind {memory_kind!r} is not supported; arrays live in device memory.")
        self._device = device

    @property
    def device_set(self) -> set[Device]:
        """The device, as a set."""
        return {self._device}

    addressable_devices = device_set

    def shard_shape(self, global_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the part on each device: all of it."""
        return tuple(global_shape)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SingleDeviceSharding) and self._device is other._device

    def __hash__(self) -> int:
        return hash((SingleDeviceSharding, self._device))

    def __repr__(self) -> str:
        return f"SingleDeviceSharding(device={self._device!r}, memory_kind={self.memory_kind})"


@dataclass(frozen=True)
class Shard:
    """The part of an array on one device."""

    device: Device
    index: tuple[slice, ...]
    replica_id: int
    data: Any


_PLATFORMS = {"cpu": "cpu", "gpu": "gpu", "cuda": "gpu"}


def devices(backend: str | None = None) -> list[Device]:
    """Return the devices of a platform, `cpu` or `gpu`; the GPUs by default where there are any.

    Raises `RuntimeError` for a platform without devices.
    """
    if backend is None:
        return list(_all("gpu") or _all("cpu")) if torch.cuda.is_available() else list(_all("cpu"))
    found = _all(_PLATFORMS[backend]) if backend in _PLATFORMS else ()
    if not found:
        raise RuntimeError(
            f"Unknown backend {backend}, or no device of it: torch sees {', '.join(map(repr, devices()))}."
        )
    return list(found)


def local_devices(
    process_index: int | None = None, backend: str | None = None, host_id: int | None = None
) -> list[Device]:
    """Return the devices of this process. Raises `ValueError` for another process's index."""
    index = host_id if process_index is None else process_index
    if index not in (None, 0):
        raise ValueError(f"Unknown process_index {index}: this is process 0 of 1.")
    return devices(backend)


def device_count(backend: str | None = None) -> int:
    """Return the number of devices."""
    return len(devices(backend))


def local_device_count(backend: str | None = None) -> int:
    """Return the number of devices of this process."""
    return len(devices(backend))


def default_backend() -> str:
    """Return the platform on which arrays are made by default: `cpu` or `gpu`."""
    return devices()[0].platform


def process_index(backend: str | None = None) -> int:
    """Return this process's index."""
    return 0


def process_count(backend: str | None = None) -> int:
    """Return the number of processes."""
    return 1


def process_indices(backend: str | None = None) -> list[int]:
    """Return all process indices."""
    return [0]


def of(tensor: torch.Tensor) -> Device:
    """Return the device of a tensor."""
    if tensor.device.type == "cuda":
        return _all("gpu")[tensor.device.index or 0]
    return _all("cpu")[0]


def to_torch(device: Any) -> torch.device:
    """Return the torch device of a `Device`, or the default one for None. Raises `NotImplementedError` for shardings."""
    if device is None:
        return default_torch_device()
    if isinstance(device, Device):
        return device.torch_device
    single = getattr(device, "_device", None)
    if isinstance(single, Device):
        return single.torch_device
    raise NotImplementedError(
        f"Placement by {type(device).__name__} is not supported in this version; pass a device of jax.devices()."
    )
