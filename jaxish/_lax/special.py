"""Special functions of lax: error, gamma, beta, zeta and Bessel functions of floating operands."""

import math
from typing import Any

import torch
from torch import Tensor

from .._core.array import Array
from .._core.typing import ArrayLike
from .._tensors import chebyshev, incomplete
from .._tensors.elementwise import Elementwise, NoSlope, compiled_when_long, widened
from .._tensors.inverse_error_function import erf_inv_tensor
from . import operands as ops
from .operands import operand, operands

# Error functions


def erf(x: ArrayLike) -> Array:
    """Return the error function."""
    t, weak = operand("erf", x, ops.FLOATING)
    return Array(torch.erf(t), weak)


def erfc(x: ArrayLike) -> Array:
    """Return 1 - erf(x), accurate for large x."""
    t, weak = operand("erfc", x, ops.FLOATING)
    return Array(widened(torch.erfc)(t), weak)


def erf_inv(x: ArrayLike) -> Array:
    """Return the inverse of the error function: infinite at -1 and 1, NaN beyond."""
    t, weak = operand("erf_inv", x, ops.FLOATING)
    return Array(inverse_erf(t), weak)


inverse_erf = Elementwise(
    "erf_inv", erf_inv_tensor, (lambda x: math.sqrt(math.pi) / 2 * torch.exp(torch.square(inverse_erf(x))),),
    is_long=True,
)  # fmt: skip


# Gamma functions


def lgamma(x: ArrayLike) -> Array:
    """Return the logarithm of the absolute value of the gamma function."""
    t, weak = operand("lgamma", x, ops.FLOATING)
    return Array(_LOG_GAMMA(t), weak)


def digamma(x: ArrayLike) -> Array:
    """Return the derivative of lgamma; NaN at zero and the negative integers."""
    t, weak = operand("digamma", x, ops.FLOATING)
    return Array(psi(t), weak)


def _psi(t: Tensor) -> Tensor:
    return torch.where((t <= 0) & (t == torch.floor(t)), math.nan, torch.digamma(t))


def _psi_slope(t: Tensor) -> Tensor:
    return torch.where((t <= 0) & (t == torch.floor(t)), math.inf, torch.special.polygamma(1, t))


psi = Elementwise("digamma", compiled_when_long(_psi, least=512), (_psi_slope,))  # of a tensor
_LOG_GAMMA = Elementwise("lgamma", torch.lgamma, (lambda x: psi(x),))


def _polygamma(m: Tensor, x: Tensor) -> Tensor:
    m, x = torch.broadcast_tensors(m, x)
    order = m + 1
    sign = 1 - 2 * torch.remainder(order, 2)
    higher = sign * torch.exp(torch.lgamma(order)) * torch.special.zeta(order, x)
    found = torch.where(m == 0, psi(x), higher)
    return torch.where((m < 0) | (m != torch.floor(m)), math.nan, found)


_POLYGAMMA = Elementwise(
    "polygamma",
    widened(_polygamma),
    (NoSlope("polygamma gradient with respect to m is not supported"), lambda m, x: _POLYGAMMA(m + 1, x)),
)


def polygamma(m: ArrayLike, x: ArrayLike) -> Array:
    """Return the m-th derivative of digamma, m a floating array of whole numbers. The derivative in m is NaN."""
    (a, b), weak = operands("polygamma", ops.FLOATING, m, x)
    return Array(_POLYGAMMA(a, b), weak)


def _gamma_density(a: Tensor, x: Tensor) -> Tensor:
    return torch.exp(-x + (a - 1) * torch.log(x) - torch.lgamma(a))


_IGAMMA_GRAD_A = Elementwise("igamma_grad_a", incomplete.igamma_grad_a, None, is_opaque=True)
gamma_slope = Elementwise("random_gamma_grad", incomplete.random_gamma_grad, None, is_opaque=True)


def _lower_gamma(a: Tensor, x: Tensor) -> Tensor:
    # torch's values at a = 0, a = inf and NaN differ from XLA's.
    found = torch.where(torch.isinf(x), 1.0, torch.where((a == 0) & (x > 0), 1.0, torch.special.gammainc(a, x)))
    return torch.where(_outside(a, x) | (torch.isinf(a) & torch.isfinite(x) & (x > 0)), math.nan, found)


def _upper_gamma(a: Tensor, x: Tensor) -> Tensor:
    found = torch.where(torch.isinf(x) | (a == 0), 0.0, torch.special.gammaincc(a, x))
    return torch.where(_outside(a, x) | (torch.isinf(a) & torch.isfinite(x) & (x > 0)), math.nan, found)


