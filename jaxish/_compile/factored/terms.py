"""Values as sums of products of smaller tensors: `G[b, i, j] = sum_t A[b, t, i] * D[b, t, j]` without G.

Every index is a `Label`. A `Factor` is a node of a graph whose dimensions are labels; a `Term` is the product of its
factors, summed over the labels that the value's own dimensions do not have. What is linear in a value, products of
values and sums over dimensions are again such values, so that a norm or a weighted sum of `G` is one contraction of
`A` and `D` (contraction.py). A dimension of a value is a row of labels, of which the last runs fastest: a flattened
matrix has two. In a concatenation each term is `Placed` somewhere along the joined dimension, and is zero elsewhere.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import fx

MOST_TERMS = 24
MOST_FACTORS = 8


@dataclass(frozen=True, eq=False)
class Label:
    """An index, which runs from 0 to `size - 1`: dimensions of size 1 have none."""

    size: int


Labels = tuple[Label, ...]


@dataclass(frozen=True)
class Windows:
    """The windows that a convolution looks at.

    They are taken of a tensor `(batch..., channels, sizes...)` with `batch` leading dimensions. Their labels are those of
    the batch, the channels and the kernel, `inner` together, and then those of where the windows lie.
    """

    batch: int
    inner: int
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    flipped: frozenset[int] = frozenset()  # dimensions of the kernel that run backwards

    def turned(self, axes: Sequence[int]) -> "Windows | None":
        """Return the windows with these of their labels running backwards; None if some are not the kernel's."""
        own = [axis for axis, size in enumerate(self.kernel) if size != 1]
        first = self.inner - len(own)
        if not all(first <= axis < self.inner for axis in axes):
            return None
        return replace(self, flipped=self.flipped ^ {own[axis - first] for axis in axes})


@dataclass(frozen=True)
class Factor:
    """A tensor of a graph, after `steps` (contraction.STEPS) have been done to it: its dimensions are `labels`.

    With `hot`, a last label, the tensor holds indices: the factor is 1 where `hot` is the index, else 0. With `windows`
    it is the tensor of which these are still to be taken.
    """

    node: fx.Node
    labels: Labels
    steps: tuple[tuple[Any, ...], ...] = ()
    hot: Label | None = None
    windows: Windows | None = None

    @property
    def all_labels(self) -> Labels:
        """The labels, the last one of a one-hot factor included."""
        return self.labels if self.hot is None else (*self.labels, self.hot)

    def with_step(self, *step: Any, labels: Labels | None = None) -> "Factor":
        """Return the factor with something done to its tensor."""
        labels = self.labels if labels is None else labels
        if self.windows is None:
            return replace(self, steps=(*self.steps, step), labels=labels)
        taken = ("windows", self.windows, tuple(label.size for label in self.labels))
        return replace(self, steps=(*self.steps, taken, step), labels=labels, windows=None)

    def with_batch_step(self, *step: Any, labels: Labels | None = None) -> "Factor":
        """Return the factor with something done to its tensor that may be done before windows are taken."""
        return replace(replace(self, windows=None).with_step(*step, labels=labels), windows=self.windows)


@dataclass(frozen=True)
class Placed:
    """Where along a joined dimension a term lies: from `start`, in the order of `labels`."""

    start: int
    labels: Labels

    @property
    def stop(self) -> int:
        """The end of the part."""
        return self.start + size_of(self.labels)


@dataclass(frozen=True)
class Term:
    """A product of factors and a number."""

    factors: tuple[Factor, ...]
    scale: float = 1.0
    places: tuple[tuple[Label, Placed], ...] = ()  # by the label of the joined dimension
    seeds: frozenset[fx.Node] = frozenset()  # the products that would have to be made without factors

    def place(self, label: Label) -> Placed | None:
        """Return where along the joined dimension of `label` the term lies; None if it is all along it."""
        return next((placed for joined, placed in self.places if joined is label), None)

    @property
    def labels(self) -> set[Label]:
        """All labels of its factors."""
        return {label for factor in self.factors for label in factor.all_labels}


class NotFactored(Exception):
    """What has been asked of a value cannot be said in terms of its factors."""


