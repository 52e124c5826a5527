"""Devices: the CPU (as many as `jax_num_cpu_devices` says, which share its memory), the GPUs that torch sees, and XLA's.

Started as one of several processes (`jax.distributed.initialize`), each process has one device, and the devices of all
processes are listed.
"""

import functools
import os
import re
import threading
import warnings
from dataclasses import dataclass

import torch

from .._core import accelerator, config, errors
from .memories import Memory, kinds_of


class Device:
    """A place where arrays live. `torch_device` is torch's name for it in the process `process_index`."""

    def __init__(self, torch_device: torch.device, id: int, process_index: int = 0) -> None:
        self.torch_device, self.id, self.process_index = torch_device, id, process_index
        self.local_hardware_id = torch_device.index or 0 if torch_device.type == "cuda" else id

    @property
    def platform(self) -> str:
        """`cpu`, `gpu`, `tpu`, or `xla` for a TPU that the CPU plays."""
        return platform_of(self.torch_device)

    @property
    def device_kind(self) -> str:
        """The device's name, as its maker gives it."""
        return torch.cuda.get_device_name(self.torch_device) if self.platform == "gpu" else self.platform

    @property
    def host_id(self) -> int:
        """The index of the process that the device belongs to."""
        return self.process_index

    @property
    def client(self) -> "Backend":
        """The platform."""
        return Backend(self.platform)

    def default_memory(self) -> Memory:
        """Return the memory where the device's arrays are."""
        return Memory(self)

    def addressable_memories(self) -> list[Memory]:
        """Return the memories that arrays of the device may be in."""
        return [Memory(self, kind) for kind in kinds_of(self.platform)]

    def memory(self, kind: str) -> Memory:
        """Return the memory of this kind. Raises `JaxRuntimeError` where there is none."""
        if kind not in kinds_of(self.platform):
            raise errors.JaxRuntimeError(f"INVALID_ARGUMENT: {self.no_memory(kind)}")
        return Memory(self, kind)

    def no_memory(self, kind: str) -> str:
        """Return what is said of a kind of memory that the device does not have."""
        return (
            f"Could not find memory addressable by device {self.device_kind}. Device {self.device_kind} can address the "
            f"following memory kinds: {', '.join(kinds_of(self.platform))}. Got memory kind: {kind}"
        )

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
        return f"{self.torch_device.type.capitalize()}Device(id={self.id})"

    def __str__(self) -> str:
        return f"{self.torch_device.type}:{self.id}"


@dataclass(frozen=True)
class Backend:
    """A platform and its devices."""

    platform: str

    @property
    def platform_version(self) -> str:
        """torch's version, and CUDA's on GPUs."""
        return f"torch {torch.__version__}" + (f", CUDA {torch.version.cuda}" if self.platform == "gpu" else "")

    @property
    def runtime_type(self) -> str:
        """What runs programs."""
        return "torch"

    def devices(self) -> list[Device]:
        """Return the devices of all processes."""
        return devices(self.platform)

    def local_devices(self) -> list[Device]:
        """Return the devices of this process."""
        return local_devices(backend=self.platform)

    def device_count(self) -> int:
        """Return the number of devices of all processes."""
        return len(self.devices())

    def local_device_count(self) -> int:
        """Return the number of devices of this process."""
        return len(self.local_devices())

    def process_index(self) -> int:
        """Return this process's index."""
        return process_index()

    def device_from_local_hardware_id(self, local_hardware_id: int) -> Device:
        """Return the device of this process with this number. Raises `ValueError` where there is none."""
        for device in self.local_devices():
            if device.local_hardware_id == local_hardware_id:
                return device
        raise ValueError(f"No local device with hardware id {local_hardware_id} on {self.platform}.")


def platform_of(device: torch.device) -> str:
    """Return the platform of a torch device."""
    named = {"cuda": "gpu", "xla": accelerator.xla_platform()}
    return named.get(device.type, device.type)


# Which process this is, and how many there are: `processes.initialize` sets them.
_process = (0, 1)
_listing = threading.Lock()


def join_processes(index: int, count: int) -> None:
    """Note that this is process `index` of `count`, each of which has one device."""
    global _process
    _process = (index, count)
    _listed.cache_clear()


def _all(platform: str) -> tuple[Device, ...]:
    with _listing:  # a device is one object in all threads
        return _listed(platform)


