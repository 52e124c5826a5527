"""sort, top_k and their approximate forms. NaN is greater than all else; equal elements keep their order."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .._core import unsigned
from .._core.array import Array, tensor_of
from .._core.dimensions import canonical_axis
from .._core.operations import shown_as
from .._core.typing import ArrayLike
from .._tensors.ordering import gathered, ordinals, sorted_by_keys
from . import operands as ops


def sort(operand: Any, dimension: int = -1, is_stable: bool = True, num_keys: int = 1) -> Any:
    """Return arrays sorted along a dimension by the first `num_keys` of them, the others in the same order.

    One array gives an array, a sequence a tuple. Sorting is always stable, `is_stable` or not. `TypeError` when shapes
    differ, `ValueError` for a bad `num_keys`.
    """
    many = not isinstance(operand, Array) and isinstance(operand, Sequence)
    given = list(operand) if many else [operand]
    if not given:
        raise TypeError("Sort requires at least one operand")
    arrays = [ops.array_of("sort", x, i) for i, x in enumerate(given)]
    tensors = [tensor_of(a) for a in arrays]
    if len({t.shape for t in tensors}) > 1:
        raise TypeError(
            f"Arguments to sort must have equal shapes, got: {' '.join(str(tuple(t.shape)) for t in tensors)}"
        )
    if not 1 <= num_keys <= len(tensors):
        raise ValueError(f"num_keys={num_keys} must be between 1 and len(operand)={len(tensors)}")
    dim = canonical_axis(dimension, tensors[0].dim())
    sorted_tensors = _sorted(tensors, dim, bool(is_stable), num_keys)
    results = [Array(t, a._weak) for t, a in zip(sorted_tensors, arrays, strict=True)]
    return tuple(results) if many else results[0]


@shown_as(
    "sort",
    lambda tensors, dim, is_stable, num_keys: {"dimension": dim, "is_stable": is_stable, "num_keys": num_keys},
)
def _sorted(tensors: list[Tensor], dim: int, is_stable: bool, num_keys: int) -> list[Tensor]:
    if not is_stable and len(tensors) == 1 and not tensors[0].dtype.is_complex:
        return [unsigned.sort(tensors[0], dim, stable=False)[0]]
    return sorted_by_keys(tensors, dim, num_keys)


def sort_key_val(
    keys: ArrayLike, values: ArrayLike, dimension: int = -1, is_stable: bool = True
) -> tuple[Array, Array]:
    """Return `keys` sorted along a dimension, and `values` in the same order."""
    sorted_keys, sorted_values = sort((keys, values), dimension, is_stable, 1)
    return sorted_keys, sorted_values


def top_k(operand: ArrayLike, k: int, *, axis: int = -1) -> list[Array]:
    """Return the `k` greatest elements along an axis, greatest first, and their positions (int32).

    The order is total: -NaN, -inf, ..., -0.0, 0.0, ..., inf, NaN. Of equal elements the first come first. `ValueError` when k is negative or greater than the axis.
    """
    t, weak = ops.operand("top_k", operand, ops.ORDERED)
    dim = canonical_axis(axis, t.dim())
    if k < 0:
        raise ValueError(f"k argument to top_k must be nonnegative, got {k}")
    if k > t.shape[dim]:
        raise ValueError(
            f"k argument to top_k must be no larger than size along axis; got {k=} with shape={list(t.shape)} and "
            f"axis={dim}"
        )
    places = _places_of_greatest(t, dim, k)
    return [Array(gathered(t, dim, places), weak), Array(places.to(torch.int32), weak)]


def _places_of_greatest(t: Tensor, dim: int, k: int, least: bool = False) -> Tensor:
    numbers = ~ordinals(t.detach()) if least else ordinals(t.detach())
    if t.dtype.itemsize == 8:
        return torch.sort(numbers, dim=dim, descending=True, stable=True)[1].narrow(dim, 0, k)
    # torch.topk takes any of the elements that equal the last one, so their positions become part of the number.
    size = t.shape[dim]
    backwards = torch.arange(size - 1, -1, -1, device=t.device).reshape(-1, *(1,) * (t.dim() - dim - 1))
    greatest = torch.topk((numbers << 32) | backwards, k, dim)[0]
    return size - 1 - (greatest & 0xFFFFFFFF)


def approx_max_k(
    operand: Any,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> list[Array]:
    """Return the `k` greatest elements along a dimension and their positions (int32).

    The result is exact: it meets every `recall_target`, and `reduction_input_size_override`, which tunes the
    approximation, changes nothing. Without `aggregate_to_topk` all elements are returned, sorted.
    """
    return _approximate(
        operand, k, reduction_dimension, recall_target, reduction_input_size_override, aggregate_to_topk, True
    )


def approx_min_k(
    operand: Any,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> list[Array]:
    """Return the `k` least elements along a dimension and their positions, as `approx_max_k` does."""
    return _approximate(
        operand, k, reduction_dimension, recall_target, reduction_input_size_override, aggregate_to_topk, False
    )


def _approximate(
    operand: Any, k: int, dimension: int, recall_target: float, size_override: int, aggregate: bool, greatest: bool
) -> list[Array]:
    array = ops.array_of("approx_top_k", operand)
    t = tensor_of(array)
    if t.dtype not in ops.FLOATING.dtypes:
        raise ValueError("operand must be a floating type")
    if not -t.dim() <= dimension < t.dim():
        raise IndexError(f"reduction_dimension {dimension} is out of bounds for array of dimension {t.dim()}")
    size = t.shape[dimension]
    if k < 0:
        raise ValueError(f"k must be positive, got {k}")
    if size < k:
        raise ValueError(f"k must be smaller than the size of reduction_dim {size}, got {k}")
    if not 0 < recall_target <= 1:
        raise ValueError(f"recall_target must be in (0, 1], got {recall_target}")
    if size_override >= 0 and size_override < size:
        raise ValueError(f"reduction_input_size_override must be negative or at least {size}, got {size_override}")
    found = _approximate_top(t, k, dimension, recall_target, size_override, aggregate, greatest)
    return [Array(part, array._weak) for part in found]


@shown_as(
    "approx_top_k",
    lambda t, k, dimension, recall_target, size_override, aggregate, greatest: {
        "k": k, "reduction_dimension": dimension, "recall_target": recall_target, "is_max_k": greatest,
        "reduction_input_size_override": size_override, "aggregate_to_topk": aggregate,
    },
)  # fmt: skip
def _approximate_top(
    t: Tensor, k: int, dim: int, recall_target: float, size_override: int, aggregate: bool, greatest: bool
) -> list[Tensor]:
    if aggregate:
        alike = torch.where(t != t, math.nan, t) + 0  # NaN of either sign is the greatest, and zeros are equal
        places = _places_of_greatest(alike, dim % t.dim(), k, not greatest)
        return [gathered(t, dim, places), places.to(torch.int32)]
    values, places = unsigned.sort(t, dim, descending=greatest)
    return [values, places.to(torch.int32)]
