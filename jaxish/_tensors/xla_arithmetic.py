"""float32 functions as XLA computes them on the CPU, bit for bit: what random numbers need to be equal to JAX's.

XLA contracts a * b + c into one fused operation, rounded once, and approximates log, log1p, exp and erf by the
polynomials of the Cephes library and of Eigen, where torch uses Sleef or the vector library of MKL. A rejection
sampler that compares such values takes another path where the last bit differs, so the last bit matters here. Other
dtypes fall back on torch's functions, except log1p of float64, which is Cephes's too.

`fma` is one node of a graph. Run directly it computes with more digits; in a C++ loop it is the instruction; in code
that contracts it is a multiplication and an addition.
"""

import math

import torch
from torch import Tensor

from .._compile.decompositions import ERF_DENOMINATOR, ERF_IS_ONE, ERF_NUMERATOR
from .elementwise import Elementwise


def _fused(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    if a.dtype is torch.float32:
        # A product of two float32 values is exact in float64, so that only the sum is rounded before the result is.
        return (a.double() * b.double() + c.double()).float()
    # Dekker's exact product and Knuth's exact sum: what both leave out is added last.
    product = a * b
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    lost = a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)
    total = product + c
    back = total - product
    found = total + (lost + ((product - (total - back)) + (c - back)))
    return torch.where(torch.isfinite(found), found, total)


def _halves(x: Tensor) -> tuple[Tensor, Tensor]:
    wide = x * 134217729.0
    high = wide - (wide - x)
    return high, x - high


def _contractible(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    return a * b + c


_FMA = Elementwise(
    "fma", _fused, (lambda a, b, c: b, lambda a, b, c: a, lambda a, b, c: torch.ones_like(c)), _contractible,
    is_instruction=True,
)  # fmt: skip


def quotient(number: float, x: Tensor) -> Tensor:
    """Return `number / x`. torch rounds twice for a Python number: it multiplies by the reciprocal."""
    return torch.full_like(x, number) / x


def fma(a: Tensor, b: Tensor | float, c: Tensor | float) -> Tensor:
    """Return a * b + c, rounded once where the dtype is float32 or float64."""
    if a.dtype.itemsize < 4:
        return a * b + c
    return _FMA(a, _like(b, a), _like(c, a))


def _like(value: Tensor | float, reference: Tensor) -> Tensor:
    if isinstance(value, Tensor):
        return value
    return torch.full((), value, dtype=reference.dtype, device=reference.device)


def polynomial(x: Tensor, coefficients: tuple[float, ...]) -> Tensor:
    """Return the polynomial in x with these coefficients, the highest power first, by fused operations."""
    value: Tensor | float = coefficients[0]
    for coefficient in coefficients[1:]:
        value = fma(x, value, coefficient)
    assert isinstance(value, Tensor)
    return value


# torch's eager square root of float32 is off by one unit at times; the compiled one is rounded correctly.
_sqrt_rule = Elementwise(
    "sqrt", lambda x: torch.sqrt(x.double()).float(), (lambda x: 0.5 / sqrt(x),), torch.sqrt, is_instruction=True
)


def sqrt(x: Tensor) -> Tensor:
    """Return the square root, correctly rounded."""
    return _sqrt_rule(x) if x.dtype is torch.float32 else torch.sqrt(x)


_LEAST_NORMAL = 2.0**-126
_LN2_HIGH, _LN2_LOW = 0.693359375, -2.12194440e-4
_LOG = (
    (0.070376836, -0.1151461, 0.116769984),
    (-0.12420141, 0.14249323, -0.16668057),
    (0.20000714, -0.24999994, 0.3333333),
)


def _log(x: Tensor) -> Tensor:
    if x.dtype is torch.float64:
        return torch.log(x)
    if x.dtype is not torch.float32:
        return _log(x.float()).to(x.dtype)
    bits = x.clamp(min=_LEAST_NORMAL).view(torch.int32)
    exponent = ((bits >> 23) - 126).to(torch.float32)
    mantissa = ((bits & 0x007FFFFF) | 0x3F000000).view(torch.float32)
    small = mantissa < 0.70710677
    t = (mantissa - 1.0) + torch.where(small, mantissa, 0.0)
    exponent = exponent - small.to(torch.float32)
    cube = t * t * t
    low, middle, high = (polynomial(t, c) for c in _LOG)
    tail = fma(fma(fma(low, cube, middle), cube, high), cube, exponent * _LN2_LOW)
    found = fma(exponent, _LN2_HIGH, fma(t * t, -0.5, t) + tail)
    found = torch.where(x < math.inf, found, x)
    return torch.where(x == 0, -math.inf, torch.where(x > 0, found, math.nan))


_LOG1P_NUMERATOR = (
    4.5270000862445199635215e-5, 4.9854102823193375972212e-1, 6.5787325942061044846969e0, 2.9911919328553073277375e1,
    6.0949667980987787057556e1, 5.7112963590585538103336e1, 2.0039553499201281259648e1,
)  # fmt: skip
_LOG1P_DENOMINATOR = (
    1.0, 1.5062909083469192043167e1, 8.3047565967967209469434e1, 2.2176239823732856465394e2,
    3.0909872225312059774938e2, 2.1642788614495947685003e2, 6.0118660497603843919306e1,
)  # fmt: skip


def _log1p(x: Tensor) -> Tensor:
    if x.dtype.itemsize < 4:
        return _log1p(x.float()).to(x.dtype)
    square = x * x
    ratio = polynomial(x, _LOG1P_NUMERATOR) / polynomial(x, _LOG1P_DENOMINATOR)
    near = x + fma(square, -0.5, (x * square) * ratio)
    return torch.where(x.abs() < math.sqrt(2) - 1, near, _log(x + 1.0))


_EXP = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 0.5)


