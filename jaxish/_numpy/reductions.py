"""Sums, products, extrema and the like along axes. Results are never weakly typed."""

import builtins
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._core import dtypes, narrow, unsigned
from .._core.array import Array, check_arraylike, tensor_of
from .._core.dimensions import canonical_axes, canonical_axis, expanded, several, static_int
from .._core.primitive import conjugate
from .._core.promotion import convert, promote_inexact, tensor
from .._core.typing import ArrayLike, DTypeLike
from .._lax import parallel
from .._tensors import ordering
from .._tensors.arithmetic import square
from .._transforms.repeated import compiled_when_repeated
from .._transforms.shown_calls import shown_as_jit
from .arguments import Axis, converted, int_dtype, no_out, selected
from .choosing import chosen

_Reducer = Callable[[Tensor, tuple[int, ...], tuple[str, ...], bool], Tensor]


def static_axis(axis: Any) -> Any:
    """Return None, an int or a tuple of ints and names; raise where an axis is neither a concrete integer nor a name.

    A string is several names, of a letter each, as it is for JAX.
    """
    if axis is None or type(axis) is int:
        return axis
    if several(axis):
        return tuple(a if isinstance(a, str) else static_int(a, "The axis argument") for a in axis)
    if isinstance(axis, float):
        raise TypeError(f"The axis argument must be an integer or a sequence of integers; got {axis!r}.")
    return static_int(axis, "The axis argument")


