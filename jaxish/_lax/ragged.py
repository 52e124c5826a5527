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
    in front; a batch dimension's groups do not matter. `group_sizes` is one-dimensional, or has its groups last, behind
    the batch dimensions and the kept (contracted) ones before the ragged one. `TypeError` when shapes do not fit.
    """
    if group_offset is not None or out_sharding is not None:
        raise NotImplementedError(
            "ragged_dot takes neither group_offset nor out_sharding here; slice the groups beforehand."
        )
    (a, _), (b, _) = ops.operand("ragged_dot", lhs), ops.operand("ragged_dot", rhs)
    sizes = tensor_of(ops.array_of("ragged_dot", group_sizes, 2))
    numbers = ragged_dot_dimension_numbers
    if len(numbers.lhs_ragged_dimensions) != 1:
        raise TypeError("ragged_dot_general expects exactly one lhs ragged dimension.")
    (ragged,) = numbers.lhs_ragged_dimensions
    _check_in_range(ragged, a.dim(), "lhs ragged dimension", "lhs")
    lc, rc, lb, rb = canonical_numbers(numbers.dot_dimension_numbers)
    kept = tuple(d for d in range(a.dim()) if d not in (*lc, *lb))
    siblings = lb if ragged in lb else lc if ragged in lc else kept
    before = (*(() if ragged in lb else lb), *siblings[: siblings.index(ragged)])
    group_dims = tuple(numbers.rhs_group_dimensions)
    _check_groups(a, b, sizes, before, group_dims, ragged in kept, (*rc, *rb))
    dtype = result_dtype(a.dtype, b.dtype)
    if preferred_element_type is not None:
        dtype = dtypes.to_torch(dtypes.requested_dtype(preferred_element_type, "ragged_dot"))
    types = compute_types(precision)
    if ragged in lb:
        return Array(contract(a, b, (lc, rc, lb, rb), dtype, types))
    mask = _membership(sizes, a.shape[ragged], ragged, before, a.dim())
    grouped = unsigned.via_bits(
        lambda t: torch.where(mask, t.unsqueeze(0), torch.zeros((), dtype=t.dtype, device=t.device)), a
    )
    shifted, batch = tuple(d + 1 for d in lc), tuple(d + 1 for d in lb)
    if group_dims:
        # Rows are zero in all groups but their own: contracting the groups too picks the right matrix.
        out = contract(grouped, b, ((0, *shifted), (*group_dims, *rc), batch, rb), dtype, types)
    else:
        out = contract(grouped, b, (shifted, rc, batch, rb), dtype, types).movedim(len(batch), 0)
    return Array(out)


def _check_in_range(dim: int, rank: int, what: str, operand: str) -> None:
    if not 0 <= dim < rank:
        raise TypeError(
            f"ragged_dot_general requires {what} numbers to be nonnegative and less than the number of axes of the "
            f"{operand} value, got {dim} for {operand} of rank {rank}."
        )


def _check_groups(
    a: Tensor, b: Tensor, sizes: Tensor, before: Sequence[int], group_dims: Sequence[int], is_kept: bool,
    taken: Sequence[int],
) -> None:  # fmt: skip
    if not sizes.dim():
        raise TypeError("expected rank of group_sizes to be >=1.")
    expected = (*(a.shape[d] for d in before), sizes.shape[-1])
    if sizes.dim() != 1 and tuple(sizes.shape) != expected:
        raise TypeError(f"expected group_sizes to have shape {expected}, got {tuple(sizes.shape)}.")
    if not is_kept:
        if group_dims:
            raise TypeError(
                "ragged_dot_general requires zero group dimensions in the rhs when lhs ragged dimension is contracting or "
                "batch."
            )
        return
    if len(group_dims) != 1:
        raise TypeError(
            "ragged_dot_general requires exactly one rhs group dimension when lhs ragged dimension is noncontracting."
        )
    (group,) = group_dims
    _check_in_range(group, b.dim(), "rhs group dimension", "rhs")
    if group in taken:
        raise TypeError(
            "ragged_dot_general requires rhs group dimension numbers to be distinct from contracting and batch dimensions."
        )
    if b.shape[group] != sizes.shape[-1]:
        raise TypeError(f"expected rhs group dimension size to be {sizes.shape[-1]}, got {b.shape[group]}.")


def _membership(sizes: Tensor, length: int, dim: int, before: Sequence[int], rank: int) -> Tensor:
    """Return whether each position along `dim` belongs to each group, the groups in front.

    Sizes with several dimensions have those of `before` in front of the groups.
    """
    sizes = sizes.to(torch.int64)
    ends = torch.cumsum(sizes, -1)
    aligned = [1] * rank
    order = sorted(range(sizes.dim() - 1), key=lambda i: before[i])
    for i in order:
        aligned[before[i]] = sizes.shape[i]

    def placed(t: Tensor) -> Tensor:
        return t.permute(t.dim() - 1, *order).reshape(-1, *aligned)

    places = torch.arange(length, device=sizes.device).reshape([1, *(-1 if d == dim else 1 for d in range(rank))])
    return (places < placed(ends)) & (places >= placed(ends - sizes))
