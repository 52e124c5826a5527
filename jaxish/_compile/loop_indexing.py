"""Elements of a native loop's tensors at indices that the loop computes: reading them, and setting them where they lie.

An index is kept within bounds by `at` (loop_prelude.py), so that no graph reads or writes other memory.
"""

import itertools
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
from torch import fx
from torch.utils._pytree import tree_leaves

from .._core import operators
from .loop_elements import EXPRESSIONS, filled
from .loop_emitter import Emitter, carry_over
from .loop_operators import OPERATORS, REDUCTIONS, SETTING, kind_of, name_of
from .loop_values import Unsupported, Update, Value, broadcast, flat_index, in_buffer, loops_over, nest, unless_spare
from .loop_views import RESHAPES

_INDICES = (torch.int32, torch.int64)


class NeedsMemory(Unsupported):
    """Elements are set of a value that is not in memory of its own."""


def taken(shape: tuple[int, ...], x: Value, places: Sequence[Value | None]) -> Value:
    """Return the elements of x at indices for some of its dimensions, which broadcast, as torch's indexing gives them."""
    dims = [d for d, p in enumerate(places) if p is not None]
    batch = _batch_shape(places)
    _check_sizes(x, dims)
    first = _first_of(dims)

    def load(index: Sequence[str]) -> str:
        entry = index[first : first + len(batch)]
        others = iter([*index[:first], *index[first + len(batch) :]])
        given = [*places, *[None] * (len(x.shape) - len(places))]
        return x.load(
            [next(others) if p is None else _read_at(p, entry, n) for p, n in zip(given, x.shape, strict=True)]
        )

    return Value(shape, x.dtype, load)


def start_of_run(node: fx.Node) -> fx.Node | None:
    """Return from which index on a node selects as many in a row as it does; None where it selects others.

    That is how `_lax/dynamic_slices.py` takes a slice.
    """
    places: Any = node.args[2]
    while places.target is torch.ops.aten._to_copy.default:
        places = places.args[0]
    if places.target is not torch.ops.aten.add.Tensor or places.kwargs or places.meta["val"].dtype not in _INDICES:
        return None
    added = places.all_input_nodes
    steps = [a for a in added if a.target is torch.ops.aten.arange.default and a.args == places.meta["val"].shape]
    starts = [a for a in added if a.meta["val"].dim() == 0]
    return starts[0] if len(starts) == len(steps) == 1 else None


def run_of(emitter: Emitter, shape: tuple[int, ...], x: Value, dim: int, start: Value) -> Value:
    """Return as many elements of x in a row, along one dimension, as `shape` has, of which no index is looked at by itself."""
    dim %= len(shape)
    last = x.shape[dim] - shape[dim]
    if last < 0:
        raise Unsupported("more than there is")
    first = emitter.stored(Value((), torch.int32, lambda _: f"at<{last + 1}>({start.load([])})")).load([])
    return Value(shape, x.dtype, lambda i: x.load([*i[:dim], f"({first}+{i[dim]})", *i[dim + 1 :]]))


def gathered(shape: tuple[int, ...], x: Value, dim: int, places: Value) -> Value:
    """Return the elements of x whose index along one dimension `places` gives, and whose others are their own."""
    _check_sizes(x, [dim])
    return Value(shape, x.dtype, lambda i: x.load([*i[:dim], _read_at(places, i, x.shape[dim]), *i[dim + 1 :]]))


