"""Small loops as one C++ function.

A loop whose body does a few dozen operations on a few numbers spends all its time between them: 1 to 5 µs a step
when Python drives compiled steps, 3 ns when the loop is native. This module writes such a loop out as C++, compiles
it with the machine's compiler, and keeps the library in the cache directory, named by a hash of its text.

`Emitter` turns a body graph into C++ statements. Each value is an expression of index variables (`Value.load`): views
only rewrite indices, elementwise operations nest expressions, and what is used twice, reduced or multiplied as a
matrix is stored first, numbers in locals and arrays in static-size buffers. Bodies with an operator that is not in
the tables here, or that do enough work for Inductor's vectorised kernels to pay, are left alone: `None` is returned,
and the loop runs step by step.
"""

import ctypes
import functools
import hashlib
import itertools
import math
import os
import pathlib
import shutil
import subprocess
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx

from .._core import config, debugging
from .._core.graph import Graph, TensorType
from .inductor import cache_directory

aten = torch.ops.aten

_TYPES = {
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


def _flat(index: Sequence[str], shape: Sequence[int]) -> str:
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
    "positive": "{0}", "zeros_like": "0", "ones_like": "1",
}  # fmt: skip
_BINARY = {
    "mul": "({0})*({1})", "div": "({0})/({1})", "maximum": "maximum<{T}>({0}, {1})", "minimum": "minimum<{T}>({0}, {1})",
    "pow": "power<{T}>({0}, {1})", "atan2": "std::atan2({0}, {1})", "bitwise_and": "({0})&({1})",
    "bitwise_or": "({0})|({1})", "bitwise_xor": "({0})^({1})", "logical_and": "({0})&&({1})", "logical_or": "({0})||({1})",
    "tanh_backward": "({0})*(1-({1})*({1}))", "sigmoid_backward": "({0})*((1-({1}))*({1}))",
}  # fmt: skip
_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_REDUCTIONS = {"sum": ("0", "{0} + {1}"), "prod": ("1", "{0} * {1}"), "mean": ("0", "{0} + {1}")}
_PRELUDE = r"""#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#ifdef VECTOR_MATH
#define SIMD(name) extern "C" { __attribute__((simd("notinbranch"))) float name##f(float); \
                                __attribute__((simd("notinbranch"))) double name(double); }
SIMD(sin) SIMD(cos) SIMD(tan) SIMD(sinh) SIMD(cosh) SIMD(tanh) SIMD(asin) SIMD(acos) SIMD(atan)
SIMD(exp) SIMD(expm1) SIMD(log) SIMD(log1p) SIMD(erf)
#endif
#define OVERLOAD(name) static inline float name##_(float x) { return name##f(x); } \
                       static inline double name##_(double x) { return name(x); }
OVERLOAD(sin) OVERLOAD(cos) OVERLOAD(tan) OVERLOAD(sinh) OVERLOAD(cosh) OVERLOAD(tanh) OVERLOAD(asin) OVERLOAD(acos)
OVERLOAD(atan) OVERLOAD(exp) OVERLOAD(expm1) OVERLOAD(log) OVERLOAD(log1p) OVERLOAD(erf)
#define NaN std::numeric_limits<double>::quiet_NaN()
#define Inf std::numeric_limits<double>::infinity()
template <class T> static inline T maximum(T a, T b) { return a != a || a > b ? a : b; }
template <class T> static inline T minimum(T a, T b) { return a != a || a < b ? a : b; }
template <class T> static inline T power(T a, T b) { return (T)std::pow(a, b); }
"""


def _literal(value: Any, dtype: torch.dtype) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        text = "NaN" if math.isnan(value) else ("-Inf" if value < 0 else "Inf") if math.isinf(value) else repr(value)
        return f"({_TYPES[dtype]}){text}"
    return f"({_TYPES[dtype]}){value}"


