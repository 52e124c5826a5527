"""Continuous samplers that transform a fixed number of uniforms or normals."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._core import dtypes
from .._core.array import Array, as_array, check_arraylike, tensor_of
from .._core.extended import refuse
from .._core.promotion import convert, promote_inexact
from .._core.symbolic_sizes import index as index_of
from .._core.typing import ArrayLike, DTypeLike, Shape
from .._devices.shardings import NamedSharding, PartitionSpec
from .._tensors import xla_arithmetic as xla
from .arguments import (
    check_castable,
    check_shape,
    count_dtype,
    float_dtype,
    parameter,
    sample_shape,
    static_shape,
)
from .draws import Sampler, draw, sampled
from .gammas import gamma_tensor
from .integers import signs
from .key_array import KeyArray
from .keys import check_key, several
from .sharded import takes_out_sharding
from .uniforms import (
    normal_sampler,
    normal_tensor,
    real_normal,
    sampler,
    scaled,
    unit_sampler,
    unit_uniform,
)

# Without parameters: one kernel each


def _between(u: Tensor, low: float, high: float) -> Tensor:
    return scaled(u, *(torch.full((), bound, dtype=u.dtype, device=u.device) for bound in (low, high)))


def _exponential(u: Tensor, info: Any) -> Tensor:
    return -xla.log1p(-u)


def _laplace(u: Tensor, info: Any) -> Tensor:
    u = _between(u, -1.0 + float(info.epsneg), 1.0)
    return torch.sign(u) * xla.log1p(-u.abs())


def _logistic(u: Tensor, info: Any) -> Tensor:
    x = _between(u, float(info.tiny), 1.0)
    return xla.log(x) - xla.log1p(-x)


def _cauchy(u: Tensor, info: Any) -> Tensor:
    pi = float(np.array(np.pi, dtypes.TO_NUMPY[u.dtype]))
    return torch.tan((_between(u, float(info.eps), 1.0) - 0.5) * pi)


@functools.cache
def _standard(function: Callable[[Tensor, Any], Tensor], dtype: torch.dtype) -> Sampler:
    info = dtypes.finfo(dtypes.TO_NUMPY[dtype])
    return sampler(function.__name__, dtype, lambda u: function(u, info))


def _drawn(name: str, function: Callable[[Tensor, Any], Tensor], key: Any, shape: Any, dtype: Any) -> Array:
    typed, _ = check_key(name, key)
    target = dtypes.to_torch(float_dtype(name, dtype))
    return Array(draw(_standard(function, target), typed._impl, tensor_of(typed), static_shape(shape)))


def exponential_tensor(key: KeyArray, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Return samples of the exponential distribution with rate 1."""
    return draw(_standard(_exponential, dtype), key._impl, tensor_of(key), shape)


