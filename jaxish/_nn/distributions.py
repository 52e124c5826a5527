"""Functions of whole axes: softmax and its relatives, normalisation, one-hot vectors."""

import warnings
from typing import Any

import torch
from torch import Tensor

from .._core import dtypes, selection
from .._core.array import Array, as_array, tensor_of
from .._core.dimensions import canonical_axis, index_of
from .._core.promotion import convert, promote_inexact
from .._core.typing import ArrayLike
from .._lax.shapes import positions
from .._numpy.creation import asarray
from .._numpy.reductions import axes_and_names, axes_count, sum_along
from .._numpy.softmax import Axis, logsumexp, mask_of
from .._transforms.repeated import compiled_when_repeated
from .._transforms.shown_calls import shown_as_jit


@shown_as_jit("axis", "keepdims")
def logmeanexp(x: ArrayLike, axis: Axis = None, where: ArrayLike | None = None, keepdims: bool = False) -> Array:
    """Return log(mean(exp(x))) along `axis`."""
    total = logsumexp(x, axis, keepdims=keepdims, where=where)
    shape = as_array(x).shape
    dims, names = axes_and_names(axis, len(shape))
    if where is None:
        elements = float(axes_count(shape, dims, names))
        count = torch.full((), elements, dtype=torch.float32, device=total._tensor.device)
    else:
        count = sum_along(mask_of(where).expand(shape).to(torch.float32), dims, names, keepdims)  # pyright: ignore
    return Array(tensor_of(total) - torch.log(count).to(total._tensor.dtype), False)


@shown_as_jit("axis", "algorithm")
@compiled_when_repeated
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
    (found,), _ = promote_inexact("standardize", x)
    axes, mask = axes_and_names(axis, found.dim()), mask_of(where)
    centre = _mean(found, *axes, mask) if mean is None else tensor_of(as_array(mean))
    if variance is not None:
        spread = tensor_of(as_array(variance))
    elif algorithm == "fast":
        spread = (_mean(found * found, *axes, mask) - centre * centre).clamp(min=0)
    else:
        spread = _mean((found - centre) ** 2, *axes, mask)
    (spread, offset), _ = promote_inexact("standardize", Array(spread), epsilon)
    return Array((found - centre) * torch.rsqrt(spread + offset), False)


def _mean(x: Tensor, dims: tuple[int, ...], names: tuple[str, ...], mask: Tensor | None) -> Tensor:
    if mask is None and not names:
        return x.mean(dims, keepdim=True) if dims else x
    if mask is None:
        return sum_along(x, dims, names, True) / axes_count(x.shape, dims, names)
    kept = mask.expand(x.shape)
    count = sum_along(kept.to(torch.int64), dims, names, True)
    return sum_along(selection.where(kept, x, 0), dims, names, True) / count


@shown_as_jit("num_classes", "dtype", "axis", name="_one_hot")
def one_hot(x: Any, num_classes: int, *, dtype: Any = None, axis: int = -1) -> Array:
    """Return vectors of `num_classes` that are 1 at the index `x` and 0 elsewhere, the new dimension at `axis`.

    Indices out of range give zeros. Raises `TypeError` for a number of classes that is not concrete.
    """
    indices = asarray(x)
    if indices.dtype.kind not in "iu":
        warnings.warn(
            f"jax.nn.one_hot input should be integer-typed; got dtype={indices.dtype}", DeprecationWarning, stacklevel=2
        )
    wanted = dtypes.requested_dtype(float if dtype is None else dtype, "one_hot")
    if isinstance(axis, str | tuple):
        raise NotImplementedError("one_hot with a named axis is not supported; give an integer axis.")
    axis, rank = canonical_axis(axis, indices.ndim + 1), indices.ndim + 1
    num_classes = index_of(num_classes)
    if num_classes < 0:
        raise TypeError(f"one_hot needs a nonnegative number of classes, got {num_classes}.")
    if indices.dtype == bool:
        raise TypeError("one_hot does not accept dtype bool. Use x.astype(int).")
    tensor = tensor_of(indices)
    shape = tuple(num_classes if d == axis else 1 for d in range(rank))
    chosen = tensor.unsqueeze(axis)
    return Array(convert(chosen == positions(shape, tensor.dtype, axis, tensor.device), dtypes.to_torch(wanted)))
