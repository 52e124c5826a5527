"""Elementwise functions that are compiled once for blocks of a few fixed sizes and run on arrays of any size.

A random number takes some hundred operations; run one by one over a whole array each of them goes through memory.
A kernel goes through blocks that stay in cache, and is compiled once per machine instead of once per array size.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from .._core import config, graph
from .._core.graph import Graph, TensorType
from . import executable

_SMALL, _MEDIUM, _LARGE = 64, 4096, 65536  # elements per call: small draws, L1, L2

FEW_BLOCKS = (_SMALL, _MEDIUM)  # for kernels with many rows, in which a large block would not stay in cache


@dataclass(frozen=True, eq=False)
class Kernel:
    """A function of positions (int64), of `shared` tensors that are given whole, and of rows, element by element.

    It returns one tensor per result, as long as the positions. Each block size that is met is compiled once.
    """

    function: Callable[..., Sequence[Tensor]]
    shared: int
    blocks: tuple[int, ...] = (_SMALL, _MEDIUM, _LARGE)

    def __call__(self, count: int, *inputs: Tensor) -> list[Tensor]:
        """Return the results for the positions 0 to `count`; the inputs after the shared ones have `count` elements."""
        block = next((b for b in self.blocks if count <= b), self.blocks[-1])
        shared, rows = inputs[: self.shared], inputs[self.shared :]
        types = (*map(TensorType.of, shared), *(TensorType((block,), r.dtype, r.device) for r in rows))
        body = _traced(self, block, types, config.state())
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


def _padded(row: Tensor, block: int) -> Tensor:
    return row if row.shape[0] == block else F.pad(row, (0, block - row.shape[0]))


@functools.cache
def _traced(kernel: Kernel, block: int, types: tuple[TensorType, ...], state: int) -> Graph:
    device = types[0].device

    def run(first: Tensor, *inputs: Tensor) -> Sequence[Tensor]:
        return list(kernel.function(first + torch.arange(block, device=device), *inputs))

    return graph.trace(run, [TensorType((), torch.int64, device), *types]).graph
