"""Products that a loop going back need not make: the cotangents of matrices that its steps multiply by.

That of a matrix which all steps share is a sum over them, `G = sum_t A[t] @ D[t]`: to carry `G` means to read and write
all of it at every step. Each step may also have a matrix of its own, `G[t] = A[t] @ D[t]`, as a layer has. With the
factors stacked both are one product after the loop, which is also what keeps the gradients of single examples in
factors (`_compile/factored`).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx

from ..._core import derived, operators
from ..._core.graph import Graph, type_of
from ..._core.nodes import calls_for_effect
from ..._core.operators import Kind, aten


@dataclass(frozen=True)
class Factor:
    """A factor of a product: a view of the slice of an array (`views` of input `source`), or what the step makes.

    It is multiplied in the given shape.
    """

    node: fx.Node
    shape: tuple[int, ...]
    source: int | None = None
    views: Graph | None = None

    def stacked(self, sliced: Mapping[int, Tensor], made: Mapping[fx.Node, Tensor]) -> Tensor:
        """Return the factors of all steps."""
        views = self.views
        if views is None or self.source is None:
            found = made[self.node]
        else:
            found = torch.func.vmap(lambda part: views(part)[0])(sliced[self.source])
        return found.reshape(len(found), *self.shape)


@dataclass(frozen=True)
class Product:
    """A product of matrices, or of batches of them, and the view of it that is the cotangent."""

    left: Factor
    right: Factor
    views: Graph

    def summed(self, left: Tensor, right: Tensor) -> Tensor:
        """Return the sum over all steps, given the stacked factors."""
        *batch, rows, _ = left.shape[1:]
        left = left.movedim(0, -2).reshape(*batch, rows, -1)
        right = right.movedim(0, -3).reshape(*batch, -1, right.shape[-1])
        (result,) = self.views((torch.bmm if batch else torch.mm)(left, right))
        return result

    def stacked(self, left: Tensor, right: Tensor) -> Tensor:
        """Return the products of all steps, given the stacked factors."""
        shape = (*left.shape[:-1], right.shape[-1])
        made = torch.bmm(left.reshape(-1, *left.shape[-2:]), right.reshape(-1, *right.shape[-2:]))
        return torch.func.vmap(lambda product: self.views(product)[0])(made.reshape(shape))


@dataclass(frozen=True)
class Deferred:
    """A step back without the products that are made after the loop, by input; it returns the nodes `made` besides."""

    step: Graph
    products: dict[int, Product]
    made: tuple[fx.Node, ...]

    @staticmethod
    def of(backward: Graph, inputs: Sequence[int | None], shared: int, sliced: Sequence[int]) -> "Deferred":
        """Return what to defer of a step.

        `inputs` tells for each result which input it is the cotangent of; None: what must be made by the step. The
        first `shared` inputs of the step are the same for all steps, the inputs `sliced` are slices of arrays.
        """
        fx_graph = backward.module.graph
        results: Any = fx_graph.output_node().args[0]
        found = {i: _product(backward, results[k], shared, sliced) for k, i in enumerate(inputs) if i is not None}
        products = {i: product for i, product in found.items() if product is not None}
        if not products:
            return Deferred(backward, {}, ())
        factors = [factor for product in products.values() for factor in (product.left, product.right)]
        made = tuple(dict.fromkeys(factor.node for factor in factors if factor.views is None))
        kept = [node for i, node in zip(inputs, results, strict=True) if i not in products]
        effects = [node for node in fx_graph.nodes if calls_for_effect(node)]
        placeholders = fx_graph.find_nodes(op="placeholder")
        return Deferred(derived.subgraph(backward, placeholders, [*kept, *made], effects), products, made)

    def cotangents(self, shared: int, sliced: Mapping[int, Tensor], made: Sequence[Tensor]) -> dict[int, Tensor]:
        """Return the deferred cotangents, by input, of which the first `shared` are the same for all steps.

        `sliced` are the arrays that the loop slices, `made` is what it has made of each step.
        """
        stacks = dict(zip(self.made, made, strict=True))
        found = {}
        for i, product in self.products.items():
            factors = (product.left.stacked(sliced, stacks), product.right.stacked(sliced, stacks))
            found[i] = product.summed(*factors) if i < shared else product.stacked(*factors)
        return found


def _product(backward: Graph, node: fx.Node, shared: int, sliced: Sequence[int]) -> Product | None:
    """Return the product that a result is a view of, where its factors take no more memory than itself."""
    product = _viewed(node)
    found = [_factor(backward, *factor, shared, sliced) for factor in _factors(product)]
    left, right = found or (None, None)
    if left is None or right is None:
        return None
    made = {factor.node for factor in (left, right) if factor.views is None}
    if sum(map(_elements, made)) > _elements(product):
        return None
    return Product(left, right, derived.subgraph(backward, [product], [node]))


def _factors(product: fx.Node) -> list[tuple[fx.Node, tuple[int, ...]]]:
    """Return what a product of matrices, or of a column and a row, multiplies, and the shapes as matrices; [] for others."""
    args = product.args
    types = [type_of(arg) if isinstance(arg, fx.Node) else None for arg in args]
    if product.target in (aten.mm.default, aten.bmm.default):
        return [(arg, type.shape) for arg, type in zip(args, types, strict=True)]  # pyright: ignore
    if product.target is not aten.mul.Tensor or None in types:
        return []
    whole = type_of(product).shape  # pyright: ignore
    if len(whole) not in (2, 3):
        return []
    shapes = [(*[1] * (len(whole) - len(type.shape)), *type.shape) for type in types]  # pyright: ignore
    pairs = list(zip(args, shapes, strict=True))
    column, row = (*whole[:-1], 1), (*whole[:-2], 1, whole[-1])
    return next((order for order in (pairs, pairs[::-1]) if [s for _, s in order] == [column, row]), [])  # pyright: ignore


def _factor(
    backward: Graph, node: fx.Node, shape: tuple[int, ...], shared: int, sliced: Sequence[int]
) -> Factor | None:
    inputs = backward.module.graph.find_nodes(op="placeholder")
    source = _viewed(node)
    position = inputs.index(source) if source in inputs else None
    if position in sliced:
        return Factor(node, shape, position, derived.subgraph(backward, [source], [node]))
    return None if position is not None and position < shared else Factor(node, shape)


def _viewed(node: fx.Node) -> fx.Node:
    """Return what a node is a view of, with all of its elements in some order."""
    while node.op == "call_function" and operators.of(node.target).kind in (Kind.RESHAPE, Kind.PERMUTE):
        node = node.all_input_nodes[0]
    return node


def _elements(node: fx.Node) -> int:
    type = type_of(node)
    return 0 if type is None else math.prod(type.shape)
