"""The kinds of memory that types tell apart (`jax.memory.Space`)."""

import enum


class Space(enum.Enum):
    """Where an array may be: in the memory of its device, or of the host; Any: in either."""

    Device = enum.auto()
    Host = enum.auto()
    Any = enum.auto()

    def __repr__(self) -> str:
        return f"MemorySpace.{self.name}"

    __str__ = __repr__
