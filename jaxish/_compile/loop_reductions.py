"""Rows of a native loop's arrays folded: sums and extrema, where they are, running sums, and softmax, which divides by sums."""

import functools
import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

import torch
from torch import fx

from .loop_elements import element_of, elementwise
from .loop_emitter import Emitter
from .loop_operators import C_TYPES, OPERATORS, REDUCTIONS, kind_of
from .loop_ranges import has_tests
from .loop_unrolling import MOST_UNROLLED, chooses_complex, reads_by_condition
from .loop_values import Unsupported, Value, flat_index, in_buffer, in_one_loop, is_in_order, loops_over
from .loop_views import reshape


def reduction(
    emitter: Emitter,
    name: str,
    kwargs: Mapping[str, Any],
    args: Sequence[Any],
    shape: tuple[int, ...],
    dtype: torch.dtype,
) -> Value:
    """Emit what one of `REDUCTIONS` makes of its arguments, as torch's operator is given them."""
    x: Value = args[0]
    rank, kind = len(x.shape), C_TYPES[dtype]
    start, step = REDUCTIONS[name].start(dtype), OPERATORS[REDUCTIONS[name].step].form(dtype)
    if start is None or step is None:
        raise Unsupported(f"{name} of {dtype}")
    dims = args[1] if len(args) > 1 and args[1] is not None else list(range(rank))
    axes = {d % rank for d in ([dims] if isinstance(dims, int) else dims) or range(rank)} if rank else set()
    scale = "{0}"
    if name == "mean":
        # A quotient by a complex number would keep an infinity that JAX's product loses.
        count = math.prod(x.shape[a] for a in axes)
        scale = f"{{0}} * ({kind})(1. / {count})" if dtype.is_complex else f"{{0}} / ({kind}){count}"
    if dtype is torch.bool:  # as bytes, of which GCC (12) has vectors
        x = Value(x.shape, torch.uint8, lambda i, x=x: f"convert<uint8_t>({element_of(x, i, x.shape, torch.bool)})")
        found = _folded(emitter, x, axes, shape, torch.uint8, start, step, scale)
        return Value(shape, dtype, lambda i: f"(bool)({found.load(i)} != 0)")
    return _folded(emitter, x, axes, shape, dtype, start.replace("{T}", kind), step, scale)


def _folded(
    emitter: Emitter,
    x: Value,
    axes: Set[int],
    shape: tuple[int, ...],
    dtype: torch.dtype,
    start: str,
    step: str,
    scale: str,
) -> Value:
    """Emit loops in the order of memory that fold x along axes: the last ones in one go, others element by element."""
    if x.dtype is not dtype:
        x = Value(x.shape, dtype, lambda i, x=x: element_of(x, i, x.shape, dtype))
    kind, rank = C_TYPES[dtype], len(x.shape)
    index = [f"i{d}" for d in range(rank)]
    kept = [d for d in range(rank) if d not in axes]
    lead = max(kept, default=-1) + 1  # behind it all are folded
    row = math.prod(x.shape[lead:])
    combine = f"[]({kind} a, {kind} b) {{ return ({kind})({step.format('a', 'b')}); }}"
    value = _row_folded(emitter, x, lead, combine, f"({kind}){start}")
    free, sizes = [index[d] for d in kept], [x.shape[d] for d in kept]
    lines = emitter.lines_for(value)
    target, loops = emitter.declared(shape, dtype, lines), loops_over(index[:lead], x.shape[:lead])
    element = f"{target}[{flat_index(free, sizes)}]"
    if row and math.prod(x.shape[:lead]) == math.prod(sizes):
        lines.append(f"{loops}{element} = {scale.format(value)};")
    else:
        lines.append(f"{loops_over(free, sizes)}{element} = {start};")
        lines += [f"{loops}{element} = {combine}({element}, {value});"] if row else []
        lines.append(f"{loops_over(free, sizes)}{element} = {scale.format(element)};")
    return in_buffer(target, shape, dtype)


def _row_folded(emitter: Emitter, x: Value, lead: int, combine: str, start: str) -> str:
    text, count = _in_row(emitter, x, lead)
    return text if count == 1 else f"folded<{count}>({start}, {combine}, EACH {{ return {text}; }})"


