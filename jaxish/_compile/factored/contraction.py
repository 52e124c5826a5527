"""Sums of products of tensors, by the cheapest order of contracting two at a time.

`tree_of` finds the order by dynamic programming over subsets of the factors (Pfeifer, Haegeman and
Verstraete, "Faster identification of optimal contraction sequences", arXiv 1304.6112), for costs that know what memory
traffic, matrix products and one-hot factors are worth. Factors that occur twice, as in a square, are contracted once.
"""

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, fx

from .terms import Factor, Label, Labels, NotFactored, Placed, Term, Value, Windows, positions_of, size_of, slice_of


def _kept(tensor: Tensor, condition: Tensor, shape: tuple[int, ...], wanted: bool) -> Tensor:
    return _where(condition.reshape(shape), wanted, tensor, 0.0)


def _chosen(
    tensor: Tensor, condition: Tensor, shape: tuple[int, ...], wanted: bool, number: float, scale: float
) -> Tensor:
    """Return a number where the condition is as wanted, elsewhere the tensor times `scale`."""
    return _where(condition.reshape(shape), not wanted, tensor if scale == 1 else tensor * scale, number)


def _where(condition: Tensor, wanted: bool, tensor: Tensor, number: float) -> Tensor:
    """Return the tensor where the condition is as wanted, elsewhere the number."""
    return torch.where(condition, tensor, number) if wanted else torch.where(condition, number, tensor)


def _windows(tensor: Tensor, windows: Windows, sizes: tuple[int, ...]) -> Tensor:
    """Return the windows of a convolution: a view, in the order of a factor's labels."""
    first, count = windows.batch + 1, len(windows.kernel)
    tensor = torch.constant_pad_nd(tensor, [pad for pad in reversed(windows.padding) for _ in range(2)])
    for axis, (size, stride, dilation) in enumerate(zip(windows.kernel, windows.stride, windows.dilation, strict=True)):
        tensor = tensor.unfold(first + axis, (size - 1) * dilation + 1, stride)[..., ::dilation]
        tensor = tensor.flip(-1) if axis in windows.flipped else tensor
    order = (*range(first), *range(first + count, first + 2 * count), *range(first, first + count))
    return tensor.permute(order).reshape(sizes)


# What is done to a factor's tensor before it is multiplied; nodes among the arguments stand for their tensors.
STEPS: dict[str, Callable[..., Tensor]] = {
    "reshape": lambda tensor, shape: tensor.reshape(shape),
    "slice": lambda tensor, axis, start, stop: tensor.narrow(axis, start, stop - start),
    "reciprocal": torch.reciprocal,
    "flip": lambda tensor, axes: tensor.flip(axes),
    "where": _kept,
    "chosen": _chosen,
    "windows": _windows,
}

# Multiplications in a matrix product that take as long as reading or writing one number of a large array.
PRODUCTS_PER_NUMBER = 8

# Blocks in which a large array is made at most: each is written out in the graph.
MOST_BLOCKS = 64

_IMPOSSIBLE = float("inf")


@dataclass(frozen=True)
class Tree:
    """A factor (`factor`), or the contraction of what two trees make. `labels` are those of the result.

    `key` is equal for equal results, `largest` the number of elements of the largest array that is made.
    """

    labels: Labels
    key: Any
    cost: float
    largest: int
    factor: Factor | None = None
    left: "Tree | None" = None
    right: "Tree | None" = None

    def in_order(self, labels: Labels) -> "Tree":
        """Return the same contraction with the labels of its result in this order, those that it has."""
        if self.factor is not None:
            return self
        return replace(self, labels=tuple(label for label in labels if label in self.labels))


def tree_of(term: Term, wanted: set[Label]) -> Tree:
    """Return the cheapest order of contracting the factors of a term to an array over its `wanted` labels."""
    factors = term.factors
    best: dict[int, Tree] = {}
    for index, factor in enumerate(factors):
        best[1 << index] = Tree(factor.all_labels, _key([factor], set()), 0.0, 0, factor)
    full = (1 << len(factors)) - 1
    for subset in range(1, full + 1):
        if subset in best:
            continue
        rest = [f for i, f in enumerate(factors) if not subset >> i & 1]
        kept = wanted.union(*(f.all_labels for f in rest))
        chosen = [f for i, f in enumerate(factors) if subset >> i & 1]
        key = _key(chosen, {label for f in chosen for label in f.all_labels} - kept)
        found: Tree | None = None
        some = (subset - 1) & subset
        while some:
            others = subset ^ some
            if some > others:
                tree = _paired(best[some], best[others], kept, key)
                if found is None or tree.cost < found.cost:
                    found = tree
            some = (some - 1) & subset
        assert found is not None
        best[subset] = found
    tree = best[full]
    if tree.cost == _IMPOSSIBLE or _hot(tree) is not None or _windows_of(tree) is not None:
        raise NotFactored
    return tree


