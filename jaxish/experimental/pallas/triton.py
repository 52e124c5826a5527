"""jax.experimental.pallas.triton: what kernels for Triton call. This module only hands names on."""

from ..._experimental.pallas.triton import CompilerParams as CompilerParams
from ..._experimental.pallas.triton import approx_tanh as approx_tanh
from ..._experimental.pallas.triton import atomic_add as atomic_add
from ..._experimental.pallas.triton import atomic_and as atomic_and
from ..._experimental.pallas.triton import atomic_cas as atomic_cas
from ..._experimental.pallas.triton import atomic_max as atomic_max
from ..._experimental.pallas.triton import atomic_min as atomic_min
from ..._experimental.pallas.triton import atomic_or as atomic_or
from ..._experimental.pallas.triton import atomic_xchg as atomic_xchg
from ..._experimental.pallas.triton import atomic_xor as atomic_xor
from ..._experimental.pallas.triton import debug_barrier as debug_barrier
from ..._experimental.pallas.triton import dot as dot
from ..._experimental.pallas.triton import elementwise_inline_asm as elementwise_inline_asm
from ..._experimental.pallas.triton import load as load
from ..._experimental.pallas.triton import max_contiguous as max_contiguous
from ..._experimental.pallas.triton import store as store
