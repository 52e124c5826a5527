"""From the nodes of a graph to values of a native loop.

What an operator is stands in tables by its name: elementwise ones in loop_operators.py, views in loop_views.py, calls of
C++ functions on matrices in loop_matrices.py, loops and branches in loop_control_flow.py. Of all others `EXPRESSIONS` are
functions of the result's shape and dtype, and of the operands; `STATEMENTS` are functions of the emitter, too, and `SEVERAL`
of the emitter, the node and the operands, with a list of results. What has an entry nowhere is written out as torch's
decomposition of it has it, or raises `Unsupported`.
"""

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, fx
from torch._ops import HigherOrderOperator
from torch.utils._pytree import tree_flatten, tree_unflatten

from .._core import graph
from .._core.graph import TensorType
from .._core.primitive import Primitive
from .._core.target import LOOP
from . import (
    loop_control_flow,
    loop_convolution,
    loop_elements,
    loop_fourier,
    loop_indexing,
    loop_matrices,
    loop_parts,
    loop_products,
    loop_reductions,
    loop_windows,
)
from .loop_elements import element_of, elementwise
from .loop_emitter import Emitter, carry_over
from .loop_operators import C_TYPES, COMPUTED_WITH, INSTRUCTIONS, OPERATORS, REDUCTIONS, SETTING, kind_of, name_of
from .loop_values import Unsupported, Value, in_buffer
from .loop_views import RESHAPES, VIEWS, select, slice_of

EXPRESSIONS: dict[str, Callable[..., Value]] = {**loop_elements.EXPRESSIONS, **loop_parts.EXPRESSIONS}
STATEMENTS: dict[str, Callable[..., Value]] = {
    **loop_reductions.STATEMENTS,
    **loop_products.STATEMENTS,
    **loop_convolution.STATEMENTS,
    **loop_fourier.STATEMENTS,
    **loop_indexing.STATEMENTS,
    **loop_parts.STATEMENTS,
}
SEVERAL: dict[str, Callable[..., list[Value]]] = {
    **loop_convolution.SEVERAL,
    **loop_reductions.SEVERAL,
    **loop_windows.SEVERAL,
}

_ROOM_OF_CALL = 16  # arrays as large as a matrix that is factorized, in a step that may hold no more
_SHORT = 200  # characters of an expression that is computed more than once
_CHEAP = 140  # of one that takes less time than to store it and read it again
_MANY = 1 << 13  # elements, which are not all in the first cache when they are read again
_DEEP = 60  # expressions within each other: each is written by a call of Python or three
_LONG = 4000  # of one that is stored: what is set in, or reshaped, is read at places that are written out each time
_WORK_OF_CALL = 16  # multiplications within it that take as long as an element

# Keyword arguments that are looked at, or say nothing that a result's type does not say.
_UNDERSTOOD = {
    "alpha", "rounding_mode", "min", "max", "keepdim", "dtype", "layout", "device", "pin_memory", "memory_format",
    "non_blocking",
}  # fmt: skip
_SEVERAL_RESULTS = ("split_with_sizes", "split", "unbind")
_WITH_PLACES = ("max", "sort", "topk")  # return where their results come from, too
_BY_NAME = ("add", "sub", "rsub", "view", "copy_", *_SEVERAL_RESULTS)  # which `value_of` looks at


def is_known(node: fx.Node) -> bool:
    """Tell whether what a node makes can be written out, as far as its name and types say, and calls no function for it."""
    name, found = name_of(node), node.meta.get("val")
    types = [TensorType.of(t) for t in (found if isinstance(found, list | tuple) else [found]) if isinstance(t, Tensor)]
    if not types or any(type.dtype not in COMPUTED_WITH or type.device.type != "cpu" for type in types):
        return False
    if isinstance(node.target, Primitive):
        return len(types) == 1 and (name in INSTRUCTIONS or node.target.is_elementwise)
    if _namespace(node) != "aten":
        return False
    if name in _WITH_PLACES and not isinstance(found, Tensor):
        return name == "max" or loop_matrices.orders_fast(node)
    calls = name in loop_matrices.CALLS or name in loop_fourier.STATEMENTS
    if not (isinstance(found, Tensor) or name in _SEVERAL_RESULTS) or calls:
        return False
    tables = (OPERATORS, REDUCTIONS, VIEWS, EXPRESSIONS, STATEMENTS, _BY_NAME)
    return any(name in table for table in tables) or _is_compound(name, node)


