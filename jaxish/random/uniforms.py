"""Bits, uniforms and normals: what the other samplers are made of."""

import math
import operator
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import torch
from torch import Tensor

from .._core import dtypes
from .._core.array import Array, as_array, tensor_of
from .._core.promotion import convert
from ..lax.inverse_error_function import erf_inv_tensor
from .keys import KeyArray, check_key

_UNSIGNED = {8: torch.uint8, 16: torch.uint16, 32: torch.uint32, 64: torch.uint64}


def canonical_shape(shape: Any) -> tuple[int, ...]:
    """Return a shape given as an integer or a sequence of integers. Raises `TypeError` for anything else."""
    sizes = tuple(shape) if isinstance(shape, Sequence | np.ndarray | torch.Size) else (shape,)
    try:
        return tuple(operator.index(n) for n in sizes)
    except TypeError:
        raise TypeError(f"Shapes must be 1D sequences of concrete values of integer type, got {shape}.") from None


def float_dtype(function: str, dtype: Any, kinds: tuple[type, ...] = (np.floating,)) -> Any:
    """Return the canonical dtype that a sampler was asked for; None means the default float.

    Raises `ValueError` for a dtype outside `kinds`.
    """
    found = dtypes.requested_dtype(float if dtype is None else dtype, function)
    if not any(dtypes.issubdtype(found, kind) for kind in kinds):
        wanted = "a float dtype" if kinds == (np.floating,) else "a float or complex dtype"
        raise ValueError(f"dtype argument to `{function}` must be {wanted}, got {found}")
    return found


def refuse_out_sharding(function: str, out_sharding: Any) -> None:
    """Raise `NotImplementedError` for a sharding: this version has one device per array."""
    if out_sharding is not None:
        raise NotImplementedError(f"{function}(out_sharding=...) is not supported in this version; leave it out.")


def random_bits(key: KeyArray, width: int, shape: tuple[int, ...]) -> Tensor:
    """Return uniform bits as an unsigned tensor."""
    return key._impl.random_bits(tensor_of(key), width, shape)


def bits(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Return uniform random bits as unsigned integers of `dtype` (uint32 by default; uint64 under x64).

    Raises `ValueError` for a dtype that is no unsigned integer.
    """
    refuse_out_sharding("bits", out_sharding)
    typed, _ = check_key("bits", key)
    wanted = dtypes.requested_dtype(np.uint64 if dtype is None and dtypes.config.enable_x64.value else dtype or np.uint32, "bits")
    if not dtypes.issubdtype(wanted, np.unsignedinteger):
        raise ValueError(f"dtype argument to `bits` must be an unsigned int dtype, got {wanted}")
    return Array(random_bits(typed, wanted.itemsize * 8, canonical_shape(shape)))


def unit_uniform(key: KeyArray, shape: tuple[int, ...], dtype: Any) -> Tensor:
    """Return uniforms in [0, 1): random mantissa bits under the exponent of one, minus one."""
    info = ml_dtypes.finfo(dtype)
    target = dtypes.to_torch(dtype)
    random_width = 8 if info.nmant < 8 else info.bits
    signed = {8: torch.int8, 16: torch.int16, 32: torch.int32, 64: torch.int64}[info.bits]
    raw = random_bits(key, random_width, shape)
    wide = raw.view(signed) if random_width == info.bits else raw.to(signed)
    mantissa = (wide >> (random_width - info.nmant)) & ((1 << info.nmant) - 1)
    one = int(np.array(1.0, dtype).view(f"uint{info.bits}"))
    return (mantissa | one).view(target) - 1


def uniform_tensor(key: KeyArray, shape: tuple[int, ...], dtype: Any, minval: Any, maxval: Any) -> Tensor:
    """Return uniforms in [minval, maxval), which are tensors of `dtype` or Python numbers."""
    floats = unit_uniform(key, shape, dtype)
    scaled = floats * (maxval - minval) + minval
    return torch.maximum(scaled, torch.as_tensor(minval, dtype=scaled.dtype)) if isinstance(minval, Tensor) else scaled.clamp(min=minval)


def uniform(
    key: Any, shape: Any = (), dtype: Any = None, minval: Any = 0.0, maxval: Any = 1.0, *, out_sharding: Any = None
) -> Array:
    """Return uniforms in [minval, maxval) of a floating `dtype`; the bounds broadcast to `shape`.

    Raises `ValueError` for other dtypes and for bounds that do not broadcast.
    """
    refuse_out_sharding("uniform", out_sharding)
    typed, _ = check_key("uniform", key)
    found, sizes = float_dtype("uniform", dtype), canonical_shape(shape)
    target = dtypes.to_torch(found)
    if type(minval) is float and type(maxval) is float and (minval, maxval) == (0.0, 1.0):
        return Array(unit_uniform(typed, sizes, found))
    low, high = (bounded("uniform", convert(tensor_of(as_array(b)), target), sizes) for b in (minval, maxval))
    return Array(torch.maximum(low, unit_uniform(typed, sizes, found) * (high - low) + low))


def bounded(function: str, parameter: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return a sampler's parameter as it broadcasts to `shape`. Raises `ValueError` where it does not."""
    if parameter.dim() > len(shape) or any(p not in (1, n) for p, n in zip(reversed(parameter.shape), reversed(shape), strict=False)):
        raise ValueError(
            f"{function} parameter shapes must be broadcast-compatible with shape argument, and the result of "
            f"broadcasting the shapes must equal the shape argument, but got {tuple(parameter.shape)} for shape {shape}."
        )
    return parameter


def normal(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Return standard normals of a floating or complex `dtype`: sqrt(2) erf_inv(u) for u uniform in (-1, 1).

    Complex ones have independent parts of variance 1/2. Raises `ValueError` for other dtypes.
    """
    refuse_out_sharding("normal", out_sharding)
    typed, _ = check_key("normal", key)
    found, sizes = float_dtype("normal", dtype, (np.inexact,)), canonical_shape(shape)
    if found.kind != "c":
        return Array(real_normal(typed, sizes, found))
    keys = KeyArray(typed._impl.split(tensor_of(typed), (2,)), typed._impl)
    real, imag = (real_normal(k, sizes, np.finfo(found).dtype) for k in keys)
    return Array(torch.complex(real, imag) / math.sqrt(2))


def real_normal(key: KeyArray, shape: tuple[int, ...], dtype: Any) -> Tensor:
    """Return standard normals of a real dtype."""
    low = float(np.nextafter(np.array(-1.0, dtype), np.array(0.0, dtype), dtype=dtype))
    floats = unit_uniform(key, shape, dtype)
    width = float(np.array(1.0, dtype) - np.array(low, dtype))
    u = (floats * width + low).clamp(min=low)
    return erf_inv_tensor(u) * float(np.array(np.sqrt(2), dtype))
