"""Norms of vectors and matrices."""

import math
from typing import Any

import torch
from torch import Tensor

from ..._core.array import Array, tensor_of
from ..._core.dimensions import canonical_axes
from ..._core.promotion import promote_inexact
from ..._core.typing import ArrayLike
from ..._transforms.shown_calls import shown_as_jit
from ..reductions import max as array_max
from ..reductions import min as array_min
from ..reductions import sum_tensor
from .decompositions import svd


def _squares(t: Tensor) -> Tensor:
    return torch.square(t.real) + torch.square(t.imag) if t.is_complex() else torch.square(t)


def _root_of_squares(t: Tensor, axes: tuple[int, ...], keepdims: bool) -> Array:
    return Array(torch.sqrt(sum_tensor(_squares(t), axes, keepdims)))


def vector_norm(
    x: ArrayLike, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False, ord: Any = 2
) -> Array:
    """Return the norms of vectors along `axis` (None: of all elements): a number, inf, -inf or 0 (how many nonzero)."""
    (t,), _ = promote_inexact("jnp.linalg.vector_norm", x)
    axes = canonical_axes(axis, t.dim())
    if ord is None or (not isinstance(ord, str) and ord == 2):
        return _root_of_squares(t, axes, keepdims)
    if isinstance(ord, str):
        raise ValueError(f"Invalid order '{ord}' for vector norm. Use a number, jax.numpy.inf or -jax.numpy.inf.")
    size = torch.abs(t)
    if ord == math.inf:
        return array_max(Array(size), axes, None, keepdims, 0)
    if ord == -math.inf:
        return array_min(Array(size), axes, None, keepdims)
    if ord == 0:
        return Array(sum_tensor((t != 0).to(size.dtype), axes, keepdims))
    if ord == 1:
        return Array(sum_tensor(size, axes, keepdims))
    return Array(torch.pow(sum_tensor(torch.pow(size, ord), axes, keepdims), 1.0 / ord))


@shown_as_jit("ord", "axis", "keepdims")
def norm(x: ArrayLike, ord: Any = None, axis: tuple[int, ...] | int | None = None, keepdims: bool = False) -> Array:
    """Return the norms of vectors (one `axis`) or matrices (two); without `ord` and `axis`, of all elements.

    For matrices `ord` is "fro" (default), "nuc", 1, -1, 2, -2, inf or -inf. Raises `ValueError` for other orders.
    """
    (t,), _ = promote_inexact("jnp.linalg.norm", x)
    axes = canonical_axes(axis, t.dim())
    if axis is None and ord is None:
        return _root_of_squares(t, axes, keepdims)
    if len(axes) == 1:
        return vector_norm(Array(t), axis=axes, keepdims=keepdims, ord=2 if ord is None else ord)
    if len(axes) != 2:
        raise ValueError(
            f"Improper number of axes for norm: {axis=}. Pass one axis to compute a vector-norm, or two axes to "
            "compute a matrix-norm."
        )
    if ord is None or ord in ("f", "fro"):
        return _root_of_squares(t, axes, keepdims)
    if ord in (1, -1, math.inf, -math.inf):
        summed, picked = axes if ord in (1, -1) else (axes[1], axes[0])
        sums = Array(sum_tensor(torch.abs(t), (summed,), True))
        found = array_max(sums, picked, None, True, 0) if ord > 0 else array_min(sums, picked, None, True)
        return found if keepdims else Array(found._tensor.squeeze(axes))
    if ord in ("nuc", 2, -2):
        moved = t.movedim(axes, (-2, -1))
        s: Any = svd(Array(moved), compute_uv=False)
        if ord == 2:
            found = array_max(s, -1, None, False, 0)
        else:
            found = array_min(s, -1) if ord == -2 else Array(tensor_of(s).sum(-1))
        if keepdims:
            shape = [1 if d in axes else n for d, n in enumerate(t.shape)]
            return Array(found._tensor.reshape(shape))
        return found
    raise ValueError(f"Invalid order '{ord}' for matrix norm.")


def matrix_norm(x: ArrayLike, /, *, keepdims: bool = False, ord: Any = "fro") -> Array:
    """Return the norms of the matrices in the last two dimensions; `ord` as in `norm`."""
    return norm(x, ord, (-2, -1), keepdims)