def put(x: Value, places: Sequence[Value | None], new: Value, adds: bool) -> Value:
    """Return x with the elements at indices for some of its dimensions set to `new`, or `new` added to them."""
    rank = len(x.shape)
    given = [*places, *[None] * (rank - len(places))]
    dims = [d for d in range(rank) if given[d] is not None]
    rest = [d for d in range(rank) if given[d] is None]
    batch, first = _batch_shape(places), _first_of(dims)
    if new.dtype is not x.dtype or (x.spare is not None and given[x.spare] is None):
        raise Unsupported(f"{new.dtype} put into {x.dtype}, or along other dimensions than that of what is dropped")
    _check_sizes(x, dims)
    entry, inner = [f"e{d}" for d in range(len(batch))], [f"w{d}" for d in rest]

    def positions(entry: Sequence[str]) -> list[str]:
        return [_at(p, entry, x, d) for d, p in enumerate(given) if p is not None]

    def combined(old: str, entry: Sequence[str], inner: Sequence[str]) -> str:
        found = new.load(broadcast([*inner[:first], *entry, *inner[first:]], new.shape))
        return _combined("add", x.dtype, old, found) if adds else found

    def load(index: Sequence[str]) -> str:
        zeros, old = ["0"] * len(batch), x.load(index)
        test = " && ".join(f"({index[d]}) == {p}" for d, p in zip(dims, positions(zeros), strict=True))
        return f"(({test}) ? ({combined(old, zeros, [index[d] for d in rest])}) : ({old}))"

    index = [f"{'w' if d in rest else 'p'}{d}" for d in range(rank)]

    def update(target: str, test: str) -> str:
        lets = "".join(f"const int64_t p{d} = {p}; " for d, p in zip(dims, positions(entry), strict=True))
        each = nest(inner, [x.shape[d] for d in rest], f"{test}{target} = {combined(target, entry, inner)};")
        return f"{loops_over(entry, batch)}{{ {lets}{_within(x)}{each} }}"

    return _updated(x, update, index, load if math.prod(batch) == 1 else None)


def scattered(x: Value, dim: int, places: Value, new: Value, step: str | None = "add") -> Value:
    """Return x with the elements whose index along one dimension `places` gives set to `new`, or combined with it by an operator."""
    if new.dtype is not x.dtype or x.spare not in (None, dim):
        raise Unsupported(f"{new.dtype} put into {x.dtype}, or along another dimension than that of what is dropped")
    _check_sizes(x, [dim])
    entry = [f"e{d}" for d in range(len(x.shape))]

    def load(index: Sequence[str]) -> str:
        first = [*index[:dim], "0", *index[dim + 1 :]]
        old = x.load(index)
        return f"((({index[dim]}) == {_at(places, first, x, dim)}) ? ({_combined(step, x.dtype, old, new.load(first))}) : ({old}))"

    def update(target: str, test: str) -> str:
        found = _at(places, entry, x, dim)
        # Behind what the place depends on, elements that follow each other are set: in vectors, which GCC (12) has for
        # extrema in a loop alone.
        outer = max([dim, *(d for d, e in enumerate(entry) if re.search(rf"\b{e}\b", found))]) + 1
        combine = _onto if outer == len(entry) else _combined
        each = f"{test}{target} = {combine(step, x.dtype, target, new.load(entry))};"
        each = nest(entry[outer:], places.shape[outer:], each)
        return (
            f"{loops_over(entry[:outer], places.shape[:outer])}{{ const int64_t p{dim} = {found}; {_within(x)}{each} }}"
        )

    is_single = all(m == (1 if d == dim else n) for d, (m, n) in enumerate(zip(places.shape, x.shape, strict=True)))
    return _updated(x, update, [*entry[:dim], f"p{dim}", *entry[dim + 1 :]], load if is_single else None)


def is_first_slice(part: fx.Node, whole: fx.Node, dim: int | None = None) -> bool:
    """Tell whether a node takes the first slice of another one, along this dimension or any."""
    return part.target is torch.ops.aten.slice.Tensor and part.args == (
        whole,
        part.args[1] if dim is None else dim,
        0,
        1,
    )


