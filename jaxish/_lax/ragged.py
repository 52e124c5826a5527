"""Products of matrices whose rows come in groups, each multiplied by a matrix of its own."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .._core import dtypes, unsigned
from .._core.array import Array, tensor_of
from .._core.typing import ArrayLike, DTypeLike
from .._devices.shardings import NamedSharding, PartitionSpec
from . import operands as ops
from .contraction import DotDimensionNumbers, canonical_numbers, contract, result_dtype
from .precision import PrecisionLike, compute_types


@dataclass(frozen=True)
class RaggedDotDimensionNumbers:
    """The dimension numbers of a dot_general, which lhs dimension is grouped, and which rhs dimension counts groups."""

    dot_dimension_numbers: DotDimensionNumbers
    lhs_ragged_dimensions: Sequence[int]
    rhs_group_dimensions: Sequence[int]


def ragged_dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    group_sizes: ArrayLike,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
    group_offset: ArrayLike | None = None,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Return lhs (rows, k) with consecutive groups of rows multiplied by the matrices of rhs (groups, k, n).

    Rows behind the last group give zero. `TypeError` when shapes do not fit.
    """
    numbers = RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), [0], [0])
    return ragged_dot_general(
        lhs, rhs, group_sizes, numbers, precision, preferred_element_type, group_offset, out_sharding
    )


def ragged_dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    group_sizes: ArrayLike,
    ragged_dot_dimension_numbers: RaggedDotDimensionNumbers,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
    group_offset: ArrayLike | None = None,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:
    """Return a dot_general with one lhs dimension cut into groups.

    Is that dimension kept, each group meets its own slice of rhs; is it contracted, the result has one sum per group
    in front. `group_sizes` is one-dimensional.
    """
    if group_offset is not None or out_sharding is not None:
        raise NotImplementedError(
            "ragged_dot takes neither group_offset nor out_sharding here; slice the groups beforehand."
        )
    (a, _), (b, _) = ops.operand("ragged_dot", lhs), ops.operand("ragged_dot", rhs)
    sizes = tensor_of(ops.array_of("ragged_dot", group_sizes, 2))
    lc, rc, lb, rb = canonical_numbers(ragged_dot_dimension_numbers.dot_dimension_numbers)
    (ragged,) = ragged_dot_dimension_numbers.lhs_ragged_dimensions
    group_dims = tuple(ragged_dot_dimension_numbers.rhs_group_dimensions)
    if sizes.dim() != 1:
        raise NotImplementedError(
            "ragged_dot_general takes one-dimensional group_sizes only; map it over batches with vmap."
        )
    if ragged in lb:
        raise NotImplementedError("ragged_dot_general over a batch dimension is dot_general: call that.")
    if (ragged in lc) == bool(group_dims):
        raise TypeError("rhs_group_dimensions must be given when the ragged dimension is kept, and only then.")
    if group_dims and b.shape[group_dims[0]] != sizes.shape[0]:
        raise TypeError(f"expected rhs group dimension size to be {sizes.shape[0]}, got {b.shape[group_dims[0]]}.")
    dtype = result_dtype(a.dtype, b.dtype)
    if preferred_element_type is not None:
        dtype = dtypes.to_torch(dtypes.requested_dtype(preferred_element_type, "ragged_dot"))
    mask = _membership(sizes, a.shape[ragged], ragged, a.dim())
    grouped = unsigned.via_bits(
        lambda t: torch.where(mask, t.unsqueeze(0), torch.zeros((), dtype=t.dtype, device=t.device)), a
    )
    types = compute_types(precision)
    shifted, batch = tuple(d + 1 for d in lc), tuple(d + 1 for d in lb)
    if group_dims:
        # Rows are zero in all groups but their own: contracting the groups too picks the right matrix.
        out = contract(grouped, b, ((0, *shifted), (*group_dims, *rc), batch, rb), dtype, types)
    else:
        out = contract(grouped, b, (shifted, rc, batch, rb), dtype, types).movedim(len(batch), 0)
    return Array(out)


def _membership(sizes: Tensor, length: int, dim: int, rank: int) -> Tensor:
    """Return whether each position along `dim` belongs to each group, the groups in front."""
    ends = torch.cumsum(sizes.to(torch.int64), 0).reshape(-1, *(1,) * rank)
    places = torch.arange(length, device=sizes.device).reshape([1, *(-1 if d == dim else 1 for d in range(rank))])
    return (places < ends) & (places >= ends - sizes.to(torch.int64).reshape(ends.shape))
