"""cond and switch: branches chosen by a value.

All branches are traced and must give the same types. On a concrete index the chosen branch runs; in a trace the
choice is the primitive `Cond`; a batched index computes every branch and selects, as in JAX.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..._compile import executable
from ..._compile.lowering import choice
from ..._compile.structured import Opaque
from ..._core import config, derived, dtypes, graph, levels, residuals, tree
from ..._core.array import as_array, is_abstract, is_arraylike, tensor_of, type_text
from ..._core.derived import Inline
from ..._core.graph import ClosedGraph, Graph, TensorType
from ..._core.primitive import Dims, differentiable, popped_axis
from ..._core.promotion import shown
from ..._core.target import Target
from ..._core.tree_differences import differences, listed
from ..._transforms.callbacks import calls_for_io
from ..._transforms.flat import arrays_from, described
from ..._transforms.program import Program
from .bodies import Operands, concrete, trace_body
from .references import ends_of, put_back, threaded, values_of, written_by

_ABSENT = object()


class Cond(Opaque):
    """One of several graphs of equal types, chosen by the first input, an integer in range."""

    __name__ = "cond"
    is_instruction = True

    def __init__(self, branches: Sequence[Graph]) -> None:
        self.branches = tuple(branches)

    def equation(self) -> tuple[str, dict[str, Any]] | None:
        return "cond", {"branches": self.branches}

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        return self.branches[0].out_types

    def run(self, *inputs: Tensor) -> list[Tensor]:
        index, *operands = inputs
        return list(executable.of(self.branches[int(index)]).run(*operands))

    def spelled_out(self, target: Target, *inputs: Tensor) -> list[Tensor]:
        index, *operands = inputs
        return choice(index, self.branches, operands, self.branches[0].out_types)

    def reached(self, changed: set[int]) -> set[int]:
        return {i for branch in self.branches for i in derived.reached(branch, {i - 1 for i in changed})}

    def vmap(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        name, (index, *operands) = popped_axis(), inputs
        if dims[0] is None:
            branches, out_dims = _mapped(self.branches, dims[1:], size, name)
            return Cond(branches)(index, *operands), out_dims
        branches = [derived.batched(b, dims[1:], size, name) for b in self.branches]
        if any(map(calls_for_io, branches)):
            raise NotImplementedError("IO effect not supported in vmap-of-cond.")
        index = index.movedim(dims[0], 0)
        taken = [index == i for i in range(len(branches) - 1)]
        taken.append(index >= len(branches) - 1)
        results = _select(
            index,
            [Inline(b)(*_stopped(t, operands, dims[1:])) for b, t in zip(branches, taken, strict=True)],
        )
        return results, [0] * len(results)

    def pushed(
        self, primals: Sequence[Tensor], tangents: Sequence[Tensor | None]
    ) -> tuple[Sequence[Tensor], Sequence[Tensor | None]]:
        active = [t is not None for t in tangents[1:]]
        found = [derived.forward_mode(b, active)[1] for b in self.branches]
        moves = [any(of_branches) for of_branches in zip(*found, strict=True)]
        branches = [derived.forward_mode(b, active, moves)[0] for b in self.branches]
        results = Cond(branches)(*primals, *(t for t in tangents[1:] if t is not None))
        return derived.results_and_tangents(results, moves)

    def __call__(self, *inputs: Tensor) -> list[Tensor]:
        out_types = self.branches[0].out_types
        followed = residuals.followed(inputs[1:], out_types)
        if followed is None:
            return super().__call__(*inputs)
        (level, wanted), index_type = followed, TensorType.of(inputs[0])
        key = ("reverse", self.branches[1:], index_type, wanted)
        forward, rule = derived.cached(self.branches[0], key, lambda: _reverse(self.branches, index_type, wanted))
        return residuals.Forward(forward, len(out_types), rule, level, Inline)(*inputs)[: len(out_types)]


def _reverse(branches: Sequence[Graph], index_type: TensorType, wanted: Sequence[bool]) -> tuple[Graph, residuals.Rule]:
    """Return the forward graph (results, then residuals) of a choice, and its rule back.

    Residuals of one type share a slot, whichever branch is taken; those of other branches are zero.
    """
    in_types, out_types = branches[0].in_types, branches[0].out_types
    count = len(out_types)
    halves = [residuals.split(branch, wanted, constants=0, views=False) for branch in branches]
    read = [i for i in range(len(in_types)) if any(_is_read(backward, i) for _, backward in halves)]
    slots, places = _shared([forward.out_types[count:] for forward, _ in halves])
    seeded = [t for t in out_types if differentiable(t.dtype)]

    def keeping(forward: Graph, own: Sequence[int]) -> Graph:
        def run(*operands: Tensor) -> list[Tensor]:
            found = forward(*operands)
            kept = dict(zip(own, found[count:], strict=True))
            zeros = (torch.zeros(t.shape, dtype=t.dtype, device=t.device) for t in slots)
            return [*found[:count], *(kept.get(i, zero) for i, zero in enumerate(zeros))]

        return graph.trace(run, in_types).graph

    def going_back(backward: Graph, own: Sequence[int], given: Sequence[TensorType]) -> Graph:
        def run(*inputs: Tensor) -> list[Tensor]:
            operands, rest = dict(zip(read, inputs, strict=False)), inputs[len(read) :]
            primals = [residuals.seed_of(operands.get(i), t) for i, t in enumerate(in_types)]
            return backward(*primals, *(rest[i] for i in own), *rest[len(slots) :])

        return graph.trace(run, [*(in_types[i] for i in read), *slots, *given]).graph

    def back(absent: frozenset[int]) -> tuple[Cond, frozenset[int]]:
        """Return the choice on the way back, and which cotangents it does not give, since they are zero."""
        backwards = [backward for _, backward in halves]
        zero = frozenset.intersection(*(residuals.zeros_of(b, len(seeded), absent) for b in backwards))
        found = [residuals.without(b, len(seeded), absent, zero) for b in backwards]
        if absent not in known:
            types = [t for i, t in enumerate(seeded) if i not in absent]
            known[absent] = Cond([going_back(b, own, types) for b, own in zip(found, places, strict=True)])
        return known[absent], zero

    there = Cond([keeping(forward, own) for (forward, _), own in zip(halves, places, strict=True)])
    known: dict[frozenset[int], Cond] = {}

    def rule(
        primals: Sequence[Tensor], kept: Sequence[Tensor], cotangents: Sequence[Tensor | None]
    ) -> list[Tensor | None]:
        seeds = [c for c, t in zip(cotangents, out_types, strict=True) if differentiable(t.dtype)]
        chosen, zero = back(residuals.absent_of(seeds))
        index, *operands = primals
        found = iter(chosen(index, *(operands[i] for i in read), *kept, *(c for c in seeds if c is not None)))
        positions = iter(range(len(wanted)))
        return [None, *(None if not w or next(positions) in zero else next(found) for w in wanted)]

    return graph.trace(lambda *inputs: there(*inputs), [index_type, *in_types]).graph, rule


def _is_read(half: Graph, position: int) -> bool:
    """Tell whether a half reads an input: a loop would save the others once per step."""
    return bool(half.module.graph.find_nodes(op="placeholder")[position].users)


def _shared(types: Sequence[Sequence[TensorType]]) -> tuple[list[TensorType], list[list[int]]]:
    """Return slots for what each of several lists holds, and which slots the items of each list take."""
    slots: list[TensorType] = []
    places = []
    for of_branch in types:
        taken: list[int] = []
        for type in of_branch:
            free = (i for i, slot in enumerate(slots) if slot == type and i not in taken)
            place = next(free, len(slots))
            if place == len(slots):
                slots.append(type)
            taken.append(place)
        places.append(taken)
    return slots, places


def _mapped(branches: Sequence[Graph], dims: Dims, size: int, name: Any) -> tuple[list[Graph], list[int | None]]:
    """Return the branches mapped over a batch, and the batch dimensions of the results, which they have in common."""
    found = [derived.mapped(b, dims, size, name)[1] for b in branches]
    outputs = [any(dim == 0 for dim in of_branches) for of_branches in zip(*found, strict=True)]
    return [derived.mapped_as(b, dims, size, name, outputs) for b in branches], [0 if b else None for b in outputs]


def _stopped(taken: Tensor, operands: Sequence[Tensor], dims: Dims) -> list[Tensor]:
    """Return the operands, constants to derivatives in the lanes that do not take a branch.

    There its derivatives may be infinite, and zero cotangents times that would be NaN.
    """

    def stopped(operand: Tensor, dim: int | None) -> Tensor:
        if dim is None or not differentiable(operand.dtype):
            return operand
        lanes = taken.reshape([-1 if i == dim else 1 for i in range(operand.dim())])
        return torch.where(lanes, operand, operand.detach())

    return [stopped(o, d) for o, d in zip(operands, dims, strict=True)]


def _select(index: Tensor, results: Sequence[Sequence[Tensor]]) -> list[Tensor]:
    """Return for each lane the results of the branch that its index names."""

    def choose(*options: Tensor) -> Tensor:
        lanes = index.reshape((-1, *[1] * (options[0].dim() - 1)))
        chosen = options[-1]
        for position in reversed(range(len(options) - 1)):
            chosen = torch.where(lanes == position, options[position], chosen)
        return chosen

    return [choose(*options) for options in zip(*results, strict=True)]


def cond(pred: Any, true_fun: Any, false_fun: Any, *operands: Any, operand: Any = _ABSENT) -> Any:
    """Return `true_fun(*operands)` where the scalar `pred` is true, else `false_fun(*operands)`.

    Both functions are traced and must give equal types. The older form `cond(pred, true_operand, true_fun,
    false_operand, false_fun)` is understood too.
    Raises `TypeError` when the branches differ or the predicate is no scalar.
    """
    if not (callable(true_fun) and callable(false_fun)):
        if len(operands) == 2 and callable(false_fun) and callable(operands[1]):
            first, on_true, second, on_false = true_fun, false_fun, operands[0], operands[1]
            return cond(pred, lambda a, b: on_true(a), lambda a, b: on_false(b), first, second)
        raise TypeError("lax.cond: true_fun and false_fun arguments should be callable.")
    if operand is not _ABSENT:
        if operands:
            raise TypeError("if 'operand' keyword is passed then no positional operands can be passed")
        operands = (operand,)
    if pred is None:
        raise TypeError("cond predicate is None")
    if callable(pred):
        raise TypeError(f"Pred type must be either boolean or number, got {pred}.")
    if not is_arraylike(pred):
        raise TypeError(f"Pred must be a scalar, got {pred} of type {type(pred)}")
    predicate = as_array(pred)
    if predicate.ndim:
        raise TypeError(f"Pred must be a scalar, got {pred} of shape {predicate.shape}.")
    if config.disable_jit.value and not is_abstract(predicate):
        return true_fun(*operands) if predicate else false_fun(*operands)
    index = (tensor_of(predicate) != 0).to(torch.int32)
    return _branch(index, [false_fun, true_fun], operands, "cond", ["false_fun", "true_fun"])


def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any, operand: Any = _ABSENT) -> Any:
    """Return `branches[index](*operands)`, the index clamped into range.

    Raises `ValueError` without branches, `TypeError` when the branches' types differ or the index is no integer scalar.
    """
    if not all(map(callable, branches)):
        raise TypeError("lax.switch: branches argument should be a sequence of callables.")
    if operand is not _ABSENT:
        if operands:
            raise TypeError("if 'operand' keyword is passed then no positional operands can be passed")
        operands = (operand,)
    if isinstance(index, list | tuple) and np.ndim(index):
        raise TypeError(f"Branch index must be scalar, got {index} of shape {np.shape(index)}.")
    if not is_arraylike(index):
        raise TypeError(f"Index type must be an integer, got {index}.")
    position = as_array(index)
    if position.ndim:
        raise TypeError(f"Branch index must be scalar, got {index} of shape {position.shape}.")
    if not dtypes.issubdtype(position.dtype, np.integer):
        raise TypeError(f"Index type must be an integer, got {index} as {position.dtype}")
    branches = tuple(branches)
    if not branches:
        raise ValueError("Empty branch sequence")
    if len(branches) == 1:
        return branches[0](*operands)
    clamped = shown(position, torch.int32).clamp(0, len(branches) - 1)
    if config.disable_jit.value and not is_abstract(position):
        return branches[int(clamped)](*operands)
    return _branch(
        clamped, branches, operands, "switch", ["branch 0", *(f"branch{i}" for i in range(1, len(branches)))]
    )


def _branch(
    index: Tensor, functions: Sequence[Callable[..., Any]], values: tuple[Any, ...], what: str, names: Sequence[str]
) -> Any:
    operands = Operands.of(values, what)
    programs = [trace_body(f, operands.arrays, operands.spec, what) for f in functions]
    told = -1 if what == "cond" else 1  # the true branch first
    _check_branches(programs[::told], functions[::told], what, names[::told])
    value = concrete(index)
    if value is not None:
        chosen = programs[int(value)]
        inputs = [*chosen.closure(operands.arrays), *operands.tensors]
        results = chosen.settled(chosen.closed.graph(*inputs), operands.arrays, inputs)
    else:
        results = _chosen_later(index, programs, operands)
    kinds = programs[0].out_kinds  # weak where the first branch's results are
    if levels.is_batched(index):  # where each example chooses, weak where those of all branches are
        kinds = [
            all(column) if all(isinstance(k, bool) for k in column) else column[0]
            for column in zip(*(p.out_kinds for p in programs), strict=True)
        ]
    return programs[0].out_spec.unflatten(arrays_from(results, kinds))


def _chosen_later(index: Tensor, programs: Sequence[Program], operands: Operands) -> list[Tensor]:
    refs, arguments = written_by(programs)
    count, own = len(operands.arrays), len(programs[0].out_kinds)
    branches = [threaded(p, operands.arrays, refs, arguments, count, own) for p in programs]
    primitive, captured, given = _as_primitive(branches, own)
    inputs = [*captured, *operands.tensors, *values_of(refs)]
    results = primitive(index, *inputs)
    chosen = own - len(given)
    put_back(ends_of(refs, arguments, operands.arrays, chosen, chosen), results, primitive, [index, *inputs])
    rest = iter(results)
    return [inputs[given[i]] if i in given else next(rest) for i in range(own)]


def _as_primitive(branches: Sequence[ClosedGraph], own: int) -> tuple[Cond, list[Tensor], dict[int, int]]:
    """Return the branches with the same inputs, each with all that any captures, and the captured tensors.

    Those of the first `own` results that are the same input in every branch are not the primitive's but come last, each
    with its input: so it is neither mapped nor differentiated for going through.
    """
    # Asking for the closure tells that the branch is used, by which keys are consumed.
    pairs = [pair for b in branches for pair in zip(b.captured, b.closure(), strict=True)]
    captured = {id(t): (t, now) for t, now in pairs}
    place_of = {key: place for place, key in enumerate(captured)}
    own_types = branches[0].graph.in_types[len(branches[0].captured) :]
    types = [*(TensorType.of(t) for t, _ in captured.values()), *own_types]
    rest = range(len(captured), len(types))
    places = [[*(place_of[id(t)] for t in b.captured), *rest] for b in branches]
    columns = zip(*(_forwarded(b.graph, p) for b, p in zip(branches, places, strict=True)), strict=True)
    given = {
        i: column[0] for i, column in enumerate(columns) if i < own and column[0] is not None and len({*column}) == 1
    }
    kept = [i for i in range(len(branches[0].graph.out_types)) if i not in given]
    graphs = [derived.placed(b.graph, types, p, kept) for b, p in zip(branches, places, strict=True)]
    return Cond(graphs), [now for _, now in captured.values()], given


def _forwarded(graph: Graph, places: Sequence[int]) -> list[int | None]:
    """Return for each result which input it is, where the graph's own inputs are at `places`."""
    return [i if i is None else places[i] for i in derived.forwarded(graph)]


