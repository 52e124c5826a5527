"""jax.experimental.colocated_python.serialization: what JAX sends to other hosts. This module only hands names on."""

from ..._experimental.colocated_python import DeviceList as DeviceList
