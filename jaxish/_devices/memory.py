"""The memories of a device: what `jax.memory` shows, and what devices say of theirs."""

import enum
from dataclasses import dataclass
from typing import Any


class Space(enum.Enum):
    """Where an array may be: in the memory of its device, which is where arrays are here, or of the host."""

    Device = enum.auto()
    Host = enum.auto()
    Any = enum.auto()

    def __repr__(self) -> str:
        return f"MemorySpace.{self.name}"

    __str__ = __repr__


@dataclass(frozen=True)
class DeviceMemory:
    """The memory of a device, which is where its arrays are."""

    device: Any

    kind = "device"

    @property
    def platform(self) -> str:
        """The device's platform."""
        return self.device.platform

    @property
    def process_index(self) -> int:
        """The process that the device belongs to."""
        return self.device.process_index

    def addressable_by_devices(self) -> list[Any]:
        """Return the devices that read and write it."""
        return [self.device]

    def __repr__(self) -> str:
        return f"{self.platform.upper()}_DEVICE_{self.device.id}"

    def __str__(self) -> str:
        named = f"{self.platform.capitalize()}DeviceMemory"
        return f"{named}(id={self.device.id}, process_index={self.process_index}, client={self.platform})"
