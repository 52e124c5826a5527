"""The inverse error function, by the polynomials that XLA uses, so that normal random numbers are JAX's.

M. Giles, "Approximating the erfinv function", GPU Computing Gems Jade Edition (2011): one polynomial in
w = -log(1 - x^2) around the centre and one in sqrt(w) for the tails; for double precision three.
torch.erfinv differs by up to 93 units in the last place, and Inductor does not vectorise it on the CPU.
"""

import math

import torch
from torch import Tensor

_SINGLE = (
    (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503, -0.00417768164,
     0.246640727, 1.50140941),
    (-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047,
     1.00167406, 2.83297682),
)  # fmt: skip


def erf_inv_tensor(x: Tensor) -> Tensor:
    """Return the x' with erf(x') = x, for a floating tensor; infinities at -1 and 1, NaN outside."""
    if x.dtype is torch.float64:
        return torch.special.erfinv(x)
    if x.dtype is not torch.float32:
        return erf_inv_tensor(x.float()).to(x.dtype)
    w = -torch.log1p(x * -x)
    central = w < 5.0
    u = torch.where(central, w - 2.5, torch.sqrt(torch.where(central, 5.0, w)) - 3.0)
    p = torch.where(central, *(torch.full_like(x, c[0]) for c in _SINGLE))
    for middle, tail in zip(*(c[1:] for c in _SINGLE), strict=True):
        p = torch.where(central, middle, tail) + p * u
    return torch.where(x.abs() == 1.0, x * math.inf, p * x)
