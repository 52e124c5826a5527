"""softmax and the logarithm of a sum of exponentials, without overflow."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .._core import selection
from .._core.array import Array, as_array, tensor_of, type_text
from .._core.promotion import promote_inexact, tensor
from .._core.typing import ArrayLike
from .._lax.operands import NUMBER, check_accepted
from .._transforms.repeated import compiled_when_repeated
from .._transforms.shown_calls import shown_as_jit
from .reductions import axes_and_names, extremum_along, sum_along

Axis = int | Sequence[int] | None


def mask_of(where: Any) -> Tensor | None:
    """Return the tensor of a mask. `ValueError` for one that is not boolean."""
    if where is None:
        return None
    mask = as_array(where)
    if mask._tensor.dtype is not torch.bool:
        raise ValueError(f"where must be None or a boolean array, got {type_text(mask)}.")
    return tensor_of(mask)


def _exponents(function: str, x: Any) -> Tensor:
    """Return `x` in floating point. `TypeError` for booleans, which are not subtracted."""
    check_accepted("sub", tensor(function, x), 0, NUMBER)
    return promote_inexact(function, x)[0][0]


def finite_max(x: Tensor, dims: tuple[int, ...], names: tuple[str, ...], mask: Tensor | None) -> Tensor:
    """Return the maximum along `dims`, kept, and along named axes as a constant for derivatives; 0 where it is not finite."""
    held = x.detach() if mask is None else selection.where(mask, x, -torch.inf).detach()
    if not held.numel():
        return torch.zeros([1 if i in dims else n for i, n in enumerate(held.shape)], dtype=x.dtype, device=x.device)
    top = extremum_along(held, dims, names, greatest=True, keepdims=True)
    return selection.where(torch.isfinite(top), top, 0)


def raised_within(t: Tensor, mask: Tensor | None) -> Tensor:
    """Return exp(t), zero with a zero derivative outside the mask, also where exp(t) is infinite."""
    return torch.exp(t if mask is None else selection.where(mask, t, -torch.inf))


def softmax(x: ArrayLike, axis: Axis = -1, where: ArrayLike | None = None) -> Array:
    """Return exp(x) divided by its sum along `axis` (an integer, several, or None for all); zero outside `where`."""
    found = _exponents("softmax", x)
    (dims, names), mask = axes_and_names(axis, found.dim()), mask_of(where)
    if len(dims) == 1 and not names and mask is None and not found.is_complex():
        return Array(torch.softmax(found, dims[0]), False)
    raised = raised_within(found - finite_max(found, dims, names, mask), mask)
    total = sum_along(raised, dims, names, True)
    return Array(raised / (total if mask is None else selection.where(total == 0, 1, total)), False)


@shown_as_jit("axis")
def log_softmax(x: ArrayLike, axis: Axis = -1, where: ArrayLike | None = None) -> Array:
    """Return the logarithm of `softmax`; minus infinity outside `where`."""
    found = _exponents("log_softmax", x)
    (dims, names), mask = axes_and_names(axis, found.dim()), mask_of(where)
    if len(dims) == 1 and not names and mask is None and not found.is_complex():
        return Array(torch.log_softmax(found, dims[0]), False)
    shifted = found - finite_max(found, dims, names, mask)
    result = shifted - torch.log(sum_along(raised_within(shifted, mask), dims, names, True))
    return Array(result if mask is None else selection.where(mask, result, -torch.inf), False)


@compiled_when_repeated
def logsumexp(
    a: ArrayLike,
    axis: Axis = None,
    b: ArrayLike | None = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: ArrayLike | None = None,
) -> Any:
    """Return log(sum(b exp(a))) along `axis`, without overflow; with `return_sign`, the sum's sign comes second.

    Without `return_sign`, a negative sum gives NaN.
    """
    if b is None:
        (found,), _ = promote_inexact("logsumexp", a)
        factor = None
    else:
        (found, factor), _ = promote_inexact("logsumexp", a, b)
        found = selection.where(factor == 0, -torch.inf, found)
    (dims, names), mask = axes_and_names(axis, found.dim()), mask_of(where)
    real = found.real if found.is_complex() else found
    top = finite_max(real, dims, names, mask)
    raised = raised_within(found - top, mask)
    if factor is not None:
        raised = factor * raised
    if mask is not None:
        raised = selection.where(mask, raised, 0)
    total = sum_along(raised, dims, names, True)
    sign = torch.sgn(total)
    magnitude = torch.log(total.abs()) if return_sign or factor is not None else torch.log(total)
    result = magnitude + top
    if not return_sign and factor is not None and not found.is_complex():
        result = selection.where(sign < 0, torch.nan, result)
    if not keepdims:
        result, sign = result.squeeze(dims), sign.squeeze(dims)
    return (Array(result, False), Array(sign, False)) if return_sign else Array(result, False)
