"""From graphs to C++ statements, for native_loop.py.

Each value is an expression of index variables (`Value.load`): views only rewrite indices, elementwise operations nest
expressions, and what is used twice, reduced or multiplied as a matrix is stored first, numbers in locals and arrays
in buffers of static size. An operator that is not in the tables here raises `Unsupported`.
"""

import functools
import itertools
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx

from .._core import graph
from .._core.graph import Graph
from .._core.primitive import Primitive

C_TYPES = {
    torch.float32: "float", torch.float64: "double", torch.int32: "int32_t", torch.int64: "int64_t",
    torch.int16: "int16_t", torch.int8: "int8_t", torch.uint8: "uint8_t", torch.bool: "bool",
}  # fmt: skip
_MOST_ELEMENTS = 32768  # of all values of a step together: beyond, kernels in parallel win
_MOST_PRODUCTS = 65536  # of one matrix product
_MOST_OPERATIONS = 400


class Unsupported(Exception):
    """The body has something that this module does not write out."""


@dataclass(frozen=True)
class Value:
    """A tensor in C++: shape, dtype, and the expression of one element at given index expressions."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    load: Callable[[Sequence[str]], str]


def flat_index(index: Sequence[str], shape: Sequence[int]) -> str:
    """Return the place in memory of the element of a contiguous array at these index expressions."""
    terms, stride = [], 1
    for i, n in zip(reversed(index), reversed(shape), strict=True):
        if n != 1:
            terms.append(i if stride == 1 else f"({i})*{stride}")
        stride *= n
    return "+".join(reversed(terms)) or "0"


def _unflat(flat: str, shape: Sequence[int]) -> list[str]:
    index, stride = [], math.prod(shape)
    for n in shape:
        stride //= max(n, 1)
        index.append("0" if n == 1 else f"(({flat})/{stride})%{n}")
    return index


# --------------------------------------------------------------------------------------------------- elementwise

_UNARY = {
    "neg": "-({0})", "abs": "std::abs({0})", "sin": "sin_({0})", "cos": "cos_({0})", "tan": "tan_({0})",
    "sinh": "sinh_({0})", "cosh": "cosh_({0})", "tanh": "tanh_({0})", "asin": "asin_({0})",
    "acos": "acos_({0})", "atan": "atan_({0})", "exp": "exp_({0})", "expm1": "expm1_({0})",
    "log": "log_({0})", "log1p": "log1p_({0})", "sqrt": "std::sqrt({0})", "rsqrt": "1/std::sqrt({0})",
    "reciprocal": "1/({0})", "sigmoid": "1/(1+exp_(-({0})))", "erf": "erf_({0})", "floor": "std::floor({0})",
    "ceil": "std::ceil({0})", "trunc": "std::trunc({0})", "relu": "({0} > 0 ? {0} : 0)", "clone": "{0}", "alias": "{0}",
    "detach": "{0}", "_to_copy": "{0}", "logical_not": "!({0})", "lift_fresh_copy": "{0}", "square": "({0})*({0})",
    "sign": "(({0}) > 0) - (({0}) < 0)", "positive": "{0}", "zeros_like": "0", "ones_like": "1", "bitwise_not": "~({0})",
}  # fmt: skip
_BINARY = {
    "mul": "({0})*({1})", "div": "({0})/({1})", "maximum": "maximum<{T}>({0}, {1})", "minimum": "minimum<{T}>({0}, {1})",
    "pow": "power<{T}>({0}, {1})", "atan2": "std::atan2({0}, {1})", "bitwise_and": "({0})&({1})",
    "bitwise_or": "({0})|({1})", "bitwise_xor": "({0})^({1})", "logical_and": "({0})&&({1})", "logical_or": "({0})||({1})",
    "__lshift__": "({0})<<({1})", "__rshift__": "({0})>>({1})", "bitwise_left_shift": "({0})<<({1})",
    "bitwise_right_shift": "({0})>>({1})",
    "tanh_backward": "({0})*(1-({1})*({1}))", "sigmoid_backward": "({0})*((1-({1}))*({1}))",
}  # fmt: skip
_INSTRUCTIONS = {"fma": "std::fma({0}, {1}, {2})", "sqrt": "std::sqrt({0})"}
_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_REDUCTIONS = {"sum": ("0", "{0} + {1}"), "prod": ("1", "{0} * {1}"), "mean": ("0", "{0} + {1}")}


_SEVERAL_RESULTS = ("_linalg_solve_ex", "split_with_sizes", "split", "unbind")


def _no_element(index: Sequence[str]) -> str:
    raise Unsupported("an operator's several results used as one")


def _literal(value: Any, dtype: torch.dtype) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        text = "NaN" if math.isnan(value) else ("-Inf" if value < 0 else "Inf") if math.isinf(value) else repr(value)
        return f"({C_TYPES[dtype]}){text}"
    return f"({C_TYPES[dtype]}){value}"


def _spelled_out(body: Graph) -> Graph:
    """Return the graph with its primitives spelled out in operators and instructions."""
    if any(isinstance(n.target, Primitive) and not n.target.is_instruction for n in body.module.graph.nodes):
        return graph.trace(body, body.in_types, lowering="loop").graph
    return body


class Emitter:
    """The C++ statements of one step of a loop."""

    def __init__(self, body: Graph) -> None:
        self.body = _spelled_out(body)
        self.lines: list[str] = []
        self.values: dict[fx.Node, Value] = {}
        self.elements = 0
        self._names = itertools.count()

    def emit(self, inputs: Sequence[Value]) -> list[Value]:
        """Append the statements that compute the body's results from `inputs`; return the results."""
        nodes = self.body.module.graph
        if len(nodes.nodes) > _MOST_OPERATIONS:
            raise Unsupported("the body is long")
        placeholders = iter(inputs)
        for node in nodes.nodes:
            if node.op == "placeholder":
                self.values[node] = next(placeholders)
            elif node.op == "call_function":
                self.values[node] = self._call(node)
            elif node.op != "output":
                raise Unsupported(node.op)
        return [self.stored(self.values[n]) for n in nodes.output_node().args[0]]  # pyright: ignore

    def _call(self, node: fx.Node) -> Value:
        meta = node.meta.get("val")
        name = getattr(node.target, "__name__", "").split(".")[0]
        if node.target is operator.getitem:
            return self._part(*node.args)
        if name in _SEVERAL_RESULTS:
            return Value((), torch.bool, _no_element)  # nothing reads it but getitem, which looks at the node
        if isinstance(node.target, Primitive) and name in _INSTRUCTIONS:
            return Value((), torch.bool, _no_element)  # it has one result, which getitem reads
        if not isinstance(meta, Tensor) or meta.dtype not in C_TYPES or getattr(node.target, "namespace", "") != "aten":
            raise Unsupported(str(node.target))
        if node.target is torch.ops.aten.view.dtype:
            return self._same_bits(self._arguments(node)[0], meta.dtype)
        view = getattr(self, f"_view_{name}", None)
        if view is not None:
            return view(tuple(meta.shape), *self._arguments(node))
        value = self._computed(name, node, tuple(meta.shape), meta.dtype)
        return self.stored(value) if len(node.users) > 1 or math.prod(value.shape) == 1 else value

    def _same_bits(self, x: Value, dtype: torch.dtype) -> Value:
        if x.dtype.itemsize != dtype.itemsize:
            raise Unsupported("bits of another width")
        return Value(x.shape, dtype, lambda i: f"same_bits<{C_TYPES[dtype]}, {C_TYPES[x.dtype]}>({x.load(i)})")

    def _part(self, source: Any, index: Any) -> Value:
        """Return one result of an operator that has several."""
        name, given = source.target.__name__.split(".")[0], self._arguments(source)
        shape, operand = tuple(source.meta["val"][index].shape), given[0]
        if name == "_linalg_solve_ex" and index == 0 and len(operand.shape) == 2:
            return self._solved(operand, given[1], shape)
        if name in ("split_with_sizes", "split", "unbind"):
            dim = (given[-1] if len(given) > (1 if name == "unbind" else 2) else 0) % len(operand.shape)
            if name == "unbind":
                return self._view_select(shape, operand, dim, index)
            start = sum(given[1][:index]) if name == "split_with_sizes" else given[1] * index
            return self._view_slice(shape, operand, dim, start, start + shape[dim])
        if name in _INSTRUCTIONS:
            value = self._elementwise(_INSTRUCTIONS[name], given, shape, source.meta["val"][0].dtype)
            return self.stored(value)
        raise Unsupported(f"result {index} of {name}")

    def _solved(self, matrix: Value, right: Value, shape: tuple[int, ...]) -> Value:
        """Emit Gaussian elimination with row pivoting; return the solution of `matrix` x = `right`."""
        size, columns, dtype = matrix.shape[0], math.prod(shape[1:]), matrix.dtype
        a, b = self._declared(matrix.shape, dtype), self._declared(shape, dtype)
        index = ["i0", "i1"][: len(shape)]
        self.lines.append(f"{loops_over(['i0', 'i1'], matrix.shape)}{a}[i0*{size}+i1] = {matrix.load(['i0', 'i1'])};")
        self.lines.append(f"{loops_over(index, shape)}{b}[{flat_index(index, shape)}] = {right.load(index)};")
        self.lines.append(f"solve<{C_TYPES[dtype]}, {size}, {columns}>({a}, {b});")
        return Value(shape, dtype, lambda i: f"{b}[{flat_index(i, shape)}]")

    def _arguments(self, node: fx.Node) -> list[Any]:
        return [self.values[a] if isinstance(a, fx.Node) else a for a in node.args]

    def _computed(self, name: str, node: fx.Node, shape: tuple[int, ...], dtype: torch.dtype) -> Value:
        args, kind = self._arguments(node), C_TYPES[dtype]
        if node.kwargs.get("rounding_mode") is not None:
            raise Unsupported("rounding division")
        if name in ("full", "full_like", "scalar_tensor", "zeros", "ones", "new_zeros"):
            fill = {"zeros": 0, "ones": 1, "new_zeros": 0, "scalar_tensor": args[0]}.get(
                name, args[1] if len(args) > 1 else 0
            )
            text = _literal(fill, dtype)
            return Value(shape, dtype, lambda index: text)
        if name == "arange":
            start = args[0] if len(args) > 1 else 0
            step = args[2] if len(args) > 2 else 1
            return Value(shape, dtype, lambda i: f"(({C_TYPES[dtype]}){start}+({i[0]})*({C_TYPES[dtype]}){step})")
        if name in ("add", "sub", "rsub"):
            alpha = node.kwargs.get("alpha", args[2] if len(args) > 2 else 1)
            if alpha != 1:
                raise Unsupported("alpha")
            first, second = reversed(args[:2]) if name == "rsub" else args[:2]
            return self._elementwise(f"({{0}}){'+' if name == 'add' else '-'}({{1}})", [first, second], shape, dtype)
        if name in _UNARY:
            return self._elementwise(_UNARY[name], args[:1], shape, dtype)
        if name == "__rshift__" and isinstance(args[1], int):
            return self._elementwise(f"({{0}})>>shift_{args[1]}", args[:1], shape, dtype)
        if name in _BINARY:
            return self._elementwise(_BINARY[name].replace("{T}", kind), args[:2], shape, dtype)
        if name in _COMPARISONS:
            return self._elementwise(f"({{0}}){_COMPARISONS[name]}({{1}})", args[:2], shape, dtype, _common(args[:2]))
        if name == "clamp":
            given = dict(zip(("min", "max"), args[1:], strict=False)) | node.kwargs
            low, high = given.get("min"), given.get("max")
            template = "{0}" if low is None else f"maximum<{kind}>({{0}}, {_literal(low, dtype)})"
            template = template if high is None else f"minimum<{kind}>({template}, {_literal(high, dtype)})"
            return self._elementwise(template, args[:1], shape, dtype)
        if name == "where" and len(args) == 3:

            def choose(index: Sequence[str]) -> str:
                test, yes, no = (_at(a, index, shape, t) for a, t in zip(args, (torch.bool, dtype, dtype), strict=True))
                return f"(({test}) ? ({yes}) : ({no}))"

            return Value(shape, dtype, choose)
        if name in _REDUCTIONS:
            return self._reduction(name, node, args, shape, dtype)
        if name in ("mm", "mv", "dot"):
            return self._product(args[0], args[1], shape, dtype)
        if name in ("cat", "stack"):
            given: Any = node.args[0]
            parts = [self.values[n] for n in given]
            return self._joined(name, parts, args[1] if len(args) > 1 else 0, shape, dtype)
        raise Unsupported(name)

    def _elementwise(
        self,
        template: str,
        operands: Sequence[Any],
        shape: tuple[int, ...],
        dtype: torch.dtype,
        inner: torch.dtype | None = None,
    ) -> Value:
        given, kind = inner or dtype, C_TYPES[dtype]

        def load(index: Sequence[str]) -> str:
            return f"({kind})({template.format(*(_at(o, index, shape, given) for o in operands))})"

        return Value(shape, dtype, load)

    # -- what has to be stored ---------------------------------------------------------------------------------

    def stored(self, value: Value) -> Value:
        """Emit a loop that computes the elements of `value`, and return it read from where they are."""
        if math.prod(value.shape) == 1:
            number = f"v{next(self._names)}"
            self.lines.append(f"const {C_TYPES[value.dtype]} {number} = {value.load(['0'] * len(value.shape))};")
            return Value(value.shape, value.dtype, lambda index: number)
        name = self._declared(value.shape, value.dtype)
        index = [f"i{d}" for d in range(len(value.shape))]
        self.lines.append(
            f"{loops_over(index, value.shape)}{name}[{flat_index(index, value.shape)}] = {value.load(index)};"
        )
        return Value(value.shape, value.dtype, lambda i: f"{name}[{flat_index(i, value.shape)}]")

    def _accumulated(
        self, shape: tuple[int, ...], dtype: torch.dtype, start: str, body: Callable[[Sequence[str], str], str]
    ) -> Value:
        """Emit a loop over `shape` whose body updates an accumulator that starts at `start`."""
        name, kind = self._declared(shape, dtype), C_TYPES[dtype]
        index = [f"i{d}" for d in range(len(shape))]
        update = body(index, "sum")
        self.lines.append(
            f"{loops_over(index, shape)}{{ {kind} sum = {start}; {update} {name}[{flat_index(index, shape)}] = sum; }}"
        )
        return Value(shape, dtype, lambda i: f"{name}[{flat_index(i, shape)}]")

    def _reduction(
        self, name: str, node: fx.Node, args: list[Any], shape: tuple[int, ...], dtype: torch.dtype
    ) -> Value:
        operand: Value = args[0]
        rank = len(operand.shape)
        dims = args[1] if len(args) > 1 and args[1] is not None else list(range(rank))
        axes = sorted(d % rank for d in ([dims] if isinstance(dims, int) else dims) or range(rank)) if rank else []
        keep = bool(args[2]) if len(args) > 2 else bool(node.kwargs.get("keepdim"))
        start, step = _REDUCTIONS[name]
        source = self.stored(operand) if math.prod(operand.shape) > 1 else operand
        count = math.prod(operand.shape[a] for a in axes)

        def body(index: Sequence[str], total: str) -> str:
            kept = [i for d, i in enumerate(index) if d not in axes] if keep else list(index)
            free, full = iter(kept), []
            for d in range(rank):
                full.append(f"r{d}" if d in axes else next(free))
            loops = loops_over([f"r{a}" for a in axes], [operand.shape[a] for a in axes])
            scale = f" {total} /= {count};" if name == "mean" else ""
            return f"{loops}{total} = {step.format(total, f'({C_TYPES[dtype]})({source.load(full)})')};{scale}"

        return self._accumulated(shape, dtype, start, body)

    def _product(self, left: Value, right: Value, shape: tuple[int, ...], dtype: torch.dtype) -> Value:
        inner, kind = left.shape[-1], C_TYPES[dtype]
        if math.prod(shape) * inner > _MOST_PRODUCTS:
            raise Unsupported("the matrix product is large")
        left, right = self.stored(left), self.stored(right)
        rows, columns = shape[: len(left.shape) - 1], shape[len(left.shape) - 1 :]
        name = self._declared(shape, dtype)
        row, column = [f"i{d}" for d in range(len(rows))], [f"j{d}" for d in range(len(columns))]
        place = flat_index([*row, *column], shape)
        # Columns innermost: they are next to each other in memory, and each has a sum of its own.
        self.lines.append(
            f"{loops_over(row, rows)}{{ {loops_over(column, columns)}{name}[{place}] = 0; "
            f"for (int k = 0; k < {inner}; ++k) {{ const {kind} factor = {left.load([*row, 'k'])}; "
            f"{loops_over(column, columns)}{name}[{place}] += factor * ({right.load(['k', *column])}); }} }}"
        )
        return Value(shape, dtype, lambda i: f"{name}[{flat_index(i, shape)}]")

    def _declared(self, shape: tuple[int, ...], dtype: torch.dtype) -> str:
        """Emit a buffer for the elements of an array and return its name."""
        name, count = f"v{next(self._names)}", math.prod(shape)
        self.elements += count
        if self.elements > _MOST_ELEMENTS:
            raise Unsupported("the body is large")
        self.lines.append(f"{C_TYPES[dtype]} {name}[{max(count, 1)}];")
        return name

    def _joined(self, name: str, parts: Sequence[Value], dim: int, shape: tuple[int, ...], dtype: torch.dtype) -> Value:
        target, start = self._declared(shape, dtype), 0
        dim %= len(shape)
        for part in parts:
            size = part.shape if name == "cat" else (*part.shape[:dim], 1, *part.shape[dim:])
            index = [f"i{d}" for d in range(len(size))]
            source = index if name == "cat" else [*index[:dim], *index[dim + 1 :]]
            place = [f"{i}+{start}" if d == dim else i for d, i in enumerate(index)]
            self.lines.append(
                f"{loops_over(index, size)}{target}[{flat_index([f'({p})' for p in place], shape)}] = {part.load(source)};"
            )
            start += size[dim]
        return Value(shape, dtype, lambda i: f"{target}[{flat_index(i, shape)}]")

    # -- views: only indices change ----------------------------------------------------------------------------

    def _view_reshape(self, shape: tuple[int, ...], x: Value, *_: Any) -> Value:
        return Value(shape, x.dtype, lambda i: x.load(_unflat(flat_index(i, shape), x.shape)))

    _view_view = _view__unsafe_view = _view__reshape_alias = _view_unsqueeze = _view_squeeze = _view_reshape

    def _view_permute(self, shape: tuple[int, ...], x: Value, dims: Sequence[int]) -> Value:
        order = [d % len(dims) for d in dims]
        return Value(shape, x.dtype, lambda i: x.load([i[order.index(d)] for d in range(len(order))]))

    def _view_t(self, shape: tuple[int, ...], x: Value) -> Value:
        return Value(shape, x.dtype, lambda i: x.load(list(reversed(i))))

    def _view_transpose(self, shape: tuple[int, ...], x: Value, first: int, second: int) -> Value:
        order = list(range(len(shape)))
        order[first], order[second] = order[second], order[first]
        return self._view_permute(shape, x, order)

    def _view_expand(self, shape: tuple[int, ...], x: Value, *_: Any) -> Value:
        return Value(shape, x.dtype, lambda i: x.load(_broadcast(i, x.shape)))

    def _view_select(self, shape: tuple[int, ...], x: Value, dim: int, index: int) -> Value:
        axis, place = dim % len(x.shape), index % x.shape[dim]
        return Value(shape, x.dtype, lambda i: x.load([*i[:axis], str(place), *i[axis:]]))

    def _view_slice(
        self,
        shape: tuple[int, ...],
        x: Value,
        dim: int = 0,
        start: int | None = None,
        end: int | None = None,
        step: int = 1,
    ) -> Value:
        axis = dim % len(x.shape)
        first = slice(start, end, step).indices(x.shape[axis])[0]
        return Value(
            shape, x.dtype, lambda i: x.load([f"({v})*{step}+{first}" if d == axis else v for d, v in enumerate(i)])
        )


def _broadcast(index: Sequence[str], shape: Sequence[int]) -> list[str]:
    tail = index[len(index) - len(shape) :]
    return ["0" if n == 1 else i for i, n in zip(tail, shape, strict=True)]


def _at(operand: Any, index: Sequence[str], shape: Sequence[int], dtype: torch.dtype) -> str:
    """Return the element of an operand (a value that broadcasts to `shape`, or a number) as an expression of `dtype`."""
    if not isinstance(operand, Value):
        return _literal(operand, dtype)
    text = operand.load(_broadcast(index, operand.shape))
    return text if operand.dtype is dtype else f"(({C_TYPES[dtype]})({text}))"


def _common(operands: Sequence[Any]) -> torch.dtype:
    dtypes = [o.dtype for o in operands if isinstance(o, Value)]
    number = next((o for o in operands if not isinstance(o, Value)), None)
    common = functools.reduce(torch.promote_types, dtypes)
    return torch.float64 if isinstance(number, float) and not common.is_floating_point else common


def loops_over(index: Sequence[str], shape: Sequence[int]) -> str:
    """Return the heads of nested loops that run these index variables over a shape."""
    return "".join(f"for (int {i} = 0; {i} < {n}; ++{i}) " for i, n in zip(index, shape, strict=True))
