"""Rounding, parts of numbers, and tests for special values."""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._core import dtypes, selection
from .._core.array import Array, check_arraylike, device_of, is_weak
from .._core.dimensions import static_int
from .._core.extended import ExtendedArray, compares_elements
from .._core.promotion import convert, promote, promote_inexact, tensor
from .._core.typing import ArrayLike
from .._transforms.repeated import compiled_when_repeated
from .._transforms.shown_calls import shown_as_jit
from .arguments import check_shapes, float_dtype, no_out
from .choosing import chosen_tensors
from .creation import asarray
from .manipulation import shape


def _given(function: str, x: Any) -> tuple[Tensor, bool]:
    (t,), weak = promote(function, x)
    return t, weak


def _whole(t: Tensor) -> bool:
    return not (t.is_floating_point() or t.is_complex())


def _rounded(function: str, operation: Any, x: Any) -> Array:
    t, weak = _given(function, x)
    if t.is_complex():
        raise TypeError(f"{function} does not accept dtype {dtypes.TO_NUMPY[t.dtype]}.")
    return Array(t if _whole(t) else operation(t), weak)


def floor(x: ArrayLike, /) -> Array:
    """Return the largest integers not above x, in its dtype. Raises `TypeError` for complex numbers."""
    return _rounded("floor", torch.floor, x)


def ceil(x: ArrayLike, /) -> Array:
    """Return the smallest integers not below x, in its dtype. Raises `TypeError` for complex numbers."""
    return _rounded("ceil", torch.ceil, x)


@shown_as_jit()
def trunc(x: ArrayLike) -> Array:
    """Return x without its fraction, in its dtype. Raises `TypeError` for complex numbers."""
    return _rounded("trunc", torch.trunc, x)


@shown_as_jit()
def rint(x: ArrayLike, /) -> Array:
    """Return the nearest integers, halves to even, as floating or complex numbers."""
    t, weak = _given("rint", x)
    if t.is_complex():
        return Array(torch.complex(torch.round(t.real), torch.round(t.imag)), weak)
    return Array(torch.round(t) if t.is_floating_point() else convert(t, float_dtype()), weak and t.is_floating_point())


@shown_as_jit("decimals")
def round(a: ArrayLike, decimals: int = 0, out: None = None) -> Array:
    """Return `a` rounded to `decimals` (which may be negative) decimal places, halves to even."""
    no_out("round", out)
    decimals = static_int(decimals, "'decimals' argument of jnp.round")
    t, weak = _given("round", a)
    if t.dtype is torch.bool:
        raise ValueError("jnp.round: dtype bool is not numeric. Use x.astype(int).")
    if _whole(t):
        if decimals < 0:
            raise NotImplementedError("integer np.round not implemented for decimals < 0. Use x.astype(float).")
        return Array(t, weak)
    if t.is_complex():
        return Array(torch.complex(_round_real(t.real, decimals), _round_real(t.imag, decimals)), weak)
    return Array(_round_real(t, decimals), weak)


def _round_real(t: Tensor, decimals: int) -> Tensor:
    if not decimals:
        return torch.round(t)
    computed = t.to(torch.float32) if t.dtype.itemsize == 2 else t
    factor = 10.0**decimals if abs(decimals) < 308 else math.inf
    found = torch.round(computed * factor) / factor
    return found.to(t.dtype)


@shown_as_jit("decimals")
def around(a: ArrayLike, decimals: int = 0, out: None = None) -> Array:
    """Return `a` rounded to `decimals` decimal places; see `round`."""
    return round(a, decimals, out)


@shown_as_jit()
@compiled_when_repeated
def modf(x: ArrayLike, /, out: None = None) -> tuple[Array, Array]:
    """Return the fractions and the whole parts of x, both with its sign."""
    no_out("modf", out)
    (t,), weak = promote_inexact("modf", x)
    if t.is_complex():
        raise TypeError(f"modf does not accept dtype {dtypes.TO_NUMPY[t.dtype]}.")
    whole = selection.where(t >= 0, torch.floor(t), torch.ceil(t))
    return Array(t - whole, weak), Array(whole, weak)


# -------------------------------------------------------------------------------------------------- special values


@compares_elements("all")
def isfinite(x: ArrayLike, /) -> Array:
    """Tell where x is neither infinite nor NaN."""
    t = tensor("isfinite", x)
    if t.is_complex():
        return Array(torch.isfinite(t.real) & torch.isfinite(t.imag), is_weak(x))
    if _whole(t):
        return Array(torch.ones_like(t, dtype=torch.bool))
    return Array(torch.isfinite(t), is_weak(x))


@shown_as_jit()
@compares_elements("any")
def isinf(x: ArrayLike, /) -> Array:
    """Tell where x is infinite."""
    t = tensor("isinf", x)
    if t.is_complex():
        return Array(torch.isinf(t.real) | torch.isinf(t.imag))
    return Array(torch.zeros_like(t, dtype=torch.bool) if _whole(t) else torch.isinf(t))


@compares_elements("any")
def isnan(x: ArrayLike, /) -> Array:
    """Tell where x is NaN."""
    t = tensor("isnan", x)
    return Array(torch.zeros_like(t, dtype=torch.bool) if _whole(t) else torch.isnan(t), is_weak(x))