def with_spare(x: Value, dim: int) -> Value:
    """Return x with its first slice along a dimension once more at the end: what is set there is dropped.

    So `_tensors/elements.py` writes what drops the indices that are out of bounds.
    """
    size = x.shape[dim]
    if not math.prod(x.shape):
        raise Unsupported("a slice of nothing")

    def load(index: Sequence[str]) -> str:
        return x.load([*index[:dim], unless_spare(index[dim], size), *index[dim + 1 :]])

    shape = (*x.shape[:dim], size + 1, *x.shape[dim + 1 :])
    memory = x.memory if dim == 0 else None
    return replace(x, shape=shape, load=load, is_held=False, memory=memory, spare=dim, exponential=None)


def _updated(
    x: Value, update: Callable[[str, str], str], index: Sequence[str], load: Callable[[Sequence[str]], str] | None
) -> Value:
    """Return x with the elements at an index set by the statement that `update` makes of where one is and a test before it."""
    if x.place is None and load is None:
        raise NeedsMemory("several elements set of what is no carry")

    def unknown(index: Sequence[str]) -> str:
        raise Unsupported("several elements set, and read in the same step")

    updates, place = (), x.place
    if place is not None:
        statement = lambda test: update(place(index), "" if test is None else f"if ({test}) ")  # noqa: E731
        updates = (*x.updates, Update(statement, tuple(index), place))
    return replace(x, load=load or unknown, is_held=False, updates=updates, exponential=None)


def chosen(
    emitter: Emitter, shape: tuple[int, ...], dtype: torch.dtype, test: Value, yes: Any, no: Any
) -> Value | None:
    """Return a carry of which elements are set where a test holds, or others where it does not; None where that is not all.

    So lanes of a loop keep what they have once they are done, and those of a branch set what is theirs.
    """
    if not all(isinstance(option, Value) and option.shape == shape for option in (yes, no)) or not yes.is_update_of(no):
        return None
    since = sum(
        1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(yes.updates, no.updates, strict=False))
    )
    own = {"": yes.updates[since:], "!": no.updates[since:]}
    if not any(own.values()) or not all(yes.lies_as(u.place, len(u.index)) for some in own.values() for u in some):
        return None
    held = emitter.stored(test)
    holds = lambda index: held.load(broadcast(index, held.shape))  # noqa: E731
    chosen = (u.where(lambda i, sign=sign: f"{sign}{holds(i)}") for sign, some in own.items() for u in some)
    updates = (*yes.updates[:since], *chosen)
    return replace(
        EXPRESSIONS["where"](shape, dtype, held, yes, no), place=yes.place, memory=yes.memory, updates=updates
    )


def _first_of(dims: Sequence[int]) -> int:
    """Return the first dimension of the result that indices for these dimensions make; apart they come before all others."""
    return dims[0] if list(dims) == list(range(dims[0], dims[-1] + 1)) else 0


def _batch_shape(places: Sequence[Value | None]) -> tuple[int, ...]:
    given = [p for p in places if p is not None]
    if not given or any(p.dtype not in _INDICES for p in given):
        raise Unsupported("indices that are no integers")
    return np.broadcast_shapes(*(p.shape for p in given))


def _check_sizes(x: Value, dims: Sequence[int]) -> None:
    if not all(x.shape[d] for d in dims):
        raise Unsupported("elements of nothing")


def _at(places: Value, entry: Sequence[str], x: Value, dim: int) -> str:
    """Return which index of x along a dimension is set; one that is dropped is the last where there is room."""
    found = places.load(broadcast(entry, places.shape))
    if dim != x.spare:
        return f"at<{x.shape[dim]}>({found})"
    return f"kept<{x.shape[dim] - 1}>({found})" if x.has_room else found


def _read_at(places: Value, entry: Sequence[str], size: int) -> str:
    return f"place(at<{size}>({places.load(broadcast(entry, places.shape))}))"


def _within(x: Value) -> str:
    return "" if x.spare is None or x.has_room else f"if (p{x.spare} >= 0 && p{x.spare} < {x.shape[x.spare] - 1}) "


