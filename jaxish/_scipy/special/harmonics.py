"""Bessel functions and spherical harmonics."""

import math
import operator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..._core.array import Array, as_array, tensor_of
from ..._core.promotion import convert
from ..._core.typing import ArrayLike
from ..._lax import operands as ops
from ..._lax import special as lax
from ..._lax.control_flow.while_loop import fori_loop
from ..._lax.operands import check_accepted
from ..._transforms.repeated import compiled_when_repeated
from .operands import promoted, promoted_arrays


@compiled_when_repeated
def i0e(x: ArrayLike) -> Array:
    """Return exp(-|x|) times the modified Bessel function of order 0."""
    return lax.bessel_i0e(*promoted_arrays("i0e", x))


def i1e(x: ArrayLike) -> Array:
    """Return exp(-|x|) times the modified Bessel function of order 1."""
    return lax.bessel_i1e(*promoted_arrays("i1e", x))


@compiled_when_repeated
def i0(x: ArrayLike) -> Array:
    """Return the modified Bessel function of order 0."""
    (t,) = promoted_arrays("i0", x)
    return lax.bessel_i0e(t) * Array(torch.exp(tensor_of(t).abs()), t.weak_type)


@compiled_when_repeated
def i1(x: ArrayLike) -> Array:
    """Return the modified Bessel function of order 1."""
    (t,) = promoted_arrays("i1", x)
    return lax.bessel_i1e(t) * Array(torch.exp(tensor_of(t).abs()), t.weak_type)


def bessel_jn(z: ArrayLike, *, v: int, n_iter: int = 50) -> Array:
    """Return the Bessel functions J of orders 0 to v at real z, stacked along a new first dimension.

    By Miller's backward recurrence from order `n_iter` on (Zhang and Jin, Computation of Special Functions, 1996,
    5.2), which has to be the larger the larger |z| is.
    """
    (t,), _ = promoted("bessel_jn", z)
    check_accepted("bessel_jn", t, 0, ops.FLOATING)
    orders, steps = operator.index(v), operator.index(n_iter)
    above, current, evens = torch.zeros_like(t), torch.full_like(t, 1e-16), torch.zeros_like(t)
    found: list[Tensor] = []
    for k in range(steps, -1, -1):
        above, current = current, 2 * (k + 1) * current / t - above
        evens = evens + 2 * current if k % 2 == 0 else evens
        found.append(current)
    # J_0 + 2 (J_2 + J_4 + ...) = 1
    return Array(torch.stack(found[: -orders - 2 : -1]) / (evens - current), False)


def sph_harm_y(
    n: ArrayLike, m: ArrayLike, theta: ArrayLike, phi: ArrayLike, diff_n: int | None = None, n_max: int | None = None
) -> Array:
    """Return the spherical harmonics of degrees n and orders m, |m| <= n, at polar angles theta and azimuths phi.

    `n_max` bounds the degrees (larger ones are taken for it): by default the largest of n, which has to be concrete.
    Raises `NotImplementedError` for `diff_n`: use `jax.jacfwd` for derivatives.
    """
    if diff_n is not None:
        raise NotImplementedError(
            "The 'diff_n' argument to jax.scipy.special.sph_harm_y is not supported; differentiate with jax.jacfwd."
        )
    highest = int(np.max(np.asarray(n))) if n_max is None else operator.index(n_max)
    (polar, azimuth), _ = promoted("sph_harm_y", theta, phi)
    degree, order = (convert(tensor_of(as_array(i)), polar.dtype) for i in (n, m))
    polar = polar.reshape(1) if polar.dim() == 0 else polar
    size = order.abs()
    legendre = _legendre(degree.clamp(max=highest), size, polar, highest)
    angle = size * azimuth
    found = torch.complex(legendre * torch.cos(angle), legendre * torch.sin(angle))
    mirrored = found.conj() * (1 - 2 * torch.remainder(size, 2))
    return Array(torch.where(order < 0, mirrored, found), False)


def _legendre(degree: Tensor, order: Tensor, polar: Tensor, highest: int) -> Tensor:
    """Return the associated Legendre functions of cos(polar), normalised for spherical harmonics.

    From the diagonal upwards in the degree (Press et al., Numerical Recipes, 6.7), all orders at once.
    """
    degree, order, polar = torch.broadcast_tensors(degree, order, polar)
    # What a loop's body takes from outside are arrays.
    outside = [Array(t, False) for t in (torch.cos(polar), torch.sin(polar), degree, order)]

    def step(index: Any, carry: Any) -> Any:
        before, now, diagonal, found = map(tensor_of, carry)
        x, s, degree, order = map(tensor_of, outside)
        m2 = order * order
        k = convert(tensor_of(index), x.dtype)
        rises = k > order
        k2 = torch.where(rises, k * k, m2 + 1)
        below = torch.where(rises, (k - 1).square(), 0.0)
        a = torch.sqrt((4 * k2 - 1) / (k2 - m2))
        b = torch.sqrt(torch.where(below > m2, (below - m2) / (4 * below - 1), 0.0))
        new = torch.where(k == order, diagonal, torch.where(rises, a * (x * now - b * before), 0.0))
        onward = -diagonal * s * torch.sqrt(1 + 0.5 / (k + 1))
        return tuple(Array(t, False) for t in (now, new, onward, torch.where(k == degree, new, found)))

    zero = torch.zeros_like(polar)
    start = (zero, zero, torch.full_like(polar, 0.5 / math.sqrt(math.pi)), zero)
    return tensor_of(fori_loop(0, highest + 1, step, tuple(Array(t, False) for t in start))[3])
