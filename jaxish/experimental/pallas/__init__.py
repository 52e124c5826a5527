"""jax.experimental.pallas: kernels, by the interpreter (`interpret=True`). This module only hands names on."""

from ..._experimental.pallas.calls import num_programs as num_programs
from ..._experimental.pallas.calls import pallas_call as pallas_call
from ..._experimental.pallas.calls import program_id as program_id
from ..._experimental.pallas.kernels import align_to as align_to
from ..._experimental.pallas.kernels import broadcast_to as broadcast_to
from ..._experimental.pallas.kernels import cdiv as cdiv
from ..._experimental.pallas.kernels import debug_print as debug_print
from ..._experimental.pallas.kernels import loop as loop
from ..._experimental.pallas.kernels import multiple_of as multiple_of
from ..._experimental.pallas.kernels import next_power_of_2 as next_power_of_2
from ..._experimental.pallas.kernels import reciprocal as reciprocal
from ..._experimental.pallas.kernels import run_scoped as run_scoped
from ..._experimental.pallas.kernels import strides_from_shape as strides_from_shape
from ..._experimental.pallas.kernels import when as when
from ..._experimental.pallas.refused import core_map as core_map
from ..._experimental.pallas.refused import delay as delay
from ..._experimental.pallas.refused import estimate_cost as estimate_cost
from ..._experimental.pallas.refused import get_global as get_global
from ..._experimental.pallas.refused import kernel as kernel
from ..._experimental.pallas.refused import lower_as_mlir as lower_as_mlir
from ..._experimental.pallas.refused import pallas_export_experimental as pallas_export_experimental
from ..._experimental.pallas.refused import semaphore_read as semaphore_read
from ..._experimental.pallas.refused import semaphore_signal as semaphore_signal
from ..._experimental.pallas.refused import semaphore_wait as semaphore_wait
from ..._experimental.pallas.specifications import ANY as ANY
from ..._experimental.pallas.specifications import HOST as HOST
from ..._experimental.pallas.specifications import BlockDim as BlockDim
from ..._experimental.pallas.specifications import Blocked as Blocked
from ..._experimental.pallas.specifications import BlockSpec as BlockSpec
from ..._experimental.pallas.specifications import Buffered as Buffered
from ..._experimental.pallas.specifications import CostEstimate as CostEstimate
from ..._experimental.pallas.specifications import Element as Element
from ..._experimental.pallas.specifications import GridSpec as GridSpec
from ..._experimental.pallas.specifications import MemoryRef as MemoryRef
from ..._experimental.pallas.specifications import MemorySpace as MemorySpace
from ..._experimental.pallas.specifications import Squeezed as Squeezed
from ..._experimental.pallas.specifications import no_block_spec as no_block_spec
from ..._experimental.pallas.specifications import squeezed as squeezed
from ..._numpy.dynamic_index import Slice as Slice
from ..._numpy.dynamic_index import dslice as dslice

ds = dslice
