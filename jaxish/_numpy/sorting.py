"""Sorting, and the positions of extreme elements. NaN counts as larger than any number."""

import math
import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .._core import dtypes, unsigned
from .._core.array import Array, as_array, check_arraylike, device_of, is_weak
from .._core.dimensions import canonical_axis, static_int
from .._core.promotion import convert, tensor
from .._core.typing import ArrayLike, DTypeLike
from .._tensors.ordering import gathered, ordinals, sorted_with_order
from .._transforms.shown_calls import shown_as_jit
from .arguments import dtype_or, int_dtype, no_out
from .reductions import static_axis


def _axis_of(t: Tensor, axis: int | None) -> tuple[Tensor, int]:
    if axis is None:
        return t.flatten(), 0
    return t, canonical_axis(static_axis(axis), t.dim())


def _no_kind(kind: Any, order: Any, function: str) -> None:
    if kind is not None:
        raise TypeError(
            f"'kind' argument to {function} is not supported. Only stable=True or stable=False can be given."
        )
    if order is not None:
        raise TypeError(f"'order' argument to {function} is not supported: arrays have no fields.")


@shown_as_jit("axis", "kind", "order", "stable", "descending")
def sort(
    a: ArrayLike, axis: int | None = -1, *, kind: None = None, order: None = None, stable: bool = True,
    descending: bool = False,
) -> Array:  # fmt: skip
    """Return `a` sorted along `axis` (None: flattened). `stable` False allows what True does."""
    _no_kind(kind, order, "sort")
    t, axis = _axis_of(tensor("sort", a), axis)
    values = sorted_with_order(t, axis)[0]
    return Array(unsigned.flip(values, (axis,)) if descending else values, is_weak(a))


@shown_as_jit("axis", "kind", "order", "stable", "descending", "dtype")
def argsort(
    a: ArrayLike, axis: int | None = -1, *, kind: None = None, order: None = None, stable: bool = True,
    descending: bool = False, dtype: DTypeLike | None = None,
) -> Array:  # fmt: skip
    """Return the indices that sort `a` along `axis` (None: flattened)."""
    _no_kind(kind, order, "argsort")
    t, axis = _axis_of(tensor("argsort", a), axis)
    target = int_dtype() if dtype is None else dtype_or(dtype, "argsort", int)
    return Array(sorted_with_order(t.detach(), axis, descending)[1].to(target))


@shown_as_jit()
def sort_complex(a: ArrayLike) -> Array:
    """Return `a` sorted along its last axis, as complex numbers."""
    import numpy as np

    found = sort(a)
    target = dtypes.TO_TORCH[dtypes.to_complex(found.dtype if found.dtype.kind != "V" else np.dtype(np.float32))]
    return Array(convert(found._tensor, target))


@shown_as_jit("axis")
def lexsort(keys: Any, axis: int = -1) -> Array:
    """Return the indices that sort by several keys, the last one first in importance."""
    if not isinstance(keys, Sequence | Array) and not hasattr(keys, "shape"):
        raise TypeError(f"need sequence of keys with len > 0 in lexsort; got {keys!r}")
    rows = [as_array(k) for k in keys]
    if not rows:
        raise TypeError("need sequence of keys with len > 0 in lexsort")
    if len({r.shape for r in rows}) > 1:
        raise ValueError("all keys need to be the same shape")
    if not rows[0].ndim:
        return Array(torch.zeros((), dtype=int_dtype(), device=device_of(*rows)))
    axis = canonical_axis(axis, rows[0].ndim)
    order: Tensor | None = None
    for row in rows:
        t = tensor("lexsort", row).detach()
        if order is not None:
            places = order
            t = unsigned.via_bits(lambda x, places=places: torch.gather(x, axis, places), t)
        step = sorted_with_order(t, axis)[1]
        order = step if order is None else torch.gather(order, axis, step)
    assert order is not None
    return Array(order.to(int_dtype()))