def _key(factors: Sequence[Factor], inner: set[Label]) -> Any:
    """Return what is equal for products that are equal, whatever the labels are that they sum over."""
    names: dict[Label, Any] = {}
    found = []
    for factor in sorted(factors, key=lambda f: (f.node.name, str(f.steps))):
        labels = [names.setdefault(label, len(names)) if label in inner else label for label in factor.all_labels]
        found.append((factor.node, factor.steps, factor.hot is not None, factor.windows, tuple(labels)))
    return tuple(found)


def _paired(left: Tree, right: Tree, kept: set[Label], key: Any) -> Tree:
    labels = tuple(label for label in dict.fromkeys(left.labels + right.labels) if label in kept)
    size = size_of(labels)
    inputs = left.cost + (0.0 if right.key == left.key else right.cost)
    cost = inputs + _cost(left, right, labels)
    largest = max(left.largest, right.largest, size)
    if not (_correlates(left, right, labels) or _correlates(right, left, labels)):
        largest = max(largest, *(size_of(side.labels) for side in (left, right) if _windows_of(side) is not None), 0)
    return Tree(labels, key, cost, largest, None, left, right)


def _hot(tree: Tree) -> Label | None:
    return None if tree.factor is None else tree.factor.hot


def _windows_of(tree: Tree) -> Windows | None:
    return None if tree.factor is None else tree.factor.windows


def _correlates(left: Tree, right: Tree, labels: Labels) -> bool:
    """Tell whether a product is what a convolution's derivative by its filters is: summed over where windows lie."""
    windows = _windows_of(left)
    if windows is None or _windows_of(right) is not None or _hot(right) is not None:
        return False
    batch, own = left.labels[: windows.batch], left.labels[windows.batch : windows.inner]
    places = left.labels[windows.inner :]
    rest = set(right.labels) - set(batch + places)
    return (
        set(batch + places) <= set(right.labels)
        and rest.isdisjoint(own)
        and rest | set(own) <= set(labels)
        and set(labels).isdisjoint(places)
    )


def _cost(left: Tree, right: Tree, labels: Labels) -> float:
    """Return what one contraction costs, in numbers read and written."""
    if _correlates(right, left, labels):
        left, right = right, left
    hot, other = _hot(left), _hot(right)
    size = size_of(labels)
    if hot is None and other is None:
        traffic = size_of(left.labels) + size_of(right.labels) + size
        union = set(left.labels) | set(right.labels)
        windows = _windows_of(left)
        if windows is not None and _correlates(left, right, labels):
            read = size_of(left.labels) / math.prod(windows.kernel)
            return read + size_of(right.labels) + size + size_of(union) / PRODUCTS_PER_NUMBER
        traffic += sum(2 * size_of(side.labels) for side in (left, right) if _windows_of(side) is not None)
        summed = [label for label in union if label not in labels]
        if not any(label in left.labels and label in right.labels for label in summed):
            return traffic
        return traffic + size_of(union) / PRODUCTS_PER_NUMBER
    if hot is not None and other is not None:
        return size if hot is other and hot not in labels else _IMPOSSIBLE
    index, dense = (left, right) if hot is not None else (right, left)
    hot = hot or other
    assert hot is not None
    rows = set(index.labels) - {hot}
    if hot in dense.labels:  # a gather
        return 2 * size_of(rows | set(dense.labels) - {hot}) if hot not in labels else _IMPOSSIBLE
    return 3 * size_of(dense.labels) + size if rows <= set(dense.labels) and hot in labels else _IMPOSSIBLE


# -- running -----------------------------------------------------------------------------------------------------


Made = dict[Any, tuple[Tensor, Labels]]  # what has been contracted already, by key