def _is_infinity(function: str, x: Any, value: float) -> Array:
    t = tensor(function, x)
    if t.is_complex():
        raise ValueError(f"{function} is not well defined for complex types. Test the real and imaginary parts.")
    return Array(torch.zeros_like(t, dtype=torch.bool) if _whole(t) else t == value)


@compares_elements("any")
def isposinf(x: ArrayLike, /, out: None = None) -> Array:
    """Tell where x is positive infinity. Raises `ValueError` for complex numbers."""
    no_out("isposinf", out)
    return _is_infinity("isposinf", x, math.inf)


@compares_elements("any")
def isneginf(x: ArrayLike, /, out: None = None) -> Array:
    """Tell where x is negative infinity. Raises `ValueError` for complex numbers."""
    no_out("isneginf", out)
    return _is_infinity("isneginf", x, -math.inf)


@shown_as_jit()
def iscomplex(x: ArrayLike) -> Array:
    """Tell where x has a nonzero imaginary part."""
    t = tensor("iscomplex", x)
    return Array(t.imag != 0 if t.is_complex() else torch.zeros_like(t, dtype=torch.bool), is_weak(x))


@shown_as_jit()
def isreal(x: ArrayLike) -> Array:
    """Tell where x has no imaginary part."""
    t = tensor("isreal", x)
    return Array(t.imag == 0 if t.is_complex() else torch.ones_like(t, dtype=torch.bool), is_weak(x))


@shown_as_jit()
@compiled_when_repeated
def nan_to_num(
    x: ArrayLike, copy: bool = True, nan: ArrayLike = 0.0, posinf: ArrayLike | None = None,
    neginf: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """Return x with NaN and the infinities replaced, by default by zero and the largest finite numbers."""
    check_arraylike("nan_to_num", x)
    t, weak = _given("nan_to_num", x)
    if _whole(t):
        return Array(t, weak)
    if t.is_complex():
        parts = (nan_to_num(Array(p), copy, nan, posinf, neginf)._tensor for p in (t.real, t.imag))
        return Array(torch.complex(*parts))
    info = torch.finfo(t.dtype)

    def replaced(t: Tensor, mask: Tensor, value: Any, default: float) -> Tensor:
        if value is None:
            filler = torch.full((), default, dtype=t.dtype, device=t.device)
        else:
            filler = convert(tensor("nan_to_num", value, x), t.dtype)
        return chosen_tensors(mask, filler, t)

    t = replaced(t, torch.isnan(t), nan, 0.0)
    t = replaced(t, t == math.inf, posinf, info.max)
    return Array(replaced(t, t == -math.inf, neginf, info.min))


@shown_as_jit("equal_nan")
@compiled_when_repeated
def isclose(
    a: ArrayLike, b: ArrayLike, rtol: ArrayLike = 1e-05, atol: ArrayLike = 1e-08, equal_nan: bool = False
) -> Array:
    """Tell where |a - b| <= atol + rtol * |b|; equal infinities are close, NaNs only with `equal_nan`.

    Keys are close where they are equal.
    """
    if isinstance(a, ExtendedArray) and isinstance(b, ExtendedArray):
        return a == b  # pyright: ignore
    (x, y), _ = promote("isclose", a, b)
    check_shapes("logical_and", x, y)
    if x.dtype is torch.bool:
        x, y = x.to(torch.int32), y.to(torch.int32)
    if _whole(x):
        wide = dtypes.TO_TORCH[dtypes.canonicalize_dtype(np.float64)]
        x, y = convert(x, wide), convert(y, wide)
    relative, absolute = (
        convert(tensor("isclose", v), x.dtype if not x.is_complex() else x.real.dtype) for v in (rtol, atol)
    )
    close = torch.abs(x - y) <= absolute + relative * torch.abs(y)
    finite = torch.isfinite(torch.abs(x)) & torch.isfinite(torch.abs(y))
    found = selection.where(finite, close, x == y)
    if equal_nan:
        found = found | (torch.isnan(x) & torch.isnan(y))
    return Array(found)


@shown_as_jit("equal_nan")
@compiled_when_repeated
def allclose(
    a: ArrayLike, b: ArrayLike, rtol: ArrayLike = 1e-05, atol: ArrayLike = 1e-08, equal_nan: bool = False
) -> Array:
    """Tell whether all elements are close; see `isclose`."""
    return Array(torch.all(isclose(a, b, rtol, atol, equal_nan)._tensor))


@compares_elements("all")
def array_equal(a1: ArrayLike, a2: ArrayLike, equal_nan: bool = False) -> Array:
    """Tell whether two arrays have the same shape and elements."""
    a1, a2 = asarray(a1), asarray(a2)
    if shape(a1) != shape(a2):
        return Array(torch.zeros((), dtype=torch.bool, device=device_of(a1, a2)))
    (x, y), _ = promote("array_equal", a1, a2)
    same = x == y
    if equal_nan and not _whole(x):
        same = same | (torch.isnan(x) & torch.isnan(y))
    return Array(torch.all(same))


@compares_elements("all")
def array_equiv(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Tell whether two arrays broadcast to the same shape and have the same elements there."""
    (x, y), _ = promote("array_equiv", a1, a2)
    try:
        np.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        return Array(torch.zeros((), dtype=torch.bool, device=device_of(a1, a2)))
    return Array(torch.all(x == y))
