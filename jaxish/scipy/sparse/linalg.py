"""jax.scipy.sparse.linalg: iterative solvers. This module only hands names on."""

from ..._scipy.sparse.linalg import bicgstab as bicgstab
from ..._scipy.sparse.linalg import cg as cg
from ..._scipy.sparse.linalg import gmres as gmres
