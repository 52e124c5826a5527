"""Removal of trends from sampled functions."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..._core.array import Array
from ..._core.dimensions import canonical_axis
from ..._core.promotion import promote_inexact
from ..._core.typing import ArrayLike


def detrend(
    data: ArrayLike,
    axis: int = -1,
    type: str = "linear",
    bp: int | Sequence[int] | np.ndarray = 0,
    overwrite_data: None = None,
) -> Array:
    """Return `data` less its mean ("constant") or its least-squares line ("linear") along `axis`.

    A line is fitted to each piece between the breakpoints `bp`.
    """
    if overwrite_data is not None:
        raise NotImplementedError("overwrite_data argument not implemented.")
    if type not in ("constant", "linear"):
        raise ValueError("Trend type must be 'linear' or 'constant'.")
    (t,), weak = promote_inexact("detrend", data)
    place = canonical_axis(axis, t.dim(), error=IndexError)
    if type == "constant":
        return Array(t - t.mean(place, keepdim=True), weak)
    size = t.shape[place]
    edges: Any = np.unique(np.r_[0, bp, size])
    if edges[0] < 0 or edges[-1] > size:
        raise ValueError("Breakpoints must be non-negative and less than length of data along given axis.")
    pieces = torch.split(t.movedim(place, -1), np.diff(edges).tolist(), -1)
    return Array(torch.cat([_without_line(piece) for piece in pieces], -1).movedim(-1, place))


def _without_line(t: Tensor) -> Tensor:
    """Return `t` less the line through its mean with the slope that fits best, along the last axis."""
    size = t.shape[-1]
    rest = t - t.mean(-1, keepdim=True)
    place = torch.arange(size, dtype=t.real.dtype, device=t.device) - (size - 1) / 2
    moment = size * (size * size - 1) / 12 or 1  # the sum of the squares of the places
    return rest - (rest * place).sum(-1, keepdim=True) / moment * place
