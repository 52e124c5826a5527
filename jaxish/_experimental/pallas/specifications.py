"""What a call of a kernel is given besides arrays: a grid, the blocks that its steps see, and kinds of memory."""

import enum
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..._core import dtypes
from ..._core.array import Array
from ..._core.avals import ShapedArray
from ..._numpy.creation import full


class NoBlockSpec:
    """The kind of `no_block_spec`: the whole array at each step."""

    def __repr__(self) -> str:
        return "NoBlockSpec"


no_block_spec = NoBlockSpec()


@dataclass(frozen=True)
class MemoryRef:
    """The type of a reference that a kernel is given to work with."""

    inner_aval: Any
    memory_space: Any


class Memory(enum.Enum):
    """Where a block lies: the interpreter has one memory."""

    def __call__(self, shape: Sequence[int], dtype: Any) -> MemoryRef:
        """Return the type of a reference in this memory."""
        return self.from_type(ShapedArray(tuple(shape), np.dtype(dtype)))

    def from_type(self, type: Any) -> MemoryRef:
        """Return the type of a reference in this memory to an array of a type."""
        return MemoryRef(type, self)

    def __str__(self) -> str:
        return self.value


class MemorySpace(Memory):
    """Where a block lies, whatever runs the kernel."""

    ANY = "any"
    HOST = "host"


ANY, HOST = MemorySpace.ANY, MemorySpace.HOST


@dataclass(frozen=True)
class Blocked:
    """A dimension in blocks of this size: its index counts blocks."""

    block_size: int


@dataclass(frozen=True)
class Element:
    """A dimension of blocks of this size: its index counts elements, of the dimension with this padding."""

    block_size: int
    padding: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class Squeezed:
    """A dimension that a kernel sees one element of, and not as a dimension."""


squeezed = Squeezed()
BlockDim = Element | Squeezed | Blocked


@dataclass(frozen=True)
class Buffered:
    """In how many buffers blocks are fetched ahead: of no effect in an interpreter."""

    buffer_count: int
    use_lookahead: bool = False
    revisit: Any = None


@dataclass(frozen=True)
class CostEstimate:
    """What a kernel costs, for XLA's scheduler: of no effect."""

    flops: int
    transcendentals: int
    bytes_accessed: int
    remote_bytes_transferred: int = 0


@dataclass(eq=False)
class BlockSpec:
    """How an array is cut into blocks, and which of them a step of the grid sees: `index_map(*step)`."""

    block_shape: Sequence[Any] | None = None
    index_map: Callable[..., Any] | None = None
    pipeline_mode: Buffered | None = None
    memory_space: Any = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        self.block_shape = None if self.block_shape is None else tuple(self.block_shape)

    def dims(self, shape: tuple[int, ...]) -> tuple[Any, ...]:
        """Return what blocks of an array of this shape have in each dimension. Raises `ValueError`."""
        if self.block_shape is None:
            return tuple(map(Blocked, shape))
        if len(self.block_shape) != len(shape):
            raise ValueError(
                f"Block shape (= {self.block_shape}) must have the same number of dimensions as the array shape {shape}."
            )
        return tuple(map(_dimension, self.block_shape))


def _dimension(given: Any) -> Any:
    if given is None:
        return squeezed
    if isinstance(given, Blocked | Element | Squeezed):
        return given
    if isinstance(given, int | np.integer):
        return Blocked(int(given))
    raise NotImplementedError(
        f"pallas: blocks of {given!r} are not supported. Use sizes, None, pl.Blocked or pl.Element."
    )


@dataclass
class GridSpec:
    """The steps of a call: over how many it goes in each dimension, and what each of them sees."""

    num_scalar_prefetch = 0  # how many arguments are whole, and go to the maps of indices, too

    grid: Any = ()
    in_specs: Any = no_block_spec
    out_specs: Any = no_block_spec
    scratch_shapes: Any = ()


def uninitialized(shape: Sequence[int], dtype: Any) -> Array:
    """Return what the interpreter has where nothing has been written: NaN, or the least integer."""
    dtype = np.dtype(dtype)
    if dtypes.issubdtype(dtype, np.floating):
        return full(shape, math.nan, dtype)
    if dtypes.issubdtype(dtype, np.integer):
        return full(shape, dtypes.iinfo(dtype).min, dtype)
    if dtype == np.bool_:
        return full(shape, False, dtype)
    raise NotImplementedError(f"pallas: arrays of {dtype} are not supported by its interpreter.")