def _combined(step: str | None, dtype: torch.dtype, first: str, second: str) -> str:
    if step is None:
        return second
    is_sum_of_words = step == "add" and kind_of(dtype) == "w"  # which torch adds as signed ones
    form = OPERATORS[step].form(torch.int64 if is_sum_of_words else dtype)
    if form is None:
        raise Unsupported(f"{step} of {dtype}")
    return form.format(first, second)


def _onto(step: str | None, dtype: torch.dtype, target: str, new: str) -> str:
    """Return what an element becomes that is set in its turn: there are no vectors of such, for which forms are written."""
    return re.sub(r"^(maximum|minimum)\(", r"\1_onto(", _combined(step, dtype, target, new)) if step else new


_Indices = Sequence[fx.Node | None]


def as_it_may_be_set(emitter: Emitter, node: fx.Node, x: Value) -> Value:
    """Return x, of which a node sets elements: no carry if they are several and something reads them in the same step.

    It is not a copy that was set before, either, if something else reads that.
    """
    if x.copy is not None and not _is_read_by_it_alone(node):
        x = replace(x, copy=None)
    index = node.args[1] if node.target is torch.ops.aten.index_put.default else [node.args[2]]
    shapes = [emitter.values[n].shape for n in index if n is not None]  # pyright: ignore
    if x.place is None or x.copy is not None or math.prod(np.broadcast_shapes(*shapes)) == 1 or _is_kept(emitter, node):
        return x
    base: Any = node.args[0]
    if sum(a is base for a in tree_leaves(node.args)) == 1 and emitter.may_change(node, base):
        x = emitter.values[base]
        return replace(x, copy=x.place)
    return replace(x, place=None, memory=None, updates=())


def _is_read_by_it_alone(node: fx.Node) -> bool:
    """Tell whether what an earlier node set elements of is, seen in whatever shape, read by this node alone, and once."""
    if sum(a is node.args[0] for a in tree_leaves(node.args)) != 1:
        return False
    at: Any = node.args[0]
    readers = {node}
    while isinstance(at, fx.Node) and set(at.users) == readers:
        if name_of(at) in SETTING:
            return True
        if at.target is torch.ops.aten.cat.default:
            joined: Any = at.args[0]
            whole, *parts = joined
            if len(parts) != 1 or set(parts[0].users) != {at} or not is_first_slice(parts[0], whole):
                return False
            readers, at = {at, parts[0]}, whole
        elif operators.of(at.target).is_view:
            readers, at = {at}, at.args[0]
        else:
            return False
    return False


def _is_kept(emitter: Emitter, node: fx.Node) -> bool:
    """Tell whether what a node makes of a carry is nothing but what that carry becomes, or may become (`chosen`)."""
    end, is_in_place = node, True
    old = followed(node.args[0], lambda node: keeps_places(node) or name_of(node) in SETTING)
    while (user := _reader(end)) is not None and user.op != "output":
        if user.all_input_nodes.count(end) != 1:
            return False
        if name_of(user) == "where":
            others = [given for given in user.args[1:] if given is not end]
            if user.args[0] is end or not is_in_place or not all(_is_set_alone(option, old) for option in others):
                return False
        elif not _adds_spare(user, end) and (user.args[0] is not end or not changes_or_views(user)):
            return False
        else:
            is_in_place = is_in_place and (keeps_places(user) or name_of(user) in SETTING)
        end = user
    begin = followed(node.args[0], lambda node: changes_or_views(node) or keeps_places(node))
    carries = [n for n in emitter.body.module.graph.find_nodes(op="placeholder") if n in emitter.carries]
    results: Any = emitter.body.module.graph.output_node().args[0]
    places = [i for i, n in enumerate([results] if isinstance(results, fx.Node) else results) if n is end]
    return len(end.users) == len(places) == 1 and (begin not in carries or carries.index(begin) == places[0])