class Emitter:
    """The C++ statements of one step of a loop."""

    def __init__(self, body: Graph) -> None:
        self.body = body
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
        if not isinstance(meta, Tensor) or meta.dtype not in _TYPES or getattr(node.target, "namespace", "") != "aten":
            raise Unsupported(str(node.target))
        view = getattr(self, f"_view_{name}", None)
        if view is not None:
            return view(tuple(meta.shape), *self._arguments(node))
        value = self._computed(name, node, tuple(meta.shape), meta.dtype)
        return self.stored(value) if len(node.users) > 1 or math.prod(value.shape) == 1 else value

    def _arguments(self, node: fx.Node) -> list[Any]:
        return [self.values[a] if isinstance(a, fx.Node) else a for a in node.args]

    def _computed(self, name: str, node: fx.Node, shape: tuple[int, ...], dtype: torch.dtype) -> Value:
        args, kind = self._arguments(node), _TYPES[dtype]
        if node.kwargs.get("rounding_mode") is not None:
            raise Unsupported("rounding division")
        if name in ("full", "full_like", "scalar_tensor", "zeros", "ones", "new_zeros"):
            fill = {"zeros": 0, "ones": 1, "new_zeros": 0, "scalar_tensor": args[0]}.get(
                name, args[1] if len(args) > 1 else 0
            )
            text = _literal(fill, dtype)
            return Value(shape, dtype, lambda index: text)
        if name in ("add", "sub", "rsub"):
            alpha = node.kwargs.get("alpha", args[2] if len(args) > 2 else 1)
            if alpha != 1:
                raise Unsupported("alpha")
            first, second = reversed(args[:2]) if name == "rsub" else args[:2]
            return self._elementwise(f"({{0}}){'+' if name == 'add' else '-'}({{1}})", [first, second], shape, dtype)
        if name in _UNARY:
            return self._elementwise(_UNARY[name], args[:1], shape, dtype)
        if name in _BINARY:
            return self._elementwise(_BINARY[name].replace("{T}", kind), args[:2], shape, dtype)
        if name in _COMPARISONS:
            return self._elementwise(f"({{0}}){_COMPARISONS[name]}({{1}})", args[:2], shape, dtype, _common(args[:2]))
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
            return self._joined(
                name, [self.values[n] for n in node.args[0]], args[1] if len(args) > 1 else 0, shape, dtype
            )  # pyright: ignore
        raise Unsupported(name)

    def _elementwise(
        self,
        template: str,
        operands: Sequence[Any],
        shape: tuple[int, ...],
        dtype: torch.dtype,
        inner: torch.dtype | None = None,
    ) -> Value:
        given, kind = inner or dtype, _TYPES[dtype]

        def load(index: Sequence[str]) -> str:
            return f"({kind})({template.format(*(_at(o, index, shape, given) for o in operands))})"

        return Value(shape, dtype, load)

    # -- what has to be stored ---------------------------------------------------------------------------------

    def stored(self, value: Value) -> Value:
        """Emit a loop that computes the elements of `value`, and return it read from where they are."""
        if math.prod(value.shape) == 1:
            number = f"v{next(self._names)}"
            self.lines.append(f"const {_TYPES[value.dtype]} {number} = {value.load(['0'] * len(value.shape))};")
            return Value(value.shape, value.dtype, lambda index: number)
        name = self._declared(value.shape, value.dtype)
        index = [f"i{d}" for d in range(len(value.shape))]
        self.lines.append(f"{_loops(index, value.shape)}{name}[{_flat(index, value.shape)}] = {value.load(index)};")
        return Value(value.shape, value.dtype, lambda i: f"{name}[{_flat(i, value.shape)}]")

    def _accumulated(
        self, shape: tuple[int, ...], dtype: torch.dtype, start: str, body: Callable[[Sequence[str], str], str]
    ) -> Value:
        """Emit a loop over `shape` whose body updates an accumulator that starts at `start`."""
        name, kind = self._declared(shape, dtype), _TYPES[dtype]
        index = [f"i{d}" for d in range(len(shape))]
        update = body(index, "sum")
        self.lines.append(
            f"{_loops(index, shape)}{{ {kind} sum = {start}; {update} {name}[{_flat(index, shape)}] = sum; }}"
        )
        return Value(shape, dtype, lambda i: f"{name}[{_flat(i, shape)}]")

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
            loops = _loops([f"r{a}" for a in axes], [operand.shape[a] for a in axes])
            scale = f" {total} /= {count};" if name == "mean" else ""
            return f"{loops}{total} = {step.format(total, f'({_TYPES[dtype]})({source.load(full)})')};{scale}"

        return self._accumulated(shape, dtype, start, body)

    def _product(self, left: Value, right: Value, shape: tuple[int, ...], dtype: torch.dtype) -> Value:
        inner, kind = left.shape[-1], _TYPES[dtype]
        if math.prod(shape) * inner > _MOST_PRODUCTS:
            raise Unsupported("the matrix product is large")
        left, right = self.stored(left), self.stored(right)
        rows, columns = shape[: len(left.shape) - 1], shape[len(left.shape) - 1 :]
        name = self._declared(shape, dtype)
        row, column = [f"i{d}" for d in range(len(rows))], [f"j{d}" for d in range(len(columns))]
        place = _flat([*row, *column], shape)
        # Columns innermost: they are next to each other in memory, and each has a sum of its own.
        self.lines.append(
            f"{_loops(row, rows)}{{ {_loops(column, columns)}{name}[{place}] = 0; "
            f"for (int k = 0; k < {inner}; ++k) {{ const {kind} factor = {left.load([*row, 'k'])}; "
            f"{_loops(column, columns)}{name}[{place}] += factor * ({right.load(['k', *column])}); }} }}"
        )
        return Value(shape, dtype, lambda i: f"{name}[{_flat(i, shape)}]")

    def _declared(self, shape: tuple[int, ...], dtype: torch.dtype) -> str:
        """Emit a buffer for the elements of an array and return its name."""
        name, count = f"v{next(self._names)}", math.prod(shape)
        self.elements += count
        if self.elements > _MOST_ELEMENTS:
            raise Unsupported("the body is large")
        self.lines.append(f"{_TYPES[dtype]} {name}[{max(count, 1)}];")
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
                f"{_loops(index, size)}{target}[{_flat([f'({p})' for p in place], shape)}] = {part.load(source)};"
            )
            start += size[dim]
        return Value(shape, dtype, lambda i: f"{target}[{_flat(i, shape)}]")

    # -- views: only indices change ----------------------------------------------------------------------------

    def _view_reshape(self, shape: tuple[int, ...], x: Value, *_: Any) -> Value:
        return Value(shape, x.dtype, lambda i: x.load(_unflat(_flat(i, shape), x.shape)))

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
    return text if operand.dtype is dtype else f"(({_TYPES[dtype]})({text}))"


