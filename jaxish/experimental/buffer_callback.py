"""jax.experimental.buffer_callback: callbacks that fill memory. This module only hands names on."""

from .._experimental.buffer_callback import Buffer as Buffer
from .._experimental.buffer_callback import ExecutionContext as ExecutionContext
from .._experimental.buffer_callback import ExecutionStage as ExecutionStage
from .._experimental.buffer_callback import buffer_callback as buffer_callback
