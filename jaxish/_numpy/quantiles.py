"""Quantiles, percentiles and medians, with and without NaN."""

import math
from typing import Any

import torch
from torch import Tensor

from .._core.array import Array, as_array, check_arraylike, device_of
from .._core.dimensions import canonical_axes
from .._core.promotion import promote_inexact, tensor
from .._core.typing import ArrayLike
from .._devices.shardings import NamedSharding, PartitionSpec
from .._lax.out_sharding import laid_over
from .._tensors.ordering import sorted_with_order
from .._transforms.repeated import compiled_when_repeated
from .._transforms.shown_calls import shown_as_jit

_METHODS = ("linear", "lower", "higher", "midpoint", "nearest", "inverted_cdf")


def _unsupported(function: str, out: None, overwrite_input: bool) -> None:
    if overwrite_input or out is not None:
        raise ValueError(f"jax.numpy.{function} does not support overwrite_input=True or out != None")


def _quantile(
    function: str, a: Any, q: Any, axis: Any, method: str, keepdims: bool, skip_nans: bool, weights: Any
) -> Array:
    if method not in _METHODS:
        raise ValueError(f"method can only be one of {', '.join(map(repr, _METHODS))}; got {method!r}")
    check_arraylike(function, a, q)
    levels = tensor(function, q, a)
    if weights is None:
        (t,), _ = promote_inexact(function, a)
        w = None
    else:
        if method != "inverted_cdf":
            raise NotImplementedError(f"{method} doesn't support weights. Only method 'inverted_cdf' supports weights.")
        if tensor(function, weights).is_complex():
            raise ValueError("Weights cannot be complex types.")
        (t, w), _ = promote_inexact(function, a, weights)
    if t.is_complex():
        raise ValueError("quantile does not support complex input, as the operation is poorly defined.")
    if levels.dim() > 1:
        raise ValueError(f"q must be have rank <= 1, got shape {tuple(levels.shape)}")
    axes = canonical_axes(axis, t.dim())
    if w is not None:
        w = _spread_weights(w, t, axes, axis is None)
    rank = t.dim()
    kept = [1 if d in axes else n for d, n in enumerate(t.shape)]
    t = _last(t, axes)
    w = None if w is None else _last(w, axes)
    if not levels.is_floating_point():
        levels = levels.to(torch.float32)
    found = _at_levels(t, levels, method, skip_nans, w)  # shape: levels, then the other axes
    if keepdims:
        found = found.reshape([*levels.shape, *(kept if rank else ())])
    return Array(found.to(t.dtype))


def _spread_weights(w: Tensor, t: Tensor, axes: tuple[int, ...], flat: bool) -> Tensor:
    if w.shape == t.shape:
        return w
    if flat:
        raise ValueError("Weights shape must match 'a' shape when axis is None.")
    if tuple(w.shape) != tuple(t.shape[d] for d in axes):
        raise ValueError(f"Weights shape {tuple(w.shape)} must match reduction axes {tuple(t.shape[d] for d in axes)}")
    order = sorted(range(len(axes)), key=lambda i: axes[i])
    w = w.permute(order)
    return w.reshape([n if d in axes else 1 for d, n in enumerate(t.shape)]).expand(t.shape)


def _last(t: Tensor, axes: tuple[int, ...]) -> Tensor:
    others = [d for d in range(t.dim()) if d not in axes]
    return t.permute([*others, *sorted(axes)]).reshape(
        [t.shape[d] for d in others] + [math.prod(t.shape[d] for d in axes)]
    )


def _at_levels(t: Tensor, levels: Tensor, method: str, skip_nans: bool, w: Tensor | None) -> Tensor:
    isnan = torch.isnan(t)
    if not skip_nans:
        t = torch.where(isnan.any(-1, keepdim=True), math.nan, t)
    ordered, order = sorted_with_order(t, -1)
    if w is not None:
        w = torch.gather(w, -1, order)
    count = t.shape[-1]
    if not count:
        raise TypeError("quantile of no elements: the axis has size 0.")
    if method == "inverted_cdf":
        return _inverted_cdf(ordered, levels, skip_nans, w)
    places = levels.reshape([*levels.shape, *[1] * (t.dim() - 1)])
    if skip_nans:
        last = (count - isnan.sum(-1)).to(places.dtype) - 1
    else:
        last = torch.full(t.shape[:-1], count - 1, dtype=places.dtype, device=t.device)
    places = places * last
    low, high = torch.floor(places), torch.ceil(places)
    high_part = places - low
    low_part = 1 - high_part

    def pick(where: Tensor) -> Tensor:
        where = (
            torch.maximum(torch.zeros_like(where), torch.minimum(where, last))
            .to(torch.int64)
            .clamp(0, max(count - 1, 0))
        )
        return _take_last(ordered, where, levels.dim())

    if method == "lower":
        return pick(low)
    if method == "higher":
        return pick(high)
    if method == "nearest":
        return torch.where(high_part <= 0.5, pick(low), pick(high))
    if method == "midpoint":
        return (pick(low) + pick(high)) * 0.5
    return pick(low).to(places.dtype) * low_part + pick(high).to(places.dtype) * high_part