def _is_set_alone(option: Any, old: Any) -> bool:
    """Tell whether an option is `old`, or that with elements set, and nothing else reads it then."""
    while option is not old and isinstance(option, fx.Node) and option.op == "call_function":
        if not keeps_places(option) and _reader(option) is None:
            return False
        if name_of(option) == "where":
            return all(_is_set_alone(chosen, old) for chosen in option.args[1:])
        if not keeps_places(option) and name_of(option) not in SETTING:
            return False
        operand: Any = option.args[0]
        option = operand[0] if isinstance(operand, list | tuple) else operand
    return option is old


def _reader(node: fx.Node) -> fx.Node | None:
    """Return what alone reads a node; None if there is no such, or more."""
    readers = [user for user in node.users if not is_first_slice(user, node) or len(node.users) == 1]
    return readers[0] if len(readers) == 1 and (len(node.users) == 1 or _adds_spare(readers[0], node)) else None


def _adds_spare(node: fx.Node, whole: fx.Node) -> bool:
    """Tell whether a node has a first slice of another one once more at the end, and nothing else reads that slice."""
    parts: Any = node.args[0] if name_of(node) == "cat" else []
    return len(parts) == 2 and parts[0] is whole and is_first_slice(parts[1], whole) and len(parts[1].users) == 1


def followed(node: Any, follows: Callable[[fx.Node], bool]) -> Any:
    """Return what a node is made of, behind those of which this is followed to the first operand."""
    while isinstance(node, fx.Node) and node.op == "call_function" and follows(node):
        operand: Any = node.args[0]
        node = operand[0] if isinstance(operand, list | tuple) else operand
    return node


def keeps_places(node: fx.Node) -> bool:
    """Tell whether a node sees the elements of its first operand at their own indices, or has a slice more or less at the end."""
    name = name_of(node)
    if name not in (*RESHAPES, "expand", "permute", "slice", "cat"):
        return False
    operand, *rest = cast("Sequence[Any]", node.args)
    if name == "cat":
        return len(operand) == 2 and is_first_slice(operand[1], operand[0])
    if name == "permute":
        return [d % len(rest[0]) for d in rest[0]] == list(range(len(rest[0])))
    if name == "slice":
        return rest[1:] in ([0], [0, -1])
    return node.meta["val"].shape == operand.meta["val"].shape


def changes_or_views(node: fx.Node) -> bool:
    return node.op == "call_function" and (name_of(node) in SETTING or operators.of(node.target).is_view)


def _index(emitter: Emitter, shape: tuple[int, ...], dtype: torch.dtype, x: Value, given: _Indices) -> Value:
    return taken(shape, x, _places(emitter, [n and emitter.values[n] for n in given]))


def _index_select(
    emitter: Emitter, shape: tuple[int, ...], dtype: torch.dtype, x: Value, dim: int, places: Value
) -> Value:
    return taken(shape, x, _places(emitter, [*[None] * (dim % len(x.shape)), places]))


def _before_it_is_set(
    emitter: Emitter, x: Value, count: int, places: Sequence[Value | None], new: Value
) -> tuple[list[Value | None], Value]:
    """Return which elements of x are set, and to what, as it can be read while they are.

    It is stored before, unless they are several that are set in a copy, one after the other, and it takes no time, or no less in
    a loop of its own: of elements at computed places there are no vectors.
    """
    if x.place is not None or count == 1:
        return [p and emitter.stored(p) for p in places], emitter.stored(new)
    found = [p if p is None or not p.takes_long else emitter.stored(p) for p in places]
    is_gathered = "place(" in new.text and not new.calls and math.prod(new.shape) >= count
    return found, new if new.is_read or is_gathered else emitter.stored(new)


def _places(emitter: Emitter, given: Sequence[Value | None]) -> list[Value | None]:
    return [p and emitter.held(p) for p in given]


def _gather(emitter: Emitter, shape: tuple[int, ...], dtype: torch.dtype, x: Value, dim: int, places: Value) -> Value:
    return gathered(shape, x, dim % len(x.shape), places)


