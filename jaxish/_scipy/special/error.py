"""Error functions, the normal distribution's functions, and integrals of Gaussians and waves."""

import functools
import math

import numpy as np
import torch
from torch import Tensor

from ..._core.array import Array, as_array, tensor_of
from ..._core.typing import ArrayLike
from ..._lax import special as lax
from ..._numpy.creation import asarray
from ..._tensors import cephes
from ..._tensors.elementwise import Elementwise, widened
from ..._tensors.faddeeva import faddeeva
from .operands import promoted, promoted_arrays, promoted_real, single_or_double

_TWO_OVER_ROOT_PI = 2 / math.sqrt(math.pi)


def erf(x: ArrayLike) -> Array:
    """Return the error function of a real x."""
    return lax.erf(*promoted_arrays("erf", x))


def erfc(x: ArrayLike) -> Array:
    """Return 1 - erf(x), accurate for large x."""
    return lax.erfc(*promoted_arrays("erfc", x))


def erfinv(x: ArrayLike) -> Array:
    """Return the inverse of the error function: infinite at -1 and 1, NaN beyond."""
    return lax.erf_inv(*promoted_arrays("erfinv", x))


_FADDEEVA = Elementwise("wofz", faddeeva, (lambda z: -2 * z * _FADDEEVA(z) + _TWO_OVER_ROOT_PI * 1j,), is_long=True)
_ERFCX = Elementwise("erfcx", widened(torch.special.erfcx), (lambda x: 2 * x * _ERFCX(x) - _TWO_OVER_ROOT_PI,))
_DAWSON = Elementwise("dawsn", widened(cephes.dawson), (lambda x: 1 - 2 * x * _DAWSON(x),), is_long=True)


def wofz(z: ArrayLike) -> Array:
    """Return the Faddeeva function exp(-z²) erfc(-iz), a complex number for real z, too."""
    (t,), _ = promoted("wofz", z)
    wide = torch.complex128 if t.dtype in (torch.float64, torch.complex128) else torch.complex64
    return Array(_FADDEEVA(t.to(wide)), False)


def erfcx(x: ArrayLike) -> Array:
    """Return exp(x²) erfc(x) of real or complex x, without overflow for large x."""
    (t,), _ = promoted("erfcx", x)
    return Array(_FADDEEVA(t * 1j) if t.is_complex() else _ERFCX(t), False)


def dawsn(x: ArrayLike) -> Array:
    """Return Dawson's integral, exp(-x²) times the integral of exp(t²) from 0 to x."""
    (t,), _ = promoted_real("dawsn", x)
    return Array(_DAWSON(t), False)


def ndtr(x: ArrayLike) -> Array:
    """Return the normal distribution function of a float32 or float64 array. Raises `TypeError` for other dtypes."""
    t, _ = single_or_double(asarray(x))
    return Array(_ndtr(t), False)


def _ndtr(t: Tensor) -> Tensor:
    scaled = t * math.sqrt(0.5)
    tail = torch.erfc(scaled.abs())
    outer = torch.where(scaled > 0, 2 - tail, tail)
    return 0.5 * torch.where(scaled.abs() < math.sqrt(0.5), 1 + torch.erf(scaled), outer)


def _ndtri_slope(p: Tensor) -> Tensor:
    # Zero at the ends, as in JAX, where the function is infinite.
    slope = math.sqrt(2 * math.pi) * torch.exp(_NDTRI(p).square() / 2)
    return torch.where((p == 0) | (p == 1), 0.0, slope)


_NDTRI = Elementwise(
    "ndtri",
    cephes.inverse_normal,
    (_ndtri_slope,),
    is_long=True,
)


def ndtri(p: ArrayLike) -> Array:
    """Return the inverse of `ndtr` of a float32 or float64 array: infinite at 0 and 1, NaN beyond."""
    t, _ = single_or_double(p)
    return Array(_NDTRI(t), False)


def log_ndtr(x: ArrayLike, series_order: int = 3) -> Array:
    """Return the logarithm of `ndtr`: for x below -10 (float64: -20) by an asymptotic series of `series_order` terms.

    Raises `TypeError` for an array that is not float32 or float64, or a `series_order` that is not an integer, and
    `ValueError` for one outside 0 to 30.
    """
    if not isinstance(series_order, int):
        raise TypeError(f"series_order must be a Python integer, got {series_order!r}.")
    if not 0 <= series_order <= 30:
        bound = "non-negative" if series_order < 0 else "<= 30"
        raise ValueError(f"series_order must be {bound}, got {series_order}.")
    array = as_array(x)
    if array.dtype not in (np.float32, np.float64):
        raise TypeError(f"x.dtype={array.dtype} is not supported.")
    return Array(_log_ndtr_of(series_order)(tensor_of(array)), False)


