"""Products that are something simpler: of a column and a row, which are elementwise, and of numbers and booleans.

These XLA makes selections: NaN and infinity times False are zero.

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


def respelled(body: Graph) -> Graph:
    """Return the graph with products of columns and rows elementwise, those of numbers and masks of their shape selections."""
    wanted = lambda node: _is_outer(node) or _conversion(node) is not None  # noqa: E731
    module = rewritten(body.module, wanted, lambda node: _multiply(node) if _is_outer(node) else _select(node))
    return body if module is body.module else Graph(module, body.in_types, body.out_types)


def _is_outer(product: fx.Node) -> bool:
    if product.target not in (aten.mm.default, aten.bmm.default):
        return False
    type = graph.type_of(product.args[0])  # pyright: ignore
    return type is not None and type.shape[-1] == 1


def _multiply(product: fx.Node) -> None:
    product.target = aten.mul.Tensor


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
