"""Functions on a GPU, recorded as CUDA graphs where that pays.

A step of a small program is a hundred kernels, and launching one takes longer than it runs: 7 µs from generated Python, 2
within a recorded graph (H100). Operator by operator it takes 20 and more, so that what runs so while it is compiled, for
half a minute, is recorded as well. A graph reads and writes memory of its own, so that inputs are copied in and results out,
some 20 µs a call. Whether it pays is measured, once, after calls in which kernels were loaded and tuned.

What looks at a value cannot be recorded: torch raises, and the function stays as it was. What calls Python says so itself
(`needs_python`), since Python would not be called again.

The graphs of a stream share one pool of memory: they run one after the other, and nothing in it is read later.
"""

import contextlib
import functools
import math
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence

import torch
from torch import Tensor

from .._core import accelerator, dtypes, unsigned
from .._core.graph import TensorType
from . import background

Run = Callable[..., Sequence[Tensor]]

_WARM_UP, _TRIES = 2, 20  # calls: the first one that is timed, and the last
_TOO_LONG = 0.25  # seconds of a call: launching is not what they are spent on, or the graph would be huge
_SHORT = 0.01  # seconds of a call, below which it is measured three times
_TOO_LARGE = 1 << 28  # bytes to be copied
_GAIN = 0.9  # of the time of a call, below which a graph is kept

_one_at_a_time = threading.Lock()  # is recorded: the memory is shared
_of_thread = threading.local()  # `is_part`: what is called belongs to a function that may be recorded as a whole


class NeedsPython(RuntimeError):
    """A function that is being recorded calls Python, which a graph cannot."""


def needs_python() -> None:
    """Say that what follows calls Python. Raises `NeedsPython` where a function is being recorded."""
    if torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():
        raise NeedsPython


def recorded(run: Run, use: Callable[[Run], None], types: Iterable[TensorType], is_for_now: bool = False) -> Run:
    """Return what calls `run`, a function of tensors of these types, until it is known whether to record it.

    `use` is told what to call from then on. Nothing is recorded but what is on one GPU as a whole. A compiled function
    waits until the compiler is at rest, since it is measured; what runs `is_for_now`, until that is done, does not.
    """
    devices = {type.device for type in types}
    if len(devices) != 1 or not accelerator.is_gpu(device := devices.pop()):
        return run
    return _WarmUp(run, use, device, is_for_now)


class _WarmUp:
    """The calls of a function until it is known whether to record it."""

    def __init__(self, run: Run, use: Callable[[Run], None], device: torch.device, is_for_now: bool) -> None:
        self._run, self._use, self._device, self._is_for_now = run, use, device, is_for_now
        self._lock, self._calls, self._seconds, self._is_ready = threading.Lock(), 0, math.inf, False

    def __call__(self, *tensors: Tensor) -> Sequence[Tensor]:
        if getattr(_of_thread, "is_part", False):
            return self._run(*tensors)
        self._calls += 1
        is_short = self._seconds <= _TOO_LONG
        is_time = self._is_ready if is_short else self._calls > _TRIES
        # Once, the lock stays: after several failures in a recording cuSOLVER fails outside of one, too (torch 2.11).
        if is_time and self._lock.acquire(blocking=False):
            found = _recording(self._run, tensors, self._device, self._seconds) if is_short else None
            self._use(found or self._run)
        is_at_rest = self._is_for_now or not background.compiler().is_busy
        with _as_one():
            if self._calls < _WARM_UP or is_short:
                results = self._run(*tensors)
            else:  # again if another thread had the interpreter to itself
                self._seconds, results = _timed(self._run, tensors)
        # What it calls may have been compiled since the last call. Kernels are loaded and tuned when they first run.
        self._is_ready = is_at_rest
        return results


@contextlib.contextmanager
def _as_one() -> Iterator[None]:
    """Within this context manager nothing is recorded by itself."""
    _of_thread.is_part = True
    try:
        yield
    finally:
        _of_thread.is_part = False


