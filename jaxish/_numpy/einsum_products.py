"""Sums of products of two arrays by a product function that the caller of einsum gives in place of lax.dot_general."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from torch import Tensor

from .._core import dtypes
from .._core.array import Array, as_array, tensor_of
from .._core.promotion import convert

Operand = TypeVar("Operand", Array, Tensor)
Summed = Callable[[Sequence[str], str, Sequence[Tensor]], Tensor]


def contract_by(
    dot_general: Callable[..., Any], precision: Any, dtype: Any, summed: Summed, terms: Sequence[str], made: str,
    taken: Sequence[Array],
) -> Array:  # fmt: skip
    """Return the sum of products of one or two arrays whose axes `terms` name; `made` names the result's axes.

    `summed` takes diagonals and sums over axes that only one array has. The rest is one call of `dot_general`, for a
    result of this dtype, with the operands in the order and the dimension numbers that JAX gives it.
    """
    if len(taken) == 1:
        alone, names = _alone(summed, dtype, taken[0], terms[0], made)
        return Array(tensor_of(alone).permute(_places(names, made)))
    (lhs, rhs), (lhs_names, rhs_names) = taken, terms
    lhs, lhs_names = stretched(lhs, lhs_names, rhs, rhs_names)
    rhs, rhs_names = stretched(rhs, rhs_names, lhs, lhs_names)
    lhs, lhs_names = _alone(summed, dtype, lhs, lhs_names, made + rhs_names)
    rhs, rhs_names = _alone(summed, dtype, rhs, rhs_names, made + lhs_names)
    both = {*lhs_names} & {*rhs_names}
    batch, contracted = [n for n in made if n in both], sorted(both - {*made})
    left, right = ([n for n in names if n not in both] for names in (lhs_names, rhs_names))
    found = [*batch, *right, *left]
    if found == [*made]:  # no transposition is needed in this order
        lhs, lhs_names, rhs, rhs_names = rhs, rhs_names, lhs, lhs_names
    else:
        found = [*batch, *left, *right]
    numbers = tuple((_places(lhs_names, chosen), _places(rhs_names, chosen)) for chosen in (contracted, batch))
    result = as_array(dot_general(lhs, rhs, numbers, precision, preferred_element_type=dtype))
    return result if found == [*made] else Array(tensor_of(result).permute(_places(found, made)))


def _places(names: Sequence[str], chosen: Iterable[str]) -> tuple[int, ...]:
    return tuple(map(names.index, chosen))


def stretched(array: Operand, names: str, other: Operand, other_names: str) -> tuple[Operand, str]:
    """Return the array without its axes of size one that the other array has with another size."""
    sizes = dict(
        zip(reversed(other_names), reversed(other.shape), strict=True)
    )  # of a name that stands twice, the first
    dropped = tuple(i for i, n in enumerate(names) if array.shape[i] == 1 and sizes.get(n, 1) != 1)
    kept = "".join(n for i, n in enumerate(names) if i not in dropped)
    return (array.squeeze(dropped) if dropped else array), kept


def _alone(summed: Summed, dtype: Any, array: Array, names: str, wanted: str) -> tuple[Array, str]:
    """Return the array with each of the axes that are wanted once, summed over its others in the result's dtype."""
    kept = "".join(n for n in dict.fromkeys(wanted) if n in names)
    if len(kept) == len(names):
        return array, names
    tensor = tensor_of(array)
    if dtypes.promote_types(array.dtype, dtype) != array.dtype:
        tensor = convert(tensor, dtypes.to_torch(dtype))
    order = "".join(n for n in dict.fromkeys(reversed(names)) if n in kept)[
        ::-1
    ]  # of an axis named twice the last stays
    return Array(summed([names], order, [tensor])), order