def _exp(x: Tensor) -> Tensor:
    if x.dtype is torch.float64:
        return torch.exp(x)
    if x.dtype is not torch.float32:
        return _exp(x.float()).to(x.dtype)
    held = x.clamp(-87.8, 88.8)
    whole = torch.floor(fma(held, 1.44269504088896341, 0.5)).clamp(-127.0, 127.0)
    rest = fma(whole, -_LN2_LOW, fma(whole, -_LN2_HIGH, held))
    found = fma(polynomial(rest, _EXP), rest * rest, rest) + 1.0
    scale = ((torch.nan_to_num(whole).to(torch.int32) + 127) << 23).view(torch.float32)
    return found * scale


def _erf(x: Tensor) -> Tensor:
    if x.dtype is torch.float64:
        return torch.erf(x)
    if x.dtype is not torch.float32:
        return _erf(x.float()).to(x.dtype)
    square = x * x
    ratio = (x * polynomial(square, ERF_NUMERATOR)) / polynomial(square, ERF_DENOMINATOR)
    return torch.where(x.abs() >= ERF_IS_ONE, torch.sign(x), ratio)


_log_rule = Elementwise("log", _log, (torch.reciprocal,), is_long=True)
_log1p_rule = Elementwise("log1p", _log1p, (lambda x: 1 / (1 + x),), is_long=True)
_exp_rule = Elementwise("exp", _exp, (lambda x: exp(x),), is_long=True)
_erf_rule = Elementwise("erf", _erf, (lambda x: 2 / math.sqrt(math.pi) * exp(-x * x),), is_long=True)


def log(x: Tensor) -> Tensor:
    """Return the natural logarithm."""
    return _log_rule(x)


def log1p(x: Tensor) -> Tensor:
    """Return log(1 + x)."""
    return _log1p_rule(x)


def exp(x: Tensor) -> Tensor:
    """Return the exponential."""
    return _exp_rule(x)


def erf(x: Tensor) -> Tensor:
    """Return the error function."""
    return _erf_rule(x)
