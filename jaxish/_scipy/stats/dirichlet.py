"""The Dirichlet distribution of points of a simplex."""

import math

import torch

from ..._core.array import Array, tensor_of
from ..._core.promotion import promote_inexact
from ..._core.typing import ArrayLike
from ..._numpy.elementary import exp
from ..special.entropy import xlogy

_SLACK = 1e-6  # of the sum of a point's coordinates


def logpdf(x: ArrayLike, alpha: ArrayLike) -> Array:
    """Return the logarithm of the density at x, whose coordinates are along its first axis.

    The last coordinate may be left out. Minus infinity outside the simplex.
    """
    (t, a), weak = promote_inexact("dirichlet.logpdf", x, alpha)
    if a.dim() != 1:
        raise ValueError(f"`alpha` must be one-dimensional; got alpha.shape={tuple(a.shape)}")
    if t.shape[0] not in (a.shape[0], a.shape[0] - 1):
        raise ValueError(
            "`x` must have either the same number of entries as `alpha` or one entry fewer; got "
            f"x.shape={tuple(t.shape)}, alpha.shape={tuple(a.shape)}"
        )
    if t.shape[0] != a.shape[0]:
        t = torch.cat([t, 1 - t.sum(0, keepdim=True)])
    column = a.reshape(-1, *[1] * (t.dim() - 1))
    powers = tensor_of(xlogy(Array(column - 1), Array(t))).sum(0)
    norm = torch.lgamma(a).sum() - torch.lgamma(a.sum())
    inside = (t > 0).all(0) & ((t.sum(0) - 1).abs() < _SLACK)
    return Array(torch.where(inside, powers - norm, -math.inf), weak)


def pdf(x: ArrayLike, alpha: ArrayLike) -> Array:
    """Return the density at x."""
    return exp(logpdf(x, alpha))
