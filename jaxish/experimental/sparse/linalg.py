"""jax.experimental.sparse.linalg: eigenvalues and systems. This module only hands names on."""

from ..._experimental.sparse.linalg import lobpcg_standard as lobpcg_standard
from ..._experimental.sparse.linalg import spsolve as spsolve
