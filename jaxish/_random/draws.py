"""Drawing: from the bits of a key to an array of samples, by one kernel where the generator is threefry.

A `Sampler` says which bits each element of an array takes and what becomes of them. With threefry in the partitionable
layout, `Draw` computes bits and samples together, block by block; with any other generator the bits come as arrays.
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._compile.kernels import FEW_BLOCKS, Kernel, number
from .._compile.structured import Opaque
from .._core import functorch, graph
from .._core.array import from_numpy
from .._core.boxes import Box
from .._core.dimensions import broadcast_shape
from .._core.graph import TensorType
from .._core.operations import is_recorded
from .._core.primitive import Dims, Undifferentiated, batch_front
from .._core.target import Target
from .._tensors.ciphers import Rounds
from . import threefry
from .primitives import random_bits

_SIGNED = {8: torch.uint8, 16: torch.int16, 32: torch.int32, 64: torch.int64}


@dataclass(frozen=True)
class Bits:
    """`copies` times `width` bits per element, from the key of this index: an array of shape (copies, ...)."""

    width: int
    copies: int = 1
    key: int = 0


@dataclass(frozen=True, eq=False)
class Sampler:
    """`function(*bits, *parameters)` gives samples of `dtypes`; bits are signed (8 bits: unsigned) tensors.

    Samplers with different functions have different names: compiled code knows a draw by the name (`Primitive.identity`).
    """

    name: str
    function: Callable[..., Any] = field(repr=False)
    dtypes: tuple[torch.dtype, ...]
    bits: tuple[Bits, ...] = (Bits(32),)

    def results(self, *inputs: Tensor) -> list[Tensor]:
        """Return the samples as a list."""
        found = self.function(*inputs)
        return [found] if isinstance(found, Tensor) else list(found)


# The two words of a key, next to each other in memory.
PAIRS = Sampler("pairs", lambda bits: (bits << 32) | ((bits >> 32) & 0xFFFFFFFF), (torch.int64,), (Bits(64),))


@functools.cache
def bits_of(width: int) -> Sampler:
    """Return the sampler of plain bits."""
    return Sampler(f"bits{width}", lambda bits: bits, (_SIGNED[width],), (Bits(width),))


def draw(sampler: Sampler, impl: Any, keys: Tensor, shape: tuple[int, ...], *parameters: Tensor) -> Tensor:
    """Return samples of this shape; `keys` holds one key, or as many as the sampler uses along the first dimension.

    The parameters broadcast to the shape. Nothing here is differentiable.
    """
    count = math.prod(shape)
    one_kernel = impl.name == "threefry2x32" and threefry.partitionable()
    if one_kernel and not (graph.tracing and is_recorded()):  # a jaxpr shows the bits
        rows = [p.reshape(1) if p.numel() == 1 else p.expand(shape).reshape(-1) for p in parameters]
        return from_threefry(sampler, keys, count, *rows)[0].reshape(shape)
    several = keys.dim() > len(impl.key_shape)
    raw = [raw_bits(b, impl, keys[b.key] if several else keys, shape) for b in sampler.bits]
    bits = [part for found in raw for part in found.unbind(0)]
    return sampler.results(*bits, *parameters)[0].reshape(shape)


def raw_bits(wanted: Bits, impl: Any, key: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return the bits that a sampler wants of a key of any generator: (copies, *shape)."""
    copies = (wanted.copies,) if wanted.copies > 1 else ()
    found = random_bits(key, impl, wanted.width, (*copies, *shape)).view(_SIGNED[wanted.width])
    return found if copies else found.unsqueeze(0)


Formula = Callable[..., Tensor]


def sampled(
    standard: Sampler, formula: Formula, impl: Any, keys: Tensor, shape: tuple[int, ...], *parameters: Tensor
) -> Tensor:
    """Return `formula(standard samples, *parameters)`, a tensor of the samples' dtype, differentiable in the parameters.

    `formula` is a function of a module. Called on concrete values, draw and formula are one kernel.
    """
    if functorch.peek_interpreter_stack() is None and not graph.tracing:
        return draw(_with_formula(standard, formula), impl, keys, shape, *parameters)
    return formula(draw(standard, impl, keys, shape), *parameters)


@functools.cache
def _with_formula(standard: Sampler, formula: Formula) -> Sampler:
    takes = sum(bits.copies for bits in standard.bits)

    def run(*inputs: Tensor) -> Tensor:
        return formula(*standard.results(*inputs[:takes]), *inputs[takes:])

    return Sampler(f"{standard.name}_{formula.__qualname__}", run, standard.dtypes, standard.bits)


def from_threefry(sampler: Sampler, keys: Tensor, count: int, *parameters: Tensor) -> list[Tensor]:
    """Return `count` samples per result; parameters have 1 or `count` elements."""
    words = keys.view(torch.int32)
    return Draw(sampler, count)(words if words.dim() > 1 else words.unsqueeze(0), *parameters)