@dataclass(frozen=True)
class Value:
    """A sum of terms, zero if there are none; `dims` are the labels of its dimensions.

    `is_square` says that nothing in it is negative.
    """

    dims: tuple[Labels, ...]
    terms: tuple[Term, ...]
    is_square: bool = False

    def __post_init__(self) -> None:
        if len(self.terms) > MOST_TERMS or any(len(term.factors) > MOST_FACTORS for term in self.terms):
            raise NotFactored

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the dimensions."""
        return tuple(map(size_of, self.dims))

    @property
    def labels(self) -> list[Label]:
        """The labels of all dimensions, in order."""
        return [label for labels in self.dims for label in labels]

    @property
    def nodes(self) -> list[fx.Node]:
        """The nodes that the value is made of."""
        factors = [factor for term in self.terms for factor in term.factors]
        others = [a for factor in factors for step in factor.steps for a in step if isinstance(a, fx.Node)]
        return list(dict.fromkeys([*(factor.node for factor in factors), *others]))


def size_of(labels: Iterable[Label]) -> int:
    """Return how many values the labels take together."""
    return math.prod(label.size for label in labels)


def of_node(node: fx.Node, shape: Sequence[int]) -> Value:
    """Return a tensor as a value with one factor."""
    dims = tuple(() if size == 1 else (Label(size),) for size in shape)
    labels = tuple(label for dim in dims for label in dim)
    return Value(dims, (Term((_shaped(Factor(node, ()), labels, len(shape)),)),))


def _shaped(factor: Factor, labels: Labels, ndim: int | None = None) -> Factor:
    if len(labels) == ndim:  # it has no dimension of size one
        return replace(factor, labels=labels)
    return factor.with_step("reshape", tuple(label.size for label in labels), labels=labels)


# -- labels ------------------------------------------------------------------------------------------------------


def _mapped(value: Value, change: Mapping[Label, Labels]) -> Value:
    """Return the value with other labels; one that becomes several is split, one of size 1 may become none."""

    def labels(given: Labels) -> Labels:
        return tuple(new for label in given for new in change.get(label, (label,)))

    def factor(given: Factor) -> Factor:
        new = labels(given.labels)
        hot = given.hot
        if hot is not None and hot in change:
            if len(change[hot]) != 1:
                raise NotFactored
            (hot,) = change[hot]
        given = replace(given, hot=hot)
        return replace(given, labels=new) if len(new) == len(given.labels) else _shaped(given, new)

    def term(given: Term) -> Term:
        places = []
        for joined, placed in given.places:
            new = change.get(joined, (joined,))
            if len(new) != 1:
                raise NotFactored  # a joined dimension is not taken apart
            places.append((new[0], Placed(placed.start, labels(placed.labels))))
        return replace(given, factors=tuple(map(factor, given.factors)), places=tuple(places))

    return replace(value, dims=tuple(map(labels, value.dims)), terms=tuple(map(term, value.terms)))


def _with_own_labels(value: Value) -> Value:
    """Return the value with labels that no other value has."""
    found = {label for term in value.terms for label in term.labels} | set(value.labels)
    found |= {label for term in value.terms for _, placed in term.places for label in placed.labels}
    return _mapped(value, {label: (Label(label.size),) for label in found})


def _common(first: Labels, second: Labels) -> tuple[dict[Label, Labels], dict[Label, Labels]]:
    """Return how to split the labels of two dimensions of one size so that they are the same, those of the first."""
    ours: dict[Label, Labels] = {}
    theirs: dict[Label, Labels] = {}
    left, right = list(first), list(second)
    while left and right:
        a, b = left.pop(), right.pop()
        if a.size == b.size:
            theirs[b] = (a,)
            continue
        small, large, change = (a, b, theirs) if a.size < b.size else (b, a, ours)
        if large.size % small.size:
            raise NotFactored
        change[large] = (Label(large.size // small.size), Label(small.size))
        return ours, theirs  # the rest when it has been split
    return ours, theirs


def _aligned(first: Value, second: Value) -> tuple[Value, Value]:
    """Return two values of one shape with the same labels for their dimensions."""
    for index in range(len(first.dims)):
        while first.dims[index] != second.dims[index]:
            ours, theirs = _common(first.dims[index], second.dims[index])
            if not ours and not theirs:
                raise NotFactored
            first, second = _mapped(first, ours), _mapped(second, theirs)
    return first, second


# -- what is linear ----------------------------------------------------------------------------------------------


def reshaped(value: Value, shape: Sequence[int]) -> Value:
    """Return the value with other dimensions, its elements in the same order."""
    for _ in range(64):
        rest, dims = value.labels, []
        for size in shape:
            taken: list[Label] = []
            while rest and size_of(taken) < size:
                taken.append(rest.pop(0))
            if size_of(taken) != size:
                break
            dims.append(tuple(taken))
        else:
            return replace(value, dims=tuple(dims))
        if not taken or size_of(taken) < size:
            raise NotFactored
        last = taken.pop()  # it is cut: its leading part belongs here
        wanted, odd = divmod(size, size_of(taken))
        if odd or last.size % wanted:
            raise NotFactored
        value = _mapped(value, {last: (Label(wanted), Label(last.size // wanted))})
    raise NotFactored


def permuted(value: Value, order: Sequence[int]) -> Value:
    """Return the value with its dimensions in another order."""
    return replace(value, dims=tuple(value.dims[i] for i in order))


def flipped(value: Value, axes: Sequence[int]) -> Value:
    """Return the value with its elements along some dimensions in the opposite order."""
    gone = {label for axis in axes for label in value.dims[axis]}
    if any(joined in gone for term in value.terms for joined, _ in term.places):
        raise NotFactored

    def factor(given: Factor) -> Factor:
        if given.hot in gone:
            raise NotFactored
        turned = tuple(axis for axis, label in enumerate(given.labels) if label in gone)
        if not turned:
            return given
        windows = None if given.windows is None else given.windows.turned(turned)
        return given.with_step("flip", turned) if windows is None else replace(given, windows=windows)

    return replace(value, terms=tuple(replace(t, factors=tuple(map(factor, t.factors))) for t in value.terms))


def expanded(value: Value, shape: Sequence[int]) -> Value:
    """Return the value broadcast to a shape."""
    dims = ((),) * (len(shape) - len(value.dims)) + value.dims
    found = []
    for size, labels in zip(shape, dims, strict=True):
        if size_of(labels) != size:
            if labels:
                raise NotFactored
            labels = (Label(size),)
        found.append(labels)
    return replace(value, dims=tuple(found))


def scaled(value: Value, number: float) -> Value:
    """Return the value times a number."""
    terms = tuple(replace(term, scale=term.scale * number) for term in value.terms)
    return Value(value.dims, terms, value.is_square and number >= 0)


def added(first: Value, second: Value, scale: float = 1.0) -> Value:
    """Return `first + scale * second`, of one shape."""
    is_square = first.is_square and second.is_square and scale >= 0
    first, second = _aligned(first, _with_own_labels(scaled(second, scale)))
    return Value(first.dims, first.terms + second.terms, is_square)


def summed(value: Value, axes: Sequence[int], keepdims: bool) -> Value:
    """Return the sums over some dimensions."""
    gone = [label for axis in axes for label in value.dims[axis]]
    terms = []
    for term in value.terms:
        present = term.labels | {label for _, placed in term.places for label in placed.labels}
        missing = [label for label in gone if label not in present and term.place(label) is None]
        for label in gone:
            placed = term.place(label)
            if placed is not None:
                missing += [part for part in placed.labels if part not in term.labels]
        places = tuple((joined, placed) for joined, placed in term.places if joined not in gone)
        terms.append(replace(term, scale=term.scale * size_of(missing), places=places))
    dims = [() if axis in axes else labels for axis, labels in enumerate(value.dims)]
    kept = dims if keepdims else [labels for axis, labels in enumerate(dims) if axis not in axes]
    return Value(tuple(kept), tuple(terms), value.is_square)


def sliced(value: Value, axis: int, start: int, stop: int) -> Value:
    """Return the elements from `start` to `stop` along a dimension."""
    if (start, stop) == (0, value.shape[axis]):
        return value
    if len(value.dims[axis]) != 1:
        raise NotFactored
    (label,) = value.dims[axis]
    new = Label(stop - start)
    terms = []
    for term in value.terms:
        placed = term.place(label)
        if placed is None:
            terms.append(replace(term, factors=tuple(slice_of(f, label, new, start) for f in term.factors)))
        elif start <= placed.start and placed.stop <= stop:
            moved = (new, Placed(placed.start - start, placed.labels))
            terms.append(replace(term, places=(*_without(term, label), moved)))
        elif placed.start < stop and start < placed.stop:
            raise NotFactored  # the cut goes through a part
    dims = (*value.dims[:axis], (new,), *value.dims[axis + 1 :])
    found = Value(dims, tuple(terms), value.is_square)
    return _mapped(found, {new: ()}) if new.size == 1 else _taken_out(found, new)


def _without(term: Term, label: Label) -> tuple[tuple[Label, Placed], ...]:
    return tuple((joined, placed) for joined, placed in term.places if joined is not label)


def _taken_out(value: Value, label: Label) -> Value:
    """Return the value with its own labels for a joined dimension that has one part only."""
    parts = [term.place(label) for term in value.terms]
    if not parts:
        return value
    first = parts[0]
    if first is None or any(part is None or size_of(part.labels) != label.size for part in parts):
        return value
    terms = []
    for term, part in zip(value.terms, parts, strict=True):
        alone = Value((part.labels,), (replace(term, places=_without(term, label)),))  # pyright: ignore
        joint, alone = _aligned(Value((first.labels,), ()), alone)
        if joint.dims != (first.labels,):
            raise NotFactored
        terms += alone.terms
    dims = tuple(first.labels if dim == (label,) else dim for dim in value.dims)
    return Value(dims, tuple(terms), value.is_square)


def slice_of(factor: Factor, label: Label, new: Label, start: int) -> Factor:
    """Return the elements of a factor from `start` along a label, which is called `new` there."""
    if factor.hot is label:
        raise NotFactored
    if label not in factor.labels:
        return factor
    axis = factor.labels.index(label)
    labels = (*factor.labels[:axis], new, *factor.labels[axis + 1 :])
    is_of_batch = factor.windows is not None and axis < factor.windows.batch
    change = factor.with_batch_step if is_of_batch else factor.with_step
    return change("slice", axis, start, start + new.size, labels=labels)


def joined(values: Sequence[Value], axis: int) -> Value:
    """Return the concatenation of values along a dimension."""
    values = [values[0], *map(_with_own_labels, values[1:])]
    whole = Label(sum(value.shape[axis] for value in values))
    if whole.size == 1:
        raise NotFactored
    first, start, terms = values[0], 0, []
    dims = None
    for value in values:
        outer = Value((*value.dims[:axis], (), *value.dims[axis + 1 :]), value.terms)
        inner = value.dims[axis]
        if any(term.place(label) is not None for term in value.terms for label in inner):
            raise NotFactored  # a concatenation of concatenations
        if dims is None:
            dims = outer.dims
        same, outer = _aligned(Value(dims, ()), outer)
        if same.dims != dims:
            raise NotFactored
        placed = (whole, Placed(start, inner))
        terms += [replace(term, places=(*term.places, placed)) for term in outer.terms]
        start += value.shape[axis]
    assert dims is not None
    whole_dims = (*dims[:axis], (whole,), *dims[axis + 1 :])
    return Value(whole_dims, tuple(terms), all(value.is_square for value in values) and first.is_square)


# -- products ----------------------------------------------------------------------------------------------------


def is_made(value: Value) -> bool:
    """Tell whether a value is a tensor of the graph as it is, and no product."""
    return len(value.terms) == 1 and not value.terms[0].seeds


def multiplied(first: Value, second: Value, are_same: bool = False) -> Value:
    """Return the product of two values of one shape, element by element, with the labels of the first.

    `are_same` says that it is a square.
    """
    first, second = _aligned(first, _with_own_labels(second))
    terms = []
    for i, one in enumerate(first.terms):
        for j, other in enumerate(second.terms):
            product = _product(one, other)
            if product is None:
                continue
            if are_same and i != j and not (one.seeds and other.seeds):
                raise NotFactored  # the square of a difference from something made would lose its digits
            terms.append(product)
    is_square = are_same or (first.is_square and second.is_square)
    return Value(first.dims, tuple(terms), is_square)


def _product(one: Term, other: Term) -> Term | None:
    """Return the product of two terms, None where it is zero: they lie side by side."""
    change: dict[Label, Labels] = {}
    for label, placed in one.places:
        also = other.place(label)
        if also is None:
            other = _cut(other, label, placed)
        elif also.start == placed.start and also.stop == placed.stop:
            if [part.size for part in also.labels] != [part.size for part in placed.labels]:
                raise NotFactored
            change |= {theirs: (ours,) for theirs, ours in zip(also.labels, placed.labels, strict=True)}
        elif also.stop <= placed.start or placed.stop <= also.start:
            return None
        else:
            raise NotFactored
    for label, placed in other.places:
        if one.place(label) is None:
            one = _cut(one, label, placed)
    other = _mapped(Value((), (other,)), change).terms[0]
    places = one.places + tuple(p for p in other.places if one.place(p[0]) is None)
    return Term(one.factors + other.factors, one.scale * other.scale, places, one.seeds | other.seeds)


def _cut(term: Term, label: Label, placed: Placed) -> Term:
    """Return the part of a term that lies where `placed` says, by its labels."""
    new = Label(size_of(placed.labels))
    factors = tuple(slice_of(factor, label, new, placed.start) for factor in term.factors)
    return _mapped(Value((), (replace(term, factors=factors),)), {new: placed.labels}).terms[0]


def chosen(condition: Value, first: Value | None, second: Value | None) -> Value:
    """Return `first` where a condition of its shape is true, else `second`; None stands for zeros."""
    if first is None or second is None:
        value, wanted = (second, False) if first is None else (first, True)
        if value is None:
            raise NotFactored
        return _kept(value, condition, wanted)
    merged = _merged(condition, first, second, True) or _merged(condition, second, first, False)
    if merged is not None:
        return merged
    return added(_kept(first, condition, True), _kept(second, condition, False))


def _merged(condition: Value, plain: Value, other: Value, wanted: bool) -> Value | None:
    """Return a choice between a value and the same value times small factors, as clipping is: a choice of these."""
    plain, condition = _aligned(plain, _with_own_labels(condition))
    if plain.dims != other.dims or len(plain.terms) != len(other.terms):
        return None
    test = _test_of(condition)
    terms = []
    for one, scaled in zip(plain.terms, other.terms, strict=True):
        count = len(one.factors)
        small = scaled.factors[count:]
        if scaled.factors[:count] != one.factors or one.places != scaled.places or not small:
            return None
        if any(not set(factor.all_labels) <= set(test.labels) for factor in small):
            return None
        numbers = [(one.scale, scaled.scale), *[(1.0, 1.0)] * (len(small) - 1)]
        pairs = zip(small, numbers, strict=True)
        chosen = [_chosen_number(test, factor, wanted, *scales) for factor, scales in pairs]
        terms.append(replace(one, factors=(*one.factors, *chosen), scale=1.0))
    return replace(plain, terms=tuple(terms), is_square=plain.is_square and other.is_square)


def _chosen_number(test: Factor, given: Factor, wanted: bool, number: float, scale: float) -> Factor:
    """Return a number where the test is as wanted, else `scale` times a factor."""
    order = [test.labels.index(label) for label in given.labels]
    if order != sorted(order):
        raise NotFactored
    sizes = tuple(label.size for label in test.labels)
    shape = tuple(label.size if label in given.labels else 1 for label in test.labels)
    return given.with_step("reshape", shape).with_step(
        "chosen", test.node, sizes, wanted, number, scale, labels=test.labels
    )


def _kept(value: Value, condition: Value, wanted: bool) -> Value:
    """Return the value where a condition of its shape is as wanted, else 0, whatever it is there (infinite, NaN)."""
    value, condition = _aligned(value, _with_own_labels(condition))
    test = _test_of(condition)

    def factor(given: Factor) -> Factor:
        if given.hot is not None:
            return given  # ones and zeros, which the others make zeros
        if given.windows is None and set(given.labels) < set(test.labels):
            return _chosen_number(test, given, not wanted, 0.0, 1.0)
        shape, windows = _shape_for(test, given), given.windows
        if windows is not None and set(test.labels) <= set(given.labels[: windows.batch]):
            shape = (*shape[: windows.batch], 1, *[1] * len(windows.kernel))
            return given.with_batch_step("where", test.node, shape, wanted)
        return given.with_step("where", test.node, shape, wanted)

    terms = tuple(replace(term, factors=tuple(map(factor, term.factors))) for term in value.terms)
    return replace(value, terms=terms)


def _test_of(condition: Value) -> Factor:
    ((test,),) = (term.factors for term in condition.terms)
    if test.steps and test.steps != (("reshape", tuple(label.size for label in test.labels)),):
        raise NotFactored
    return test


def _shape_for(test: Factor, given: Factor) -> tuple[int, ...]:
    """Return the shape in which a condition fits a factor's tensor."""
    if any(label not in given.labels for label in test.labels):
        raise NotFactored  # what it has elsewhere would stay
    order = [given.labels.index(label) for label in test.labels]
    if order != sorted(order):
        raise NotFactored
    return tuple(label.size if label in test.labels else 1 for label in given.labels)