def _no_element(index: Sequence[str]) -> str:
    raise Unsupported("an operator's several results used as one")


def value_of(emitter: Emitter, node: fx.Node) -> Value:
    """Emit what a node calls; return its result, of which several are read by `operator.getitem` only."""
    meta = node.meta.get("val")
    name = name_of(node)
    if node.target is operator.getitem:
        value = _part(emitter, *node.args)
        assert isinstance(meta, Tensor)
    elif isinstance(node.target, Primitive) and (nested := _NESTED.get(name)) is not None:
        emitter.several[node] = nested(emitter, node, node.target)
        return Value((), torch.bool, _no_element)
    elif isinstance(node.target, HigherOrderOperator) and name == "while_loop":
        emitter.several[node] = loop_control_flow.while_of_torch(emitter, *node.args)  # pyright: ignore
        return Value((), torch.bool, _no_element)
    elif name in loop_matrices.CALLS and _namespace(node) == "aten":
        emitter.several[node] = _called(emitter, name, node)
        if not isinstance(meta, Tensor):
            return Value((), torch.bool, _no_element)
        value = emitter.several[node][0]
    elif name in SEVERAL and _namespace(node) == "aten":
        emitter.several[node] = SEVERAL[name](emitter, node, *emitter.arguments(node))
        if not isinstance(meta, Tensor):
            return Value((), torch.bool, _no_element)
        value = emitter.several[node][0]
    elif _is_compound(name, node):
        emitter.several[node] = _spelled(emitter, node)
        if not isinstance(meta, Tensor):
            return Value((), torch.bool, _no_element)
        value = emitter.several[node][0]
    elif name in _SEVERAL_RESULTS or (isinstance(node.target, Primitive) and name in INSTRUCTIONS):
        return Value((), torch.bool, _no_element)  # nothing reads it but getitem, which looks at the node
    elif not isinstance(meta, Tensor) or meta.dtype not in C_TYPES or _namespace(node) != "aten":
        raise Unsupported(str(node.target))
    elif not set(node.kwargs) <= _UNDERSTOOD | ({"dim"} if name == "linalg_cross" else set()):
        raise Unsupported(f"{name} with {', '.join(node.kwargs)}")
    elif name == "copy_" and _is_new(node.args[0]):
        shape, new = tuple(meta.shape), emitter.values[node.args[1]]  # pyright: ignore
        value = Value(shape, meta.dtype, lambda i: element_of(new, i, shape, meta.dtype))
    elif node.target is torch.ops.aten.view.dtype:
        value = _same_bits(emitter, tuple(meta.shape), emitter.arguments(node)[0], meta.dtype)
    elif (view := VIEWS.get(name)) is not None:
        operand, *rest = emitter.arguments(node)
        if any(isinstance(a, Value) for a in rest):
            raise Unsupported(f"{name} by a value")
        if name in RESHAPES:
            operand = _before_it_was_reshaped(emitter, node)
        value = view(tuple(meta.shape), _before_it_is_repeated(emitter, operand, meta.numel()), *rest)
    else:
        value = _computed(emitter, name, node, tuple(meta.shape), meta.dtype)
        is_several_times = (
            len(node.users) > 1
            and not value.is_held
            and not _is_short_test(value)
            and not _is_cheaper_than_memory(node, value)
        )
        is_wanted = math.prod(value.shape) == 1 or is_several_times
        if is_wanted and value.place is None:
            value = emitter.stored(value)
    is_expression = not value.is_held and value.place is None
    most = _SHORT if len(node.users) > 1 else _LONG
    depth = 1 + max((emitter.depths.get(n, 0) for n in node.all_input_nodes), default=0)
    if is_expression and (depth > _DEEP or len(value.text) > most or (len(node.users) > 1 and value.takes_long)):
        value = emitter.stored(value)
    elif is_expression:
        emitter.depths[node] = depth
    assert value.shape == tuple(meta.shape) and value.dtype is meta.dtype, node.format_node()
    return value


