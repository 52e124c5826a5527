"""Long graphs cut into pieces: what lies between products of matrices, loops and other calls, and often comes again.

A training step of a deep network does the same in each layer and for each parameter. Of its thousands of operators a few
hundred are left once pieces that are equal up to names count as one.

Each node has a *level*, which never falls along the graph and rises where no piece may go on: at a node that stands alone,
where a number becomes part of an array (all parameters of a network are updated by the same few numbers), and at each further
product of rows (the layers of a network are alike). Nodes of one level that are connected are a piece: a path from a piece to
itself has no other level, and so never leaves it.
"""

import heapq
import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import getitem
from typing import Any

from torch import Tensor, fx

from .._core import graph, operators
from .._core.graph import Graph
from .._core.nodes import storage_of
from .._core.operators import aten
from .._core.primitive import Primitive
from . import layouts, loop_nodes, onednn
from .donation import Update
from .loop_products import goes_along_rows

_MOST_NODES = 200  # of a piece: more take the compiler longer than they save calls
_MOST_ELEMENTS = 1 << 24  # of an array: beyond, what a piece keeps to its end takes too much memory
_MOST_OF_SMALL = 1 << 16  # elements of an array: beyond, it matters how many passes over memory there are
# Elements of what moves bodies in space. Larger matrices are of layers, and pieces end where these do.
_MOST_OF_MATRIX = 6 * 6
_MANY, _TIMES = 100, 3  # nodes, and how often each is there, for which pieces are compiled in less time than a graph
# Multiplications: some 0.4 ms, in which nothing can interrupt it. Beyond, a call of torch's does not matter.
_MOST_OF_PRODUCT = 1 << 24
_OF_MATRICES = (aten.mm.default, aten.bmm.default)
_PRODUCTS = (*_OF_MATRICES, aten.mv.default, aten.dot.default)

# Elementwise operators of torch's that have no vectors, or make several passes.
_SLOW_BY_TORCH = frozenset({
    aten.acosh.default, aten.asinh.default, aten.atan2.default, aten.cosh.default, aten.gelu.default,
    aten.isnan.default, aten.ne.Scalar, aten.signbit.default, aten.sinh.default,
})  # fmt: skip


@dataclass(frozen=True, eq=False)
class Piece:
    """Nodes of a graph that are computed together, of which `outputs` are needed elsewhere.

    Pieces of one `form` do the same: what they take lies in the same places, and what they return, too. Those that do not
    `pay` are single nodes, for which torch has functions as fast. One that `updates` an input has it as its output.
    """

    inputs: tuple[fx.Node, ...]
    outputs: tuple[fx.Node, ...]
    nodes: tuple[fx.Node, ...]
    form: str
    pays: bool
    updates: fx.Node | None = None

    @property
    def carried(self) -> int | None:
        """The position of the input that the piece updates."""
        return None if self.updates is None else self.inputs.index(self.updates)


@dataclass(frozen=True)
class Parts:
    """A graph cut up: pieces and other nodes in the order in which they run, views and numbers left out.

    The nodes `apart` are in no piece for their size or dtype, though a compiler would compute them together; `large` ones have
    arrays of which that compiler may make better loops.
    """

    steps: list[Piece | fx.Node]
    apart: set[fx.Node]
    large: set[fx.Node]
    readers: Mapping[fx.Node, Sequence[fx.Node]]

    @property
    def pieces(self) -> list[Piece]:
        """The pieces among the steps that pay."""
        return [step for step in self.steps if isinstance(step, Piece) and step.pays]

    def leaves(self, node: fx.Node, own: set[fx.Node]) -> bool:
        """Tell whether something else than these nodes reads a node, through views."""
        return not own.issuperset(self.readers[node])


def repeats(body: Graph) -> bool:
    """Tell whether a graph does the same again and again, so that its pieces are far less to compile than the whole.

    One of small arrays is better as one function even so: calls of its pieces take as long as these.
    """
    nodes = [node for node in body.module.graph.nodes if node.op == "call_function"]
    kinds = {(node.target, graph.type_of(node)) for node in nodes}
    if len(nodes) < max(_MANY, _TIMES * len(kinds)) or sum(map(_size, nodes)) < _MOST_OF_SMALL // 4:
        return False
    return all(node.target is getitem or loop_nodes.is_known(node) for node in nodes)


