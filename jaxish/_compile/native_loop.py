"""Small loops as one C++ function: when they are, and how they are called (small graphs: native_graph.py).

A loop whose body does a few dozen operations on a few numbers spends all its time between them: 1 to 5 µs a step
when Python drives compiled steps, 3 ns when the loop is native. loop_sources.py writes such a loop out as C++, and
loop_compiler.py compiles it.

Bodies that are not written out, or that do enough work for kernels in parallel to pay, run step by step.

On the tier `auto` a loop begins step by step (`ready`). One that takes long has a compiler started beside it, and goes
on natively from where it then is (`upcoming`).
"""

import ctypes
import functools
import logging
import math
import os
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from .._core import cache, config, debugging, forks
from .._core.graph import Graph, TensorType
from . import loop_compiler
from .loop_compiler import Build, NativeLoop
from .loop_sources import Source
from .loop_values import Unsupported

_log = logging.getLogger("jaxish")


@dataclass(frozen=True)
class Loop:
    """A native loop, and the sizes of what it may be given."""

    native: NativeLoop
    source: Source

    def __call__(
        self, inputs: Sequence[Tensor], types: Sequence[TensorType], length: int = 0, reverse: bool = False
    ) -> list[Tensor]:
        """Run the loop and return its results, which are of these types."""
        outputs = [uninitialized(t.shape, strides_of(t.shape), t.dtype) for t in types]
        self.fill(outputs, inputs, length, reverse)
        return outputs

    def fill(self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], length: int = 0, reverse: bool = False) -> None:
        """Run the loop and write its results into contiguous tensors. It may be interrupted about every 50 ms."""
        given, places = placed(inputs)
        assert [t.nbytes for t in given] == self.source.bytes_of_inputs(length)
        made = [t.data_ptr() for t in outputs]
        if self.source.open_ended:
            self._run_to_its_end(places, made)
        elif self.source.independent:
            self.native(places, made, length, torch.get_num_threads() if length >= _SHARED_OUT else 1)
        elif length <= self.source.at_once:
            self.native(places, made, length, self._how(reverse))
        else:
            carried = len(self.source.carried)
            strides = [0] * carried + [t.nbytes // length for t in outputs[carried:]]
            self._run_in_parts(places, made, strides, length, reverse)

    def _how(self, reverse: bool = False) -> int:
        return 2 * (torch.get_num_threads() if self.source.is_parallel else 1) + reverse

    def _run_to_its_end(self, inputs: list[int], outputs: list[int]) -> None:
        carried, going = self.source.carried, ctypes.c_int64(1)
        made, count = [*outputs, ctypes.addressof(going)], self.source.at_once
        while True:
            start = time.perf_counter()
            self.native(inputs, made, count, self._how())
            if not going.value:
                return
            inputs[carried.start : carried.stop] = outputs
            count = _next_count(count, time.perf_counter() - start)

    def _run_in_parts(
        self, inputs: list[int], outputs: list[int], strides: Sequence[int], length: int, reverse: bool
    ) -> None:
        sliced, carried, done, count = self.source.sliced, self.source.carried, 0, self.source.at_once
        sizes, how = [0] * sliced + self.source.sizes[sliced:], self._how(reverse)
        while done < length:
            start = time.perf_counter()
            count = min(count, length - done)
            first = length - done - count if reverse else done
            given = [place + first * size for place, size in zip(inputs, sizes, strict=True)]
            self.native(given, [p + first * s for p, s in zip(outputs, strides, strict=True)], count, how)
            inputs[carried.start : carried.stop] = outputs[: len(carried)]
            done += count
            count = _next_count(count, time.perf_counter() - start)


_SHARED_OUT = 1 << 15  # steps, from which on it pays to start threads

# torch's fastest way to memory, by which Inductor's code gets its own (2.9 to 2.13): a quarter of torch.empty's time.
uninitialized = torch._C._dynamo.guards._empty_strided_cpu  # pyright: ignore[reportAttributeAccessIssue]


@functools.cache
def strides_of(shape: torch.Size) -> tuple[int, ...]:
    return tuple(math.prod(shape[d + 1 :]) for d in range(len(shape)))


def placed(tensors: Sequence[Tensor]) -> tuple[Sequence[Tensor], list[int]]:
    """Return the tensors, made contiguous, and where they lie as long as they are kept."""
    tensors = [t.contiguous() for t in tensors]
    places = [t.data_ptr() for t in tensors]
    if 0 in places:  # torch's stand-in for a derivative that is zero has no memory
        tensors = [torch.zeros(t.shape, dtype=t.dtype, device=t.device) if t._is_zerotensor() else t for t in tensors]
        places = [t.data_ptr() for t in tensors]
    return tensors, places


def _next_count(count: int, seconds: float) -> int:
    """Return how many steps to make in one go, after so many took so long: handlers of signals run in between."""
    return min(max(int(count * min(0.05 / max(seconds, 1e-6), 100)), 1), 1 << 40)


def ready(
    body: Graph, key: Hashable, source: Callable[[], Source], waits: bool = True, at_once: bool = False
) -> Loop | None:
    """Return the native loop over `body`, or None where it runs step by step.

    Which it is, the tier says (executable.py): never native on `direct`, at once on `compiled`, and from the second
    run on `auto`, which `waits` for the compiler or looks at it; the first may become native on its way (`upcoming`),
    or waits, too (`at_once`).
    """
    tier = config.jit_tier.value
    if tier == "direct" or debugging.is_on():
        return None
    entry = ("native loop", key)
    if tier == "auto" and not at_once and entry not in body.cache:
        body.cache[entry] = Awaited()
        return None
    found = body.cache.get(entry)
    if isinstance(found, Awaited):
        if is_beside_a_whole() and not at_once and not found.is_begun:
            return None
        waits = at_once or tier == "compiled" or (waits and not is_beside_a_whole())
        found = body.cache[entry] = found.settled(source) if waits else found.looked_at(source)
    elif entry not in body.cache:
        found = body.cache[entry] = _compiled(source)
    return None if isinstance(found, Awaited) else found


class _Beside(threading.local):
    a_whole = False


_beside = _Beside()


@contextmanager
def beside_a_whole() -> Iterator[None]:
    """Within, a compiler is at work on all that runs: its parts run operator by operator, and get none of their own."""
    before, _beside.a_whole = _beside.a_whole, True
    try:
        yield
    finally:
        _beside.a_whole = before


def is_beside_a_whole() -> bool:
    """Tell whether a compiler is at work on what this is a part of."""
    return _beside.a_whole


def tell_of(error: RuntimeError) -> None:
    _log.warning("jaxish goes on without a C++ function: %s", error)  # what runs now goes on: slower, and right


def _compiled(source: Callable[[], Source]) -> Loop | None:
    found = Awaited().settled(source)
    return None if isinstance(found, Awaited) else found


def upcoming(body: Graph, key: Hashable, source: Callable[[], Source]) -> "Upcoming | None":
    """Return what to ask between steps for the native loop over `body`; None where there will not be one."""
    entry = ("native loop", key)
    is_awaited = isinstance(body.cache.get(entry), Awaited) and config.jit_tier.value == "auto"
    return Upcoming(body, entry, source) if is_awaited and not debugging.is_on() else None


_PATIENCE = 0.05  # seconds that a loop runs step by step before a compiler is started on it
_PATIENCE_BESIDE = 1.0  # where the loop is part of what a compiler is at work on
_PAUSE = 0.002  # seconds after which the compiler is looked at again


class Upcoming:
    """What a loop that runs step by step on the tier `auto` asks between steps for its native loop.

    `is_over` once it will not get one, as its body is not written out.
    """

    def __init__(self, body: Graph, entry: Hashable, source: Callable[[], Source]) -> None:
        self.is_over = False
        self._body, self._entry, self._source = body, entry, source
        self._due = time.perf_counter() + (_PATIENCE_BESIDE if is_beside_a_whole() else _PATIENCE)

    def __call__(self) -> Loop | None:
        """Return the native loop if it is there; have it compiled if this loop takes long."""
        if time.perf_counter() < self._due or not one_at_a_time.acquire(blocking=False):
            return None
        try:
            found = self._body.cache[self._entry]
            if isinstance(found, Awaited):  # else another thread was here
                found = self._body.cache[self._entry] = self._advanced(found)
        finally:
            one_at_a_time.release()
        if isinstance(found, Loop):
            return found
        self.is_over = found is None
        self._due = time.perf_counter() + _PAUSE
        return None

    def _advanced(self, awaited: "Awaited") -> "Loop | Awaited | None":
        try:
            return awaited.advanced(self._source)
        except RuntimeError as error:  # the loop goes on as it runs now: slower, and right
            _log.warning("jaxish runs a loop step by step: %s", error)
            return None


one_at_a_time = threading.RLock()  # held where compilers are started and looked at
forks.wait_for(one_at_a_time)


class Awaited:
    """What is to be C++, and for which a compiler may be at work."""

    def __init__(self) -> None:
        self._source: Source | None = None
        self._build: Build | None = None
        self._process = 0  # whose child the compiler is: a fork starts one of its own

    @property
    def is_begun(self) -> bool:
        """Whether a compiler has been started."""
        return self._build is not None

    @property
    def loops(self) -> int:
        """How many loops there are within what is being compiled."""
        return 0 if self._source is None or self._build is None else self._source.loops

    def advanced(self, source: Callable[[], Source], may_start: bool = True) -> "Loop | Awaited | None":
        """Start the compiler if that is allowed, or look at it. Return the loop when it is there, None where there will be none."""
        try:
            return self._advanced(source, may_start)
        except Unsupported:
            return None
        except cache.Unusable as error:
            cache.warn(str(error))
            return None

    def _advanced(self, source: Callable[[], Source], may_start: bool) -> "Loop | Awaited | None":
        if self._build is not None and self._process == os.getpid():
            assert self._source is not None
            native = self._build.loop()
            return self if native is None else Loop(native, self._source)
        if self._source is None or may_start:
            self._source = self._source or source()
            native = loop_compiler.kept(self._source.text)
            if native is not None:
                return Loop(native, self._source)
            if may_start:
                self._build, self._process = self._started(self._source), os.getpid()
                return self if self._build is not None else None
            self._wait(self._source)
        return self

    def _started(self, source: Source) -> Build | None:
        return loop_compiler.started(source.text, source.name)

    def _wait(self, source: Source) -> None:
        """Be known as what waits for a compiler."""

    def looked_at(self, source: Callable[[], Source]) -> "Loop | Awaited | None":
        """Do as `advanced`, unless other threads or compilers are at work."""
        if not one_at_a_time.acquire(blocking=False):
            return self
        try:
            return self.advanced(source, self.is_begun or loop_compiler.has_room())
        except RuntimeError as error:
            tell_of(error)
            return None
        finally:
            one_at_a_time.release()

    def settled(self, source: Callable[[], Source], patience: float = math.inf) -> "Loop | Awaited | None":
        """Return the loop when it is compiled, or so many seconds after it was begun; None where it runs step by step."""
        while True:
            with one_at_a_time:
                found = self.advanced(source)
            if not isinstance(found, Awaited):
                return found
            if self._build is not None and not self._build.ends_within(patience):
                return self
