"""Positions of elements: nonzero ones, and places in sorted arrays."""

import math
from typing import Any

import torch
from torch import Tensor

from .._core import dtypes, errors, functorch, graph, unsigned
from .._core.array import Array, as_array, check_arraylike
from .._core.dimensions import canonical_shape, static_int
from .._core.promotion import convert, promote, tensor
from .._core.typing import ArrayLike
from .._tensors.elements import GatherScatterMode, elements_at, put_elements
from .._transforms.repeated import compiled_when_repeated
from .._transforms.shown_calls import shown_as_jit
from .arguments import int_dtype
from .indexing import places_of_true
from .manipulation import ravel

_MOST_OF_INT32 = torch.iinfo(torch.int32).max


def nonzero(a: ArrayLike, *, size: int | None = None, fill_value: Any = None) -> tuple[Array, ...]:
    """Return the indices of the nonzero elements, an array per axis.

    Tracing needs `size`: what is too much is cut off, what is missing filled with `fill_value` (a number, or one per
    axis; default 0). Raises `ConcretizationTypeError` for traced values without `size`.
    """
    t = tensor("nonzero", a)
    if not t.dim():
        raise ValueError("Calling nonzero on 0d arrays is not allowed. Use jnp.atleast_1d(scalar).nonzero() instead.")
    mask = convert(t, torch.bool)
    fillers = _fillers(fill_value, t.dim(), t.device)
    if size is None:
        known = Array(mask)._concrete(
            errors.ConcretizationTypeError,
            "The size argument of jnp.nonzero must be statically specified to use it under a transformation.",
        )
        return tuple(Array(i.to(int_dtype())) for i in places_of_true(known))
    (size,) = canonical_shape((static_int(size, "The size argument of jnp.nonzero"),))
    flat = mask.flatten()
    total = flat.shape[0]
    if not total or not size:
        return tuple(Array(f.to(int_dtype()).expand(size)) for f in fillers)
    # The k-th nonzero element goes to place k; places from `size` on are dropped.
    rank = torch.where(flat, torch.cumsum(flat, 0) - 1, size)
    start = torch.full((size,), total, dtype=torch.int64, device=t.device)
    places = put_elements(
        start, [rank], torch.arange(total, device=t.device), "set", GatherScatterMode.FILL_OR_DROP, True
    )
    found, rest = [], places
    for n, filler in zip(reversed(t.shape), reversed(fillers), strict=True):
        index = torch.where(places == total, filler, torch.remainder(rest, n))
        found.append(Array(index.to(int_dtype())))
        rest = torch.div(rest, n, rounding_mode="floor")
    return tuple(reversed(found))


def _fillers(fill_value: Any, rank: int, device: torch.device) -> list[Tensor]:
    values = fill_value if isinstance(fill_value, tuple) else (0 if fill_value is None else fill_value,) * rank
    if len(values) != rank:
        raise ValueError(f"fill_value must be a number or a tuple of one number per axis ({rank}); got {fill_value}.")
    found = [tensor("nonzero", v).to(device, torch.int64) for v in values]
    if any(f.dim() for f in found):
        raise ValueError(f"fill_value must be a scalar or tuple of scalars; got {fill_value}")
    return found


def flatnonzero(a: ArrayLike, *, size: int | None = None, fill_value: Any = None) -> Array:
    """Return the indices of the nonzero elements of the flattened array; arguments as in `nonzero`."""
    return nonzero(ravel(a), size=size, fill_value=fill_value)[0]


def argwhere(a: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None) -> Array:
    """Return the indices of the nonzero elements, a row per element; arguments as in `nonzero`."""
    t = tensor("argwhere", a)
    if not t.dim():
        count = nonzero(Array(t.reshape(1)), size=size, fill_value=fill_value)[0].shape[0]
        return Array(torch.zeros((count, 0), dtype=int_dtype(), device=t.device))
    return Array(torch.stack([i._tensor for i in nonzero(Array(t), size=size, fill_value=fill_value)], 1))


def _check_method(method: str) -> None:
    if method not in ("scan", "scan_unrolled", "sort", "compare_all", "default"):
        raise ValueError(f"{method!r} is an invalid value for keyword 'method'. Use 'scan', 'sort' or 'compare_all'.")


