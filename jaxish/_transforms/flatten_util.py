"""A pytree of arrays as one vector."""

from collections.abc import Callable
from typing import Any

import torch

from .._core import dtypes, tree
from .._core.array import Array, as_array, default_torch_device, tensor_of, type_text
from .._core.promotion import convert


def ravel_pytree(pytree: Any) -> tuple[Array, Callable[[Array], Any]]:
    """Return the leaves of `pytree` as one vector of their common dtype, and the function that undoes it.

    The returned function raises `ValueError` for an array of another shape, `TypeError` for another dtype.
    """
    leaves, spec = tree.flatten(pytree)
    arrays = [as_array(leaf) for leaf in leaves]
    if not arrays:
        return Array(torch.zeros(0, dtype=torch.float32, device=default_torch_device())), lambda _: spec.unflatten([])
    dtype = dtypes.to_torch(dtypes.promote(*((a.dtype, a.weak_type) for a in arrays))[0])
    flat = Array(torch.cat([convert(tensor_of(a), dtype).reshape(-1) for a in arrays]))

    def unravel(vector: Array) -> Any:
        given = as_array(vector)
        if given.shape != flat.shape:
            raise ValueError(f"unravel function expected an array of shape {flat.shape}, got {given.shape}.")
        if given.dtype != flat.dtype:
            raise TypeError(f"unravel function expected dtype {flat.dtype}, got {type_text(given)}.")
        parts = tensor_of(given).split([a.size for a in arrays])
        return spec.unflatten(
            Array(convert(p, dtypes.to_torch(a.dtype)).reshape(a.shape)) for p, a in zip(parts, arrays, strict=True)
        )

    return flat, unravel
