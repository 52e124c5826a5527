"""Incomplete beta and gamma functions that torch has no kernel for, on plain tensors, in float64.

Their loops run until all elements have converged, which depends on values: compiled code calls them as one operator.
Sources: Press et al., Numerical Recipes, 6.2 (series and continued fraction of the incomplete gamma function) and 6.4
(continued fraction of the incomplete beta function), with Lentz's method as modified by Thompson and Barnett;
derivatives with respect to the first parameter by differentiating the recurrences.
"""

import torch
from torch import Tensor

from .iteration import nonzero, until_settled

_EPS = 1e-16


def _gamma_series(a: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return S = 1 + x/(a+1) + x²/((a+1)(a+2)) + ... and dS/da."""

    def step(
        n: Tensor, term: Tensor, total: Tensor, harmonic: Tensor, slope: Tensor, a: Tensor, x: Tensor
    ) -> list[Tensor]:
        term = term * x / (a + n)
        harmonic = harmonic + 1 / (a + n)
        total, slope = total + term, slope - term * harmonic
        return [term, total, harmonic, slope, term * (1 + harmonic) > _EPS * total]

    one, zero = torch.ones_like(x), torch.zeros_like(x)
    _, total, _, slope = until_settled(step, [one, one, zero, zero], [a, x])
    return total, slope


def _gamma_fraction(a: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the continued fraction h of the upper incomplete gamma function, and dh/da."""

    def step(
        i: Tensor, b: Tensor, c: Tensor, c_slope: Tensor, d: Tensor, d_slope: Tensor, h: Tensor, h_slope: Tensor,
        a: Tensor,
    ) -> list[Tensor]:  # fmt: skip
        an = -i * (i - a)
        b = b + 2
        inverse, inverse_slope = nonzero(an * d + b), i * d + an * d_slope - 1
        new_c = nonzero(b + an / c)
        c_slope = -1 + (i * c - an * c_slope) / (c * c)
        c = new_c
        d = 1 / inverse
        d_slope = -inverse_slope * d * d
        delta, delta_slope = c * d, c_slope * d + c * d_slope
        unsettled = ((delta - 1).abs() > _EPS * 10) | (delta_slope.abs() > _EPS * 10)
        return [b, c, c_slope, d, d_slope, h * delta, h_slope * delta + h * delta_slope, unsettled]

    b = x + 1 - a
    d = 1 / nonzero(b)
    state = [b, torch.full_like(x, 1e300), torch.zeros_like(x), d, d * d, d, d * d]
    *_, h, h_slope = until_settled(step, state, [a])
    return h, h_slope


def _gamma_parts(a: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return -dP/da divided by the density, log of the density, where x is zero, where the result is undefined."""
    undefined = (x < 0) | (a <= 0) | (a != a) | (x != x)
    zero = x == 0
    usable = ~undefined & ~zero & torch.isfinite(x) & torch.isfinite(a)
    above = (x > 1) & (x > a)
    low_a, low_x = torch.where(usable & ~above, a, 1.0), torch.where(usable & ~above, x, 0.5)
    high_a, high_x = torch.where(usable & above, a, 1.0), torch.where(usable & above, x, 2.0)
    s, s_slope = _gamma_series(low_a, low_x)
    low = -(low_x / low_a) * (s * (torch.log(low_x) - torch.digamma(low_a + 1)) + s_slope)
    h, h_slope = _gamma_fraction(high_a, high_x)
    high = high_x * (h * (torch.log(high_x) - torch.digamma(high_a)) + h_slope)
    log_density = (a - 1) * torch.log(torch.where(zero, 1.0, x)) - x - torch.lgamma(a)
    return torch.where(above, high, low), log_density, zero, undefined


def _wide(*tensors: Tensor) -> list[Tensor]:
    return [t.double() for t in torch.broadcast_tensors(*tensors)]


def igamma_grad_a(a: Tensor, x: Tensor) -> Tensor:
    """Return dP(a, x)/da of the regularized lower incomplete gamma function."""
    wide_a, wide_x = _wide(a, x)
    ratio, log_density, zero, undefined = _gamma_parts(wide_a, wide_x)
    slope = torch.where(zero | torch.isinf(wide_x), 0.0, -ratio * torch.exp(log_density))
    return torch.where(undefined, torch.nan, slope).to(a.dtype)


def random_gamma_grad(a: Tensor, x: Tensor) -> Tensor:
    """Return dx/da of a sample x of Gamma(a, 1) at a fixed quantile."""
    wide_a, wide_x = _wide(a, x)
    ratio, _, zero, undefined = _gamma_parts(wide_a, wide_x)
    return torch.where(undefined, torch.nan, torch.where(zero, 0.0, ratio)).to(a.dtype)


def betainc(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    """Return the regularized incomplete beta function."""
    wide_a, wide_b, wide_x = _wide(a, b, x)
    undefined = (wide_a < 0) | (wide_b < 0) | (wide_x < 0) | (wide_x > 1)
    undefined = undefined | (wide_a != wide_a) | (wide_b != wide_b) | (wide_x != wide_x)
    # All of the distribution at 1, or at 0; for a = b = 0 and a = b = inf it is at neither.
    at_one, at_zero = (wide_b == 0) | torch.isinf(wide_a), (wide_a == 0) | torch.isinf(wide_b)
    undefined = undefined | (at_one & at_zero & (wide_a == wide_b))
    edge = (wide_x <= 0) | (wide_x >= 1) | at_one | at_zero
    p, q, z = (torch.where(undefined | edge, 0.5, t) for t in (wide_a, wide_b, wide_x))
    log_front = torch.lgamma(p + q) - torch.lgamma(p) - torch.lgamma(q) + p * torch.log(z) + q * torch.log1p(-z)
    swapped = z >= (p + 1) / (p + q + 2)
    p, q, z = torch.where(swapped, q, p), torch.where(swapped, p, q), torch.where(swapped, 1 - z, z)
    part = torch.exp(log_front) * _beta_fraction(p, q, z) / p
    found = torch.where(swapped, 1 - part, part)
    found = torch.where(edge, ((wide_x >= 1) | (at_zero & ~at_one & (wide_x > 0))).double(), found)
    return torch.where(undefined, torch.nan, found).to(a.dtype)


def _beta_fraction(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    def step(m: Tensor, c: Tensor, d: Tensor, h: Tensor, a: Tensor, b: Tensor, x: Tensor) -> list[Tensor]:
        delta = c
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / nonzero(1 + numerator * d)
            c = nonzero(1 + numerator / c)
            delta = c * d
            h = h * delta
        return [c, d, h, (delta - 1).abs() > _EPS * 10]

    d = 1 / nonzero(1 - (a + b) * x / (a + 1))
    return until_settled(step, [torch.ones_like(x), d, d], [a, b, x])[2]
