"""jax.scipy.ndimage: interpolation in arrays of any number of dimensions."""

import functools
import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .._core import selection
from .._core.array import Array, tensor_of
from .._core.promotion import convert, promote, tensor
from .._core.typing import ArrayLike
from .._numpy.creation import asarray
from .._numpy.rounding import floor
from .._tensors.arithmetic import round_away_from_zero
from .._tensors.elements import elements_at


def _mirrored(index: Tensor, size: int) -> Tensor:
    period = max(2 * (size - 1), 1)
    return torch.abs((index + size - 1) % period - (size - 1))


# Where an array has the element at a place beyond its ends.
_WITHIN: dict[str, Callable[[Tensor, int], Tensor]] = {
    "constant": lambda index, size: index.clamp(0, size - 1),  # and `cval` instead
    "nearest": lambda index, size: index.clamp(0, size - 1),
    "wrap": lambda index, size: index % size,
    "mirror": _mirrored,
    "reflect": lambda index, size: (_mirrored(2 * index + 1, 2 * size + 1) - 1) // 2,
}


def _rounded(t: Tensor) -> Tensor:
    return round_away_from_zero(t) if t.is_floating_point() else t


def _index(t: Tensor) -> Tensor:
    return convert(t, torch.int32)


def _nodes(coordinate: Tensor, order: int) -> list[tuple[Tensor, Tensor]]:
    """Return the indices between which a function is interpolated along one axis, and their weights."""
    if order == 0:
        return [(_index(_rounded(coordinate)), torch.ones_like(coordinate))]
    below = tensor_of(floor(Array(coordinate)))
    rest = coordinate - below
    return [(_index(below), 1 - rest), (_index(below) + 1, rest)]


def map_coordinates(
    input: ArrayLike, coordinates: Sequence[ArrayLike], order: int, mode: str = "constant", cval: ArrayLike = 0.0
) -> Array:
    """Return the values of `input` at `coordinates` (an array for each axis), of the nearest element or interpolated.

    `order` is 0 or 1 (linear). Beyond its ends the array is `cval` ("constant"), its last elements ("nearest"), or
    repeated: as it is ("wrap"), reversed about the last elements ("mirror") or about their outer edges ("reflect").
    """
    source = tensor("map_coordinates", asarray(input))
    places = [tensor("map_coordinates", asarray(c)) for c in coordinates]
    if len(places) != source.dim():
        raise ValueError(
            f"coordinates must be a sequence of length input.ndim, but {len(places)} != {source.dim()}"
        )  # fmt: skip
    if mode not in _WITHIN:
        raise NotImplementedError(
            f"jax.scipy.ndimage.map_coordinates does not yet support mode {mode}. Currently supported modes are "
            f"{set(_WITHIN)}."
        )
    if order not in (0, 1):
        raise NotImplementedError("jax.scipy.ndimage.map_coordinates currently requires order<=1")
    if not places:
        raise TypeError("map_coordinates requires an array of at least one dimension")
    filler = convert(tensor("map_coordinates", cval, Array(source)), source.dtype)
    found: Any = 0
    for corner in itertools.product(*(_nodes(place, order) for place in places)):
        indices, weights = zip(*corner, strict=True)
        value = elements_at(source, [_WITHIN[mode](i, n) for i, n in zip(indices, source.shape, strict=True)])
        if mode == "constant":
            inside = [(i >= 0) & (i < n) for i, n in zip(indices, source.shape, strict=True)]
            value = selection.where(functools.reduce(operator.and_, inside), value, filler)
        (weight, value), _ = promote("map_coordinates", Array(functools.reduce(operator.mul, weights)), Array(value))
        found = found + weight * value
    if not (source.is_floating_point() or source.is_complex() or source.dtype is torch.bool):
        found = _rounded(found)
    return Array(convert(found, source.dtype))
