"""What the samplers' arguments have in common: shapes, dtypes and parameters that broadcast."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._core import dtypes
from .._core.array import Array, as_array, check_arraylike, tensor_of
from .._core.dimensions import broadcast_shape, canonical_shape
from .._core.promotion import convert


def refuse_out_sharding(function: str, out_sharding: Any) -> None:
    """Raise `NotImplementedError` for a sharding: this version has one device per array."""
    if out_sharding is not None:
        raise NotImplementedError(f"{function}(out_sharding=...) is not supported in this version; leave it out.")


def static_shape(shape: Any) -> tuple[int, ...]:
    """Return a shape given as a sequence of integers or as one integer. Raises `TypeError` for anything else."""
    return canonical_shape(shape)


def float_dtype(function: str, dtype: Any, kind: type = np.floating) -> Any:
    """Return the canonical dtype that a sampler was asked for; None means the default float.

    Raises `ValueError` for a dtype that is not of this kind.
    """
    found = dtypes.requested_dtype(float if dtype is None else dtype, function)
    if not dtypes.issubdtype(found, kind):
        wanted = "a float dtype" if kind is np.floating else "a float or complex dtype"
        raise ValueError(f"dtype argument to `{function}` must be {wanted}, got {found}")
    return found


def int_dtype(function: str, dtype: Any) -> Any:
    """Return the canonical dtype that a sampler was asked for; None means the default integer."""
    return dtypes.requested_dtype(int if dtype is None else dtype, function)


def parameter(function: str, value: Any, dtype: torch.dtype) -> Tensor:
    """Return a sampler's parameter as a tensor of `dtype`. Raises `TypeError` for what is no array or scalar."""
    check_arraylike(function, value)
    return convert(tensor_of(as_array(value)), dtype)


def check_castable(function: str, dtype: Any, *values: Any) -> None:
    """Raise `TypePromotionError` for a parameter whose dtype does not go into `dtype` without loss of its kind."""
    for value in values:
        check_arraylike(function, value)
        array = as_array(value)
        pair = dtypes.promote((array.dtype, array.weak_type), (dtype, False))[0]
        if pair != dtype:
            raise dtypes.TypePromotionError(
                f"In arguments to {function}, cannot safely cast argument of type {array.dtype} to {dtype}"
            )


def shape_of(value: Any) -> tuple[int, ...]:
    """Return the shape of a parameter."""
    return tuple(value.shape) if isinstance(value, Array) else np.shape(value)


def sample_shape(function: str, shape: Any, *parameters: Any) -> tuple[int, ...]:
    """Return the shape of the samples: the one asked for, or else what the parameters broadcast to.

    Raises `ValueError` where the parameters do not broadcast to the shape.
    """
    shapes = [shape_of(p) for p in parameters]
    if shape is None:
        return broadcast_shape(*shapes)
    wanted = static_shape(shape)
    check_shape(function, wanted, *shapes)
    return wanted


def check_shape(function: str, shape: tuple[int, ...], *shapes: tuple[int, ...]) -> None:
    """Raise `ValueError` where shapes of parameters do not broadcast to the shape asked for."""
    result = broadcast_shape(shape, *shapes)
    if result != shape:
        raise ValueError(
            f"{function} parameter shapes must be broadcast-compatible with shape argument, and the result of "
            f"broadcasting the shapes must equal the shape argument, but got result {result} for shape argument {shape}."
        )
