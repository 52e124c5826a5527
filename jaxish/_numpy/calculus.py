"""Differences, gradients, integrals, interpolation and convolution of sampled functions."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from .._core import functorch, unsigned
from .._core.array import Array, as_array, check_arraylike, is_weak, tensor_of
from .._core.dimensions import canonical_axes, canonical_axis, static_int
from .._core.primitive import conjugate
from .._core.promotion import convert, promote, promote_inexact, tensor
from .._core.torch_modes import in_own_dtypes
from .._core.typing import ArrayLike, DTypeLike
from .._transforms.repeated import compiled_when_repeated
from .._transforms.shown_calls import shown_as_jit
from .contractions import operands
from .cumulative import cumsum
from .joining import concatenate
from .searching import places_in
from .selection import where
from .ufuncs import absolute, remainder


@shown_as_jit("n", "axis")
def diff(
    a: ArrayLike, n: int = 1, axis: int = -1, prepend: ArrayLike | None = None, append: ArrayLike | None = None
) -> Array:
    """Return the n-th differences of neighbours along `axis`, with values put before and behind if given.

    Differences of booleans tell where neighbours differ.
    """
    source = Array(tensor("diff", a), is_weak(a))
    n = static_int(n, "'n' argument of jnp.diff")
    if not n:
        return source
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n}")
    if not source.ndim:
        raise ValueError(f"diff requires input that is at least one dimensional; got {a}")
    axis = canonical_axis(axis, source.ndim)
    parts: list[Any] = [source]
    for extra, place in ((prepend, 0), (append, len(parts) + 1)):
        if extra is not None:
            check_arraylike("diff", extra)
            e = Array(tensor("diff", extra), is_weak(extra))
            if not e.ndim:
                sizes = [1 if d == axis else m for d, m in enumerate(source.shape)]
                e = Array(tensor_of(e).broadcast_to(sizes), e._weak)
            parts.insert(place, e)
    joined = concatenate(parts, axis) if len(parts) > 1 else source
    t = tensor_of(joined)
    for _ in range(n):
        ahead, behind = (
            t.narrow(axis, 1, max(t.shape[axis] - 1, 0)) if t.shape[axis] else t,
            t.narrow(axis, 0, max(t.shape[axis] - 1, 0)),
        )
        t = ahead != behind if t.dtype is torch.bool else unsigned.sub(ahead, behind)
    return Array(t, joined._weak)


@shown_as_jit()
def ediff1d(ary: ArrayLike, to_end: ArrayLike | None = None, to_begin: ArrayLike | None = None) -> Array:
    """Return the differences of neighbours in the flattened array, with values put before and behind if given."""
    t = tensor("ediff1d", ary).flatten()
    if t.dtype is torch.bool:
        raise TypeError("ediff1d does not accept dtype bool. Use jnp.diff.")
    found = unsigned.sub(t[1:], t[:-1])
    parts = [found]
    if to_begin is not None:
        parts.insert(0, convert(tensor("ediff1d", to_begin), t.dtype).flatten())
    if to_end is not None:
        parts.append(convert(tensor("ediff1d", to_end), t.dtype).flatten())
    return Array(torch.cat(parts) if len(parts) > 1 else found, is_weak(ary))


@shown_as_jit("axis", "edge_order")
@compiled_when_repeated
def gradient(
    f: ArrayLike, *varargs: ArrayLike, axis: int | Sequence[int] | None = None, edge_order: int | None = None
) -> Array | list[Array]:
    """Return the central differences of `f` along `axis` (None: a list, for all axes), one-sided at the edges.

    The spacing is 1, a number, or per axis a number or the coordinates. Raises `ValueError` for fewer than two points.
    """
    if edge_order is not None:
        raise NotImplementedError("The 'edge_order' argument to jnp.gradient is not supported.")
    (t, *spacing), weak = promote_inexact("gradient", f, *varargs)
    axes = canonical_axes(axis, t.dim())
    if not axes:
        return []
    if min(t.shape[d] for d in axes) < 2:
        raise ValueError(
            "Shape of array too small to calculate a numerical gradient, at least 2 elements are required."
        )
    if not spacing:
        steps: list[Any] = [1.0] * len(axes)
    elif len(spacing) == 1:
        steps = spacing * len(axes)
    elif len(spacing) == len(axes):
        steps = spacing
    else:
        raise TypeError(f"Invalid number of spacing arguments {len(spacing)} for axis={axis!r}")
    found = [Array(_gradient_along(t, h, d), weak) for h, d in zip(steps, axes, strict=True)]
    return found[0] if len(axes) == 1 else found


def _gradient_along(t: torch.Tensor, h: Any, axis: int) -> torch.Tensor:
    n = t.shape[axis]
    steps = t.narrow(axis, 1, n - 1) - t.narrow(axis, 0, n - 1)
    if not isinstance(h, torch.Tensor) or not h.dim():
        inner = (t.narrow(axis, 2, n - 2) - t.narrow(axis, 0, n - 2)) * 0.5 / h
        return torch.cat([steps.narrow(axis, 0, 1) / h, inner, steps.narrow(axis, n - 2, 1) / h], axis)
    if h.dim() != 1:
        raise ValueError("Spacing arrays must be 1D arrays or scalars.")
    if h.shape[0] != n:
        raise ValueError(
            "Spacing arrays must have the same length as the dimension along which the gradient is calculated."
        )
    widths = (h[1:] - h[:-1]).reshape([n - 1 if d == axis else 1 for d in range(t.dim())])
    left, right = widths.narrow(axis, 0, n - 2), widths.narrow(axis, 1, n - 2)
    slopes = steps / widths
    # The slopes on both sides, weighted by the width of the other side.
    inner = (slopes.narrow(axis, 0, n - 2) * right + slopes.narrow(axis, 1, n - 2) * left) / (left + right)
    return torch.cat([slopes.narrow(axis, 0, 1), inner, slopes.narrow(axis, n - 2, 1)], axis)


@shown_as_jit("axis")
@compiled_when_repeated
def trapezoid(y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1) -> Array:
    """Return the integral of `y` along `axis` by the trapezoidal rule, at points `x` or in steps of `dx`."""
    check_arraylike("trapezoid", y, *([] if x is None else [x]))
    if x is None:
        (t,), _ = promote_inexact("trapezoid", y)
        width = convert(tensor("trapezoid", dx, y), t.dtype)
        t = t.movedim(canonical_axis(axis, t.dim()), -1)
    else:
        (t, points), _ = promote_inexact("trapezoid", y, x)
        t = t.movedim(canonical_axis(axis, t.dim()), -1)
        points = points if points.dim() == 1 else points.movedim(axis, -1)
        width = points[..., 1:] - points[..., :-1]
    return Array(0.5 * (width * (t[..., 1:] + t[..., :-1])).sum(-1))


@shown_as_jit("axis")
@compiled_when_repeated
def unwrap(p: ArrayLike, discont: ArrayLike | None = None, axis: int = -1, period: ArrayLike = 2 * math.pi) -> Array:
    """Return `p` with jumps of more than `discont` (half a period) along `axis` reduced by multiples of `period`."""
    check_arraylike("unwrap", p, period)
    (t, whole), weak = promote("unwrap", p, period)
    if t.is_complex():
        raise ValueError("jnp.unwrap does not support complex inputs.")
    axis = canonical_axis(axis, t.dim(), error=IndexError)
    source, cycle = Array(t, weak), Array(whole, weak)
    if not t.shape[axis]:
        return source
    integral = not t.is_floating_point()
    half: Any = cycle // 2 if integral else cycle / 2  # pyright: ignore
    limit = cycle / 2 if discont is None else discont  # pyright: ignore
    jumps: Any = diff(source, axis=axis)
    wrapped: Any = remainder(jumps + half, cycle) - half
    wrapped = where((wrapped == -half) & (jumps > 0), half, wrapped)
    size: Any = absolute(jumps)
    correction = where(size < limit, 0, wrapped - jumps)
    n = t.shape[axis]
    rest: Any = Array(t.narrow(axis, 1, n - 1), weak)
    return concatenate([Array(t.narrow(axis, 0, 1), weak), rest + cumsum(correction, axis)], axis)


@compiled_when_repeated
def interp(
    x: ArrayLike, xp: ArrayLike, fp: ArrayLike, left: Any = None, right: Any = None, period: ArrayLike | None = None
) -> Array:
    """Return the values at `x` of the piecewise linear function through the points (xp, fp), xp ascending.

    Outside, the values are `left` and `right` (default: those at the ends; "extrapolate" extends the outer lines).
    With `period` the function is periodic.
    """
    check_arraylike("interp", x, xp, fp)
    for name, value in (("left", left), ("right", right)):
        if isinstance(value, str) and value != "extrapolate":
            raise ValueError(f"the only valid string value of `{name}` is 'extrapolate', but got: {value!r}")
    (points, knots), _ = promote_inexact("interp", x, xp)
    (values,), _ = promote_inexact("interp", fp)
    if knots.shape != values.shape or knots.dim() != 1:
        raise ValueError("xp and fp must be one-dimensional arrays of equal size")
    if points.is_complex():
        raise ValueError("jnp.interp: complex x values not supported.")
    if period is not None:
        if as_array(period).ndim:
            raise ValueError(f"period must be a scalar; got {period}")
        cycle = torch.abs(convert(tensor("interp", period), points.dtype))
        points, knots = torch.remainder(points, cycle), torch.remainder(knots, cycle)
        order = torch.sort(knots, stable=True).indices
        knots, values = knots[order], values[order]
        knots = torch.cat([knots[-1:] - cycle, knots, knots[:1] + cycle])
        values = torch.cat([values[-1:], values, values[:1]])
    i = places_in(knots, points, True).clamp(1, max(knots.shape[0] - 1, 1))
    here, before = i.clamp(max=knots.shape[0] - 1), i - 1
    shape = points.shape

    def at(t: torch.Tensor, where: torch.Tensor) -> torch.Tensor:
        return torch.index_select(t, 0, where.flatten()).reshape(shape)

    low = at(values, before)
    rise, width = at(values, here) - low, at(knots, here) - at(knots, before)
    flat = (
        torch.abs(width) <= float(np.spacing(np.finfo(str(knots.dtype).removeprefix("torch.")).eps))
        if knots.dtype.itemsize > 2
        else width == 0
    )
    found = torch.where(flat, low, low + (points - at(knots, before)) / torch.where(flat, 1.0, width) * rise)
    if period is None:
        outside = ((left, points < knots[0], values[0]), (right, points > knots[-1], values[-1]))
        for value, mask, default in outside:
            if not isinstance(value, str):
                filler = default if value is None else tensor("interp", value)
                (found_t, filler), _ = promote("interp", Array(found), Array(filler, is_weak(value)))
                found = torch.where(mask, filler, found_t)
    return Array(found)


@in_own_dtypes
def _correlated(function: str, a: Any, v: Any, mode: str, preferred: DTypeLike | None) -> Array:
    """Slide the reversed `v` over `a` (convolve), or the conjugated `v` (correlate)."""
    check_arraylike(function, a, v)
    if preferred is None:
        (x, y), weak = promote_inexact(function, a, v)
        result = x.dtype
    else:
        (x, y), result, weak = operands(function, preferred, a, v)
    if x.dim() != 1 or y.dim() != 1:
        raise ValueError(f"{function}() only support 1-dimensional inputs.")
    if not len(x) or not len(y):
        raise ValueError(f"{function}: inputs cannot be empty, got shapes {tuple(x.shape)} and {tuple(y.shape)}.")
    if mode not in ("full", "same", "valid"):
        raise ValueError("mode must be one of ['full', 'same', 'valid']")
    if function == "correlate":
        y = conjugate(y)
        swapped = len(x) < len(y)
        x, y = (y, x) if swapped else (x, y)
    else:
        swapped = False
        x, y = (y, x) if len(x) < len(y) else (x, y)
        y = torch.flip(y, (0,))
    size = y.shape[0]
    padding = {"valid": (0, 0), "same": (size // 2, size - size // 2 - 1), "full": (size - 1, size - 1)}[mode]
    padded = torch.nn.functional.pad(x, padding)
    if not functorch.base_of(padded).numel():  # a batch of none, of which torch makes no groups
        found = padded.new_zeros(padded.shape[0] - size + 1)
    elif padded.is_floating_point() or padded.is_complex():
        found = torch.nn.functional.conv1d(padded[None, None], y[None, None]).flatten()
    else:
        found = unsigned.via_bits(lambda rows, window: rows.unfold(0, size, 1) @ window, padded, y)
    found = convert(found, result)
    return Array(unsigned.flip(found, (0,)) if swapped else found, weak)


@shown_as_jit("mode", "precision", "preferred_element_type")
def convolve(
    a: ArrayLike,
    v: ArrayLike,
    mode: str = "full",
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Return the convolution of two vectors: all overlaps ("full"), as many as `a` ("same"), or whole ones ("valid").

    `precision` concerns accelerators only.
    """
    return _correlated("convolve", a, v, mode, preferred_element_type)


@shown_as_jit("mode", "precision", "preferred_element_type")
def correlate(
    a: ArrayLike,
    v: ArrayLike,
    mode: str = "valid",
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Return the cross-correlation of two vectors, the second one conjugated; `mode` as in `convolve`.

    `precision` concerns accelerators only.
    """
    return _correlated("correlate", a, v, mode, preferred_element_type)
