"""jax.scipy.interpolate: interpolation on regular grids."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import torch

from .._core import dtypes
from .._core.array import Array, as_array, check_arraylike, tensor_of
from .._core.promotion import promote_inexact
from .._core.tree import register_pytree_node
from .._core.typing import ArrayLike
from .._numpy.creation import asarray
from .._numpy.dtype_information import can_cast
from .._numpy.joining import stack
from .._numpy.manipulation import broadcast_arrays
from .._numpy.searching import places_in
from .._numpy.selection import where

_METHODS = ("linear", "nearest")


class RegularGridInterpolator:
    """A function given by its values on a rectangular grid, interpolated between them.

    `points` are the coordinates along each axis, increasing; `values` may have further axes behind. `method` is "linear"
    or "nearest". Beyond the grid the function is `fill_value`, or extrapolated if that is None.
    """

    def __init__(
        self,
        points: Sequence[ArrayLike],
        values: ArrayLike,
        method: str = "linear",
        bounds_error: bool = False,
        fill_value: Any = math.nan,
    ) -> None:
        _check_method(method)
        if bounds_error:
            raise NotImplementedError("`bounds_error` takes no effect under JIT")
        check_arraylike("RegularGridInterpolator", values)
        (t,), weak = promote_inexact("RegularGridInterpolator", values)
        if len(points) > t.dim():
            raise ValueError(f"there are {len(points)} point arrays, but values has {t.dim()} dimensions")
        if fill_value is not None:
            check_arraylike("RegularGridInterpolator", fill_value)
            fill_value = as_array(fill_value)
            if not can_cast(fill_value.dtype, dtypes.TO_NUMPY[t.dtype], "same_kind"):
                raise ValueError("fill_value must be either 'None' or of a type compatible with values")
        check_arraylike("RegularGridInterpolator", *points)
        self.method = method
        self.bounds_error = bounds_error
        self.fill_value = fill_value
        self.grid = tuple(asarray(p) for p in points)
        self.values = Array(t, weak)

    def __call__(self, xi: Any, method: str | None = None) -> Array:
        """Return the values at points: an array with their coordinates along its last axis, or a tuple of arrays."""
        method = self.method if method is None else method
        _check_method(method)
        rank = len(self.grid)
        xi = _coordinates(xi, rank)
        if xi.shape[-1] != rank:
            raise ValueError(
                f"the requested sample points xi have dimension {xi.shape[-1]}, but this RegularGridInterpolator has "
                f"dimension {rank}"
            )
        points = xi.reshape(-1, rank)
        below, parts, outside = [], [], []
        for d, grid in enumerate(self.grid):
            x = points[:, d]
            (knots, place), _ = promote_inexact("RegularGridInterpolator", grid, x)
            cell = Array((places_in(knots, place, False) - 1).clamp(0).clamp(max=knots.shape[0] - 2))
            below.append(cell)
            parts.append((x - grid[cell]) / (grid[cell + 1] - grid[cell]))
            outside.append((x < grid[0]) | (x > grid[-1]))
        found = self._nearest(below, parts) if method == "nearest" else self._linear(below, parts)
        if self.fill_value is not None:
            beyond = torch.stack([tensor_of(o) for o in outside]).any(0)
            found = where(_column(Array(beyond), found.ndim), self.fill_value, found)
        return found.reshape((*xi.shape[:-1], *self.values.shape[rank:]))

    def _nearest(self, below: list[Array], parts: list[Any]) -> Any:
        return self.values[tuple(where(part <= 0.5, i, i + 1) for i, part in zip(below, parts, strict=True))]

    def _linear(self, below: list[Array], parts: list[Any]) -> Any:
        found: Any = 0.0
        for corner in itertools.product((0, 1), repeat=len(below)):
            weight: Any = 1.0
            for side, part in zip(corner, parts, strict=True):
                weight = weight * (part if side else 1 - part)
            value = self.values[tuple(i + side for i, side in zip(below, corner, strict=True))]
            found = found + value * _column(weight, value.ndim)
        return found


def _check_method(method: str) -> None:
    if method not in _METHODS:
        raise ValueError(f"method {method!r} is not defined")


def _column(x: Array, rank: int) -> Array:
    """Return a vector with axes of size one behind, up to `rank`."""
    return x.reshape(*x.shape, *[1] * (rank - 1))


def _coordinates(points: Any, rank: int) -> Any:
    """Return points as one array, their coordinates along the last axis."""
    if isinstance(points, tuple) and len(points) == 1:
        points = points[0]
    if isinstance(points, tuple):
        return stack(broadcast_arrays(*points), axis=-1).astype(float)
    check_arraylike("RegularGridInterpolator", points)
    points = asarray(points)
    return points.reshape(-1, rank) if points.ndim == 1 else points


def _rebuilt(aux: tuple[str, bool], children: tuple[Any, ...]) -> RegularGridInterpolator:
    found = object.__new__(RegularGridInterpolator)
    found.method, found.bounds_error = aux
    found.grid, found.values, found.fill_value = children
    return found


register_pytree_node(
    RegularGridInterpolator, lambda f: ((f.grid, f.values, f.fill_value), (f.method, f.bounds_error)), _rebuilt
)
