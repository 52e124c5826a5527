"""Elementwise functions that are compiled once and run on arrays of any size.

A random number takes some hundred operations; run one by one over a whole array each of them goes through memory.
A kernel goes through all of them for a few numbers at a time.
"""

import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .._core import accelerator, config, graph
from .._core.graph import Graph, TensorType
from . import executable, loop_sources, lowering, native_loop

_SMALL, _MEDIUM, _LARGE = 64, 4096, 65536  # elements per call: small draws, L1, L2

_TRACING, _COMPILING = 0.05, 2.0  # seconds that these take, about

_SHORT = 32768  # elements that the function itself makes in a few milliseconds

_LEAST_AT_ONCE, _MOST_AT_ONCE = 1 << 10, 1 << 26  # elements that a GPU makes, which has no cache to stay in

_PART = 1 << 22  # elements between which handlers of signals run: some 20 ms of normals

_CPU = torch.device("cpu")

FEW_BLOCKS = (_SMALL, _MEDIUM)  # for kernels with many rows, in which a large block would not stay in cache


@dataclass(frozen=True, eq=False)
class Kernel:
    """A function of positions (int64), of `shared` tensors that are given whole, and of rows, element by element.

    It returns one tensor per result, as long as the positions. On the CPU it is one C++ function (native_loop.py), whatever
    the length; on the tier `auto` short arrays come from the function itself until that has taken as long as tracing it
    would, and while the C++ compiler is at work. Elsewhere, and where there is no compiler, arrays are gone through in
    blocks, and each block size that is met is compiled once: on a GPU a whole array is one block, of the next power of two.
    In a graph that is being lowered the function is written out.

    What computes the same of whole tensors may be given as `itself`. Then nothing waits: arrays of any length come from it
    until it has taken so long, and while the compiler is at work.
    """

    function: Callable[..., Sequence[Tensor]]
    shared: int
    blocks: tuple[int, ...] = (_SMALL, _MEDIUM, _LARGE)
    itself: Callable[..., Tensor] | None = None
    _bodies: dict[Any, Graph] = field(default_factory=dict)
    _seconds: dict[Any, float] = field(default_factory=dict)  # that the function itself has taken

    def __call__(self, count: int, *inputs: Tensor) -> list[Tensor]:
        """Return the results for the positions 0 to `count`; the inputs after the shared ones have `count` elements."""
        if graph.tracing and lowering.is_lowering():
            return self._spelled_out(count, inputs)
        if accelerator.is_gpu(inputs[0].device):
            is_direct = config.jit_tier.value == "direct"
            return self._itself(count, inputs) if is_direct else self._by_blocks(count, inputs, _power_of_two(count))
        is_short, key = count <= _SHORT or self.itself is not None, self._key(1, inputs)
        if key in self._bodies or not self._runs_itself(key, _TRACING, is_short):
            native = self._native(key, is_short, inputs)
            if native is not None:
                return self._by_parts(native, self._bodies[key].out_types, count, inputs)
        if self.itself is not None or (is_short and self._runs_itself(key, _COMPILING, is_short)):
            return self._timed(key, count, inputs)
        return self._by_blocks(count, inputs, next((b for b in self.blocks if count <= b), self.blocks[-1]))

    def _native(self, key: Any, is_short: bool, inputs: Sequence[Tensor]) -> native_loop.Loop | None:
        body = self._body(key, 1, inputs)
        source = functools.partial(loop_sources.map_source, body, self.shared)
        return native_loop.ready(body, "kernel", source, waits=not is_short, at_once=not is_short)

    def _by_parts(
        self, native: native_loop.Loop, out_types: Sequence[TensorType], count: int, inputs: Sequence[Tensor]
    ) -> list[Tensor]:
        """Run the C++ function, between whose calls handlers of signals run."""
        if count <= _PART:
            types = [TensorType((count,), t.dtype, t.device) for t in out_types]
            return native([number(0, _CPU), *inputs], types, count)
        results = [torch.empty(count, dtype=t.dtype, device=t.device) for t in out_types]
        shared, rows = inputs[: self.shared], inputs[self.shared :]
        for first in range(0, count, _PART):
            part = slice(first, min(first + _PART, count))
            given = [number(first, _CPU), *shared, *(r[part] for r in rows)]
            native.fill([r[part] for r in results], given, part.stop - first)
        return results

    def _runs_itself(self, key: Any, seconds: float, is_short: bool) -> bool:
        """Tell whether no C++ function is asked for: always on the tier `direct`, for so long on `auto`."""
        tier = config.jit_tier.value
        return tier == "direct" or (tier == "auto" and is_short and self._seconds.get(key, 0.0) < seconds)

    def _timed(self, key: Any, count: int, inputs: Sequence[Tensor]) -> list[Tensor]:
        start = time.perf_counter()
        results = self._itself(count, inputs)
        self._seconds[key] = self._seconds.get(key, 0.0) + time.perf_counter() - start
        return results

    def _itself(self, count: int, inputs: Sequence[Tensor]) -> list[Tensor]:
        return self._spelled_out(count, inputs) if self.itself is None else [self.itself(*inputs)]

    def _spelled_out(self, count: int, inputs: Sequence[Tensor]) -> list[Tensor]:
        positions = torch.arange(count, device=inputs[0].device)
        return [found.expand(count) for found in self.function(positions, *inputs)]

    def _by_blocks(self, count: int, inputs: Sequence[Tensor], block: int) -> list[Tensor]:
        shared, rows = inputs[: self.shared], inputs[self.shared :]
        body = self._body(self._key(block, inputs), block, inputs)
        run = executable.of(body)
        device = inputs[0].device
        results = [torch.empty(count, dtype=t.dtype, device=device) for t in body.out_types]
        for first in range(0, count, block):
            stop = min(first + block, count)
            start = torch.full((), first, dtype=torch.int64, device=device)
            parts = run.run(start, *shared, *(_padded(r[first:stop], block) for r in rows))
            for result, part in zip(results, parts, strict=True):
                result[first:stop] = part[: stop - first]
        return results

    def _key(self, block: int, inputs: Sequence[Tensor]) -> Any:
        # Made at every draw: torch's own objects are hashed faster than TensorTypes.
        kinds = [(t.shape, t.dtype) for t in inputs[: self.shared]] + [(None, t.dtype) for t in inputs[self.shared :]]
        return block, config.state(), inputs[0].device, *kinds

    def _body(self, key: Any, block: int, inputs: Sequence[Tensor]) -> Graph:
        """Return the graph for blocks of this size."""
        found = self._bodies.get(key)
        if found is None:
            shared, rows, device = inputs[: self.shared], inputs[self.shared :], inputs[0].device
            types = (*map(TensorType.of, shared), *(TensorType((block,), r.dtype, device) for r in rows))
            found = self._bodies[key] = self._traced(block, types)
        return found

    def _traced(self, block: int, types: tuple[TensorType, ...]) -> Graph:
        device = types[0].device

        def run(first: Tensor, *inputs: Tensor) -> Sequence[Tensor]:
            return list(self.function(first + torch.arange(block, device=device), *inputs))

        return graph.trace(run, [TensorType((), torch.int64, device), *types]).graph


@functools.lru_cache(1024)
def number(value: int, device: torch.device) -> Tensor:
    """Return a number as a tensor, for a kernel."""
    return torch.full((), value, dtype=torch.int64, device=device)


def _power_of_two(count: int) -> int:
    return min(max(1 << (count - 1).bit_length(), _LEAST_AT_ONCE), _MOST_AT_ONCE)


def _padded(row: Tensor, block: int) -> Tensor:
    return row if row.shape[0] == block else F.pad(row, (0, block - row.shape[0]))
