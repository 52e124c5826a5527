"""The Faddeeva function w(z) = exp(-z²) erfc(-iz).

J. A. C. Weideman, "Computation of the complex error function", SIAM Journal on Numerical Analysis 31 (1994): in the
upper half plane w is a polynomial in (L + iz)/(L - iz), whose coefficients are the Fourier series of a Gaussian. In the
lower half plane w(z) = 2 exp(-z²) - w(-z).
"""

import math

import numpy as np
import torch
from torch import Tensor

_TERMS = 32
_SCALE = math.sqrt(_TERMS / math.sqrt(2))


def _coefficients() -> list[float]:
    angles = np.arange(-2 * _TERMS + 1, 2 * _TERMS) * math.pi / (2 * _TERMS)
    t = _SCALE * np.tan(angles / 2)
    samples = np.exp(-t * t) * (_SCALE**2 + t * t)
    series = np.fft.fft(np.fft.fftshift(np.concatenate([[0.0], samples]))).real / (4 * _TERMS)
    return series[1 : _TERMS + 1].tolist()[::-1]


_COEFFICIENTS = _coefficients()


def faddeeva(z: Tensor) -> Tensor:
    """Return w(z) of a complex tensor."""
    lower = z.imag < 0
    iz = torch.where(lower, -z, z) * 1j
    inverse = 1 / (_SCALE - iz)
    ratio = (_SCALE + iz) * inverse
    total = torch.full_like(ratio, _COEFFICIENTS[0])
    for c in _COEFFICIENTS[1:]:
        total = total * ratio + c
    upper = (2 * total * inverse + 1 / math.sqrt(math.pi)) * inverse
    return torch.where(lower, 2 * torch.exp(-z * z) - upper, upper)
