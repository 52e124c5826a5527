"""Estimates of densities by sums of Gaussians."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..._core import dtypes
from ..._core.array import Array, as_array, check_arraylike, tensor_of
from ..._core.promotion import promote_inexact
from ..._core.tree import register_pytree_node_class
from ..._core.typing import ArrayLike, Shape
from ..._lax.linalg.factorizations import cholesky
from ..._numpy.dtype_information import isscalar
from ..._numpy.linalg.solving import inv
from ..._numpy.manipulation import atleast_1d, atleast_2d, squeeze
from ..._numpy.softmax import logsumexp
from ..._numpy.statistics import cov as covariance_of
from ..._random.integers import choice
from ..._random.keys import split
from ..._random.multivariate import multivariate_normal as normal_vectors
from ..special.error import ndtr
from . import multivariate_normal


def _matrix(x: Any) -> Array:
    found: Any = atleast_2d(x)
    return found


def _vector(x: Any) -> Array:
    found: Any = atleast_1d(x)
    return found


def _factor(bw_method: Any, kde: "gaussian_kde") -> Any:
    """Return how much narrower the kernels are than the data."""
    exponent = -1.0 / (kde.d + 4)
    if bw_method is None or (isinstance(bw_method, str) and bw_method == "scott"):
        return kde.neff**exponent
    if isinstance(bw_method, str) and bw_method == "silverman":
        return (kde.neff * (kde.d + 2) / 4.0) ** exponent
    if not isinstance(bw_method, str) and isscalar(bw_method):
        return bw_method
    if callable(bw_method):
        return bw_method(kde)
    raise ValueError("`bw_method` should be 'scott', 'silverman', a scalar, or a callable.")


@register_pytree_node_class
@dataclasses.dataclass(frozen=True, init=False, eq=False, slots=True)
class gaussian_kde:
    """A density estimated from samples: the mean of normal densities around them.

    `dataset` has the samples in its columns. `bw_method` says how wide the kernels are: "scott" (None), "silverman", a
    factor of the data's standard deviation, or a function of this object that returns one.
    """

    neff: Any
    dataset: Any
    weights: Any
    covariance: Any
    inv_cov: Any

    def __init__(
        self,
        dataset: ArrayLike,
        bw_method: None | str | Array | Callable[[Any], Array] = None,
        weights: ArrayLike | None = None,
    ) -> None:
        check_arraylike("gaussian_kde", dataset)
        samples = _matrix(dataset)
        if dtypes.issubdtype(samples.dtype, np.complexfloating):
            raise NotImplementedError("gaussian_kde does not support complex data")
        if not samples.size > 1:
            raise ValueError("`dataset` input should have multiple elements.")
        if weights is None:
            (t,), _ = promote_inexact("gaussian_kde", samples)
            w = t.new_full(t.shape[1:], 1.0 / t.shape[1])
        else:
            check_arraylike("gaussian_kde", weights)
            (t, w), _ = promote_inexact("gaussian_kde", samples, weights)
            w = w.reshape(1) if not w.dim() else w
            w = w / w.sum()
            if w.dim() != 1:
                raise ValueError("`weights` input should be one-dimensional.")
            if len(w) != t.shape[1]:
                raise ValueError("`weights` input should be of length n")
        self._set(dataset=Array(t), weights=Array(w), neff=Array(1 / w.square().sum()))
        width = _factor(bw_method, self) ** 2
        spread = _matrix(covariance_of(self.dataset, rowvar=True, bias=False, aweights=self.weights))
        self._set(covariance=spread * width, inv_cov=inv(spread) / width)

    def _set(self, **fields: Any) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def tree_flatten(self) -> tuple[tuple[Any, ...], None]:
        """Return the arrays as children of a pytree node."""
        return tuple(getattr(self, field.name) for field in dataclasses.fields(self)), None

    @classmethod
    def tree_unflatten(cls, aux_data: None, children: tuple[Any, ...]) -> "gaussian_kde":
        """Return the estimate with these arrays."""
        found = object.__new__(cls)
        found._set(**dict(zip((field.name for field in dataclasses.fields(cls)), children, strict=True)))
        return found

    @property
    def d(self) -> int:
        """The number of dimensions."""
        return self.dataset.shape[0]

    @property
    def n(self) -> int:
        """The number of samples."""
        return self.dataset.shape[1]

    def _terms(self, points: ArrayLike) -> tuple[Tensor, Tensor]:
        """Return the logarithms of the kernels, [point, sample], and the samples' weights."""
        if dtypes.issubdtype(as_array(points).dtype, np.complexfloating):
            raise NotImplementedError("gaussian_kde does not support complex coordinates")
        x = _matrix(points)
        if x.shape[0] != self.d:
            if x.shape != (1, self.d):
                raise ValueError(f"points have dimension {x.shape[0]}, dataset has dimension {self.d}")
            x = x.reshape(self.d, 1)
        (t, samples, weights, precision), _ = promote_inexact(
            "gaussian_kde", x, self.dataset, self.weights, self.inv_cov
        )
        factor = tensor_of(cholesky(Array(precision)))
        rest = (t.T @ factor)[:, None] - samples.T @ factor
        norm = torch.log(factor.diagonal()).sum() - 0.5 * self.d * math.log(2 * math.pi)
        return norm - 0.5 * rest.square().sum(-1), weights

    def evaluate(self, points: ArrayLike) -> Array:
        """Return the density at points, given in columns."""
        check_arraylike("evaluate", points)
        terms, weights = self._terms(points)
        return Array((weights * torch.exp(terms)).sum(-1))

    def __call__(self, points: ArrayLike) -> Array:
        """Return the density at points, given in columns."""
        return self.evaluate(points)

    def pdf(self, x: ArrayLike) -> Array:
        """Return the density at points, given in columns."""
        return self.evaluate(x)

    def logpdf(self, x: ArrayLike) -> Array:
        """Return the logarithm of the density at points, given in columns."""
        check_arraylike("logpdf", x)
        terms, weights = self._terms(x)
        return logsumexp(Array(torch.log(weights) + terms), axis=-1)

    def integrate_gaussian(self, mean: ArrayLike, cov: ArrayLike) -> Array:
        """Return the integral of the product with a normal density."""
        centre, spread = _vector(squeeze(mean)), _matrix(cov)
        if centre.shape != (self.d,):
            raise ValueError(f"mean does not have dimension {self.d}")
        if spread.shape != (self.d, self.d):
            raise ValueError(f"covariance does not have dimension {self.d}")
        density = multivariate_normal.pdf(self.dataset.T, centre, self.covariance + spread)
        return (density * self.weights).sum()

    def integrate_box_1d(self, low: ArrayLike, high: ArrayLike) -> Array:
        """Return the probability of the interval from `low` to `high`, for one dimension."""
        if self.d != 1:
            raise ValueError("integrate_box_1d() only handles 1D pdfs")
        if as_array(low).ndim or as_array(high).ndim:
            raise ValueError("the limits of integration in integrate_box_1d must be scalars")
        scale = self.covariance[0, 0] ** 0.5
        below, above = (ndtr((bound - self.dataset[0]) / scale) for bound in (low, high))
        return (self.weights * (above - below)).sum()

    def integrate_kde(self, other: "gaussian_kde") -> Array:
        """Return the integral of the product with another estimate."""
        if other.d != self.d:
            raise ValueError("KDEs are not the same dimensionality")
        rest = self.dataset.T[:, None] - other.dataset.T
        density = multivariate_normal.pdf(rest, 0 * rest[0, 0], self.covariance + other.covariance)
        return (density * self.weights[:, None] * other.weights).sum()

    def resample(self, key: ArrayLike, shape: Shape = ()) -> Array:
        """Return `shape` random points, in columns."""
        which, how = split(key)
        places = choice(which, self.n, shape=shape, p=self.weights)
        zero = 0 * self.covariance[0]
        steps = normal_vectors(how, zero, self.covariance, shape=shape, dtype=self.dataset.dtype)
        return self.dataset[:, places] + steps.T

    def integrate_box(self, low_bounds: ArrayLike, high_bounds: ArrayLike, maxpts: int | None = None) -> Array:
        """Raise `NotImplementedError`, like JAX's: only intervals can be integrated over."""
        raise NotImplementedError("only 1D box integrations are supported; use `integrate_box_1d`")

    def set_bandwidth(self, bw_method: Any = None) -> None:
        """Raise `NotImplementedError`, like JAX's: the estimate is immutable."""
        raise NotImplementedError("dynamically changing the bandwidth method is not supported")
