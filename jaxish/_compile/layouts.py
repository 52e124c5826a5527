"""The order in which tensors lie in memory, where that is another than the order of their dimensions.

What torch computes of the channels of images lies in the order of the image, channels last, and pooling and convolving such ones
takes a fraction of the time. So a piece of a graph takes and returns arrays as they lie.

torch.einsum copies a factor whose dimensions it has to join, its last one innermost. Where that one was not innermost the copy
goes across memory and takes as long as the product; a product takes a transposed factor as it is.
"""

import math
from collections.abc import Sequence

from torch import Tensor, fx

from .._core.fakes import fake
from .._core.graph import Graph, TensorType
from .._core.graph_module import GraphModule
from .._core.operators import aten
from .._core.rewriting import rewritten

Order = tuple[int, ...]


def order_of(node: fx.Node) -> Order | None:
    """Return the order of dimensions in which all elements of a tensor lie one after the other; None for their own."""
    value = node.meta.get("val")
    if not isinstance(value, Tensor) or value.is_contiguous() or not value.numel():
        return None
    strides = value.stride()
    order = tuple(sorted(range(value.dim()), key=lambda d: (value.shape[d] == 1, -strides[d])))
    expected = 1
    for d in reversed(order):
        if value.shape[d] != 1 and strides[d] != expected:
            return None
        expected *= value.shape[d]
    return order


def permuted(node: fx.Node, order: Sequence[int]) -> fx.Node:
    """Return a new node, where nodes are added to the graph: the view of a tensor with its dimensions in an order."""
    value, view = node.meta["val"], node.graph.call_function(aten.permute.default, (node, list(order)))
    sizes, strides = ([of[d] for d in order] for of in (value.shape, value.stride()))
    view.meta["val"] = fake(value.fake_mode, sizes, value.dtype, value.device, strides)
    return view


def inverse(order: Sequence[int]) -> list[int]:
    """Return the order that undoes an order."""
    return [order.index(d) for d in range(len(order))]


def as_it_lies(body: Graph, inputs: Sequence[Order | None], outputs: Sequence[Order | None]) -> Graph:
    """Return a graph that takes and returns the same tensors with their dimensions in these orders."""
    if not any(inputs) and not any(outputs):
        return body
    made, copies, orders = fx.Graph(), {}, iter(inputs)
    for node in body.module.graph.nodes:
        copies[node] = copy = made.node_copy(node, copies.__getitem__)
        if node.op == "placeholder" and (order := next(orders)):
            value = node.meta["val"]
            copy.meta = {"val": fake(value.fake_mode, [value.shape[d] for d in order], value.dtype, value.device)}
            copies[node] = permuted(copy, inverse(order))
        elif node.op == "output":
            (found,) = copy.args
            with made.inserting_before(copy):
                copy.args = ([permuted(n, o) if o else n for n, o in zip(found, outputs, strict=True)],)  # pyright: ignore
    return Graph(
        GraphModule(body.module, made, "jaxish_graph"), _in(inputs, body.in_types), _in(outputs, body.out_types)
    )


def _in(orders: Sequence[Order | None], types: Sequence[TensorType]) -> tuple[TensorType, ...]:
    return tuple(
        type if order is None else TensorType(tuple(type.shape[d] for d in order), type.dtype, type.device)
        for type, order in zip(types, orders, strict=True)
    )


def for_products(body: Graph) -> Graph:
    """Return the graph with what is copied for products of matrices in the order of what it is copied from."""
    if any(node.meta.get("writes") for node in body.module.graph.nodes):  # into what may be copied
        return body
    module = rewritten(body.module, lambda node: _is_factor(node) and _order(node) is not None, _copy_in_order)
    return body if module is body.module else Graph(module, body.in_types, body.out_types)


def _is_factor(matrix: fx.Node) -> bool:
    """Tell whether a node joins dimensions of a copy, for products alone."""
    if matrix.target is not aten.reshape.default or not all(user.target in _PRODUCTS for user in matrix.users):
        return False
    copy = matrix.all_input_nodes[0]
    return copy.target is aten.clone.default and len(copy.users) == 1


_PRODUCTS = (aten.mm.default, aten.bmm.default)


def _order(matrix: fx.Node) -> list[int] | None:
    """Return the order of dimensions in which a factor is better copied; None where it is as it should be."""
    source, made = (node.meta["val"] for node in (matrix.all_input_nodes[0].all_input_nodes[0], matrix))
    (rows, columns), sizes, dims = made.shape[-2:], source.shape, range(source.dim())
    column = next((d for d in dims if math.prod(sizes[d:]) == columns), 0)
    row = next((d for d in dims if math.prod(sizes[d:]) == rows * columns), 0)
    if not row < column or not _is_across(source, row, column):
        return None
    return [*range(row), *dims[column:], *range(row, column)]


def _is_across(source: Tensor, row: int, column: int) -> bool:
    """Tell whether the elements of a column of a factor lie one after the other, those of a row do not."""
    sizes, strides = source.shape, source.stride()
    rows, columns = range(row, column), range(column, source.dim())
    in_column, in_row = ([strides[d] for d in dims if sizes[d] != 1][-1:] for dims in (rows, columns))
    return in_column == [1] and in_row > [1]


def _copy_in_order(matrix: fx.Node) -> None:
    order, (old,) = _order(matrix), matrix.all_input_nodes
    assert order is not None
    turned = permuted(old.all_input_nodes[0], order)
    copy = matrix.graph.call_function(old.target, (turned,), old.kwargs)  # pyright: ignore
    value = turned.meta["val"]
    copy.meta["val"] = fake(value.fake_mode, value.shape, value.dtype, value.device)
    matrix.replace_input_with(old, permuted(copy, inverse(order)))
    matrix.graph.erase_node(old)
