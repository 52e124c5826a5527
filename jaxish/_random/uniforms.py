"""Bits, uniforms and normals: what the other samplers are made of."""

import functools
import math
from typing import Any

import ml_dtypes
import numpy as np
import torch
from torch import Tensor

from .._core import config, dtypes, graph
from .._core.array import Array, tensor_of
from .._core.typing import ArrayLike, DTypeLike, Shape
from .._devices.shardings import NamedSharding, PartitionSpec
from .._jaxprs.primitive import define
from .._lax.elementwise import nextafter
from .._lax.special import inverse_erf
from .._tensors import xla_arithmetic as xla
from .._tensors.inverse_error_function import erf_inv_tensor
from . import primitives
from .arguments import check_shape, float_dtype, parameter, sample_shape, static_shape
from .draws import Bits, Sampler, draw, sampled
from .key_array import KeyArray
from .keys import check_key, each, several
from .sharded import takes_out_sharding


def random_bits(key: KeyArray, width: int, shape: tuple[int, ...]) -> Tensor:
    """Return uniform bits as an unsigned tensor."""
    return primitives.random_bits(tensor_of(key), key._impl, width, shape)


@takes_out_sharding
def bits(
    key: ArrayLike,
    shape: Shape = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Return uniform random bits as unsigned integers of `dtype` (uint32 by default; uint64 under x64).

    Raises `ValueError` for a dtype that is no unsigned integer.
    """
    typed, _ = check_key("bits", key)
    default = np.uint64 if config.enable_x64.value else np.uint32
    wanted = dtypes.requested_dtype(default if dtype is None else dtype, "bits")
    if not dtypes.issubdtype(wanted, np.unsignedinteger):
        raise ValueError(f"dtype argument to `bits` must be an unsigned int dtype, got {wanted}")
    return Array(random_bits(typed, wanted.itemsize * 8, static_shape(shape)))


define(
    "random_bits",
    lambda keys, *, bit_width, shape: each(
        lambda key: Array(random_bits(check_key("bits", key)[0], bit_width, shape)), keys
    ),
)


# Uniforms


def bits_per_float(dtype: torch.dtype) -> int:
    """Return how many random bits a uniform takes."""
    info = ml_dtypes.finfo(dtypes.TO_NUMPY[dtype])
    return 8 if info.nmant < 8 else info.bits


def unit(raw: Tensor, dtype: torch.dtype) -> Tensor:
    """Return uniforms in [0, 1): random mantissa bits under the exponent of one, minus one."""
    numpy_dtype = dtypes.TO_NUMPY[dtype]
    info = ml_dtypes.finfo(numpy_dtype)
    width = bits_per_float(dtype)
    wide = raw.to({8: torch.uint8, 16: torch.int16, 32: torch.int32, 64: torch.int64}[info.bits])
    mantissa = (wide >> (width - info.nmant)) & ((1 << info.nmant) - 1)
    one = int(np.array(1.0, numpy_dtype).view(f"uint{info.bits}"))
    found = (mantissa | one).view(dtype)
    return found - 1 if info.bits > 8 else (found.float() - 1).to(dtype)


def scaled(floats: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Return uniforms in [0, 1) brought into [low, high)."""
    return torch.maximum(low, xla.fma(floats, high - low, low))


def sampler(name: str, dtype: torch.dtype, function: Any, copies: int = 1) -> Sampler:
    """Return the sampler that makes `function(unit uniforms..., parameters...)` of random bits."""

    def run(*inputs: Tensor) -> Tensor:
        return function(*(unit(raw, dtype) for raw in inputs[:copies]), *inputs[copies:])

    return Sampler(f"{name}_{dtype}", run, (dtype,), (Bits(bits_per_float(dtype), copies),))


@functools.cache
def unit_sampler(dtype: torch.dtype) -> Sampler:
    """Return the sampler of uniforms in [0, 1)."""
    return sampler("uniform", dtype, lambda u: u)


@functools.cache
def uniform_sampler(dtype: torch.dtype) -> Sampler:
    """Return the sampler of uniforms between two bounds."""
    return sampler("uniform_between", dtype, scaled)


def unit_uniform(key: KeyArray, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Return uniforms in [0, 1)."""
    return draw(unit_sampler(dtype), key._impl, tensor_of(key), shape)


def uniform_between(key: KeyArray, shape: tuple[int, ...], low: Tensor, high: Tensor) -> Tensor:
    """Return uniforms in [low, high), differentiable in the bounds."""
    return scaled(unit_uniform(key, shape, low.dtype), low, high)


def _is_constant(x: Any) -> bool:
    return type(x) in (float, int) or isinstance(x, np.generic)


@takes_out_sharding
def uniform(
    key: ArrayLike,
    shape: Shape = (),
    dtype: DTypeLike | None = None,
    minval: ArrayLike = 0.0,
    maxval: ArrayLike = 1.0,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Return uniforms in [minval, maxval) of a floating `dtype`; the bounds broadcast to `shape`.

    A number for a bound of one element with dimensions is as that bound is.
    Raises `ValueError` for other dtypes, `TypeError` for bounds that do not broadcast.
    """
    typed, _ = check_key("uniform", key)
    found, sizes = float_dtype("uniform", dtype, narrow=True), static_shape(shape)
    target = dtypes.to_torch(found)
    if type(minval) is float and type(maxval) is float and (minval, maxval) == (0.0, 1.0):
        return Array(unit_uniform(typed, sizes, target))
    low, high = (parameter("uniform", bound, target, typed) for bound in (minval, maxval))
    # JAX has a number broadcast to its bounds.
    if not sizes and low.ndim + high.ndim and low.numel() == high.numel() == 1:
        return Array(uniform_between(typed, sizes, low.reshape(()), high.reshape(())).reshape(low.shape))
    try:
        check_shape("uniform", sizes, tuple(low.shape), tuple(high.shape))
    except ValueError as error:
        raise TypeError(str(error)) from None
    if _is_constant(minval) and _is_constant(maxval):
        return Array(draw(uniform_sampler(target), typed._impl, tensor_of(typed), sizes, low, high))
    return Array(uniform_between(typed, sizes, low, high))


# Normals


@functools.cache
def normal_sampler(dtype: torch.dtype) -> Sampler:
    """Return the sampler of standard normals: sqrt(2) erf_inv(u) for u uniform in (-1, 1)."""
    numpy_dtype = dtypes.TO_NUMPY[dtype]
    low = float(np.nextafter(np.array(-1.0, numpy_dtype), np.array(0.0, numpy_dtype), dtype=numpy_dtype))
    width = float(np.array(1.0, numpy_dtype) - np.array(low, numpy_dtype))
    root = float(np.array(np.sqrt(2), numpy_dtype))
    return sampler("normal", dtype, lambda u: erf_inv_tensor(xla.fma(u, width, low).clamp(min=low)) * root)


def real_normal(key: KeyArray, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Return standard normals of a real dtype."""
    return draw(normal_sampler(dtype), key._impl, tensor_of(key), shape)


def normal_tensor(key: KeyArray, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Return standard normals of a floating or complex dtype."""
    if not dtype.is_complex:
        return real_normal(key, shape, dtype)
    parts = (real_normal(k, shape, dtype.to_real()) for k in several(key, 2))
    return torch.complex(*parts) / math.sqrt(2)


@takes_out_sharding
def normal(
    key: ArrayLike,
    shape: Shape = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Return standard normals of a floating or complex `dtype`: sqrt(2) erf_inv(u) for u uniform in (-1, 1).

    Complex ones have independent parts of variance 1/2. Raises `ValueError` for other dtypes.
    """
    typed, _ = check_key("normal", key)
    found = float_dtype("normal", dtype, np.inexact)
    return Array(normal_tensor(typed, static_shape(shape), dtypes.to_torch(found)))


@takes_out_sharding
def truncated_normal(
    key: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    shape: Shape | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Return normals conditioned on lying between `lower` and `upper`, which broadcast to `shape`.

    Raises `ValueError` for a dtype that is not floating and for bounds that do not broadcast.
    """
    typed, _ = check_key("truncated_normal", key)
    found = float_dtype("truncated_normal", dtype)
    target = dtypes.to_torch(found)
    if type(lower) is float and type(upper) is float and target is torch.float32 and not graph.tracing:
        sizes, device = sample_shape("truncated_normal", shape, lower, upper), typed._tensor.device
        bounds = [torch.tensor(b, dtype=target, device=device) for b in _constant_cut(lower, upper, target)]
    else:
        low, high = (parameter("truncated_normal", bound, target, typed) for bound in (lower, upper))
        sizes = sample_shape("truncated_normal", shape, low, high)
        bounds = _cut(low, high)
    return Array(sampled(unit_sampler(target), _truncated, typed._impl, tensor_of(typed), sizes, *bounds))


def _cut(low: Tensor, high: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the bounds of the uniforms, and the least and the greatest result."""
    dtype = dtypes.TO_NUMPY[low.dtype]
    root = float(np.array(np.sqrt(2), dtype))
    # XLA multiplies by the reciprocal of a constant, except in bfloat16.
    inverse = 1.0 / root if low.dtype is torch.bfloat16 else float(np.array(1.0 / np.array(root, dtype), dtype))
    return xla.erf(_times(low, inverse)), xla.erf(_times(high, inverse)), _next(low, math.inf), _next(high, -math.inf)


@functools.lru_cache(maxsize=256)
def _constant_cut(lower: float, upper: float, dtype: torch.dtype) -> list[float]:
    # It takes 0.4 ms, as the error function is XLA's, step by step.
    return [b.item() for b in _cut(torch.tensor(lower, dtype=dtype), torch.tensor(upper, dtype=dtype))]


def _truncated(u: Tensor, low: Tensor, high: Tensor, least: Tensor, greatest: Tensor) -> Tensor:
    root = float(np.array(np.sqrt(2), dtypes.TO_NUMPY[u.dtype]))
    return torch.minimum(torch.maximum(inverse_erf(scaled(u, low, high)) * root, least), greatest)


def _times(x: Tensor, factor: float) -> Tensor:
    return (x.float() * factor).to(x.dtype) if x.dtype is torch.bfloat16 else x * factor


def _next(x: Tensor, target: float) -> Tensor:
    # The cut is a constant for derivatives.
    held = Array(x.detach())
    return tensor_of(nextafter(held, Array(torch.full_like(held._tensor, target))))
