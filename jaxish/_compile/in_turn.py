"""Compiled functions that follow each other, called in turn by one function in C++, with one block of memory between them.

A call from Python takes 3 µs and an allocation for each result, as long as a layer of a small network. Nothing of this is
compiled for a graph: what is called with what is a row of numbers.
"""

import bisect
import itertools
import math
from array import array
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from torch import Tensor

from .._core.graph import TensorType
from .loop_compiler import NativeLoop
from .native_graph import caller

_LINE = 64  # bytes of a cache line, at which each array begins
_WORD = 8

# A step is the place of its function, whether it runs in threads, how many arrays it takes and fills, and for each of these
# its number among those given, or, as a negative number, how far into the block it lies. There what a function is given comes first.
SOURCE = r"""extern "C" void in_turn(const int64_t* given) {
  const int64_t threads = given[1], *step = (const int64_t*)given[2], *const end = step + given[3];
  const Memory memory(given[4]);
  int64_t* const call = (int64_t*)memory.place;
  call[0] = 1;
  while (step < end) {
    const auto function = (void (*)(const int64_t*))step[0];
    const int64_t count = step[2];
    call[1] = step[1] ? threads : 1;
    for (int64_t i = 0; i < count; ++i) call[2 + i] = step[3 + i] < 0 ? (int64_t)(memory.place - step[3 + i]) : given[5 + step[3 + i]];
    function(call);
    step += 3 + count;
  }
}
"""


Name = TypeVar("Name", bound=Hashable)  # of an array


@dataclass(frozen=True)
class Step(Generic[Name]):
    """A function of a library, and the names of the arrays that it takes and fills."""

    native: NativeLoop
    name: str
    is_parallel: bool
    inputs: Sequence[Name]
    outputs: Sequence[Name]


def called(
    steps: Sequence[Step[Name]],
    inputs: Sequence[Name],
    results: Sequence[Name],
    types: Mapping[Name, TensorType],
    updated: Mapping[Name, Name],
) -> Callable[..., Sequence[Tensor]]:
    """Return what takes the arrays `inputs`, runs the steps, and returns `results`, of all that the steps fill, of these types.

    Other arrays live from the step that fills them to the last one that takes them. Results that are `updated` inputs may be
    written into these.
    """
    numbers = {name: i for i, name in enumerate([*inputs, *results])}
    sizes = {n: max(math.prod(t.shape) * t.dtype.itemsize, 1) for n, t in types.items() if n not in numbers}
    used = [(step.inputs, step.outputs) for step in steps]
    head = _WORD * (2 + max(len(given) + len(filled) for given, filled in used))
    places, room = _in_block(used, sizes, head)
    row = array("q")
    for step in steps:
        given = [numbers[a] if a in numbers else -places[a] for a in (*step.inputs, *step.outputs)]
        row.extend([step.native.place_of(step.name), step.is_parallel, len(given), *given])
    begin, count = row.buffer_info()
    return caller(
        steps[0].native,
        "in_turn",
        len(inputs),
        [types[name] for name in results],
        any(step.is_parallel for step in steps),
        numbers=(begin, count, room),
        kept=(row, [step.native for step in steps]),
        updated={results.index(new): inputs.index(old) for new, old in updated.items()},
    )


def _in_block(
    used: Sequence[tuple[Sequence[Name], Sequence[Name]]], sizes: Mapping[Name, int], head: int
) -> tuple[dict[Name, int], int]:
    """Return where each array lies in a block of memory, in the first gap that it fits in, and the size of the block.

    Steps take and fill the arrays that are `used`, those of `sizes` lie in the block, and at its head there is something else.
    """
    last = {name: number for number, names in enumerate(used) for name in itertools.chain(*names)}
    places: dict[Name, int] = {}
    room, taken = head, [(0, head)]
    for number, (given, filled) in enumerate(used):
        for name in filter(sizes.__contains__, filled):
            places[name] = place = _gap(taken, sizes[name])
            bisect.insort(taken, (place, place + sizes[name]))
            room = max(room, place + sizes[name])
        for name in {*given, *filled}:
            if name in sizes and last[name] == number:
                taken.remove((places[name], places[name] + sizes[name]))
    return places, room


def _gap(taken: Sequence[tuple[int, int]], size: int) -> int:
    """Return the first place of a cache line from which on nothing is taken for so many bytes."""
    place = 0
    for begin, end in taken:
        if begin - place >= size:
            break
        place = max(place, -(-end // _LINE) * _LINE)
    return place
