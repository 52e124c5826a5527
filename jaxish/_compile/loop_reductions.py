"""Rows of a native loop's arrays folded: sums and extrema, where they are, running sums, and softmax, which divides by sums."""

import functools
import math
import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

import torch
from torch import fx

from .loop_columns import Columns, columns_of, dimension_of_neighbours, suit_better_than_rows
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
    combine = f"[]({kind} a, {kind} b) {{ return ({kind})({step.format('a', 'b')}); }}"
    inner = _neighbours(x, kept) if lead < rank else list(range(max(axes, default=-1) + 1, rank))
    if inner and lead < rank:
        lead, value = rank, x.load(index)
    else:
        value = _row_folded(emitter, x, lead, combine, f"({kind}){start}")
    free, sizes = [index[d] for d in kept], [x.shape[d] for d in kept]
    lines = emitter.lines_for(value)
    target, loops = emitter.declared(shape, dtype, lines), loops_over(index[:lead], x.shape[:lead])
    element = f"{target}[{flat_index(free, sizes)}]"
    along = [d for d in sorted(axes) if d < lead and x.shape[d] != 1]
    columns = columns_of(x.shape, along, inner, f"{value}; {element}", rank - lead)
    if math.prod(x.shape) and not along:
        lines.append(f"{loops}{element} = {scale.format(value)};")
    elif columns is not None and suit_better_than_rows(columns, x.shape, inner):
        value, element = columns.text.rsplit("; ", 1)
        lines.append(columns.block(
            f"{columns.each}{element} = {start};",
            f"{columns.rows}{columns.each}{element} = {combine}({element}, {value});",
            f"{columns.each}{element} = {scale.format(element)};",
        ))  # fmt: skip
    else:
        lines.append(f"{loops_over(free, sizes)}{element} = {start};")
        lines += [f"{loops}{element} = {combine}({element}, {value});"] if math.prod(x.shape[lead:]) else []
        lines.append(f"{loops_over(free, sizes)}{element} = {scale.format(element)};")
    return in_buffer(target, shape, dtype)


def _neighbours(x: Value, kept: Sequence[int]) -> list[int]:
    """Return the kept dimension along which an array's elements are neighbours, if they are not along the last, folded one."""
    text = x.load([f"i{d}" for d in range(len(x.shape))])
    found = None if has_tests(text) or reads_by_condition(text) else dimension_of_neighbours(x.shape, text)
    return [found] if found is not None and found in kept else []


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


def _columns_along(emitter: Emitter, x: Value, dim: int, result: str) -> tuple[Columns, str, str] | None:
    """Return the columns of x along a dimension, what an element of one is, and `result` as a place; None where there are none.

    Elements are computed where they are read, if they are neighbours then: along the last dimension there are no vectors.
    """
    index = [f"i{d}" for d in range(len(x.shape))]
    if not x.is_read and (math.prod(x.shape[dim + 1 :]) == 1 or has_tests(x.load(index))):
        x = emitter.stored(x)
    behind = range(dim + 1, len(x.shape))
    columns = columns_of(x.shape, [dim], behind, f"{x.load(index)}; {result}")
    if columns is None:
        columns = columns_of(x.shape, [dim], behind, f"{emitter.stored(x).load(index)}; {result}")
    if columns is None:
        return None
    now, result = columns.text.rsplit("; ", 1)
    return columns, now, result


def _accumulated(emitter: Emitter, x: Value, dim: int, dtype: torch.dtype, wide: str, start: str, form: str) -> Value:
    """Emit loops that combine the elements of x along a dimension, each with what those before it make, as `wide` numbers."""
    name, index = emitter.declared(x.shape, dtype), [f"i{d}" for d in range(len(x.shape))]
    found = _columns_along(emitter, x, dim, f"{name}[{flat_index(index, x.shape)}]")
    if found is not None:
        columns, now, result = found
        total = columns.own("total")
        step = f"{total} = {form.format(total, f'convert<{wide}>(now)')}; {result} = {total};"
        emitter.lines.append(columns.block(
            f"ALIGNED {wide} total[{columns.width}];",
            f"{columns.each}{total} = {start};",
            f"{columns.rows}{columns.each}{{ const {C_TYPES[x.dtype]} now = {now}; {step} }}",
        ))  # fmt: skip
    return in_buffer(name, x.shape, dtype)


def _place_of_most(
    comparison: str, emitter: Emitter, shape: tuple[int, ...], dtype: torch.dtype, x: Value, dim: int | None = None,
    keepdim: bool = False,  # as `shape` says
) -> Value:  # fmt: skip
    if dim is None or not x.shape:
        x, dim = reshape((math.prod(x.shape),), x), 0
    dim, kind = dim % len(x.shape), C_TYPES[x.dtype]
    row = (*x.shape[:dim], *x.shape[dim + 1 :])
    is_more = f"(now {comparison} most) | (is_nan(now) & !is_nan(most))"  # without branches
    index, place = [f"i{d}" for d in range(len(x.shape))], emitter.declared(row, dtype)
    result = f"{place}[{flat_index([*index[:dim], *index[dim + 1 :]], row)}]"
    if dim == len(row):
        element, count = _in_row(emitter, x, dim)
        more = f"[]({kind} now, {kind} most) {{ return {is_more}; }}"
        found = f"place_of_most<{count}, {kind}>({more}, EACH {{ return {element}; }})"
        emitter.lines.append(f"{loops_over(index[:dim], row)}{result} = {found};")
    elif found := _columns_along(emitter, x, dim, result):
        columns, now, result = found
        own, first = columns.own("greatest"), re.sub(rf"\bi{dim}\b", "0", now)
        step = f"const bool is_more = {is_more}; {own} = is_more ? now : most; {result} = is_more ? i{dim} : {result};"
        emitter.lines.append(columns.block(
            f"ALIGNED {kind} greatest[{columns.width}];",
            f"{columns.each}{{ {own} = {first}; {result} = 0; }}",
            f"{columns.rows}{columns.each}{{ const {kind} now = {now}, most = {own}; {step} }}",
        ))  # fmt: skip
    return reshape(shape, in_buffer(place, row, dtype))


def _running(
    name: str, start: str, emitter: Emitter, shape: tuple[int, ...], dtype: torch.dtype, x: Value, dim: int
) -> Value:
    form = OPERATORS[name].form(dtype)
    if form is None or not shape:
        raise Unsupported(f"a running {name} of {dtype}")
    # As torch does: what is accumulated is wider than what comes out.
    wide = {"f": "double", "c": "Complex<double>"}.get(kind_of(dtype), C_TYPES[dtype])
    return _accumulated(emitter, x, dim % len(shape), dtype, wide, start, form)


def _running_extremum(name: str, emitter: Emitter, _: fx.Node, x: Value, dim: int) -> list[Value]:
    """Return the extrema up to each element; not where they are, which nothing asks for."""
    start, form = REDUCTIONS[name].start(x.dtype), OPERATORS[REDUCTIONS[name].step].form(x.dtype)
    if start is None or form is None or not x.shape:
        raise Unsupported(f"a running {name} of {x.dtype}")
    kind = C_TYPES[x.dtype]
    return [_accumulated(emitter, x, dim % len(x.shape), x.dtype, kind, start.replace("{T}", kind), form)]


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
