"""How an array's elements lie in the memory of a device, as programs say it: torch's arrays lie as torch lays them."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Layout:
    """The order of dimensions in memory, outermost first, and tiles."""

    major_to_minor: tuple[int, ...]
    tiling: tuple[tuple[int, ...], ...] | None = None
    sub_byte_element_size_in_bits: int = 0


@dataclass(frozen=True)
class Format:
    """A layout (None: that of the device) and a sharding (None: that of the array)."""

    layout: Layout | None = None
    sharding: Any = None

    @property
    def is_in_order(self) -> bool:
        """Whether elements lie row by row, which they do where nothing else is said."""
        order = () if self.layout is None else self.layout.major_to_minor
        return tuple(order) == tuple(range(len(order)))


def with_layout_constraint(x: Any, layout: Layout) -> Any:
    """Raise `NotImplementedError`: torch's compilers choose the layouts of what they compute."""
    raise NotImplementedError(
        "with_layout_constraint is not supported: torch's compilers choose layouts; transpose the array where its "
        "elements' order in memory matters."
    )
