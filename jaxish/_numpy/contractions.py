"""Products of arrays: matmul, dot, tensordot and the like. einsum stands in einsum.py."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._core import dtypes, unsigned
from .._core.array import Array
from .._core.dimensions import broadcast_shape, canonical_axis
from .._core.primitive import conjugate
from .._core.promotion import convert, promote, tensors
from .._core.torch_modes import in_own_dtypes
from .._core.typing import ArrayLike, DTypeLike
from .._devices.sharding_rules import choosing
from .._devices.shardings import NamedSharding, PartitionSpec
from .._lax.out_sharding import laid_over
from .._lax.precision import compute_types
from .._transforms.repeated import compiled_when_repeated
from .._transforms.shown_calls import shown_as_jit
from .arguments import check_shapes, no_out

PrecisionLike = Any


def operands(function: str, preferred: DTypeLike | None, *args: Any) -> tuple[list[Tensor], torch.dtype, bool]:
    """Return tensors of the dtype in which a product is computed, its result's dtype and weak type."""
    found, weak = promote(function, *args)
    dtype = found[0].dtype
    if preferred is None:
        return found, dtype, weak
    result = dtypes.to_torch(dtypes.requested_dtype(preferred, function))
    wide = result.itemsize > dtype.itemsize and result.is_complex >= dtype.is_complex
    if wide and (result.is_floating_point or result.is_complex or not dtype.is_floating_point):
        found = [convert(t, result) for t in found]
    return found, result, False


@in_own_dtypes
def product(a: Tensor, b: Tensor) -> Tensor:
    """Return the batched matrix product of tensors of rank two and more, of any one dtype."""
    dtype = a.dtype
    if dtype is torch.bool:
        return torch.matmul(a.to(torch.float32), b.to(torch.float32)) > 0
    if dtypes.is_inexact_tensor(dtype):
        return torch.matmul(a, b) if dtype.itemsize > 2 else unsigned.matmul(a, b)
    return unsigned.matmul(a, b)


def _shapes_text(a: Tensor, b: Tensor) -> str:
    return f"got shapes {tuple(a.shape)} and {tuple(b.shape)}"


def _check_contracted(first: int, second: int) -> None:
    if first != second:
        raise TypeError(
            f"dot_general requires contracting dimensions to have the same shape, got ({first},) and ({second},)."
        )


