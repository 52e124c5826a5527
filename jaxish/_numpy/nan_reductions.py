"""Reductions that leave NaN out. For integers and booleans they are the plain ones."""

import math
from typing import Any

import torch
from torch import Tensor

from .._core import dtypes, selection
from .._core.array import Array, check_arraylike
from .._core.dimensions import canonical_axes
from .._core.primitive import conjugate
from .._core.promotion import convert, promote, tensor
from .._core.typing import ArrayLike, DTypeLike
from .._transforms.repeated import compiled_when_repeated
from .._transforms.shown_calls import shown_as_jit
from . import reductions
from .arguments import Axis, no_out
from .reductions import mask_of, static_axis, sum_tensor


def _inexact(t: Tensor) -> bool:
    return t.is_floating_point() or t.is_complex()


def _replaced(t: Tensor, value: float) -> Array:
    return Array(selection.where(torch.isnan(t), torch.full((), value, dtype=t.dtype, device=t.device), t))


def _extremum(
    function: str, reduce: Any, worst: float, a: Any, axis: Any, keepdims: bool, initial: Any, where: Any
) -> Array:
    t = tensor(function, a)
    if not _inexact(t):
        return reduce(a, axis, None, keepdims, initial, where)
    found = reduce(_replaced(t, worst), axis, None, keepdims, initial, where)
    if initial is not None:
        return found
    nothing = reductions.all(Array(torch.isnan(t)), axis, None, keepdims)._tensor
    return Array(selection.where(nothing, math.nan, found._tensor))


@shown_as_jit("axis", "keepdims")
def nanmax(
    a: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False, initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """Return the largest number along `axis`, NaN where there is none; arguments as in `max`."""
    no_out("nanmax", out)
    return _extremum("nanmax", reductions.max, -math.inf, a, axis, keepdims, initial, where)


@shown_as_jit("axis", "keepdims")
def nanmin(
    a: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False, initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """Return the smallest number along `axis`, NaN where there is none; arguments as in `min`."""
    no_out("nanmin", out)
    return _extremum("nanmin", reductions.min, math.inf, a, axis, keepdims, initial, where)


@shown_as_jit("axis", "dtype", "keepdims")
def nansum(
    a: ArrayLike, axis: Axis = None, dtype: DTypeLike | None = None, out: None = None, keepdims: bool = False,
    initial: ArrayLike | None = None, where: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """Return the sum of the numbers along `axis`, NaN counted as zero; arguments as in `sum`."""
    no_out("nansum", out)
    t = tensor("nansum", a)
    return reductions.sum(_replaced(t, 0.0) if _inexact(t) else a, axis, dtype, None, keepdims, initial, where)


@shown_as_jit("axis", "dtype", "keepdims")
def nanprod(
    a: ArrayLike, axis: Axis = None, dtype: DTypeLike | None = None, out: None = None, keepdims: bool = False,
    initial: ArrayLike | None = None, where: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """Return the product of the numbers along `axis`, NaN counted as one; arguments as in `prod`."""
    no_out("nanprod", out)
    t = tensor("nanprod", a)
    return reductions.prod(_replaced(t, 1.0) if _inexact(t) else a, axis, dtype, None, keepdims, initial, where)


@shown_as_jit("axis", "dtype", "keepdims")
@compiled_when_repeated
def nanmean(
    a: ArrayLike, axis: Axis = None, dtype: DTypeLike | None = None, out: None = None, keepdims: bool = False,
    where: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """Return the mean of the numbers along `axis`, NaN where there is none; arguments as in `mean`."""
    no_out("nanmean", out)
    t = tensor("nanmean", a)
    if not _inexact(t):
        return reductions.mean(a, axis, dtype, None, keepdims, where=where)
    target = t.dtype if dtype is None else dtypes.to_torch(dtypes.requested_dtype(dtype, "mean"))
    name = dtypes.TO_NUMPY[target]
    count = reductions.sum(Array(~torch.isnan(t)), axis, name, keepdims=keepdims, where=where)
    return Array(nansum(a, axis, name, None, keepdims, where=where)._tensor / count._tensor)


@shown_as_jit("axis", "dtype", "keepdims")
@compiled_when_repeated
def nanvar(
    a: ArrayLike, axis: Axis = None, dtype: DTypeLike | None = None, out: None = None, ddof: int = 0, keepdims: bool = False,
    where: ArrayLike | None = None, mean: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """Return the variance of the numbers along `axis`, NaN where there are not more than `ddof`; see `var`."""
    no_out("nanvar", out)
    check_arraylike("nanvar", a)
    t = tensor("nanvar", a)
    if not _inexact(t):
        return reductions.var(a, axis, dtype, None, ddof, keepdims, where=where, mean=mean)
    mask = mask_of("nanvar", where)
    axes = canonical_axes(static_axis(axis), t.dim())
    result = t.dtype.to_real() if dtype is None else dtypes.to_torch(dtypes.requested_dtype(dtype, "nanvar"))
    if dtype is not None and t.is_complex() and not result.is_complex:
        raise ValueError(f"nanvar does not support the real dtype {dtypes.TO_NUMPY[result]} for complex values.")
    computed = t.dtype if dtype is None else result
    if computed.itemsize == 2:
        computed = torch.float32
    t = convert(t, computed)
    if mean is None:
        center = nanmean(Array(t), axis, keepdims=True, where=where)._tensor
    else:
        center = convert(tensor("nanvar", mean), computed)
    isnan = torch.isnan(t)
    deviation = selection.where(isnan, 0.0, t - center)
    squares = (deviation * conjugate(deviation)).real if t.is_complex() else torch.square(deviation)
    kept = ~isnan
    if mask is not None:
        mask = mask.broadcast_to(t.shape)
        kept, squares = kept & mask, selection.where(mask, squares, 0.0)
    (present, less), _ = promote("nanvar", Array(sum_tensor(kept.to(torch.int32), axes, keepdims)), ddof)
    count = present - less
    spread = sum_tensor(squares, axes, keepdims) / selection.where(count > 0, count, 1)
    return Array(convert(selection.where(count > 0, spread, math.nan), result))


@shown_as_jit("axis", "dtype", "keepdims")
@compiled_when_repeated
def nanstd(
    a: ArrayLike, axis: Axis = None, dtype: DTypeLike | None = None, out: None = None, ddof: int = 0, keepdims: bool = False,
    where: ArrayLike | None = None, mean: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """Return the square root of `nanvar` with the same arguments."""
    no_out("nanstd", out)
    return Array(torch.sqrt(nanvar(a, axis, dtype, None, ddof, keepdims, where, mean)._tensor))
