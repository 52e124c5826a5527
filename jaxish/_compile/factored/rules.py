"""What torch's operators make of values in factors: a rule for each that is linear in them, multiplies or sums."""

import math
import operator
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from torch import fx

from ..._core import graph, operators
from ..._core.operators import aten
from . import terms
from .terms import NotFactored, Value

# A product with fewer elements is made: a kernel more costs more than they do.
FEWEST_ELEMENTS = 2**14

Operand = Callable[[Any], Value]
Rule = Callable[[Any, Operand], Value]  # of a node, whose arguments no type checker knows


def shape_of(node: Any) -> tuple[int, ...]:
    """Return the shape of what a node makes."""
    type = graph.type_of(node)
    if type is None:
        raise NotFactored
    return type.shape


def elements_of(node: Any) -> int:
    """Return the number of elements of what a node makes."""
    return math.prod(shape_of(node))


# -- linear ------------------------------------------------------------------------------------------------------


def _reshape(node: Any, operand: Operand) -> Value:
    return terms.reshaped(operand(node.args[0]), shape_of(node))


def _permute(node: Any, operand: Operand) -> Value:
    x, order = node.args
    ndim = len(shape_of(x))
    return terms.permuted(operand(x), [axis % ndim for axis in order])


def _transpose(node: Any, operand: Operand) -> Value:
    x, *axes = node.args
    order = list(range(len(shape_of(x))))
    first, second = (axis % len(order) for axis in (axes or (0, len(order) - 1)))
    order[first], order[second] = order[second], order[first]
    return terms.permuted(operand(x), order)


def _flipped(node: Any, operand: Operand) -> Value:
    x, axes = node.args
    ndim = len(shape_of(x))
    return terms.flipped(operand(x), [axis % ndim for axis in axes])


def _expand(node: Any, operand: Operand) -> Value:
    return terms.expanded(operand(node.args[0]), shape_of(node))


def _slice(node: Any, operand: Operand) -> Value:
    x, axis, start, stop, step = (*node.args, None, None, None, None)[:5]
    if step not in (None, 1):
        raise NotFactored
    size = shape_of(x)[axis or 0]
    start, stop, _ = slice(start, stop).indices(size)
    return terms.sliced(operand(x), (axis or 0) % len(shape_of(x)), start, stop)


def _select(node: Any, operand: Operand) -> Value:
    x, axis, index = node.args
    ndim = len(shape_of(x))
    axis, index = axis % ndim, index % shape_of(x)[axis]
    return terms.reshaped(terms.sliced(operand(x), axis, index, index + 1), shape_of(node))


def _part(node: Any, operand: Operand) -> Value:
    """One of the results of a split."""
    split, position = node.args
    if split.target not in (aten.split_with_sizes.default, aten.split.Tensor):
        raise NotFactored
    x, sizes, *axes = split.args
    axis = (axes or [0])[0] % len(shape_of(x))
    start = position * sizes if split.target is aten.split.Tensor else sum(sizes[:position])
    return terms.sliced(operand(x), axis, start, start + shape_of(node)[axis])


def _joined(node: Any, operand: Operand) -> Value:
    parts: Any = node.args[0]
    axis = (*node.args, 0)[1]
    return terms.joined([operand(part) for part in parts], axis % len(shape_of(node)))


def _negated(node: Any, operand: Operand) -> Value:
    return terms.scaled(operand(node.args[0]), -1.0)


def _zeros(node: Any, operand: Operand) -> Value:
    return replace(operand(node.args[0]), terms=(), is_square=True)


def _converted(node: Any, operand: Operand) -> Value:
    before, after = graph.type_of(node.args[0]), graph.type_of(node)
    if before is None or after is None or after.dtype.itemsize < before.dtype.itemsize:
        raise NotFactored  # factors would not be rounded where the product is
    return operand(node.args[0])


def _added(sign: float) -> Rule:
    def rule(node: Any, operand: Operand) -> Value:
        x, y = (terms.expanded(operand(arg), shape_of(node)) for arg in node.args)
        alpha: Any = node.kwargs.get("alpha", 1)
        return terms.added(x, y, sign * alpha)

    return rule


# -- products ----------------------------------------------------------------------------------------------------


def _times(node: Any, operand: Operand) -> Value:
    x, y = node.args
    for value, number in ((x, y), (y, x)):
        if isinstance(number, int | float):
            return terms.scaled(operand(value), number)
    if x is y:
        value = operand(_without_sign(x))
        return terms.multiplied(value, value, are_same=True)
    a, b = (terms.expanded(operand(arg), shape_of(node)) for arg in (x, y))
    return terms.multiplied(b, a) if terms.is_made(a) else terms.multiplied(a, b)