def _common(operands: Sequence[Any]) -> torch.dtype:
    dtypes = [o.dtype for o in operands if isinstance(o, Value)]
    number = next((o for o in operands if not isinstance(o, Value)), None)
    common = functools.reduce(torch.promote_types, dtypes)
    return torch.float64 if isinstance(number, float) and not common.is_floating_point else common


def _loops(index: Sequence[str], shape: Sequence[int]) -> str:
    return "".join(f"for (int {i} = 0; {i} < {n}; ++{i}) " for i, n in zip(index, shape, strict=True))


# --------------------------------------------------------------------------------------------------- whole loops


def _pointer(name: str, position: int, type: TensorType, source: str) -> str:
    kind = _TYPES[type.dtype]
    return f"{'const ' if source == 'in' else ''}{kind}* {name} = ({kind}*){source}[{position}];"


def _buffer(name: str, type: TensorType, offset: str = "") -> Value:
    def load(index: Sequence[str]) -> str:
        return f"{name}[{offset}{_flat(index, type.shape)}]"

    return Value(type.shape, type.dtype, load)


def _size(type: TensorType) -> int:
    return math.prod(type.shape)


def _check(types: Sequence[TensorType]) -> None:
    for type in types:
        if type.dtype not in _TYPES or type.device.type != "cpu":
            raise Unsupported(f"{type.dtype} on {type.device}")


