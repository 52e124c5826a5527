"""jax.experimental.sparse.coo: matrices as lists of elements. This module only hands names on."""

from ..._experimental.sparse.base import JAXSparse as JAXSparse
from ..._experimental.sparse.matrices import COO as COO
from ..._experimental.sparse.matrices import coo_fromdense as coo_fromdense
from ..._experimental.sparse.matrices import coo_matmat as coo_matmat
from ..._experimental.sparse.matrices import coo_matvec as coo_matvec
from ..._experimental.sparse.matrices import coo_todense as coo_todense