def _divided(node: Any, operand: Operand) -> Value:
    x, y = node.args
    if isinstance(y, int | float):
        if y == 0:
            raise NotFactored
        return terms.scaled(operand(x), 1 / y)
    divisor = operand(y)
    term, *others = divisor.terms
    divided, *more = term.factors
    if others or more or term.scale != 1 or not term.labels <= set(divisor.labels):
        raise NotFactored
    inverse = replace(term, factors=(divided.with_step("reciprocal"),))
    inverse = replace(divisor, terms=(inverse,))
    return terms.multiplied(terms.expanded(operand(x), shape_of(node)), terms.expanded(inverse, shape_of(node)))


def _square(node: Any, operand: Operand) -> Value:
    if len(node.args) > 1 and node.args[1] != 2:
        raise NotFactored
    value = operand(_without_sign(node.args[0]))
    return terms.multiplied(value, value, are_same=True)


def _without_sign(node: Any) -> Any:
    """Return what has the same square as what a node makes: absolute values are not linear, their squares are."""
    if not isinstance(node, fx.Node):
        return node
    made: Any = node.args[0] if node.target is operator.getitem else node
    is_absolute = made.target is aten.abs.default or getattr(made.target, "equation", _no_equation)() == ("abs", {})
    return made.args[0] if is_absolute else node


def _no_equation() -> None:
    return None


def _matrix_product(node: Any, operand: Operand) -> Value:
    """`(..., i, k)` times `(..., k, j)`; a vector has no `i`, or no `j`."""
    x, y = map(operand, node.args)
    *batch, k = x.shape
    *batch, rows = batch or [1]
    columns = y.shape[-1] if len(y.shape) > 1 else 1
    whole = (*batch, rows, k, columns)
    x = terms.expanded(terms.reshaped(x, (*batch, rows, k, 1)), whole)
    y = terms.expanded(terms.reshaped(y, (*batch, 1, k, columns)), whole)
    product = terms.summed(terms.multiplied(x, y), [len(whole) - 2], keepdims=False)
    return terms.reshaped(product, shape_of(node))


def _sum(node: Any, operand: Operand) -> Value:
    x, axes, keepdims = (*node.args, None, False)[:3]
    ndim = len(shape_of(x))
    axes = [axis % ndim for axis in axes] if axes else range(ndim)
    return terms.summed(operand(x), axes, bool(keepdims))


def _mean(node: Any, operand: Operand) -> Value:
    return terms.scaled(_sum(node, operand), elements_of(node) / elements_of(node.args[0]))


def _chosen(node: Any, operand: Operand) -> Value:
    """`where` between two values, or a value and zero, as by a mask of examples."""
    condition, *branches = node.args
    shape = shape_of(node)
    test = terms.expanded(terms.of_node(condition, shape_of(condition)), shape)
    values = [None if _is_zero(branch) else terms.expanded(operand(branch), shape) for branch in branches]
    return terms.chosen(test, *values)


def _is_zero(node: Any) -> bool:
    """Tell whether a node makes nothing but zeros."""
    while isinstance(node, fx.Node) and (node.target in _VIEWS or node.target is aten.expand.default):
        node = node.args[0]
    if not isinstance(node, fx.Node) or node.op != "call_function":
        return False
    row = operators.of(node.target)
    number = node.args[0] if row.name == "scalar_tensor" else node.args[1] if row.name in _FULL else None
    return row.jax_name == "zeros" or row.name == "new_zeros" or (isinstance(number, int | float) and number == 0)


_FULL = ("full", "full_like")


def _is_count(node: Any, size: int) -> bool:
    """Tell whether a node makes `[0, 1, ..., size - 1]` along its first dimension."""
    while isinstance(node, fx.Node) and node.target in _VIEWS:
        node = node.args[0]
    return isinstance(node, fx.Node) and node.target is aten.arange.default and node.args == (size,)


def _scattered_parts(node: Any) -> tuple[fx.Node, fx.Node] | None:
    """Return indices and values of rows that are added up per example: the gradient of an embedding.

    There is an index for each dimension of the batch, which counts along it, and then that of the rows.
    """
    if node.target is not aten.index_put.default or len(node.args) != 4 or not node.args[3]:
        return None
    zeros, indices, values, _ = node.args
    if not _is_zero(zeros) or len(indices) < 2 or not all(isinstance(i, fx.Node) for i in indices):
        return None
    *examples, index = indices
    shape, ndim = shape_of(index), len(shape_of(index))
    batch = shape_of(node)[: len(examples)]
    if (
        ndim < len(batch)
        or shape[: len(batch)] != batch
        or shape_of(values) != (*shape, *shape_of(node)[len(indices) :])
    ):
        return None
    counts = [
        shape_of(example) == tuple(size if i == axis else 1 for i in range(axis, ndim)) and _is_count(example, size)
        for axis, (example, size) in enumerate(zip(examples, batch, strict=True))
    ]
    return (index, values) if all(counts) else None


def _scattered(node: Any, operand: Operand) -> Value:
    parts = _scattered_parts(node)
    if parts is None:
        raise NotFactored
    index, values = parts
    rows = operand(values)
    batch = len(node.args[1]) - 1
    return terms.scattered(rows, index, batch, len(shape_of(index)), shape_of(node)[batch])


