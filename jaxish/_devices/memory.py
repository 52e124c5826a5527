"""The memories of a device: what `jax.memory` shows."""

import enum


class Space(enum.Enum):
    """Where an array may be: in the memory of its device, which is where arrays are here, or of the host."""

    Device = enum.auto()
    Host = enum.auto()
    Any = enum.auto()

    def __repr__(self) -> str:
        return f"MemorySpace.{self.name}"

    __str__ = __repr__