def _in_row(emitter: Emitter, x: Value, lead: int) -> tuple[str, int]:
    """Return what element `r` of a row of x is, which all dimensions from `lead` on make, and how many it has.

    It is computed where it is read, unless it is better to have it in memory before.
    """
    index = ["0" if n == 1 else f"i{d}" for d, n in enumerate(x.shape)]
    behind, sizes = [i for i in index[lead:] if i != "0"], [n for n in x.shape[lead:] if n != 1]
    text = x.load(index)
    by_condition = chooses_complex(text) or (reads_by_condition(text) and math.prod(sizes) <= MOST_UNROLLED)
    is_variable = x.is_held and math.prod(x.shape) == 1  # there is nothing better to store it in
    if not is_in_order(x) and not is_variable and (has_tests(text) or by_condition or not emitter.changes(text)):
        return _in_row(emitter, emitter.stored(x), lead)
    row = in_one_loop(behind, sizes, text, "r") if behind else text
    if row is None or "(r)*" in row:  # one after the other they do not lie in memory
        return _in_row(emitter, emitter.stored(x), lead)
    return row, math.prod(sizes)


def _read(emitter: Emitter, x: Value) -> Value:
    """Return x read from memory: from where it is, if each element's place is easily found."""
    return x if x.place is None and x.is_read else emitter.stored(x)


def _along(
    emitter: Emitter,
    x: Value,
    dim: int,
    shape: tuple[int, ...],
    dtype: torch.dtype,
    start: str,
    step: str,
    end: str = "",
) -> Value:
    """Emit a loop over each row of x along a dimension: `step` sees an element `now` at `r`, and writes `{result}`.

    A result without that dimension is written at the `end`.
    """
    source, name = _read(emitter, x), emitter.declared(shape, dtype)
    index = [f"i{d}" for d in range(len(x.shape))]
    others, sizes = [*index[:dim], *index[dim + 1 :]], [*x.shape[:dim], *x.shape[dim + 1 :]]
    element = [*others[:dim], "r", *others[dim:]]
    result = f"{name}[{flat_index(element if len(shape) == len(x.shape) else others, shape)}]"
    emitter.lines.append(
        f"{loops_over(others, sizes)}{{ {start} for (int r = 0; r < {x.shape[dim]}; ++r) {{ "
        f"const {C_TYPES[x.dtype]} now = {source.load(element)}; {step.replace('{result}', result)} }} "
        f"{end.replace('{result}', result)} }}"
    )
    return in_buffer(name, shape, dtype)


def _place_of_most(
    comparison: str, emitter: Emitter, shape: tuple[int, ...], dtype: torch.dtype, x: Value, dim: int | None = None,
    keepdim: bool = False,  # as `shape` says
) -> Value:  # fmt: skip
    if dim is None or not x.shape:
        x, dim = reshape((math.prod(x.shape),), x), 0
    dim, kind = dim % len(x.shape), C_TYPES[x.dtype]
    row = (*x.shape[:dim], *x.shape[dim + 1 :])
    is_more = f"(now {comparison} most) | (is_nan(now) & !is_nan(most))"  # without branches
    index, place = [f"i{d}" for d in range(len(row))], emitter.declared(row, dtype)
    result = f"{place}[{flat_index(index, row)}]"
    if dim == len(row):
        element, count = _in_row(emitter, x, dim)
        more = f"[]({kind} now, {kind} most) {{ return {is_more}; }}"
        found = f"place_of_most<{count}, {kind}>({more}, EACH {{ return {element}; }})"
        emitter.lines.append(f"{loops_over(index, row)}{result} = {found};")
    else:
        source, name = _read(emitter, x), emitter.declared(row, x.dtype)
        first, now = (source.load([*index[:dim], r, *index[dim:]]) for r in ("0", "r"))
        most, inner = f"{name}[{flat_index(index, row)}]", loops_over(index[dim:], row[dim:])
        emitter.lines.append(
            f"{loops_over(index[:dim], row[:dim])}{{ {inner}{most} = {first}, {result} = 0; "
            f"for (int r = 1; r < {x.shape[dim]}; ++r) {inner}{{ const {kind} now = {now}, most = {most}; "
            f"const bool is_more = {is_more}; {most} = is_more ? now : most; {result} = is_more ? r : {result}; }} }}"
        )
    return reshape(shape, in_buffer(place, row, dtype))


