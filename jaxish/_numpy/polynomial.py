"""Polynomials as vectors of coefficients, the highest power first."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._core import dtypes, errors, unsigned
from .._core.array import Array, as_array, check_arraylike, tensor_of
from .._core.dimensions import broadcast_shape, expanded, static_int
from .._core.promotion import convert, promote, promote_inexact, tensor
from .._core.torch_modes import in_own_dtypes
from .._core.typing import ArrayLike
from .._transforms.repeated import compiled_when_repeated
from .._transforms.shown_calls import shown_as_jit
from .arguments import concrete_values
from .calculus import convolve
from .joining import trim_zeros
from .linalg.decompositions import eigvals
from .linalg.solving import lstsq
from .ufuncs import power


@shown_as_jit()
def polyadd(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Return the coefficients of the sum of two polynomials."""
    check_arraylike("polyadd", a1, a2)
    (a, b), weak = promote("polyadd", a1, a2)
    short, long = (a, b) if a.shape[0] < b.shape[0] else (b, a)
    low = long[-short.shape[0] :]
    return Array(torch.cat([long[: -low.shape[0]], unsigned.add(low, expanded(short, tuple(low.shape)))]), weak)


@shown_as_jit()
def polysub(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Return the coefficients of the difference of two polynomials."""
    check_arraylike("polysub", a1, a2)
    (a, b), weak = promote("polysub", a1, a2)
    return polyadd(Array(a, weak), Array(unsigned.neg(b), weak))


def polymul(a1: ArrayLike, a2: ArrayLike, *, trim_leading_zeros: bool = False) -> Array:
    """Return the coefficients of the product of two polynomials; trimming zeros first needs known values."""
    check_arraylike("polymul", a1, a2)
    (a, b), _ = promote_inexact("polymul", a1, a2)
    if trim_leading_zeros and (len(a) > 1 or len(b) > 1):
        a, b = trim_zeros(Array(a), "f")._tensor, trim_zeros(Array(b), "f")._tensor
    a, b = (t if len(t) else torch.zeros((1,), dtype=t.dtype, device=t.device) for t in (a, b))
    return convolve(Array(a), Array(b))


def polydiv(u: ArrayLike, v: ArrayLike, *, trim_leading_zeros: bool = False) -> tuple[Array, Array]:
    """Return the coefficients of the quotient and the remainder of two polynomials.

    The remainder has as many coefficients as `u`, unless `trim_leading_zeros`, which needs known values.
    """
    check_arraylike("polydiv", u, v)
    (a, b), _ = promote_inexact("polydiv", u, v)
    steps = len(a) - len(b) + 1
    quotients = []
    for k in range(max(steps, 0)):
        factor = a[k] / b[0]
        quotients.append(factor)
        part = torch.nn.functional.pad(factor * b, (k, len(a) - k - len(b)))
        a = a - part
    quotient = torch.stack(quotients) if quotients else torch.zeros((1,), dtype=a.dtype, device=a.device)
    if trim_leading_zeros:
        limit = float(np.sqrt(torch.finfo(a.dtype).eps))
        values = concrete_values(Array(a), errors.ConcretizationTypeError, "in jnp.polydiv with trim_leading_zeros")
        large = np.nonzero(np.abs(values) > limit)[0]
        a = a[int(large[0]) if len(large) else len(a) - 1 :]
    return Array(quotient), Array(a)


@shown_as_jit("unroll")
@compiled_when_repeated
def polyval(p: ArrayLike, x: ArrayLike, *, unroll: int = 16) -> Array:
    """Return the values at `x` of a polynomial. `unroll` has no effect: Horner's loop is always unrolled."""
    check_arraylike("polyval", p, x)
    (coefficients, points), _ = promote("polyval", p, x)
    shape = broadcast_shape(tuple(coefficients.shape[1:]), tuple(points.shape))
    found = torch.zeros(shape, dtype=points.dtype, device=points.device)
    for c in coefficients.unbind(0):
        found = unsigned.add(unsigned.mul(found, points), c)
    return Array(found)


@shown_as_jit("m")
def polyder(p: ArrayLike, m: int = 1) -> Array:
    """Return the coefficients of the m-th derivative."""
    m = static_int(m, "'m' argument of jnp.polyder")
    (t,), _ = promote_inexact("polyder", p)
    if m < 0:
        raise ValueError("Order of derivative must be positive")
    if not m:
        return Array(t)
    powers = torch.arange(m, max(len(t), m), device=t.device)
    factors = torch.ones(powers.shape, dtype=t.dtype, device=t.device)
    for k in range(m):
        factors = factors * (powers - k).to(t.dtype)
    return Array(t[: max(len(t) - m, 0)] * torch.flip(factors, (0,)))


@shown_as_jit("m")
@compiled_when_repeated
def polyint(p: ArrayLike, m: int = 1, k: ArrayLike | None = None) -> Array:
    """Return the coefficients of the m-th integral with the constants `k` (one, or one per integration; default 0)."""
    m = static_int(m, "'m' argument of jnp.polyint")
    (t, constants), _ = promote_inexact("polyint", p, 0 if k is None else k)
    if m < 0:
        raise ValueError("Order of integral must be positive (see polyder)")
    constants = constants.reshape(1) if not constants.dim() else constants
    if len(constants) == 1:
        constants = constants.expand(m)
    if tuple(constants.shape) != (m,):
        raise ValueError("k must be a scalar or a rank-1 array of length 1 or m.")
    if not m:
        return Array(t)
    powers = torch.arange(len(t) + m, device=t.device)
    factors = torch.ones(powers.shape, dtype=t.dtype, device=t.device)
    for i in range(m):
        factors = factors * (powers - i).clamp(min=1).to(t.dtype)
    return Array(torch.cat([t, constants]) / torch.flip(factors, (0,)))


@shown_as_jit()
@compiled_when_repeated
def poly(seq_of_zeros: ArrayLike) -> Array:
    """Return the coefficients of the polynomial with these zeros, or of a matrix's characteristic polynomial."""
    (zeros,), _ = promote_inexact("poly", seq_of_zeros)
    zeros = zeros.reshape(1) if not zeros.dim() else zeros
    if zeros.dim() == 2 and zeros.shape[0] == zeros.shape[1] and zeros.shape[0]:
        zeros = tensor_of(eigvals(Array(zeros)))
    if zeros.dim() != 1:
        raise ValueError("input must be 1d or non-empty square 2d array.")
    found = torch.ones((1,) if len(zeros) else (), dtype=zeros.dtype, device=zeros.device)
    for zero in zeros.unbind(0):
        found = torch.nn.functional.pad(found, (0, 1)) - torch.nn.functional.pad(found * zero, (1, 0))
    return Array(found)


@shown_as_jit("N", "increasing")
def vander(x: ArrayLike, N: int | None = None, increasing: bool = False) -> Array:
    """Return the powers of the elements of the vector `x` as rows of N columns, falling unless `increasing`."""
    source = as_array(x)
    t = tensor("vander", source)
    if t.dim() != 1:
        raise ValueError("x must be a one-dimensional array")
    count = t.shape[0] if N is None else static_int(N, "'N' argument of jnp.vander()")
    if count < 0:
        raise ValueError("N must be nonnegative")
    exponents = torch.arange(count, device=t.device).to(t.dtype)
    exponents = exponents if increasing else torch.flip(exponents, (0,))
    return power(Array(t.unsqueeze(-1), source._weak), Array(exponents.unsqueeze(0)))


def roots(p: ArrayLike, *, strip_zeros: bool = True) -> Array:
    """Return the complex roots of a polynomial.

    Leading zeros are stripped, which needs known values; with `strip_zeros` False they become trailing NaNs.
    """
    (t,), _ = promote_inexact("roots", p)
    t = t.reshape(1) if not t.dim() else t
    if t.dim() != 1:
        raise ValueError("Input must be a rank-1 array.")
    target = dtypes.TO_TORCH[dtypes.to_complex(dtypes.TO_NUMPY[t.dtype])]
    if len(t) < 2:
        return Array(torch.zeros((0,), dtype=target, device=t.device))
    is_zero = t == 0
    leading = torch.where(torch.all(is_zero), len(t), torch.argmin(is_zero.to(torch.uint8)))
    if strip_zeros:
        advice = "The error occurred in the jnp.roots() function. Within a transformation pass strip_zeros=False."
        count = int(Array(leading)._concrete(errors.ConcretizationTypeError, advice))
        return Array(_roots(t[count:], target))
    t = torch.where(leading == len(t), torch.ones((), dtype=t.dtype, device=t.device), t)
    places = torch.remainder(torch.arange(len(t), device=t.device) + leading, len(t))
    found = _roots(torch.index_select(t, 0, places), target)
    order = torch.sort((found == 0).to(torch.uint8), stable=True).indices
    valid = torch.arange(len(found), device=t.device) < len(found) - leading
    return Array(torch.where(valid, found[order], complex(np.nan, np.nan)))


@in_own_dtypes
def _roots(t: Tensor, target: torch.dtype) -> Tensor:
    if len(t) < 2:
        return torch.zeros((0,), dtype=target, device=t.device)
    top = (-t[1:] / t[0]).unsqueeze(0)
    below = torch.eye(len(t) - 2, len(t) - 1, dtype=t.dtype, device=t.device)
    return convert(torch.linalg.eigvals(torch.cat([top, below])), target)


@shown_as_jit("deg", "rcond", "full", "cov")
@compiled_when_repeated
@in_own_dtypes
def polyfit(
    x: ArrayLike, y: ArrayLike, deg: int, rcond: float | None = None, full: bool = False, w: ArrayLike | None = None,
    cov: Any = False,
) -> Any:  # fmt: skip
    """Return the coefficients of the polynomial of degree `deg` that fits y(x) best, weighted by `w`.

    With `full`, also residuals, rank, singular values and `rcond`; with `cov`, also the covariance matrix.
    """
    check_arraylike("polyfit", x, y, *([] if w is None else [w]))
    points, values = tensor("polyfit", x), tensor("polyfit", y)
    order = static_int(deg, "deg") + 1
    if order < 1:
        raise ValueError("expected deg >= 0")
    if points.dim() != 1:
        raise TypeError("expected 1D vector for x")
    if not points.numel():
        raise TypeError("expected non-empty vector for x")
    if values.dim() not in (1, 2):
        raise TypeError("expected 1D or 2D array for y")
    if points.shape[0] != values.shape[0]:
        raise TypeError("expected x and y to have same length")
    if rcond is None:
        rcond = len(points) * float(np.finfo(str(points.dtype).removeprefix("torch.")).eps)
    left = tensor_of(vander(Array(points), order))
    if w is not None:
        (weights,), _ = promote_inexact("polyfit", w)
        if weights.dim() != 1:
            raise TypeError("expected a 1-d array for weights")
        if weights.shape[0] != values.shape[0]:
            raise TypeError("expected w and y to have the same length")
        left = left * weights.unsqueeze(1)
        values = values * (weights.unsqueeze(1) if values.dim() == 2 else weights)
    scale = torch.sqrt((left * left).sum(0))
    left = left / scale
    solution, residuals, rank, singular = lstsq(Array(left), Array(values), rcond)
    c = tensor_of(solution)
    c = c / (scale.unsqueeze(1) if c.dim() > 1 else scale)
    if full:
        return Array(c), residuals, rank, singular, as_array(rcond)
    if not cov:
        return Array(c)
    base = torch.linalg.inv(left.transpose(0, 1) @ left) / torch.outer(scale, scale)
    if cov == "unscaled":
        factor = torch.ones((), dtype=c.dtype, device=c.device)
    else:
        if len(points) <= order:
            raise ValueError("the number of data points must exceed order to scale the covariance matrix")
        factor = tensor_of(residuals) / (len(points) - order)
    factor = factor.flatten()
    if values.dim() == 1:
        return Array(c), Array(base * factor)
    return Array(c), Array(base.unsqueeze(-1) * factor)
