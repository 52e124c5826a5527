"""jax.debug: looking at values while transformed and compiled code runs."""

from ._transforms.debug import DebugEffect as DebugEffect
from ._transforms.debug import OrderedDebugEffect as OrderedDebugEffect
from ._transforms.debug import breakpoint as breakpoint
from ._transforms.debug import debug_callback as callback
from ._transforms.debug import inspect_array_sharding as inspect_array_sharding
from ._transforms.debug import log as log
from ._transforms.debug import print as print
from ._transforms.debug import visualize_array_sharding as visualize_array_sharding
from ._transforms.debug import visualize_sharding as visualize_sharding

__all__ = [
    "DebugEffect",
    "OrderedDebugEffect",
    "breakpoint",
    "callback",
    "inspect_array_sharding",
    "log",
    "print",
    "visualize_array_sharding",
    "visualize_sharding",
]
