"""jax.experimental.sparse.api: sparse arrays made. This module only hands names on."""

from ..._experimental.sparse.base import JAXSparse as JAXSparse
from ..._experimental.sparse.creation import empty as empty
from ..._experimental.sparse.creation import eye as eye
from ..._experimental.sparse.creation import todense as todense