def cut(body: Graph, updates: Sequence[Update] = ()) -> Parts:
    """Return the parts of a graph, in which each update of an input is a piece, when all else has read that."""
    return _Cut(body, updates).parts()


class _Cut:
    def __init__(self, body: Graph, updates: Sequence[Update]) -> None:
        self._updates, updating = updates, {node for update in updates for node in update.nodes}
        self._nodes: list[fx.Node] = list(body.module.graph.nodes)
        self._place = {node: i for i, node in enumerate(self._nodes)}
        self._written = set().union(*(node.meta.get("writes", ()) for node in self._nodes))
        self._is_view = {node for node in self._nodes if self._reads_through(node)}
        self._is_view |= {node for node in self._nodes if self._is_copied_for_products(node)}
        self._is_view -= updating
        self._numbers: set[fx.Node] = set()
        for node in self._nodes:
            if self._is_number(node):
                self._numbers.add(node)
        self._is_source = self._numbers | {node for node in self._nodes if node.op in ("placeholder", "get_attr")}
        computing = [n for n in self._nodes if n not in self._is_view and n not in self._is_source]
        self._sources = {node: self._read_by(node) for node in computing}
        touching = [node for node in computing if self._touches_written(node)]
        for before, after in itertools.pairwise(touching):
            self._sources[after].append(before)
        for update in updates:
            first = next(filter(self._sources.__contains__, update.nodes))
            self._sources[first] += [node for node in update.others if node in self._sources]
        self._users: dict[fx.Node, list[fx.Node]] = defaultdict(list)
        for node, sources in self._sources.items():
            for source in sources:
                self._users[source].append(node)
        fitting = [n for n in computing if n.op == "call_function" and n not in updating and self._may_be_in_piece(n)]
        largest = {node: max(map(_size, (node, *self._sources[node]))) for node in fitting}
        self._inner = {node for node, size in largest.items() if size <= _MOST_ELEMENTS}
        self._large = {node for node in self._inner if largest[node] > _MOST_OF_SMALL}
        self._multiplied: set[fx.Node] = set()  # what is made of products of rows
        for node, sources in self._sources.items():
            if _multiplies_rows(node) or not self._multiplied.isdisjoint(sources):
                self._multiplied.add(node)
        self._level = self._levels()

    def _is_number(self, node: fx.Node) -> bool:
        """Tell whether a node fills a tensor with numbers that are known beforehand, or computes one of such numbers."""
        if node.op != "call_function" or not loop_nodes.is_known(node) or self._touches_written(node):
            return False
        given, kind = node.all_input_nodes, operators.of(node.target)
        return not given or (_size(node) == 1 and (kind.is_elementwise or kind.is_view) and self._numbers >= set(given))

    def _touches_written(self, node: fx.Node) -> bool:
        values = [node.meta.get("val"), *(a.meta.get("val") for a in node.all_input_nodes)] if self._written else ()
        return any(isinstance(v, Tensor) and storage_of(v) in self._written for v in values)

    def _reads_through(self, node: fx.Node) -> bool:
        """Tell whether a node is a view that any code can make of what it is a view of, or a primitive of one result.

        What reads that result computes it: of an elementwise primitive's the item, of which it is the only one.
        """
        if node.op != "call_function" or self._touches_written(node):
            return False
        if node.target is getitem:
            source = node.all_input_nodes[0]
            return self._reads_through(source) and not _is_elementwise(source)  # a list is no piece's input
        may = isinstance(node.target, Primitive) or operators.of(node.target).is_view
        return may and loop_nodes.is_known(node)

    def _is_copied_for_products(self, node: fx.Node) -> bool:
        """Tell whether short products alone read a copy, which take their factors as they lie in memory."""
        if node.target is not aten.clone.default or not self._is_known(node):
            return False
        readers = list(node.users)
        for reader in readers:  # which grows
            if reader in self._is_view:
                readers.extend(reader.users)
            elif not self._is_short_product(reader):
                return False
        return True

    def _may_be_in_piece(self, node: fx.Node) -> bool:
        if node.target is getitem:
            source = node.all_input_nodes[0]
            return source in self._is_view or self._may_be_in_piece(source)
        is_product = operators.of(node.target).kind is operators.Kind.PRODUCT
        if is_product and not (_multiplies_small_matrices(node) or _multiplies_rows(node)):
            return False
        return self._is_known(node)

    def _is_known(self, node: fx.Node) -> bool:
        return loop_nodes.is_known(node) and not self._touches_written(node)

    def _is_small(self, part: Sequence[fx.Node]) -> bool:
        return self._large.isdisjoint(part)

    def _is_short_product(self, node: fx.Node) -> bool:
        if node.op != "call_function" or node.target not in _PRODUCTS or onednn.is_faster(node):
            return False
        inner = node.all_input_nodes[0].meta["val"].shape[-1]
        return self._is_known(node) and _size(node) * inner <= _MOST_OF_PRODUCT

    def _read_by(self, node: fx.Node) -> list[fx.Node]:
        """Return the nodes whose memory a node reads, through views; graph inputs and numbers are none."""
        found: dict[fx.Node, None] = {}
        pending = list(node.all_input_nodes)
        while pending:
            source = pending.pop()
            if source in self._is_view:
                pending.extend(source.all_input_nodes)
            elif source not in self._is_source:
                found[source] = None
        return list(found)

    def _rises(self, source: fx.Node, user: fx.Node) -> bool:
        """Tell whether no piece has both."""
        if source not in self._inner or user not in self._inner or _size(source) <= 1 < _size(user):
            return True
        return source in self._multiplied and _multiplies_rows(user)

    def _levels(self) -> dict[fx.Node, int]:
        level: dict[fx.Node, int] = {}
        for node, sources in self._sources.items():
            level[node] = max((level[s] + self._rises(s, node) for s in sources), default=0)
        for node in reversed(self._sources):
            # What is no smaller than what it is made of waits for who reads it: a decayed average for the new gradient.
            waits = node in self._inner and _size(node) >= max(map(_size, self._sources[node]), default=0)
            if waits and self._users[node]:
                level[node] = min(level[user] - self._rises(node, user) for user in self._users[node])
        return level

    def parts(self) -> Parts:
        """Return the parts, which run as late as the last of their nodes did."""
        parts = [part for group in self._groups() for part in _in_parts(group) if _pays(part) or self._is_small(part)]
        parts += [[node] for node in self._sources if node not in self._inner and self._is_short_product(node)]
        pieces = [self._piece(part) for part in parts]
        pieces += [self._piece(update.nodes, update.buffer) for update in self._updates]
        part_of: dict[fx.Node, Piece | fx.Node] = {node: node for node in self._sources}
        part_of.update((node, piece) for piece in pieces for node in piece.nodes)
        users: dict[Piece | fx.Node, set[Piece | fx.Node]] = defaultdict(set)
        awaited: dict[Piece | fx.Node, int] = dict.fromkeys(part_of.values(), 0)
        for node, sources in self._sources.items():
            for before in {part_of[s] for s in sources} - {part_of[node]}:
                if part_of[node] not in users[before]:
                    users[before].add(part_of[node])
                    awaited[part_of[node]] += 1
        place = {part_of[node]: self._place[node] for node in self._sources}  # of its last node
        ready = [(place[part], part) for part, count in awaited.items() if not count]
        heapq.heapify(ready)
        steps = []
        while ready:
            part = heapq.heappop(ready)[1]
            steps.append(part)
            for user in users[part]:
                awaited[user] -= 1
                if not awaited[user]:
                    heapq.heappush(ready, (place[user], user))
        assert len(steps) == len(awaited)
        return Parts(steps, set(filter(_is_fused, self._sources)) - self._inner, self._large, self._users)

    def _groups(self) -> Iterator[list[fx.Node]]:
        parents = {node: node for node in self._inner}

        def group(node: fx.Node) -> fx.Node:
            while parents[node] is not node:
                parents[node] = node = parents[parents[node]]
            return node

        members: dict[fx.Node, list[fx.Node]] = defaultdict(list)
        for node in self._sources:
            if node in self._inner:
                for source in self._sources[node]:
                    if not self._rises(source, node) and self._level[source] == self._level[node]:
                        parents[group(source)] = group(node)
        for node in self._sources:
            if node in self._inner:
                members[group(node)].append(node)
        yield from members.values()

    def _piece(self, part: Sequence[fx.Node], updates: fx.Node | None = None) -> Piece:
        own, inputs, within = set(part), {}, set(part)
        pending = [a for node in part for a in node.all_input_nodes]
        for source in pending:  # which grows
            if source in self._is_view or source in self._numbers:
                if source not in within:
                    within.add(source)
                    pending.extend(source.all_input_nodes)
            elif source not in own:
                inputs[source] = None
        outputs = [node for node in part if not own.issuperset(self._users[node])]
        form = _form(list(inputs), sorted(within, key=self._place.__getitem__), outputs, updates)
        saves_copy = any(node.target is aten.clone.default for node in within)  # of a factor, as torch makes it
        pays = saves_copy or updates is not None or _pays(part)
        return Piece(tuple(inputs), tuple(outputs), tuple(part), form, pays, updates)


