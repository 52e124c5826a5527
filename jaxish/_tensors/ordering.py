"""Order: comparison, extrema and sorting of tensors of every dtype, with JAX's meaning.

Complex numbers are in lexicographic order, by real and then by imaginary part; unsigned integers, which torch compares
as signed ones, in their own. Equal operands share a derivative.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .._core import dtypes, selection, unsigned
from .._core.graph import is_plain_evaluation


def compared(comparison: Callable[[Tensor, Tensor], Tensor], x: Tensor, y: Tensor) -> Tensor:
    """Return a comparison such as `unsigned.lt` of two tensors."""
    if x.dtype.is_complex:
        return selection.where(x.real == y.real, comparison(x.imag, y.imag), comparison(x.real, y.real))
    return comparison(x, y)


def maximum(x: Tensor, y: Tensor) -> Tensor:
    """Return the greater operand."""
    return _chosen(compared(torch.lt, y, x), x, y) if x.dtype.is_complex else unsigned.maximum(x, y)


def minimum(x: Tensor, y: Tensor) -> Tensor:
    """Return the lesser operand."""
    return _chosen(compared(torch.lt, x, y), x, y) if x.dtype.is_complex else unsigned.minimum(x, y)


def _chosen(first: Tensor, x: Tensor, y: Tensor) -> Tensor:
    chosen = selection.where(first, x, y)
    return chosen if is_plain_evaluation() else selection.where(x == y, x / 2 + y / 2, chosen)


# ------------------------------------------------------------------------------------------------------------ extrema


def lowest(dtype: torch.dtype) -> Any:
    """Return the least value of a dtype, minus infinity for floating ones."""
    if dtypes.is_inexact_tensor(dtype):
        return -math.inf
    return False if dtype is torch.bool else dtypes.integer_bounds(dtype).min


def highest(dtype: torch.dtype) -> Any:
    """Return the greatest value of a dtype, infinity for floating ones."""
    if dtypes.is_inexact_tensor(dtype):
        return math.inf
    return True if dtype is torch.bool else dtypes.integer_bounds(dtype).max


def extremum(t: Tensor, dims: Sequence[int], greatest: bool, keepdim: bool = False) -> Tensor:
    """Return the greatest or least elements over `dims`, which have elements; over none, `t` itself."""
    if dims and t.dtype.is_complex:
        return _complex_extremum(t, tuple(dims), greatest, keepdim)
    return (unsigned.amax if greatest else unsigned.amin)(t, dims, keepdim)


def _complex_extremum(t: Tensor, dims: tuple[int, ...], greatest: bool, keepdim: bool) -> Tensor:
    # The extreme real part, then the extreme imaginary part of those that have it.
    reduce, outside = (torch.amax, -math.inf) if greatest else (torch.amin, math.inf)
    real = reduce(t.real, dims, True)
    imag = reduce(torch.where(t.real == real, t.imag, outside), dims, True)
    found = torch.complex(real, torch.where(torch.isnan(real), 0.0, imag))
    return found if keepdim else found.squeeze(dims)


def first_extreme(t: Tensor, dim: int, greatest: bool) -> Tensor:
    """Return the position (int64) of the first greatest or least element along a dimension, or of the first NaN."""
    t = unsigned.ordered(t.detach())
    if t.dtype is torch.bool:
        t = t.to(torch.uint8)
    return torch.argmax(t, dim) if greatest else torch.argmin(t, dim)


# ------------------------------------------------------------------------------------------------------------ sorting


def sorted_with_order(t: Tensor, dim: int, descending: bool = False) -> tuple[Tensor, Tensor]:
    """Return sorted elements and their former positions (int64); stable, NaN is greatest."""
    if t.is_complex():
        order = order_of([t.real, t.imag], dim, descending)
        return gathered(t, dim, order), order
    if t.dtype is torch.bool:
        values, order = torch.sort(t.to(torch.uint8), dim=dim, descending=descending, stable=True)
        return values.to(torch.bool), order
    return unsigned.sort(t, dim, descending)


def ordinals(t: Tensor) -> Tensor:
    """Return integers (int64) in the order of the elements, for floating ones that of their sign and magnitude bits."""
    if not t.is_floating_point():
        return unsigned.ordered(t).to(torch.int64)
    bits = t.view({1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[t.dtype.itemsize])
    if t.dtype is torch.bfloat16:  # torch's conversion to it gives every NaN the negative sign
        bits = torch.where(t != t, torch.iinfo(bits.dtype).max, bits)
    return unsigned.ordered_bits(bits).to(torch.int64)


def order_of(keys: Sequence[Tensor], dim: int, descending: bool = False) -> Tensor:
    """Return the positions of a stable sort by the first of some real keys, then the second, ..."""
    # Stable sorts by each key, the last one first.
    order = None
    for key in reversed(keys):
        key = key.detach()
        step = unsigned.sort(key if order is None else gathered(key, dim, order), dim, descending)[1]
        order = step if order is None else order.gather(dim, step)
    assert order is not None
    return order


def sorted_by_keys(tensors: Sequence[Tensor], dim: int, num_keys: int) -> list[Tensor]:
    """Return tensors sorted stably in lexicographic order of the first `num_keys`."""
    keys = [part for t in tensors[:num_keys] for part in ((t.real, t.imag) if t.dtype.is_complex else (t,))]
    if len(keys) == 1:
        first, order = unsigned.sort(tensors[0], dim)
        return [first, *(gathered(t, dim, order) for t in tensors[1:])]
    order = order_of(keys, dim)
    return [gathered(t, dim, order) for t in tensors]


def gathered(t: Tensor, dim: int, order: Tensor) -> Tensor:
    """Return the elements of `t` at places `order` along a dimension."""
    return unsigned.via_bits(lambda x: torch.gather(x, dim, order), t)
