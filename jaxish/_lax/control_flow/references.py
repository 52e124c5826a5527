"""Mutable references in loops and branches: what they hold goes through the graphs like a part of the carry."""

from collections.abc import Sequence

from torch import Tensor

from ..._core import derived, graph
from ..._core.array import Array, tensor_of
from ..._core.cells import unaffected
from ..._core.graph import ClosedGraph, TensorType
from ..._core.primitive import Primitive
from ..._core.refs import Ref
from ..._transforms.program import Program, reference


def written_by(programs: Sequence[Program]) -> tuple[list[Ref], list[int]]:
    """Return the references that functions close over and write, and the positions of those arguments that they write."""
    sources = dict.fromkeys(s for p in programs if p.uses is not None for s in p.uses.written)
    return [s for s in sources if isinstance(s, Ref)], [s for s in sources if isinstance(s, int)]


def values_of(refs: Sequence[Ref]) -> list[Tensor]:
    """Return what references hold."""
    return [tensor_of(ref._read()) for ref in refs]


def threaded(
    program: Program,
    arrays: Sequence[Array],
    refs: Sequence[Ref],
    arguments: Sequence[int],
    place: int,
    results: int | None = None,
) -> ClosedGraph:
    """Return a program's graph with what `refs` hold among its inputs, before the input `place` of its function.

    What they hold in the end is among the results, before result `results` of the function; what the arguments at
    `arguments` hold then comes last. Without `results`, the graph has the function's results only.
    """
    if program.uses is None and not refs and not arguments:
        return program.closed
    body, closure = program.closed.graph, program.closure(arrays)
    borrowed = {} if program.uses is None else program.uses.borrowed
    position = {ref: i for i, (ref, what) in borrowed.items() if what == "value" and ref in refs}
    count, own = len(closure), len(program.out_kinds)
    kept = [i for i in range(count) if i not in position.values()]
    written = () if program.uses is None else program.uses.written
    ends = {source: own + i for i, source in enumerate(written)}

    def run(*inputs: Tensor) -> list[Tensor]:
        consts, given = inputs[: len(kept)], inputs[len(kept) :]
        held, taken = given[place : place + len(refs)], [*given[:place], *given[place + len(refs) :]]
        known = dict(zip(kept, consts, strict=True))
        known.update((position[ref], value) for ref, value in zip(refs, held, strict=True) if ref in position)
        found = body(*(known[i] for i in range(count)), *taken)
        if results is None:
            return found[:own]
        last = [found[ends[ref]] if ref in ends else value for ref, value in zip(refs, held, strict=True)]
        of_arguments = [found[ends[i]] if i in ends else taken[i] for i in arguments]
        return [*found[:results], *last, *found[results:own], *of_arguments]

    own_types, ref_types = body.in_types[count:], [TensorType.of(v) for v in values_of(refs)]
    types = [*(body.in_types[i] for i in kept), *own_types[:place], *ref_types, *own_types[place:]]
    key = (
        "threaded", tuple(position.get(r) for r in refs), tuple(ends.get(s) for s in (*refs, *arguments)),
        tuple(arguments), place, results,
    )  # fmt: skip
    return ClosedGraph(
        derived.cached(body, key, lambda: graph.trace(run, types).graph), tuple(closure[i] for i in kept)
    )


def put_back(
    ends: Sequence[tuple[Ref, int]], results: Sequence[Tensor], primitive: Primitive, inputs: Sequence[Tensor]
) -> None:
    """Write results of a primitive into references, each of which is given with its result's position."""
    for ref, position in ends:
        ref._take_back(results[position], unaffected(primitive.reached, position, inputs))


def ends_of(
    refs: Sequence[Ref], arguments: Sequence[int], arrays: Sequence[Array], results: int, own: int
) -> list[tuple[Ref, int]]:
    """Return the references with the positions where `threaded` puts what they hold in the end."""
    of_arguments = enumerate((reference(i, arrays) for i in arguments), own + len(refs))
    return [*((ref, results + i) for i, ref in enumerate(refs)), *((ref, i) for i, ref in of_arguments)]
