"""The Poisson distribution."""

import math

import torch
from torch import Tensor

from ..._core.array import Array, tensor_of
from ..._core.dimensions import broadcast_shape
from ..._core.promotion import promote_inexact
from ..._core.typing import ArrayLike
from ..._lax.autodiff_barriers import stop_gradient
from ..._numpy.elementary import exp
from ..._numpy.rounding import floor, round
from ..._numpy.selection import where
from ..special.entropy import xlogy
from ..special.gamma import gammaincc, gammaln
from ..special.operands import promoted_arrays


def logpmf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Return the logarithm of the probability of `k - loc`; minus infinity where k is not whole."""
    k, mu, loc = promoted_arrays("poisson.logpmf", k, mu, loc)
    x = k - loc
    return where((x < 0) | (round(k) != k), -math.inf, xlogy(x, mu) - gammaln(x + 1) - mu)


def pmf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Return the probability of `k - loc`."""
    return exp(logpmf(k, mu, loc))


def cdf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Return the probability of at most `k - loc`."""
    k, mu, loc = promoted_arrays("poisson.cdf", k, mu, loc)
    x = k - loc
    return where(x < 0, 0.0, gammaincc(floor(stop_gradient(1 + x)), mu))


_LARGE = 100  # from here on, the entropy by its asymptotic series
_TERMS = 250  # of the sum below: the probability of more is beyond double precision


def entropy(mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Return the entropy in nats, which does not depend on `loc` but for the shape."""
    (mean, offset), _ = promote_inexact("poisson.entropy", mu, loc)
    shape = broadcast_shape(mean.shape, offset.shape)
    large = mean >= _LARGE
    plain = torch.where(large | (mean == 0), 1.0, mean)
    series = 0.5 * torch.log(2 * math.pi * math.e * mean) - 1 / (12 * mean)
    found = torch.where(large, series, torch.where(mean == 0, 0.0, _sum(plain)))
    return Array(found.broadcast_to(shape))


def _sum(mean: Tensor) -> Tensor:
    k = torch.arange(_TERMS, dtype=mean.dtype, device=mean.device)
    logarithm = tensor_of(logpmf(Array(k), Array(mean[..., None])))
    return -(torch.exp(logarithm) * logarithm).sum(-1)
