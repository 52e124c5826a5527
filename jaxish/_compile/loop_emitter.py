"""The steps of native loops, as C++ statements: what is computed where it is read, and what is stored, and where.

Each value is an expression of index variables (`Value.load`): views only rewrite indices, elementwise operations nest
expressions, and what is used twice, reduced or multiplied as a matrix is stored first, numbers in locals and arrays
in buffers of static size. What the nodes of a graph are, loop_nodes.py says.
"""

import heapq
import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from operator import getitem
from typing import Any

import torch
from torch import Tensor, fx

from .._core import graph, operators
from .._core.graph import Graph, TensorType
from .._core.primitive import Primitive
from .._core.target import LOOP
from .added_elements import added_in_place
from .duplicates import merged
from .loop_bits import moved_as_they_are
from .loop_elements import filled, literal
from .loop_halves import widened
from .loop_operators import C_TYPES, SETTING, name_of
from .loop_values import CallsHost, Unsupported, Value, beginning, flat_index, in_buffer, is_in_order, nest
from .special_products import respelled

# Of all values of a step together: beyond, kernels in parallel win. An operation on a few costs less than the call of one,
# however many operations there are.
MOST_ELEMENTS, _FEW_ELEMENTS = 1 << 18, 3 << 10
_LINE = 64  # bytes, of a cache
_MOST_ON_STACK, _STACK = 1024, 1 << 20  # elements of an array, and bytes of all; a thread's stack may be small
_MOST_OF_CONSTANT = 64  # elements that are written out
# Operations that compute. The compiler takes some ten seconds for either number, beside the calls: graphs of more are cut into
# pieces, of which many are the same. Bodies of loops are not, so those within a graph count with it for the second number.
_MOST_IN_GRAPH, _MOST_IN_BODY = 1500, 4000


def spelled_out(body: Graph) -> Graph:
    """Return the graph with its primitives spelled out in operators and instructions."""
    body = merged(body)
    if any(isinstance(n.target, Primitive) and not n.target.is_instruction for n in body.module.graph.nodes):
        try:
            body = graph.trace(body, body.in_types, lowering=LOOP).graph
        except NotImplementedError as error:
            raise CallsHost(str(error)) from None
    return moved_as_they_are(added_in_place(respelled(body)))


def _computes(node: fx.Node) -> bool:
    """Tell whether a node costs the compiler something: constants, views and parts of several results do not."""
    return bool(node.all_input_nodes) and node.target is not getitem and not operators.of(node.target).is_view


_CHANGING = {*SETTING, "cond", "while", "scan"}


def _changes_last(nodes: list[fx.Node]) -> list[fx.Node]:
    """Return nodes in an order in which what may change a carry comes after all that does not depend on it, and may read it."""
    place = {node: i for i, node in enumerate(nodes)}
    changing = {node for node in nodes if name_of(node) in _CHANGING}
    if not changing or any(name_of(node) == "copy_" for node in nodes):  # which changes what others read, too
        return nodes
    awaited = {node: len(node.all_input_nodes) for node in nodes}
    ready = [(node in changing, place[node]) for node in nodes if not awaited[node]]
    found: list[fx.Node] = []
    heapq.heapify(ready)
    while ready:
        found.append(nodes[heapq.heappop(ready)[1]])
        for user in found[-1].users:
            awaited[user] -= 1
            if not awaited[user]:
                heapq.heappush(ready, (user in changing, place[user]))
    return found


def carry_over(targets: Sequence[str], results: Sequence[Value]) -> list[str]:
    """Return statements that store results, all of which were computed from the targets' old values.

    What is an update of its target is made one.
    """
    lines = []
    for target, value in zip(targets, results, strict=True):
        if value.place is not None:
            lines += [update.text for update in value.updates]
            continue
        index, variables, sizes = _loop_index(value.shape)
        element = f"{target}[{flat_index(index, value.shape)}]"
        lines.append(nest(variables, sizes, f"{element} = {value.load(index)};"))
    return lines


def row_of(name: str, array: str, step: str, type: TensorType) -> str:
    """Return the statement that names the row of a stacked array that a step fills: stores into it are told apart by the name."""
    return f"{C_TYPES[type.dtype]}* __restrict__ const {name} = {array} + {step}*{math.prod(type.shape)};"