@shown_as_jit("side", "method")
@compiled_when_repeated
def searchsorted(
    a: ArrayLike, v: ArrayLike, side: str = "left", sorter: ArrayLike | None = None, *, method: str = "scan"
) -> Array:
    """Return where the values `v` belong in the sorted 1-d array `a` (sorted by `sorter`, if given).

    `side` "left" is before equal elements, "right" behind them. `method` ("scan", "scan_unrolled", "sort",
    "compare_all") says how JAX would search; all have one result.
    """
    check_arraylike("searchsorted", a, v, *([] if sorter is None else [sorter]))
    if side not in ("left", "right"):
        raise ValueError(f"{side!r} is an invalid value for keyword 'side'. Expected one of ['left', 'right'].")
    _check_method(method)
    if as_array(a).ndim != 1:
        raise ValueError("a should be 1-dimensional")
    (edges, values), _ = promote("searchsorted", a, v)
    if sorter is not None:
        order = tensor("searchsorted", sorter).to(torch.int64)
        edges = unsigned.via_bits(lambda x: torch.index_select(x, 0, order), edges)
    is_short = isinstance(size := edges.shape[0], int) and size <= _MOST_OF_INT32  # and no symbol of export's
    return Array(places_in(edges, values, side == "right").to(torch.int32 if is_short else int_dtype()))


def places_in(edges: Tensor, values: Tensor, right: bool) -> Tensor:
    """Return the int64 places of `values` in the sorted vector `edges`; NaN is behind all else."""
    if edges.is_complex():
        return _by_comparison(edges, values, right)
    edges, values = unsigned.ordered(edges.detach()), unsigned.ordered(values.detach())
    if edges.dtype is torch.bool:
        edges, values = edges.to(torch.uint8), values.to(torch.uint8)
    if edges.dtype in dtypes.HALVES:
        edges, values = edges.to(torch.float32), values.to(torch.float32)
    if edges.is_floating_point():
        # torch's bisection goes astray where it meets NaN.
        nan_edges = torch.isnan(edges)
        found, nans = _searched(edges.masked_fill(nan_edges, math.inf), values, right), nan_edges.sum()
        of_nan = edges.shape[0] if right else edges.shape[0] - nans
        return torch.where(torch.isnan(values), of_nan, torch.minimum(found, edges.shape[0] - nans))
    return _searched(edges, values, right)


def _searched(edges: Tensor, values: Tensor, right: bool) -> Tensor:
    if graph.tracing and edges.shape[0] and edges.device.type == "cpu":
        return _bisected(edges, values, right)
    if edges.shape[0] and functorch.peek_interpreter_stack() is not None:
        # torch's batching rule warns about values that it has expanded itself: batch them as the edges are.
        values = values + torch.zeros_like(edges[0])
    return torch.searchsorted(edges, values.contiguous(), right=right)


def _bisected(edges: Tensor, values: Tensor, right: bool) -> Tensor:
    """Return the places by bisection without branches, one compiled loop: torch.searchsorted takes four times as long."""
    # Of 32 bits, as most values have: vectors of both have as many elements.
    dtype = torch.int32 if edges.shape[0] < 1 << 30 else torch.int64
    place, step = torch.zeros_like(values, dtype=dtype), 1 << (edges.shape[0].bit_length() - 1)
    while step:
        tried = place + step
        edge = elements_at(edges, [(tried - 1).clamp(max=edges.shape[0] - 1)])
        below = edge <= values if right else edge < values
        place = torch.where((tried <= edges.shape[0]) & below, tried, place)
        step >>= 1
    return place.to(torch.int64)


def _by_comparison(edges: Tensor, values: Tensor, right: bool) -> Tensor:
    values = values.unsqueeze(-1)
    same = edges.real == values.real
    below = torch.where(same, edges.imag < values.imag, edges.real < values.real)
    if right:
        below = below | (edges == values)
    return below.sum(-1)


@shown_as_jit("right", "method")
@compiled_when_repeated
def digitize(x: ArrayLike, bins: ArrayLike, right: bool = False, *, method: str | None = None) -> Array:
    """Return the number of the bin of each element; `bins` are edges in ascending or descending order.

    A bin includes its left edge, with `right` its right one.
    """
    check_arraylike("digitize", x, bins)
    if method is not None:
        _check_method(method)
    edges = as_array(bins)
    if edges.ndim != 1:
        raise ValueError(f"digitize: bins must be a 1-dimensional array; got bins={bins!r}")
    source = as_array(x)
    if not edges.size:
        return Array(torch.zeros(source.shape, dtype=torch.int32, device=source._tensor.device))
    side = "left" if right else "right"
    (b, v), _ = promote("digitize", edges, source)
    ascending = unsigned.ge(b[-1], b[0])
    up = searchsorted(Array(b), Array(v), side)._tensor
    down = b.shape[0] - searchsorted(Array(unsigned.flip(b, (0,))), Array(v), side)._tensor
    return Array(torch.where(ascending, up, down))
