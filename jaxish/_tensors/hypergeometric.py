"""Hypergeometric functions and exponential integrals, by series and fractions summed until they settle, in float64.

J. W. Pearson, S. Olver and M. A. Porter, "Numerical methods for the computation of the confluent and Gauss
hypergeometric functions", Numerical Algorithms 74 (2017), methods 3.2 (a), 3.3 and 4.2 (a); M. Abramowitz and I. A.
Stegun, Handbook of Mathematical Functions, 13.1.27 (Kummer), 13.5.1, 15.3.3 (Euler), 15.3.4 (Pfaff), 15.3.6; W. H.
Press et al., Numerical Recipes, 6.3 (exponential integrals).
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from .iteration import nonzero, until_settled

_EPS = 1e-16
_LONG = 20_000  # rounds: the series in x close to 1 converges slowly
_EULER = 0.57721566490153286
_BIG = 2.0**100


def _wide(*tensors: Tensor) -> list[Tensor]:
    return [t.double() for t in torch.broadcast_tensors(*tensors)]


def _product(factors: Sequence[Tensor]) -> Tensor:
    return math.prod(factors[1:], start=factors[0])


def _series(numerators: Sequence[Tensor], denominators: Sequence[Tensor], x: Tensor, slopes: bool) -> list[Tensor]:
    """Return sum_k (n1)_k ... / ((d1)_k ... k!) x^k, with `slopes` followed by its derivative in each parameter."""
    split = len(numerators)

    def step(k: Tensor, term: Tensor, total: Tensor, *rest: Tensor) -> list[Tensor]:
        *changing, x = rest
        sums = changing[: len(changing) - len(parameters)]
        above, below = changing[len(sums) :][:split], changing[len(sums) :][split:]
        previous = k - 1
        new = term * _product([p + previous for p in above]) * x / (k * _product([p + previous for p in below]))
        new = torch.where(term == 0, 0.0, new)  # the series has ended
        unsettled = new.abs() > _EPS * (total + new).abs()
        found = []
        # d(p)_k/dp = (p)_k sum_{j<k} 1/(p + j)
        for position, p in enumerate((*above, *below) if slopes else ()):
            harmonic, slope = sums[2 * position : 2 * position + 2]
            harmonic = harmonic + (1.0 if position < split else -1.0) / nonzero(p + previous)
            found += [harmonic, slope + new * harmonic]
            unsettled = unsettled | ((new * harmonic).abs() > _EPS * (slope + new * harmonic).abs())
        return [new, total + new, *found, unsettled & torch.isfinite(new)]

    parameters = (*numerators, *denominators)
    one, zero = torch.ones_like(x), torch.zeros_like(x)
    start = [one, one, *[zero] * (2 * len(parameters) if slopes else 0)]
    _, total, *sums = until_settled(step, start, [*parameters, x], _LONG)
    return [total, *sums[1::2]]


def _gamma_sign(x: Tensor) -> Tensor:
    return torch.where((x < 0) & (torch.remainder(torch.floor(x), 2) == 1), -1.0, 1.0)


def _gamma_ratio(above: Sequence[Tensor], below: Sequence[Tensor]) -> Tensor:
    """Return the product of Γ of the former over that of the latter."""
    log = sum((torch.lgamma(x) for x in above), -sum((torch.lgamma(x) for x in below), torch.zeros_like(above[0])))
    return _product([_gamma_sign(x) for x in (*above, *below)]) * torch.exp(log)


def _is_ending(a: Tensor) -> Tensor:
    return (a <= 0) & (a == torch.round(a))


# 1F1

_FAR = 100.0


def _kummer(a: Tensor, b: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return where 1F1(a, b, x) is found as exp(x) 1F1(b - a, b, -x), and the a and x to use."""
    turned = (x < 0) & ~_is_ending(a)
    return turned, torch.where(turned, b - a, a), torch.where(turned, -x, x)


