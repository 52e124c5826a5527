"""The multinomial distribution: how often each of several outcomes comes in n trials."""

import math

import torch

from ..._core import dtypes
from ..._core.array import Array, tensor_of
from ..._core.promotion import convert, promote, promote_inexact
from ..._core.typing import ArrayLike
from ..._numpy.elementary import exp
from ..special.entropy import xlogy


def logpmf(x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Array:
    """Return the logarithm of the probability of the counts x, along their last axis, for outcomes of probabilities p.

    x and n are integers. Minus infinity where the counts do not add up to n.
    """
    (chance,), _ = promote_inexact("multinomial.logpmf", p)
    (counts, trials), _ = promote("multinomial.logpmf", x, n)
    if counts.is_floating_point() or counts.is_complex() or counts.dtype is torch.bool:
        dtype = dtypes.TO_NUMPY[counts.dtype]
        raise ValueError(f"x and n must be of integer type; got x.dtype={dtype}, n.dtype={dtype}")
    counts, trials = convert(counts, chance.dtype), convert(trials, chance.dtype)
    powers = tensor_of(xlogy(Array(counts), Array(chance))) - torch.lgamma(counts + 1)
    found = torch.lgamma(trials + 1) + powers.sum(-1)
    return Array(torch.where(counts.sum() == trials, found, -math.inf))


def pmf(x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Array:
    """Return the probability of the counts x."""
    return exp(logpmf(x, n, p))
