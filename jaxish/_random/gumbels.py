"""Gumbel noise, which makes the maximum of logits a draw from their softmax."""

import functools

import torch
from torch import Tensor

from .._core import config, dtypes
from .._core.array import Array, tensor_of
from .._core.typing import ArrayLike, DTypeLike, Shape
from .._devices.shardings import NamedSharding, PartitionSpec
from .._tensors import xla_arithmetic as xla
from .arguments import float_dtype, static_shape
from .draws import Bits, Sampler, draw
from .key_array import KeyArray
from .keys import check_key
from .sharded import takes_out_sharding
from .uniforms import sampler, scaled


@takes_out_sharding
def gumbel(
    key: ArrayLike,
    shape: Shape = (),
    dtype: DTypeLike | None = None,
    mode: str | None = None,
    *,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Return samples of the standard Gumbel distribution.

    `mode` says how finely the upper tail is resolved: "low" (the default), "high" or "highest". Raises `ValueError`
    for other modes and for dtypes that are not floating.
    """
    typed, _ = check_key("gumbel", key)
    found = float_dtype("gumbel", dtype)
    return Array(gumbel_tensor(typed, static_shape(shape), dtypes.to_torch(found), gumbel_mode(mode)))


def gumbel_mode(mode: str | None) -> str:
    """Return the mode that a user's argument means. Raises `ValueError`."""
    if mode not in (None, "highest", "high", "low"):
        raise ValueError(f"Must provide valid mode for gumbel got: {mode}")
    return mode or ("high" if config.high_dynamic_range_gumbel.value else "low")


def gumbel_tensor(key: KeyArray, shape: tuple[int, ...], dtype: torch.dtype, mode: str) -> Tensor:
    """Return Gumbel noise."""
    return draw(gumbel_sampler(dtype, mode), key._impl, tensor_of(key), shape)


@functools.cache
def gumbel_sampler(dtype: torch.dtype, mode: str) -> Sampler:
    """Return the sampler of Gumbel noise."""
    info = dtypes.finfo(dtypes.TO_NUMPY[dtype])
    if mode == "highest" and dtype is torch.float32:
        return Sampler("gumbel_highest", _finest, (dtype,), (Bits(32, 2),))
    if mode != "low":
        fraction, tiny = 2.0**-info.nmant, float(info.tiny)

        def fine(high: Tensor, low: Tensor) -> Tensor:
            x = torch.where(high >= 0.5, high, xla.fma(low, fraction, high) + tiny)
            return -xla.log(-xla.log1p(-x))

        return sampler("gumbel_high", dtype, fine, 2)

    def coarse(u: Tensor) -> Tensor:
        low = torch.full((), float(info.tiny), dtype=dtype, device=u.device)
        return -xla.log(-xla.log(scaled(u, low, torch.ones_like(low))))

    return sampler("gumbel", dtype, coarse)


def _finest(high: Tensor, low: Tensor) -> Tensor:
    """Return Gumbel noise from 64 bits that stand for a fixed-point number, small ones on either side kept exact."""
    small = high >= 0
    # The two's complement of the 64 bits is the distance to one.
    mirrored_low = ~low + 1
    mirrored_high = ~high + (low == 0).to(torch.int32)
    x = _fixed_to_float(torch.where(small, high, mirrored_high), torch.where(small, low, mirrored_low))
    return torch.where(small, -xla.log(-xla.log1p(-x)), -xla.log(-xla.log(x)))


def _fixed_to_float(high: Tensor, low: Tensor) -> Tensor:
    """Return a fraction of 64 bits as float32, rounded towards zero; zero itself as 2**-65."""
    wide = (high.to(torch.int64) << 32) | (low.to(torch.int64) & 0xFFFFFFFF)
    # Without the last bits of large numbers the conversion to float64 is exact, and its exponent right.
    held = torch.where(wide >= 2**40, wide & ~0xFFFF, wide.clamp(min=1))
    leading = (held.double().view(torch.int64) >> 52) - 1023
    shift = (leading - 23).clamp(min=0)
    found = (((wide >> shift) << shift).double() * 2.0**-64).float()
    return torch.where(wide == 0, 2.0**-65, torch.where(wide < 0, 0.5, found))