def _computed(emitter: Emitter, name: str, node: fx.Node, shape: tuple[int, ...], dtype: torch.dtype) -> Value:
    args = emitter.arguments(node)
    if rounding := node.kwargs.get("rounding_mode"):
        name = f"{name} {rounding}"
    if name in ("add", "sub", "rsub"):
        if (node.kwargs.get("alpha") or (args[2:] or [1])[0]) != 1:
            raise Unsupported("alpha")
        name, args = ("sub", args[1::-1]) if name == "rsub" else (name, args[:2])
    if name in ("__rshift__", "bitwise_right_shift") and isinstance(args[1], int):
        return loop_elements.shifted_right(args[0], args[1], shape, dtype)
    exponent = loop_elements.integer(args[1]) if name == "pow" else None
    # Of real numbers torch makes products for these alone.
    if exponent is not None and (dtype.is_complex or (dtype.is_floating_point and abs(exponent) in (1, 2, 3))):
        return loop_elements.power(args[0], exponent, shape, dtype)
    if name == "exp" and args[0].exponential is not None:
        return args[0].exponential
    if name in OPERATORS:
        args = [_before_it_is_repeated(emitter, a, math.prod(shape)) if isinstance(a, Value) else a for a in args]
        return elementwise(OPERATORS[name], name, args, shape, dtype)
    if name in REDUCTIONS:
        return loop_reductions.reduction(emitter, name, node.kwargs, args, shape, dtype)
    named = {k: v for k, v in node.kwargs.items() if k in ("min", "max", "dim")}
    if name == "where" and (value := loop_indexing.chosen(emitter, shape, dtype, *args)) is not None:
        return value
    if name in EXPRESSIONS:
        return EXPRESSIONS[name](shape, dtype, *args, **named)
    if loop_parts.is_read_in_parts(node):
        return loop_parts.read_in_parts(emitter, shape, dtype, *args, **named)
    if name == "index_select" and (start := loop_indexing.start_of_run(node)) is not None:
        return loop_indexing.run_of(emitter, shape, args[0], args[1], emitter.values[start])
    if name in SETTING:
        x = loop_indexing.as_it_may_be_set(emitter, node, args[0])
        args = [x, *emitter.arguments(node)[1:]]  # what they read of it may have been stored meanwhile
    if name in STATEMENTS:
        return STATEMENTS[name](emitter, shape, dtype, *args, **named)
    raise Unsupported(name)


def _before_it_was_reshaped(emitter: Emitter, node: fx.Node) -> Value:
    """Return what a node reshapes: of one that was reshaped there and back the elements are found without dividing."""
    operand: Any = node.args[0]
    while not emitter.values[operand].is_held:
        if _is_view(operand, *RESHAPES):
            operand = operand.args[0]
        elif _is_view(operand, "permute") and _is_view(turned := operand.args[0], "permute"):
            first, second = ([d % len(order) for d in order] for order in (turned.args[1], operand.args[1]))
            if emitter.values[turned].is_held or [first[d] for d in second] != sorted(first):
                break
            operand = turned.args[0]
        else:
            break
    return emitter.values[operand]


def _is_view(node: fx.Node, *names: str) -> bool:
    return name_of(node) in names and _namespace(node) == "aten"


def _before_it_is_repeated(emitter: Emitter, x: Value, count: int) -> Value:
    """Return what is read as so many elements: stored first, if it is fewer and each takes long."""
    return emitter.stored(x) if math.prod(x.shape) < count and not x.is_held and x.takes_long else x


def _is_short_test(x: Value) -> bool:
    """Tell whether x is booleans that are computed where they are read: GCC (12) has no vectors for them beside calls."""
    return x.dtype is torch.bool and not x.takes_long and len(x.text) < _SHORT


def _is_cheaper_than_memory(node: fx.Node, x: Value) -> bool:
    """Tell whether to compute a large array's elements wherever they are read takes less time than to store them."""
    if math.prod(x.shape) < _MANY or len(x.text) > _CHEAP or x.calls:
        return False
    return sum(name_of(user) not in OPERATORS and name_of(user) not in REDUCTIONS for user in node.users) <= 1


def _part(emitter: Emitter, source: Any, index: Any) -> Value:
    """Return one result of an operator that has several."""
    if source in emitter.several:
        found, shape = emitter.several[source][index : index + 1], tuple(source.meta["val"][index].shape)
        if not found:
            raise Unsupported(f"result {index} of {source.target}")
        return found[0] if found[0].shape == shape else slice_of(shape, found[0], -1, 0, shape[-1])
    name, given = name_of(source), emitter.arguments(source)
    shape, operand = tuple(source.meta["val"][index].shape), given[0]
    if name in _SEVERAL_RESULTS:
        dim = (given[-1] if len(given) > (1 if name == "unbind" else 2) else 0) % len(operand.shape)
        if name == "unbind":
            return select(shape, operand, dim, index)
        start = sum(given[1][:index]) if name == "split_with_sizes" else given[1] * index
        return slice_of(shape, operand, dim, start, start + shape[dim])
    if name in INSTRUCTIONS:
        dtype = source.meta["val"][0].dtype
        return emitter.stored(elementwise(INSTRUCTIONS[name], name, given, shape, dtype))
    raise Unsupported(f"result {index} of {name}")