@functools.cache
def _listed(platform: str) -> tuple[Device, ...]:
    index, count = _process
    if platform == "gpu":
        present = torch.cuda.device_count()
        if count == 1:
            return tuple(Device(torch.device("cuda", i), i) for i in range(present))
        own = torch.cuda.current_device() if present else 0
        places = [torch.device("cuda", own if i == index else i % present) for i in range(count)] if present else []
        return tuple(Device(place, i, i) for i, place in enumerate(places))
    if platform in ("tpu", "xla") and platform != accelerator.xla_platform():
        return ()
    if platform == accelerator.xla_platform():
        runtime = accelerator.torch_xla()
        present = 0 if runtime is None else runtime.addressable_runtime_device_count()
        return tuple(Device(torch.device("xla", i), i) for i in range(present))
    cpu = torch.device("cpu")
    if count > 1:
        return tuple(Device(cpu, i, i) for i in range(count))
    return tuple(Device(cpu, i) for i in range(_cpu_count()))


def _cpu_count() -> int:
    wanted = config.num_cpu_devices.value
    flags = re.search(r"--xla_force_host_platform_device_count=(\d+)", os.environ.get("XLA_FLAGS", ""))
    return wanted if wanted > 0 else int(flags[1]) if flags else 1


def are_listed() -> bool:
    """Tell whether the devices have been asked for, so that their number is settled."""
    return bool(_listed.cache_info().currsize)


def _refuse_late_change() -> None:
    if are_listed():
        raise RuntimeError(
            "jax_num_cpu_devices config should be updated before backends are initialized i.e. before any JAX "
            "operation is executed. Set it right after the import: devices were asked for already."
        )


config.num_cpu_devices.on_change.append(_refuse_late_change)


_PLATFORMS = {"cpu": "cpu", "gpu": "gpu", "cuda": "gpu", "tpu": "tpu", "xla": "xla"}


def devices(backend: str | None = None) -> list[Device]:
    """Return the devices of a platform: `cpu`, `gpu`, `tpu`; by default of the first device's (`accelerator.py`).

    Raises `RuntimeError` for a platform without devices.
    """
    if backend is None:
        return list(_all(platform_of(accelerator.first_device())))
    known = backend in _PLATFORMS and accelerator.allows({"gpu": "cuda", "tpu": "xla"}.get(backend, backend))
    found = _all(_PLATFORMS[backend]) if known else ()
    if not found:
        raise RuntimeError(
            f"Unknown backend {backend}, or no device of it: torch sees {', '.join(map(repr, devices()))}."
        )
    return list(found)


def local_devices(
    process_index: int | None = None, backend: str | None = None, host_id: int | None = None
) -> list[Device]:
    """Return the devices of a process, by default of this one. Raises `ValueError` for an index of no process."""
    index = host_id if process_index is None else process_index
    own, count = _process
    if index is not None and not 0 <= index < count:
        raise ValueError(f"Unknown process_index {index}: this is process {own} of {count}.")
    return [d for d in devices(backend) if d.process_index == (own if index is None else index)]


def device_count(backend: str | None = None) -> int:
    """Return the number of devices of all processes."""
    return len(devices(backend))


def local_device_count(backend: str | None = None) -> int:
    """Return the number of devices of this process."""
    return len(local_devices(backend=backend))


def default_backend() -> str:
    """Return the platform on which arrays are made by default: `cpu`, `gpu` or `tpu`."""
    return devices()[0].platform


def process_index(backend: str | None = None) -> int:
    """Return this process's index."""
    return _process[0]


def process_count(backend: str | None = None) -> int:
    """Return the number of processes."""
    return _process[1]


def process_indices(backend: str | None = None) -> list[int]:
    """Return all process indices."""
    return list(range(_process[1]))


def of(tensor: torch.Tensor) -> Device:
    """Return the device of a tensor: this process's first one on that torch device."""
    own = local_devices(backend=platform_of(tensor.device))
    return own[tensor.device.index or 0 if len(own) > 1 and tensor.device.type != "cpu" else 0]


def host_count(backend: str | None = None) -> int:
    """Return the number of processes: a deprecated name of `process_count`."""
    _warn_of_host("host_count", "process_count")
    return process_count(backend)


def host_id(backend: str | None = None) -> int:
    """Return this process's index: a deprecated name of `process_index`."""
    _warn_of_host("host_id", "process_index")
    return process_index(backend)


def host_ids(backend: str | None = None) -> list[int]:
    """Return all process indices: a deprecated name of `process_indices`."""
    _warn_of_host("host_ids", "process_indices")
    return process_indices(backend)


def _warn_of_host(old: str, new: str) -> None:
    warnings.warn(f"jax.{old} has been renamed to jax.{new}. This alias will eventually be removed.", stacklevel=3)
