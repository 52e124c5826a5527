"""jax.experimental.sparse.csr: matrices as compressed rows and columns. This module only hands names on."""

from ..._experimental.sparse.base import JAXSparse as JAXSparse
from ..._experimental.sparse.matrices import CSC as CSC
from ..._experimental.sparse.matrices import CSR as CSR
from ..._experimental.sparse.matrices import csr_fromdense as csr_fromdense
from ..._experimental.sparse.matrices import csr_matmat as csr_matmat
from ..._experimental.sparse.matrices import csr_matvec as csr_matvec
from ..._experimental.sparse.matrices import csr_todense as csr_todense
