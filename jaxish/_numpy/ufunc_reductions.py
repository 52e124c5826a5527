"""The `reduce` methods of ufuncs, in whole-array form."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .._core import dtypes, narrow
from .._core.array import Array
from .._core.dimensions import canonical_axes
from .._core.promotion import convert, promote_inexact, tensor
from .._core.typing import ArrayLike, DTypeLike
from .arguments import Axis
from .reductions import initial_value, kept_axes, mask_of, masked, max, min, static_axis, truth_of


def _folded(
    function: str, combine: Callable[..., Tensor], identity: Any, a: Any, axis: Any, dtype: Any, keepdims: bool,
    initial: Any, where: Any,
) -> Array:  # fmt: skip
    """Reduce with an associative function by halving: log2(n) calls on whole arrays."""
    t = tensor(function, a)
    axes = canonical_axes(static_axis(axis), t.dim())
    t = masked(t, mask_of(function, where), identity)
    if dtype is not None:
        t = convert(t, dtypes.to_torch(dtypes.requested_dtype(dtype, function)))
    rest = [n for i, n in enumerate(t.shape) if i not in axes]
    t = t.movedim(axes, tuple(range(len(axes)))).reshape(math.prod(t.shape[d] for d in axes), *rest)
    if not t.shape[0]:
        t = narrow.full((1, *rest), identity, t.dtype, t.device)
    while (n := t.shape[0]) > 1:
        half = n // 2
        combined = combine(t[:half], t[half : 2 * half])
        t = torch.cat([combined, t[2 * half :]]) if n % 2 else combined
    t = t[0]
    if initial is not None:
        t = combine(initial_value(initial, t), t)
    return Array(kept_axes(t, axes, keepdims))


def _integers_only(a: Any) -> None:
    dtype = tensor("reduce", a).dtype
    if dtype.is_floating_point or dtype.is_complex:
        raise ValueError(f"integer argument required; got dtype={dtypes.TO_NUMPY[dtype]}")


def reduce_max(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Array:
    """Return the largest element along `axis`, converted to `dtype` first."""
    return max(_converted("max", a, dtype), axis, None, keepdims, initial, where)


def reduce_min(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Array:
    """Return the smallest element along `axis`, converted to `dtype` first."""
    return min(_converted("min", a, dtype), axis, None, keepdims, initial, where)


def _converted(function: str, a: Any, dtype: DTypeLike | None) -> Any:
    if dtype is None:
        return a
    return Array(convert(tensor(function, a), dtypes.to_torch(dtypes.requested_dtype(dtype, function))))


def reduce_bitwise_and(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Array:
    """Return the bitwise and of the elements along `axis`. Raises `ValueError` for other than integers."""
    _integers_only(a)
    kind = tensor("reduce", a).dtype
    ones: Any = True if kind is torch.bool else -1 if kind.is_signed else dtypes.integer_bounds(kind).max
    return _folded("bitwise_and", torch.bitwise_and, ones, a, axis, dtype, keepdims, initial, where)


def reduce_bitwise_or(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Array:
    """Return the bitwise or of the elements along `axis`. Raises `ValueError` for other than integers."""
    _integers_only(a)
    return _folded("bitwise_or", torch.bitwise_or, 0, a, axis, dtype, keepdims, initial, where)


def reduce_bitwise_xor(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Array:
    """Return the bitwise exclusive or of the elements along `axis`. Raises `ValueError` for other than integers."""
    _integers_only(a)
    return _folded("bitwise_xor", torch.bitwise_xor, 0, a, axis, dtype, keepdims, initial, where)


def reduce_logical_and(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Array:
    """Tell whether all elements along `axis` are nonzero."""
    return _folded(
        "logical_and", torch.logical_and, True, Array(truth_of("all", a)), axis, dtype, keepdims, initial, where
    )


def reduce_logical_or(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Array:
    """Tell whether any element along `axis` is nonzero."""
    return _folded(
        "logical_or", torch.logical_or, False, Array(truth_of("any", a)), axis, dtype, keepdims, initial, where
    )


def reduce_logical_xor(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Array:
    """Tell whether the number of nonzero elements along `axis` is odd."""
    return _folded(
        "logical_xor", torch.logical_xor, False, Array(truth_of("any", a)), axis, dtype, keepdims, initial, where
    )


def reduce_logaddexp(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Array:
    """Return the logarithm of the sum of the exponentials along `axis`."""
    (t,), _ = promote_inexact("logsumexp", a)
    axes = canonical_axes(static_axis(axis), t.dim())
    t = masked(t, mask_of("logsumexp", where), -math.inf)
    found = torch.logsumexp(t, axes, keepdims) if axes else t
    if initial is not None:
        found = torch.logaddexp(initial_value(initial, t), found)
    return Array(found)


def reduce_logaddexp2(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Array:
    """Return the base-2 logarithm of the sum of the powers of two along `axis`."""
    (t,), _ = promote_inexact("logsumexp2", a)
    start = None if initial is None else Array(initial_value(initial, t) * math.log(2))
    natural = reduce_logaddexp(Array(t * math.log(2)), axis, dtype, keepdims, start, where)
    return Array(natural._tensor / math.log(2))
