"""jax.experimental.sparse.util: the warnings and errors of sparse arrays. This module only hands names on."""

from ..._experimental.sparse.base import CuSparseEfficiencyWarning as CuSparseEfficiencyWarning
from ..._experimental.sparse.base import SparseEfficiencyError as SparseEfficiencyError
from ..._experimental.sparse.base import SparseEfficiencyWarning as SparseEfficiencyWarning