def _log_ndtr(t: Tensor, terms: int) -> Tensor:
    low, high = (-20.0, 8.0) if t.dtype is torch.float64 else (-10.0, 5.0)
    lower, upper = t.clamp(max=low), t > high
    part = _ndtr(torch.where(upper, -t, t.clamp(min=low)))
    inverse = -1 / lower.square()
    total = torch.ones_like(t)
    for n in range(terms, 0, -1):
        total = 1 + (2 * n - 1) * inverse * total
    tail = -0.5 * lower.square() - torch.log(-lower) - 0.5 * math.log(2 * math.pi) + torch.log(total)
    return torch.where(upper, -part, torch.where(t > low, torch.log(part), tail))


@functools.cache
def _log_ndtr_of(terms: int) -> Elementwise:
    def slope(x: Tensor) -> Tensor:
        return torch.exp(-0.5 * x.square() - 0.5 * math.log(2 * math.pi) - function(x))

    function = Elementwise("log_ndtr", lambda t: _log_ndtr(t, terms), (slope,), parameters=(terms,))
    return function


# Patefield and Tandy, "Fast and accurate calculation of Owen's T function", Journal of Statistical Software 5 (2000),
# method T5: Gauss-Legendre quadrature of an even function, by half of its 26 nodes.
_NODES, _WEIGHTS = (half[13:].tolist() for half in np.polynomial.legendre.leggauss(26))


def _owens_t(h: Tensor, a: Tensor) -> Tensor:
    h, size = h.abs(), a.abs()
    beyond = size > 1
    # T(h, a) for a above 1 follows from T(a h, 1/a).
    scale, steep = torch.where(beyond, size * h, h), torch.where(beyond, 1 / size, size)
    total = torch.zeros_like(scale * steep)
    for node, weight in zip(_NODES, _WEIGHTS, strict=True):
        ratio = 1 + steep.square() * node**2
        total = total + weight * torch.exp(-0.5 * scale.square() * ratio) / ratio
    inner = steep * total / (2 * math.pi)
    root = math.sqrt(0.5)
    near, far = torch.erfc(h * root), torch.erfc(size * h * root)
    close = 0.25 - 0.25 * torch.erf(h * root) * torch.erf(size * h * root)
    outer = torch.where(size * h <= 0.67, close, 0.25 * (near + far - near * far)) - inner
    found = torch.sign(a) * torch.where(beyond, outer, inner)
    return torch.where(torch.isnan(a) | torch.isnan(h), math.nan, found)


_OWENS_T = Elementwise(
    "owens_t",
    widened(_owens_t),
    (
        lambda h, a: -torch.exp(-0.5 * h * h) * torch.erf(a * h * math.sqrt(0.5)) / (2 * math.sqrt(2 * math.pi)),
        lambda h, a: torch.exp(-0.5 * (a * a + 1) * h * h) / (2 * math.pi * (a * a + 1)),
    ),
    is_long=True,
)


def owens_t(h: ArrayLike, a: ArrayLike) -> Array:
    """Return Owen's T function: exp(-h² (1 + x²)/2) / (1 + x²) integrated over x from 0 to a, divided by 2π."""
    (s, t), _ = promoted_real("owens_t", h, a)
    return Array(_OWENS_T(s, t), False)


_FRESNEL = (
    Elementwise(
        "fresnel_sine", widened(cephes.fresnel_sine), (lambda x: cephes.sine_cosine_of_square(x)[0],), is_long=True
    ),
    Elementwise(
        "fresnel_cosine", widened(cephes.fresnel_cosine), (lambda x: cephes.sine_cosine_of_square(x)[1],), is_long=True
    ),
)


def fresnel(x: ArrayLike) -> tuple[Array, Array]:
    """Return the integrals of sin(πt²/2) and of cos(πt²/2) from 0 to a real x."""
    (t,), _ = promoted("fresnel", x)
    if t.is_complex():
        raise NotImplementedError("fresnel: support for complex-valued inputs is not implemented; take the real parts.")
    sine, cosine = (Array(f(t), False) for f in _FRESNEL)
    return sine, cosine
