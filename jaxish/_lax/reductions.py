"""Reductions and scans along dimensions: sums, products, extrema, logical ones, any associative computation.

Dimensions are counted from the front and given one by one. Results keep the dtype of the operand.
"""

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._core import config, dtypes, graph, narrow, tree, unsigned
from .._core.array import Array, device_of, tensor_of, type_text
from .._core.dimensions import index_of
from .._core.graph import TensorType
from .._core.operations import shown_as
from .._core.promotion import convert
from .._core.typing import ArrayLike, DTypeLike
from .._devices.shardings import NamedSharding, PartitionSpec
from .._tensors import ordering
from .._tensors.elements import has_cheap_value
from .._tensors.ordering import first_extreme, highest, lowest
from . import elementwise
from . import operands as ops
from .operands import DtypeSet
from .out_sharding import laid_over
from .running_extremum import running_extremum

_NUMBER = DtypeSet(("number",), ops.NUMBER.dtypes)
_BITS = ops.BITS.dtypes


def _reducible(
    name: str, operand: Any, axes: Sequence[int], accepted: DtypeSet
) -> tuple[Tensor, tuple[int, ...], bool]:
    dims = _axes(ops.array_of(name, operand), axes)
    t, weak = ops.operand(name, operand, accepted)
    return t, dims, weak


def _axes(array: Array, axes: Sequence[int], out_of_bounds: type[Exception] = ValueError) -> tuple[int, ...]:
    axes = tuple(operator.index(a) for a in axes)
    if len(set(axes)) != len(axes):
        raise ValueError(f"duplicate value in 'axes' of reduction: {axes}")
    if any(not 0 <= a < array.ndim for a in axes):
        raise out_of_bounds(f"reduction axes {axes} contains out-of-bounds indices for {type_text(array)}.")
    return axes


def _empty(t: Tensor, axes: Sequence[int]) -> bool:
    return any(not t.shape[a] for a in axes)


def _constant(t: Tensor, axes: Sequence[int], value: Any) -> Tensor:
    shape = [n for d, n in enumerate(t.shape) if d not in axes]
    return narrow.full(shape, value, t.dtype, t.device)


def reduce_sum(operand: ArrayLike, axes: Sequence[int], *, out_sharding: Any = None) -> Array:
    """Return sums over `axes` in the operand's dtype. `TypeError` for booleans."""
    if out_sharding is not None:
        return laid_over(out_sharding, "reduce_sum", reduce_sum(operand, axes))
    t, dims, weak = _reducible("reduce_sum", operand, axes, _NUMBER)
    if t.dtype in dtypes.HALVES and not config.allow_f16_reductions.value and any(t.shape[d] != 1 for d in dims):
        raise ValueError(
            f"reduce_sum on operand {type_text(Array(t))} is not allowed when jax_allow_f16_reductions=False. Convert it to "
            "float32 first."
        )
    return Array(unsigned.sum(t, dims), weak)