def _size(node: fx.Node) -> int:
    value = node.meta.get("val")
    return sum(v.numel() for v in (value if isinstance(value, list | tuple) else [value]) if isinstance(v, Tensor))


def _multiplies_small_matrices(node: fx.Node) -> bool:
    values = [n.meta.get("val") for n in (node, *node.all_input_nodes)]
    return all(isinstance(v, Tensor) and math.prod(v.shape[-2:]) <= _MOST_OF_MATRIX for v in values)


def _multiplies_rows(node: fx.Node) -> bool:
    """Tell whether a node is a product that is made row by row, with what is computed of its rows."""
    if node.target not in _OF_MATRICES:
        return False
    left, product = (graph.type_of(n) for n in (node.all_input_nodes[0], node))
    if left is None or product is None or math.prod(left.shape[:-2]) != 1:
        return False
    rows, inner = left.shape[-2:]
    return goes_along_rows(rows, inner, product.shape[-1], left.dtype)


def _is_fused(node: fx.Node) -> bool:
    row = operators.of(node.target)
    return node.op == "call_function" and (row.is_elementwise or row.kind is operators.Kind.REDUCTION)


def _is_elementwise(node: fx.Node) -> bool:
    """Tell whether a node is one of our elementwise primitives, which are several operators of torch's."""
    return isinstance(node.target, Primitive) and node.target.is_elementwise