def _partitioned(function: str, t: Tensor, kth: Any, axis: int) -> Sequence[Tensor]:
    """Return the positions of the k-th smallest element and those before it, and of the others, in the order of `top_k`."""
    kth = static_int(kth, "kth")
    if t.dtype is torch.bool:
        raise TypeError(f"{function} does not accept dtype bool. Use x.astype(int).")
    if t.is_complex():
        raise NotImplementedError(f"jnp.{function} for complex dtype is not implemented.")
    kth = canonical_axis(kth, t.shape[axis], "kth")
    order = sorted_with_order(ordinals(t.detach()), axis)[1]
    return order.split([kth + 1, t.shape[axis] - kth - 1], axis)


@shown_as_jit("kth", "axis")
def partition(a: ArrayLike, kth: int, axis: int = -1) -> Array:
    """Return `a` with the k-th smallest element in its sorted place, smaller ones before and larger ones behind it.

    Those before it ascend and those behind it descend, as in JAX.
    """
    t = tensor("partition", a)
    axis = canonical_axis(axis, t.dim())
    least, others = _partitioned("partition", t, kth, axis)
    return Array(gathered(t, axis, torch.cat([least, others.flip(axis)], axis)), is_weak(a))


@shown_as_jit("kth", "axis")
def argpartition(a: ArrayLike, kth: int, axis: int = -1) -> Array:
    """Return the indices that partition `a` around its k-th smallest element: those of larger ones ascend, as in JAX."""
    t = tensor("argpartition", a)
    axis = canonical_axis(axis, t.dim())
    least, others = _partitioned("argpartition", t, kth, axis)
    return Array(torch.cat([least, torch.sort(others, axis)[0]], axis).to(int_dtype()), is_weak(a))


# ------------------------------------------------------------------------------------------------ extreme elements


def _position(function: str, operation: Any, a: Any, axis: Any, keepdims: bool | None) -> Array:
    t = tensor(function, a)
    axis = None if axis is None else operator.index(axis)
    rank = t.dim()
    if axis is None:
        t, place = t.flatten().detach(), 0
    else:
        t, place = t.detach(), canonical_axis(axis, rank, error=IndexError)
    if not t.shape[place]:
        raise ValueError(f"attempt to get {function} of an empty sequence")
    if t.is_complex():
        raise TypeError(
            f"{function} does not accept complex numbers, which have no order. Use real or imaginary parts."
        )
    t = unsigned.ordered(t)
    if t.dtype is torch.bool:
        t = t.to(torch.uint8)
    found = operation(t, place).to(int_dtype())
    if keepdims:
        found = found.reshape((1,) * rank) if axis is None else found.unsqueeze(place)
    return Array(found)


def argmax(a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Array:
    """Return the position of the first largest element (or NaN) along `axis`; None: in the flattened array."""
    no_out("argmax", out)
    return _position("argmax", torch.argmax, a, axis, keepdims)


def argmin(a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Array:
    """Return the position of the first smallest element (or NaN) along `axis`; None: in the flattened array."""
    no_out("argmin", out)
    return _position("argmin", torch.argmin, a, axis, keepdims)


def _position_without_nans(
    function: str, operation: Any, worst: float, a: Any, axis: Any, keepdims: bool | None
) -> Array:
    check_arraylike(function, a)
    t = tensor(function, a)
    if not (t.is_floating_point() or t.is_complex()):
        return _position(function.removeprefix("nan"), operation, a, axis, keepdims)
    isnan = torch.isnan(t)
    found = _position(
        function.removeprefix("nan"), operation, Array(torch.where(isnan, worst, t)), axis, keepdims
    )._tensor
    if axis is None:
        nothing = torch.all(isnan)
    else:
        nothing = torch.all(isnan, canonical_axis(axis, t.dim()), bool(keepdims))
    return Array(torch.where(nothing, -1, found))


def nanargmax(a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Array:
    """Return the position of the first largest number along `axis`, -1 where all elements are NaN."""
    no_out("nanargmax", out)
    return _position_without_nans("nanargmax", torch.argmax, -math.inf, a, axis, keepdims)


def nanargmin(a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Array:
    """Return the position of the first smallest number along `axis`, -1 where all elements are NaN."""
    no_out("nanargmin", out)
    return _position_without_nans("nanargmin", torch.argmin, math.inf, a, axis, keepdims)
