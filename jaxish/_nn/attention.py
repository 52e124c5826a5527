"""Attention: softmax of scaled products of queries and keys, applied to values; and products of scaled blocks."""

import math
import warnings
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from .._core import dtypes, unsigned
from .._core.array import Array, as_array, tensor_of
from .._core.promotion import convert
from .._core.torch_modes import in_own_dtypes
from .._core.typing import ArrayLike, DTypeLike
from .._lax.contraction import dot_general


@in_own_dtypes
def dot_product_attention(
    query: ArrayLike, key: ArrayLike, value: ArrayLike, bias: ArrayLike | None = None, mask: ArrayLike | None = None,
    *, scale: float | None = None,
    is_causal: bool = False, query_seq_lengths: ArrayLike | None = None, key_value_seq_lengths: ArrayLike | None = None,
    local_window_size: int | tuple[int, int] | None = None, implementation: Literal["xla", "cudnn"] | None = None,
    return_residual: bool = False,
) -> Any:  # fmt: skip
    """Return attention of queries (batch, T, N, H) to keys and values (batch, S, K, H), N a multiple of K.

    `bias` is added to the logits (batch, N, T, S); `mask`, `is_causal`, the lengths (batch) and the window (left,
    right) say which pairs count. With `return_residual`, the logarithm of each query's softmax denominator comes
    second. Raises `ValueError` for shapes and dtypes that do not fit, and for an unknown implementation.
    """
    if implementation not in (None, "xla", "cudnn"):
        raise ValueError(f"Unsupported implementation option: {implementation}")
    if implementation == "cudnn":
        raise NotImplementedError("dot_product_attention(implementation='cudnn') is not supported; leave it None.")
    shape = as_array(query).shape
    q, k, v, offsets, allowed = (None if x is None else _with_four(x) for x in (query, key, value, bias, mask))
    assert q is not None and k is not None and v is not None
    lengths = [None if x is None else tensor_of(as_array(x)) for x in (query_seq_lengths, key_value_seq_lengths)]
    batch, _, groups, width = k.shape
    _check("value", v, (*k.shape,), k.dtype)
    _check("query", q, (batch, -1, -1, width), k.dtype)
    _check("mask", allowed, (-1,) * 4, torch.bool)
    _check("bias", offsets, (-1,) * 4, None)
    _check("query_seq_lengths", lengths[0], (batch,), torch.int32)
    _check("key_value_seq_lengths", lengths[1], (batch,), torch.int32)
    heads = q.shape[2]
    if heads % groups:
        raise ValueError(
            f"The number of query heads must be a multiple of key/value heads, but got {heads} vs {groups}"
        )
    window = (local_window_size,) * 2 if isinstance(local_window_size, int) else local_window_size
    k, v = (t.repeat_interleave(heads // groups, 2) if heads != groups else t for t in (k, v))
    wide = torch.promote_types(q.dtype, torch.float32)
    logits = torch.einsum("btnh,bsnh->bnts", q.to(wide), k.to(wide)) * (
        1 / math.sqrt(width) if scale is None else scale
    )
    if offsets is not None:
        logits = logits + offsets.to(logits.dtype)
    counted = _counted(logits, allowed, is_causal, lengths, window)
    if counted is not None:
        logits = torch.where(counted, logits, -0.7 * torch.finfo(torch.float32).max)
    logits = logits.float()
    weights = torch.softmax(logits, -1).to(k.dtype)
    made = unsigned.product_dtype(weights, v)
    found = torch.einsum("bnts,bsnh->btnh", weights.to(made), v.to(made)).to(v.dtype)
    if lengths[0] is not None:
        found = found * (torch.arange(q.shape[1], device=q.device) < lengths[0][:, None])[:, :, None, None].to(
            found.dtype
        )
    result = Array(found.reshape(shape))
    if not return_residual:
        return result
    residual = torch.logsumexp(logits, -1).to(k.dtype).transpose(1, 2).detach()
    return result, Array(residual.reshape(shape[:-1]))


def _with_four(x: Any) -> Tensor:
    tensor = tensor_of(as_array(x))
    return tensor.reshape((1,) * (4 - tensor.dim()) + tuple(tensor.shape)) if tensor.dim() < 4 else tensor


def _check(name: str, tensor: Tensor | None, shape: Sequence[int], dtype: torch.dtype | None) -> None:
    if tensor is None:
        return
    if tensor.dim() != len(shape):
        raise ValueError(f"{name} ndim should be {len(shape)}, but got {tensor.dim()}")
    if dtype is not None and tensor.dtype is not dtype:
        raise ValueError(f"{name} dtype should be {dtype}, but got {tensor.dtype}".replace("torch.", ""))
    if any(wanted not in (-1, size) for wanted, size in zip(shape, tensor.shape, strict=True)):
        raise ValueError(f"{name} shape should be {list(shape)}: but got {tuple(tensor.shape)}")


def _counted(
    logits: Tensor, mask: Tensor | None, is_causal: bool, lengths: Sequence[Tensor | None], window: Any
) -> Tensor | None:
    """Return which logits count, or None for all."""
    queries = torch.arange(logits.shape[2], device=logits.device)[:, None]
    keys = torch.arange(logits.shape[3], device=logits.device)
    parts = [] if mask is None else [mask]
    if is_causal:
        parts.append(keys <= queries)
    if window is not None:
        parts.append((queries <= keys + window[0]) & (queries >= keys - window[1]))
    if lengths[0] is not None:
        parts.append((queries < lengths[0][:, None, None])[:, None])
    if lengths[1] is not None:
        parts.append((keys < lengths[1][:, None, None])[:, None])
    if not parts:
        return None
    counted = parts[0]
    for part in parts[1:]:
        counted = counted & part
    return counted


@in_own_dtypes
def scaled_matmul(
    lhs: ArrayLike,
    rhs: ArrayLike,
    lhs_scales: ArrayLike,
    rhs_scales: ArrayLike,
    preferred_element_type: DTypeLike = np.float32,
) -> Array:
    """Return lhs (B, M, K) times rhs (B, N, K) transposed, blocks along K multiplied by the scales (B, M or N, K / block).

    Raises `ValueError` for shapes that do not fit.
    """
    operands = [tensor_of(as_array(x)) for x in (lhs, rhs, lhs_scales, rhs_scales)]
    a, b, a_scales, b_scales = operands
    if any(t.dim() != 3 for t in operands):
        raise ValueError("scaled_matmul requires all inputs to be 3-dimensional arrays")
    for what, left, right in (("inputs a and b", a, b), ("scales", a_scales, b_scales)):
        if (left.shape[0], left.shape[2]) != (right.shape[0], right.shape[2]):
            raise ValueError(
                f"scaled_matmul requires {what} to have matching batch (B) and contract (K) dimensions, but got shapes "
                f"{tuple(left.shape)} and {tuple(right.shape)}"
            )
    if a_scales.shape[1] != a.shape[1] or b_scales.shape[1] != b.shape[1]:
        raise ValueError(
            "scaled_matmul requires scales to match non-contract dimensions of inputs, but got shapes "
            f"a: {tuple(a.shape)}, b: {tuple(b.shape)}, a_scales: {tuple(a_scales.shape)}, b_scales: {tuple(b_scales.shape)}"
        )
    left, right = (_unscaled(t, s) for t, s in ((a, a_scales), (b, b_scales)))
    found = torch.einsum("bmk,bnk->bmn", left, right)
    return Array(convert(found, dtypes.to_torch(dtypes.requested_dtype(preferred_element_type, "scaled_matmul"))))


def _unscaled(t: Tensor, scales: Tensor) -> Tensor:
    return t.float() * scales.float().repeat_interleave(t.shape[-1] // scales.shape[-1], -1)


def get_scaled_dot_general_config(mode: Literal["nvfp4", "mxfp8"], global_scale: ArrayLike | None = None) -> Any:
    """Raise `NotImplementedError`, or `ValueError` for an unknown mode: quantised products need cuDNN in JAX."""
    if mode not in ("nvfp4", "mxfp8"):
        raise ValueError(f"Unsupported mode: {mode}")
    raise NotImplementedError("Block-scaled quantisation is not supported; use scaled_matmul with scales of your own.")


def scaled_dot_general(
    lhs: Any, rhs: Any, dimension_numbers: Any, preferred_element_type: Any = np.float32, configs: Any = None,
    implementation: Literal["cudnn"] | None = None,
) -> Array:  # fmt: skip
    """Return `lax.dot_general` of the operands; block-scaled `configs` raise `NotImplementedError`."""
    if implementation is not None:
        warnings.warn(
            "Backend selector, now ignored. The system chooses the backend automatically.",
            DeprecationWarning,
            stacklevel=2,
        )
    if configs is not None:
        raise NotImplementedError("scaled_dot_general(configs=...) is not supported; leave it None.")
    return dot_general(lhs, rhs, dimension_numbers, preferred_element_type=preferred_element_type)