def hyp1f1(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    """Return Kummer's confluent function; 1 for a = b = 0, infinite for other a at b = 0."""
    wide_a, wide_b, wide_x = _wide(a, b, x)
    turned, p, z = _kummer(wide_a, wide_b, wide_x)
    plain = (wide_a == 0) | (wide_a == wide_b) | (wide_b == 0)
    p, q, z = (torch.where(plain, 1.0, t) for t in (p, wide_b, z))
    far = z >= _FAR
    near = torch.exp(torch.where(turned, wide_x, 0.0)) * _series([p], [q], torch.where(far, 1.0, z), False)[0]
    tail = _asymptotic(p, q, torch.where(far, z, _FAR))
    found = torch.where(far, tail * torch.exp(torch.where(turned, 0.0, z)), near)
    found = torch.where(wide_a == wide_b, torch.exp(wide_x), torch.where(wide_b == 0, math.inf, found))
    return torch.where(wide_a == 0, 1.0, found).to(x.dtype)


def _asymptotic(a: Tensor, b: Tensor, z: Tensor) -> Tensor:
    """Return exp(-z) 1F1(a, b, z) for large z, by as many terms as get smaller."""

    def step(k: Tensor, term: Tensor, total: Tensor, a: Tensor, b: Tensor, z: Tensor) -> list[Tensor]:
        new = term * (b - a + k - 1) * (k - a) / (k * z)
        better = new.abs() < term.abs()
        new = torch.where(better, new, 0.0)
        return [new, total + new, new.abs() > _EPS * total.abs()]

    one = torch.ones_like(z)
    _, total = until_settled(step, [one, one], [a, b, z])
    return torch.where(_is_ending(a), 0.0, _gamma_ratio([b], [a]) * torch.exp((a - b) * torch.log(z)) * total)


def _hyp1f1_slopes(a: Tensor, b: Tensor, x: Tensor) -> list[Tensor]:
    wide_a, wide_b, wide_x = _wide(a, b, x)
    turned, p, z = _kummer(wide_a, wide_b, wide_x)
    _, in_a, in_b = _series([p], [wide_b], z, True)
    scale = torch.exp(torch.where(turned, wide_x, 0.0))
    in_b = scale * torch.where(turned, in_a + in_b, in_b)
    return [(scale * torch.where(turned, -in_a, in_a)).to(x.dtype), in_b.to(x.dtype)]


def hyp1f1_slope_a(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    """Return the derivative of `hyp1f1` in a."""
    return _hyp1f1_slopes(a, b, x)[0]


def hyp1f1_slope_b(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    """Return the derivative of `hyp1f1` in b."""
    return _hyp1f1_slopes(a, b, x)[1]


# 2F1


def _pfaff(a: Tensor, b: Tensor, x: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return where 2F1(a, b, c, x) is found as (1 - x)^-a 2F1(a, c - b, c, x/(x - 1)), and the b and x to use."""
    turned = (x < 0) & ~_is_ending(a) & ~_is_ending(b)
    return turned, torch.where(turned, c - b, b), torch.where(turned, x / (x - 1), x)


def hyp2f1(a: Tensor, b: Tensor, c: Tensor, x: Tensor) -> Tensor:
    """Return Gauss's function; infinite for c = 0, -1, ... and for x beyond 1 where the series does not end."""
    p, q, r, z = _wide(a, b, c, x)
    excess, rest = r - p - q, 1 - z
    ending = _is_ending(p) | _is_ending(q)
    at_one = (z == 1) & ~ending
    unbounded = _is_ending(r) | ((z > 1) & ~ending) | (at_one & (excess <= 0))
    usable = ~unbounded & ~at_one
    safe = [torch.where(usable, t, s) for t, s in zip((p, q, r, z), (0.5, 0.5, 1.5, 0.0), strict=True)]
    found = _gauss(*safe)
    found = torch.where(at_one, _gamma_ratio([r, excess], [r - p, r - q]), found)
    found = torch.where((z < 1) & (q == r), rest**-p, torch.where((z < 1) & (p == r), rest**-q, found))
    found = torch.where(unbounded, math.inf, found)
    return torch.where((z == 0) | (((p == 0) | (q == 0)) & (r != 0)), 1.0, found).to(x.dtype)


def _gauss(a: Tensor, b: Tensor, c: Tensor, x: Tensor) -> Tensor:
    turned, q, z = _pfaff(a, b, x, c)
    factor = torch.where(turned, 1 - x, 1.0) ** -a
    excess = c - a - q
    # Euler's transformation makes the series converge faster where the terms would grow.
    ending = _is_ending(a) | _is_ending(q)
    euler = (excess <= -1) & ~ending
    factor = factor * torch.where(euler, 1 - z, 1.0) ** excess
    p, q = torch.where(euler, c - a, a), torch.where(euler, c - q, q)
    excess = c - p - q
    close = (z > 0.9) & ~ending & ~_is_ending(p) & ~_is_ending(q) & ((excess - torch.round(excess)).abs() > 1e-3)
    direct = _series([p, q], [c], torch.where(close, 0.0, z), False)[0]
    p, q, r, excess, rest = (
        torch.where(close, t, s) for t, s in zip((p, q, c, excess, 1 - z), (0.5, 0.5, 1.5, 0.5, 0.1), strict=True)
    )
    near_one = _gamma_ratio([r, excess], [r - p, r - q]) * _series([p, q], [1 - excess], rest, False)[0]
    other = _gamma_ratio([r, -excess], [p, q]) * _series([r - p, r - q], [1 + excess], rest, False)[0]
    return factor * torch.where(close, near_one + rest**excess * other, direct)


def _hyp2f1_slopes(a: Tensor, b: Tensor, c: Tensor, x: Tensor) -> list[Tensor]:
    p, b, r, x_ = _wide(a, b, c, x)
    turned, q, z = _pfaff(p, b, x_, r)
    found, in_a, in_b, in_c = _series([p, q], [r], z, True)
    base = torch.where(turned, 1 - x_, 1.0)
    slopes = (in_a - torch.log(base) * found, torch.where(turned, -in_b, in_b), torch.where(turned, in_b, 0.0) + in_c)
    return [(base**-p * slope).to(x.dtype) for slope in slopes]


def hyp2f1_slope_a(a: Tensor, b: Tensor, c: Tensor, x: Tensor) -> Tensor:
    """Return the derivative of `hyp2f1` in a."""
    return _hyp2f1_slopes(a, b, c, x)[0]


def hyp2f1_slope_c(a: Tensor, b: Tensor, c: Tensor, x: Tensor) -> Tensor:
    """Return the derivative of `hyp2f1` in c."""
    return _hyp2f1_slopes(a, b, c, x)[2]


# Exponential integrals


def expn(n: Tensor, x: Tensor) -> Tensor:
    """Return the integral of exp(-x t)/t^n from 1 on, for whole n >= 0 and x >= 0; NaN elsewhere."""
    order, z = _wide(n, x)
    small = z <= 1
    usable = (order >= 0) & (z > 0) & torch.isfinite(z)
    near = _expn_series(torch.where(usable & small, order, 1.0), torch.where(usable & small, z, 1.0))
    far = torch.exp(-z) * _expn_fraction(torch.where(usable & ~small, order, 1.0), torch.where(usable & ~small, z, 2.0))
    found = torch.where(small, near, far)
    found = torch.where(order == 0, torch.exp(-z) / z, found)
    found = torch.where(z == 0, torch.where(order < 2, math.inf, 1 / (order - 1)), found)
    found = torch.where(z == math.inf, 0.0, found)
    return torch.where((order < 0) | (z < 0) | torch.isnan(z) | torch.isnan(order), math.nan, found).to(x.dtype)


def _expn_series(n: Tensor, x: Tensor) -> Tensor:
    last = n - 1
    first = torch.where(last == 0, -torch.log(x) - _EULER, 1 / torch.where(last == 0, 1.0, last))
    logarithm = torch.digamma(torch.where(n == 0, 1.0, n)) - torch.log(x)

    def step(i: Tensor, power: Tensor, total: Tensor, last: Tensor, logarithm: Tensor, x: Tensor) -> list[Tensor]:
        power = power * -x / i
        at = last == i
        term = power * torch.where(at, logarithm, -1 / torch.where(at, 1.0, i - last))
        return [power, total + term, term.abs() > _EPS * total.abs()]

    return until_settled(step, [torch.ones_like(x), first], [last, logarithm, x])[1]


def _expn_fraction(n: Tensor, x: Tensor) -> Tensor:
    """Return 1/(x + n/(1 + 1/(x + (n + 1)/(1 + 2/(x + ..., whose terms are all positive."""

    def step(i: Tensor, *state: Tensor) -> list[Tensor]:
        found, p, q, before_p, before_q, going, n, x = state
        middle_p, middle_q = p * x + before_p * i, q * x + before_q * i
        new_p, new_q = middle_p + p * (n + i), middle_q + q * (n + i)
        going = going & ((new_p / new_q - found).abs() > 2 * _EPS * found)  # later changes are rounding
        scale = torch.where(new_q > _BIG, 1 / _BIG, 1.0)
        new = [t * scale for t in (new_p, new_q, middle_p, middle_q)]
        return [torch.where(going, new_p / new_q, found), *new, going, going]

    one = torch.ones_like(x)
    return until_settled(step, [1 / (x + n), one, x + n, one, x, x > 0], [n, x])[0]
