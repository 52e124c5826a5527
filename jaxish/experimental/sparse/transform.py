"""jax.experimental.sparse.transform: functions of dense arrays, for sparse ones. This module only hands names on."""

from ..._experimental.sparse.sparsify import SparseTracer as SparseTracer
from ..._experimental.sparse.sparsify import sparsify as sparsify
