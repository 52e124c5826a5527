"""The gamma function and what is made of it: beta, factorials, binomial coefficients, polygamma, zeta."""

import math
import operator

import numpy as np
import torch
from torch import Tensor

from ..._core.array import Array, as_array
from ..._core.typing import ArrayLike
from ..._lax import operands as ops
from ..._lax import special as lax
from ..._lax.operands import check_accepted
from ..._numpy.creation import asarray
from ..._tensors.complex_gamma import log_gamma, stirling_remainder
from ..._tensors.elementwise import Elementwise, widened
from ..._transforms.repeated import compiled_when_repeated
from .operands import promoted, promoted_arrays, promoted_real


def gammaln(x: ArrayLike) -> Array:
    """Return the logarithm of the absolute value of the gamma function of a real x."""
    return lax.lgamma(*promoted_arrays("gammaln", x))


def _sign(t: Tensor) -> Tensor:
    whole = torch.floor(t)
    negative = ((t < 0) & (torch.remainder(whole, 2) != 0)) | ((t == 0) & torch.signbit(t))
    sign = torch.where(negative, -1.0, 1.0).to(t.dtype)
    return torch.where(((t < 0) & (t == whole)) | torch.isnan(t), math.nan, sign)


@compiled_when_repeated
def gammasgn(x: ArrayLike) -> Array:
    """Return the sign of the gamma function of a real x: that of x at zero, NaN at the negative integers."""
    (t,), _ = promoted_real("gammasgn", x)
    return Array(_sign(t), False)


def _complex_log_gamma_slope(z: Tensor) -> Tensor:
    """Return the derivative of log Γ by Stirling's series, differentiated, and the reflection formula."""
    reflected = z.real < 0.5
    right = torch.where(reflected, 1 - z, z)
    far = right + 8
    inverse = 1 / far
    square = inverse * inverse
    total = torch.zeros_like(far)
    for numerator in (-3617 / 8160, 1 / 12, -691 / 32760, 1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12):
        total = (total + numerator) * square
    found = torch.log(far) - inverse / 2 - total - sum((1 / (right + k) for k in range(1, 8)), 1 / right)
    return torch.where(reflected, found - math.pi / torch.tan(math.pi * z), found)


_LOG_GAMMA = Elementwise("complex_log_gamma", log_gamma, (_complex_log_gamma_slope,), is_long=True)


def loggamma(x: ArrayLike) -> Array:
    """Return the principal branch of log Γ; for real x not above 0 NaN, for complex x with a cut there."""
    (t,), weak = promoted("loggamma", x)
    if t.is_complex():
        return Array(_LOG_GAMMA(t), weak)
    return Array(torch.where(t > 0, torch.lgamma(t), math.nan), weak)


def gamma(x: ArrayLike) -> Array:
    """Return the gamma function of real or complex x: infinite at a zero, with its sign, NaN at the other poles."""
    (t,), _ = promoted("gamma", x)
    if t.is_complex():
        return Array(torch.exp(_LOG_GAMMA(t)), False)
    return Array(_gamma(t), False)


def _gamma(t: Tensor) -> Tensor:
    return _sign(t) * torch.exp(torch.lgamma(t))


def betaln(a: ArrayLike, b: ArrayLike) -> Array:
    """Return the logarithm of the absolute value of the beta function, accurate for large arguments, too."""
    return Array(*_betaln(a, b))


def _betaln(a: ArrayLike, b: ArrayLike) -> tuple[Tensor, bool]:
    (p, q), weak = promoted("betaln", a, b)
    check_accepted("lgamma", p, 0, ops.FLOATING)
    small, large = torch.minimum(p, q), torch.maximum(p, q)
    plain = torch.lgamma(small) + (torch.lgamma(large) - torch.lgamma(small + large))
    far = large >= 8
    top = torch.where(far, large, 8.0)
    low = torch.where(far, small, 1.0)
    # log Γ(top) - log Γ(low + top), by Stirling's series of both.
    remainder = stirling_remainder(top) - stirling_remainder((low + top).clamp(min=1.0))
    ratio = remainder - (low + top - 0.5) * torch.log1p(low / top) - low * (torch.log(top) - 1)
    return torch.where(far, torch.lgamma(small) + ratio, plain), weak


def beta(a: ArrayLike, b: ArrayLike) -> Array:
    """Return the beta function Γ(a) Γ(b) / Γ(a + b) of real a and b."""
    (p, q), _ = promoted_real("beta", a, b)
    return Array(_sign(p) * _sign(q) * _sign(p + q) * torch.exp(_betaln(a, b)[0]), False)


def factorial(n: ArrayLike, exact: bool = False) -> Array:
    """Return n!, as a floating number; 0 for negative n.

    Raises `NotImplementedError` for `exact`: arrays hold no integers above 20!; use `math.factorial` for those.
    """
    if exact:
        raise NotImplementedError("factorial with exact=True: use math.factorial for integers of Python.")
    (t,), weak = promoted_real("factorial", n)
    return Array(torch.where(t < 0, 0.0, torch.exp(torch.lgamma(t + 1))), weak)


def comb(N: ArrayLike, k: ArrayLike, *, repetition: bool = False) -> Array:
    """Return the number of ways to take k of N things, as a floating number; 0 where there is none."""
    (n, t), weak = promoted_real("comb", N, k)
    empty = (t == 0) & (n >= 0)
    if repetition:
        n = n + t - 1
    possible = (t <= n) & (n >= 0) & (t >= 0)
    n, t = torch.where(possible, n, 0.0), torch.where(possible, t, 0.0)
    ways = torch.exp(torch.lgamma(n + 1) - torch.lgamma(t + 1) - torch.lgamma(n + 1 - t))
    ways = torch.where(possible, ways, 0.0)
    return Array(torch.where(empty, 1.0, ways) if repetition else ways, weak)


