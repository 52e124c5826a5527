"""Matrix products by oneDNN, where that is faster than MKL."""

from collections.abc import Callable

import torch
from torch import Tensor, fx

from .._core import machine
from .._core.graph import type_of
from .._core.operators import aten
from .._core.rewriting import rewritten

# Multiply-adds from which it beats MKL's, on AMD's Zen 5: 79 against 153 us for 128 x 256 x 256, 11 against 2 us for
# 8 x 64 x 64. On Zen 4 it never does below 8 million: 168 us both for the former, 36 against 24 us for 64 x 128 x 128.
_FROM = 1 << 20


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
