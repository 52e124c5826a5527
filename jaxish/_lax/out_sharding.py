"""The argument `out_sharding` of functions that make arrays: the result is laid over the explicit axes of a mesh."""

from typing import Any

from .._core.array import Array
from .._devices.shardings import says_nothing
from .._transforms.placement import explicit_sharding, laid_out


def laid_over(out_sharding: Any, function: str, array: Array) -> Array:
    """Return what `function` made with the sharding that it was given, a `NamedSharding` or a `PartitionSpec`.

    Raises `TypeError` and `ValueError` for other shardings (see `explicit_sharding`).
    """
    return array if says_nothing(out_sharding) else laid_out(array, explicit_sharding(out_sharding, function))
