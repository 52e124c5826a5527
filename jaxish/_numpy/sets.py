"""Arrays as sets: distinct elements, union, intersection, difference.

Results have a size that depends on values. Outside of transformations it is found; otherwise `size` must be given:
what is too much is cut off, what is missing filled.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .._core import errors, unsigned
from .._core.array import Array, as_array, check_arraylike, tensor_of
from .._core.dimensions import canonical_axis, static_int
from .._core.promotion import convert, promote, tensor
from .._core.typing import ArrayLike
from .._tensors.ordering import sorted_with_order
from .._transforms.repeated import compiled_when_repeated
from .arguments import int_dtype
from .creation import asarray
from .searching import nonzero, places_in
from .selection import where

_ADVICE = (
    "The error arose for the first argument of jnp.{}(). To make it compatible with JIT and other transforms, give a "
    "concrete value for the size argument, which determines the output size."
)


def _select(values: Tensor, places: Tensor, dim: int = 0) -> Tensor:
    return unsigned.via_bits(lambda x: torch.index_select(x, dim, places), values)


def _true_places(mask: Tensor, size: int | None, what: str, fill: int = 0) -> Tensor:
    """Return the positions of the Trues in a vector, as int64, cut or filled to `size`."""
    if size is None:
        Array(mask)._concrete(errors.ConcretizationTypeError, _ADVICE.format(what))
    return nonzero(Array(mask), size=size, fill_value=fill)[0]._tensor.to(torch.int64)


def _differ(a: Tensor, b: Tensor, equal_nan: bool) -> Tensor:
    found = unsigned.ne(a, b)
    if equal_nan and (a.is_floating_point() or a.is_complex()):
        found = found & ~(torch.isnan(a) & torch.isnan(b))
    return found


def _sorted_rows(t: Tensor, equal_nan: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return the rows of `t` in order, which of them are the first of their kind, and where they came from."""
    rows = t.reshape(t.shape[0], math.prod(t.shape[1:]))
    if rows.shape[1] == 1:
        values, order = sorted_with_order(rows.flatten(), 0)
        rows = values.reshape(-1, 1)
    else:
        order = torch.arange(rows.shape[0], device=t.device)
        for column in reversed(range(rows.shape[1])):
            order = order[sorted_with_order(_select(rows[:, column], order), 0)[1]]
        rows = _select(rows, order)
    first = torch.ones((rows.shape[0],), dtype=torch.bool, device=t.device)
    if rows.shape[0] > 1:
        first = torch.cat([first[:1], _differ(rows[1:], rows[:-1], equal_nan).any(1)])
    return rows.reshape(t.shape), first, order


def unique(
    ar: ArrayLike, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False,
    axis: int | None = None, *, equal_nan: bool = True, size: int | None = None, fill_value: ArrayLike | None = None,
    sorted: bool = True,
) -> Any:  # fmt: skip
    """Return the distinct elements (or slices along `axis`), in order, and if asked for: the index of the first of
    each, the index of each element's representative, and how many there are of each.

    `fill_value` defaults to the first element. `sorted` False allows what True does.
    """
    check_arraylike("unique", ar)
    source = tensor("unique", ar)
    if size is None:
        Array(source)._concrete(errors.ConcretizationTypeError, _ADVICE.format("unique"))
    else:
        size = static_int(size, "The size argument of jnp.unique")
    if axis is None:
        t, place = source.flatten(), 0
    else:
        place = canonical_axis(axis, source.dim())
        t = source.movedim(place, 0)
    count, width = t.shape[0], math.prod(t.shape[1:])
    device = t.device
    if not count or not width:
        shape = source.shape if axis is None else (count,)
        return _unique_of_nothing(
            t, place, size, fill_value, return_index, shape if return_inverse else None, return_counts
        )
    rows, first, order = _sorted_rows(t, equal_nan)
    places = _true_places(first, size, "unique")
    found = _select(rows, places)
    if size is not None and fill_value is not None:
        filler = convert(tensor_of(asarray(fill_value)), t.dtype)
        valid = torch.arange(size, device=device) < first.sum()
        found = torch.where(valid.reshape(-1, *[1] * (t.dim() - 1)), found, filler)
    out: list[Array] = [Array(found.movedim(0, place))]
    if return_index:
        out.append(Array(order[places].to(int_dtype())))
    if return_inverse:
        rank = torch.cumsum(first, 0) - 1
        inverse = torch.zeros_like(rank).scatter(0, order, rank).to(int_dtype())
        out.append(Array(inverse.reshape(source.shape) if axis is None else inverse))
    if return_counts:
        starts = _true_places(first, None if size is None else size + 1, "unique", count)
        ends = (
            torch.cat([starts, torch.full((1,), count, dtype=starts.dtype, device=device)]) if size is None else starts
        )
        out.append(Array((ends[1:] - ends[:-1]).to(int_dtype())))
    return out[0] if len(out) == 1 else tuple(out)


