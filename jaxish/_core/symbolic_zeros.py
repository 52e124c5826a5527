"""Forward mode's zero tangents are symbolic: torch's tensors without memory. Operators are to keep them so.

Where an operator has no kernel for them, torch makes zeros of them and computes: a product of matrices for each operand
that is not differentiated. These kernels are there for all of torch's users; they give the same zeros. Tried on torch 2.9,
2.11 and 2.13.
"""

import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def _zeros(shape: Sequence[int], like: Tensor) -> Tensor:
    return torch._efficientzerotensor(shape, dtype=like.dtype, device=like.device)  # pyright: ignore[reportPrivateImportUsage]


def _convolved(
    x: Tensor, kernel: Tensor, bias: Tensor | None, stride: Any, padding: Any, dilation: Any, transposed: bool, extra: Any,
    groups: int,
) -> Tensor:  # fmt: skip
    spans = [d * (k - 1) + 1 for d, k in zip(dilation, kernel.shape[2:], strict=True)]
    parts = zip(x.shape[2:], spans, stride, padding, extra, strict=True)
    if transposed:
        sizes = [(n - 1) * s - 2 * p + span + e for n, span, s, p, e in parts]
        return _zeros((x.shape[0], kernel.shape[1] * groups, *sizes), x)
    sizes = [(n + 2 * p - span) // s + 1 for n, span, s, p, _ in parts]
    return _zeros((x.shape[0], kernel.shape[0], *sizes), x)


_PRODUCTS = {
    "mm": lambda a, b: _zeros((a.shape[0], b.shape[1]), a),
    "bmm": lambda a, b: _zeros((a.shape[0], a.shape[1], b.shape[2]), a),
    "mv": lambda a, b: _zeros((a.shape[0],), a),
    "dot": lambda a, b: _zeros((), a),
    "vdot": lambda a, b: _zeros((), a),
    "convolution": _convolved,
}

_library = torch.library.Library("aten", "IMPL")
with warnings.catch_warnings():
    warnings.simplefilter("ignore", UserWarning)  # that a kernel is overridden, which is the point
    for _name, _kernel in _PRODUCTS.items():
        _library.impl(_name, _kernel, "ZeroTensor")
    # `view` and `_reshape_alias` have kernels for these that no dispatch mode sees: of a fake they gave the plain meta
    # tensor that it is made of.
    for _name in ("view", "_reshape_alias"):
        _library.impl(_name, torch.library.fallthrough_kernel, "ZeroTensor")
