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
from ..._jaxprs.context import concrete_or_error
from ..._lax import operands as ops
from ..._lax import special as lax
from ..._lax.control_flow.while_loop import fori_loop
from ..._lax.operands import check_accepted
from ..._transforms.repeated import compiled_when_repeated
from .operands import promoted, promoted_arrays, single_or_double


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
    legendre = _legendre(degree.clamp(max=highest), size, torch.cos(polar), torch.sin(polar), highest)
    angle = size * azimuth
    found = torch.complex(legendre * torch.cos(angle), legendre * torch.sin(angle))
    mirrored = found.conj() * (1 - 2 * torch.remainder(size, 2))
    return Array(torch.where(order < 0, mirrored, found), False)


def lpmn_values(m: int, n: int, z: ArrayLike, is_normalized: bool) -> Array:
    """Return the associated Legendre functions of orders and degrees to m = n at points z, as (order, degree, point).

    Normalised, they are those of spherical harmonics. Raises `NotImplementedError` where m and n differ, `ValueError`
    unless z has one dimension, and `TypeError` unless its dtype is float32 or float64.
    """
    points, highest = _points_and_degree(m, n, z)
    degree = torch.arange(highest + 1, dtype=points.dtype, device=points.device)[:, None]
    values = _legendre(degree, degree[:, None], points, torch.sqrt(1 - points * points), highest)
    if is_normalized:
        return Array(values, False)
    # Their ratio, the root of 4 pi / (2 l + 1) (l + m)! / (l - m)!, in double precision from one order to the next.
    degrees, orders = np.arange(highest + 1.0), np.arange(highest)[:, None]
    steps = np.sqrt(np.maximum((degrees + orders + 1) * (degrees - orders), 0))
    with np.errstate(over="ignore", invalid="ignore"):
        ratio = np.cumprod(np.vstack([np.sqrt(4 * math.pi / (2 * degrees + 1)), steps]), 0)
    return Array(values * torch.as_tensor(ratio, dtype=points.dtype, device=points.device)[:, :, None], False)


def lpmn(m: int, n: int, z: ArrayLike) -> tuple[Array, Array]:
    """Return the associated Legendre functions of orders and degrees to m = n at points z, and their derivatives.

    Raises what `lpmn_values` does.
    """
    values = lpmn_values(m, n, z, False)
    points, p = _points_and_degree(m, n, z)[0], tensor_of(values)
    highest = len(p) - 1
    degree = torch.arange(highest + 1, dtype=p.dtype, device=p.device)[:, None]
    order = torch.arange(1, highest + 2, dtype=p.dtype, device=p.device)[:, None, None]
    # Of higher orders, and of degrees that are less by one: zeros follow and precede what there is.
    more = torch.nn.functional.pad(p, (0, 0, 0, 0, 0, 2))
    lower = torch.nn.functional.pad(more, (0, 0, 1, 0))[:, :-1]
    # The functions by the root of 1 - z^2, from order 1 on, without a division: it is 0 at the ends.
    quotients = (lower[2:] + (degree + order - 1) * (degree + order) * lower[:-2]) / (-2 * order)
    first = torch.where(degree > 0, (degree * (degree + 1) * p[0] - more[2]) / torch.sqrt(1 - points * points), 0)
    rising = order[1:-1]
    higher = (degree + rising) * (degree - rising + 1) * quotients[:-2] - quotients[2:]
    derivatives = torch.cat([-2 * quotients[:1], first[None], higher])[: highest + 1] / 2
    return values, Array(derivatives, False)


def _points_and_degree(m: int, n: int, z: ArrayLike) -> tuple[Tensor, int]:
    """Return the points and the highest degree, checked. Raises what `lpmn_values` does."""
    points, _ = single_or_double(z)
    if points.dim() != 1:
        raise ValueError(f"z must be a 1D array, not one of {points.dim()} dimensions.")
    order, degree = (concrete_or_error(int, k, "The orders and degrees of lpmn must be known.") for k in (m, n))
    if order != degree:
        raise NotImplementedError(f"lpmn computes as many orders as degrees: {m=} and {n=} differ.")
    return points, degree


def _legendre(degree: Tensor, order: Tensor, cosine: Tensor, sine: Tensor, highest: int) -> Tensor:
    """Return the associated Legendre functions at a cosine, normalised for spherical harmonics.

    From the diagonal upwards in the degree (Press et al., Numerical Recipes, 6.7), all orders at once.
    """
    # What a loop's body takes from outside are arrays.
    outside = [Array(t, False) for t in torch.broadcast_tensors(cosine, sine, degree, order)]

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

    zero = torch.zeros_like(tensor_of(outside[0]))
    start = (zero, zero, torch.full_like(zero, 0.5 / math.sqrt(math.pi)), zero)
    return tensor_of(fori_loop(0, highest + 1, step, tuple(Array(t, False) for t in start))[3])
