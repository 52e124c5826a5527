"""Programs of several processes, one device each: the names of `jax.distributed`."""

from ._backends.cluster import initialize as initialize
from ._backends.cluster import is_initialized as is_initialized
from ._backends.cluster import shutdown as shutdown
