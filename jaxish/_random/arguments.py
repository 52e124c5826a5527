"""What the samplers' arguments have in common: shapes, dtypes and parameters that broadcast."""

import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._core import dtypes
from .._core.array import Array, as_array, check_arraylike, tensor_of
from .._core.dimensions import broadcast_shape, canonical_shape
from .._core.extended import ExtendedArray
from .._core.promotion import convert


def static_shape(shape: Any) -> tuple[int, ...]:
    """Return a shape given as a sequence of integers or as one Python integer. Raises `TypeError` for anything else."""
    if type(shape) is not tuple and isinstance(shape, np.generic | np.ndarray | Array) and not shape.ndim:
        raise TypeError(f"a shape must be a sequence of integers or a Python integer, got {shape!r}. Use (n,).")
    return canonical_shape(shape)


def float_dtype(function: str, dtype: Any, kind: type = np.floating, narrow: bool = False) -> Any:
    """Return the canonical dtype that a sampler was asked for; None means the default float.

    Raises `ValueError` for a dtype that is not of this kind, `NotImplementedError` for 8-bit floats unless `narrow`.
    """
    found = dtypes.requested_dtype(float if dtype is None else dtype, function)
    if not dtypes.issubdtype(found, kind):
        wanted = "a float dtype" if kind is np.floating else "a float or complex dtype"
        raise ValueError(f"dtype argument to `{function}` must be {wanted}, got {found}")
    if not narrow:
        check_width(function, found)
    return found


def check_width(function: str, dtype: Any) -> None:
    """Raise `NotImplementedError` for 8-bit floats, in which torch does not compute."""
    if dtype.itemsize == 1:
        raise NotImplementedError(
            f"{function} cannot compute in {dtype}: torch has no arithmetic of 8-bit floats. Sample in bfloat16 or "
            "float32 and convert the samples with astype."
        )


def int_dtype(function: str, dtype: Any) -> Any:
    """Return the canonical dtype that a sampler was asked for; None means the default integer."""
    return dtypes.requested_dtype(int if dtype is None else dtype, function)


def count_dtype(function: str, dtype: Any) -> Any:
    """Return the canonical dtype of counts, as `int_dtype`. Raises `ValueError` for one that is not of integers."""
    found = int_dtype(function, dtype)
    if not dtypes.issubdtype(found, np.integer):
        raise ValueError(f"dtype argument to `{function}` must be an int dtype, got {found}")
    return found


def parameter(function: str, value: Any, dtype: torch.dtype, key: Array) -> Tensor:
    """Return a sampler's parameter as a tensor of `dtype`, a number beside the key.

    Raises `TypeError` for what is no array or scalar, `ValueError` for keys.
    """
    check_arraylike(function, value)
    array = as_array(value, key._tensor.device)
    if isinstance(array, ExtendedArray):
        raise ValueError(f"{function} got keys ({array.dtype}) as a parameter, which has to be made of numbers.")
    if array._tensor.is_complex() and not dtype.is_complex:
        message = f"{function} drops the imaginary part of a parameter. Take jnp.real of it if that is meant."
        warnings.warn(message, np.exceptions.ComplexWarning, stacklevel=3)
    return convert(tensor_of(array), dtype)


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
