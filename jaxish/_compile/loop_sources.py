"""Loops and small graphs as the text of one C++ function each: what it is given, what it fills, and how it may be run.

What is written out within, step by step, loop_nodes.py says. Raises `Unsupported` where something is not.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import fx

from .._core import cache, graph
from .._core.graph import Graph, TensorType
from .._core.operators import aten
from . import lapack, loop_blocks, loop_complex, loop_fourier, loop_header, loop_matrices, loop_products, loop_windows
from .loop_emitter import MOST_ELEMENTS, Emitter, carry_over, row_of
from .loop_nodes import value_of
from .loop_operators import C_TYPES
from .loop_prelude import PRELUDE, remainders_of
from .loop_ranges import in_ranges, in_rows
from .loop_repeats import written_once
from .loop_unrolling import not_unrolled
from .loop_values import Unsupported, Value, in_buffer

# Index variables are int.
_MOST_BYTES = 1 << 31
_HEADER = loop_header.guarded(
    f"{PRELUDE}{loop_complex.PRELUDE}{loop_products.PRELUDE}{lapack.PRELUDE}{loop_matrices.PRELUDE}"
    f"{loop_fourier.PRELUDE}"
)
LEAST_IN_ROWS = 0.7  # of what is done with large arrays, or others do it in fewer passes over memory


@dataclass(frozen=True)
class Source:
    """A loop in C++: its function, how many bytes each input has, and from which input on it has them per step.

    The inputs `carried` are the carry, and the first results what it becomes. A loop that is `open_ended` makes at most
    the steps that it is told to, and says in a last result, an integer, whether there are more. `at_once` is how many
    steps take little time, by the elements that a step computes. `loops` is how many others there are within. Steps
    that are `independent` are made by several threads at once. Loops over arrays are shared by threads if it `is_parallel`;
    the share `in_rows` of what they do goes along rows (`loop_blocks.Blocks`). `symbol` is the function's name.
    """

    function: str
    sizes: list[int]
    sliced: int
    carried: range = range(0)
    open_ended: bool = False
    at_once: int = 1 << 62
    name: str = "a loop"
    loops: int = 0
    independent: bool = False
    is_parallel: bool = False
    in_rows: float = 0
    symbol: str = "loop"

    def bytes_of_inputs(self, length: int) -> list[int]:
        """Return how many bytes the inputs of a loop of this length have."""
        return [*self.sizes[: self.sliced], *(size * length for size in self.sizes[self.sliced :])]

    def apart(self) -> "Source":
        """Return this with a name by its text, so that it may be in one file with others."""
        symbol = f"graph_{cache.key_of(self.function)}"
        return replace(
            self, function=self.function.replace(_WHOLE.format("loop"), _WHOLE.format(symbol)), symbol=symbol
        )

    @property
    def text(self) -> str:
        """The text of a file with this function alone."""
        return file_of([self.function])


def file_of(functions: Sequence[str]) -> str:
    """Return the text of a file with these functions, and with what they may call."""
    text = "\n".join(functions)
    tables = "".join(library.tables_of(text) for library in (lapack, loop_fourier))
    return f"{_HEADER}{tables}{remainders_of(text)}{text}"


def _pointer(name: str, position: int, type: TensorType, source: str) -> str:
    kind = C_TYPES[type.dtype]
    return f"{'const ' if source == 'in' else ''}{kind}* __restrict__ {name} = ({kind}*){source}[{position}];"


def _size(type: TensorType) -> int:
    return math.prod(type.shape)


def _sizes(types: Sequence[TensorType]) -> list[int]:
    """Return the bytes of tensors of these types. Raises `Unsupported` for what a loop cannot hold."""
    sizes = []
    for type in types:
        if type.dtype not in C_TYPES or type.device.type != "cpu":
            raise Unsupported(f"{type.dtype} on {type.device}")
        sizes.append(_size(type) * type.dtype.itemsize)
        if sizes[-1] >= _MOST_BYTES:
            raise Unsupported("an input is large")
    return sizes


def _copied(name: str, output: int, input: int, type: TensorType) -> str:
    """Return the statement that begins with the carry that is given, unless it is in its place."""
    size = f"sizeof({C_TYPES[type.dtype]}) * {_size(type)}"
    return f"if (in[{input}] != out[{output}]) std::memcpy({name}, in[{input}], {size});"


def _at_once(*emitters: Emitter) -> int:
    return max((1 << 18) // sum(e.work for e in emitters), 1)


# How a loop runs: backwards or not, and by how many threads what is shared by them.
_HOW = ["const bool reverse = given[1] & 1;", "const int threads = given[1] >> 1;"]
_MOST_IN_LOOP = 1 << 22  # elements of all values of a step that goes along rows


def _in_blocks(lines: Sequence[str], emitter: Emitter) -> loop_blocks.Blocks:
    """Return a step's statements in blocks. Raises `Unsupported` for one that torch's kernels make in less time."""
    blocks = loop_blocks.blocked(lines)
    if blocks.share < LEAST_IN_ROWS and emitter.is_large():
        raise Unsupported("the body is large, and does not go along rows")
    return blocks


def scan_source(body: Graph, consts: int, carries: int) -> Source:
    """Return the C++ of a scan: inputs (consts, init, xs), outputs (carry, ys). Raises `Unsupported`."""
    types, head = body.in_types, consts + carries
    sizes = _sizes([*types, *body.out_types])[: len(types)]
    names = [
        *(f"c{i}" for i in range(consts)),
        *(f"s{i}" for i in range(carries)),
        *(f"x{i}" for i in range(len(types) - head)),
    ]
    values = [
        in_buffer(f"({n}+step*{_size(t)})" if i >= head else n, t.shape, t.dtype, is_carry=consts <= i < head)
        for i, (n, t) in enumerate(zip(names, types, strict=True))
    ]
    emitter = Emitter(body, value_of, changing={"step", *names[consts:head]}, most_elements=_MOST_IN_LOOP)
    results = emitter.emit(values, range(consts, head))
    declared = [
        _pointer(n, i, t, "in") for i, (n, t) in enumerate(zip(names, types, strict=True)) if not consts <= i < head
    ]
    for i in range(carries):
        declared.append(_pointer(f"s{i}", i, types[consts + i], "out"))
        declared.append(_copied(f"s{i}", i, consts + i, types[consts + i]))
    y_types = body.out_types[carries:]
    declared += [_pointer(f"y{i}", carries + i, t, "out") for i, t in enumerate(y_types)]
    rows = [row_of(f"r{i}", f"y{i}", "step", t) for i, t in enumerate(y_types)]
    stores = carry_over([f"r{i}" for i in range(len(y_types))], results[carries:])
    stores += carry_over([f"s{i}" for i in range(carries)], results[:carries])
    blocks = _in_blocks([*emitter.lines, *stores], emitter)
    text = _function(
        len(sizes),
        [*_HOW, *declared, *emitter.fixed],
        "for (int64_t n = 0; n < length; ++n)",
        ["const int64_t step = reverse ? length - 1 - n : n;", *rows, *blocks.lines],
        emitter.memory,
    )
    carried = range(consts, head)
    return Source(text, sizes, head, carried, at_once=_at_once(emitter), is_parallel=blocks.are_parallel)


_MOST_OF_A_GRAPH = 1 << 17  # elements of what a graph reads and returns together: beyond, kernels in parallel win
# If it factorizes matrices, or has complex numbers, which other compilers do not write out, or moves windows: torch takes
# ten times as long.
_MOST_ALONE = 1 << 19
_MOST_WORK = 1 << 23  # elements that the loops of a graph compute: some 10 ms in which nothing can interrupt them


def is_small(body: Graph) -> bool:
    """Tell whether a graph is one that may become a C++ function (`Whole`)."""
    elements = sum(map(_read, body.module.graph.find_nodes(op="placeholder"))) + sum(map(_size, body.out_types))
    if elements <= _MOST_OF_A_GRAPH or elements > _MOST_ALONE:
        return elements <= _MOST_OF_A_GRAPH
    if loop_matrices.is_factorizing(body) or loop_windows.moves_windows(body):
        return True
    types = map(graph.type_of, body.module.graph.nodes)
    return any(t is not None and t.dtype.is_complex for t in types)


_TAKERS = {aten.slice.Tensor, aten.select.int, aten.index_select.default, aten.index.Tensor, aten.gather.default}


def _read(operand: fx.Node) -> int:
    """Return how many elements of an input a graph reads: all, unless it takes some of it by index."""
    read, pending = 0, [operand]
    while pending:
        node = pending.pop()
        if all(user.target in _TAKERS and user.args[0] is node for user in node.users):
            pending += node.users
        else:
            read += _elements(node)
    return min(read, _elements(operand))


def _elements(node: fx.Node) -> int:
    type = graph.type_of(node)
    return 0 if type is None else _size(type)


def graph_source(
    body: Graph,
    name: str = "a graph",
    function: str = "loop",
    most_elements: int = MOST_ELEMENTS,
    most_work: int = _MOST_WORK,
    carried: int | None = None,
) -> Source:
    """Return the C++ of a small graph: inputs and outputs are its own, the length is 1. Raises `Unsupported`.

    The only output may be what the input at the position `carried` becomes by updates.

    A graph that is `open_ended` sets a last output, an integer, where it gives up: its loops take longer than a function
    may that cannot be interrupted, or a branch is taken that calls Python.
    """
    types = body.in_types
    sizes = _sizes([*types, *body.out_types])[: len(types)]
    emitter = Emitter(body, value_of, most_work=most_work, most_elements=most_elements)
    names = [f"y{i}" for i in range(len(body.out_types))]
    given = [in_buffer(f"c{i}", t.shape, t.dtype) for i, t in enumerate(types)]
    if carried is None:
        emitter.emit_into(given, names)
    else:
        _emit_update(emitter, given, carried)
    if emitter.work > most_work:
        raise Unsupported("the loops are long")
    declared = [_pointer(f"c{i}", i, t, "in") for i, t in enumerate(types) if i != carried]
    declared += [_pointer(n, i, t, "out") for i, (n, t) in enumerate(zip(names, body.out_types, strict=True))]
    declared += (
        [f"int64_t* __restrict__ over = (int64_t*)out[{len(names)}];", "int64_t work = 0;"] if emitter.gives_up else []
    )
    blocks = loop_blocks.blocked(emitter.lines)
    if blocks.are_parallel:
        declared.append("const int threads = given[1];")
    if carried is not None:
        declared.append(_copied("y0", 0, carried, types[carried]))
    loop = "for (int64_t n = 0; n < length; ++n)"
    text = _function(len(sizes), declared, loop, blocks.lines, emitter.memory, name=function)
    return Source(
        text, sizes, len(types), range(0) if carried is None else range(carried, carried + 1), emitter.gives_up,
        name=name, loops=emitter.loops, is_parallel=blocks.are_parallel, in_rows=blocks.share,
    )  # fmt: skip


def _emit_update(emitter: Emitter, given: Sequence[Value], carried: int) -> None:
    """Append the statements by which the array `y0` becomes the only result. Raises `Unsupported` where it is no update of it."""
    inputs, (shape, dtype) = list(given), (given[carried].shape, given[carried].dtype)
    inputs[carried] = in_buffer("y0", shape, dtype, is_carry=True)
    (result,) = emitter.emit(inputs, range(carried, carried + 1))
    if not result.is_update_of(inputs[carried]):
        raise Unsupported("a result that is no update")
    emitter.lines += carry_over(["y0"], [result])


def while_source(cond: Graph, body: Graph, cond_consts: int, body_consts: int) -> Source:
    """Return the C++ of a while loop: inputs (both constants, init), outputs the carry. Raises `Unsupported`."""
    carry_types = body.out_types
    names = [*(f"a{i}" for i in range(cond_consts)), *(f"b{i}" for i in range(body_consts))]
    types = [*cond.in_types[:cond_consts], *body.in_types[:body_consts]]
    sizes = _sizes([*types, *carry_types])
    constants = [in_buffer(n, t.shape, t.dtype) for n, t in zip(names, types, strict=True)]
    state = [in_buffer(f"s{i}", t.shape, t.dtype, is_carry=True) for i, t in enumerate(carry_types)]
    declared = [_pointer(n, i, t, "in") for i, (n, t) in enumerate(zip(names, types, strict=True))]
    for i, type in enumerate(carry_types):
        declared.append(_pointer(f"s{i}", i, type, "out"))
        declared.append(_copied(f"s{i}", i, len(names) + i, type))
    declared.append(f"int64_t* __restrict__ going = (int64_t*)out[{len(carry_types)}];")
    test, step = Emitter(cond, value_of), Emitter(body, value_of, most_elements=_MOST_IN_LOOP)
    (holds,) = test.emit([*constants[:cond_consts], *state])
    results = step.emit([*constants[cond_consts:], *state], range(body_consts, body_consts + len(state)))
    tested = [*test.lines, f"if (!({holds.load([])})) {{ *going = 0; break; }}"]
    inner = [*step.lines, *carry_over([f"s{i}" for i in range(len(state))], results)]
    blocks = _in_blocks(inner, step)
    lines = ["{", *tested, "}", *blocks.lines]  # nothing of the test is read after it: both may lie in the same memory
    memory = max(test.memory, step.memory)
    text = _function(len(sizes), [*_HOW, *declared], "for (int64_t n = 0; n < length; ++n)", lines, memory)
    return Source(
        text, sizes, len(sizes), range(len(names), len(sizes)), open_ended=True, at_once=_at_once(test, step),
        is_parallel=blocks.are_parallel,
    )  # fmt: skip


def map_source(body: Graph, shared: int) -> Source:
    """Return the C++ of an elementwise function: inputs (first position, shared, rows), outputs rows.

    The body takes the position of one element, the shared tensors, and an element of each row; there are `length` of those.
    """
    types = body.in_types
    sizes = _sizes([*types, *body.out_types])[: len(types)]
    names = [f"{'c' if i <= shared else 'x'}{i}" for i in range(len(types))]
    rows = [
        in_buffer(n if i <= shared else f"({n}+n)", t.shape, t.dtype)
        for i, (n, t) in enumerate(zip(names, types, strict=True))
    ]
    emitter = Emitter(body, value_of)
    results = emitter.emit([Value((), torch.int64, lambda _: "(*c0 + n)"), *rows[1:]])
    declared = [_pointer(n, i, t, "in") for i, (n, t) in enumerate(zip(names, types, strict=True))]
    declared += [_pointer(f"y{i}", i, t, "out") for i, t in enumerate(body.out_types)]
    assert all(math.prod(r.shape) == 1 for r in [*rows[shared + 1 :], *results])
    stores = [f"y{i}[n] = {r.load(['0'] * len(r.shape))};" for i, r in enumerate(results)]
    lines = [*emitter.lines, *stores]
    # No element is in another's way: GCC need not look for that, and then have the loop twice, of which a sampler's is long.
    loop = '_Pragma("GCC ivdep") for (int64_t n = begin; n < end; ++n)'
    text = _function(len(sizes), declared, loop, lines, emitter.memory, IN_PARTS)
    return Source(text, sizes, shared + 1, name="a draw", independent=True)


_WHOLE = 'extern "C" void {}(const int64_t* given)'
# Each thread has pointers of its own, of which the compiler knows that they do not overlap.
_PART = "static void part(const int64_t* given, int64_t begin, int64_t end)"
IN_PARTS = f"""{_WHOLE.format("loop")} {{
  const int64_t length = given[0], threads = given[1];
  #pragma omp parallel for num_threads(threads) if(threads > 1)
  for (int64_t i = 0; i < threads; ++i) part(given, length * i / threads, length * (i + 1) / threads);
}}
"""


def _function(
    inputs: int,
    declared: Sequence[str],
    loop: str,
    body: Sequence[str],
    memory: int,
    caller: str = "",
    name: str = "loop",
) -> str:
    """Return the function of this name, or a part of it that the `caller` calls."""
    lines = list(not_unrolled(in_ranges(in_rows(line)) for line in body))
    shifts = [
        f"const int32_t shift_{d} = shifts[{d}];"
        for d in sorted(set(re.findall(r"shift_(\d+)", " ".join([*declared, *lines]))))
    ]
    repeated, lines = written_once([*shifts, *declared], lines)
    text = _aligned("\n    ".join(lines))
    is_in_memory = any("memory.place" in part for part in (*declared, text))
    given = [
        *([] if caller else ["const int64_t length = given[0];"]),
        "const void* const* in = (const void* const*)(given + 2);",
        f"void* const* out = (void* const*)in + {inputs};",
        *([f"const Memory memory({memory});"] if is_in_memory else []),
    ]
    head = _aligned("\n  ".join([*given, *shifts, *repeated, *declared]))
    signature = _PART if caller else _WHOLE.format(name)
    return f"{signature} {{\n  {head}\n  {loop} {{\n    {text}\n  }}\n}}\n{caller}"


def _aligned(text: str) -> str:
    """Return text that aligns its arrays on the stack."""
    return re.sub(r"(?m)^( *)((?:const )?[\w<>]+ \w+\[\d*\](?:;| = \{))", r"\1ALIGNED \2", text)
