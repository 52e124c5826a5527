"""The normal distribution of vectors."""

import math

import torch

from ..._core.array import Array, tensor_of
from ..._core.dimensions import broadcast_shape
from ..._core.promotion import promote_inexact
from ..._core.typing import ArrayLike
from ..._lax.linalg.factorizations import cholesky
from ..._numpy.arguments import check_shapes
from ..._numpy.elementary import exp


def logpdf(x: ArrayLike, mean: ArrayLike, cov: ArrayLike, allow_singular: None = None) -> Array:
    """Return the logarithm of the density at vectors x, along their last axis.

    `cov` is a covariance matrix, or the variance of all coordinates; a mean that is a number is that of numbers x. NaN
    where the matrix is not positive definite.
    """
    if allow_singular is not None:
        raise NotImplementedError("allow_singular argument of multivariate_normal.logpdf")
    (t, centre, spread), weak = promote_inexact("multivariate_normal.logpdf", x, mean, cov)
    size = centre.shape[-1] if centre.dim() else 1
    if centre.dim() and spread.dim() and (spread.dim() < 2 or spread.shape[-2:] != (size, size)):
        raise ValueError("multivariate_normal.logpdf got incompatible shapes")
    check_shapes("sub", t, centre)
    rest = t - centre
    if not centre.dim():
        return Array(-0.5 * (rest.square() / spread + math.log(2 * math.pi) + torch.log(spread)), weak)
    if not spread.dim():
        norm = size / 2 * (math.log(2 * math.pi) + torch.log(spread))
        return Array(-0.5 * rest.square().sum(-1) / spread - norm, weak)
    factor = tensor_of(cholesky(Array(spread)))
    batch = broadcast_shape(factor.shape[:-2], rest.shape[:-1])
    factor, rest = factor.expand(*batch, size, size), rest.expand(*batch, size)
    scaled = torch.linalg.solve_triangular(factor, rest[..., None], upper=False)[..., 0]
    logarithm = torch.log(factor.diagonal(dim1=-2, dim2=-1)).sum(-1)
    return Array(-0.5 * scaled.square().sum(-1) - size / 2 * math.log(2 * math.pi) - logarithm, weak)


def pdf(x: ArrayLike, mean: ArrayLike, cov: ArrayLike) -> Array:
    """Return the density at vectors x."""
    return exp(logpdf(x, mean, cov))
