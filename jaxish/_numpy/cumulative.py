"""Running sums and products along an axis."""

from typing import Any

import torch
from torch import Tensor

from .._core import dtypes, narrow, unsigned
from .._core.array import Array
from .._core.dimensions import canonical_axis
from .._core.promotion import convert, tensor
from .._core.typing import ArrayLike, DTypeLike
from .._transforms.shown_calls import shown_as_jit
from .arguments import converted, int_dtype, no_out
from .reductions import promoted_integer, static_axis


def _running(
    function: str, operation: Any, a: Any, axis: Any, dtype: DTypeLike | None, promote: bool = False
) -> Tensor:
    t = tensor(function, a)
    axis = static_axis(axis)
    if axis is None:
        t, axis = t.flatten(), 0
    elif not t.dim() and not isinstance(a, Array):
        t = t.reshape(1)
    axis = canonical_axis(axis, t.dim())
    if dtype is None:
        result = promoted_integer(t.dtype) if promote or t.dtype is torch.bool else t.dtype
        computed = result
    else:
        result = dtypes.to_torch(dtypes.requested_dtype(dtype, function))
        computed = int_dtype() if result is torch.bool else result
        t = convert(t, torch.bool) if result is torch.bool else t
    return convert(operation(converted(t, computed), axis), result)


@shown_as_jit("axis", "dtype")
def cumsum(a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None) -> Array:
    """Return the running sums along `axis`; None flattens first. Integers keep their dtype."""
    no_out("cumsum", out)
    return Array(_running("cumsum", unsigned.cumsum, a, axis, dtype))


@shown_as_jit("axis", "dtype")
def cumprod(a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None) -> Array:
    """Return the running products along `axis`; None flattens first. Integers keep their dtype."""
    no_out("cumprod", out)
    return Array(_running("cumprod", unsigned.cumprod, a, axis, dtype))


def _without_nans(function: str, a: Any, filler: float) -> Array:
    t = tensor(function, a)
    if t.is_floating_point() or t.is_complex():
        t = torch.where(torch.isnan(t), filler, t)
    return Array(t)


@shown_as_jit("axis", "dtype")
def nancumsum(a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None) -> Array:
    """Return the running sums along `axis`, NaN counted as zero."""
    no_out("nancumsum", out)
    return cumsum(_without_nans("nancumsum", a, 0.0), axis, dtype)


@shown_as_jit("axis", "dtype")
def nancumprod(a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None) -> Array:
    """Return the running products along `axis`, NaN counted as one."""
    no_out("nancumprod", out)
    return cumprod(_without_nans("nancumprod", a, 1.0), axis, dtype)


def _cumulative(
    function: str, what: str, operation: Any, first: int, x: Any, axis: Any, dtype: DTypeLike | None, promote: bool,
    include_initial: bool,
) -> Array:  # fmt: skip
    t = tensor(function, x)
    if not t.dim():
        raise ValueError(f"The input must be non-scalar to take a cumulative {what}, however a scalar was given.")
    if axis is None and t.dim() > 1:
        raise ValueError(
            f"The input array has rank {t.dim()}, however axis was not set to an explicit value. The axis argument is "
            "only optional for one-dimensional arrays."
        )
    axis = canonical_axis(axis or 0, t.dim())
    found = _running(function, operation, x, axis, dtype, promote)
    if include_initial:
        shape = [1 if d == axis else n for d, n in enumerate(found.shape)]
        found = torch.cat([narrow.full(shape, first, found.dtype, found.device), found], axis)
    return Array(found)


def cumulative_sum(
    x: ArrayLike, /, *, axis: int | None = None, dtype: DTypeLike | None = None, include_initial: bool = False
) -> Array:
    """Return the running sums along `axis`, which only 1-d arrays may leave out; `include_initial` begins with 0."""
    return _cumulative("cumulative_sum", "sum", unsigned.cumsum, 0, x, axis, dtype, True, include_initial)


def cumulative_prod(
    x: ArrayLike, /, *, axis: int | None = None, dtype: DTypeLike | None = None, include_initial: bool = False
) -> Array:
    """Return the running products along `axis`, which only 1-d arrays may leave out; `include_initial` begins with 1."""
    return _cumulative("cumulative_prod", "product", unsigned.cumprod, 1, x, axis, dtype, False, include_initial)
