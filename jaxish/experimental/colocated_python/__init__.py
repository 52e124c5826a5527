"""jax.experimental.colocated_python: functions on the hosts of devices. This module only hands names on."""

from ..._experimental.colocated_python import colocated_cpu_devices as colocated_cpu_devices
from ..._experimental.colocated_python import colocated_python as colocated_python
from ..._experimental.colocated_python import colocated_python_class as colocated_python_class