def part_from_threefry(sampler: Sampler, keys: Tensor, start: Tensor, count: int, total: int) -> list[Tensor]:
    """Return `count` samples per result out of `total`, those from position `start` on (an int64 tensor (1,))."""
    words = keys.view(torch.int32)
    return Draw(sampler, count, total)(words if words.dim() > 1 else words.unsqueeze(0), start)


class Draw(Undifferentiated, Opaque):
    """`count` samples for keys (*batch, number of keys, 2) and parameters that broadcast to (*batch, count).

    With `total` they are a part of so many samples, and the first parameter says which ones (see `positions_in`).
    """

    def __init__(self, sampler: Sampler, count: int, total: int | None = None) -> None:
        self.sampler, self.count, self.total = sampler, count, total
        self.__name__ = f"draw_{sampler.name}"

    def _batch(self, inputs: Sequence[Tensor]) -> tuple[int, ...]:
        shapes = {inputs[0].shape[:-2], *(p.shape[:-1] for p in inputs[1:])}
        return tuple(shapes.pop() if len(shapes) == 1 else broadcast_shape(*shapes))

    def out_types(self, *inputs: Tensor) -> Sequence[TensorType]:
        shape = (*self._batch(inputs), self.count)
        return [TensorType(shape, dtype, inputs[0].device) for dtype in self.sampler.dtypes]

    def run(self, *inputs: Tensor) -> list[Tensor]:
        batch = self._batch(inputs)
        keys, *parameters = inputs
        if not batch:
            return self._one(keys, parameters)
        lanes = math.prod(batch)
        keys = keys.expand(*batch, *keys.shape[-2:]).reshape(lanes, *keys.shape[-2:])
        parameters = [p.expand(*batch, p.shape[-1]).reshape(lanes, p.shape[-1]) for p in parameters]
        if lanes and self.count >= _LONG:
            each = [self._one(k, [p[i] for p in parameters]) for i, k in enumerate(keys)]
            results = [torch.cat(parts) for parts in zip(*each, strict=True)]
        else:
            results = self._together(lanes, keys, parameters)
        return [r.reshape(*batch, self.count) for r in results]

    def _one(self, keys: Tensor, parameters: Sequence[Tensor]) -> list[Tensor]:
        whole = [p.shape[-1] == 1 for p in parameters]
        if self.total is not None:
            whole[0] = True
        kernel = _counting(self.sampler, tuple(whole), self.total is not None)
        shared = [p for p, w in zip(parameters, whole, strict=True) if w]
        rows = [p for p, w in zip(parameters, whole, strict=True) if not w]
        return kernel(self.count, keys, self._whole_count(keys.device), *shared, *rows)

    def spelled_out(self, target: Target, *inputs: Tensor) -> list[Tensor]:
        keys, *parameters = inputs
        counters = torch.arange(self.count, device=keys.device)
        if self.total is not None:
            counters = positions_in(parameters.pop(0), counters)
        words = [(keys[..., i, :1], keys[..., i, 1:]) for i in range(keys.shape[-2])]
        count = self.count if self.total is None else self.total
        rounds = threefry.ciphered if target.has_instructions else threefry.cipher
        found = self.sampler.results(*bits_at(self.sampler, words, counters, count, rounds), *parameters)
        return [f.expand(t.shape) for f, t in zip(found, self.out_types(*inputs), strict=True)]

    def _whole_count(self, device: torch.device) -> Tensor:
        return number(self.count if self.total is None else self.total, device)

    def _together(self, lanes: int, keys: Tensor, parameters: Sequence[Tensor]) -> list[Tensor]:
        def spread(column: Tensor) -> Tensor:
            return column.expand(lanes, self.count).reshape(-1)

        positions = torch.arange(self.count, device=keys.device).unsqueeze(0)
        if self.total is not None:
            positions = positions_in(parameters[0], positions)
            parameters = parameters[1:]
        counters = spread(positions)
        words = [spread(keys[:, i, j : j + 1]) for i in range(keys.shape[1]) for j in range(2)]
        kernel = _by_rows(self.sampler, keys.shape[1])
        count = self._whole_count(keys.device)
        return kernel(lanes * self.count, count, counters, *words, *map(spread, parameters))

    def part(self, index: int, box: Box, types: Sequence[TensorType]) -> Any:
        batch = self.out_types(*types)[index].shape[:-1]  # pyright: ignore
        outer, inner = box.split(len(batch))
        if self.total is not None or outer.shape != batch or math.prod(inner.shape) != self.count:
            return None
        boxes: list[Box | None] = [_leading(outer, types[0].shape[:-2]).joined(Box.whole(types[0].shape[-2:]))]
        for type in types[1:]:
            row = Box.whole((1,)) if type.shape[-1] == 1 else inner
            boxes.append(_leading(outer, type.shape[:-1]).joined(row))

        def run(keys: Tensor, *parameters: Tensor) -> Tensor:
            rows = [as_rows(p, t, inner) for p, t in zip(parameters, types[1:], strict=True)]
            return Draw(self.sampler, inner.count, self.count)(keys, grid_of(inner, keys.device), *rows)[index]

        return boxes, run

    def vmap(self, size: int, dims: Dims, *inputs: Tensor) -> tuple[list[Tensor], list[int | None]]:
        fronted = [t.unsqueeze(0) if d is None else batch_front(t, d, size) for t, d in zip(inputs, dims, strict=True)]
        results = self(*fronted)
        return results, [0] * len(results)