def _poch(z: Tensor, m: Tensor) -> Tensor:
    return torch.where(m == 0, 1.0, _gamma(z + m) / _gamma(z))


_POCH = Elementwise(
    "poch",
    _poch,
    (lambda z, m: (lax.psi(z + m) - lax.psi(z)) * _POCH(z, m), lambda z, m: lax.psi(z + m) * _POCH(z, m)),
)


def poch(z: ArrayLike, m: ArrayLike) -> Array:
    """Return the Pochhammer symbol Γ(z + m) / Γ(z) of real z and m."""
    (t, count), _ = promoted_real("poch", z, m)
    return Array(_POCH(t, count), False)


def multigammaln(a: ArrayLike, d: ArrayLike) -> Array:
    """Return the logarithm of the multivariate gamma function of dimension d, a concrete integer."""
    dimension = int(d)  # pyright: ignore[reportArgumentType]
    (t,), _ = promoted_real("multigammaln", a)
    halves = torch.arange(dimension, dtype=t.dtype, device=t.device) / 2
    constant = 0.25 * dimension * (dimension - 1) * math.log(math.pi)
    return Array(torch.lgamma(t.unsqueeze(-1) - halves).sum(-1) + constant, False)


def digamma(x: ArrayLike) -> Array:
    """Return the derivative of `gammaln` at a real x; NaN at the poles."""
    return lax.digamma(*promoted_arrays("digamma", x))


def polygamma(n: ArrayLike, x: ArrayLike) -> Array:
    """Return the n-th derivative of `digamma`, for integers n. Raises `ValueError` for n of another dtype."""
    order = as_array(n)
    if order.dtype.kind not in "iu":
        raise ValueError(f"Argument `n` to polygamma must be of integer type. Got dtype {order.dtype}.")
    (m, t), weak = promoted_real("polygamma", n, x)
    return lax.polygamma(Array(m, weak), Array(t, weak))


def gammainc(a: ArrayLike, x: ArrayLike) -> Array:
    """Return the regularized lower incomplete gamma function."""
    return lax.igamma(*promoted_arrays("gammainc", a, x))


def gammaincc(a: ArrayLike, x: ArrayLike) -> Array:
    """Return the regularized upper incomplete gamma function."""
    return lax.igammac(*promoted_arrays("gammaincc", a, x))


def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """Return the regularized incomplete beta function, differentiable in x."""
    tensors, weak = promoted_real("betainc", a, b, x)
    return lax.betainc(*(Array(t, weak) for t in tensors))


# B_2k / (2k)!, k from 1 on.
_EULER_MACLAURIN = (
    1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000, 1 / 74724249600,
    -3617 / 10670622842880000, 43867 / 5109094217170944000, -174611 / 802857662698291200000,
)  # fmt: skip
_ADDED = 10


def _zeta_slope(s: Tensor, q: Tensor) -> Tensor:
    """Return d/ds of sum_k (k + q)^-s, by the Euler-Maclaurin formula differentiated term by term (DLMF 25.11.5)."""
    total = torch.zeros_like(s + q)
    for k in range(_ADDED):
        total = total - torch.log(q + k) * (q + k) ** -s
    end = q + _ADDED
    log, power = torch.log(end), end**-s
    total = total - power * end / (s - 1) * (log + 1 / (s - 1)) - 0.5 * power * log
    factor, harmonic = s * power / end, 1 / s
    for k, c in enumerate(_EULER_MACLAURIN):
        total = total + c * factor * (harmonic - log)
        low, high = s + 2 * k + 1, s + 2 * k + 2
        factor, harmonic = factor * low * high / (end * end), harmonic + 1 / low + 1 / high
    return total


_ZETA = Elementwise(
    "differentiable_zeta", widened(torch.special.zeta), (_zeta_slope, lambda s, q: -s * _ZETA(s + 1, q))
)


def zeta(x: ArrayLike, q: ArrayLike | None = None) -> Array:
    """Return the Hurwitz zeta function, the sum of (n + q)^-x for n from 0 on.

    Raises `NotImplementedError` without q, as JAX does; Riemann's function is `zeta(x, 1)`.
    """
    if q is None:
        raise NotImplementedError("Riemann zeta function not implemented; pass q=1, or another q, for Hurwitz's.")
    (s, t), weak = promoted("zeta", x, q)
    check_accepted("zeta", s, 0, ops.FLOATING)
    return Array(_ZETA(s, t), weak)


def bernoulli(n: int) -> Array:
    """Return the Bernoulli numbers B_0 to B_n, with B_1 = -1/2. n is a concrete integer that is not negative."""
    count = operator.index(n)
    if count < 0:
        raise ValueError(f"n must be a non-negative integer, got {count}.")
    numbers = np.zeros(max(count, 2) + 1)
    numbers[:3] = 1, -1 / 2, 1 / 6
    # B_m = -B_(m-2) m (m - 1) / (4π²) ζ(m) / ζ(m - 2)
    order = np.arange(4, count + 1, 2, dtype=float)
    with np.errstate(over="ignore"):
        scale = np.cumprod(-order * (order - 1) / (4 * math.pi**2)) / math.pi**2
        zetas = 1 + (np.arange(2.0, 60.0)[:, None] ** -order).sum(0)
    numbers[4::2] = scale * zetas
    return asarray(numbers[: count + 1], dtype=float)
