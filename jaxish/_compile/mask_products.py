"""Products of numbers and booleans, which XLA makes selections: NaN and infinity times False are zero.

Programs stand on that without knowing: `sum(log(p) * mask)` is finite on JAX where the mask leaves out what is zero.
Graphs hold the product, as jaxprs show it; it is changed in graphs that are about to run or to be compiled.
XLA's rule (algebraic_simplifier.cc, HandleMultiply) asks for a conversion right before the product: a mask that is
broadcast after its conversion multiplies. XLA computes with bfloat16 in float32, and converts in between.
"""

import torch
from torch import fx

from .._core import graph
from .._core.graph import Graph
from .._core.operators import aten
from .._core.rewriting import rewritten

# Integers come out the same.
DTYPES = frozenset({torch.float16, torch.float32, torch.float64, torch.complex64, torch.complex128})


def selected(body: Graph) -> Graph:
    """Return the graph with its products of numbers and masks of their shape as selections, or the graph itself."""
    module = rewritten(body.module, lambda node: _conversion(node) is not None, _select)
    return body if module is body.module else Graph(module, body.in_types, body.out_types)


def _conversion(product: fx.Node) -> fx.Node | None:
    """Return the factor of a product that is a converted mask, if it has one."""
    type = graph.type_of(product) if product.target is aten.mul.Tensor else None
    if type is None or type.dtype not in DTYPES:
        return None
    return next((n for n in product.all_input_nodes if _is_converted_mask(n, type.shape)), None)


def _is_converted_mask(node: fx.Node, shape: tuple[int, ...]) -> bool:
    if node.target is not aten._to_copy.default:
        return False
    mask = node.all_input_nodes[0]
    type = graph.type_of(mask)
    return (
        type is not None and type.dtype is torch.bool and type.shape == shape and mask.target is not aten.expand.default
    )


def _select(product: fx.Node) -> None:
    conversion = _conversion(product)
    assert conversion is not None
    a, b = product.args
    product.target = aten.where.ScalarOther
    product.args = (conversion.args[0], b if a is conversion else a, 0.0)
