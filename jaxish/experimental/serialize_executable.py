"""jax.experimental.serialize_executable: compiled functions as bytes. This module only hands names on."""

from .._export.executables import deserialize_and_load as deserialize_and_load
from .._export.executables import serialize as serialize
