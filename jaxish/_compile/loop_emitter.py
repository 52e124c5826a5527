"""From graphs to C++ statements, for native_loop.py.

Each value is an expression of index variables (`Value.load`): views only rewrite indices, elementwise operations nest
expressions, and what is used twice, reduced or multiplied as a matrix is stored first, numbers in locals and arrays
in buffers of static size. What an elementwise operator is, loop_operators.py says; one that is not there, nor a
method here, raises `Unsupported`.
"""

import itertools
import math
import operator
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx
from torch._ops import HigherOrderOperator
from torch.utils._pytree import tree_flatten, tree_unflatten

from .._core import graph
from .._core.graph import Graph, TensorType
from .._core.primitive import Primitive
from .._core.target import LOOP
from . import loop_indexing, loop_matrices, loop_products, loop_views
from .loop_operators import C_TYPES, INSTRUCTIONS, OPERATORS, REDUCTIONS, Operator, kind_of
from .loop_values import CallsHost, Unsupported, Value, broadcast, flat_index, in_buffer, is_in_order, loops_over, nest

# Of all values of a step together: beyond, kernels in parallel win. An operation on a few costs less than the call of one.
_MOST_ELEMENTS, _FEW_ELEMENTS = 1 << 18, 64
_ROOM_OF_CALL = 16  # arrays as large as a matrix that is factorized, in a step that may hold no more
_WORK_OF_CALL = 16  # multiplications within it that take as long as an element
_LINE = 64  # bytes, of a cache
_MOST_ON_STACK = 1024  # elements of an array; a thread's stack may be small
_MOST_OF_CONSTANT = 64  # elements that are written out
_MOST_SQUARED = 64  # powers of complex numbers that are products
_MOST_OPERATIONS = 2000  # of one body: the compiler takes three seconds

IS_LONG, CALLS_HOST = 1, 2  # why a function gives up


# Keyword arguments that are looked at, or say nothing that a result's type does not say.
_UNDERSTOOD = {
    "alpha", "rounding_mode", "min", "max", "keepdim", "dtype", "layout", "device", "pin_memory", "memory_format",
    "non_blocking",
}  # fmt: skip
_BY_NAME = ("add", "sub", "rsub", "view", "copy_", "split_with_sizes", "split", "unbind")  # which `_call` looks at
_SEVERAL_RESULTS = ("split_with_sizes", "split", "unbind")


def _no_element(index: Sequence[str]) -> str:
    raise Unsupported("an operator's several results used as one")


def _literal(value: Any, dtype: torch.dtype) -> str:
    """Return a number as an expression of `dtype`."""
    if dtype is torch.bool:
        return "true" if value else "false"
    if dtype.is_complex:
        number = complex(value)
        parts = (_literal(part, dtype.to_real()) for part in (number.real, number.imag))
        return f"{C_TYPES[dtype]}({', '.join(parts)})"
    if isinstance(value, complex):
        raise Unsupported("a complex number as a real one")
    if dtype.is_floating_point:
        value = float(value)
        text = "NaN" if math.isnan(value) else ("-Inf" if value < 0 else "Inf") if math.isinf(value) else repr(value)
        return f"({C_TYPES[dtype]}){text}"
    bounds = torch.iinfo(dtype)
    if not bounds.min <= value <= bounds.max or value != int(value):
        raise Unsupported(f"{value} as {dtype}")
    # The least 64-bit integer is no literal: its digits are those of a number that is out of range.
    return f"({C_TYPES[dtype]})({int(value) + 1}-1)" if value == bounds.min < 0 else f"({C_TYPES[dtype]}){int(value)}"


def _spelled_out(body: Graph) -> Graph:
    """Return the graph with its primitives spelled out in operators and instructions."""
    if any(isinstance(n.target, Primitive) and not n.target.is_instruction for n in body.module.graph.nodes):
        try:
            return graph.trace(body, body.in_types, lowering=LOOP).graph
        except NotImplementedError as error:
            raise CallsHost(str(error)) from None
    return body


def carry_over(targets: Sequence[str], results: Sequence[Value]) -> list[str]:
    """Return statements that store results, all of which were computed from the targets' old values.

    What is an update of its target is made one.
    """
    lines = []
    for target, value in zip(targets, results, strict=True):
        if value.place is not None:
            lines += value.updates
            continue
        index = [f"i{d}" for d in range(len(value.shape))]
        element = f"{target}[{flat_index(index, value.shape)}]"
        lines.append(nest(index, value.shape, f"{element} = {value.load(index)};"))
    return lines