def _loop_index(shape: Sequence[int]) -> tuple[list[str], list[str], list[int]]:
    """Return the index of an element in loops over a shape, and these loops' variables and counts.

    Dimensions of one element have none: an outermost loop of one step would hide the rows, an innermost one all vectors.
    """
    sizes = [n for n in shape if n != 1]
    variables = [f"i{d}" for d in range(len(sizes))]
    unused = iter(variables)
    return ["0" if n == 1 else next(unused) for n in shape], variables, sizes


class Emitter:
    """The C++ statements of one step of a loop; `outer` is the step that a loop or branch within it belongs to.

    What a node of the body calls, `value_of` emits. What is the same in all steps of a loop, whose variables are
    `changing`, is stored before it, by the statements `fixed`. With `most_work` they give up (`over`) when the loops
    within whose steps nobody can count beforehand go beyond it, and where a branch is taken that calls Python.
    """

    def __init__(
        self,
        body: Graph,
        value_of: "Callable[[Emitter, fx.Node], Value]",
        outer: "Emitter | None" = None,
        most_work: int | None = None,
        changing: Collection[str] | None = None,
        most_elements: int = MOST_ELEMENTS,
    ) -> None:
        if graph.has_effects(body):
            raise Unsupported("an effect, which nothing would call whose results are unused")
        self.body = widened(spelled_out(body))
        self.lines: list[str] = []
        self.values: dict[fx.Node, Value] = {}
        self.several: dict[fx.Node, Sequence[Value]] = {}  # the results of loops and branches
        self.depths: dict[fx.Node, int] = {}  # of expressions: how many are within each other
        self.carries: set[fx.Node] = set()
        self.work = 16  # of a step: the elements that it stores, and what its loops do whose lengths are known
        self.most_work = most_work if outer is None else outer.most_work
        self._most_elements = most_elements if outer is None else outer._most_elements
        self._most_operations = _MOST_IN_BODY if outer is not None or most_work is None else _MOST_IN_GRAPH
        # How much there is in all steps: operations, elements and room for them, bytes, those on the stack, loops, and exits
        # by giving up.
        self.made: Counter[str] = Counter() if outer is None else outer.made
        self.fixed: list[str] = []
        self._value_of = value_of
        self._arrays: dict[str, int] = {}  # the lines of `lines` by which they are declared
        self._names = itertools.count() if outer is None else outer._names
        self._fixed_names: set[str] = set()
        self._changing, self._first_name = changing, next(self._names)

    @property
    def loops(self) -> int:
        """How many loops there are within."""
        return self.made["loops"]

    @property
    def memory(self) -> int:
        """How many bytes the arrays take that are not on the stack."""
        return self.made["bytes"]

    def is_large(self, most_elements: int = MOST_ELEMENTS) -> bool:
        """Tell whether kernels take less time, one call for each operation."""
        return self.made["elements"] > most_elements + _FEW_ELEMENTS * self.made["operations"] + self.made["room"]

    @property
    def gives_up(self) -> bool:
        """Whether there are loops whose steps are counted as they are made, or branches that call Python."""
        return self.made["exits"] > 0

    def emit(self, inputs: Sequence[Value], carries: range = range(0)) -> list[Value]:
        """Append the statements that compute the body's results from `inputs`; return the results.

        The first results are what the inputs `carries` become. Those that are updates of them are not stored, and no others
        need be: they are read before the carries become others.
        """
        found = self.computed_from(inputs, carries)
        kept = [v.is_update_of(c) for v, c in zip(found, inputs[carries.start : carries.stop], strict=False)]
        others = [self._read_in_each_step(v) for v in found[len(kept) :]]
        return [*self.settled(found[: len(kept)], kept), *others]

    def _read_in_each_step(self, value: Value) -> Value:
        if not self.changes(value.text):
            return self.stored(value)
        self.work += math.prod(value.shape)
        return replace(value, place=None, updates=())

    def emit_into(self, inputs: Sequence[Value], places: Sequence[str]) -> None:
        """Append the statements that compute the body's results at `places`, which lie apart from all that is read."""
        found = self.computed_from(inputs)
        left = [i for i, value in enumerate(found) if not self._lies_at(places[i], value)]
        self.lines += carry_over([places[i] for i in left], [found[i] for i in left])

    def _lies_at(self, place: str, value: Value) -> bool:
        """Have the array that a value is read from be at `place`, if it is one of this step's and nowhere else yet."""
        name = self._array_of(value)
        if name is not None and (line := self._arrays.pop(name, None)) is not None:
            self.lines[line] = f"{C_TYPES[value.dtype]}* __restrict__ const {name} = {place};"
            return True
        return False

    def computed_from(self, inputs: Sequence[Value], carries: range = range(0)) -> list[Value]:
        """Append the statements that the results need; return these, of which some may not be stored yet."""
        nodes = self.body.module.graph
        operations = sum(map(_computes, nodes.nodes))
        if operations > self._most_operations:
            raise Unsupported("the body is long")
        self.made["operations"] += operations
        if self.most_work is not None and self.made["operations"] > _MOST_IN_BODY:
            raise Unsupported("the graph and its loops are long")
        assert [(v.shape, v.dtype) for v in inputs] == [(t.shape, t.dtype) for t in self.body.in_types]
        placeholders = nodes.find_nodes(op="placeholder")
        self.values.update(zip(placeholders, inputs, strict=True))
        self.carries = set(placeholders[carries.start : carries.stop])
        ordered = _changes_last(list(nodes.nodes)) if carries else list(nodes.nodes)
        self._order = {node: i for i, node in enumerate(ordered)}
        for node in ordered:
            if node.op == "call_function":
                self.values[node] = self._value_of(self, node)
            elif node.op == "get_attr":
                held = self.module(node)
                if isinstance(held, Tensor):  # else what a loop of torch's takes
                    self.values[node] = self._constant(held)
            elif node.op not in ("placeholder", "output"):
                raise Unsupported(node.op)
        (found,) = nodes.output_node().args
        results = [self.values[n] for n in ([found] if isinstance(found, fx.Node) else found)]  # pyright: ignore
        assert [(v.shape, v.dtype) for v in results] == [(t.shape, t.dtype) for t in self.body.out_types]
        once = {v: self.held(v) for v, n in Counter(results).items() if n > 1 and v.place is None}
        return [once.get(v, v) for v in results]

    def may_change(self, node: fx.Node, base: fx.Node) -> bool:
        """Tell whether a node may change the memory of a carry, which it sees as `base`: nothing reads that later.

        What was read of it and is needed after it, or by the node itself, is stored before, if that is little. Then elements
        that wait to be set are.
        """
        seen, name = self.values[base], self._memory_of(base)
        if name is None:
            return False
        needed = [n for n in self.values if self._is_needed_after(n, node, base) and self._reads(n, name)]
        if base in needed or not self.several.keys().isdisjoint(needed):
            return False
        if 4 * sum(math.prod(self.values[n].shape) for n in needed) > math.prod(seen.shape):
            return False
        for n in needed:
            self.values[n] = self.stored(replace(self.values[n], exponential=None))
        self.lines += [update.text for update in seen.updates]
        self.values[base] = seen.as_it_lies()
        return True

    def _memory_of(self, node: fx.Node) -> str | None:
        """Return the name of the carry of this step that a node sees."""
        place = self.values[node].place
        name = None if place is None else place(["0"] * len(self.values[node].shape)).partition("[")[0]
        return name if name in {self.values[c].memory for c in self.carries} else None

    def _is_needed_after(self, node: fx.Node, change: fx.Node, base: fx.Node) -> bool:
        return any(self._order[u] > self._order[change] or (u is change and node is not base) for u in node.users)

    def _reads(self, node: fx.Node, memory: str) -> bool:
        """Tell whether what a node makes is, or may be, computed of what lies there."""
        found = self.several.get(node, [self.values[node]])
        try:
            texts = [v.text for value in found for v in (value, value.exponential) if v is not None]
        except Unsupported:  # elements that were set, and are to be read
            return True
        return any(re.search(rf"\b{memory}\b", text) for text in texts)

    def settled(self, found: Sequence[Value], kept: Sequence[bool]) -> list[Value]:
        """Store results, but for those that are kept as updates: from there on nothing is read of what they update."""
        return [
            v if k or self._array_of(v) in self._arrays else self.stored(v) for v, k in zip(found, kept, strict=True)
        ]

    def _array_of(self, value: Value) -> str | None:
        """Return the name of the array whose elements a value has, in their order."""
        return (beginning(value) or "").removesuffix("[") if value.is_held else None

    def within(self, body: Graph, changing: Collection[str] | None = None) -> "Emitter":
        """Return an emitter of what is a part of this step."""
        return Emitter(body, self._value_of, self, changing=changing)

    def arguments(self, node: fx.Node) -> list[Any]:
        """Return what a node is given: values for nodes, and all else as it is."""
        return [self.values[a] if isinstance(a, fx.Node) else a for a in node.args]

    def module(self, node: fx.Node) -> Any:
        """Return what a node takes from the body's module: a tensor, or the module of a loop of torch's."""
        return getattr(self.body.module, str(node.target))

    def _constant(self, tensor: Tensor) -> Value:
        shape, dtype = tuple(tensor.shape), tensor.dtype
        if dtype not in C_TYPES or tensor.numel() > _MOST_OF_CONSTANT:
            raise Unsupported(f"a constant {dtype}{list(shape)}")
        with graph.outside_traces():
            numbers = tensor.flatten().tolist()
        if len(numbers) == 1:
            return filled(shape, dtype, numbers[0])
        name = self.new_name("v")
        self.lines.append(
            f"const {C_TYPES[dtype]} {name}[] = {{{', '.join(literal(n, dtype) for n in numbers) or 0}}};"
        )
        return in_buffer(name, shape, dtype)

    def stored(self, value: Value) -> Value:
        """Emit a loop that computes the elements of `value`, and return it read from where they are."""
        index, variables, sizes = _loop_index(value.shape)
        is_number, computed = not sizes, value.load(index)
        lines = self.lines_for(computed)
        if is_number:
            name = self.new_name("v")
            if lines is self.fixed:
                self._fixed_names.add(name)
            lines.append(f"const {C_TYPES[value.dtype]} {name} = {computed};")
        else:
            name = self.declared(value.shape, value.dtype, lines)
            lines.append(nest(variables, sizes, f"{name}[{flat_index(index, value.shape)}] = {computed};"))
        if is_number:
            return Value(value.shape, value.dtype, lambda index: name, is_held=True)
        return replace(in_buffer(name, value.shape, value.dtype), exponential=value.exponential)

    def lines_for(self, text: str) -> list[str]:
        """Return where a statement belongs that reads what an expression names: before all steps if that is the same in all."""
        return self.lines if self.changes(text) else self.fixed

    def changes(self, text: str) -> bool:
        """Tell whether an expression may be another in each step: whether it has a variable of the loop, or made in a step."""
        if self._changing is None:
            return True
        names = set(re.findall(r"\b[a-z]+\d*\b", text)) - self._fixed_names
        return any(
            n in self._changing or (n[0] in "vn" and n[1:].isdigit() and int(n[1:]) > self._first_name) for n in names
        )

    def held(self, value: Value) -> Value:
        """Return a value whose elements are read, not computed: itself, or stored."""
        return value if value.is_held else self.stored(value)

    def in_order(self, value: Value) -> Value:
        """Return an array whose elements lie in memory in their order, where they are brought if they do not."""
        return value if is_in_order(value) else self.stored(value)

    def declared(self, shape: tuple[int, ...], dtype: torch.dtype, lines: list[str] | None = None) -> str:
        """Emit a buffer for the elements of an array and return its name."""
        lines = self.lines if lines is None else lines
        name, count = self.new_name("v"), math.prod(shape)
        if lines is self.lines:
            self._arrays[name] = len(lines)
        else:
            self._fixed_names.add(name)
        self.work += count
        self.made["elements"] += count
        if self.is_large(self._most_elements):
            raise Unsupported("the body is large")
        if count <= _MOST_ON_STACK and self.made["stack"] + count * dtype.itemsize <= _STACK:
            self.made["stack"] += count * dtype.itemsize
            lines.append(f"{C_TYPES[dtype]} {name}[{max(count, 1)}];")
            return name
        place, kind = self.made["bytes"], C_TYPES[dtype]
        self.made["bytes"] += -(-count * dtype.itemsize // _LINE) * _LINE
        lines.append(f"{kind}* __restrict__ const {name} = ({kind}*)(memory.place + {place});")
        return name

    def new_name(self, letter: str) -> str:
        """Return the name of a variable that nothing else has: v for what is stored, n for what counts."""
        return f"{letter}{next(self._names)}"
