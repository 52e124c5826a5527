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
    shapes: tuple[tuple[int, ...], ...]  # of the leaves
    size: int
    dtypes: tuple[torch.dtype, ...] | None  # None: all had the vector's, and leaves are given that of any other
    dtype: Any

    def __call__(self, vector: Array) -> Any:
        given = as_array(vector)
        if given.shape != (self.size,):
            raise ValueError(f"unravel function expected an array of shape {(self.size,)}, got {given.shape}.")
        parts = tensor_of(given).split([math.prod(shape) for shape in self.shapes])
        leaves = [part.reshape(shape) for part, shape in zip(parts, self.shapes, strict=True)]
        if self.dtypes is None:
            return self.spec.unflatten(Array(leaf, given.weak_type) for leaf in leaves)
        if given.dtype != self.dtype:
            raise TypeError(f"unravel function given array of dtype {given.dtype}, but expected dtype {self.dtype}.")
        return self.spec.unflatten(Array(convert(t, dtype)) for t, dtype in zip(leaves, self.dtypes, strict=True))


def ravel_pytree(pytree: Any) -> tuple[Array, Callable[[Array], Any]]:
    """Return the leaves of `pytree` as one vector of their common dtype, and the function that undoes it.

    The returned function raises `ValueError` for an array of another shape. Where the leaves have several dtypes it raises
    `TypeError` for another dtype, else it gives leaves of whichever dtype it is given.
    """
    leaves, spec = tree.flatten(pytree)
    arrays = [as_array(leaf) for leaf in leaves]
    if not arrays:
        return Array(torch.zeros(0, dtype=torch.float32, device=default_torch_device())), lambda _: spec.unflatten([])
    dtype = dtypes.to_torch(dtypes.promote(*((a.dtype, a.weak_type) for a in arrays))[0])
    flat = Array(torch.cat([convert(tensor_of(a), dtype).flatten() for a in arrays]))
    own = tuple(a._tensor.dtype for a in arrays)
    shapes = tuple(a.shape for a in arrays)
    return flat, (
        _Unravel(spec, shapes, flat.size, None, None)
        if all(d is dtype for d in own)
        else _Unravel(spec, shapes, flat.size, own, flat.dtype)
    )
