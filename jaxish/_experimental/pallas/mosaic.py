"""What kernels for TPUs are written with, as far as the interpreter runs it: memories, what is known ahead, what compilers are told."""

import dataclasses
import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from ..._core import dtypes
from ..._core.array import Array, as_array
from ..._core.avals import aval_of
from ..._lax.elementwise import bitcast_convert_type
from ..._numpy import joining, manipulation
from . import triton
from .refused import NO_SEMAPHORES
from .specifications import GridSpec, Memory, MemoryRef, no_block_spec


class MemorySpace(Memory):
    """The memories of a TPU."""

    VMEM = "vmem"
    VMEM_SHARED = "vmem_shared"
    SMEM = "smem"
    CMEM = "cmem"
    SEMAPHORE = "semaphore_mem"
    HBM = "hbm"

    def __repr__(self) -> str:
        return self.name

    def like(self, shape_dtype_like: Any) -> MemoryRef:
        """Return the type of a reference in this memory to such an array."""
        return self.from_type(aval_of(shape_dtype_like))


CMEM, SMEM, VMEM = MemorySpace.CMEM, MemorySpace.SMEM, MemorySpace.VMEM
VMEM_SHARED, HBM, SEMAPHORE = MemorySpace.VMEM_SHARED, MemorySpace.HBM, MemorySpace.SEMAPHORE


class SemaphoreType(enum.Enum):
    """Kinds of semaphores, which no interpreted kernel is given."""

    REGULAR = "regular"
    DMA = "dma"
    BARRIER = "barrier"

    def __call__(self, shape: tuple[int, ...]) -> NoReturn:
        """Raise `NotImplementedError`."""
        raise NotImplementedError(NO_SEMAPHORES)

    @property
    def inner_aval(self) -> NoReturn:
        """What a semaphore holds: raises `NotImplementedError`."""
        raise NotImplementedError(NO_SEMAPHORES)


class GridDimensionSemantics(enum.Enum):
    """In which order a compiler may take the steps along a dimension: the interpreter takes one after the other."""

    PARALLEL = "parallel"
    CORE_PARALLEL = "core_parallel"
    SUBCORE_PARALLEL = "subcore_parallel"
    ARBITRARY = "arbitrary"


PARALLEL, ARBITRARY = GridDimensionSemantics.PARALLEL, GridDimensionSemantics.ARBITRARY
CORE_PARALLEL, SUBCORE_PARALLEL = GridDimensionSemantics.CORE_PARALLEL, GridDimensionSemantics.SUBCORE_PARALLEL


class SideEffectType(enum.Enum):
    """What a compiler may do with a call whose results nobody reads."""

    PURE = "pure"
    DATAFLOW_SIDE_EFFECTING = "dataflow_side_effecting"
    SIDE_EFFECTING = "side_effecting"


@dataclass(frozen=True)
class CompilerParams:
    """What the compiler for TPUs is told: of no effect in an interpreter."""

    dimension_semantics: Sequence[Any] | None = None
    allow_input_fusion: Sequence[bool] | None = None
    vmem_limit_bytes: int | None = None
    collective_id: int | None = None
    has_side_effects: Any = False
    flags: Mapping[str, Any] | None = None
    internal_scratch_in_bytes: int | None = None
    serialization_format: int = 1
    disable_bounds_checks: bool = False
    disable_semaphore_checks: bool = False
    skip_device_barrier: bool = False
    allow_collective_id_without_custom_barrier: bool = False
    shape_invariant_numerics: bool = True
    use_tc_tiling_on_sc: bool | None = None
    needs_layout_passes: bool = True
    fuse_transposed_lhs_in_matmul: bool = False

    def __post_init__(self) -> None:
        for name in ("dimension_semantics", "allow_input_fusion"):
            if (given := getattr(self, name)) is not None:
                object.__setattr__(self, name, tuple(given))

    def replace(self, **changes: Any) -> "CompilerParams":
        """Return the same with other values of these fields."""
        return dataclasses.replace(self, **changes)


class PrefetchScalarGridSpec(GridSpec):
    """The steps of a call whose first arguments are known before blocks are fetched: maps of indices are given them, too."""

    def __init__(
        self,
        num_scalar_prefetch: int,
        grid: Any = (),
        in_specs: Any = no_block_spec,
        out_specs: Any = no_block_spec,
        scratch_shapes: Any = (),
    ) -> None:
        super().__init__(grid, in_specs, out_specs, tuple(scratch_shapes))
        self.num_scalar_prefetch = num_scalar_prefetch


def roll(x: Any, shift: Any, axis: int, *, stride: int | None = None, stride_axis: int | None = None) -> Array:
    """Return the array with its elements moved around along an axis, by `stride` more for each index along another one.

    Raises `ValueError` for what TPUs do not have.
    """
    x = as_array(x)
    if isinstance(shift, int) and shift < 0:
        raise ValueError("shift must be non-negative.")
    if not 0 <= axis < x.ndim:
        raise ValueError("axis is out of range.")
    if (stride is None) != (stride_axis is None):
        raise ValueError("stride and stride_axis must be both specified or not.")
    if stride is None or stride_axis is None:
        return manipulation.roll(x, shift, axis)
    if stride < 0:
        raise ValueError("stride must be non-negative.")
    if not 0 <= stride_axis < x.ndim:
        raise ValueError("stride_axis is out of range")
    if axis == stride_axis:
        raise ValueError("expected axis and stride_axis are different.")
    rows = joining.split(x, x.shape[stride_axis], stride_axis)
    moved = [manipulation.roll(row, shift + i * stride, axis) for i, row in enumerate(rows)]
    return joining.concatenate(moved, stride_axis)


def bitcast(x: Any, ty: Any) -> Array:
    """Return the bits of an array as elements of another dtype: the last dimension but one has as many rows as they fill.

    Raises `ValueError` for vectors, and for rows that do not fill whole ones.
    """
    x = as_array(x)
    if x.ndim < 2:
        raise ValueError("Not implemented: bitcast 1D")
    *leading, m, n = x.shape
    before, after = x.dtype.itemsize, dtypes.canonicalize_dtype(ty).itemsize
    if m * before % after:
        raise ValueError("Not implemented: the 2nd minor dim can not be perfectly packed or unpacked")
    if before < after:
        packed = x.reshape(*leading, m * before // after, after // before, n)
        return bitcast_convert_type(manipulation.swapaxes(packed, -1, -2), ty)
    found = bitcast_convert_type(x, ty)
    return found if before == after else manipulation.swapaxes(found, -1, -2).reshape(*leading, m * before // after, n)


def load(ref: Any, *, mask: Any = None) -> Array:
    """Return what a reference holds."""
    return triton.load(ref, mask=mask)


def store(ref: Any, val: Any, *, mask: Any = None) -> None:
    """Write into a reference, where `mask` has True."""
    triton.store(ref, val, mask=mask)