def _unique_of_nothing(
    t: Tensor, place: int, size: int | None, fill_value: Any, return_index: bool, inverse: Sequence[int] | None,
    return_counts: bool,
) -> Any:  # fmt: skip
    """Handle inputs without elements: nothing is distinct, and slices without elements are all the same.

    `inverse` is the shape of the inverse indices, None where they are not asked for.
    """
    count = t.shape[0]
    if not count and size and fill_value is None:
        raise ValueError("jnp.unique: for zero-sized input with nonzero size argument, fill_value must be specified")
    found = t[: min(count, 1)]
    if size is not None and fill_value is not None:
        found = convert(tensor_of(asarray(fill_value)), t.dtype).expand(size, *t.shape[1:])
    zeros = torch.zeros((1,), dtype=int_dtype(), device=t.device)
    out = [Array(found.movedim(0, place))]
    if return_index:
        out.append(Array(zeros if 0 in t.shape[1:] else zeros[:0]))
    if inverse is not None:
        out.append(Array(zeros.expand(math.prod(inverse)).reshape(inverse)))
    if return_counts:
        out.append(Array(zeros[:0] if not count else zeros + count))
    return out[0] if len(out) == 1 else tuple(out)


class _UniqueAllResult(NamedTuple):
    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class _UniqueCountsResult(NamedTuple):
    values: Array
    counts: Array


class _UniqueInverseResult(NamedTuple):
    values: Array
    inverse_indices: Array


def unique_all(x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None) -> _UniqueAllResult:
    """Return distinct elements, their first indices, the inverse indices and counts; every NaN is distinct."""
    return _UniqueAllResult(*unique(x, True, True, True, equal_nan=False, size=size, fill_value=fill_value))


