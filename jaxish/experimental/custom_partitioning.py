"""jax.experimental.custom_partitioning: functions that say how they are split. This module only hands names on."""

from .._experimental.custom_partitioning import BATCHING as BATCHING
from .._experimental.custom_partitioning import ArrayMapping as ArrayMapping
from .._experimental.custom_partitioning import CompoundFactor as CompoundFactor
from .._experimental.custom_partitioning import SdyShardingRule as SdyShardingRule
from .._experimental.custom_partitioning import custom_partitioning as custom_partitioning
from .._jaxprs.primitive import named as _named

custom_partitioning_p = _named("custom_partitioning")