def matmul(
    a: ArrayLike, b: ArrayLike, *, precision: PrecisionLike = None, preferred_element_type: DTypeLike | None = None,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:  # fmt: skip
    """Return the matrix product of `a` and `b`; leading dimensions are broadcast, vectors are rows or columns.

    Raises `ValueError` for scalars and `TypeError` for sizes that do not fit. `precision` concerns accelerators only.
    """
    if out_sharding is not None:
        with choosing():
            found = matmul(a, b, precision=precision, preferred_element_type=preferred_element_type)
        return laid_over(out_sharding, "matmul", found)
    if precision is not None:
        compute_types(precision)  # says what is none
    (x, y), result, weak = operands("matmul", preferred_element_type, a, b)
    if not x.dim() or not y.dim():
        raise ValueError(f"matmul input operand {0 if not x.dim() else 1} must have ndim at least 1, but it has ndim 0")
    inner = y.shape[-2] if y.dim() > 1 else y.shape[0]
    _check_contracted(x.shape[-1], inner)
    return Array(convert(_batched_product(x, y), result), weak)


def _batched_product(x: Tensor, y: Tensor) -> Tensor:
    """Return the product; raise `ValueError` where the leading dimensions do not broadcast."""
    broadcast_shape(tuple(x.shape[:-2]), tuple(y.shape[:-2]))
    return product(x, y)


def dot(
    a: ArrayLike, b: ArrayLike, *, precision: PrecisionLike = None, preferred_element_type: DTypeLike | None = None,
    out_sharding: Any = None,
) -> Array:  # fmt: skip
    """Return the product over the last axis of `a` and the last but one (or only) axis of `b`; scalars multiply."""
    if out_sharding is not None:
        with choosing():
            found = dot(a, b, precision=precision, preferred_element_type=preferred_element_type)
        return laid_over(out_sharding, "dot", found)
    if precision is not None:
        compute_types(precision)
    (x, y), result, weak = operands("dot", preferred_element_type, a, b)
    if not x.dim() or not y.dim():
        return Array(convert(unsigned.mul(x, y), result), weak)
    if (x.dim() <= 2 and y.dim() <= 2) or y.dim() == 1:
        inner = y.shape[-2] if y.dim() > 1 else y.shape[0]
        _check_contracted(x.shape[-1], inner)
        return Array(convert(product(x, y), result), weak)
    _check_contracted(x.shape[-1], y.shape[-2])
    return Array(convert(contract(x, y, [x.dim() - 1], [y.dim() - 2]), result), weak)


def contract(x: Tensor, y: Tensor, x_axes: Sequence[int], y_axes: Sequence[int]) -> Tensor:
    """Sum products over pairs of axes: the other axes of `x`, then those of `y`, remain."""
    x_rest = [d for d in range(x.dim()) if d not in x_axes]
    y_rest = [d for d in range(y.dim()) if d not in y_axes]
    size = math.prod(x.shape[d] for d in x_axes)
    left = x.permute((*x_rest, *x_axes)).reshape(math.prod(x.shape[d] for d in x_rest), size)
    right = y.permute((*y_axes, *y_rest)).reshape(size, math.prod(y.shape[d] for d in y_rest))
    return product(left, right).reshape([x.shape[d] for d in x_rest] + [y.shape[d] for d in y_rest])


def tensordot(
    a: ArrayLike, b: ArrayLike, axes: int | Sequence[int] | Sequence[Sequence[int]] = 2, *,
    precision: PrecisionLike = None, preferred_element_type: DTypeLike | None = None,
    out_sharding: NamedSharding | PartitionSpec | None = None,
) -> Array:  # fmt: skip
    """Return the sum of products over `axes`: a number of last axes of `a` and first ones of `b`, or a pair of lists."""
    if out_sharding is not None:
        with choosing():
            found = tensordot(a, b, axes, precision=precision, preferred_element_type=preferred_element_type)
        return laid_over(out_sharding, "tensordot", found)
    (x, y), result, weak = operands("tensordot", preferred_element_type, a, b)
    if isinstance(axes, int | np.integer):
        if axes > min(x.dim(), y.dim()):
            raise TypeError(f"Number of tensordot axes (axes {axes}) exceeds input ranks ({x.dim()} and {y.dim()})")
        x_axes, y_axes = list(range(x.dim() - axes, x.dim())), list(range(axes))
    elif isinstance(axes, tuple | list) and len(axes) == 2:
        first, second = axes
        if isinstance(first, int | np.integer) and isinstance(second, int | np.integer):
            first, second = (first,), (second,)
        if not isinstance(first, tuple | list) or not isinstance(second, tuple | list):
            raise TypeError(
                f"tensordot requires both axes lists to be either ints, tuples or lists, got {first} and {second}"
            )
        if len(first) != len(second):
            raise TypeError(f"tensordot requires axes lists to have equal length, got {first} and {second}.")
        x_axes = [canonical_axis(d, x.dim()) for d in first]
        y_axes = [canonical_axis(d, y.dim()) for d in second]
    else:
        raise TypeError(
            f"tensordot axes argument must be an int, a pair of ints, or a pair of lists/tuples of ints; got {axes}."
        )
    if any(x.shape[i] != y.shape[j] for i, j in zip(x_axes, y_axes, strict=True)):
        raise TypeError(f"tensordot: contracted dimensions must have equal sizes; {_shapes_text(x, y)}, axes {axes}.")
    return Array(convert(contract(x, y, x_axes, y_axes), result), weak)


def vdot(
    a: ArrayLike, b: ArrayLike, *, precision: PrecisionLike = None, preferred_element_type: DTypeLike | None = None
) -> Array:
    """Return the sum of the products of the elements of the flattened `a`, conjugated, and `b`."""
    x, y = tensors("vdot", a, b)
    x = conjugate(x)
    weak_x, weak_y = (getattr(v, "weak_type", False) for v in (a, b))
    return dot(
        Array(x.flatten(), weak_x), Array(y.flatten(), weak_y), precision=precision,
        preferred_element_type=preferred_element_type,
    )  # fmt: skip


def vecdot(
    x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1, precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:  # fmt: skip
    """Return the products of the vectors along `axis`, those of `x1` conjugated; other dimensions are broadcast."""
    (x, y), result, weak = operands("vecdot", preferred_element_type, x1, x2)
    first, second = (canonical_axis(axis, t.dim(), error=IndexError) for t in (x, y))
    if x.shape[first] != y.shape[second]:
        raise ValueError(f"axes must match along axis {axis}; {_shapes_text(x, y)}.")
    x, y = x.movedim(first, -1), y.movedim(second, -1)
    x = conjugate(x)
    return Array(convert(product(x.unsqueeze(-2), y.unsqueeze(-1)).squeeze(-1).squeeze(-1), result), weak)


@shown_as_jit()
def matvec(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return the products of the matrices in `x1` and the vectors in `x2`; leading dimensions are broadcast."""
    (x, y), weak = promote("matvec", x1, x2)
    if x.dim() < 2 or not y.dim() or x.shape[-1] != y.shape[-1]:
        raise ValueError(f"matvec: expected shapes (..., n, m) and (..., m); {_shapes_text(x, y)}.")
    return Array(_batched_product(x, y.unsqueeze(-1)).squeeze(-1), weak)


@shown_as_jit()
def vecmat(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return the products of the conjugated vectors in `x1` and the matrices in `x2`; leading dimensions broadcast."""
    (x, y), weak = promote("vecmat", x1, x2)
    if not x.dim() or y.dim() < 2 or x.shape[-1] != y.shape[-2]:
        raise ValueError(f"vecmat: expected shapes (..., n) and (..., n, m); {_shapes_text(x, y)}.")
    x = conjugate(x)
    return Array(_batched_product(x.unsqueeze(-2), y).squeeze(-2), weak)


def inner(
    a: ArrayLike, b: ArrayLike, *, precision: PrecisionLike = None, preferred_element_type: DTypeLike | None = None
) -> Array:
    """Return the sum of products over the last axes of `a` and `b`; scalars multiply."""
    (x, y), result, weak = operands("inner", preferred_element_type, a, b)
    if not x.dim() or not y.dim():
        return Array(convert(unsigned.mul(x, y), result), weak)
    if x.shape[-1] != y.shape[-1]:
        raise TypeError(f"inner: contracted dimensions must have equal sizes; {_shapes_text(x, y)}.")
    return Array(convert(contract(x, y, [x.dim() - 1], [y.dim() - 1]), result), weak)


def outer(a: ArrayLike, b: ArrayLike, out: None = None) -> Array:
    """Return the products of each element of the flattened `a` and each of the flattened `b`."""
    no_out("outer", out)
    (x, y), weak = promote("outer", a, b)
    return Array(unsigned.mul(x.flatten().unsqueeze(1), y.flatten().unsqueeze(0)), weak)


@shown_as_jit()
@compiled_when_repeated
def kron(a: ArrayLike, b: ArrayLike) -> Array:
    """Return the Kronecker product: each element of `a` times all of `b`."""
    (x, y), weak = promote("kron", a, b)
    if x.dtype is torch.bool:
        raise TypeError("kron does not accept dtype bool. Use x.astype(int).")
    rank = max(x.dim(), y.dim())
    x = x.reshape((1,) * (rank - x.dim()) + tuple(x.shape))
    y = y.reshape((1,) * (rank - y.dim()) + tuple(y.shape))
    left = x.reshape([n for size in x.shape for n in (size, 1)])
    right = y.reshape([n for size in y.shape for n in (1, size)])
    shape = [m * n for m, n in zip(x.shape, y.shape, strict=True)]
    return Array(unsigned.mul(left, right).reshape(shape), weak)


@shown_as_jit("axisa", "axisb", "axisc", "axis")
@compiled_when_repeated
def cross(
    a: ArrayLike, b: ArrayLike, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Array:
    """Return the cross products of the vectors (of size 2 or 3) along `axisa` of `a` and `axisb` of `b`.

    Two vectors of size 2 give a scalar; otherwise the result's vectors are along `axisc`. `axis` sets all three.
    """
    (x, y), weak = promote("cross", a, b)
    if x.dtype is torch.bool:
        raise TypeError("cross does not accept dtype bool. Use x.astype(int).")
    if axis is not None:
        axisa = axisb = axisc = axis
    x = x.movedim(canonical_axis(axisa, x.dim()), -1)
    y = y.movedim(canonical_axis(axisb, y.dim()), -1)
    if x.shape[-1] not in (2, 3) or y.shape[-1] not in (2, 3):
        raise ValueError("Dimension must be either 2 or 3 for cross product")
    x0, x1, *x_rest = x.unbind(-1)
    y0, y1, *y_rest = y.unbind(-1)
    check_shapes("multiply", x0, y0)
    last = unsigned.sub(unsigned.mul(x0, y1), unsigned.mul(x1, y0))
    if not x_rest and not y_rest:
        return Array(last, weak)
    x2 = x_rest[0] if x_rest else torch.zeros_like(x0)
    y2 = y_rest[0] if y_rest else torch.zeros_like(y0)
    first = unsigned.sub(unsigned.mul(x1, y2), unsigned.mul(x2, y1))
    second = unsigned.sub(unsigned.mul(x2, y0), unsigned.mul(x0, y2))
    found = torch.stack(torch.broadcast_tensors(first, second, last), -1)
    return Array(found.movedim(-1, canonical_axis(axisc, found.dim())), weak)