def scattered(rows: Value, index: fx.Node, batch: int, ndim: int, size: int) -> Value:
    """Return rows `(b..., t..., d...)` added up at the indices `(b..., t...)` that a node holds: `(b..., size, d...)`.

    The indices have `ndim` dimensions, of which `batch` are kept.
    """
    shape = rows.shape
    given = reshaped(of_node(index, shape[:ndim]), (*shape[:ndim], *[1] * (len(shape) - ndim)))
    rows, given = _aligned(rows, expanded(given, shape))
    ((indices,),) = (term.factors for term in given.terms)
    if size == 1:
        raise NotFactored
    hot = Label(size)
    terms = tuple(replace(term, factors=(*term.factors, replace(indices, hot=hot))) for term in rows.terms)
    return Value((*rows.dims[:batch], (hot,), *rows.dims[ndim:]), terms)


def positions_of(
    sizes: Sequence[int], kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int]
) -> tuple[int, ...]:
    """Return how many places a convolution's windows have along each dimension."""
    each = zip(sizes, kernel, stride, padding, dilation, strict=True)
    return tuple((size + 2 * pad - reach * (count - 1) - 1) // step + 1 for size, count, step, pad, reach in each)


def filters(
    x: fx.Node, slopes: fx.Node, groups: int, shapes: Sequence[Sequence[int]], geometry: Sequence[Sequence[int]]
) -> Value:
    """Return the derivative by a convolution's filters `(groups * o, i, kernel...)`.

    It sums windows of `x` `(n, groups * i, ...)` times `slopes` `(n, groups * o, ...)` over where the windows lie.
    `shapes` are those of `x` and of `slopes`, `geometry` is stride, padding, dilation and the size of the kernel.
    """

    def labels(*sizes: int) -> Labels:
        return tuple(Label(size) for size in sizes if size != 1)

    (images, channels, *sizes), (_, results, *positions) = shapes
    stride, padding, dilation, kernel = map(tuple, geometry)
    if tuple(positions) != positions_of(sizes, kernel, stride, padding, dilation):
        raise NotFactored  # a transposed convolution with more results than its operand has places
    n, group, out, channel, places = (
        labels(images), labels(groups), labels(results // groups), labels(channels // groups), labels(*positions),
    )  # fmt: skip
    offsets = [labels(size) for size in kernel]
    batch, own = n + group, (*channel, *(label for offset in offsets for label in offset))
    windows = Windows(len(batch), len(batch + own), kernel, stride, padding, dilation)
    shape = (*(label.size for label in batch), channels // groups, *sizes)
    taken = Factor(x, batch + own + places, (("reshape", shape),), windows=windows)
    return Value((group + out, channel, *offsets), (Term((taken, _shaped(Factor(slopes, ()), batch + out + places))),))


def seeded(value: Value, seed: fx.Node) -> Value:
    """Return the value as what a node makes."""
    return replace(value, terms=tuple(replace(term, seeds=frozenset([seed])) for term in value.terms))
