"""Matrix products by oneDNN: of float32, where that is faster than MKL, and of 8-bit integers, for which there are instructions."""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx

from .._core import machine
from .._core.graph import TensorType, type_of
from .._core.operators import aten
from .._core.rewriting import rewritten

# Multiply-adds from which it beats MKL's, on AMD's Zen 5: 79 against 153 us for 128 x 256 x 256, 11 against 2 us for
# 8 x 64 x 64. On Zen 4 it never does below 8 million: 168 us both for the former, 36 against 24 us for 64 x 128 x 128.
_FROM = 1 << 20
_FROM_OF_BYTES = 1 << 14  # multiply-adds: below, a call takes as long as to multiply 32-bit integers


def product(left: Tensor, right: Tensor) -> Tensor:
    """Return the product of two float32 matrices on the CPU."""
    # A repeated row or column (stride 0: the cotangent of a sum) sends oneDNN to its reference loops: 172 ms for 0.1.
    left, right = (t.contiguous() if 0 in t.stride() else t for t in (left, right))
    return torch.ops.mkldnn._linear_pointwise(left, right.t(), None, "none", [], "")


def with_products(module: fx.GraphModule, target: Callable[..., Tensor]) -> fx.GraphModule:
    """Return the graph with its large float32 matrix products on the CPU done by `target`, which calls `product`.

    On other processors than those for which MKL makes no use of 512 bits they stay MKL's.
    """

    def by_onednn(node: fx.Node) -> None:
        node.target = target

    return rewritten(module, is_faster, by_onednn)


def is_faster(node: fx.Node) -> bool:
    """Tell whether a node is a product that oneDNN does in less time than MKL."""
    if node.target is not aten.mm.default or not machine.has_whole_wide_vectors():
        return False
    if not torch.backends.mkldnn.is_available():
        return False
    left, right = (type_of(factor) for factor in node.args)
    if left is None or right is None or left.dtype is not torch.float32 or left.device.type != "cpu":
        return False
    return left.shape[0] * left.shape[1] * right.shape[1] >= _FROM


def product_of_bytes(left: Tensor, right: Tensor) -> Tensor:
    """Return the product of two matrices of int8 on the CPU in int32."""
    return aten._int_mm.default(left, right)


def is_of_bytes(left: TensorType, right: TensorType) -> bool:
    """Tell whether oneDNN multiplies two matrices of these types as bytes.

    For processors without such instructions it adds pairs of products as 16-bit integers, which overflow.
    """
    if left.dtype is not torch.int8 or right.dtype is not torch.int8 or left.device.type != "cpu":
        return False
    return left.shape[0] * left.shape[1] * right.shape[1] >= _FROM_OF_BYTES and _has_instructions_for_bytes()


@functools.cache
def _has_instructions_for_bytes() -> bool:
    # torch's private name since 2.4, tried on 2.9, 2.11 and 2.13
    return torch.backends.mkldnn.is_available() and torch.cpu._is_vnni_supported()


def multiplies_bytes(node: fx.Node) -> bool:
    """Tell whether a node is a product of int8 matrices, converted to int32."""
    if node.target is not aten.mm.default or not all(map(_is_converted_byte, node.args)):
        return False
    left, right = (type_of(factor.args[0]) for factor in node.args)  # pyright: ignore
    return left is not None and right is not None and is_of_bytes(left, right)


def _is_converted_byte(factor: Any) -> bool:
    return factor.target is aten._to_copy.default and factor.kwargs["dtype"] is torch.int32


def with_products_of_bytes(module: fx.GraphModule) -> fx.GraphModule:
    """Return the graph with its products of converted int8 matrices done without the conversion."""

    def of_bytes(node: fx.Node) -> None:
        left, right = node.args
        node.target, node.args = aten._int_mm.default, (left.args[0], right.args[0])  # pyright: ignore

    found = rewritten(module, multiplies_bytes, of_bytes)
    if found is not module:
        for node in [node for node in found.graph.nodes if node.target is aten._to_copy.default and not node.users]:
            found.graph.erase_node(node)
        found.recompile()
    return found
