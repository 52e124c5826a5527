"""Functions of whole axes: softmax and its relatives, normalisation, one-hot vectors."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .._core import dtypes, selection
from .._core.array import Array, as_array, tensor_of
from .._core.promotion import convert, promote_inexact
from .._core.typing import ArrayLike

Axis = int | Sequence[int] | None


def _dims(axis: Axis, rank: int) -> list[int]:
    axes = range(rank) if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
    for a in axes:
        if not -rank <= a < rank:
            raise ValueError(f"axis {a} is out of bounds for array of dimension {rank}")
    return [a % rank for a in axes] if rank else []


def _mask(where: Any) -> Tensor | None:
    return None if where is None else convert(tensor_of(as_array(where)), torch.bool)


def _finite_max(x: Tensor, dims: list[int], mask: Tensor | None) -> Tensor:
    """Return the maximum along `dims`, kept, as a constant for derivatives; 0 where it is not finite."""
    held = x.detach() if mask is None else selection.where(mask, x, -torch.inf).detach()
    if not held.numel():
        return torch.zeros([1 if i in dims else n for i, n in enumerate(held.shape)], dtype=x.dtype, device=x.device)
    top = held.amax(dims, keepdim=True) if dims else held
    return selection.where(torch.isfinite(top), top, 0)


def _sum(x: Tensor, dims: list[int], keepdim: bool) -> Tensor:
    return x.sum(dims, keepdim=keepdim) if dims else x


def softmax(x: ArrayLike, axis: Axis = -1, where: ArrayLike | None = None) -> Array:
    """Return exp(x) divided by its sum along `axis` (an integer, several, or None for all); zero outside `where`."""
    (found,), weak = promote_inexact("softmax", x)
    dims, mask = _dims(axis, found.dim()), _mask(where)
    if len(dims) == 1 and mask is None:
        return Array(torch.softmax(found, dims[0]), weak)
    raised = _raised(found - _finite_max(found, dims, mask), mask)
    total = _sum(raised, dims, True)
    return Array(raised / (total if mask is None else selection.where(total == 0, 1, total)), weak)


def _raised(t: Tensor, mask: Tensor | None) -> Tensor:
    """Return exp(t), zero with a zero derivative outside the mask, also where exp(t) is infinite."""
    return torch.exp(t if mask is None else selection.where(mask, t, -torch.inf))


def log_softmax(x: ArrayLike, axis: Axis = -1, where: ArrayLike | None = None) -> Array:
    """Return the logarithm of `softmax`; minus infinity outside `where`."""
    (found,), weak = promote_inexact("log_softmax", x)
    dims, mask = _dims(axis, found.dim()), _mask(where)
    if len(dims) == 1 and mask is None:
        return Array(torch.log_softmax(found, dims[0]), weak)
    shifted = found - _finite_max(found, dims, mask)
    result = shifted - torch.log(_sum(_raised(shifted, mask), dims, True))
    return Array(result if mask is None else selection.where(mask, result, -torch.inf), weak)


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
        (found,), weak = promote_inexact("logsumexp", a)
        factor = None
    else:
        (found, factor), weak = promote_inexact("logsumexp", a, b)
        found = selection.where(factor == 0, -torch.inf, found)
    dims, mask = _dims(axis, found.dim()), _mask(where)
    real = found.real if found.is_complex() else found
    top = _finite_max(real, dims, mask)
    raised = _raised(found - top, mask)
    if factor is not None:
        raised = factor * raised
    if mask is not None:
        raised = selection.where(mask, raised, 0)
    total = _sum(raised, dims, True)
    sign = torch.sgn(total)
    magnitude = torch.log(total.abs()) if return_sign or factor is not None else torch.log(total)
    result = magnitude + top
    if not return_sign and factor is not None and not found.is_complex():
        result = selection.where(sign < 0, torch.nan, result)
    if not keepdims:
        result, sign = result.squeeze(dims), sign.squeeze(dims)
    return (Array(result, weak), Array(sign, weak)) if return_sign else Array(result, weak)


def logmeanexp(x: ArrayLike, axis: Axis = None, where: ArrayLike | None = None, keepdims: bool = False) -> Array:
    """Return log(mean(exp(x))) along `axis`."""
    total = logsumexp(x, axis, keepdims=keepdims, where=where)
    shape = as_array(x).shape
    dims = _dims(axis, len(shape))
    if where is None:
        elements = float(torch.Size([shape[d] for d in dims]).numel())
        count = torch.full((), elements, dtype=torch.float32, device=total._tensor.device)
    else:
        count = _sum(_mask(where).expand(shape).to(torch.float32), dims, keepdims)  # pyright: ignore
    return Array(tensor_of(total) - torch.log(count).to(total._tensor.dtype), total.weak_type)


def standardize(
    x: ArrayLike, axis: Axis = -1, mean: ArrayLike | None = None, variance: ArrayLike | None = None,
    epsilon: ArrayLike = 1e-5, where: ArrayLike | None = None,
    *, algorithm: str = "fast",
) -> Array:  # fmt: skip
    """Return (x - mean) / sqrt(variance + epsilon), with the mean and variance along `axis` where none are given.

    `algorithm` is "fast", E[x^2] - E[x]^2, or "stable", E[(x - mean)^2].
    """
    if algorithm not in ("fast", "stable"):
        raise ValueError(f"standardize: algorithm must be 'fast' or 'stable', got {algorithm!r}.")
    (found,), weak = promote_inexact("standardize", x)
    dims, mask = _dims(axis, found.dim()), _mask(where)
    centre = _mean(found, dims, mask) if mean is None else tensor_of(as_array(mean))
    if variance is not None:
        spread = tensor_of(as_array(variance))
    elif algorithm == "fast":
        spread = (_mean(found * found, dims, mask) - centre * centre).clamp(min=0)
    else:
        spread = _mean((found - centre) ** 2, dims, mask)
    (spread, offset), _ = promote_inexact("standardize", Array(spread), epsilon)
    return Array((found - centre) * torch.rsqrt(spread + offset), weak)


def _mean(x: Tensor, dims: list[int], mask: Tensor | None) -> Tensor:
    if mask is None:
        return x.mean(dims, keepdim=True)
    kept = mask.expand(x.shape)
    return selection.where(kept, x, 0).sum(dims, keepdim=True) / kept.sum(dims, keepdim=True)


def one_hot(x: Any, num_classes: int, *, dtype: Any = None, axis: int = -1) -> Array:
    """Return vectors of `num_classes` that are 1 at the index `x` and 0 elsewhere, the new dimension at `axis`.

    Indices out of range give zeros. Raises `TypeError` for a number of classes that is not concrete.
    """
    indices = as_array(x)
    wanted = dtypes.requested_dtype(float if dtype is None else dtype, "one_hot")
    if not isinstance(axis, int):
        raise NotImplementedError("one_hot with a named axis is not supported; give an integer axis.")
    rank = indices.ndim + 1
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} is out of bounds for array of dimension {rank}")
    tensor = tensor_of(indices)
    classes = torch.arange(int(num_classes), device=tensor.device)
    shape = [1] * rank
    shape[axis] = int(num_classes)
    return Array(convert(tensor.unsqueeze(axis) == classes.to(tensor.dtype).reshape(shape), dtypes.to_torch(wanted)))
