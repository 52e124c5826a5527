"""Samples laid over devices: each device makes its own part."""

import functools
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import numpy as np

from .._core import graph, tree
from .._core.array import Array
from .._devices import processes
from .._devices.shardings import NamedSharding, says_nothing
from .._transforms.jit import jit
from .._transforms.placement import explicit_sharding, laid_out

F = TypeVar("F", bound=Callable[..., Any])

_ARRAYS = (Array, np.ndarray, np.generic)


def takes_out_sharding(sampler: F) -> F:
    """Decorator for a sampler with the argument `out_sharding`: how the samples lie over the axes of a mesh.

    It is a `NamedSharding`, or a `PartitionSpec` on the mesh in force, over explicit axes. Every device makes the same
    numbers as one device would for its part of the array. Raises `TypeError` and `ValueError` for other shardings.
    """

    @functools.wraps(sampler)
    def drawn(*args: Any, out_sharding: Any = None, **kwargs: Any) -> Array:
        if says_nothing(out_sharding):
            return sampler(*args, **kwargs)
        sharding = explicit_sharding(out_sharding, sampler.__name__)
        if graph.is_tracing() or not processes.are_several():
            return laid_out(sampler(*args, **kwargs), sharding)
        leaves, spec = tree.flatten((args, kwargs))
        arrays = [x for x in leaves if isinstance(x, _ARRAYS)]
        static = tuple((type(x), None if isinstance(x, _ARRAYS) else x) for x in leaves)
        return _traced(sampler, spec, static, sharding)(arrays)

    return drawn  # pyright: ignore


@functools.lru_cache(256)
def _traced(
    sampler: Callable[..., Array], spec: tree.Spec, static: tuple[tuple[type, Hashable], ...], sharding: NamedSharding
) -> Any:
    """Return the sampler as a jitted function of its array arguments: the graph says what a part is made of."""

    def draw(arrays: list[Any]) -> Array:
        rest = iter(arrays)
        args, kwargs = spec.unflatten(next(rest) if issubclass(kind, _ARRAYS) else value for kind, value in static)
        return laid_out(sampler(*args, **kwargs), sharding)

    return jit(draw)