def run(tree: Tree, tensor_of: Callable[[Factor], Tensor], made: Made, dtype: torch.dtype) -> Tensor:
    """Contract tensors of one dtype."""
    if tree.key in made:
        found, labels = made[tree.key]
        return found if labels == tree.labels else arranged(found, labels, tree.labels)  # contracted in another order
    if tree.left is None or tree.right is None:
        assert tree.factor is not None
        found = tensor_of(tree.factor)
    else:
        left, right = (run(side, tensor_of, made, dtype) for side in (tree.left, tree.right))
        found = _contracted(tree.left, left, tree.right, right, tree.labels, dtype)
    made[tree.key] = found, tree.labels
    return found


def _contracted(left: Tree, x: Tensor, right: Tree, y: Tensor, labels: Labels, dtype: torch.dtype) -> Tensor:
    if _correlates(left, right, labels):
        return _correlation(left, x, right, y, labels)
    if _correlates(right, left, labels):
        return _correlation(right, y, left, x, labels)
    x, y = _with_windows(left, x), _with_windows(right, y)
    if _hot(left) is None and _hot(right) is None:
        return pair(x, left.labels, y, right.labels, labels)
    if _hot(left) is not None and _hot(right) is not None:
        return _equal(x, left.labels[:-1], y, right.labels[:-1], labels, dtype)
    if _hot(left) is None:
        left, x, right, y = right, y, left, x
    rows, hot = left.labels[:-1], left.labels[-1]
    gathers = hot in right.labels
    return (_gathered if gathers else _scattered)(x, rows, hot, y, right.labels, labels)


