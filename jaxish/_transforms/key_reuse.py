"""Which random keys were used up, while `jax_debug_key_reuse` is set.

What was consumed is noted per tensor of keys (its plain tensor: that of a vmap's lanes is the whole batch). In a trace
the notes are on the trace's stand-ins; when it has ended they become the traced function's `KeyUse`, which is applied
to the arguments and captured keys of each call. A key that is moved in a trace (reshaped, ...) shares its note.

Nothing here runs while the flag is off.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from .._core import config, graph, levels, tree
from .._core.array import Array, from_kind, tensor_of
from .._core.dtypes import ExtendedDType
from .._core.errors import KeyReuseError
from .._core.graph import ClosedGraph
from . import program
from .program import Program

Mask = bool | np.ndarray


@dataclass(eq=False)
class Note:
    """Which of the keys of a tensor were consumed: all, none, or those of a mask."""

    consumed: Mask = False


_notes: Any = WeakTensorKeyDictionary()


def note_of(tensor: Tensor) -> Note:
    """Return the note on a tensor of keys, a new one where there is none."""
    return _notes.setdefault(levels.base_of(tensor), Note())


def forward(source: Tensor, moved: Tensor) -> None:
    """Note that `moved` holds the keys of `source`: the same keys within a trace, a copy outside, as in JAX."""
    note = note_of(source)
    _notes[levels.base_of(moved)] = note if graph.is_tracing() else Note(note.consumed)


def aliased(tensor: Tensor) -> Tensor:
    """Return the same keys as a tensor with a note of its own: nothing is consumed."""
    return tensor.view_as(tensor)


def consume(tensor: Tensor, mask: Mask, function: str, index: int = 0, within: str = "") -> None:
    """Note that the keys of a mask are consumed. Raises `KeyReuseError` where one of them was before.

    `function` is JAX's name of what consumes them, `jit` for a compiled function, and `within` the user's.
    """
    note = note_of(tensor)
    if _overlap(note.consumed, mask):
        if graph.is_tracing():
            what = f"In {function}, argument {index} is already consumed"
        else:
            called = "jit-compiled function" if function == "jit" else function
            what = f"Previously-consumed key passed to {called} at index {index}"
        raise KeyReuseError(
            f"{what}.{within and f' It was passed to jax.random.{within}.'} Make new keys with jax.random.split, or "
            "jax.random.clone the key to use it again on purpose."
        )
    note.consumed = _union(note.consumed, mask)


def _fit(first: Mask, second: Mask) -> bool:
    try:
        np.broadcast_shapes(np.shape(first), np.shape(second))
    except ValueError:
        return False
    return True


def _overlap(first: Mask, second: Mask) -> bool:
    # Keys that were reshaped share a note with masks of another shape: any two masks are taken to overlap then.
    return bool(np.any(first & second)) if _fit(first, second) else bool(np.any(first) and np.any(second))


def _union(first: Mask, second: Mask) -> Mask:
    found = np.asarray(first | second) if _fit(first, second) else np.asarray(True)
    return bool(found.all()) if found.all() or not found.any() else found


@dataclass(frozen=True)
class KeyUse:
    """What a traced function does to the keys among its inputs (captured ones first) and its results.

    `sinks` are inputs that it consumes, `forwards` results that are inputs, by position; `spent` are results that it
    consumed itself.
    """

    sinks: dict[int, Mask]
    forwards: dict[int, int]
    spent: dict[int, Mask]

    def noted(self, leaves: Sequence[Any], inputs: Sequence[Tensor]) -> list[Any]:
        """Return the leaves of a call's result with what is noted on their keys."""
        found = list(leaves)
        for position, index in self.forwards.items():
            found[position] = from_kind(aliased(inputs[index]), found[position].kind)
            forward(inputs[index], found[position]._tensor)
        for position, mask in self.spent.items():
            note_of(found[position]._tensor).consumed = mask
        return found

    def check_loop(self, captured: int, carries: int, what: str) -> None:
        """Raise `KeyReuseError` for a body that, run again, would use a key again."""
        if any(i < captured for i in self.sinks):
            raise KeyReuseError(
                f"{what} function leads to key reuse when repeatedly executed: it consumes a key from outside the "
                "loop. Carry the key and split it in each step, or fold the step's number into it."
            )
        used = {i - captured for i in self.sinks if i < captured + carries}
        if used & (self.forwards.keys() | self.spent.keys()):
            raise KeyReuseError(
                f"{what} function leads to key reuse when repeatedly executed: it consumes a key of its carry and "
                "carries no new one on. Return one of the keys that jax.random.split gave."
            )


class CheckedProgram(Program):
    """A program that was traced while `jax_debug_key_reuse` is set: its calls consume keys."""

    key_use: KeyUse

    def __call__(self, tensors: Sequence[Tensor]) -> Any:
        run = super().__call__
        return run(tensors) if self.uses is not None else self._checked(tensors, lambda: run(tensors))

    def _with_references(self, tensors: Sequence[Tensor], arrays: Sequence[Array]) -> Any:
        run = super()._with_references
        return self._checked(tensors, lambda: run(tensors, arrays))

    def _checked(self, tensors: Sequence[Tensor], run: Callable[[], Any]) -> Any:
        borrowed = () if self.uses is None else self.uses.borrowed
        captured = (t if i in borrowed else graph.lift(t) for i, t in enumerate(self.closed.captured))
        inputs = [*captured, *tensors]
        consume_all(self.key_use.sinks, inputs, "jit")
        leaves, spec = tree.flatten(run())
        return spec.unflatten(self.key_use.noted(leaves, inputs))