def _recording(run: Run, tensors: Sequence[Tensor], device: torch.device, seconds: float) -> "_Recording | None":
    """Return `run`, a call of which takes about so many seconds, as a graph; None where it cannot be one, or is no faster as one."""
    if sum(t.nbytes for t in tensors) > _TOO_LARGE:
        return None
    with _one_at_a_time, _as_one(), torch.cuda.device(device), torch.no_grad():
        try:
            made = _Recording(run, tensors, device)
        except Exception:  # torch's and CUDA's, of what may not be recorded; one of the function's own comes again
            _memory.cache_clear()
            return None
        times = 3 if seconds < _SHORT else 1
        plainly, replayed = (min(_timed(f, tensors)[0] for _ in range(times)) for f in (run, made))
        return made if made.copied <= _TOO_LARGE and replayed < _GAIN * plainly else None


def _timed(run: Run, tensors: Sequence[Tensor]) -> tuple[float, Sequence[Tensor]]:
    """Return how many seconds a call takes until its results are there, and these."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    results = run(*tensors)
    torch.cuda.synchronize()
    return time.perf_counter() - start, results


class _Memory:
    """The memory of the graphs that run in one stream, and the stream in which they are recorded."""

    def __init__(self, device: torch.device) -> None:
        self.pool, self.stream = torch.cuda.graph_pool_handle(), torch.cuda.Stream(device)
        self._keeper = torch.cuda.CUDAGraph()  # of nothing: the last graph to go would take the pool along
        with self.recording(self._keeper):
            pass

    @contextlib.contextmanager
    def recording(self, graph: torch.cuda.CUDAGraph) -> Iterator[None]:
        """Within this context manager, what is launched becomes the graph."""
        torch.cuda.synchronize()
        with torch.cuda.stream(self.stream):
            # torch.cuda.graph would empty the allocator's cache before.
            graph.capture_begin(pool=self.pool, capture_error_mode="thread_local")
            try:
                yield
            finally:
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")  # where arrays are empty, so is the graph
                        graph.capture_end()
                except RuntimeError:  # torch leaves the pool open where recording has failed (2.11)
                    with contextlib.suppress(RuntimeError):
                        torch._C._cuda_endAllocateToPool(self.stream.device_index, self.pool)  # pyright: ignore
                    raise


@functools.cache
def _memory(device: torch.device, current: int) -> _Memory:
    """Return the memory of graphs that run in the current stream of a device."""
    return _Memory(device)


class _Recording:
    """A CUDA graph of a function, called as the function is. Raises `RuntimeError` where it cannot be recorded."""

    def __init__(self, run: Run, tensors: Sequence[Tensor], device: torch.device) -> None:
        self._run, self._lock, self._index = run, threading.Lock(), device.index or 0
        self._stream = _current_stream(self._index)
        self._inputs = [torch.empty(t.shape, dtype=t.dtype, device=device) for t in tensors]
        _copy(self._inputs, tensors)
        self._graph = torch.cuda.CUDAGraph()
        with _memory(device, self._stream).recording(self._graph):
            self._results = list(run(*self._inputs))
        self._graph.replay()  # a constant that was made and kept for others to use has its value now
        self.copied = sum(t.nbytes for t in (*self._inputs, *self._results))

    def __call__(self, *tensors: Tensor) -> Sequence[Tensor]:
        if _current_stream(self._index) != self._stream:  # the user's, or one in which a graph is being recorded
            return self._run(*tensors)
        with self._lock, torch.no_grad():
            _copy(self._inputs, tensors)
            self._graph.replay()
            results = [torch.empty_like(t) for t in self._results]
            _copy(results, self._results)
        return results


def _current_stream(index: int) -> int:
    return torch._C._cuda_getCurrentRawStream(index)  # pyright: ignore[reportAttributeAccessIssue]


_APART = frozenset({*unsigned.SIGNED, *dtypes.NARROW})  # dtypes of which torch copies one tensor at a time


def _copy(into: Sequence[Tensor], tensors: Sequence[Tensor]) -> None:
    """Copy tensors into others, those of one dtype by one kernel."""
    together: dict[torch.dtype, tuple[list[Tensor], list[Tensor]]] = {}
    for target, tensor in zip(into, tensors, strict=True):
        if target.dtype in _APART:
            target.copy_(tensor)
        else:
            targets, given = together.setdefault(target.dtype, ([], []))
            targets.append(target)
            given.append(tensor)
    for targets, given in together.values():
        torch._foreach_copy_(targets, given)  # pyright: ignore[reportPrivateImportUsage]