def reduce_prod(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """Return products over `axes` in the operand's dtype. `TypeError` for booleans."""
    t, dims, weak = _reducible("reduce_prod", operand, axes, _NUMBER)
    return Array(product(t, dims), weak)


def product(t: Tensor, dims: Sequence[int]) -> Tensor:
    """Return products of a tensor over several dimensions."""
    for d in sorted(dims, reverse=True):
        t = unsigned.prod(t, d)
    return t


def reduce_max(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """Return the greatest elements over `axes`; the least value of the dtype where there are none."""
    t, dims, weak = _reducible("reduce_max", operand, axes, ops.ANY)
    return Array(extremum(t, dims, greatest=True), weak)


def reduce_min(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """Return the least elements over `axes`; the greatest value of the dtype where there are none."""
    t, dims, weak = _reducible("reduce_min", operand, axes, ops.ANY)
    return Array(extremum(t, dims, greatest=False), weak)


def extremum(t: Tensor, dims: Sequence[int], greatest: bool) -> Tensor:
    """Return the greatest or least elements over `dims`, and the other end of the dtype's range where there are none."""
    if dims and _empty(t, dims):
        return _constant(t, dims, lowest(t.dtype) if greatest else highest(t.dtype))
    return ordering.extremum(t, dims, greatest)


def _logical(name: str, operand: Any, axes: Sequence[int]) -> tuple[Tensor, tuple[int, ...], bool]:
    t, weak = ops.operand(name, operand)
    if t.dtype not in _BITS:
        raise TypeError(f"logical reduction requires operand dtype bool or int, got {dtypes.TO_NUMPY[t.dtype]}.")
    return t, _axes(Array(t), axes, IndexError), weak


def reduce_and(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """Return the bits that are set in all elements over `axes`, for booleans whether all hold."""
    t, dims, weak = _logical("reduce_and", operand, axes)
    if t.dtype is torch.bool:
        return Array(torch.all(t, dims) if dims else t, weak)
    return Array(unsigned.via_bits(lambda b: fold(torch.bitwise_and, b, dims, -1), t), weak)


def reduce_or(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """Return the bits that are set in any element over `axes`, for booleans whether any holds."""
    t, dims, weak = _logical("reduce_or", operand, axes)
    if t.dtype is torch.bool:
        return Array(torch.any(t, dims) if dims else t, weak)
    return Array(unsigned.via_bits(lambda b: fold(torch.bitwise_or, b, dims, 0), t), weak)


def reduce_xor(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """Return the bits that are set in an odd number of elements over `axes`."""
    t, dims, weak = _logical("reduce_xor", operand, axes)
    return Array(unsigned.via_bits(lambda b: fold(torch.bitwise_xor, b, dims, 0), t), weak)


def fold(combine: Callable[[Tensor, Tensor], Tensor], t: Tensor, dims: Sequence[int], identity: Any) -> Tensor:
    """Return an associative and commutative operation applied over `dims`, by halving."""
    if not dims:
        return t
    if t.dtype is torch.uint8 and identity == -1:
        identity = 255
    if _empty(t, dims):
        return _constant(t, dims, identity)
    (result,) = _folded(lambda a, b: [combine(a[0], b[0])], [t], dims)
    return result


Combine = Callable[[Sequence[Tensor], Sequence[Tensor]], Sequence[Tensor]]


def _folded(combine: Combine, tensors: Sequence[Tensor], dims: Sequence[int]) -> list[Tensor]:
    """Reduce several tensors together over `dims`, none of which is empty."""
    kept = [d for d in range(tensors[0].dim()) if d not in dims]
    shape = [tensors[0].shape[d] for d in kept]
    rows = [t.permute(*dims, *kept).reshape(-1, *shape) for t in tensors]
    while (count := rows[0].shape[0]) > 1:
        half = count // 2
        merged = combine([r[:half] for r in rows], [r[half : 2 * half] for r in rows])
        rows = [torch.cat([m, r[2 * half :]]) if count % 2 else m for m, r in zip(merged, rows, strict=True)]
    return [r.squeeze(0) for r in rows]


def reduce(
    operands: Any,
    init_values: Any,
    computation: Callable[[Any, Any], Any],
    dimensions: Sequence[int],
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Any:
    """Return a pytree of arrays reduced together over `dimensions` by an associative, commutative `computation`.

    `computation(x, y)` maps two pytrees of scalars (or arrays of equal shape) to one; `init_values` are its identity,
    combined in exactly once. lax.add, mul, max, min and the bitwise functions run as one torch reduction.
    """
    if out_sharding is not None:
        raise NotImplementedError("reduce does not take out_sharding; use lax.with_sharding_constraint.")
    leaves, spec = tree.flatten(operands)
    init_leaves, init_spec = tree.flatten(init_values)
    if spec != init_spec:
        raise ValueError(f"Operands must have the same tree structure as init_values: {spec} vs. {init_spec}")
    if not leaves:
        raise ValueError("lax.reduce must be given at least one operand.")
    arrays = [ops.array_of("reduce", x, i) for i, x in enumerate(leaves)]
    starts = [ops.array_of("reduce", x, i, device_of(*arrays)) for i, x in enumerate(init_leaves)]
    tensors = [tensor_of(a) for a in arrays]
    firsts = [convert(tensor_of(s), t.dtype) for s, t in zip(starts, tensors, strict=True)]
    if any(f.dim() for f in firsts):
        raise ValueError(
            f"reduce found non-scalar initial value: the init_values have shapes {[tuple(f.shape) for f in firsts]}."
        )
    if len({t.shape for t in tensors}) > 1:
        raise IndexError(f"reduce operands must have equal shapes, got {[tuple(t.shape) for t in tensors]}")
    dims = _axes(arrays[0], dimensions)
    weak = [a._weak and s._weak for a, s in zip(arrays, starts, strict=True)]
    if not dims:
        return spec.unflatten([Array(t, w) for t, w in zip(tensors, weak, strict=True)])
    monoid = _MONOIDS.get(computation) if len(tensors) == 1 else None
    if monoid is not None:
        whole = monoid(arrays[0], dims)
        if not is_identity(init_leaves[0], computation, tensors[0].dtype):
            whole = computation(whole, Array(firsts[0]))
        return spec.unflatten([Array(tensor_of(whole), weak[0])])

    def combine(a: Sequence[Tensor], b: Sequence[Tensor]) -> list[Tensor]:
        out = computation(*(spec.unflatten([Array(t) for t in side]) for side in (a, b)))
        found = [tensor_of(ops.array_of("reduce", x)) for x in tree.flatten(out)[0]]
        if [f.dtype for f in found] != [t.dtype for t in tensors]:
            raise ValueError(
                f"reduce: computation returns dtypes {[str(f.dtype) for f in found]} for operands of dtypes "
                f"{[str(t.dtype) for t in tensors]}; they must be equal."
            )
        return found

    whole = _reduced(tensors, firsts, dims, combine, computation)
    return spec.unflatten([Array(t, w) for t, w in zip(whole, weak, strict=True)])


def graph_on_scalars(combine: Combine, tensors: Sequence[Tensor]) -> graph.Graph | None:
    """Return the graph of what combines elements of tensors, two of each, for a jaxpr; None where it captures values."""
    types = [TensorType((), t.dtype, t.device) for t in tensors]
    closed = graph.trace(lambda *given: combine(given[: len(types)], given[len(types) :]), types * 2)
    return None if closed.captured else closed.graph


def _shown_reduce(
    tensors: list[Tensor], firsts: list[Tensor], dims: tuple[int, ...], combine: Combine, computation: Any
) -> dict[str, Any] | None:
    body = graph_on_scalars(combine, tensors)
    return body and {"computation": computation, "dimensions": dims, "jaxpr": body}


@shown_as("reduce", _shown_reduce)
def _reduced(
    tensors: list[Tensor], firsts: list[Tensor], dims: tuple[int, ...], combine: Combine, _: Any
) -> list[Tensor]:
    if _empty(tensors[0], dims):
        return [f.expand([n for d, n in enumerate(tensors[0].shape) if d not in dims]) for f in firsts]
    whole = _folded(combine, tensors, dims)
    return list(combine([f.expand(w.shape) for f, w in zip(firsts, whole, strict=True)], whole))


IDENTITIES: dict[Any, Callable[[torch.dtype], Any]] = {
    elementwise.add: lambda dtype: 0,
    elementwise.mul: lambda dtype: 1,
    elementwise.max: lowest,
    elementwise.min: highest,
    elementwise.bitwise_and: lambda dtype: (
        True if dtype is torch.bool else -1 if dtype.is_signed else dtypes.integer_bounds(dtype).max
    ),
    elementwise.bitwise_or: lambda dtype: 0,
    elementwise.bitwise_xor: lambda dtype: 0,
}


def is_identity(first: Any, computation: Any, dtype: torch.dtype) -> bool:
    """Tell whether an initial value, as the caller gave it, is known to change nothing in a reduction of this dtype."""
    if computation not in IDENTITIES or (isinstance(first, Array) and not has_cheap_value(tensor_of(first))):
        return False
    return bool(np.all(np.asarray(first) == IDENTITIES[computation](dtype)))


_MONOIDS: dict[Any, Callable[[Any, Sequence[int]], Array]] = {
    elementwise.add: reduce_sum,
    elementwise.mul: reduce_prod,
    elementwise.max: reduce_max,
    elementwise.min: reduce_min,
    elementwise.bitwise_and: reduce_and,
    elementwise.bitwise_or: reduce_or,
    elementwise.bitwise_xor: reduce_xor,
}


# Positions


def argmax(operand: ArrayLike, axis: int, index_dtype: DTypeLike) -> Array:
    """Return the position of the first greatest element (or the first NaN) along an axis, in `index_dtype`."""
    return _position("argmax", operand, axis, index_dtype)


def argmin(operand: ArrayLike, axis: int, index_dtype: DTypeLike) -> Array:
    """Return the position of the first least element (or the first NaN) along an axis, in `index_dtype`."""
    return _position("argmin", operand, axis, index_dtype)


def _position(name: str, operand: Any, axis: int, index_dtype: Any) -> Array:
    t, _ = ops.operand(name, operand)
    if not isinstance(axis, int | np.integer):
        raise TypeError(f"{name} axis must be an integer, got {axis!r}")
    if not 0 <= axis < t.dim():
        raise ValueError(f"Invalid axis {axis} for operand shape {tuple(t.shape)}")
    dtype = dtypes.requested_dtype(index_dtype, name)
    if dtype.kind not in "iu":
        raise TypeError(f"index_dtype must be an integer type, but got {dtype}")
    if not t.shape[axis]:
        raise ValueError(
            f"argmin and argmax require non-empty reduced dimension. operand.shape={tuple(t.shape)} axis={axis}"
        )
    if t.dtype.is_complex:
        raise TypeError(
            f"{name} does not accept dtype {dtypes.TO_NUMPY[t.dtype]} at position 0. "
            "Accepted dtypes at position 0 are subtypes of integer, floating, bool."
        )
    return Array(first_extreme(t, axis, greatest=name == "argmax").to(dtypes.to_torch(dtype)))


# Scans


def _scannable(name: str, operand: Any, axis: Any, accepted: DtypeSet = _NUMBER) -> tuple[Tensor, int, bool]:
    axis, rank = index_of(axis), ops.array_of(name, operand).ndim
    if axis < 0:
        raise ValueError(f"{name}: negative axes are not allowed, got {axis}. Count from the front.")
    if axis >= rank:
        raise ValueError(f"axis {axis} is out of bounds for an array of rank {rank}")
    t, weak = ops.operand(name, operand, accepted)
    return t, axis, weak


def _scan(name: str, function: Callable[[Tensor, int], Tensor]) -> Callable[[Tensor, int, bool], Tensor]:
    """Return what runs over an axis, from its end with `reverse`."""

    @shown_as(name, lambda t, axis, reverse: {"axis": axis, "reverse": reverse})
    def run(t: Tensor, axis: int, reverse: bool) -> Tensor:
        return unsigned.flip(function(unsigned.flip(t, (axis,)), axis), (axis,)) if reverse else function(t, axis)

    return run


_cumsum = _scan("cumsum", unsigned.cumsum)
_cumprod = _scan("cumprod", unsigned.cumprod)
_cummax = _scan("cummax", lambda t, axis: running_extremum(t, axis, greatest=True))
_cummin = _scan("cummin", lambda t, axis: running_extremum(t, axis, greatest=False))
_cumlogsumexp = _scan("cumlogsumexp", torch.logcumsumexp)


def cumsum(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
    """Return running sums along an axis, with `reverse` from its end."""
    t, axis, weak = _scannable("cumsum", operand, axis)
    return Array(_cumsum(t, axis, bool(reverse)), weak)


def cumprod(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
    """Return running products along an axis, with `reverse` from its end."""
    t, axis, weak = _scannable("cumprod", operand, axis)
    return Array(_cumprod(t, axis, bool(reverse)), weak)


def cummax(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
    """Return running maxima along an axis, with `reverse` from its end."""
    t, axis, weak = _scannable("cummax", operand, axis)
    return Array(_cummax(t, axis, bool(reverse)), weak)


def cummin(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
    """Return running minima along an axis, with `reverse` from its end."""
    t, axis, weak = _scannable("cummin", operand, axis)
    return Array(_cummin(t, axis, bool(reverse)), weak)


def cumlogsumexp(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
    """Return the logarithms of running sums of exponentials along an axis, with `reverse` from its end."""
    t, axis, weak = _scannable("cumlogsumexp", operand, axis)
    if t.dtype not in ops.INEXACT.dtypes:
        raise OverflowError(f"cumlogsumexp needs a floating or complex operand, got {dtypes.TO_NUMPY[t.dtype]}.")
    return Array(_cumlogsumexp(t, axis, bool(reverse)), weak)