def unique_counts(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> _UniqueCountsResult:
    """Return distinct elements and their counts; every NaN is distinct."""
    found = unique(x, return_counts=True, equal_nan=False, size=size, fill_value=fill_value)
    return _UniqueCountsResult(*found)


def unique_inverse(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> _UniqueInverseResult:
    """Return distinct elements and the index of each element's representative; every NaN is distinct."""
    found = unique(x, return_inverse=True, equal_nan=False, size=size, fill_value=fill_value)
    return _UniqueInverseResult(*found)


def unique_values(x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None) -> Array:
    """Return the distinct elements; every NaN is distinct."""
    return unique(x, equal_nan=False, size=size, fill_value=fill_value)


def _member(a: Tensor, b: Tensor) -> Tensor:
    """Tell which elements of the vector `a` are in the vector `b`."""
    if not b.shape[0]:
        return torch.zeros(a.shape, dtype=torch.bool, device=a.device)
    if a.is_complex():
        return (a.unsqueeze(-1) == b).any(-1)
    ordered = sorted_with_order(b, 0)[0]
    place = places_in(ordered, a, False).clamp(max=b.shape[0] - 1)
    return unsigned.eq(a, _select(ordered, place.flatten()).reshape(a.shape))


@compiled_when_repeated
def isin(
    element: ArrayLike, test_elements: ArrayLike, assume_unique: bool = False, invert: bool = False, *,
    method: str = "auto",
) -> Array:  # fmt: skip
    """Tell which elements are among `test_elements`, or with `invert` which are not.

    `method` ("compare_all", "binary_search", "sort", "auto") says how JAX would search; all have one result.
    """
    if method not in ("auto", "compare_all", "binary_search", "sort"):
        raise ValueError(
            f"{method=} is not implemented; options are 'compare_all', 'binary_search', 'sort', and 'auto'"
        )
    check_arraylike("isin", element, test_elements)
    (a, b), _ = promote("isin", element, test_elements)
    found = _member(a.flatten(), b.flatten()).reshape(a.shape)
    return Array(~found if invert else found)


def _pair(function: str, ar1: Any, ar2: Any) -> tuple[Tensor, Tensor]:
    check_arraylike(function, ar1, ar2)
    (a, b), _ = promote(function, ar1, ar2)
    return a.flatten(), b.flatten()


def _distinct(t: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return a sorted vector, which of its elements are the first of their kind, and where they came from."""
    if not t.shape[0]:
        return (
            t,
            torch.zeros((0,), dtype=torch.bool, device=t.device),
            torch.zeros((0,), dtype=torch.int64, device=t.device),
        )
    rows, first, order = _sorted_rows(t.reshape(-1, 1), True)
    return rows.flatten(), first, order


def _picked(values: Tensor, mask: Tensor, size: int | None, fill_value: Any, what: str) -> Tensor:
    """Return the elements that the mask selects, cut or filled to `size`; by default with the least of them, or 0."""
    if not values.shape[0]:
        return _filler(0 if fill_value is None else fill_value, values).expand(size or 0)
    found = _select(values, _true_places(mask, size, what))
    if size is None:
        return found
    valid = torch.arange(size, device=values.device) < mask.sum()
    return torch.where(valid, found, _least(found, valid) if fill_value is None else _filler(fill_value, values))


def _filler(value: Any, like: Tensor) -> Tensor:
    return convert(tensor_of(asarray(value, device=like.device)), like.dtype)


def _least(found: Tensor, valid: Tensor) -> Tensor:
    """Return the least of the valid elements, which is the first; NaN if one is, and 0 if there are none."""
    zero = torch.zeros((), dtype=found.dtype, device=found.device)
    if not found.shape[0]:
        return zero
    least = torch.where(valid[0], found[0], zero)
    if not (found.is_floating_point() or found.is_complex()):
        return least
    return torch.where((torch.isnan(found) & valid).any(), torch.full_like(zero, math.nan), least)


def setdiff1d(
    ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False, *, size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """Return the distinct elements of `ar1` that are not in `ar2`; `fill_value` defaults to zero."""
    check_arraylike("setdiff1d", ar1, ar2)
    a = tensor("setdiff1d", ar1).flatten()
    (common, other), _ = promote("setdiff1d", Array(a, as_array(ar1)._weak), ar2)
    values, first = a, torch.ones(a.shape, dtype=torch.bool, device=a.device)
    if not assume_unique:
        values, first, order = _distinct(a)
        common = _select(common.flatten(), order) if a.shape[0] else common
    mask = first & ~_member(common.flatten(), other.flatten())
    return Array(_picked(values, mask, size, 0 if fill_value is None else fill_value, "setdiff1d"))


def union1d(ar1: ArrayLike, ar2: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None) -> Array:
    """Return the distinct elements of both arrays; `fill_value` defaults to the least of them."""
    a, b = _pair("union1d", ar1, ar2)
    return unique(Array(torch.cat([a, b])), size=size, fill_value=fill_value)


def _merged(a: Tensor, b: Tensor, assume_unique: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return the elements of both in order, which of them count, and where they came from.

    Only the first of each kind in each array counts, unless all are assumed to be so; the others stand behind.
    """
    both = torch.cat([a, b])
    counted = torch.ones(both.shape, dtype=torch.bool, device=both.device)
    if not assume_unique:
        parts = []
        for t in (a, b):
            _, first, order = _distinct(t)
            parts.append(torch.zeros(t.shape, dtype=torch.bool, device=t.device).scatter(0, order, first))
        counted = torch.cat(parts)
    values, order = sorted_with_order(both, 0)
    counted = counted[order]
    moved = torch.sort((~counted).to(torch.uint8), stable=True).indices
    return _select(values, moved), counted[moved], order[moved]


def setxor1d(
    ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False, *, size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """Return the distinct elements that are in one of the arrays only; `fill_value` defaults to the least of them."""
    a, b = _pair("setxor1d", ar1, ar2)
    if not a.shape[0] + b.shape[0]:
        return Array(_picked(a, torch.zeros_like(a, dtype=torch.bool), size, fill_value, "setxor1d"))
    values, valid, _ = _merged(a, b, assume_unique)
    edge = torch.ones((1,), dtype=torch.bool, device=a.device)
    both = valid[1:] & valid[:-1]
    change = unsigned.ne(values[1:], values[:-1]) | ~both
    alone = valid & torch.cat([edge, change]) & torch.cat([change, edge])
    found = Array(_picked(values, alone, size, None, "setxor1d"))
    if size is None or fill_value is None:
        return found
    return where(Array(torch.arange(size, device=a.device) < alone.sum()), found, fill_value)


def intersect1d(
    ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False, return_indices: bool = False, *,
    size: int | None = None, fill_value: ArrayLike | None = None,
) -> Any:  # fmt: skip
    """Return the distinct elements that are in both arrays, and with `return_indices` where they are first in each.

    `fill_value` defaults to the least of them; missing indices are the length of the array.
    """
    a, b = _pair("intersect1d", ar1, ar2)
    if not a.shape[0] + b.shape[0]:
        none = torch.zeros((size or 0,), dtype=int_dtype(), device=a.device)
        found = Array(torch.zeros((size or 0,), dtype=a.dtype, device=a.device))
        return (found, Array(none), Array(none)) if return_indices else found
    values, valid, order = _merged(a, b, assume_unique)
    shared = unsigned.eq(values[1:], values[:-1]) & valid[1:] & valid[:-1]
    found = Array(_picked(values[:-1], shared, size, fill_value, "intersect1d"))
    if not return_indices:
        return found
    places = _true_places(shared, size, "intersect1d")
    picked = torch.arange(places.shape[0], device=a.device) < shared.sum()
    out = []
    for source, shift, length in ((order[:-1], 0, a.shape[0]), (order[1:], a.shape[0], b.shape[0])):
        index = source[places] - shift if source.shape[0] else places
        out.append(Array(torch.where(picked, index, length).to(int_dtype())))
    return found, *out