def _check_branches(
    programs: Sequence[Program], functions: Sequence[Callable[..., Any]], what: str, names: Sequence[str]
) -> None:
    left = programs[0]
    for other, right in enumerate(programs[1:], 1):
        if left.out_spec != right.out_spec:
            kind, advice = (
                "branch outputs must have the same pytree structure, but they differ:",
                "they have the same pytree structure",
            )
            found = [
                f"{names[0]} output{at} is a {d.first} but {names[other]} output{at} is a {d.second}, so {d.reason}"
                for d in differences(left.out_spec, right.out_spec)
                for at in [d.path and f" at path {d.path}"]
            ]
        else:
            kind, advice = "branches must have equal output types but they differ.", "all output types match"
            found = _type_differences(left, right, names[0], names[other])
        if found:
            raise TypeError(
                f"{what} {kind}\n\n{names[0]} is {described(functions[0])}\n{names[other]} is "
                f"{described(functions[other])}\n\n{listed(found)}\n\nRevise {names[0]} and/or {names[other]} so that {advice}."
            )


def _type_differences(left: Program, right: Program, name: str, other: str) -> list[str]:
    paths = [path for path, _ in tree.leaves_with_path(left.out_spec.unflatten(left.out_avals))]
    found = []
    for path, a, b in zip(paths, left.out_avals, right.out_avals, strict=True):
        parts = [part for part in ("dtype", "shape") if getattr(a, part) != getattr(b, part)]
        if parts:
            at = f" at path {tree.keystr(path)}" if path else ""
            reason = ", and ".join(f"the {part}s do not match" for part in parts)
            found.append(
                f"The output of {name}{at} has type {type_text(a)} but the corresponding output of {other} has type "
                f"{type_text(b)}, so {reason}"
            )
    return found