def _carry_over(targets: Sequence[str], results: Sequence[Value]) -> list[str]:
    """Return statements that store results, all of which were computed from the targets' old values."""
    lines = []
    for target, value in zip(targets, results, strict=True):
        index = [f"i{d}" for d in range(len(value.shape))]
        lines.append(f"{_loops(index, value.shape)}{target}[{_flat(index, value.shape)}] = {value.load(index)};")
    return lines


def scan_source(body: Graph, consts: int, carries: int) -> str:
    """Return the C++ text of a scan: inputs (consts, init, xs), outputs (carry, ys). Raises `Unsupported`."""
    _check([*body.in_types, *body.out_types])
    types, head = body.in_types, consts + carries
    names = [
        *(f"c{i}" for i in range(consts)),
        *(f"s{i}" for i in range(carries)),
        *(f"x{i}" for i in range(len(types) - head)),
    ]
    values = [
        _buffer(n, t, f"step*{_size(t)}+" if i >= head else "")
        for i, (n, t) in enumerate(zip(names, types, strict=True))
    ]
    emitter = Emitter(body)
    results = emitter.emit(values)
    declared = [
        _pointer(n, i, t, "in") for i, (n, t) in enumerate(zip(names, types, strict=True)) if not consts <= i < head
    ]
    for i in range(carries):
        declared.append(_pointer(f"s{i}", i, types[consts + i], "out"))
        declared.append(
            f"std::memcpy(s{i}, in[{consts + i}], sizeof({_TYPES[types[consts + i].dtype]}) * {_size(types[consts + i])});"
        )
    y_types = body.out_types[carries:]
    declared += [_pointer(f"y{i}", carries + i, t, "out") for i, t in enumerate(y_types)]
    stores = _carry_over([f"(y{i}+step*{_size(t)})" for i, t in enumerate(y_types)], results[carries:])
    stores += _carry_over([f"s{i}" for i in range(carries)], results[:carries])
    return _function(
        declared,
        "for (int64_t n = 0; n < length; ++n)",
        ["const int64_t step = reverse ? length - 1 - n : n;", *emitter.lines, *stores],
    )


def while_source(cond: Graph, body: Graph, cond_consts: int, body_consts: int) -> str:
    """Return the C++ text of a while loop: inputs (both constants, init), outputs the carry. Raises `Unsupported`."""
    _check([*cond.in_types, *body.in_types])
    carry_types = body.out_types
    names = [*(f"a{i}" for i in range(cond_consts)), *(f"b{i}" for i in range(body_consts))]
    types = [*cond.in_types[:cond_consts], *body.in_types[:body_consts]]
    constants = [_buffer(n, t) for n, t in zip(names, types, strict=True)]
    state = [_buffer(f"s{i}", t) for i, t in enumerate(carry_types)]
    declared = [_pointer(n, i, t, "in") for i, (n, t) in enumerate(zip(names, types, strict=True))]
    for i, type in enumerate(carry_types):
        declared.append(_pointer(f"s{i}", i, type, "out"))
        declared.append(f"std::memcpy(s{i}, in[{len(names) + i}], sizeof({_TYPES[type.dtype]}) * {_size(type)});")
    test, step = Emitter(cond), Emitter(body)
    (going,) = test.emit([*constants[:cond_consts], *state])
    results = step.emit([*constants[cond_consts:], *state])
    tested = [*test.lines, f"if (!({going.load([])})) break;"]
    inner = [*step.lines, *_carry_over([f"s{i}" for i in range(len(state))], results)]
    return _function(declared, "for (;;)", ["{", *tested[:-1], tested[-1], "}", *inner])