def _pays(part: Sequence[fx.Node]) -> bool:
    """Tell whether nodes are better one function: several are, and what torch does slowly."""
    node, *others = part
    if node.target in _SLOW_BY_TORCH or (node.target is getitem and _is_elementwise(node.all_input_nodes[0])):
        return True
    if others or not _is_fused(node):
        return bool(others)
    operands = [v for a in node.all_input_nodes if isinstance(v := a.meta.get("val"), Tensor)]
    if operators.of(node.target).kind is operators.Kind.REDUCTION:
        return all(v.is_contiguous() for v in operands)
    return any(v.numel() < _size(node) or v.stride() != node.meta["val"].stride() for v in operands)


def _in_parts(group: list[fx.Node]) -> Iterator[list[fx.Node]]:
    while group:
        end = _MOST_NODES
        while end < len(group) and group[end].target is getitem:  # with what it is a result of
            end += 1
        yield group[:end]
        group = group[end:]


def _form(
    inputs: Sequence[fx.Node], within: Sequence[fx.Node], outputs: Sequence[fx.Node], updates: fx.Node | None
) -> str:
    numbers = {node: i for i, node in enumerate(itertools.chain(inputs, within))}

    def argument(value: Any) -> Any:
        if isinstance(value, fx.Node):
            return f"%{numbers[value]}"
        if isinstance(value, list | tuple):
            return [argument(v) for v in value]
        return value

    def call(node: fx.Node) -> list[Any]:
        target: Any = node.target
        name = target.identity() if isinstance(target, Primitive) else getattr(target, "__name__", "")
        return [name, argument(node.args), {k: argument(v) for k, v in node.kwargs.items()}]

    types = [(graph.type_of(node), layouts.order_of(node)) for node in numbers]
    updated = None if updates is None else numbers[updates]
    return repr((types, [call(node) for node in within], [numbers[node] for node in outputs], updated))