def _outside(a: Tensor, x: Tensor) -> Tensor:
    return (a < 0) | (x < 0) | ((a == 0) & (x == 0)) | torch.isnan(a) | torch.isnan(x)


_IGAMMA = Elementwise("igamma", widened(_lower_gamma), (_IGAMMA_GRAD_A, _gamma_density))
_IGAMMAC = Elementwise(
    "igammac",
    widened(_upper_gamma),
    (lambda a, x: -_IGAMMA_GRAD_A(a, x), lambda a, x: -_gamma_density(a, x)),
)


def igamma(a: ArrayLike, x: ArrayLike) -> Array:
    """Return the regularized lower incomplete gamma function; NaN for a < 0, x < 0 or a = x = 0."""
    (p, t), weak = operands("igamma", ops.FLOATING, a, x)
    return Array(_IGAMMA(p, t), weak)


def igammac(a: ArrayLike, x: ArrayLike) -> Array:
    """Return the regularized upper incomplete gamma function; NaN for a < 0, x < 0 or a = x = 0."""
    (p, t), weak = operands("igammac", ops.FLOATING, a, x)
    return Array(_IGAMMAC(p, t), weak)


def igamma_grad_a(a: ArrayLike, x: ArrayLike) -> Array:
    """Return the derivative of `igamma` with respect to a. Not differentiable."""
    (p, t), weak = operands("igamma_grad_a", ops.FLOATING, a, x)
    return Array(_IGAMMA_GRAD_A(p, t), weak)


def random_gamma_grad(*args: Any) -> Array:
    """Return dx/da of samples x of Gamma(a, 1), for arrays a and x that broadcast. Not differentiable."""
    a, x = args
    if not hasattr(a, "shape") or not hasattr(x, "shape"):
        raise AttributeError("random_gamma_grad takes arrays; make an array of a scalar with jnp.asarray.")
    (p, t), _ = operands("random_gamma_grad", ops.FLOATING, a, x)
    return Array(gamma_slope(p, t), False)


# Beta, zeta and Bessel functions


def _beta_density(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    log_beta = torch.lgamma(a) + torch.lgamma(b) - torch.lgamma(a + b)
    return torch.exp((b - 1) * torch.log1p(-x) + (a - 1) * torch.log(x) - log_beta)


_NO_BETA_SLOPE = NoSlope("Betainc gradient with respect to a and b not supported.")
_BETAINC = Elementwise("betainc", incomplete.betainc, (_NO_BETA_SLOPE, _NO_BETA_SLOPE, _beta_density), is_opaque=True)


def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """Return the regularized incomplete beta function. Its derivatives in a and b are NaN in reverse mode, and refused
    in forward mode (`ValueError`).
    """
    (p, q, t), weak = operands("regularized_incomplete_beta", ops.FLOATING, a, b, x)
    return Array(_BETAINC(p, q, t), weak)


_ZETA = Elementwise("zeta", widened(torch.special.zeta), None)


def zeta(x: ArrayLike, q: ArrayLike) -> Array:
    """Return the Hurwitz zeta function. Not differentiable."""
    (s, t), weak = operands("zeta", ops.FLOATING, x, q)
    return Array(_ZETA(s, t), weak)


def bessel_i0e(x: ArrayLike) -> Array:
    """Return exp(-|x|) times the modified Bessel function of order 0."""
    t, weak = operand("bessel_i0e", x, ops.FLOATING)
    return Array(_I0E(t), weak)


def bessel_i1e(x: ArrayLike) -> Array:
    """Return exp(-|x|) times the modified Bessel function of order 1."""
    t, weak = operand("bessel_i1e", x, ops.FLOATING)
    return Array(_I1E(t), weak)


def _i1e_slope(x: Tensor) -> Tensor:
    tiny = x.abs() <= torch.finfo(x.dtype).eps
    safe = torch.where(tiny, torch.finfo(x.dtype).eps, x)
    return torch.where(tiny, 0.5, _I0E(safe) - _I1E(safe) * (torch.sign(safe) + 1 / safe))


_I0E = Elementwise(
    "bessel_i0e", widened(chebyshev.bessel_i0e), (lambda x: _I1E(x) - torch.sign(x) * _I0E(x),), is_long=True
)
_I1E = Elementwise("bessel_i1e", widened(chebyshev.bessel_i1e), (_i1e_slope,), is_long=True)
