"""The memories of devices, and kinds of memory by name."""

from dataclasses import dataclass
from typing import Any

from .._core.memory import Space

DEVICE, PINNED_HOST, UNPINNED_HOST = KINDS = "device", "pinned_host", "unpinned_host"


def kinds_of(platform: str) -> tuple[str, ...]:
    """Return the kinds of memory that arrays of a platform's devices may be in. All that a CPU has are the host's memory."""
    return KINDS if platform == "cpu" else (DEVICE,)


def space_of(kind: str | None) -> Space:
    """Return the space in which types say that an array in memory of this kind is; of `unpinned_host` they tell nothing."""
    return Space.Host if kind == PINNED_HOST else Space.Device


def kind_in(space: Space) -> str:
    """Return the kind of memory that a space means. Raises `ValueError` for `Space.Any`, which means none."""
    if space is Space.Any:
        raise ValueError(
            "MemorySpace.Any says no memory to put an array in: MemorySpace.Device and MemorySpace.Host do."
        )
    return PINNED_HOST if space is Space.Host else DEVICE


@dataclass(frozen=True)
class Memory:
    """A memory of a device."""

    device: Any
    kind: str = DEVICE

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

    @property
    def _id(self) -> int:
        kinds = kinds_of(self.platform)
        return len(kinds) * self.device.id + kinds.index(self.kind)

    @property
    def _name(self) -> str:
        return f"{self.platform}_device" if self.kind == DEVICE else self.kind

    def __repr__(self) -> str:
        return f"{self._name.upper()}_{self._id}"

    def __str__(self) -> str:
        named = "".join(word.capitalize() for word in self._name.split("_"))
        space = "Space" if self.kind == UNPINNED_HOST else ""
        return f"{named}Memory{space}(id={self._id}, process_index={self.process_index}, client={self.platform})"