class Emitter:
    """The C++ statements of one step of a loop; `outer` is the step that a loop or branch within it belongs to.

    What is the same in all steps of a loop, whose variables are `changing`, is stored before it, by the statements `fixed`.
    With `most_work` they give up (`over`) when the loops within whose steps nobody can count beforehand go beyond it, and
    where a branch is taken that calls Python.
    """

    def __init__(
        self,
        body: Graph,
        outer: "Emitter | None" = None,
        most_work: int | None = None,
        changing: Collection[str] | None = None,
    ) -> None:
        if graph.has_effects(body):
            raise Unsupported("an effect, which nothing would call whose results are unused")
        self.body = _spelled_out(body)
        self.lines: list[str] = []
        self.values: dict[fx.Node, Value] = {}
        self.several: dict[fx.Node, Sequence[Value]] = {}  # the results of loops and branches
        self.carries: set[fx.Node] = set()
        self.work = 16  # of a step: the elements that it stores, and what its loops do whose lengths are known
        self._most_work = most_work if outer is None else outer._most_work
        self._made: Counter[str] = Counter() if outer is None else outer._made
        self._names = itertools.count() if outer is None else outer._names
        self.fixed: list[str] = []
        self._fixed_names: set[str] = set()
        self._changing, self._first_name = changing, next(self._names)

    @property
    def loops(self) -> int:
        """How many loops there are within."""
        return self._made["loops"]

    @property
    def memory(self) -> int:
        """How many bytes the arrays take that are not on the stack."""
        return self._made["bytes"]

    @property
    def gives_up(self) -> bool:
        """Whether there are loops whose steps are counted as they are made, or branches that call Python."""
        return self._made["exits"] > 0

    def emit(self, inputs: Sequence[Value], carries: range = range(0), apart: bool = False) -> list[Value]:
        """Append the statements that compute the body's results from `inputs`; return the results.

        The first results are what the inputs `carries` become. Those that are updates of them are not stored. Nor is
        anything stored where the results lie `apart` from all that is read: it is computed where it is to be.
        """
        found = self._computed_from(inputs, carries)
        if apart:
            return [self._held(v) if found.count(v) > 1 else v for v in found]
        kept = [v.is_update_of(c) for v, c in zip(found, inputs[carries.start : carries.stop], strict=False)]
        return self._settled(found, [*kept, *[False] * (len(found) - len(kept))])

    def _computed_from(self, inputs: Sequence[Value], carries: range = range(0)) -> list[Value]:
        nodes = self.body.module.graph
        if len(nodes.nodes) > _MOST_OPERATIONS:
            raise Unsupported("the body is long")
        self._made["operations"] += len(nodes.nodes)
        if self._most_work is not None and self._made["operations"] > _MOST_OPERATIONS:
            raise Unsupported("the graph and its loops are long")
        assert [(v.shape, v.dtype) for v in inputs] == [(t.shape, t.dtype) for t in self.body.in_types]
        placeholders = nodes.find_nodes(op="placeholder")
        self.values.update(zip(placeholders, inputs, strict=True))
        self.carries = set(placeholders[carries.start : carries.stop])
        for node in nodes.nodes:
            if node.op == "call_function":
                self.values[node] = self._call(node)
            elif node.op == "get_attr":
                held = self._module(node)
                if isinstance(held, Tensor):  # else what a loop of torch's takes
                    self.values[node] = self._constant(held)
            elif node.op not in ("placeholder", "output"):
                raise Unsupported(node.op)
        (found,) = nodes.output_node().args
        return [self.values[n] for n in ([found] if isinstance(found, fx.Node) else found)]  # pyright: ignore

    def _settled(self, found: Sequence[Value], kept: Sequence[bool]) -> list[Value]:
        """Store results, but for those that are kept as updates: from there on nothing is read of what they update."""
        results = [v if k else self.stored(v) for v, k in zip(found, kept, strict=True)]
        assert [(v.shape, v.dtype) for v in results] == [(t.shape, t.dtype) for t in self.body.out_types]
        return results

    def _call(self, node: fx.Node) -> Value:
        meta = node.meta.get("val")
        name = getattr(node.target, "__name__", "").split(".")[0]
        if node.target is operator.getitem:
            value = self._part(*node.args)
            assert isinstance(meta, Tensor)
        elif isinstance(node.target, Primitive) and (nested := getattr(self, f"_nested_{name}", None)) is not None:
            self.several[node] = nested(node, node.target, [self._held(v) for v in self._arguments(node)])
            return Value((), torch.bool, _no_element)
        elif isinstance(node.target, HigherOrderOperator) and name == "while_loop":
            self.several[node] = self._while_of_torch(*node.args)  # pyright: ignore
            return Value((), torch.bool, _no_element)
        elif name in loop_matrices.CALLS and _namespace(node) == "aten":
            self.several[node] = self._called(name, node)
            if not isinstance(meta, Tensor):
                return Value((), torch.bool, _no_element)
            value = self.several[node][0]
        elif self._is_compound(name, node):
            self.several[node] = self._spelled(node)
            if not isinstance(meta, Tensor):
                return Value((), torch.bool, _no_element)
            value = self.several[node][0]
        elif name in _SEVERAL_RESULTS or (isinstance(node.target, Primitive) and name in INSTRUCTIONS):
            return Value((), torch.bool, _no_element)  # nothing reads it but getitem, which looks at the node
        elif not isinstance(meta, Tensor) or meta.dtype not in C_TYPES or _namespace(node) != "aten":
            raise Unsupported(str(node.target))
        elif not set(node.kwargs) <= _UNDERSTOOD | ({"dim"} if name == "linalg_cross" else set()):
            raise Unsupported(f"{name} with {', '.join(node.kwargs)}")
        elif name == "copy_" and _is_new(node.args[0]):
            shape, new = tuple(meta.shape), self.values[node.args[1]]  # pyright: ignore
            value = Value(shape, meta.dtype, lambda i: _at(new, i, shape, meta.dtype))
        elif node.target is torch.ops.aten.view.dtype:
            value = self._same_bits(tuple(meta.shape), self._arguments(node)[0], meta.dtype)
        elif (view := loop_views.VIEWS.get(name)) is not None:
            operand, *rest = self._arguments(node)
            if any(isinstance(a, Value) for a in rest):
                raise Unsupported(f"{name} by a value")
            value = view(tuple(meta.shape), operand, *rest)
        else:
            value = self._computed(name, node, tuple(meta.shape), meta.dtype)
            if (len(node.users) > 1 or math.prod(value.shape) == 1) and value.place is None:
                value = self.stored(value)
        assert value.shape == tuple(meta.shape) and value.dtype is meta.dtype, node.format_node()
        return value

    def _is_compound(self, name: str, node: fx.Node) -> bool:
        """Tell whether an operator of torch's is one that only its decomposition says something about."""
        if _namespace(node) != "aten" or name in OPERATORS or name in REDUCTIONS or name in loop_views.VIEWS:
            return False
        if name in _BY_NAME or hasattr(self, f"_compute_{name}"):
            return False
        from torch._decomp import decomposition_table

        return node.target in decomposition_table and not node.target._schema.is_mutable  # pyright: ignore

    def _spelled(self, node: fx.Node) -> list[Value]:
        """Emit an operator as torch's decomposition of it has it; return its results."""
        from torch._decomp import decomposition_table

        arguments, spec = tree_flatten((node.args, node.kwargs))
        places = [i for i, a in enumerate(arguments) if isinstance(a, fx.Node)]

        def function(*tensors: Tensor) -> list[Tensor]:
            given = dict(zip(places, tensors, strict=True))
            args, kwargs = tree_unflatten([given.get(i, a) for i, a in enumerate(arguments)], spec)
            found = decomposition_table[node.target](*args, **kwargs)  # pyright: ignore
            return [found] if isinstance(found, Tensor) else list(found)

        types = [TensorType.of(arguments[i].meta["val"]) for i in places]
        body = graph.trace(function, types, lowering=LOOP).graph
        if any(n.target is node.target for n in body.module.graph.nodes):
            raise Unsupported(str(node.target))
        inner, results = self._inner(body, [self._held(self.values[arguments[i]]) for i in places])
        self.lines += inner.lines
        return results

    def _same_bits(self, shape: tuple[int, ...], x: Value, dtype: torch.dtype) -> Value:
        kind, parts = C_TYPES[dtype], x.dtype.itemsize // dtype.itemsize
        if parts == 1:
            return Value(shape, dtype, lambda i: f"same_bits<{kind}, {C_TYPES[x.dtype]}>({x.load(i)})")
        if parts == 0 or {kind_of(dtype), kind_of(x.dtype)} - set("iuw"):
            raise Unsupported("bits of another width")
        width, whole = 8 * dtype.itemsize, self._held(x)  # the lowest bits come first
        return Value(
            shape, dtype,
            lambda i: f"({kind})({whole.load([*i[:-1], f'({i[-1]})/{parts}'])} >> {width}*(({i[-1]})%{parts}))",
        )  # fmt: skip

    def _part(self, source: Any, index: Any) -> Value:
        """Return one result of an operator that has several."""
        if source in self.several:
            found, shape = self.several[source][index : index + 1], tuple(source.meta["val"][index].shape)
            if not found:
                raise Unsupported(f"result {index} of {source.target}")
            return found[0] if found[0].shape == shape else loop_views.slice_of(shape, found[0], -1, 0, shape[-1])
        name, given = source.target.__name__.split(".")[0], self._arguments(source)
        shape, operand = tuple(source.meta["val"][index].shape), given[0]
        if name in ("split_with_sizes", "split", "unbind"):
            dim = (given[-1] if len(given) > (1 if name == "unbind" else 2) else 0) % len(operand.shape)
            if name == "unbind":
                return loop_views.select(shape, operand, dim, index)
            start = sum(given[1][:index]) if name == "split_with_sizes" else given[1] * index
            return loop_views.slice_of(shape, operand, dim, start, start + shape[dim])
        if name in INSTRUCTIONS:
            dtype = source.meta["val"][0].dtype
            return self.stored(self._elementwise(INSTRUCTIONS[name], name, given, shape, dtype))
        raise Unsupported(f"result {index} of {name}")

    def _called(self, name: str, node: fx.Node) -> list[Value]:
        """Emit a call of a C++ function on small arrays, for each of a batch; return its results."""
        given = self._arguments(node)
        if name == "_linalg_svd" and all(u.target is operator.getitem and u.args[1] == 1 for u in node.users):
            given = [given[0], False, False]  # no vectors, which torch's svdvals asks for all the same
        call = loop_matrices.CALLS[name](*given, **node.kwargs)
        values = [value for value, _ in call.operands]
        size = math.prod(values[0].shape)
        self._made["room"] += _ROOM_OF_CALL * size  # what is done with the results costs little beside the call
        self.work += size * values[0].shape[-1] // _WORK_OF_CALL
        types = [*((v.shape, v.dtype) for v in values), *((shape, dtype) for shape, dtype, _ in call.made)]
        names = [self._declared(shape, dtype) for shape, dtype in types]
        self.lines += carry_over(names[: len(values)], [replace(v, place=None) for v in values])
        place = f"n{next(self._names)}"
        batch, arguments = loop_matrices.arguments(call, names, [shape for shape, _ in types], place)
        self.lines.append(f"for (int {place} = 0; {place} < {batch}; ++{place}) {call.function}({arguments});")
        return [in_buffer(names[r], *types[r]) for r in call.results]

    def _arguments(self, node: fx.Node) -> list[Any]:
        return [self.values[a] if isinstance(a, fx.Node) else a for a in node.args]

    def _computed(self, name: str, node: fx.Node, shape: tuple[int, ...], dtype: torch.dtype) -> Value:
        args = self._arguments(node)
        if rounding := node.kwargs.get("rounding_mode"):
            name = f"{name} {rounding}"
        if name in ("add", "sub", "rsub"):
            if (node.kwargs.get("alpha") or (args[2:] or [1])[0]) != 1:
                raise Unsupported("alpha")
            name, args = ("sub", args[1::-1]) if name == "rsub" else (name, args[:2])
        if name in ("__rshift__", "bitwise_right_shift") and isinstance(args[1], int):
            return self._shifted_right(args[0], args[1], shape, dtype)
        if name == "pow" and dtype.is_complex and (power := _integer(args[1])) is not None:
            return Value(shape, dtype, lambda i: f"power<{power}>({_at(args[0], i, shape, dtype)})")
        if name in OPERATORS:
            return self._elementwise(OPERATORS[name], name, args, shape, dtype)
        if name in REDUCTIONS:
            return self._reduction(name, node.kwargs, args, shape, dtype)
        compute = getattr(self, f"_compute_{name}", None)
        if compute is None:
            raise Unsupported(name)
        return compute(shape, dtype, *args, **{k: v for k, v in node.kwargs.items() if k in ("min", "max", "dim")})

    def _elementwise(
        self, operation: Operator, name: str, operands: Sequence[Any], shape: tuple[int, ...], dtype: torch.dtype
    ) -> Value:
        inner = torch.bool if operation.of_booleans else _common(operands) if operation.of_operands else dtype
        form, count = operation.form(inner), len(operands)
        if form is None:
            raise Unsupported(f"{name} of {inner}")
        if f"{{{count}}}" in form or (count and f"{{{count - 1}}}" not in form and "{0}" in form):
            raise Unsupported(f"{name} of {count} operands")

        def load(index: Sequence[str]) -> str:
            return f"({C_TYPES[dtype]})({form.format(*(_at(o, index, shape, inner) for o in operands))})"

        return Value(shape, dtype, load)

    def _shifted_right(self, x: Value, distance: int, shape: tuple[int, ...], dtype: torch.dtype) -> Value:
        """Return x shifted by a number that stands in the graph, and is hidden from the compiler (loop_prelude.py)."""
        width = 8 * dtype.itemsize
        if kind_of(dtype) not in "iu" or x.dtype is not dtype:
            raise Unsupported(f"a shift of {x.dtype}")
        held = distance if 0 <= distance < width else width - 1 if kind_of(dtype) == "i" else None
        if held is None:
            return self._filled(shape, dtype, 0)
        return Value(shape, dtype, lambda i: f"({C_TYPES[dtype]})({_at(x, i, shape, dtype)} >> shift_{held})")

    def _filled(self, shape: tuple[int, ...], dtype: torch.dtype, number: Any) -> Value:
        if isinstance(number, Value):
            raise Unsupported("an array filled with a value")
        text = _literal(number, dtype)
        return Value(shape, dtype, lambda index: text)

    def _constant(self, tensor: Tensor) -> Value:
        shape, dtype = tuple(tensor.shape), tensor.dtype
        if dtype not in C_TYPES or tensor.numel() > _MOST_OF_CONSTANT:
            raise Unsupported(f"a constant {dtype}{list(shape)}")
        with graph.outside_traces():
            numbers = tensor.flatten().tolist()
        if len(numbers) == 1:
            return self._filled(shape, dtype, numbers[0])
        name = f"v{next(self._names)}"
        self.lines.append(
            f"const {C_TYPES[dtype]} {name}[] = {{{', '.join(_literal(n, dtype) for n in numbers) or 0}}};"
        )
        return in_buffer(name, shape, dtype)

    def _compute_full(self, shape: tuple[int, ...], dtype: torch.dtype, size: Any, number: Any) -> Value:
        return self._filled(shape, dtype, number)

    _compute_full_like = _compute_full

    def _compute_scalar_tensor(self, shape: tuple[int, ...], dtype: torch.dtype, number: Any) -> Value:
        return self._filled(shape, dtype, number)

    def _compute_zeros(self, shape: tuple[int, ...], dtype: torch.dtype, *_: Any) -> Value:
        return self._filled(shape, dtype, 0)

    _compute_new_zeros = _compute_zeros

    def _compute_ones(self, shape: tuple[int, ...], dtype: torch.dtype, *_: Any) -> Value:
        return self._filled(shape, dtype, 1)

    def _compute_new_full(self, shape: tuple[int, ...], dtype: torch.dtype, x: Value, size: Any, number: Any) -> Value:
        return self._filled(shape, dtype, number)

    def _compute_eye(self, shape: tuple[int, ...], dtype: torch.dtype, *_: Any) -> Value:
        return Value(shape, dtype, lambda i: f"({C_TYPES[dtype]})(({i[0]}) == ({i[1]}))")

    def _compute_arange(self, shape: tuple[int, ...], dtype: torch.dtype, *bounds: Any) -> Value:
        start, step = bounds[0] if len(bounds) > 1 else 0, bounds[2] if len(bounds) > 2 else 1
        wide = torch.float64 if dtype.is_floating_point else torch.int64
        first, distance = _literal(start, wide), _literal(step, wide)
        return Value(shape, dtype, lambda i: f"({C_TYPES[dtype]})({first}+({i[0]})*{distance})")

    def _compute_clamp(
        self, shape: tuple[int, ...], dtype: torch.dtype, x: Value, min: Any = None, max: Any = None
    ) -> Value:
        for bound, name in ((min, "maximum"), (max, "minimum")):
            if bound is not None:
                x = self._elementwise(OPERATORS[name], name, [x, bound], shape, dtype)
        return x

    def _compute_hardtanh(
        self, shape: tuple[int, ...], dtype: torch.dtype, x: Value, least: float = -1, most: float = 1
    ) -> Value:
        return self._compute_clamp(shape, dtype, x, least, most)

    def _compute_where(self, shape: tuple[int, ...], dtype: torch.dtype, test: Value, yes: Any, no: Any) -> Value:
        def choose(index: Sequence[str]) -> str:
            condition, *options = (_at(v, index, shape, t) for v, t in ((test, torch.bool), (yes, dtype), (no, dtype)))
            if dtype.is_complex:
                return f"chosen({condition}, {', '.join(options)})"
            return f"(({condition}) ? ({options[0]}) : ({options[1]}))"

        return Value(shape, dtype, choose)

    def _compute_masked_fill(
        self, shape: tuple[int, ...], dtype: torch.dtype, x: Value, mask: Value, number: Any
    ) -> Value:
        return self._compute_where(shape, dtype, mask, number, x)

    def _compute_tril(self, shape: tuple[int, ...], dtype: torch.dtype, x: Value, diagonal: int = 0) -> Value:
        return self._inserted(dtype, None, x, lambda i: (f"({i[-1]})-({i[-2]}) <= {diagonal}", [*i]), shape)

    def _compute_diag_embed(
        self, shape: tuple[int, ...], dtype: torch.dtype, x: Value, offset: int = 0, dim1: int = -2, dim2: int = -1
    ) -> Value:
        row, column = dim1 % len(shape), dim2 % len(shape)

        def place(index: Sequence[str]) -> tuple[str, list[str]]:
            others = [i for d, i in enumerate(index) if d not in (row, column)]
            first = index[row] if offset >= 0 else index[column]
            return f"({index[column]})-({index[row]}) == {offset}", [*others, first]

        return self._inserted(dtype, None, x, place, shape)

    def _compute_diagonal_backward(
        self, shape: tuple[int, ...], dtype: torch.dtype, part: Value, _: Sequence[int], *where: int
    ) -> Value:
        return self._compute_diag_embed(shape, dtype, part, *where)

    def _compute_triu(self, shape: tuple[int, ...], dtype: torch.dtype, x: Value, diagonal: int = 0) -> Value:
        return self._inserted(dtype, None, x, lambda i: (f"({i[-1]})-({i[-2]}) >= {diagonal}", [*i]), shape)

    # -- what has to be stored ---------------------------------------------------------------------------------

    def stored(self, value: Value) -> Value:
        """Emit a loop that computes the elements of `value`, and return it read from where they are."""
        index = [f"i{d}" for d in range(len(value.shape))]
        is_number = math.prod(value.shape) == 1
        computed = value.load(["0"] * len(value.shape) if is_number else index)
        lines = self.lines if self._changes(computed) else self.fixed
        if is_number:
            name = f"v{next(self._names)}"
            lines.append(f"const {C_TYPES[value.dtype]} {name} = {computed};")
        else:
            name = self._declared(value.shape, value.dtype, lines)
            lines.append(nest(index, value.shape, f"{name}[{flat_index(index, value.shape)}] = {computed};"))
        if lines is self.fixed:
            self._fixed_names.add(name)
        if is_number:
            return Value(value.shape, value.dtype, lambda index: name, is_held=True)
        return in_buffer(name, value.shape, value.dtype)

    def _changes(self, text: str) -> bool:
        """Tell whether an expression may be another in each step: whether it has a variable of the loop, or made in a step."""
        if self._changing is None:
            return True
        names = set(re.findall(r"\b[a-z]+\d*\b", text)) - self._fixed_names
        return any(
            n in self._changing or (n[0] in "vn" and n[1:].isdigit() and int(n[1:]) > self._first_name) for n in names
        )

    def _compute_constant_pad_nd(
        self, shape: tuple[int, ...], dtype: torch.dtype, x: Value, widths: Sequence[int], number: Any = 0
    ) -> Value:
        first = [0] * len(shape)
        first[len(shape) - len(widths) // 2 :] = widths[-2::-2]  # the last dimension's come first
        around = None if number == 0 else self._filled(shape, dtype, number)

        def place(index: Sequence[str]) -> tuple[str, list[str]]:
            inner = [f"(({i})-({f}))" for i, f in zip(index, first, strict=True)]
            return " && ".join(f"{i} >= 0 && {i} < {n}" for i, n in zip(inner, x.shape, strict=True)), inner

        return self._inserted(dtype, around, x, place, shape)

    def _compute_linalg_cross(
        self, shape: tuple[int, ...], dtype: torch.dtype, a: Value, b: Value, dim: int = -1
    ) -> Value:
        a, b, axis = self._held(a), self._held(b), dim % len(shape)

        def load(index: Sequence[str]) -> str:
            x, y = ([f"({i}+{d})%3" if n == axis else i for n, i in enumerate(index)] for d in (1, 2))
            products = (f"{_at(a, p, shape, dtype)} * {_at(b, q, shape, dtype)}" for p, q in ((x, y), (y, x)))
            return f"({' - '.join(products)})"

        return Value(shape, dtype, load)

    def _held(self, value: Value) -> Value:
        return value if value.is_held else self.stored(value)

    def _compute__softmax(self, shape: tuple[int, ...], dtype: torch.dtype, x: Value, dim: int, *_: Any) -> Value:
        powers, total = self._softmax_parts(shape, dtype, x, dim)[1:]
        return self._combined("div", powers, total)

    def _compute__log_softmax(self, shape: tuple[int, ...], dtype: torch.dtype, x: Value, dim: int, *_: Any) -> Value:
        shifted, _powers, total = self._softmax_parts(shape, dtype, x, dim)
        return self._combined("sub", shifted, self._combined("log", total))

    def _softmax_parts(self, shape: tuple[int, ...], dtype: torch.dtype, x: Value, dim: int) -> tuple[Value, ...]:
        """Return x below its greatest along a dimension, the exponentials of that, and their sum."""
        if x.dtype is not dtype or not shape:
            raise Unsupported(f"a softmax of {x.dtype} as {dtype}")
        row = tuple(1 if d == dim % len(shape) else n for d, n in enumerate(shape))
        shifted = self.stored(self._combined("sub", x, self._reduction("amax", {}, [x, dim, True], row, dtype)))
        powers = self.stored(self._combined("exp", shifted))
        return shifted, powers, self._reduction("sum", {}, [powers, dim, True], row, dtype)

    def _combined(self, name: str, *operands: Value) -> Value:
        return self._elementwise(OPERATORS[name], name, operands, operands[0].shape, operands[0].dtype)

    # -- loops and branches within a step -----------------------------------------------------------------------

    def _inner(
        self,
        body: Graph,
        inputs: Sequence[Value],
        carries: range = range(0),
        changing: Collection[str] | None = None,
    ) -> tuple["Emitter", list[Value]]:
        inner = Emitter(body, self, changing=changing)
        return inner, inner.emit(inputs, carries)

    def _lent(self, node: fx.Node) -> list[bool]:
        """Tell of a loop's or branch's operands which are carries that nothing else reads: it may change them where they lie."""
        mine = [a in self.carries and set(a.users) == {node} and node.args.count(a) == 1 for a in node.args]
        return [m and self.values[a].memory is not None for m, a in zip(mine, node.args, strict=True)]  # pyright: ignore

    def _variables(self, values: Sequence[Value], lent: Sequence[bool]) -> tuple[list[str], list[Value]]:
        """Emit buffers that start as these values; return their names, and what is in them. What is lent has one already."""
        kept = [v.memory if own else None for v, own in zip(values, lent, strict=True)]
        names = [k or self._declared(v.shape, v.dtype) for k, v in zip(kept, values, strict=True)]
        new = [(n, replace(v, place=None)) for n, v, own in zip(names, values, lent, strict=True) if not own]
        self.lines += carry_over([n for n, _ in new], [v for _, v in new])
        return names, [in_buffer(n, v.shape, v.dtype, is_carry=True) for n, v in zip(names, values, strict=True)]

    def _nested_while(self, node: fx.Node, loop: Any, inputs: Sequence[Value]) -> list[Value]:
        self._made["loops"] += 1
        consts = loop.cond_consts + loop.body_consts
        lent = self._lent(node)[consts:]
        names, state = self._variables(inputs[consts:], lent)
        given = [*inputs[loop.cond_consts : consts], *state]
        self._repeat(names, loop.cond, [*inputs[: loop.cond_consts], *state], loop.body, given, loop.body_consts)
        return _after_loop(state, lent)

    def _while_of_torch(
        self, cond: fx.Node, body: fx.Node, init: Sequence[fx.Node], constants: Sequence[fx.Node]
    ) -> list[Value]:
        """Emit the loop of a primitive that is spelled out (lowering.while_loop): rounds that soon have an end."""
        types = [TensorType.of(n.meta["val"]) for n in (*init, *constants)]
        lent = [False] * len(init)
        names, state = self._variables([self.values[n] for n in init], lent)
        given = [*state, *(self._held(self.values[n]) for n in constants)]
        test = Graph(self._module(cond), tuple(types), (TensorType((), torch.bool, types[0].device),))
        step = Graph(self._module(body), tuple(types), tuple(types[: len(init)]))
        self._repeat(names, test, given, step, given, 0)
        return _after_loop(state, lent)

    def _module(self, node: fx.Node) -> Any:
        return getattr(self.body.module, str(node.target))

    def _repeat(
        self,
        names: Sequence[str],
        cond: Graph,
        tested: Sequence[Value],
        body: Graph,
        given: Sequence[Value],
        first: int,
    ) -> None:
        """Emit a loop over variables, which are among what `cond` and `body` are given: there from `first` on."""
        test, (going,) = self._inner(cond, tested)
        step, results = self._inner(body, given, range(first, first + len(names)), names)
        leave = ["{", *test.lines, f"if (!({going.load([])})) break;", "}"]
        if self._most_work is not None:
            leave.append(f"if ((work += {test.work + step.work}) > {self._most_work}) {self._given_up(IS_LONG)}")
        self.lines += [*step.fixed, "for (;;) {", *leave, *step.lines, *carry_over(names, results), "}"]

    def _given_up(self, reason: int) -> str:
        self._made["exits"] += 1
        return f"{{ *over = {reason}; return; }}"

    def _nested_scan(self, node: fx.Node, loop: Any, inputs: Sequence[Value]) -> list[Value]:
        self._made["loops"] += 1
        head, length = loop.consts + loop.carries, loop.length
        lent = self._lent(node)[loop.consts : head]
        names, state = self._variables(inputs[loop.consts : head], lent)
        step, place = (f"n{next(self._names)}" for _ in range(2))
        slices = [Value(x.shape[1:], x.dtype, lambda i, x=x: x.load([place, *i]), is_held=True) for x in inputs[head:]]
        given = [*inputs[: loop.consts], *state, *slices]
        body, results = self._inner(loop.body, given, range(loop.consts, head), [*names, place])
        self.work += length * body.work
        y_types = loop.body.out_types[loop.carries :]
        ys = [self._declared((length, *t.shape), t.dtype) for t in y_types]
        rows = [f"({y}+{place}*{math.prod(t.shape)})" for y, t in zip(ys, y_types, strict=True)]
        self.lines += [
            *body.fixed,
            f"for (int {step} = 0; {step} < {length}; ++{step}) {{",
            f"const int {place} = {f'{length - 1} - {step}' if loop.reverse else step};",
            *body.lines,
            *carry_over([*rows, *names], [*results[loop.carries :], *results[: loop.carries]]),
            "}",
        ]
        stacked = [in_buffer(y, (length, *t.shape), t.dtype) for y, t in zip(ys, y_types, strict=True)]
        return [*_after_loop(state, lent), *stacked]

    def _nested_cond(self, node: fx.Node, branch: Any, inputs: Sequence[Value]) -> list[Value]:
        index, *operands = inputs
        begun = [self._begun(body, operands) for body in branch.branches]
        found = [values for _, values in filter(None, begun)]
        if not found:
            raise CallsHost("all branches call Python")
        lent = [v for v, own in zip(operands, self._lent(node)[1:], strict=True) if own]
        updated: list[Value | None] = []
        for results in zip(*found, strict=True):
            updated.append(next((v for v in lent if all(r.is_update_of(v) for r in results)), None))
            lent = [v for v in lent if v is not updated[-1]]  # another result may be what it was before
        types = branch.branches[0].out_types
        names = [(v and v.memory) or self._declared(t.shape, t.dtype) for v, t in zip(updated, types, strict=True)]
        kept = [v is not None for v in updated]
        for number, written in enumerate(begun):
            test = f"if ({index.load([])} == {number}) " if number + 1 < len(begun) else ""
            self.lines += [f"{'else ' if number else ''}{test}{{", *self._finished(written, names, kept), "}"]
        made = [in_buffer(n, tuple(t.shape), t.dtype) for n, t in zip(names, types, strict=True)]
        return [v or m for v, m in zip(updated, made, strict=True)]

    def _begun(self, body: Graph, operands: Sequence[Value]) -> "tuple[Emitter, list[Value]] | None":
        """Return a branch and its results, to be settled; None where it calls Python, and these steps can give up."""
        try:
            inner = Emitter(body, self)
            return inner, inner._computed_from(operands)
        except CallsHost:
            if self._most_work is None:
                raise
            return None

    def _finished(
        self, written: "tuple[Emitter, list[Value]] | None", names: Sequence[str], kept: Sequence[bool]
    ) -> list[str]:
        if written is None:
            return [self._given_up(CALLS_HOST)]
        emitter, values = written
        results = emitter._settled(values, kept)
        self.work += emitter.work
        return [*emitter.lines, *carry_over(names, results)]

    def _nested_threefry2x32(self, node: fx.Node, cipher: Any, words: Sequence[Value]) -> list[Value]:
        shape = tuple(node.meta["val"][0].shape)

        def load(index: Sequence[str]) -> str:
            return f"threefry({', '.join(_at(w, index, shape, torch.int32) for w in words)})"

        both = self.stored(Value(shape, torch.int64, load))
        return [
            Value(shape, torch.int32, lambda i: f"(int32_t)({both.load(i)} >> 32)"),
            Value(shape, torch.int32, lambda i: f"(int32_t)({both.load(i)})"),
        ]

    def _reduction(
        self, name: str, kwargs: Mapping[str, Any], args: list[Any], shape: tuple[int, ...], dtype: torch.dtype
    ) -> Value:
        x: Value = args[0]
        rank, reduction, kind = len(x.shape), REDUCTIONS[name], C_TYPES[dtype]
        start, step = reduction.start(dtype), OPERATORS[reduction.step].form(dtype)
        if start is None or step is None:
            raise Unsupported(f"{name} of {dtype}")
        dims = args[1] if len(args) > 1 and args[1] is not None else list(range(rank))
        axes = {d % rank for d in ([dims] if isinstance(dims, int) else dims) or range(rank)} if rank else set()
        scale = "{0}"
        if name == "mean":
            # A quotient by a complex number would keep an infinity that JAX's product loses.
            count = math.prod(x.shape[a] for a in axes)
            scale = f"{{0}} * ({kind})(1. / {count})" if dtype.is_complex else f"{{0}} / ({kind}){count}"
        return self._folded(x, axes, shape, dtype, start.replace("{T}", kind), step, scale)

    def _folded(
        self, x: Value, axes: Set[int], shape: tuple[int, ...], dtype: torch.dtype, start: str, step: str, scale: str
    ) -> Value:
        """Emit loops in the order of memory that fold x along axes: the last ones in one go, others element by element."""
        x = self._in_order(
            Value(x.shape, dtype, lambda i, x=x: _at(x, i, x.shape, dtype)) if x.dtype is not dtype else x
        )
        kind, rank, target = C_TYPES[dtype], len(x.shape), self._declared(shape, dtype)
        index = [f"i{d}" for d in range(rank)]
        kept = [d for d in range(rank) if d not in axes]
        lead = max(kept, default=-1) + 1  # behind it all are folded
        row = math.prod(x.shape[lead:])
        free, sizes = [index[d] for d in kept], [x.shape[d] for d in kept]
        element = f"{target}[{flat_index(free, sizes)}]"
        value, loops = x.load([*index[:lead], *["0"] * (rank - lead)]), loops_over(index[:lead], x.shape[:lead])
        if row > 1:
            combined = step.format("a", "b")
            value = f"folded<{row}>(&{value}, []({kind} a, {kind} b) {{ return ({kind})({combined}); }})"
        if row and math.prod(x.shape[:lead]) == math.prod(sizes):
            self.lines.append(f"{loops}{element} = {scale.format(value)};")
        else:
            self.lines.append(f"{loops_over(free, sizes)}{element} = {start};")
            self.lines += [f"{loops}{element} = {step.format(element, value)};"] if row else []
            self.lines.append(f"{loops_over(free, sizes)}{element} = {scale.format(element)};")
        return in_buffer(target, shape, dtype)

    def _along(
        self, x: Value, dim: int, shape: tuple[int, ...], dtype: torch.dtype, start: str, step: str, end: str = ""
    ) -> Value:
        """Emit a loop over each row of x along a dimension: `step` sees an element `now` at `r`, and writes `{result}`.

        A result without that dimension is written at the `end`.
        """
        source, name = self.stored(x), self._declared(shape, dtype)
        index = [f"i{d}" for d in range(len(x.shape))]
        others, sizes = [*index[:dim], *index[dim + 1 :]], [*x.shape[:dim], *x.shape[dim + 1 :]]
        element = [*others[:dim], "r", *others[dim:]]
        result = f"{name}[{flat_index(element if len(shape) == len(x.shape) else others, shape)}]"
        self.lines.append(
            f"{loops_over(others, sizes)}{{ {start} for (int r = 0; r < {x.shape[dim]}; ++r) {{ "
            f"const {C_TYPES[x.dtype]} now = {source.load(element)}; {step.replace('{result}', result)} }} "
            f"{end.replace('{result}', result)} }}"
        )
        return Value(shape, dtype, lambda i: f"{name}[{flat_index(i, shape)}]")

    def _place_of_most(
        self, shape: tuple[int, ...], dtype: torch.dtype, x: Value, dim: int | None, comparison: str
    ) -> Value:
        if dim is None or not x.shape:
            x, dim = loop_views.reshape((math.prod(x.shape),), x), 0
        dim %= len(x.shape)
        start = f"{C_TYPES[x.dtype]} most = 0; int64_t place = 0;"
        step = f"if (r == 0 || now {comparison} most || (is_nan(now) && !is_nan(most))) {{ most = now; place = r; }}"
        row = (*x.shape[:dim], *x.shape[dim + 1 :])
        return loop_views.reshape(shape, self._along(x, dim, row, dtype, start, step, "{result} = place;"))

    def _compute_argmax(
        self, shape: tuple[int, ...], dtype: torch.dtype, x: Value, dim: int | None = None, keepdim: bool = False
    ) -> Value:
        return self._place_of_most(shape, dtype, x, dim, ">")

    def _compute_argmin(
        self, shape: tuple[int, ...], dtype: torch.dtype, x: Value, dim: int | None = None, keepdim: bool = False
    ) -> Value:
        return self._place_of_most(shape, dtype, x, dim, "<")

    def _running(self, name: str, start: int, shape: tuple[int, ...], dtype: torch.dtype, x: Value, dim: int) -> Value:
        form = OPERATORS[name].form(dtype)
        if form is None or not shape:
            raise Unsupported(f"a running {name} of {dtype}")
        # As torch does: what is accumulated is wider than what comes out.
        wide = {"f": "double", "c": "Complex<double>"}.get(kind_of(dtype), C_TYPES[dtype])
        step = f"total = {form.format('total', f'convert<{wide}>(now)')}; {{result}} = total;"
        return self._along(x, dim % len(shape), shape, dtype, f"{wide} total = {start};", step)

    def _compute_cumsum(self, shape: tuple[int, ...], dtype: torch.dtype, x: Value, dim: int) -> Value:
        return self._running("add", 0, shape, dtype, x, dim)

    def _compute_cumprod(self, shape: tuple[int, ...], dtype: torch.dtype, x: Value, dim: int) -> Value:
        return self._running("mul", 1, shape, dtype, x, dim)

    def _product(
        self, left: Value, right: Value, shape: tuple[int, ...], dtype: torch.dtype, several: bool = False
    ) -> Value:
        inner, kind = left.shape[-1], C_TYPES[dtype]
        if math.prod(shape) * inner > loop_products.MOST_PRODUCTS:
            raise Unsupported("the matrix product is large")
        if kind_of(dtype) in "bw" or left.dtype is not dtype or right.dtype is not dtype:
            raise Unsupported(f"a product of {left.dtype} and {right.dtype}")
        batch = shape[0] if several else 1
        rows, columns = math.prod(shape[several : len(left.shape) - 1]), math.prod(shape[len(left.shape) - 1 :])
        places = [f"&{v.load(['0'] * len(v.shape))}" for v in map(self._in_order, (left, right))]
        name, n = self._declared(shape, dtype), f"n{next(self._names)}"
        self.work += math.prod(shape) * inner // (32 if dtype.is_floating_point else 8)
        given = zip([*places, name], [rows * inner, inner * columns, rows * columns], strict=True)
        self.lines.append(
            f"for (int {n} = 0; {n} < {batch}; ++{n}) "
            f"product<{kind}, {rows}, {inner}, {columns}>({', '.join(f'{p}+{n}*{size}' for p, size in given)});"
        )
        return Value(shape, dtype, lambda i: f"{name}[{flat_index(i, shape)}]")

    def _in_order(self, value: Value) -> Value:
        """Return an array whose elements lie in memory in their order, where they are brought if they do not."""
        return value if is_in_order(value) else self.stored(value)

    def _compute_mm(self, shape: tuple[int, ...], dtype: torch.dtype, left: Value, right: Value) -> Value:
        return self._product(left, right, shape, dtype)

    _compute_mv = _compute_dot = _compute_mm

    def _compute_bmm(self, shape: tuple[int, ...], dtype: torch.dtype, left: Value, right: Value) -> Value:
        return self._product(left, right, shape, dtype, several=True)

    def _declared(self, shape: tuple[int, ...], dtype: torch.dtype, lines: list[str] | None = None) -> str:
        """Emit a buffer for the elements of an array and return its name."""
        lines = self.lines if lines is None else lines
        name, count = f"v{next(self._names)}", math.prod(shape)
        self.work += count
        self._made["elements"] += count
        if self._made["elements"] > _MOST_ELEMENTS + _FEW_ELEMENTS * self._made["operations"] + self._made["room"]:
            raise Unsupported("the body is large")
        if count <= _MOST_ON_STACK:
            lines.append(f"{C_TYPES[dtype]} {name}[{max(count, 1)}];")
            return name
        place, kind = self._made["bytes"], C_TYPES[dtype]
        self._made["bytes"] += -(-count * dtype.itemsize // _LINE) * _LINE
        lines.append(f"{kind}* __restrict__ const {name} = ({kind}*)(memory.place + {place});")
        return name

    def _joined(
        self, parts: Sequence[tuple[Value, int]], dim: int, shape: tuple[int, ...], dtype: torch.dtype
    ) -> Value:
        """Emit a buffer of `shape` filled with parts, each from its place along `dim` on."""
        target = self._declared(shape, dtype)
        for part, start in parts:
            index = [f"i{d}" for d in range(len(shape))]
            place = [f"({i}+{start})" if d == dim else i for d, i in enumerate(index)]
            self.lines.append(
                f"{loops_over(index, part.shape)}{target}[{flat_index(place, shape)}] = "
                f"{_at(part, index, part.shape, dtype)};"
            )
        return Value(shape, dtype, lambda i: f"{target}[{flat_index(i, shape)}]")

    def _compute_cat(self, shape: tuple[int, ...], dtype: torch.dtype, nodes: Sequence[fx.Node], dim: int = 0) -> Value:
        dim %= len(shape)
        # torch joins arrays of one element-less dimension with those of any rank.
        parts = [v for v in map(self.values.__getitem__, nodes) if len(v.shape) == len(shape)]
        if len(nodes) == 2 and _is_first_slice(nodes[1], nodes[0], dim):
            return loop_indexing.with_spare(parts[0], dim)
        starts = itertools.accumulate((p.shape[dim] for p in parts), initial=0)
        return self._joined(list(zip(parts, starts, strict=False)), dim, shape, dtype)

    def _compute_stack(
        self, shape: tuple[int, ...], dtype: torch.dtype, nodes: Sequence[fx.Node], dim: int = 0
    ) -> Value:
        dim %= len(shape)
        one = (*shape[:dim], 1, *shape[dim + 1 :])
        parts = [(loop_views.reshape(one, self.values[n]), place) for place, n in enumerate(nodes)]
        return self._joined(parts, dim, shape, dtype)

    # -- elements at places that the program computes, which lie in bounds: `at` sees to it

    def _compute_index(
        self, shape: tuple[int, ...], dtype: torch.dtype, x: Value, given: Sequence[fx.Node | None]
    ) -> Value:
        return loop_indexing.taken(shape, x, self._places([n and self.values[n] for n in given]))

    def _compute_index_select(
        self, shape: tuple[int, ...], dtype: torch.dtype, x: Value, dim: int, places: Value
    ) -> Value:
        return loop_indexing.taken(shape, x, self._places([*[None] * (dim % len(x.shape)), places]))

    def _compute_gather(self, shape: tuple[int, ...], dtype: torch.dtype, x: Value, dim: int, places: Value) -> Value:
        return loop_indexing.gathered(shape, x, dim % len(x.shape), places)

    def _compute_index_put(
        self,
        shape: tuple[int, ...],
        dtype: torch.dtype,
        x: Value,
        given: Sequence[fx.Node | None],
        new: Value,
        adds: bool = False,
    ) -> Value:
        places, new = self._places([n and self.values[n] for n in given]), self.stored(new)
        return self._changed(x, lambda x: loop_indexing.put(x, places, new, adds))

    def _compute_scatter_add(
        self, shape: tuple[int, ...], dtype: torch.dtype, x: Value, dim: int, places: Value, new: Value
    ) -> Value:
        places, new = self.stored(places), self.stored(new)
        return self._changed(x, lambda x: loop_indexing.scattered(x, dim % len(shape), places, new))

    def _compute_scatter_reduce(
        self, shape: tuple[int, ...], dtype: torch.dtype, x: Value, dim: int, places: Value, new: Value, reduce: str
    ) -> Value:
        if reduce not in REDUCTIONS or reduce == "mean" or not shape:
            raise Unsupported(f"{reduce} of what is at the same place")
        places, new, step = self.stored(places), self.stored(new), REDUCTIONS[reduce].step
        return self._changed(x, lambda x: loop_indexing.scattered(x, dim % len(shape), places, new, step))

    def _changed(self, x: Value, change: Callable[[Value], Value]) -> Value:
        """Return x with elements set; what is no carry has several set in a copy."""
        try:
            return change(x)
        except loop_indexing.NeedsMemory:
            name = self._declared(x.shape, x.dtype)
            self.lines += carry_over([name], [x])
            copy = in_buffer(name, x.shape, x.dtype, is_carry=True)
            self.lines += change(replace(copy, spare=x.spare)).updates
            return replace(copy, place=None, memory=None)

    def _places(self, given: Sequence[Value | None]) -> list[Value | None]:
        return [v if v is None else self.stored(v) for v in given]

    # -- arrays with parts of another, of what reading a part is differentiated to

    def _compute_select_backward(
        self, shape: tuple[int, ...], dtype: torch.dtype, part: Value, _: Sequence[int], dim: int, index: int
    ) -> Value:
        axis = dim % len(shape)
        return self._inserted(
            dtype, None, part, lambda i: (f"({i[axis]}) == {index % shape[axis]}", [*i[:axis], *i[axis + 1 :]]), shape
        )

    def _compute_slice_backward(
        self, shape: tuple[int, ...], dtype: torch.dtype, part: Value, _: Sequence[int], *bounds: int
    ) -> Value:
        return self._slice_in(shape, dtype, None, part, *bounds)

    def _compute_slice_scatter(
        self, shape: tuple[int, ...], dtype: torch.dtype, x: Value, part: Value, *bounds: int
    ) -> Value:
        return self._slice_in(shape, dtype, x, part, *bounds)

    def _slice_in(
        self,
        shape: tuple[int, ...],
        dtype: torch.dtype,
        x: Value | None,
        part: Value,
        dim: int = 0,
        start: int | None = None,
        end: int | None = None,
        step: int = 1,
    ) -> Value:
        axis = dim % len(shape)
        first, stop, _ = slice(start, end, step).indices(shape[axis])

        def place(index: Sequence[str]) -> tuple[str, list[str]]:
            i, behind = index[axis], f"(({index[axis]})-{first})"
            test = f"({i}) >= {first} && ({i}) < {stop} && {behind} % {step} == 0"
            return test, [*index[:axis], f"{behind}/{step}", *index[axis + 1 :]]

        return self._inserted(dtype, x, part, place, shape)

    def _inserted(
        self,
        dtype: torch.dtype,
        x: Value | None,
        part: Value,
        place: Callable[[Sequence[str]], tuple[str, list[str]]],
        shape: tuple[int, ...],
    ) -> Value:
        """Return an array with the elements of `part` where `place` says so, and those of x, or zeros, elsewhere."""
        if part.dtype is not dtype or not math.prod(part.shape):
            raise Unsupported(f"a part of {part.dtype} and shape {part.shape}")

        def load(index: Sequence[str]) -> str:
            test, inner = place(index)
            return f"(({test}) ? ({part.load(inner)}) : ({_literal(0, dtype) if x is None else x.load(index)}))"

        return Value(shape, dtype, load)


def _at(operand: Any, index: Sequence[str], shape: Sequence[int], dtype: torch.dtype) -> str:
    """Return the element of an operand (a value that broadcasts to `shape`, or a number) as an expression of `dtype`."""
    if not isinstance(operand, Value):
        return _literal(operand, dtype)
    assert np.broadcast_shapes(operand.shape, shape) == tuple(shape)
    if operand.dtype.is_complex and not dtype.is_complex and dtype is not torch.bool:
        raise Unsupported(f"{operand.dtype} as {dtype}")
    text = operand.load(broadcast(index, operand.shape))
    return text if operand.dtype is dtype else f"convert<{C_TYPES[dtype]}>({text})"


def _integer(number: Any) -> int | None:
    """Return a number that stands in the graph as a small integer, None where it is none."""
    is_one = isinstance(number, int | float) and number == int(number) and abs(number) <= _MOST_SQUARED
    return int(number) if is_one else None


def _common(operands: Sequence[Any]) -> torch.dtype:
    """Return the dtype to which torch promotes these operands."""
    given = [torch.empty(o.shape, dtype=o.dtype, device="meta") if isinstance(o, Value) else o for o in operands]
    return torch.result_type(*given) if len(given) == 2 else given[0].dtype


def _after_loop(state: Sequence[Value], lent: Sequence[bool]) -> list[Value]:
    """Return the values of a loop's variables: those that are no carries of this step cannot be updated any more."""
    return [v if own else replace(v, place=None, memory=None) for v, own in zip(state, lent, strict=True)]


def _is_first_slice(part: fx.Node, whole: fx.Node, dim: int) -> bool:
    return part.target is torch.ops.aten.slice.Tensor and part.args == (whole, dim, 0, 1)


def _is_new(x: Any) -> bool:
    """Tell whether nothing reads the elements that x is made with."""
    return len(x.users) == 1 and x.target in (torch.ops.aten.zeros.default, torch.ops.aten.empty.memory_format)


def _namespace(node: fx.Node) -> str:
    return getattr(node.target, "namespace", "")
