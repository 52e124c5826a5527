"""A pytree of arrays as one vector."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from .._core import dtypes, tree
from .._core.array import Array, as_array, default_torch_device, tensor_of
from .._core.promotion import convert


@dataclass(frozen=True)
class _Unravel:
    """From a vector to a pytree. Of equal structures it is equal, so that jit takes it for a static argument."""

    spec: tree.Spec
    types: tuple[tuple[tuple[int, ...], torch.dtype], ...]  # of the leaves
    size: int
    dtype: Any

    def __call__(self, vector: Array) -> Any:
        given = as_array(vector)
        if given.shape != (self.size,):
            raise ValueError(f"unravel function expected an array of shape {(self.size,)}, got {given.shape}.")
        if given.dtype != self.dtype:
            raise TypeError(f"unravel function given array of dtype {given.dtype}, but expected dtype {self.dtype}.")
        parts = tensor_of(given).split([math.prod(shape) for shape, _ in self.types])
        pairs = zip(parts, self.types, strict=True)
        return self.spec.unflatten(Array(convert(part, dtype).reshape(shape)) for part, (shape, dtype) in pairs)


def ravel_pytree(pytree: Any) -> tuple[Array, Callable[[Array], Any]]:
    """Return the leaves of `pytree` as one vector of their common dtype, and the function that undoes it.

    The returned function raises `ValueError` for an array of another shape, `TypeError` for another dtype.
    """
    leaves, spec = tree.flatten(pytree)
    arrays = [as_array(leaf) for leaf in leaves]
    if not arrays:
        return Array(torch.zeros(0, dtype=torch.float32, device=default_torch_device())), lambda _: spec.unflatten([])
    dtype = dtypes.to_torch(dtypes.promote(*((a.dtype, a.weak_type) for a in arrays))[0])
    flat = Array(torch.cat([convert(tensor_of(a), dtype).flatten() for a in arrays]))
    return flat, _Unravel(spec, tuple((a.shape, a._tensor.dtype) for a in arrays), flat.size, flat.dtype)
