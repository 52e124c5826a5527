"""Window functions for signal processing: M samples, symmetric, peak one."""

import torch
from torch import Tensor

from .._core.array import Array
from .._core.dimensions import static_int
from .._core.promotion import convert, tensor
from .._core.typing import ArrayLike
from .arguments import float_dtype, torch_device


def _samples(M: int) -> tuple[Tensor, int]:
    count = max(static_int(M, "M argument of a window function"), 0)
    return torch.arange(count, dtype=float_dtype(), device=torch_device(None)), count


def _cosines(M: int, *weights: float) -> Array:
    n, count = _samples(M)
    if count <= 1:
        return Array(torch.ones_like(n))
    angle = 2 * torch.pi * n / (count - 1)
    found = torch.full_like(n, weights[0])
    for k, weight in enumerate(weights[1:], 1):
        found = found + weight * torch.cos(k * angle)
    return Array(found)


def blackman(M: int) -> Array:
    """Return a Blackman window of M points."""
    return _cosines(M, 0.42, -0.5, 0.08)


def hamming(M: int) -> Array:
    """Return a Hamming window of M points."""
    return _cosines(M, 0.54, -0.46)


def hanning(M: int) -> Array:
    """Return a Hann window of M points."""
    return _cosines(M, 0.5, -0.5)


def bartlett(M: int) -> Array:
    """Return a Bartlett (triangular) window of M points."""
    n, count = _samples(M)
    if count <= 1:
        return Array(torch.ones_like(n))
    return Array(1 - torch.abs(2 * n + 1 - count) / (count - 1))


def kaiser(M: int, beta: ArrayLike) -> Array:
    """Return a Kaiser window of M points with shape parameter `beta`."""
    n, count = _samples(M)
    shape = convert(tensor("kaiser", beta), float_dtype())
    if count <= 1:
        return Array(torch.ones_like(n))
    half = 0.5 * (count - 1)
    return Array(torch.special.i0(shape * torch.sqrt(1 - ((n - half) / half) ** 2)) / torch.special.i0(shape))