def _function(declared: Sequence[str], loop: str, body: Sequence[str]) -> str:
    text = "\n    ".join(body)
    head = "\n  ".join(declared)
    signature = 'extern "C" void loop(const void** in, void** out, int64_t length, bool reverse)'
    return f"{_PRELUDE}{signature} {{\n  {head}\n  {loop} {{\n    {text}\n  }}\n}}\n"


class NativeLoop:
    """A compiled loop: call it with input tensors, output tensors, length and direction."""

    def __init__(self, library: str) -> None:
        self._library = ctypes.CDLL(library)
        self._function = self._library.loop
        self._function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_bool]
        self._function.restype = None

    def __call__(
        self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], length: int = 0, reverse: bool = False
    ) -> None:
        """Run the loop, reading contiguous `inputs` and filling contiguous `outputs`."""
        given = (ctypes.c_void_p * max(len(inputs), 1))(*(t.data_ptr() for t in inputs))
        made = (ctypes.c_void_p * max(len(outputs), 1))(*(t.data_ptr() for t in outputs))
        self._function(ctypes.addressof(given), ctypes.addressof(made), length, reverse)


@functools.cache
def compile_source(source: str) -> NativeLoop | None:
    """Compile a loop, or take it from the cache on disk; None where there is no compiler."""
    compiler = next(filter(None, map(shutil.which, ("g++", "clang++", "c++"))), None)
    if compiler is None:
        return None
    folder = pathlib.Path(cache_directory(), "loops")
    folder.mkdir(parents=True, exist_ok=True)
    # No contraction to fused multiply-adds: a step gives the numbers that torch's operators give.
    command = [compiler, "-O3", "-march=native", "-std=c++17", "-fPIC", "-shared", "-fwrapv", "-ffp-contract=off"]
    command += ["-fno-math-errno", "-fno-trapping-math"]
    name = hashlib.sha256(f"{command}{source}".encode()).hexdigest()[:32]
    library = folder / f"{name}.so"
    if not library.exists():
        text, built = folder / f"{name}.{os.getpid()}.cpp", folder / f"{name}.{os.getpid()}.so"
        text.write_text(source)
        try:
            # glibc's libmvec (2.35) has tanh and the like for whole vectors; elsewhere they are called one by one.
            vectors = subprocess.run(
                [*command, "-DVECTOR_MATH", str(text), "-o", str(built), "-lmvec"], capture_output=True
            )
            if vectors.returncode or not _loads(built):
                subprocess.run([*command, str(text), "-o", str(built)], check=True, capture_output=True)
            built.replace(library)
        finally:
            text.unlink()
    return NativeLoop(str(library))


def _loads(library: pathlib.Path) -> bool:
    try:
        ctypes.CDLL(str(library))
    except OSError:
        return False
    return True


def ready(body: Graph, key: Hashable, source: Callable[[], str]) -> NativeLoop | None:
    """Return the native loop over `body`, or None where it runs step by step.

    Which it is, the tier says (executable.py): never native on `direct`, at once on `compiled`, and from the second
    run on `auto`.
    """
    tier = config.jit_tier.value
    if tier == "direct" or debugging.is_on():
        return None
    entry = ("native loop", key)
    if tier == "auto" and entry not in body.cache:
        body.cache[entry] = _SEEN_ONCE
        return None
    found = body.cache.get(entry, _SEEN_ONCE)
    if found is _SEEN_ONCE:
        found = body.cache[entry] = _compiled(source)
    return found


_SEEN_ONCE = object()


def _compiled(source: Callable[[], str]) -> NativeLoop | None:
    try:
        return compile_source(source())
    except Unsupported:
        return None


def run(
    loop: NativeLoop, inputs: Sequence[Tensor], types: Sequence[TensorType], length: int = 0, reverse: bool = False
) -> list[Tensor]:
    """Run a native loop and return its results, which are of these types."""
    outputs = [torch.empty(t.shape, dtype=t.dtype) for t in types]
    loop([t.contiguous() for t in inputs], outputs, length, reverse)
    return outputs