def _index_put(
    emitter: Emitter,
    shape: tuple[int, ...],
    dtype: torch.dtype,
    x: Value,
    given: _Indices,
    new: Value,
    adds: bool = False,
) -> Value:
    indices = [n and emitter.values[n] for n in given]
    places, new = _before_it_is_set(emitter, x, math.prod(_batch_shape(indices)), indices, new)
    return _changed(emitter, x, lambda x: put(x, places, new, adds))


def _scatter_add(
    emitter: Emitter, shape: tuple[int, ...], dtype: torch.dtype, x: Value, dim: int, places: Value, new: Value
) -> Value:
    (index,), new = _before_it_is_set(emitter, x, math.prod(places.shape), [places], new)
    return _changed(emitter, x, lambda x: scattered(x, dim % len(shape), index or places, new))


def _scatter(
    emitter: Emitter, shape: tuple[int, ...], dtype: torch.dtype, x: Value, dim: int, places: Value, new: Any
) -> Value:
    if not shape:
        raise Unsupported("elements of a number set")
    new = new if isinstance(new, Value) else filled(places.shape, dtype, new)
    (index,), new = _before_it_is_set(emitter, x, math.prod(places.shape), [places], new)
    return _changed(emitter, x, lambda x: scattered(x, dim % len(shape), index or places, new, None))


def _scatter_reduce(
    emitter: Emitter,
    shape: tuple[int, ...],
    dtype: torch.dtype,
    x: Value,
    dim: int,
    places: Value,
    new: Value,
    reduce: str,
) -> Value:
    if reduce not in REDUCTIONS or reduce == "mean" or not shape:
        raise Unsupported(f"{reduce} of what is at the same place")
    step = REDUCTIONS[reduce].step
    (index,), new = _before_it_is_set(emitter, x, math.prod(places.shape), [places], new)
    return _changed(emitter, x, lambda x: scattered(x, dim % len(shape), index or places, new, step))


def _changed(emitter: Emitter, x: Value, change: Callable[[Value], Value]) -> Value:
    """Return x with elements set; what is no carry has several set in a copy."""
    if x.copy is not None:
        emitter.lines += [update.text for update in change(replace(x, place=x.copy, updates=())).updates]
        return x if x.spare is not None else replace(x, load=x.copy)
    try:
        return change(x)
    except NeedsMemory:
        name = emitter.declared(x.shape, x.dtype)
        emitter.lines += carry_over([name], [x]) if x.spare is None else _copied_with_spare(name, x, x.spare)
        copy = in_buffer(name, x.shape, x.dtype, is_carry=True)
        changed = change(replace(copy, spare=x.spare, has_room=x.spare is not None))
        emitter.lines += [update.text for update in changed.updates]
        return replace(copy, place=None, memory=None, copy=copy.place)


def _copied_with_spare(name: str, x: Value, dim: int) -> list[str]:
    """Return statements that copy x, the slice at the end of a dimension by itself: which one it is, no element asks."""
    size = x.shape[dim] - 1
    index = [f"i{d}" for d in range(len(x.shape))]
    lines = []
    for at, shape in ((index[dim], [*x.shape[:dim], size, *x.shape[dim + 1 :]]), (f"{size}", x.shape)):
        place = [*index[:dim], at, *index[dim + 1 :]]
        text = x.load(place).replace(unless_spare(at, size), at if at in index else "0")
        variables = [(i, n) for d, (i, n) in enumerate(zip(index, shape, strict=True)) if d != dim or at in index]
        loops = loops_over([i for i, _ in variables], [n for _, n in variables])
        lines.append(f"{loops}{name}[{flat_index(place, x.shape)}] = {text};")
    return lines


STATEMENTS = {
    "index": _index,
    "index_select": _index_select,
    "gather": _gather,
    "index_put": _index_put,
    "scatter": _scatter,
    "scatter_add": _scatter_add,
    "scatter_reduce": _scatter_reduce,
}