def _running(
    name: str, start: str, emitter: Emitter, shape: tuple[int, ...], dtype: torch.dtype, x: Value, dim: int
) -> Value:
    form = OPERATORS[name].form(dtype)
    if form is None or not shape:
        raise Unsupported(f"a running {name} of {dtype}")
    # As torch does: what is accumulated is wider than what comes out.
    wide = {"f": "double", "c": "Complex<double>"}.get(kind_of(dtype), C_TYPES[dtype])
    step = f"total = {form.format('total', f'convert<{wide}>(now)')}; {{result}} = total;"
    return _along(emitter, x, dim % len(shape), shape, dtype, f"{wide} total = {start};", step)


def _running_extremum(name: str, emitter: Emitter, _: fx.Node, x: Value, dim: int) -> list[Value]:
    """Return the extrema up to each element; not where they are, which nothing asks for."""
    start, form = REDUCTIONS[name].start(x.dtype), OPERATORS[REDUCTIONS[name].step].form(x.dtype)
    if start is None or form is None or not x.shape:
        raise Unsupported(f"a running {name} of {x.dtype}")
    kind, step = C_TYPES[x.dtype], f"most = {form.format('most', 'now')}; {{result}} = most;"
    start = f"{kind} most = {start.replace('{T}', kind)};"
    return [_along(emitter, x, dim % len(x.shape), x.shape, x.dtype, start, step)]


def _greatest_and_place(
    emitter: Emitter, node: fx.Node, x: Value, dim: int | None = None, keepdim: bool = False
) -> list[Value]:
    shape, held = tuple(node.meta["val"][0].shape), emitter.held(x)
    greatest = reduction(emitter, "amax", {}, [held, dim, keepdim], shape, x.dtype)
    return [greatest, _place_of_most(">", emitter, shape, torch.int64, held, dim)]


def _softmax(emitter: Emitter, shape: tuple[int, ...], dtype: torch.dtype, x: Value, dim: int, *_: Any) -> Value:
    powers, total = _softmax_parts(emitter, shape, dtype, x, dim)[1:]
    return _combined("div", powers, total)


def _log_softmax(emitter: Emitter, shape: tuple[int, ...], dtype: torch.dtype, x: Value, dim: int, *_: Any) -> Value:
    shifted, powers, total = _softmax_parts(emitter, shape, dtype, x, dim)
    found = _combined("sub", shifted, emitter.stored(_combined("log", total)))  # once for each row
    return replace(found, exponential=_combined("div", powers, total))


def _softmax_parts(
    emitter: Emitter, shape: tuple[int, ...], dtype: torch.dtype, x: Value, dim: int
) -> tuple[Value, ...]:
    """Return x below its greatest along a dimension, the exponentials of that, and their sum."""
    if x.dtype is not dtype or not shape:
        raise Unsupported(f"a softmax of {x.dtype} as {dtype}")
    row = tuple(1 if d == dim % len(shape) else n for d, n in enumerate(shape))
    greatest = reduction(emitter, "amax", {}, [x, dim, True], row, dtype)
    shifted = emitter.stored(_combined("sub", x, greatest))
    powers = emitter.stored(_combined("exp", shifted))
    return shifted, powers, reduction(emitter, "sum", {}, [powers, dim, True], row, dtype)


def _combined(name: str, *operands: Value) -> Value:
    return elementwise(OPERATORS[name], name, operands, operands[0].shape, operands[0].dtype)


STATEMENTS = {
    "argmax": functools.partial(_place_of_most, ">"),
    "argmin": functools.partial(_place_of_most, "<"),
    "cumsum": functools.partial(_running, "add", "0"),
    "cumprod": functools.partial(_running, "mul", "1"),
    "logcumsumexp": functools.partial(_running, "logaddexp", "-Inf"),
    "_softmax": _softmax,
    "_log_softmax": _log_softmax,
}

SEVERAL = {
    "cummax": functools.partial(_running_extremum, "amax"),
    "cummin": functools.partial(_running_extremum, "amin"),
    "max": _greatest_and_place,
}
