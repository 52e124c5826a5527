"""Programs of several processes, one device each: the names of `jax.distributed`."""

from ._devices.cluster import initialize as initialize
from ._devices.cluster import is_initialized as is_initialized
from ._devices.cluster import shutdown as shutdown
