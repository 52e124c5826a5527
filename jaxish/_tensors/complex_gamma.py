"""The logarithm of the gamma function of complex numbers, by its principal branch.

D. E. G. Hare, "Computing the principal branch of log-Gamma", Journal of Algorithms 25 (1997): Stirling's series far to
the right, the recurrence to get there, the reflection formula on the left.
"""

import math

import torch
from torch import Tensor

# B_2k / (2k (2k - 1)) of Stirling's series, k from 1 on.
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400)
_SHIFT = 8


def stirling_remainder(x: Tensor) -> Tensor:
    """Return log Γ(x) - ((x - 1/2) log x - x + log(2π)/2), for real parts of at least 8."""
    inverse = 1 / x
    square = inverse * inverse
    total = torch.full_like(x, _STIRLING[-1])
    for c in reversed(_STIRLING[:-1]):
        total = total * square + c
    return total * inverse


def _log_sine_of_pi(z: Tensor) -> Tensor:
    """Return the logarithm of sin(πz) for a real part of 0 to 1, without overflow in the imaginary direction."""
    x, y = z.real * math.pi, z.imag * math.pi
    size = y.abs()
    shrunk = torch.exp(-2 * size)
    scaled = torch.complex(torch.sin(x) * (1 + shrunk) / 2, -torch.cos(x) * torch.sign(y) * torch.expm1(-2 * size) / 2)
    return torch.log(scaled) + size


def log_gamma(z: Tensor) -> Tensor:
    """Return log Γ(z), with its only cut on the negative real axis; NaN at the poles."""
    x = z.real
    is_pole = (z.imag == 0) & (x <= 0) & (x == torch.floor(x))
    unusable = is_pole | torch.isnan(z)
    reflected = x < 0.5
    right = torch.where(unusable, 1.0, torch.where(reflected, 1 - z, z))
    shifts = sum((torch.log(right + k) for k in range(1, _SHIFT)), torch.log(right))
    far = right + _SHIFT
    found = (far - 0.5) * torch.log(far) - far + 0.5 * math.log(2 * math.pi) + stirling_remainder(far) - shifts
    # sin(πz) of the part of z between 0 and 1; how often the logarithm went around follows from the rest.
    whole = torch.floor(x)
    side = torch.where(torch.signbit(z.imag), -1.0, 1.0).to(x.dtype)
    turned = torch.complex(torch.zeros_like(x), math.pi * whole * side)
    mirrored = math.log(math.pi) - _log_sine_of_pi(torch.complex(x - whole, z.imag)) + turned - found
    return torch.where(unusable, complex(math.nan, math.nan), torch.where(reflected, mirrored, found))