@takes_out_sharding
def exponential(
    key: ArrayLike,
    shape: Shape = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Return samples of the exponential distribution with rate 1. Raises `ValueError` for non-floating dtypes."""
    return _drawn("exponential", _exponential, key, shape, dtype)


@takes_out_sharding
def laplace(
    key: ArrayLike,
    shape: Shape = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Return samples of the Laplace distribution of scale 1. Raises `ValueError` for non-floating dtypes."""
    return _drawn("laplace", _laplace, key, shape, dtype)


@takes_out_sharding
def logistic(
    key: ArrayLike,
    shape: Shape = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Return samples of the logistic distribution of scale 1. Raises `ValueError` for non-floating dtypes."""
    return _drawn("logistic", _logistic, key, shape, dtype)


@takes_out_sharding
def cauchy(
    key: ArrayLike,
    shape: Shape = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Return samples of the Cauchy distribution of scale 1. Raises `ValueError` for non-floating dtypes."""
    return _drawn("cauchy", _cauchy, key, shape, dtype)


@takes_out_sharding
def maxwell(
    key: ArrayLike,
    shape: Shape = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Return samples of the Maxwell distribution: lengths of normal vectors in three dimensions."""
    typed, _ = check_key("maxwell", key)
    return Array(_maxwell(typed, static_shape(shape), dtypes.to_torch(float_dtype("maxwell", dtype))))


def _maxwell(key: KeyArray, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    x, y, z = real_normal(key, (*shape, 3), dtype).unbind(-1)
    # XLA sums every other element first.
    return xla.sqrt((x * x + z * z) + y * y)


# With parameters, in which they are differentiable


def double_sided_maxwell(
    key: ArrayLike, loc: ArrayLike, scale: ArrayLike, shape: Shape = (), dtype: DTypeLike | None = None
) -> Array:
    """Return Maxwell samples with random signs, times `scale`, plus `loc`; the result has the shape of the parameters
    behind `shape`.
    """
    typed, _ = check_key("double_sided_maxwell", key)
    target = dtypes.to_torch(float_dtype("double_sided_maxwell", dtype))
    sizes = static_shape(shape)
    parameters = sample_shape("double_sided_maxwell", None, loc, scale)
    sizes = (sizes or parameters) + parameters
    maxwell_key, sign_key = several(typed, 2)
    samples = signs(sign_key, sizes, target) * _maxwell(maxwell_key, sizes, target)
    (values, factor, offset), _ = promote_inexact("double_sided_maxwell", Array(samples), scale, loc)
    return Array(xla.fma(values, factor, offset))


def weibull_min(
    key: ArrayLike, scale: ArrayLike, concentration: ArrayLike, shape: Shape = (), dtype: DTypeLike | None = None
) -> Array:
    """Return samples of the Weibull distribution: -log(1 - u) to the power 1 / concentration, times scale."""
    typed, _ = check_key("weibull_min", key)
    target = dtypes.to_torch(float_dtype("weibull_min", dtype))
    check_arraylike("weibull_min", scale, concentration)
    e = Array(exponential_tensor(typed, static_shape(shape), target))
    return e ** (1.0 / as_array(concentration)) * as_array(scale)  # pyright: ignore


@takes_out_sharding
def pareto(
    key: ArrayLike,
    b: ArrayLike,
    shape: Shape | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Return samples of the Pareto distribution with exponent `b`, which broadcasts to `shape`."""
    typed, target, sizes, (power,) = _with_parameters("pareto", key, shape, dtype, b)
    return Array(sampled(_standard(_exponential, target), _pareto, typed._impl, tensor_of(typed), sizes, power))


def _pareto(e: Tensor, power: Tensor) -> Tensor:
    return xla.exp(e / power)


@takes_out_sharding
def rayleigh(
    key: ArrayLike,
    scale: ArrayLike,
    shape: Shape | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Return samples of the Rayleigh distribution with `scale`, which broadcasts to `shape`."""
    typed, target, sizes, (factor,) = _with_parameters("rayleigh", key, shape, dtype, scale)
    return Array(sampled(unit_sampler(target), _rayleigh, typed._impl, tensor_of(typed), sizes, factor))


def _rayleigh(u: Tensor, scale: Tensor) -> Tensor:
    return scale * xla.sqrt(xla.log(u) * -2.0)


@takes_out_sharding
def wald(
    key: ArrayLike,
    mean: ArrayLike,
    shape: Shape | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Return samples of the Wald (inverse Gaussian) distribution with `mean`, which broadcasts to `shape`, and scale 1."""
    typed, target, sizes, (mu,) = _with_parameters("wald", key, shape, dtype, mean)
    normal_key, uniform_key = several(typed, 2)
    z = unit_uniform(uniform_key, sizes, target)
    samples = sampled(normal_sampler(target), _wald, normal_key._impl, tensor_of(normal_key), sizes, z, mu)
    return Array(samples)


def _wald(v: Tensor, z: Tensor, mu: Tensor) -> Tensor:
    y, square = v * v, mu * mu
    root = xla.sqrt(xla.fma(4 * mu, y, square * (y * y)))
    x = xla.fma(mu * -0.5, root, xla.fma(square * y, 0.5, mu))
    return torch.where(z <= mu / (mu + x), x, square / x)


@takes_out_sharding
def triangular(
    key: ArrayLike,
    left: ArrayLike,
    mode: ArrayLike,
    right: ArrayLike,
    shape: Shape | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Return samples of the triangular distribution over [left, right] with its peak at `mode`; all broadcast to `shape`."""
    found = _with_parameters("triangular", key, shape, dtype, left, mode, right)
    typed, target, sizes, parameters = found
    return Array(sampled(unit_sampler(target), _triangular, typed._impl, tensor_of(typed), sizes, *parameters))


def _triangular(u: Tensor, low: Tensor, peak: Tensor, high: Tensor) -> Tensor:
    width = high - low
    rising = low + xla.sqrt(u * width * (peak - low))
    falling = high - xla.sqrt((1 - u) * width * (high - peak))
    return torch.where(u < (peak - low) / width, rising, falling)


_ONE = np.float32(1)


@takes_out_sharding
def lognormal(
    key: ArrayLike,
    sigma: ArrayLike = _ONE,
    shape: Shape | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Return exponentials of normals of standard deviation `sigma`, which broadcasts to `shape`."""
    found = _with_parameters("lognormal", key, shape, dtype, sigma, kind=np.inexact)
    typed, target, sizes, (deviation,) = found
    if target.is_complex:
        return Array(torch.exp(normal_tensor(typed, sizes, target) * deviation))
    return Array(sampled(normal_sampler(target), _lognormal, typed._impl, tensor_of(typed), sizes, deviation))


def _lognormal(x: Tensor, deviation: Tensor) -> Tensor:
    return xla.exp(x * deviation)


@takes_out_sharding
def geometric(
    key: ArrayLike,
    p: ArrayLike,
    shape: Shape | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Return how many trials of probability `p` it takes until one succeeds, in an integer `dtype`.

    Raises `ValueError` for other dtypes and for p that does not broadcast to `shape`.
    """
    typed, _ = check_key("geometric", key)
    found = count_dtype("geometric", dtype)
    refuse("geometric", (p,))
    sizes = sample_shape("geometric", shape, p)
    odds = parameter("geometric", p, dtypes.to_torch(dtypes.to_inexact(as_array(p).dtype)), typed)
    trials = sampled(unit_sampler(odds.dtype), _geometric, typed._impl, tensor_of(typed), sizes, odds)
    return Array(convert(trials, dtypes.to_torch(found)))


def _geometric(u: Tensor, odds: Tensor) -> Tensor:
    return torch.floor(xla.log(torch.where(u == 0, 1, u)) / xla.log1p(-odds)) + 1


@takes_out_sharding
def generalized_normal(
    key: ArrayLike,
    p: float,
    shape: Shape = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Return samples whose density is proportional to exp(-|x| ** p)."""
    sizes = static_shape(shape)
    typed, _ = check_key("generalized_normal", key)
    target = dtypes.to_torch(float_dtype("generalized_normal", dtype))
    return _generalized_normal(typed, p, sizes, target)


def _generalized_normal(key: KeyArray, p: Any, shape: tuple[int, ...], dtype: torch.dtype) -> Array:
    check_arraylike("generalized_normal", p)
    power: Any = 1 / as_array(p, key._tensor.device)  # pyright: ignore
    check_shape("gamma", shape, power.shape)
    gamma_key, sign_key = several(key, 2)
    g: Any = Array(gamma_tensor(gamma_key, parameter("gamma", power, dtype, key), shape, False))
    return Array(signs(sign_key, shape, dtype)) * g**power


@takes_out_sharding
def ball(
    key: ArrayLike,
    d: int,
    p: float = 2,
    shape: Shape = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Return points distributed uniformly in the unit ball of the p-norm in `d` dimensions: shape (*shape, d)."""
    sizes = static_shape(shape)
    typed, _ = check_key("ball", key)
    target = dtypes.to_torch(float_dtype("ball", dtype))
    point_key, radius_key = several(typed, 2)
    g = _generalized_normal(point_key, p, static_shape((*sizes, index_of(d))), target)
    e = Array(exponential_tensor(radius_key, sizes, target))
    power: Any = as_array(p, typed._tensor.device)
    size = (abs(g) ** power).sum(-1) + e  # pyright: ignore
    return g / (size ** (1 / power))[..., None]


def _with_parameters(
    name: str, key: Any, shape: Any, dtype: Any, *values: Any, kind: type = np.floating
) -> tuple[KeyArray, torch.dtype, tuple[int, ...], list[Tensor]]:
    """Return key, torch dtype, shape of the samples and parameters, checked as JAX checks them."""
    typed, _ = check_key(name, key)
    found = float_dtype(name, dtype, kind)
    sizes = sample_shape(name, shape, *values)
    check_castable(name, found, *values)
    target = dtypes.to_torch(found)
    return typed, target, sizes, [parameter(name, value, target, typed) for value in values]