def _leading(outer: Box, shape: tuple[int, ...]) -> Box:
    """Return the box of an operand's batch dimensions, which broadcast to those of the result."""
    found = outer.narrowed(outer.shape, shape)
    assert found is not None
    return found


def as_rows(part: Tensor, type: TensorType, inner: Box) -> Tensor:
    """Return the part of a parameter (*batch, 1 or count) for a box of the samples, as (*batch, 1 or box's count)."""
    return part.reshape(*part.shape[: len(type.shape) - 1], 1 if type.shape[-1] == 1 else inner.count)


def grid_of(box: Box, device: torch.device) -> Tensor:
    """Return the tensor that says which elements of an array are in a box (see `positions_in`)."""
    runs = [word for pair in box.runs() for word in pair]
    return from_numpy(np.array([0, box.first, *runs], np.int64), device)


def positions_in(grid: Tensor, numbers: Tensor) -> Tensor:
    """Return where in an array the elements with these numbers of a part of it stand.

    The last dimension of `grid` holds the position where a contiguous part begins; or, for a box, a number to be added
    to all numbers, the position of the first element, and then per dimension of the box size and distance.
    """
    words = [grid[..., i : i + 1] for i in range(grid.shape[-1])]
    if len(words) == 1:
        return numbers + words[0]
    numbers, found = numbers + words[0], words[1]
    for size, distance in reversed(list(zip(words[4::2], words[5::2], strict=True))):
        found = found + numbers % size * distance
        numbers = numbers // size
    return found + numbers * words[3]


_LONG = 4096  # from here on, a batch of arrays is drawn one after the other


def bits_at(
    sampler: Sampler, keys: Sequence[tuple[Tensor, Tensor]], counters: Tensor, count: Tensor | int,
    rounds: Rounds = threefry.cipher,
) -> list[Tensor]:  # fmt: skip
    """Return the bits that a sampler takes for the elements at `counters` of an array with `count` elements."""
    bits = []
    for wanted in sampler.bits:
        for copy in range(wanted.copies):
            places = counters + copy * count if copy else counters
            first, second = threefry.at_counters(*keys[wanted.key], places, rounds)
            if wanted.width == 64:
                bits.append(threefry.joined(first, second))
            else:
                word = first ^ second
                bits.append(word if wanted.width == 32 else threefry.narrowed(word, wanted.width))
    return bits


@functools.cache
def _counting(sampler: Sampler, whole: tuple[bool, ...], part: bool) -> Kernel:
    """Return the kernel for one array; `whole` says which parameters are the same for all elements.

    For a part of an array the first parameter is where it begins.
    """

    def run(counters: Tensor, keys: Tensor, count: Tensor, *parameters: Tensor) -> list[Tensor]:
        shared, rows = iter(parameters[: sum(whole)]), iter(parameters[sum(whole) :])
        ordered = [next(shared) if w else next(rows) for w in whole]
        if part:
            counters = positions_in(ordered.pop(0), counters)
        return _expanded(sampler.results(*bits_at(sampler, keys.unbind(0), counters, count), *ordered), counters)  # pyright: ignore

    return Kernel(run, shared=2 + sum(whole))


@functools.cache
def _by_rows(sampler: Sampler, keys: int) -> Kernel:
    """Return the kernel for many arrays, each element with key words and parameters of its own."""

    def run(_: Tensor, count: Tensor, counters: Tensor, *rows: Tensor) -> list[Tensor]:
        words, parameters = rows[: 2 * keys], rows[2 * keys :]
        pairs = [(words[2 * i], words[2 * i + 1]) for i in range(keys)]
        return _expanded(sampler.results(*bits_at(sampler, pairs, counters, count), *parameters), counters)

    return Kernel(run, shared=1, blocks=FEW_BLOCKS)


def _expanded(results: list[Tensor], counters: Tensor) -> list[Tensor]:
    return [r.expand(counters.shape) for r in results]
