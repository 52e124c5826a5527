"""Statistics of samples: their most common value, ranks, and the standard error of their mean."""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..._core.array import Array, check_arraylike
from ..._core.dimensions import canonical_axis
from ..._core.promotion import promote_inexact, tensor
from ..._core.typing import ArrayLike
from ..._lax.running_extremum import running_extremum
from ..._numpy.arguments import float_dtype, int_dtype
from ..._numpy.creation import asarray
from ..._numpy.elementary import sqrt
from ..._numpy.nan_reductions import nanstd
from ..._numpy.reductions import std
from ..._numpy.reductions import sum as array_sum
from ..._tensors.ordering import compared, gathered, sorted_with_order


class ModeResult(NamedTuple):
    """The most common values, and how often they come."""

    mode: Array
    count: Array


def _check_policy(function: str, nan_policy: str) -> None:
    policies = ("propagate", "omit", "raise")
    if nan_policy not in policies:
        raise ValueError(f"Illegal nan_policy value {nan_policy!r}; expected one of {set(policies)}")
    if nan_policy == "omit":
        raise NotImplementedError(f"Logic for `nan_policy` of {nan_policy} is not implemented")
    if nan_policy == "raise":
        raise NotImplementedError(
            f"`nan_policy` of raise: `{function}` cannot know whether `x` contains nans while it is traced. Please check "
            "if nans exist in `x` outside of the function."
        )


def _is_nan(t: Tensor) -> Tensor:
    return t != t if t.is_floating_point() or t.is_complex() else torch.zeros_like(t, dtype=torch.bool)


def _beginnings(t: Tensor) -> Tensor:
    """Tell which elements of a sorted last axis differ from the one before; NaN is like NaN."""
    before, here = t[..., :-1], t[..., 1:]
    new = compared(torch.ne, before, here) & ~(_is_nan(before) & _is_nan(here))
    return torch.cat([torch.ones_like(t[..., :1], dtype=torch.bool), new], -1)


def _first_places(new: Tensor) -> Tensor:
    """Return for each element where its run of equal ones begins."""
    place = torch.arange(new.shape[-1], device=new.device)
    return running_extremum(torch.where(new, place, 0), new.dim() - 1, True)


def _last_places(new: Tensor) -> Tensor:
    """Return for each element where its run of equal ones ends."""
    ends = torch.cat([new[..., 1:], torch.ones_like(new[..., :1])], -1)
    return new.shape[-1] - 1 - _first_places(torch.flip(ends, (-1,))).flip((-1,))


def mode(a: ArrayLike, axis: int | None = 0, nan_policy: str = "propagate", keepdims: bool = False) -> ModeResult:
    """Return the most common values along `axis` (None: of all), the least of several, and how often they come.

    NaN is a value like others. `nan_policy` must be "propagate".
    """
    t = tensor("mode", a)
    _check_policy("mode", nan_policy)
    t = t if t.dim() else t[None]
    rank = t.dim()
    place = None if axis is None else canonical_axis(axis, rank)
    t = t.flatten() if place is None else t.movedim(place, -1)
    if t.shape[-1]:
        values, _ = sorted_with_order(t, -1)
        count, where = (torch.arange(t.shape[-1], device=t.device) - _first_places(_beginnings(values)) + 1).max(-1)
        # The first element with as many equal ones before it is the last one of its run.
        found, count = gathered(values, -1, where[..., None])[..., 0], count.to(int_dtype())
    else:
        found = torch.full(t.shape[:-1], math.nan, dtype=float_dtype(), device=t.device)
        count = torch.zeros_like(found)
    if keepdims:
        dims = range(rank) if place is None else [place]
        for d in dims:
            found, count = found.unsqueeze(d), count.unsqueeze(d)
    return ModeResult(Array(found), Array(count))


_RANKS: dict[str, Any] = {
    "average": lambda new: (_first_places(new) + _last_places(new)) / 2 + 1,
    "min": lambda new: _first_places(new) + 1,
    "max": lambda new: _last_places(new) + 1,
    "dense": lambda new: new.cumsum(-1),
    "ordinal": lambda new: torch.arange(1, new.shape[-1] + 1, device=new.device).expand(new.shape),
}


def rankdata(a: ArrayLike, method: str = "average", *, axis: int | None = None, nan_policy: str = "propagate") -> Array:
    """Return the ranks of the elements along `axis` (None: of all, flattened), from 1.

    `method` gives equal elements the "average", "min" or "max" of their ranks, ranks without gaps ("dense"), or those in
    their order ("ordinal"). With a NaN among them all are NaN. `nan_policy` must be "propagate".
    """
    check_arraylike("rankdata", a)
    _check_policy("rankdata", nan_policy)
    if method not in _RANKS:
        raise ValueError(f"unknown method '{method}'")
    t = tensor("rankdata", a)
    place = canonical_axis(axis or 0, max(t.dim(), 1) if axis is None else t.dim())
    t = t.flatten() if axis is None else t.movedim(place, -1)
    values, order = sorted_with_order(t, -1)
    ranks = _RANKS[method](_beginnings(values)).to(float_dtype())
    ranks = torch.gather(ranks, -1, torch.argsort(order, -1))
    return Array(torch.where(_is_nan(t).any(-1, keepdim=True), math.nan, ranks).movedim(-1, place))


def sem(
    a: ArrayLike, axis: int | None = 0, ddof: int = 1, nan_policy: str = "propagate", *, keepdims: bool = False
) -> Array:
    """Return the standard error of the mean along `axis` (None: of all elements).

    The variance is the sum of squares divided by the count less `ddof`; `nan_policy` "omit" leaves NaN out.
    """
    (t,), weak = promote_inexact("sem", a)
    x = Array(t, weak)
    if nan_policy == "propagate":
        count = asarray(t.numel() if axis is None else t.shape[axis])
        spread = std(x, axis, ddof=ddof, keepdims=keepdims)
    elif nan_policy == "omit":
        count = array_sum(Array(~_is_nan(t)), axis, keepdims=keepdims)
        spread = nanstd(x, axis, ddof=ddof, keepdims=keepdims)
    else:
        raise ValueError(f"{nan_policy} is not supported")
    return spread / sqrt(count).astype(x.dtype)
