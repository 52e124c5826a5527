"""Matrix products: dot, dot_general and batch_matmul, on torch.mm and torch.bmm.

dot_general brings its operands into the form (batch, rows, contracted) x (batch, contracted, columns). An operand
that is a matrix already, or a transposed one, is passed on as a view.
"""

import functools
import math
import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .._compile import onednn
from .._core import dtypes, unsigned
from .._core.array import Array
from .._core.graph import TensorType
from .._core.operations import shown_as
from .._core.promotion import convert
from .._core.selection import is_plain
from .._core.torch_modes import in_own_dtypes
from .._core.typing import ArrayLike, DTypeLike
from .._devices.sharding_rules import choosing
from . import operands as ops
from .out_sharding import laid_over
from .precision import DotAlgorithm as DotAlgorithm
from .precision import DotAlgorithmPreset as DotAlgorithmPreset
from .precision import Precision as Precision
from .precision import PrecisionLike as PrecisionLike
from .precision import compute_types

DotDimensionNumbers = tuple[tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]]


def dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    *,
    dimension_numbers: DotDimensionNumbers | None = None,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: Any = None,
) -> Array:
    """Return the product of matrices or vectors, or with `dimension_numbers` what `dot_general` returns.

    `ValueError` for other ranks, or shapes that do not fit.
    """
    if dimension_numbers is None:
        a, b = (ops.array_of("dot", x, i).shape for i, x in enumerate((lhs, rhs)))
        if not (1 <= len(a) <= 2 and 1 <= len(b) <= 2 and a[-1] == b[0]):
            raise ValueError(
                "jax.lax.dot: dimension_numbers must be specified when not performing simple un-batched matrix-matrix, "
                f"matrix-vector, or vector-vector products; got lhs_shape={a} rhs_shape={b}"
            )
        dimension_numbers = (((len(a) - 1,), (0,)), ((), ()))
    return dot_general(lhs, rhs, dimension_numbers, precision, preferred_element_type, out_sharding=out_sharding)


def batch_matmul(lhs: ArrayLike, rhs: ArrayLike, precision: PrecisionLike = None) -> Array:
    """Return the matrix products over the last two dimensions; leading dimensions are equal. `ValueError` else."""
    a, b = (ops.array_of("batch_matmul", x, i).ndim for i, x in enumerate((lhs, rhs)))
    if a < 2 or b < 2:
        raise ValueError(f"Arguments to batch_matmul must be at least 2D, got {a}, {b}")
    if a != b:
        raise ValueError(f"Arguments to batch_matmul must have same ndim, got {a}, {b}")
    batch = tuple(range(a - 2))
    return dot_general(lhs, rhs, (((a - 1,), (a - 2,)), (batch, batch)), precision)


def dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    dimension_numbers: DotDimensionNumbers,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Return the sum of products over contracted dimensions, elementwise over batch dimensions.

    `dimension_numbers` is ((lhs contracted, rhs contracted), (lhs batch, rhs batch)). The result's dimensions are
    batch, rest of lhs, rest of rhs; its dtype is `preferred_element_type`, or the wider one of the operands.
    `TypeError` when dimensions or dtypes do not fit.
    """
    if out_sharding is not None:
        with choosing():
            found = dot_general(lhs, rhs, dimension_numbers, precision, preferred_element_type)
        return laid_over(out_sharding, "dot_general", found)
    (a, weak_a), (b, weak_b) = ops.operand("dot_general", lhs), ops.operand("dot_general", rhs)
    numbers = canonical_numbers(dimension_numbers)
    check_numbers(a.shape, b.shape, *numbers)
    dtype = result_dtype(a.dtype, b.dtype)
    types = compute_types(precision)
    if preferred_element_type is not None:
        wanted = dtypes.to_torch(dtypes.requested_dtype(preferred_element_type, "dot_general"))
        if types is None and not dtype.is_floating_point and _bits(wanted) < _bits(dtype):
            raise TypeError(
                "`preferred_element_type` must not be narrower than the original type, got preferred_element_type of "
                f"{dtypes.TO_NUMPY[wanted]} for result type of {dtypes.TO_NUMPY[dtype]}."
            )
        dtype = wanted
    preferred = None if preferred_element_type is None else dtypes.TO_NUMPY[dtype]
    return Array(_product(a, b, numbers, dtype, types, precision, preferred), weak_a and weak_b)


def _shown(a: Tensor, b: Tensor, numbers: "Numbers", dtype: torch.dtype, types: Any, *options: Any) -> dict[str, Any]:
    lc, rc, lb, rb = numbers
    shown = {"dimension_numbers": ((lc, rc), (lb, rb)), "precision": options[0]}
    return {**shown, "preferred_element_type": options[1], "out_sharding": None}


@shown_as("dot_general", _shown)
def _product(a: Tensor, b: Tensor, numbers: "Numbers", dtype: torch.dtype, types: Any, *_: Any) -> Tensor:
    return contract(a, b, numbers, dtype, types)


Numbers = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]


def canonical_numbers(dimension_numbers: DotDimensionNumbers) -> Numbers:
    def dims(value: Any) -> tuple[int, ...]:
        return (value,) if isinstance(value, int) else tuple(map(operator.index, value))

    (lc, rc), (lb, rb) = dimension_numbers
    return dims(lc), dims(rc), dims(lb), dims(rb)


@functools.lru_cache(4096)
def check_numbers(
    a: Sequence[int],
    b: Sequence[int],
    lc: tuple[int, ...],
    rc: tuple[int, ...],
    lb: tuple[int, ...],
    rb: tuple[int, ...],
) -> None:
    """Raise `TypeError` where shapes and dimension numbers do not fit."""
    for side, shape, contracted, batch in (("lhs", a, lc, lb), ("rhs", b, rc, rb)):
        if not all(0 <= d < len(shape) for d in (*contracted, *batch)):
            raise TypeError(
                f"dot_general requires {side} dimension numbers to be nonnegative and less than the number of axes of "
                f"the {side} value, got {side}_batch of {batch} and {side}_contracting of {contracted} for {side} of "
                f"rank {len(shape)}"
            )
        for kind, dims in (("batch", batch), ("contracting", contracted)):
            if len(set(dims)) != len(dims):
                raise TypeError(
                    f"dot_general requires {side} {kind} dimensions to be distinct, got {side}_{kind} {dims}."
                )
        if set(contracted) & set(batch):
            raise TypeError(
                f"dot_general requires {side} batch dimensions to be disjoint from contracting dimensions, got "
                f"{side}_batch {batch} and {side}_contracting {contracted}."
            )
    for kind, left, right in (("batch dimensions and rhs batch", lb, rb), ("contracting", lc, rc)):
        sizes, others = tuple(a[d] for d in left), tuple(b[d] for d in right)
        if sizes != others:
            named = f"lhs {kind} dimensions" if left is lb and kind != "contracting" else "contracting dimensions"
            raise TypeError(f"dot_general requires {named} to have the same shape, got {sizes} and {others}.")


def _bits(dtype: torch.dtype) -> int:
    return 1 if dtype is torch.bool else dtype.itemsize * (4 if dtype.is_complex else 8)


def result_dtype(a: torch.dtype, b: torch.dtype) -> torch.dtype:
    """Return the wider dtype: complex before real, then by range, precision, size; unlike dtypes of a kind clash."""
    if a is b:
        return a

    def rank(dtype: torch.dtype) -> tuple[Any, ...]:
        if not (dtype.is_floating_point or dtype.is_complex):
            return False, -1, -1, _bits(dtype), dtype.is_signed or dtype is torch.bool
        info = dtypes.finfo(dtypes.to_floating(dtypes.TO_NUMPY[dtype]))
        return dtype.is_complex, info.maxexp, info.nmant, info.bits, True

    if rank(a) == rank(b):
        raise TypeError(f"lax.dot_general argument type error: {dtypes.TO_NUMPY[a]}, {dtypes.TO_NUMPY[b]}")
    return a if rank(a) > rank(b) else b


def contract(
    a: Tensor, b: Tensor, numbers: Numbers, dtype: torch.dtype, types: tuple[torch.dtype, ...] | None = None
) -> Tensor:
    """Return what `dot_general` returns, of tensors whose dimensions fit."""
    lc, rc, lb, rb = numbers
    if types is not None and a.dtype.is_floating_point and b.dtype.is_floating_point:
        a, b = a.to(types[0]).to(types[2]), b.to(types[1]).to(types[2])
        return contract(a, b, numbers, types[2]).to(dtype)
    work, is_of_matrices = _work_dtype(a, b, dtype), not lb and a.dim() == 2 and b.dim() == 2 and len(lc) == 1
    if (
        a.dtype is torch.int8
        and work is torch.int32
        and is_of_matrices
        and type(a) is type(b) is Tensor
        and is_plain(a)
    ):
        a, b, numbers = a if lc[0] == 1 else a.t(), b if rc[0] == 0 else b.t(), ((1,), (0,), (), ())
        if onednn.is_of_bytes(TensorType.of(a), TensorType.of(b)):
            return onednn.product_of_bytes(a, b)
    if a.dtype is not work or b.dtype is not work or dtype is not work:
        return convert(contract(convert(a, work), convert(b, work), numbers, work), dtype)
    if is_of_matrices:
        return _mm(a if lc[0] == 1 else a.t(), b if rc[0] == 0 else b.t())
    batch = [a.shape[d] for d in lb]
    rows = [d for d in range(a.dim()) if d not in lc and d not in lb]
    columns = [d for d in range(b.dim()) if d not in rc and d not in rb]
    shape = (*batch, *(a.shape[d] for d in rows), *(b.shape[d] for d in columns))
    m, k, n = (
        math.prod(s) for s in ([a.shape[d] for d in rows], [a.shape[d] for d in lc], [b.shape[d] for d in columns])
    )
    left = a.permute((*lb, *rows, *lc)).reshape(*([math.prod(batch)] if lb else []), m, k)
    right = b.permute((*rb, *rc, *columns)).reshape(*([math.prod(batch)] if lb else []), k, n)
    return _mm(left, right).reshape(shape)


def _work_dtype(a: Tensor, b: Tensor, dtype: torch.dtype) -> torch.dtype:
    """Return the dtype in which to multiply so that the result is right in `dtype`."""
    widest = a.dtype if a.dtype is b.dtype else result_dtype(a.dtype, b.dtype)
    if widest is torch.bool:
        return torch.float32  # counts up to 2**24 are exact
    if dtype.itemsize > widest.itemsize or (dtype.is_floating_point and not widest.is_floating_point):
        widest = dtype if not widest.is_complex else widest
    if widest.is_floating_point and widest.itemsize == 1:
        return torch.float32
    return widest


@in_own_dtypes
def _mm(a: Tensor, b: Tensor) -> Tensor:
    """Return the product of matrices or of two batches of them, of one dtype."""
    is_plain = a.dim() == 2 and a.dtype in ops.INEXACT.dtypes and a.dtype.itemsize > 2
    return torch.mm(a, b) if is_plain else unsigned.matmul(a, b)
