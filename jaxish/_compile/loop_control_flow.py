"""Loops and branches within a step of a native loop, as C++ statements of it.

Each is an emitter of its own for what it repeats or chooses. Its variables are buffers: those of this step's carries, where
nothing else reads them, so that no loop within a loop copies what it updates.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import fx

from .._core.graph import Graph, TensorType
from .loop_emitter import Emitter, carry_over, row_of
from .loop_values import CallsHost, Value, in_buffer

IS_LONG, CALLS_HOST = 1, 2  # why a function gives up
# Elements that a branch computes. More are counted where it is taken: loops that end when they are done are written as scans within
# branches, and scans of these, of which few steps are made.
_MOST_UNCOUNTED = 1 << 12


def _while(emitter: Emitter, node: fx.Node, loop: Any) -> list[Value]:
    emitter.made["loops"] += 1
    consts = loop.cond_consts + loop.body_consts
    inputs, lent = _lent(emitter, node)
    lent = lent[consts:]
    names, state = _variables(emitter, inputs[consts:], lent)
    given = [*inputs[loop.cond_consts : consts], *state]
    _repeat(emitter, names, loop.cond, [*inputs[: loop.cond_consts], *state], loop.body, given, loop.body_consts)
    return _after_loop(state, lent)


def while_of_torch(
    emitter: Emitter, cond: fx.Node, body: fx.Node, init: Sequence[fx.Node], constants: Sequence[fx.Node]
) -> list[Value]:
    """Emit the loop of a primitive that is spelled out (lowering.while_loop): rounds that soon have an end."""
    types = [TensorType.of(n.meta["val"]) for n in (*init, *constants)]
    lent = [False] * len(init)
    names, state = _variables(emitter, [emitter.values[n] for n in init], lent)
    given = [*state, *(emitter.held(emitter.values[n]) for n in constants)]
    test = Graph(emitter.module(cond), tuple(types), (TensorType((), torch.bool, types[0].device),))
    step = Graph(emitter.module(body), tuple(types), tuple(types[: len(init)]))
    _repeat(emitter, names, test, given, step, given, 0)
    return _after_loop(state, lent)


def _repeat(
    emitter: Emitter,
    names: Sequence[str],
    cond: Graph,
    tested: Sequence[Value],
    body: Graph,
    given: Sequence[Value],
    first: int,
) -> None:
    """Emit a loop over variables, which are among what `cond` and `body` are given: there from `first` on."""
    test, (going,) = _inner(emitter, cond, tested)
    step, results = _inner(emitter, body, given, range(first, first + len(names)), names)
    leave = ["{", *test.lines, f"if (!({going.load([])})) break;", "}"]
    if emitter.most_work is not None:
        leave.append(_counted(emitter, test.work + step.work))
    emitter.lines += [*step.fixed, "for (;;) {", *leave, *step.lines, *carry_over(names, results), "}"]


def _scan(emitter: Emitter, node: fx.Node, loop: Any) -> list[Value]:
    emitter.made["loops"] += 1
    head, length = loop.consts + loop.carries, loop.length
    inputs, lent = _lent(emitter, node)
    lent = lent[loop.consts : head]
    names, state = _variables(emitter, inputs[loop.consts : head], lent)
    step, place = (emitter.new_name("n") for _ in range(2))
    slices = [Value(x.shape[1:], x.dtype, lambda i, x=x: x.load([place, *i]), is_held=True) for x in inputs[head:]]
    given = [*inputs[: loop.consts], *state, *slices]
    body, results = _inner(emitter, loop.body, given, range(loop.consts, head), [*names, place])
    emitter.work += length * body.work
    y_types = loop.body.out_types[loop.carries :]
    ys = [emitter.declared((length, *t.shape), t.dtype) for t in y_types]
    rows = [f"{y}_row" for y in ys]
    emitter.lines += [
        *body.fixed,
        f"for (int {step} = 0; {step} < {length}; ++{step}) {{",
        f"const int {place} = {f'{length - 1} - {step}' if loop.reverse else step};",
        *(row_of(row, y, place, t) for row, y, t in zip(rows, ys, y_types, strict=True)),
        *body.lines,
        *carry_over([*rows, *names], [*results[loop.carries :], *results[: loop.carries]]),
        "}",
    ]
    stacked = [in_buffer(y, (length, *t.shape), t.dtype) for y, t in zip(ys, y_types, strict=True)]
    return [*_after_loop(state, lent), *stacked]


def _cond(emitter: Emitter, node: fx.Node, branch: Any) -> list[Value]:
    (index, *operands), own = _lent(emitter, node)
    begun = [_begun(emitter, body, operands) for body in branch.branches]
    found = [values for _, values in filter(None, begun)]
    if not found:
        raise CallsHost("all branches call Python")
    lent = [v for v, is_lent in zip(operands, own[1:], strict=True) if is_lent]
    updated: list[Value | None] = []
    for results in zip(*found, strict=True):
        updated.append(next((v for v in lent if all(r.is_update_of(v) for r in results)), None))
        lent = [v for v in lent if v is not updated[-1]]  # another result may be what it was before
    types = branch.branches[0].out_types
    names = [(v and v.memory) or emitter.declared(t.shape, t.dtype) for v, t in zip(updated, types, strict=True)]
    kept = [v is not None for v in updated]
    for number, written in enumerate(begun):
        test = f"if ({index.load([])} == {number}) " if number + 1 < len(begun) else ""
        lines = _finished(emitter, written, names, kept)
        emitter.lines += [f"{'else ' if number else ''}{test}{{", *lines, "}"]
    made = [in_buffer(n, tuple(t.shape), t.dtype) for n, t in zip(names, types, strict=True)]
    return [v or m for v, m in zip(updated, made, strict=True)]


def _begun(emitter: Emitter, body: Graph, operands: Sequence[Value]) -> tuple[Emitter, list[Value]] | None:
    """Return a branch and its results, to be settled; None where it calls Python, and these steps can give up."""
    try:
        inner = emitter.within(body)
        return inner, inner.computed_from(operands)
    except CallsHost:
        if emitter.most_work is None:
            raise
        return None


def _finished(
    emitter: Emitter, written: tuple[Emitter, list[Value]] | None, names: Sequence[str], kept: Sequence[bool]
) -> list[str]:
    if written is None:
        return [_given_up(emitter, CALLS_HOST)]
    inner, values = written
    results = inner.settled(values, kept)
    lines = [*inner.lines, *carry_over(names, results)]
    if emitter.most_work is not None and inner.work > _MOST_UNCOUNTED:
        return [_counted(emitter, inner.work), *lines]
    emitter.work += inner.work
    return lines


def _counted(emitter: Emitter, work: int) -> str:
    return f"if ((work += {work}) > {emitter.most_work}) {_given_up(emitter, IS_LONG)}"


def _given_up(emitter: Emitter, reason: int) -> str:
    emitter.made["exits"] += 1
    return f"{{ *over = {reason}; return; }}"


def _inner(
    emitter: Emitter,
    body: Graph,
    inputs: Sequence[Value],
    carries: range = range(0),
    changing: Collection[str] | None = None,
) -> tuple[Emitter, list[Value]]:
    inner = emitter.within(body, changing)
    return inner, inner.emit(inputs, carries)


def _lent(emitter: Emitter, node: fx.Node) -> tuple[list[Value], list[bool]]:
    """Return a loop's or branch's operands, and which are carries that nothing reads later: it may change them where they lie."""
    lent = [
        isinstance(a, fx.Node)
        and emitter.values[a].memory is not None
        and node.args.count(a) == 1
        and emitter.may_change(node, a)
        for a in node.args
    ]
    return [emitter.held(v) for v in emitter.arguments(node)], lent


def _variables(emitter: Emitter, values: Sequence[Value], lent: Sequence[bool]) -> tuple[list[str], list[Value]]:
    """Emit buffers that start as these values; return their names, and what is in them. What is lent has one already."""
    kept = [v.memory if own else None for v, own in zip(values, lent, strict=True)]
    names = [k or emitter.declared(v.shape, v.dtype) for k, v in zip(kept, values, strict=True)]
    new = [(n, replace(v, place=None)) for n, v, own in zip(names, values, lent, strict=True) if not own]
    emitter.lines += carry_over([n for n, _ in new], [v for _, v in new])
    return names, [in_buffer(n, v.shape, v.dtype, is_carry=True) for n, v in zip(names, values, strict=True)]


def _after_loop(state: Sequence[Value], lent: Sequence[bool]) -> list[Value]:
    """Return the values of a loop's variables: those that are no carries of this step cannot be updated any more."""
    return [v if own else replace(v, place=None, memory=None) for v, own in zip(state, lent, strict=True)]


# By the names of primitives: functions of the emitter, the node, its primitive and the values that it is given.
NESTED = {"while": _while, "scan": _scan, "cond": _cond}
