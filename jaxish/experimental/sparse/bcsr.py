"""jax.experimental.sparse.bcsr: arrays as compressed rows. This module only hands names on."""

from ..._experimental.sparse.base import JAXSparse as JAXSparse
from ..._experimental.sparse.bcsr import BCSR as BCSR
from ..._experimental.sparse.bcsr import bcsr_broadcast_in_dim as bcsr_broadcast_in_dim
from ..._experimental.sparse.bcsr import bcsr_concatenate as bcsr_concatenate
from ..._experimental.sparse.bcsr import bcsr_dot_general as bcsr_dot_general
from ..._experimental.sparse.bcsr import bcsr_eliminate_zeros as bcsr_eliminate_zeros
from ..._experimental.sparse.bcsr import bcsr_extract as bcsr_extract
from ..._experimental.sparse.bcsr import bcsr_fromdense as bcsr_fromdense
from ..._experimental.sparse.bcsr import bcsr_sum_duplicates as bcsr_sum_duplicates
from ..._experimental.sparse.bcsr import bcsr_todense as bcsr_todense
