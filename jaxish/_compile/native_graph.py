"""Small graphs as one C++ function each: how they are called, and how those that wait for a compiler are compiled together.

loop_sources.py writes a graph out. A compiler takes 0.1 s for one (0.2 s until there is a precompiled header), and 0.05 s for each
that is in the same file.
"""

import ctypes
import math
import os
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from .._core import monitoring
from .._core.graph import Graph, TensorType
from . import loop_compiler, loop_sources, native_loop
from .donation import is_writable
from .loop_compiler import Build, NativeLoop, packer
from .loop_control_flow import CALLS_HOST
from .loop_sources import Source
from .loop_values import Unsupported
from .native_loop import Awaited, Loop, one_at_a_time, placed, strides_of, tell_of, uninitialized


class Whole:
    """A small graph on its way to be one C++ function.

    Where that gives up, nothing has happened, and the call is made anew: `when_long`, or, if it calls Python, `with_host`.
    """

    def __init__(
        self,
        body: Graph,
        name: str,
        when_long: Callable[..., Sequence[Tensor]],
        with_host: Callable[..., Sequence[Tensor]],
    ) -> None:
        self._body, self._name, self._when_long, self._with_host = body, name, when_long, with_host
        self._found: Awaited | Loop | None = _InTurn()

    def run(self, patience: float = math.inf) -> Callable[..., Sequence[Tensor]] | None:
        """Return the function if it is compiled; where there are loops in it, so many seconds after it was begun.

        Raises `Unsupported` where there will be none.
        """
        if isinstance(self._found, Awaited):
            if native_loop.is_beside_a_whole() and not self._found.is_begun:
                return None
            self._found = self._found.looked_at(self._source)
        if isinstance(self._found, Awaited) and self._found.loops:
            self._found = self._found.settled(self._source, patience)
        return self._function()

    def run_when_compiled(self) -> Callable[..., Sequence[Tensor]]:
        """Return the function. Raises `Unsupported` where there is none."""
        if isinstance(self._found, Awaited):
            self._found = self._found.settled(self._source)
        found = self._function()
        assert found is not None
        return found

    def _source(self) -> Source:
        with monitoring.timed(monitoring.LOWER):
            return loop_sources.graph_source(self._body, self._name).apart()

    def _function(self) -> Callable[..., Sequence[Tensor]] | None:
        found = self._found
        if found is None:
            raise Unsupported("the graph is not written out")
        if isinstance(found, Awaited):
            return None
        native, symbol = found.native, found.source.symbol
        if not found.source.open_ended:
            return called(native, symbol, self._body, found.source)
        made = [(t.shape, strides_of(t.shape), t.dtype) for t in self._body.out_types]
        pack, function = packer(2 + len(self._body.in_types) + len(made) + 1), native.named(symbol)

        def counted(*tensors: Tensor) -> Sequence[Tensor]:
            kept, places = placed(tensors)
            results, over = [uninitialized(*m) for m in made], ctypes.c_int64(0)
            threads = torch.get_num_threads() if found.source.is_parallel else 1
            function(pack(1, threads, *places, *[t.data_ptr() for t in results], ctypes.addressof(over)))
            if not over.value:
                return results
            return (self._with_host if over.value == CALLS_HOST else self._when_long)(*kept)

        counted.native = native  # pyright: ignore[reportFunctionMemberAccess]  # without which there is no function
        return counted


def called(native: NativeLoop, name: str, body: Graph, source: Source) -> Callable[..., Sequence[Tensor]]:
    """Return what calls the C++ function that a graph has become."""
    updated = dict(enumerate(source.carried))
    return caller(native, name, len(body.in_types), body.out_types, source.is_parallel, updated=updated)


def caller(
    native: NativeLoop,
    name: str,
    inputs: int,
    out_types: Sequence[TensorType],
    is_parallel: bool,
    numbers: Sequence[int] = (),
    kept: Any = None,
    updated: Mapping[int, int] = MappingProxyType({}),
) -> Callable[..., Sequence[Tensor]]:
    """Return what calls a C++ function with `numbers`, so many tensors, and results of these types.

    Results that are `updated` inputs take their memory where that may be written into. What is `kept` lives as long as
    what is returned.
    """
    made = [(t.shape, strides_of(t.shape), t.dtype) for t in out_types]
    pack, function = packer(2 + len(numbers) + inputs + len(made)), native.named(name)

    def written(*tensors: Tensor) -> Sequence[Tensor]:
        places = [t.data_ptr() for t in tensors if t.is_contiguous()]
        if len(places) < len(tensors) or 0 in places:
            _kept, places = placed(tensors)
        results = [uninitialized(*m) for m in made]
        threads = torch.get_num_threads() if is_parallel else 1
        function(pack(1, threads, *numbers, *places, *[t.data_ptr() for t in results]))  # without a call in Python
        return results

    def updating(*tensors: Tensor) -> Sequence[Tensor]:
        _kept, places = placed(tensors)
        results = [
            tensors[i].detach() if (i := updated.get(n)) is not None and is_writable(tensors[i]) else uninitialized(*m)
            for n, m in enumerate(made)
        ]
        threads = torch.get_num_threads() if is_parallel else 1
        function(pack(1, threads, *numbers, *places, *[t.data_ptr() for t in results]))
        return results

    written = updating if updated else written
    written.kept = native, kept  # pyright: ignore[reportFunctionMemberAccess]  # without which there is no function
    return written


def compiled_together(functions: Sequence[str], name: str) -> NativeLoop | None:
    """Return the library of these C++ functions when it is compiled, None where it cannot be. Raises `cache.Unusable`."""
    text = loop_sources.file_of(functions)
    with one_at_a_time:
        native = loop_compiler.begun(text, name)
    while isinstance(native, Build):
        native.wait()
        try:
            with one_at_a_time:
                native = native.loop() or native
        except RuntimeError as error:
            tell_of(error)
            return None
    return native


_MOST_TOGETHER = 1 << 15  # characters in one file, for which the compiler takes a second or two


class _InTurn(Awaited):
    """A graph that is compiled together with those that wait as it does."""

    _is_alone = False

    def advanced(self, source: Callable[[], Source], may_start: bool = True) -> Loop | Awaited | None:
        """Start the compiler if that is allowed, or look at it; what cannot be compiled with others is tried alone."""
        try:
            return super().advanced(source, may_start)
        except RuntimeError:
            if self._is_alone:
                raise
            self._build, self._is_alone = None, True
            return self

    def _wait(self, source: Source) -> None:
        if not source.loops and not self._is_alone:
            _waiting[self] = source

    def _started(self, source: Source) -> Build | None:
        others = {} if source.loops or self._is_alone else dict(self._others(source))
        self._is_alone = not others
        name = f"{source.name} and {len(others)} more" if others else source.name
        sources = list({s.symbol: s for s in (source, *others.values())}.values())
        build = loop_compiler.started(
            loop_sources.file_of([s.function for s in sources]), name, [s.text for s in sources]
        )
        for other in others:
            other._build, other._process = build, os.getpid()
        return build

    def _others(self, source: Source) -> Iterator[tuple["_InTurn", Source]]:
        """Take those that wait, the first ones first, as long as there is room in the file."""
        _waiting.pop(self, None)
        room = _MOST_TOGETHER - len(source.function)
        for other, its in list(_waiting.items()):
            room -= len(its.function)
            if room < 0:
                return
            del _waiting[other]
            yield other, its


_waiting: "weakref.WeakKeyDictionary[_InTurn, Source]" = weakref.WeakKeyDictionary()  # looked at under `one_at_a_time`