def _filters_of(node: Any) -> Any | None:
    """Return the node of a convolution's derivative whose part by the filters, a group for each example, this is."""
    if node.target is not operator.getitem or node.args[1] != 1:
        return None
    backward = node.args[0]
    if backward.target is not aten.convolution_backward.default:
        return None
    groups = backward.args[9]
    return backward if groups > 1 else None


def _looked_at(backward: Any) -> tuple[Any, Any]:
    """Return what the windows are taken of, and what they are multiplied by: a transposed convolution turns them round."""
    slopes, x = backward.args[:2]
    return (slopes, x) if backward.args[7] else (x, slopes)


def _filters(node: Any, operand: Operand) -> Value:
    backward: Any = _filters_of(node)
    x, slopes = _looked_at(backward)
    _, _, _, _, stride, padding, dilation, _, _, groups, _ = backward.args
    for read in (x, slopes):
        operand(read)  # raises where something writes into it
    geometry = (stride, padding, dilation, shape_of(node)[2:])
    return terms.filters(x, slopes, groups, (shape_of(x), shape_of(slopes)), geometry)


_VIEWS = (
    aten.reshape.default, aten.view.default, aten._unsafe_view.default, aten.unsqueeze.default, aten.squeeze.default,
    aten.squeeze.dim, aten.squeeze.dims, aten.alias.default, aten.detach.default, aten.clone.default,
)  # fmt: skip

RULES: dict[Any, Rule] = {
    **dict.fromkeys(_VIEWS, _reshape),
    aten.permute.default: _permute, aten.transpose.int: _transpose, aten.t.default: _transpose,
    aten.flip.default: _flipped, aten.expand.default: _expand, aten.slice.Tensor: _slice, aten.select.int: _select, aten.cat.default: _joined,
    aten.zeros_like.default: _zeros, aten.neg.default: _negated, aten._to_copy.default: _converted,
    aten.add.Tensor: _added(1.0), aten.sub.Tensor: _added(-1.0),
    aten.mul.Tensor: _times, aten.mul.Scalar: _times, aten.div.Tensor: _divided, aten.div.Scalar: _divided,
    aten.pow.Tensor_Scalar: _square, aten.square.default: _square,
    aten.mm.default: _matrix_product, aten.bmm.default: _matrix_product, aten.mv.default: _matrix_product,
    aten.dot.default: _matrix_product,
    aten.where.self: _chosen, aten.index_put.default: _scattered,
    aten.sum.dim_IntList: _sum, aten.sum.default: _sum, aten.mean.dim: _mean, aten.mean.default: _mean,
}  # fmt: skip

_SQUARES = {aten.mul.Tensor, aten.pow.Tensor_Scalar, aten.square.default}
_PRODUCTS = {aten.mm.default, aten.bmm.default, aten.mv.default, aten.dot.default}
_SUMS = _PRODUCTS | {aten.sum.dim_IntList, aten.sum.default, aten.mean.dim, aten.mean.default}


def rule_of(node: fx.Node) -> Rule | None:
    """Return the rule for what a node calls, None if there is none."""
    if node.target is operator.getitem:
        return _part if _filters_of(node) is None else _filters
    return RULES.get(node.target)


def operands_of(node: Any) -> list[fx.Node]:
    """Return the nodes that a rule looks at: for a part of a split, what is split, for a square, what has a sign."""
    if node.target is operator.getitem:
        return list(node.args[0].all_input_nodes)
    if node.target in _SQUARES and len(node.all_input_nodes) == 1:
        return [_without_sign(node.args[0])]
    return node.all_input_nodes


def is_view(node: fx.Node) -> bool:
    """Tell whether a node computes nothing."""
    return operators.of(node.target).is_view


def sums(node: fx.Node) -> bool:
    """Tell whether a node sums: where factors are contracted."""
    return node.target in _SUMS


def products_of(seed: Any) -> int:
    """Return how many multiplications making a seed takes."""
    backward = _filters_of(seed)
    if backward is not None:
        images, _, *places = shape_of(_looked_at(backward)[1])
        return elements_of(seed) * images * math.prod(places)
    summed = shape_of(seed.args[0])[-1] if seed.target in _PRODUCTS else 1
    return elements_of(seed) * summed


def is_seed(node: Any) -> bool:
    """Tell whether a node makes a large product of smaller tensors."""
    if node.target is aten.bmm.default:
        return elements_of(node) >= FEWEST_ELEMENTS
    if node.target is aten.index_put.default:
        return elements_of(node) >= FEWEST_ELEMENTS and _scattered_parts(node) is not None
    if node.target is aten.mul.Tensor and all(isinstance(arg, fx.Node) for arg in node.args):
        elements = elements_of(node)
        return elements >= FEWEST_ELEMENTS and elements >= 4 * sum(map(elements_of, node.args))
    return _filters_of(node) is not None and elements_of(node) >= FEWEST_ELEMENTS