def axes_and_names(
    axis: Any, ndim: int, error: type[Exception] = ValueError
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return the axes in an `axis` argument, and the names: of axes that are mapped over (`vmap(axis_name=)`)."""
    if axis is None:
        return tuple(range(ndim)), ()
    if type(axis) is int:
        return (canonical_axis(axis, ndim, error=error),), ()
    axis = static_axis(axis)
    if type(axis) is int or str not in map(type, axis):
        return canonical_axes(axis, ndim, error=error), ()
    names = tuple(a for a in axis if isinstance(a, str))
    if len(set(names)) != len(names):
        raise ValueError(f"duplicate value in 'axis': {axis} has a repeated axis.")
    return canonical_axes([a for a in axis if not isinstance(a, str)], ndim, error=error), names


def axes_without_names(function: str, axis: Any, ndim: int) -> tuple[int, ...]:
    """Return the axes in an `axis` argument. `NotImplementedError`, as in JAX, for names."""
    axes, names = axes_and_names(axis, ndim)
    if names:
        raise _no_names(function)
    return axes


def _no_names(function: str) -> NotImplementedError:
    return NotImplementedError(
        f"jnp.{function} does not reduce along named axes: gather them into an axis first (jax.lax.all_gather)."
    )


def mask_of(function: str, where: Any) -> Tensor | None:
    """Return the `where` argument as a boolean tensor. Raises `ValueError` for other dtypes."""
    if where is None:
        return None
    mask = tensor(function, where)
    if mask.dtype is not torch.bool:
        raise ValueError(
            f"jnp.{function}: where must be None or a boolean array; got where.dtype={dtypes.TO_NUMPY[mask.dtype]}."
        )
    return mask


def masked(a: Tensor, mask: Tensor | None, other: Any) -> Tensor:
    """Return `a` with `other` where the mask, if any, is False."""
    if mask is None:
        return a
    filler = narrow.full((), other, a.dtype, a.device)
    return selected(mask, a, filler)


def initial_value(value: Any, like: Tensor) -> Tensor:
    """Return an `initial` argument as a scalar tensor of the dtype of `like` and beside it.

    Raises `ValueError` for other shapes.
    """
    found = tensor("initial", value, Array(like))
    if found.dim():
        raise ValueError(f"initial value must be a scalar. Got array of shape {tuple(found.shape)}")
    return convert(found, like.dtype)


def kept_axes(t: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    """Return a reduced tensor with its axes put back in size one, if wanted."""
    if keepdims:
        for axis in sorted(axes):
            t = t.unsqueeze(axis)
    return t


# -------------------------------------------------------------------------------------- reductions of plain tensors


def sum_tensor(a: Tensor, axes: tuple[int, ...], keepdims: bool = False) -> Tensor:
    """Return the sum along `axes` in the dtype of `a`."""
    return unsigned.sum(a, axes, bool(keepdims))


def sum_along(a: Tensor, axes: tuple[int, ...], names: tuple[str, ...], keepdims: bool = False) -> Tensor:
    """Return the sum along `axes` and those of `names` in the dtype of `a`."""
    found = sum_tensor(a, axes, keepdims)
    return tensor_of(parallel.psum(Array(found), names)) if names else found


def prod_tensor(a: Tensor, axes: tuple[int, ...], keepdims: bool = False) -> Tensor:
    """Return the product along `axes` in the dtype of `a`."""
    for axis in sorted(axes, reverse=True):
        a = unsigned.prod(a, axis, keepdims)
    return a


def _product(a: Tensor, axes: tuple[int, ...], names: tuple[str, ...], keepdims: bool) -> Tensor:
    if names:
        raise _no_names("prod")
    return prod_tensor(a, axes, keepdims)


def _nothing_left(a: Tensor, axes: tuple[int, ...]) -> bool:
    return builtins.any(a.shape[d] == 0 for d in axes)


def _extremum(function: str, greatest: bool, a: Any, axis: Any, keepdims: bool, initial: Any, where: Any) -> Array:
    t = tensor(function, a)
    mask = mask_of(function, where)
    if initial is None and mask is not None:
        raise ValueError(
            f"reduction operation {function} does not have an identity, so to use a where mask one has to specify "
            "'initial'"
        )
    (axes, names), keepdims = axes_and_names(axis, t.dim()), bool(keepdims)
    empty = _nothing_left(t, axes)
    if empty and initial is None:
        raise ValueError(f"zero-size array to reduction operation {function} which has no identity")
    if initial is None:
        return Array(extremum_along(t, axes, names, greatest, keepdims))
    start = initial_value(initial, t)
    t = masked(t, mask, _last_choice(t.dtype, greatest))
    if empty:
        sizes = [n if i not in axes else 1 for i, n in enumerate(t.shape) if keepdims or i not in axes]
        return Array(start.expand(sizes))
    combine = ordering.maximum if greatest else ordering.minimum
    return Array(combine(start, extremum_along(t, axes, names, greatest, keepdims)))


def _last_choice(dtype: torch.dtype, greatest: bool) -> Any:
    """Return a number that no element loses against: most narrow floats have no infinities."""
    found = ordering.lowest(dtype) if greatest else ordering.highest(dtype)
    if dtype not in dtypes.NARROW or np.asarray(found).astype(dtypes.TO_NUMPY[dtype]) == found:
        return found
    bounds = dtypes.finfo(dtypes.TO_NUMPY[dtype])
    return float(bounds.min if greatest else bounds.max)


def extremum_along(t: Tensor, axes: tuple[int, ...], names: tuple[str, ...], greatest: bool, keepdims: bool) -> Tensor:
    """Return the greatest or least elements along `axes` and those of `names`."""
    found = ordering.extremum(t, axes, greatest, keepdims)
    return tensor_of((parallel.pmax if greatest else parallel.pmin)(Array(found), names)) if names else found


def promoted_integer(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype in which sums and products of `dtype` are made: small integers become the default ones."""
    if dtype is torch.bool:
        return int_dtype()
    if dtypes.is_inexact_tensor(dtype):
        return dtype
    default = int_dtype() if dtype.is_signed else dtypes.TO_TORCH[dtypes.canonicalize_dtype(np.uint64)]
    return default if dtype.itemsize < default.itemsize else dtype


def _additive(
    function: str, reduce: _Reducer, combine: Callable[..., Tensor], identity: int, a: Any, axis: Any,
    dtype: DTypeLike | None,
    keepdims: bool, initial: Any, where: Any, promote_integers: bool,
) -> Array:  # fmt: skip
    t = tensor(function, a)
    mask = mask_of(function, where)
    axes, names = axes_and_names(axis, t.dim())
    if dtype is not None:
        result = dtypes.to_torch(dtypes.requested_dtype(dtype, function))
    elif promote_integers:
        result = promoted_integer(t.dtype)
    else:
        result = int_dtype() if t.dtype is torch.bool else t.dtype
    is_half = dtype is None and result.itemsize == 2 and result.is_floating_point
    t = converted(t, torch.float32 if is_half else result)
    t = reduce(masked(t, mask, identity), axes, names, bool(keepdims))
    if initial is not None:
        t = combine(initial_value(initial, t), t)
    return Array(convert(t, result))


def sum(
    a: ArrayLike, axis: Axis = None, dtype: DTypeLike | None = None, out: None = None, keepdims: bool = False,
    initial: ArrayLike | None = None, where: ArrayLike | None = None, promote_integers: bool = True,
) -> Array:  # fmt: skip
    """Return the sum of the elements along `axis` (None: of all).

    Small integers are summed as default integers unless `promote_integers` is False. `initial` is added; elements
    where `where` is False are left out.
    """
    if type(a) is Array and dtype is None and initial is None and where is None and out is None:
        source = a._tensor.dtype
        if source is torch.float32 and (axis is None or type(axis) is int):
            return Array(_float_sum(a, axis, keepdims))
    no_out("sum", out)
    return _additive(
        "sum", sum_along, unsigned.add, 0, a, axis, dtype, keepdims, initial, where,
        promote_integers,
    )  # fmt: skip


def _float_sum(a: Array, axis: int | None, keepdims: bool) -> Tensor:
    t = tensor("sum", a)
    if axis is None:
        return torch.sum(t, tuple(range(t.dim())), True) if keepdims else torch.sum(t)
    axis = canonical_axis(axis, t.dim())
    return torch.sum(t, axis, bool(keepdims))


def prod(
    a: ArrayLike, axis: Axis = None, dtype: DTypeLike | None = None, out: None = None, keepdims: bool = False,
    initial: ArrayLike | None = None, where: ArrayLike | None = None, promote_integers: bool = True,
) -> Array:  # fmt: skip
    """Return the product of the elements along `axis` (None: of all); dtypes and options as in `sum`."""
    no_out("prod", out)
    return _additive("prod", _product, unsigned.mul, 1, a, axis, dtype, keepdims, initial, where, promote_integers)


def max(
    a: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False, initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """Return the largest element along `axis` (None: of all), NaN where there is one.

    Raises `ValueError` for no elements without `initial`, and for `where` without `initial`.
    """
    no_out("max", out)
    return _extremum("max", True, a, axis, keepdims, initial, where)


def min(
    a: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False, initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """Return the smallest element along `axis` (None: of all), NaN where there is one.

    Raises `ValueError` for no elements without `initial`, and for `where` without `initial`.
    """
    no_out("min", out)
    return _extremum("min", False, a, axis, keepdims, initial, where)


def amax(
    a: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False, initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """Return the largest element along `axis`; see `max`."""
    return max(a, axis, out, keepdims, initial, where)


def amin(
    a: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False, initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """Return the smallest element along `axis`; see `min`."""
    return min(a, axis, out, keepdims, initial, where)


def truth_of(function: str, a: Any) -> Tensor:
    """Return where `a` is nonzero; of complex numbers the real part counts."""
    t = tensor(function, a)
    return convert(t.real if t.is_complex() else t, torch.bool)


def all(
    a: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False, *, where: ArrayLike | None = None
) -> Array:
    """Tell whether all elements along `axis` (None: all elements) are nonzero."""
    no_out("all", out)
    t = truth_of("all", a)
    axes = axes_without_names("all", axis, t.dim())
    t = masked(t, mask_of("all", where), True)
    return Array(torch.all(t, axes, bool(keepdims)) if axes else t)


def any(
    a: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False, *, where: ArrayLike | None = None
) -> Array:
    """Tell whether any element along `axis` (None: any element) is nonzero."""
    no_out("any", out)
    t = truth_of("any", a)
    axes = axes_without_names("any", axis, t.dim())
    t = masked(t, mask_of("any", where), False)
    return Array(torch.any(t, axes, bool(keepdims)) if axes else t)


def axes_count(shape: Sequence[int], axes: tuple[int, ...], names: tuple[str, ...] = ()) -> int:
    """Return how many elements there are along `axes` and named axes."""
    return math.prod(shape[d] for d in axes) * math.prod(map(parallel.axis_size, names))


def _mean_tensor(
    t: Tensor, axes: tuple[int, ...], names: tuple[str, ...], keepdims: bool, mask: Tensor | None
) -> Tensor:
    is_inexact = dtypes.is_inexact_tensor(t.dtype)
    if mask is None and is_inexact and not names:
        return torch.mean(t, axes, keepdims) if axes else t
    count = _count(t, axes, names, keepdims, mask, t.dtype)
    found = sum_along(masked(t, mask, 0), axes, names, keepdims)
    return found / count if is_inexact or mask is not None else torch.div(found, count, rounding_mode="trunc")


def _count(
    t: Tensor, axes: tuple[int, ...], names: tuple[str, ...], keepdims: bool, mask: Tensor | None, dtype: torch.dtype
) -> Any:
    """Return how many elements are counted: a number where there is no mask."""
    if mask is None:
        return axes_count(t.shape, axes, names)
    return sum_along(expanded(mask, tuple(t.shape)).to(dtype), axes, names, keepdims)


def _upcast(dtype: torch.dtype) -> torch.dtype:
    return torch.float32 if dtype.itemsize == 2 and dtype.is_floating_point else dtype


def _inexact(dtype: torch.dtype) -> torch.dtype:
    return dtypes.to_torch(dtypes.to_inexact(dtypes.TO_NUMPY[dtype]))


def mean(
    a: ArrayLike, axis: Axis = None, dtype: DTypeLike | None = None, out: None = None, keepdims: bool = False, *,
    where: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """Return the mean of the elements along `axis` (None: of all); half precision is computed in float32."""
    no_out("mean", out)
    t = tensor("mean", a)
    mask = mask_of("mean", where)
    axes, names = axes_and_names(axis, t.dim(), error=IndexError)
    if dtype is None:
        result = _inexact(t.dtype)
        computed = _upcast(result)
    else:
        result = computed = dtypes.to_torch(dtypes.requested_dtype(dtype, "mean"))
        if result is torch.bool:
            raise TypeError("jnp.mean does not accept dtype bool. Use an integer or floating dtype.")
    return Array(convert(_mean_tensor(converted(t, computed), axes, names, bool(keepdims), mask), result))


def average(
    a: ArrayLike, axis: Axis = None, weights: ArrayLike | None = None, returned: bool = False, keepdims: bool = False
) -> Array | tuple[Array, Array]:
    """Return the mean along `axis` weighted by `weights` (of a's shape, or of its sizes along `axis`).

    With `returned`, return the sum of the weights too. Raises `ValueError` for shapes that do not fit.
    """
    axis = static_axis(axis)
    if weights is None:
        (t,), _ = promote_inexact("average", a)
        axes = canonical_axes(axis, t.dim())
        found = mean(Array(t), axis, keepdims=keepdims)
        total = torch.full((), axes_count(t.shape, axes), dtype=found._tensor.dtype, device=t.device)
    else:
        check_arraylike("average", a, weights)
        (t, w), _ = promote_inexact("average", a, weights)
        axes = canonical_axes(axis, t.dim())
        if t.shape != w.shape:
            if axis is None:
                raise ValueError("Axis must be specified when shapes of a and weights differ.")
            if tuple(w.shape) != tuple(t.shape[d] for d in axes):
                raise ValueError("Shape of weights must be consistent with shape of a along specified axis.")
            order = [int(i) for i in np.argsort(axes)]
            w = w.permute(order).reshape([n if i in axes else 1 for i, n in enumerate(t.shape)])
        # Half precision is summed in float32, one product at a time.
        total = sum_tensor(w, axes, keepdims)
        found = Array(sum_tensor(t * w, axes, keepdims) / total)
    if not returned:
        return found
    return found, Array(total.broadcast_to(found.shape))


@compiled_when_repeated
def var(
    a: ArrayLike, axis: Axis = None, dtype: DTypeLike | None = None, out: None = None, ddof: int = 0, keepdims: bool = False,
    *, where: ArrayLike | None = None, mean: ArrayLike | None = None, correction: int | float | None = None,
) -> Array:  # fmt: skip
    """Return the variance along `axis` (None: of all): squared deviations over the count less `ddof`.

    `correction` is another name of `ddof`. A known `mean` (with its axes kept) may be given. NaN where the count is not above `ddof`.
    """
    no_out("var", out)
    less, axis, keepdims = _correction(ddof, correction), static_axis(axis), bool(keepdims)
    return _var(a, axis=axis, dtype=dtype, keepdims=keepdims, correction=less, where=where, a_mean=mean)


def _correction(ddof: Any, correction: Any) -> Any:
    """Return what is taken from the count, whichever of its names it was given by."""
    if correction is None:
        return ddof
    if not isinstance(ddof, int) or ddof != 0:
        raise ValueError("ddof and correction can't be provided simultaneously.")
    return correction


@shown_as_jit("axis", "dtype", "keepdims")
def _var(
    a: ArrayLike, *, axis: Axis, dtype: DTypeLike | None, keepdims: bool, correction: ArrayLike, where: ArrayLike | None,
    a_mean: ArrayLike | None,
) -> Array:  # fmt: skip
    t = tensor("var", a)
    mask = mask_of("var", where)
    axes, names = axes_and_names(axis, t.dim(), error=IndexError)
    computed, result = _dtypes_of_var(t.dtype, dtype)
    t = convert(t, computed)
    center = _mean_tensor(t, axes, names, True, mask) if a_mean is None else convert(tensor("var", a_mean), computed)
    deviation = t - center
    squares = (deviation * conjugate(deviation)).real if t.is_complex() else square(deviation)
    count = _degrees(_count(t, axes, names, keepdims, mask, squares.dtype), correction, squares.dtype)
    spread = sum_along(masked(squares, mask, 0), axes, names, keepdims)
    is_known = not isinstance(count, Tensor) and dtypes.is_inexact_tensor(result)
    if is_known and count <= 0:
        return Array(convert(spread * math.nan, result))
    found = Array(convert(spread / count, result))
    return found if is_known else chosen(Array(count > 0) if isinstance(count, Tensor) else count > 0, found, math.nan)


def _dtypes_of_var(source: torch.dtype, dtype: DTypeLike | None) -> tuple[torch.dtype, torch.dtype]:
    """Return the dtypes that a variance is computed in and has."""
    if dtype is None:
        return _upcast(_inexact(source)), source.to_real() if source.is_complex else _inexact(source)
    result = dtypes.to_torch(dtypes.requested_dtype(dtype, "var"))
    if result is torch.bool:
        raise TypeError("jnp.var does not accept dtype bool. Use an integer or floating dtype.")
    if source.is_complex and not result.is_complex:
        raise ValueError(
            f"jax.numpy.var does not support the real dtype {dtypes.TO_NUMPY[result]} for complex values. "
            "Take the variance of the real and imaginary parts."
        )
    return _upcast(result), result


def _degrees(count: Any, correction: Any, dtype: torch.dtype) -> Any:
    """Return the count of a variance's elements less the correction: a number where both are."""
    is_number = isinstance(correction, int | float | np.generic)
    return count - (correction if is_number else convert(tensor("var", correction), dtype))


@compiled_when_repeated
def std(
    a: ArrayLike, axis: Axis = None, dtype: DTypeLike | None = None, out: None = None, ddof: int = 0, keepdims: bool = False,
    *, where: ArrayLike | None = None, mean: ArrayLike | None = None, correction: int | float | None = None,
) -> Array:  # fmt: skip
    """Return the standard deviation along `axis`: the square root of `var` with the same arguments."""
    no_out("std", out)
    if dtype is not None and not dtypes.is_inexact(dtypes.dtype_of(dtype)):
        raise ValueError(f"dtype argument to jnp.std must be inexact; got {dtypes.dtype_of(dtype)}.")
    less, axis, keepdims = _correction(ddof, correction), static_axis(axis), bool(keepdims)
    return _std(a, axis=axis, dtype=dtype, keepdims=keepdims, correction=less, where=where, mean=mean)


@shown_as_jit("axis", "dtype", "keepdims")
def _std(a: ArrayLike, *, mean: ArrayLike | None, **how: Any) -> Array:
    return Array(torch.sqrt(tensor_of(_var(a, a_mean=mean, **how))))


def ptp(a: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False) -> Array:
    """Return the largest less the smallest element along `axis` (None: of all)."""
    no_out("ptp", out)
    check_arraylike("ptp", a)
    largest, smallest = max(a, axis, None, keepdims)._tensor, min(a, axis, None, keepdims)._tensor
    if largest.dtype is torch.bool:
        raise TypeError("ptp does not accept dtype bool.")
    return Array(unsigned.sub(largest, smallest))


@shown_as_jit("axis", "keepdims")
def count_nonzero(a: ArrayLike, axis: Axis = None, keepdims: bool = False) -> Array:
    """Return how many elements along `axis` (None: of all) are nonzero."""
    t = tensor("count_nonzero", a)
    return sum(Array(convert(t, torch.bool)), axis, keepdims=keepdims)
