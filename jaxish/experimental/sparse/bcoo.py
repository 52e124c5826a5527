"""jax.experimental.sparse.bcoo: arrays as lists of elements. This module only hands names on."""

from ..._experimental.sparse.base import JAXSparse as JAXSparse
from ..._experimental.sparse.bcoo import BCOO as BCOO
from ..._experimental.sparse.bcoo import bcoo_eliminate_zeros as bcoo_eliminate_zeros
from ..._experimental.sparse.bcoo import bcoo_extract as bcoo_extract
from ..._experimental.sparse.bcoo import bcoo_fromdense as bcoo_fromdense
from ..._experimental.sparse.bcoo import bcoo_sort_indices as bcoo_sort_indices
from ..._experimental.sparse.bcoo import bcoo_sum_duplicates as bcoo_sum_duplicates
from ..._experimental.sparse.bcoo import bcoo_todense as bcoo_todense
from ..._experimental.sparse.contractions import bcoo_conv_general_dilated as bcoo_conv_general_dilated
from ..._experimental.sparse.contractions import bcoo_dot_general as bcoo_dot_general
from ..._experimental.sparse.contractions import bcoo_dot_general_sampled as bcoo_dot_general_sampled
from ..._experimental.sparse.contractions import bcoo_multiply_dense as bcoo_multiply_dense
from ..._experimental.sparse.contractions import bcoo_multiply_sparse as bcoo_multiply_sparse
from ..._experimental.sparse.shapes import bcoo_broadcast_in_dim as bcoo_broadcast_in_dim
from ..._experimental.sparse.shapes import bcoo_concatenate as bcoo_concatenate
from ..._experimental.sparse.shapes import bcoo_dynamic_slice as bcoo_dynamic_slice
from ..._experimental.sparse.shapes import bcoo_gather as bcoo_gather
from ..._experimental.sparse.shapes import bcoo_reduce_sum as bcoo_reduce_sum
from ..._experimental.sparse.shapes import bcoo_reshape as bcoo_reshape
from ..._experimental.sparse.shapes import bcoo_rev as bcoo_rev
from ..._experimental.sparse.shapes import bcoo_slice as bcoo_slice
from ..._experimental.sparse.shapes import bcoo_squeeze as bcoo_squeeze
from ..._experimental.sparse.shapes import bcoo_transpose as bcoo_transpose
from ..._experimental.sparse.shapes import bcoo_update_layout as bcoo_update_layout