class Watch:
    """The inputs and the keys among the results of a trace that is going on."""

    def saw(self, tensors: Sequence[Tensor], results: Sequence[Array]) -> None:
        """Take the stand-ins of the inputs, and the results, at the end of the trace."""
        self._trace, self._inputs = graph.current_trace(), tensors
        self._results = {i: tensor_of(a) for i, a in enumerate(results) if isinstance(a.kind, ExtendedDType)}

    def finished(self, program: Program, arrays: Sequence[Array], transformation: str) -> Program:
        """Return the program with its use of keys."""
        use = self._use_of(program.closed)
        if transformation != "jit":
            return replace(program, closed=watched(program.closed, use, transformation, arrays, program.out_spec))
        checked = CheckedProgram(**vars(program))
        checked.key_use = use
        return checked

    def _use_of(self, closed: ClosedGraph) -> KeyUse:
        assert self._trace is not None
        lift, borrowed = self._trace.lift, self._trace.borrowed  # what references hold is not watched
        captured = [Note() if i in borrowed else note_of(lift(t)) for i, t in enumerate(closed.captured)]
        notes = [*captured, *map(note_of, self._inputs)]
        sinks = {i: note.consumed for i, note in enumerate(notes) if np.any(note.consumed)}
        forwards, spent = {}, {}
        for position, tensor in self._results.items():
            note = note_of(tensor)
            source = next((i for i, n in enumerate(notes) if n is note), None)
            if source is not None:
                forwards[position] = source
            elif np.any(note.consumed):
                spent[position] = note.consumed
        return KeyUse(sinks, forwards, spent)


program.watchers.append(lambda: Watch() if config.debug_key_reuse.value else None)


def consume_all(sinks: dict[int, Mask], inputs: Sequence[Tensor], function: str) -> None:
    """Consume inputs of a call at once: the same key given twice is used once, as in JAX."""
    for index, mask in sinks.items():
        if _overlap(note_of(inputs[index]).consumed, mask):
            consume(inputs[index], mask, function, index)
    for index, mask in sinks.items():
        note = note_of(inputs[index])
        note.consumed = _union(note.consumed, mask)


# ------------------------------------------------------------------------------------------- loops, branches and rules


@dataclass(eq=False)
class _Group:
    """Functions traced for one list of operands: the branches of a cond; the predicate and the body of a loop.

    The operands from `carries` on are stand-ins for one slice of an array: those of a scan.
    """

    what: str
    operands: Sequence[Array]
    carries: int
    members: list[tuple[KeyUse, ClosedGraph]] = field(default_factory=list)
    done: bool = False

    def apply(self) -> None:
        """Consume what the functions consume, once for the call that they were traced for."""
        if self.done:
            return
        self.done = True
        if self.what == "while_loop":
            self._check_predicate()
        tensors: dict[int, Tensor] = {}
        masks: dict[int, Mask] = {}
        for use, closed in self.members:
            inputs = self._inputs(closed)
            for index, mask in use.sinks.items():
                tensor, whole = inputs[index]
                number = id(levels.base_of(tensor))
                tensors[number], masks[number] = tensor, _union(masks.get(number, False), whole or mask)
        consume_all(dict(enumerate(masks.values())), list(tensors.values()), self.what)

    def _inputs(self, closed: ClosedGraph) -> list[tuple[Tensor, bool]]:
        """Return what is consumed with each input of a member, and whether as a whole: a slice stands for them all."""
        fixed = [*closed.captured, *(a._tensor for a in self.operands[: self.carries])]
        sliced = [getattr(a, "origin", a)._tensor for a in self.operands[self.carries :]]
        return [*((graph.lift(t), False) for t in fixed), *((graph.lift(t), True) for t in sliced)]

    def _check_predicate(self) -> None:
        """Raise `KeyReuseError` for a predicate that consumes a key of the carry that the body consumes or keeps."""
        if len(self.members) != 2:
            return
        (body, body_closed), (test, test_closed) = self.members
        tested = {i - len(test_closed.captured) for i in test.sinks}
        used = {i - len(body_closed.captured) for i in body.sinks}
        if tested & (used | body.forwards.keys() | body.spent.keys()):
            raise KeyReuseError(
                "while_loop cond function leads to key reuse when repeatedly executed: it consumes a key of the carry "
                "that the body consumes, too, or carries on as it is."
            )


class _Previous(threading.local):
    group: _Group | None = None


_previous = _Previous()


@dataclass(frozen=True)
class WatchedGraph(ClosedGraph):
    """A graph with keys among its inputs, traced for one call: asking for its inputs consumes that call's keys."""

    group: _Group

    # To be traced again for the next call, whose keys are others.
    captures_tracers = True  # pyright: ignore

    def closure(self) -> tuple[Tensor, ...]:
        self.group.apply()
        return super().closure()


def watched(closed: ClosedGraph, use: KeyUse, what: str, operands: Sequence[Array], out_spec: tree.Spec) -> ClosedGraph:
    """Return a traced function's graph so that its use by a loop, a branch or a rule consumes the keys it consumes.

    `operands` are the arrays that it was traced for. Raises `KeyReuseError` for a loop's body that uses a key again.
    """
    children = out_spec.children()  # of a scan's body: carry and output
    carries = children[0].num_leaves if what == "scan" and children else len(operands)
    group = _previous.group
    if group is None or group.operands is not operands:
        group = _previous.group = _Group(what, operands, carries)
    if what in ("scan", "while_loop"):
        role = "cond" if group.members else "body"  # a predicate is traced after the body
        use.check_loop(len(closed.captured), carries, f"{what} {role}")
    group.members.append((use, closed))
    return WatchedGraph(closed.graph, closed.captured, group)