def _take_last(ordered: Tensor, where: Tensor, extra: int) -> Tensor:
    """Return elements of the last axis of `ordered`; `where` has `extra` more leading dimensions than the others."""
    if not extra:
        return torch.gather(ordered, -1, where.unsqueeze(-1)).squeeze(-1)
    found = torch.gather(ordered, -1, where.movedim(0, -1))
    return found.movedim(-1, 0)


def _inverted_cdf(ordered: Tensor, levels: Tensor, skip_nans: bool, w: Tensor | None) -> Tensor:
    w = torch.ones_like(ordered) if w is None else w
    isnan = torch.isnan(ordered)
    bad = (w < 0) | torch.isnan(w)
    sums = torch.cumsum(torch.where(bad | isnan, 0.0, w), -1)
    target = levels.reshape([*levels.shape, *[1] * (ordered.dim() - 1)]) * sums[..., -1]
    where = (sums < target.unsqueeze(-1)).sum(-1)
    valid = (~isnan).sum(-1) if skip_nans else torch.full(isnan.shape[:-1], ordered.shape[-1], device=ordered.device)
    where = torch.maximum(torch.zeros_like(where), torch.minimum(where, valid - 1)).clamp(min=0)
    found = _take_last(ordered, where, levels.dim())
    nothing = (valid == 0) if skip_nans else isnan.any(-1)
    return torch.where(nothing | bad.any(-1), math.nan, found)


@shown_as_jit("axis", "overwrite_input", "keepdims", "method")
@compiled_when_repeated
def quantile(
    a: ArrayLike, q: ArrayLike, axis: int | tuple[int, ...] | None = None, out: None = None,
    overwrite_input: bool = False, method: str = "linear", keepdims: bool = False, *, weights: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """Return the q-th quantiles (q in [0, 1], a scalar or vector) along `axis` (None: of all elements).

    `method` says what is taken between two elements; "inverted_cdf" takes `weights`. NaN where an element is NaN.
    """
    _unsupported("quantile", out, overwrite_input)
    return _quantile("quantile", a, q, axis, method, keepdims, False, weights)


@shown_as_jit("axis", "overwrite_input", "keepdims", "method")
@compiled_when_repeated
def nanquantile(
    a: ArrayLike, q: ArrayLike, axis: int | tuple[int, ...] | None = None, out: None = None,
    overwrite_input: bool = False, method: str = "linear", keepdims: bool = False, *, weights: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """Return the q-th quantiles of the elements that are not NaN; arguments as in `quantile`."""
    _unsupported("nanquantile", out, overwrite_input)
    return _quantile("nanquantile", a, q, axis, method, keepdims, True, weights)


def _percent(function: str, q: Any, a: Any) -> Array:
    (levels,), _ = promote_inexact(function, as_array(q, device_of(q, a)))
    return Array(levels / 100)


@shown_as_jit("axis", "overwrite_input", "keepdims", "method", "out_sharding")
@compiled_when_repeated
def percentile(
    a: ArrayLike, q: ArrayLike, axis: int | tuple[int, ...] | None = None, out: None = None,
    overwrite_input: bool = False, method: str = "linear", keepdims: bool = False, *, weights: ArrayLike | None = None,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:  # fmt: skip
    """Return the q-th percentiles (q in [0, 100]); arguments as in `quantile`."""
    if out_sharding is not None:
        return laid_over(
            out_sharding, "percentile", percentile(a, q, axis, out, overwrite_input, method, keepdims, weights=weights)
        )
    _unsupported("quantile", out, overwrite_input)
    return _quantile("percentile", a, _percent("percentile", q, a), axis, method, keepdims, False, weights)


@shown_as_jit("axis", "overwrite_input", "keepdims", "method")
@compiled_when_repeated
def nanpercentile(
    a: ArrayLike, q: ArrayLike, axis: int | tuple[int, ...] | None = None, out: None = None,
    overwrite_input: bool = False, method: str = "linear", keepdims: bool = False, *, weights: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """Return the q-th percentiles of the elements that are not NaN; arguments as in `quantile`."""
    _unsupported("nanquantile", out, overwrite_input)
    return _quantile("nanpercentile", a, _percent("nanpercentile", q, a), axis, method, keepdims, True, weights)


@shown_as_jit("axis", "overwrite_input", "keepdims")
@compiled_when_repeated
def median(
    a: ArrayLike, axis: int | tuple[int, ...] | None = None, out: None = None, overwrite_input: bool = False,
    keepdims: bool = False,
) -> Array:  # fmt: skip
    """Return the median along `axis` (None: of all elements), NaN where an element is NaN."""
    _unsupported("quantile", out, overwrite_input)
    return _quantile("median", a, 0.5, axis, "midpoint", keepdims, False, None)


@shown_as_jit("axis", "overwrite_input", "keepdims")
@compiled_when_repeated
def nanmedian(
    a: ArrayLike, axis: int | tuple[int, ...] | None = None, out: None = None, overwrite_input: bool = False,
    keepdims: bool = False,
) -> Array:  # fmt: skip
    """Return the median of the elements that are not NaN; arguments as in `median`."""
    _unsupported("nanquantile", out, overwrite_input)
    return _quantile("nanmedian", a, 0.5, axis, "midpoint", keepdims, True, None)