def _blocks(tree: Tree, most: int) -> list[Tree]:
    """Return trees for parts of the result along its first label, with no more than so many elements on the way."""
    if tree.largest <= most or not tree.labels or not _is_everywhere(tree.labels[0], tree):
        return [tree]
    label = tree.labels[0]
    size = max(label.size * most // tree.largest, -(-label.size // MOST_BLOCKS), 1)
    starts = range(0, label.size, size)
    return [_block(tree, label, Label(min(size, label.size - start)), start) for start in starts]


def _is_everywhere(label: Label, tree: Tree) -> bool:
    if tree.left is None or tree.right is None:
        return tree.factor is not None and label in tree.factor.labels
    return _is_everywhere(label, tree.left) and _is_everywhere(label, tree.right)


def _block(tree: Tree, label: Label, new: Label, start: int) -> Tree:
    labels = tuple(new if known is label else known for known in tree.labels)
    if tree.factor is not None:
        return replace(tree, labels=labels, factor=slice_of(tree.factor, label, new, start))
    assert tree.left is not None and tree.right is not None
    left, right = (_block(side, label, new, start) for side in (tree.left, tree.right))
    return replace(tree, labels=labels, left=left, right=right)


def pair(x: Tensor, of_x: Labels, y: Tensor, of_y: Labels, labels: Labels) -> Tensor:
    """Return the sum of products of two tensors over the labels that the result does not have."""
    x, of_x = _without(x, of_x, [label for label in of_x if label not in of_y and label not in labels])
    y, of_y = _without(y, of_y, [label for label in of_y if label not in of_x and label not in labels])
    summed = [label for label in of_x if label in of_y and label not in labels]
    if not summed:
        return arranged(x, of_x, labels) * arranged(y, of_y, labels)
    batch = [label for label in labels if label in of_x and label in of_y]
    rows = [label for label in labels if label in of_x and label not in of_y]
    columns = [label for label in labels if label in of_y and label not in of_x]
    if not rows and not columns:
        order = (*batch, *summed)
        product = arranged(x, of_x, order) * arranged(y, of_y, order)
        return arranged(product.sum(tuple(range(len(batch), len(order)))), tuple(batch), labels)
    if rows and columns and labels.index(columns[0]) < labels.index(rows[0]):  # what is made in order is not copied
        x, of_x, rows, y, of_y, columns = y, of_y, columns, x, of_x, rows
    sizes = [size_of(group) for group in (batch, rows, summed, columns)]
    a = arranged(x, of_x, (*batch, *rows, *summed))
    b = arranged(y, of_y, (*batch, *summed, *columns))
    if batch:
        found = torch.bmm(a.reshape(sizes[0], sizes[1], sizes[2]), b.reshape(sizes[0], sizes[2], sizes[3]))
    else:
        found = torch.mm(a.reshape(sizes[1], sizes[2]), b.reshape(sizes[2], sizes[3]))
    order = (*batch, *rows, *columns)
    return arranged(found.reshape([label.size for label in order]), order, labels)


def _without(tensor: Tensor, labels: Labels, gone: Sequence[Label]) -> tuple[Tensor, Labels]:
    if not gone:
        return tensor, labels
    left = tuple(label for label in labels if label not in gone)
    return tensor.sum([labels.index(label) for label in gone]), left


def arranged(tensor: Tensor, labels: Labels, wanted: Labels) -> Tensor:
    """Return the tensor with a dimension for each wanted label, in order; of size one for those that it has not."""
    order = [labels.index(label) for label in wanted if label in labels]
    if order != list(range(len(order))):
        tensor = tensor.permute(order)
    for index, label in enumerate(wanted):
        if label not in labels:
            tensor = tensor.unsqueeze(index)
    return tensor


def _with_windows(tree: Tree, tensor: Tensor) -> Tensor:
    windows = _windows_of(tree)
    return tensor if windows is None else _windows(tensor, windows, tuple(label.size for label in tree.labels))


def _correlation(left: Tree, x: Tensor, right: Tree, y: Tensor, labels: Labels) -> Tensor:
    """Return the product by torch's derivative of a convolution by its filters, which takes no windows out.

    What of the batch is summed are images to it, what is not are groups.
    """
    windows = _windows_of(left)
    assert windows is not None
    batch, own = left.labels[: windows.batch], left.labels[windows.batch : windows.inner]
    summed = tuple(label for label in batch if label not in labels)
    groups = tuple(label for label in batch if label in labels)
    rest = tuple(label for label in right.labels if label not in left.labels)
    order = [batch.index(label) for label in summed + groups]
    channels, *sizes = x.shape[windows.batch :]
    x = x.permute(*order, *range(len(batch), x.ndim)).reshape(size_of(summed), size_of(groups) * channels, *sizes)
    positions = positions_of(sizes, windows.kernel, windows.stride, windows.padding, windows.dilation)
    y = arranged(y, right.labels, (*summed, *groups, *rest, *left.labels[windows.inner :]))
    y = y.reshape(size_of(summed), size_of(groups + rest), *positions)
    shape = (size_of(groups + rest), channels, *windows.kernel)
    found = torch.ops.aten.convolution_backward(
        y, x, x.new_empty(()).expand(shape), None, windows.stride, windows.padding, windows.dilation, False,
        [0] * len(sizes), size_of(groups), [False, True, False],
    )[1]  # fmt: skip
    found = found.flip([2 + axis for axis in sorted(windows.flipped)]) if windows.flipped else found
    given = groups + rest + own
    return arranged(found.reshape([label.size for label in given]), given, labels)


def _equal(x: Tensor, of_x: Labels, y: Tensor, of_y: Labels, labels: Labels, dtype: torch.dtype) -> Tensor:
    """Return the product of two one-hot factors, summed over what is hot: 1 where the indices are equal."""
    union = tuple(dict.fromkeys(of_x + of_y))
    same = (arranged(x, of_x, union) == arranged(y, of_y, union)).to(dtype)
    same, left = _without(same, union, [label for label in union if label not in labels])
    return arranged(same, left, labels)


def _gathered(index: Tensor, rows: Labels, hot: Label, x: Tensor, of_x: Labels, labels: Labels) -> Tensor:
    """Return the elements of `x` at the indices along `hot`."""
    shared = tuple(label for label in rows if label in of_x)
    own = tuple(label for label in rows if label not in of_x)
    rest = tuple(label for label in of_x if label not in rows and label is not hot)
    x = arranged(x, of_x, (*shared, hot, *rest))
    flat = x.reshape(size_of(shared) * hot.size, size_of(rest))
    index = arranged(index, rows, (*shared, *own)).reshape(size_of(shared), size_of(own))
    start = torch.arange(size_of(shared), device=index.device)[:, None] * hot.size
    found = flat.index_select(0, (index + start).reshape(-1))
    order = (*shared, *own, *rest)
    found, left = _without(
        found.reshape([label.size for label in order]), order, [label for label in order if label not in labels]
    )
    return arranged(found, left, labels)


def _scattered(index: Tensor, rows: Labels, hot: Label, x: Tensor, of_x: Labels, labels: Labels) -> Tensor:
    """Return the sums of the elements of `x` that have the same index, at that index along `hot`."""
    kept = tuple(label for label in rows if label in labels)
    gone = tuple(label for label in rows if label not in labels)
    rest = tuple(label for label in of_x if label not in rows)
    x = arranged(x, of_x, (*kept, *gone, *rest)).reshape(size_of(rows), size_of(rest))
    index = arranged(index, rows, (*kept, *gone)).reshape(size_of(kept), size_of(gone))
    start = torch.arange(size_of(kept), device=index.device)[:, None] * hot.size
    zeros = x.new_zeros(size_of(kept) * hot.size, size_of(rest))
    found = zeros.index_add(0, (index + start).reshape(-1), x)
    order = (*kept, hot, *rest)
    found, left = _without(
        found.reshape([label.size for label in order]), order, [label for label in order if label not in labels]
    )
    return arranged(found, left, labels)


# -- values ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """How a value is made of its factors: a tree for each term."""

    value: Value
    trees: tuple[Tree, ...]
    joined: Label | None  # of the dimension along which terms lie side by side

    def run(self, tensors: Mapping[fx.Node, Tensor], dtype: torch.dtype, most: int) -> Tensor:
        """Return the value, as an array; arrays of more than `most` elements on the way are made in blocks."""

        def tensor_of(factor: Factor) -> Tensor:
            tensor = tensors[factor.node]
            if factor.hot is None and tensor.dtype != dtype:
                tensor = tensor.to(dtype)
            for name, *arguments in factor.steps:
                tensor = STEPS[name](tensor, *(tensors[a] if isinstance(a, fx.Node) else a for a in arguments))
            return tensor

        made: Made = {}
        parts: dict[tuple[int, Labels], Tensor] = {}
        for term, tree in zip(self.value.terms, self.trees, strict=True):
            placed = None if self.joined is None else term.place(self.joined)
            labels = self._labels(placed)
            blocks = _blocks(tree, most)
            if len(blocks) > 1:
                found = torch.cat([run(block, tensor_of, {}, dtype) for block in blocks])
            else:
                tree = tree.in_order(labels)
                found = run(tree, tensor_of, made, dtype)
            if term.scale != 1:
                found = found * term.scale
            found, left = _without(found, tree.labels, [label for label in tree.labels if label not in labels])
            found = arranged(found, left, labels).expand([label.size for label in labels])
            place = (0 if placed is None else placed.start, labels)
            parts[place] = parts[place] + found if place in parts else found
        result = self._joined(parts)
        return result.clamp_min(0) if self.value.is_square else result  # differences of rounded numbers may be less

    def _labels(self, placed: Placed | None) -> Labels:
        """Return the labels of the part of the result that lies there."""
        labels = self.value.labels
        if placed is None:
            return tuple(labels)
        return tuple(new for label in labels for new in (placed.labels if label is self.joined else (label,)))

    def _joined(self, parts: Mapping[tuple[int, Labels], Tensor]) -> Tensor:
        if self.joined is None:
            (whole,) = parts.values()
            return whole.reshape(self.value.shape)
        axis = next(i for i, labels in enumerate(self.value.dims) if self.joined in labels)
        before, after = self.value.shape[:axis], self.value.shape[axis + 1 :]
        ordered = [parts[place] for place in sorted(parts, key=operator.itemgetter(0))]
        shaped = [x.reshape(*before, x.numel() // math.prod(before + after), *after) for x in ordered]
        return torch.cat(shaped, axis)


def plan(value: Value) -> Plan:
    """Return how to make a value. Raises `NotFactored` where terms overlap in ways that are not known here."""
    if not value.terms:
        raise NotFactored
    joins = {joined for term in value.terms for joined, _ in term.places if joined in value.labels}
    if len(joins) > 1:
        raise NotFactored
    joined = next(iter(joins), None)
    if joined is not None:
        _check_cover([term.place(joined) for term in value.terms], joined)
        if (joined,) not in value.dims:
            raise NotFactored
    trees = []
    for term in value.terms:
        placed = None if joined is None else term.place(joined)
        wanted = set(value.labels) | (set() if placed is None else set(placed.labels))
        trees.append(tree_of(term, wanted))
    return Plan(value, tuple(trees), joined)


def _check_cover(places: Sequence[Placed | None], joined: Label) -> None:
    """Raise `NotFactored` unless parts that lie side by side, with the same labels where they meet, are the whole."""
    parts: dict[int, Placed] = {}
    for placed in places:
        if placed is None or parts.setdefault(placed.start, placed).labels != placed.labels:
            raise NotFactored
    stop = 0
    for start in sorted(parts):
        if start != stop:
            raise NotFactored
        stop = parts[start].stop
    if stop != joined.size:
        raise NotFactored
