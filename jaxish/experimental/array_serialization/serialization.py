"""jax.experimental.array_serialization.serialization: writers of arrays. This module only hands names on."""

from ..._experimental.array_serialization import GlobalAsyncCheckpointManager as GlobalAsyncCheckpointManager
from ..._experimental.array_serialization import GlobalAsyncCheckpointManagerBase as GlobalAsyncCheckpointManagerBase
from ..._experimental.array_serialization import get_tensorstore_spec as get_tensorstore_spec
from ..._experimental.array_serialization import is_remote_storage as is_remote_storage
from ..._experimental.array_serialization import run_deserialization as run_deserialization
from ..._experimental.array_serialization import run_serialization as run_serialization