def _called(emitter: Emitter, name: str, node: fx.Node) -> list[Value]:
    """Emit a call of a C++ function on small arrays, for each of a batch; return its results."""
    given = emitter.arguments(node)
    if name == "_linalg_svd" and all(u.target is operator.getitem and u.args[1] == 1 for u in node.users):
        given = [given[0], False, False]  # no vectors, which torch's svdvals asks for all the same
    call = loop_matrices.CALLS[name](*given, **node.kwargs)
    values = [value for value, _ in call.operands]
    size = math.prod(values[0].shape)
    emitter.made["room"] += _ROOM_OF_CALL * size  # what is done with the results costs little beside the call
    emitter.work += size if call.over_rows else size * values[0].shape[-1] // _WORK_OF_CALL
    types = [*((v.shape, v.dtype) for v in values), *((shape, dtype) for shape, dtype, _ in call.made)]
    names = [emitter.declared(shape, dtype) for shape, dtype in types]
    emitter.lines += carry_over(names[: len(values)], [replace(v, place=None) for v in values])
    place = emitter.new_name("n")
    batch, arguments = loop_matrices.arguments(call, names, [shape for shape, _ in types], place)
    emitter.lines.append(f"for (int {place} = 0; {place} < {batch}; ++{place}) {call.function}({arguments});")
    return [in_buffer(names[r], *types[r]) for r in call.results]


def _is_compound(name: str, node: fx.Node) -> bool:
    """Tell whether an operator of torch's is one that only its decomposition says something about."""
    if _namespace(node) != "aten" or name in OPERATORS or name in REDUCTIONS or name in VIEWS:
        return False
    if name in _BY_NAME or name in EXPRESSIONS or name in STATEMENTS:
        return False
    from torch._decomp import decomposition_table

    return node.target in decomposition_table and not node.target._schema.is_mutable  # pyright: ignore


def _spelled(emitter: Emitter, node: fx.Node) -> list[Value]:
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
    operands = [emitter.held(emitter.values[arguments[i]]) for i in places]
    inner = emitter.within(body)
    results = inner.emit(operands)
    emitter.lines += inner.lines
    return [emitter.held(v) for v in results]


def _same_bits(emitter: Emitter, shape: tuple[int, ...], x: Value, dtype: torch.dtype) -> Value:
    kind, parts = C_TYPES[dtype], x.dtype.itemsize // dtype.itemsize
    if parts == 1:
        return Value(shape, dtype, lambda i: f"same_bits<{kind}, {C_TYPES[x.dtype]}>({x.load(i)})")
    if parts == 0 or {kind_of(dtype), kind_of(x.dtype)} - set("iuw"):
        raise Unsupported("bits of another width")
    width, whole = 8 * dtype.itemsize, emitter.held(x)  # the lowest bits come first
    return Value(
        shape, dtype,
        lambda i: f"({kind})({whole.load([*i[:-1], f'({i[-1]})/{parts}'])} >> {width}*(({i[-1]})%{parts}))",
    )  # fmt: skip


def _threefry2x32(emitter: Emitter, node: fx.Node, cipher: Any) -> list[Value]:
    words = [emitter.held(v) for v in emitter.arguments(node)]
    shape = tuple(node.meta["val"][0].shape)

    def load(index: Sequence[str]) -> str:
        return f"threefry({', '.join(element_of(w, index, shape, torch.int32) for w in words)})"

    both = emitter.stored(Value(shape, torch.int64, load))
    return [
        Value(shape, torch.int32, lambda i: f"(int32_t)({both.load(i)} >> 32)"),
        Value(shape, torch.int32, lambda i: f"(int32_t)({both.load(i)})"),
    ]


_NESTED = {**loop_control_flow.NESTED, "threefry2x32": _threefry2x32}


def _is_new(x: Any) -> bool:
    """Tell whether nothing reads the elements that x is made with."""
    return len(x.users) == 1 and x.target in (torch.ops.aten.zeros.default, torch.ops.aten.empty.memory_format)


def _namespace(node: fx.Node) -> str:
    return getattr(node.target, "namespace", "")
