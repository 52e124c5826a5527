"""Small loops as one C++ function.

A loop whose body does a few dozen operations on a few numbers spends all its time between them: 1 to 5 µs a step
when Python drives compiled steps, 3 ns when the loop is native. This module writes such a loop out as C++, compiles
it with the machine's compiler, and keeps the library in the cache on disk, under a hash of its text.

Bodies that loop_emitter.py cannot write out, or that do enough work for kernels in parallel to pay, run step by step.

On the tier `auto` a loop begins step by step (`ready`). One that takes long has a compiler started beside it, and goes
on natively from where it then is (`upcoming`).
"""

import _ctypes
import contextlib
import ctypes
import functools
import logging
import math
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import threading
import time
import weakref
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .._core import cache, config, debugging, graph, machine
from .._core.graph import Graph, TensorType
from . import lapack, loop_complex, loop_matrices, loop_products, progress
from .loop_emitter import CALLS_HOST, Emitter, carry_over
from .loop_operators import C_TYPES
from .loop_prelude import PRELUDE
from .loop_values import Unsupported, Value, in_buffer

_log = logging.getLogger("jaxish")

# Index variables are int.
_MOST_BYTES = 1 << 31

# More flags for the compiler: the harness in tests/differential has the loops that it runs checked as they run.
extra_flags: list[str] = []


@dataclass(frozen=True)
class Source:
    """A loop in C++: its text, how many bytes each input has, and from which input on it has them per step.

    The inputs `carried` are the carry, and the first results what it becomes. A loop that is `open_ended` makes at most
    the steps that it is told to, and says in a last result, an integer, whether there are more. `at_once` is how many
    steps take little time, by the elements that a step computes. `loops` is how many others there are within. Steps
    that are `independent` are made by several threads at once.
    """

    text: str
    sizes: list[int]
    sliced: int
    carried: range = range(0)
    open_ended: bool = False
    at_once: int = 1 << 62
    name: str = "a loop"
    loops: int = 0
    independent: bool = False

    def bytes_of_inputs(self, length: int) -> list[int]:
        """Return how many bytes the inputs of a loop of this length have."""
        return [*self.sizes[: self.sliced], *(size * length for size in self.sizes[self.sliced :])]


def _pointer(name: str, position: int, type: TensorType, source: str) -> str:
    kind = C_TYPES[type.dtype]
    return f"{'const ' if source == 'in' else ''}{kind}* __restrict__ {name} = ({kind}*){source}[{position}];"


def _size(type: TensorType) -> int:
    return math.prod(type.shape)


def _sizes(types: Sequence[TensorType]) -> list[int]:
    """Return the bytes of tensors of these types. Raises `Unsupported` for what a loop cannot hold."""
    sizes = []
    for type in types:
        if type.dtype not in C_TYPES or type.device.type != "cpu":
            raise Unsupported(f"{type.dtype} on {type.device}")
        sizes.append(_size(type) * type.dtype.itemsize)
        if sizes[-1] >= _MOST_BYTES:
            raise Unsupported("an input is large")
    return sizes


def _copied(carry: int, input: int, type: TensorType) -> str:
    """Return the statement that begins with the carry that is given, unless it is in its place."""
    size = f"sizeof({C_TYPES[type.dtype]}) * {_size(type)}"
    return f"if (in[{input}] != out[{carry}]) std::memcpy(s{carry}, in[{input}], {size});"


def _at_once(*emitters: Emitter) -> int:
    return max((1 << 18) // sum(e.work for e in emitters), 1)


def scan_source(body: Graph, consts: int, carries: int) -> Source:
    """Return the C++ of a scan: inputs (consts, init, xs), outputs (carry, ys). Raises `Unsupported`."""
    types, head = body.in_types, consts + carries
    sizes = _sizes([*types, *body.out_types])[: len(types)]
    names = [
        *(f"c{i}" for i in range(consts)),
        *(f"s{i}" for i in range(carries)),
        *(f"x{i}" for i in range(len(types) - head)),
    ]
    values = [
        in_buffer(f"({n}+step*{_size(t)})" if i >= head else n, t.shape, t.dtype, is_carry=consts <= i < head)
        for i, (n, t) in enumerate(zip(names, types, strict=True))
    ]
    emitter = Emitter(body, changing={"step", *names[consts:head]})
    results = emitter.emit(values, range(consts, head))
    declared = [
        _pointer(n, i, t, "in") for i, (n, t) in enumerate(zip(names, types, strict=True)) if not consts <= i < head
    ]
    for i in range(carries):
        declared.append(_pointer(f"s{i}", i, types[consts + i], "out"))
        declared.append(_copied(i, consts + i, types[consts + i]))
    y_types = body.out_types[carries:]
    declared += [_pointer(f"y{i}", carries + i, t, "out") for i, t in enumerate(y_types)]
    stores = carry_over([f"(y{i}+step*{_size(t)})" for i, t in enumerate(y_types)], results[carries:])
    stores += carry_over([f"s{i}" for i in range(carries)], results[:carries])
    text = _function(
        len(sizes),
        [*declared, *emitter.fixed],
        "for (int64_t n = 0; n < length; ++n)",
        ["const int64_t step = reverse ? length - 1 - n : n;", *emitter.lines, *stores],
        emitter.memory,
    )
    return Source(text, sizes, head, range(consts, head), at_once=_at_once(emitter))


_MOST_OF_A_GRAPH = 16384  # elements of what a graph takes and returns together: beyond, kernels in parallel win
_MOST_ALONE = 1 << 19  # if it factorizes matrices, or has complex numbers, which other compilers do not write out
_MOST_WORK = 1 << 23  # elements that the loops of a graph compute: some 10 ms in which nothing can interrupt them


def is_small(body: Graph) -> bool:
    """Tell whether a graph is one that may become a C++ function (`Whole`)."""
    elements = sum(map(_size, (*body.in_types, *body.out_types)))
    if elements <= _MOST_OF_A_GRAPH or elements > _MOST_ALONE:
        return elements <= _MOST_OF_A_GRAPH
    types = map(graph.type_of, body.module.graph.nodes)
    return loop_matrices.is_factorizing(body) or any(t is not None and t.dtype.is_complex for t in types)


def graph_source(body: Graph, name: str = "a graph") -> Source:
    """Return the C++ of a small graph: inputs and outputs are its own, the length is 1. Raises `Unsupported`.

    A graph that is `open_ended` sets a last output, an integer, where it gives up: its loops take longer than a function
    may that cannot be interrupted, or a branch is taken that calls Python.
    """
    types = body.in_types
    sizes = _sizes([*types, *body.out_types])[: len(types)]
    emitter = Emitter(body, most_work=_MOST_WORK)
    results = emitter.emit([in_buffer(f"c{i}", t.shape, t.dtype) for i, t in enumerate(types)], apart=True)
    if emitter.work > _MOST_WORK:
        raise Unsupported("the loops are long")
    declared = [_pointer(f"c{i}", i, t, "in") for i, t in enumerate(types)]
    names = [f"y{i}" for i in range(len(results))]
    declared += [_pointer(n, i, t, "out") for i, (n, t) in enumerate(zip(names, body.out_types, strict=True))]
    declared += (
        [f"int64_t* __restrict__ over = (int64_t*)out[{len(names)}];", "int64_t work = 0;"] if emitter.gives_up else []
    )
    stores = carry_over(names, results)
    text = _function(
        len(sizes), declared, "for (int64_t n = 0; n < length; ++n)", [*emitter.lines, *stores], emitter.memory
    )
    return Source(text, sizes, len(types), open_ended=emitter.gives_up, name=name, loops=emitter.loops)


def while_source(cond: Graph, body: Graph, cond_consts: int, body_consts: int) -> Source:
    """Return the C++ of a while loop: inputs (both constants, init), outputs the carry. Raises `Unsupported`."""
    carry_types = body.out_types
    names = [*(f"a{i}" for i in range(cond_consts)), *(f"b{i}" for i in range(body_consts))]
    types = [*cond.in_types[:cond_consts], *body.in_types[:body_consts]]
    sizes = _sizes([*types, *carry_types])
    constants = [in_buffer(n, t.shape, t.dtype) for n, t in zip(names, types, strict=True)]
    state = [in_buffer(f"s{i}", t.shape, t.dtype, is_carry=True) for i, t in enumerate(carry_types)]
    declared = [_pointer(n, i, t, "in") for i, (n, t) in enumerate(zip(names, types, strict=True))]
    for i, type in enumerate(carry_types):
        declared.append(_pointer(f"s{i}", i, type, "out"))
        declared.append(_copied(i, len(names) + i, type))
    declared.append(f"int64_t* __restrict__ going = (int64_t*)out[{len(carry_types)}];")
    test, step = Emitter(cond), Emitter(body)
    (holds,) = test.emit([*constants[:cond_consts], *state])
    results = step.emit([*constants[cond_consts:], *state], range(body_consts, body_consts + len(state)))
    tested = [*test.lines, f"if (!({holds.load([])})) {{ *going = 0; break; }}"]
    inner = [*step.lines, *carry_over([f"s{i}" for i in range(len(state))], results)]
    lines = ["{", *tested, "}", *inner]  # nothing of the test is read after it: both may lie in the same memory
    memory = max(test.memory, step.memory)
    text = _function(len(sizes), declared, "for (int64_t n = 0; n < length; ++n)", lines, memory)
    carried = range(len(names), len(sizes))
    return Source(text, sizes, len(sizes), carried, open_ended=True, at_once=_at_once(test, step))


def map_source(body: Graph, shared: int) -> Source:
    """Return the C++ of an elementwise function: inputs (first position, shared, rows), outputs rows.

    The body takes the position of one element, the shared tensors, and an element of each row; there are `length` of those.
    """
    types = body.in_types
    sizes = _sizes([*types, *body.out_types])[: len(types)]
    names = [f"{'c' if i <= shared else 'x'}{i}" for i in range(len(types))]
    rows = [
        in_buffer(n if i <= shared else f"({n}+n)", t.shape, t.dtype)
        for i, (n, t) in enumerate(zip(names, types, strict=True))
    ]
    emitter = Emitter(body)
    results = emitter.emit([Value((), torch.int64, lambda _: "(*c0 + n)"), *rows[1:]])
    declared = [_pointer(n, i, t, "in") for i, (n, t) in enumerate(zip(names, types, strict=True))]
    declared += [_pointer(f"y{i}", i, t, "out") for i, t in enumerate(body.out_types)]
    assert all(math.prod(r.shape) == 1 for r in [*rows[shared + 1 :], *results])
    stores = [f"y{i}[n] = {r.load(['0'] * len(r.shape))};" for i, r in enumerate(results)]
    lines = [*emitter.lines, *stores]
    text = _function(len(sizes), declared, "for (int64_t n = begin; n < end; ++n)", lines, emitter.memory, _IN_PARTS)
    return Source(text, sizes, shared + 1, name="a draw", independent=True)


_OPENMP = "-fopenmp"  # torch's own, where it is called libgomp.so.1; a compiler without it ignores the pragma
_WHOLE = 'extern "C" void loop(const int64_t* given)'
# Each thread has pointers of its own, of which the compiler knows that they do not overlap.
_PART = "static void part(const int64_t* given, int64_t begin, int64_t end)"
_IN_PARTS = f"""{_WHOLE} {{
  const int64_t length = given[0], threads = given[1];
  #pragma omp parallel for num_threads(threads) if(threads > 1)
  for (int64_t i = 0; i < threads; ++i) part(given, length * i / threads, length * (i + 1) / threads);
}}
"""


def _function(
    inputs: int, declared: Sequence[str], loop: str, body: Sequence[str], memory: int, caller: str = ""
) -> str:
    """Return the function, or a part of it that the `caller` calls."""
    text = "\n    ".join(body)
    shifts = [
        f"const int32_t shift_{d} = shifts[{d}];"
        for d in sorted(set(re.findall(r"shift_(\d+)", " ".join([*declared, text]))))
    ]
    given = [
        *([] if caller else ["const int64_t length = given[0];", "const bool reverse = given[1];"]),
        "const void* const* in = (const void* const*)(given + 2);",
        f"void* const* out = (void* const*)in + {inputs};",
        *([f"const Memory memory({memory});"] if memory else []),
    ]
    head = "\n  ".join([*given, *shifts, *declared])
    signature = _PART if caller else _WHOLE
    complex = loop_complex.PRELUDE if "Complex<" in text + head else ""
    table = lapack.TABLE if lapack.is_called(text) else ""
    functions = f"{complex}{lapack.PRELUDE}{table}{loop_products.PRELUDE}{loop_matrices.PRELUDE}"
    return f"{PRELUDE}{functions}{signature} {{\n  {head}\n  {loop} {{\n    {text}\n  }}\n}}\n{caller}"


class NativeLoop:
    """A compiled loop: call it with the places of inputs and outputs in memory, length and direction."""

    def __init__(self, library: pathlib.Path) -> None:
        """Load the library; its file is not needed any more. Raises `OSError`."""
        loaded = ctypes.CDLL(str(library))
        weakref.finalize(self, _ctypes.dlclose, loaded._handle).atexit = False
        lapack.connect(loaded)
        self.function = loaded.loop
        # All in one row of bytes, given as the place where they lie: a fifth of the time of ctypes' own conversions.
        self.function.argtypes = [ctypes.c_char_p]
        self.function.restype = None

    def __call__(self, inputs: Sequence[int], outputs: Sequence[int], length: int = 1, how: int = 0) -> None:
        """Run the loop on contiguous inputs, filling contiguous outputs.

        `how` is whether it runs in reverse, or by how many threads where its steps are independent.
        """
        self.function(_packer(2 + len(inputs) + len(outputs))(length, how, *inputs, *outputs))


@functools.cache
def _packer(count: int) -> Callable[..., bytes]:
    return struct.Struct(f"{count}P").pack


_loaded: "weakref.WeakValueDictionary[str, NativeLoop]" = weakref.WeakValueDictionary()


def compile_source(source: str) -> NativeLoop | None:
    """Compile a loop, or take it from the cache on disk; None where there is no compiler. Raises `cache.Unusable`."""
    found = _begun(source)
    return found.waited_for() if isinstance(found, _Build) else found


def _begun(source: str, name: str = "a loop") -> "_Build | NativeLoop | None":
    """Take a loop from the cache on disk, or start the compiler; None where there is none. Raises `cache.Unusable`."""
    compiler = machine.compiler()
    if compiler is None:
        return None
    # No contraction to fused multiply-adds: a step gives the numbers that torch's operators give.
    command = [compiler, "-O3", "-march=native", "-std=c++17", "-fPIC", "-shared", "-ffp-contract=off"]
    command += ["-fno-math-errno", "-fno-trapping-math", *extra_flags]
    if _IN_PARTS in source:
        command.append(_OPENMP)
    key = cache.key_of(command, source)
    loop = _loaded.get(key) or _from_cache(key)
    if loop is None:
        return _Build(key, command, source, name)
    _loaded[key] = loop
    return loop


def _from_cache(key: str) -> NativeLoop | None:
    with cache.scratch() as folder:
        if cache.read(key, folder):
            try:
                return NativeLoop(folder / "loop.so")
            except OSError as error:
                cache.discard(key, f"could not be loaded ({error})")
    return None


_MOST_COMPILERS = max((os.cpu_count() or 1) // 2, 1)  # for small graphs at a time, beside the program
_builds: "weakref.WeakSet[_Build]" = weakref.WeakSet()


class _Build:
    """A compiler at work on a loop. It is ended when nobody waits for it any more, and with the process."""

    def __init__(self, key: str, command: Sequence[str], source: str, name: str) -> None:
        self._key = key
        with cache.scratch(lasting=True) as self._folder:  # not for as long as the context: a fork would end its copy
            text, self._library = self._folder / "loop.cpp", self._folder / "loop.so"
        try:
            text.write_text(source)
        except OSError:
            cache.check_room()
            raise
        command = [*command, str(text), "-o", str(self._library)]
        # glibc's libmvec (2.35) has tanh and the like for whole vectors; elsewhere they are called one by one.
        self._others = iter([command, *([[c for c in command if c != _OPENMP]] if _OPENMP in command else [])])
        self._running = [self._start([*command, "-DVECTOR_MATH", "-lmvec"])]
        self._tell = progress.begun(name)
        self._end = weakref.finalize(self, _ended, os.getpid(), self._running, self._folder)
        _builds.add(self)

    @property
    def is_running(self) -> bool:
        """Whether the compiler is still at work."""
        return self._running[0].poll() is None

    def _start(self, command: Sequence[str]) -> "subprocess.Popen[bytes]":
        with open(self._folder / "said", "wb") as said:
            # In a session of its own: Ctrl-C is not its business.
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True)

    def loop(self) -> NativeLoop | None:
        """Return the loop if it is compiled. Raises `RuntimeError` if it cannot be, and `cache.Unusable`."""
        process = self._running[0]
        if process.poll() is None:
            return None
        try:
            loop = NativeLoop(self._library)
        except OSError:
            other = next(self._others, None)
            if other is not None:
                self._running[0] = self._start(other)
                return None
            said = (self._folder / "said").read_text(errors="replace")
            self._end()
            cache.check_room()
            self._tell("could not be compiled")
            raise RuntimeError(f"{process.args[0]} could not compile a loop: {said}") from None  # pyright: ignore
        for name in ("loop.cpp", "said"):
            (self._folder / name).unlink(missing_ok=True)  # another thread may have been here
        cache.write(self._key, self._folder)
        self._end()
        if _loaded.get(self._key) is None:  # another thread may have been here
            self._tell("runs compiled")
        _loaded[self._key] = loop
        return loop

    def wait(self) -> None:
        """Wait until there is something to look at."""
        self._running[0].wait()

    def waited_for(self) -> NativeLoop:
        """Return the loop when it is compiled. Raises `RuntimeError` if it cannot be, and `cache.Unusable`."""
        while (loop := self.loop()) is None:
            self.wait()
        return loop


def _ended(owner: int, running: "list[subprocess.Popen[bytes]]", folder: pathlib.Path) -> None:
    """End a compiler, and remove what it was at; a fork leaves that to the process whose it is."""
    if owner != os.getpid():
        return
    for process in running:
        if process.poll() is None:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)  # and what it has started
            process.wait()
    shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True)
class Loop:
    """A native loop, and the sizes of what it may be given."""

    native: NativeLoop
    source: Source

    def __call__(
        self, inputs: Sequence[Tensor], types: Sequence[TensorType], length: int = 0, reverse: bool = False
    ) -> list[Tensor]:
        """Run the loop and return its results, which are of these types."""
        outputs = [_uninitialized(t.shape, _strides(t.shape), t.dtype) for t in types]
        self.fill(outputs, inputs, length, reverse)
        return outputs

    def fill(self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], length: int = 0, reverse: bool = False) -> None:
        """Run the loop and write its results into contiguous tensors. It may be interrupted about every 50 ms."""
        given, places = _placed(inputs)
        assert [t.nbytes for t in given] == self.source.bytes_of_inputs(length)
        made = [t.data_ptr() for t in outputs]
        if self.source.open_ended:
            self._run_to_its_end(places, made)
        elif self.source.independent:
            self.native(places, made, length, torch.get_num_threads() if length >= _SHARED_OUT else 1)
        elif length <= self.source.at_once:
            self.native(places, made, length, reverse)
        else:
            carried = len(self.source.carried)
            strides = [0] * carried + [t.nbytes // length for t in outputs[carried:]]
            self._run_in_parts(places, made, strides, length, reverse)

    def _run_to_its_end(self, inputs: list[int], outputs: list[int]) -> None:
        carried, going = self.source.carried, ctypes.c_int64(1)
        made, count = [*outputs, ctypes.addressof(going)], self.source.at_once
        while True:
            start = time.perf_counter()
            self.native(inputs, made, count, False)
            if not going.value:
                return
            inputs[carried.start : carried.stop] = outputs
            count = _next_count(count, time.perf_counter() - start)

    def _run_in_parts(
        self, inputs: list[int], outputs: list[int], strides: Sequence[int], length: int, reverse: bool
    ) -> None:
        sliced, carried, done, count = self.source.sliced, self.source.carried, 0, self.source.at_once
        sizes = [0] * sliced + self.source.sizes[sliced:]
        while done < length:
            start = time.perf_counter()
            count = min(count, length - done)
            first = length - done - count if reverse else done
            given = [place + first * size for place, size in zip(inputs, sizes, strict=True)]
            self.native(given, [p + first * s for p, s in zip(outputs, strides, strict=True)], count, reverse)
            inputs[carried.start : carried.stop] = outputs[: len(carried)]
            done += count
            count = _next_count(count, time.perf_counter() - start)


_SHARED_OUT = 1 << 15  # steps, from which on it pays to start threads

# torch's fastest way to memory, by which Inductor's code gets its own (2.9 to 2.13): a quarter of torch.empty's time.
_uninitialized = torch._C._dynamo.guards._empty_strided_cpu  # pyright: ignore[reportAttributeAccessIssue]


@functools.cache
def _strides(shape: torch.Size) -> tuple[int, ...]:
    return tuple(math.prod(shape[d + 1 :]) for d in range(len(shape)))


def _placed(tensors: Sequence[Tensor]) -> tuple[Sequence[Tensor], list[int]]:
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
        body.cache[entry] = _Awaited()
        return None
    found = body.cache.get(entry)
    if isinstance(found, _Awaited):
        found = body.cache[entry] = found.settled(source) if waits or tier == "compiled" else found.looked_at(source)
    elif entry not in body.cache:
        found = body.cache[entry] = _compiled(source)
    return None if isinstance(found, _Awaited) else found


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
        self._found: _Awaited | Loop | None = _Awaited()

    def run(self) -> Callable[..., Sequence[Tensor]] | None:
        """Return the function if it is compiled; it is waited for where loops would have to be.

        Raises `Unsupported` where there will be none.
        """
        if isinstance(self._found, _Awaited):
            self._found = self._found.looked_at(self._source)
        if isinstance(self._found, _Awaited) and self._found.loops:
            return self.run_when_compiled()
        return self._function()

    def run_when_compiled(self) -> Callable[..., Sequence[Tensor]]:
        """Return the function. Raises `Unsupported` where there is none."""
        if isinstance(self._found, _Awaited):
            self._found = self._found.settled(self._source)
        found = self._function()
        assert found is not None
        return found

    def _source(self) -> Source:
        return graph_source(self._body, self._name)

    def _function(self) -> Callable[..., Sequence[Tensor]] | None:
        found = self._found
        if found is None:
            raise Unsupported("the graph is not written out")
        if isinstance(found, _Awaited):
            return None
        native, open_ended = found.native, found.source.open_ended
        made = [(t.shape, _strides(t.shape), t.dtype) for t in self._body.out_types]
        pack = _packer(2 + len(self._body.in_types) + len(made) + open_ended)

        def written(*tensors: Tensor) -> Sequence[Tensor]:
            places = [t.data_ptr() for t in tensors if t.is_contiguous()]
            if len(places) < len(tensors) or 0 in places:
                _kept, places = _placed(tensors)
            results = [_uninitialized(*m) for m in made]
            native.function(pack(1, 0, *places, *[t.data_ptr() for t in results]))  # without a call in Python
            return results

        def counted(*tensors: Tensor) -> Sequence[Tensor]:
            kept, places = _placed(tensors)
            results, over = [_uninitialized(*m) for m in made], ctypes.c_int64(0)
            native.function(pack(1, 0, *places, *[t.data_ptr() for t in results], ctypes.addressof(over)))
            if not over.value:
                return results
            return (self._with_host if over.value == CALLS_HOST else self._when_long)(*kept)

        return counted if open_ended else written


def _compiled(source: Callable[[], Source]) -> Loop | None:
    return _Awaited().settled(source)


def upcoming(body: Graph, key: Hashable, source: Callable[[], Source]) -> "Upcoming | None":
    """Return what to ask between steps for the native loop over `body`; None where there will not be one."""
    entry = ("native loop", key)
    is_awaited = isinstance(body.cache.get(entry), _Awaited) and config.jit_tier.value == "auto"
    return Upcoming(body, entry, source) if is_awaited and not debugging.is_on() else None


_PATIENCE = 0.05  # seconds that a loop runs step by step before a compiler is started on it
_PAUSE = 0.002  # seconds after which the compiler is looked at again


class Upcoming:
    """What a loop that runs step by step on the tier `auto` asks between steps for its native loop.

    `is_over` once it will not get one, as its body is not written out.
    """

    def __init__(self, body: Graph, entry: Hashable, source: Callable[[], Source]) -> None:
        self.is_over = False
        self._body, self._entry, self._source = body, entry, source
        self._due = time.perf_counter() + _PATIENCE

    def __call__(self) -> Loop | None:
        """Return the native loop if it is there; have it compiled if this loop takes long."""
        if time.perf_counter() < self._due or not _one_at_a_time.acquire(blocking=False):
            return None
        try:
            found = self._body.cache[self._entry]
            if isinstance(found, _Awaited):  # else another thread was here
                found = self._body.cache[self._entry] = self._advanced(found)
        finally:
            _one_at_a_time.release()
        if isinstance(found, Loop):
            return found
        self.is_over = found is None
        self._due = time.perf_counter() + _PAUSE
        return None

    def _advanced(self, awaited: "_Awaited") -> "Loop | _Awaited | None":
        try:
            return awaited.advanced(self._source)
        except RuntimeError as error:  # the loop goes on as it runs now: slower, and right
            _log.warning("jaxish runs a loop step by step: %s", error)
            return None


# Compilers are started and looked at by one thread at a time. A fork waits: it would inherit the lock.
_one_at_a_time = threading.RLock()
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(
        before=_one_at_a_time.acquire, after_in_parent=_one_at_a_time.release, after_in_child=_one_at_a_time.release
    )


class _Awaited:
    """A loop that has run, and for which a compiler may be at work."""

    def __init__(self) -> None:
        self._source: Source | None = None
        self._build: _Build | None = None
        self._process = 0  # whose child the compiler is: a fork starts one of its own

    @property
    def is_begun(self) -> bool:
        """Whether a compiler has been started."""
        return self._build is not None

    @property
    def loops(self) -> int:
        """How many loops there are within what is compiled, as far as it is known."""
        return 0 if self._source is None else self._source.loops

    def advanced(self, source: Callable[[], Source]) -> "Loop | _Awaited | None":
        """Start the compiler, or look at it. Return the loop when it is there, None where there will be none."""
        try:
            if self._build is None or self._process != os.getpid():
                self._source, self._process = source(), os.getpid()
                native = _begun(self._source.text, self._source.name)
                if not isinstance(native, _Build):
                    return None if native is None else Loop(native, self._source)
                self._build = native
            native, known = self._build.loop(), self._source
        except Unsupported:
            return None
        except cache.Unusable as error:
            cache.warn(str(error))
            return None
        assert known is not None
        return self if native is None else Loop(native, known)

    def looked_at(self, source: Callable[[], Source]) -> "Loop | _Awaited | None":
        """Do as `advanced`, unless other threads or compilers are at work."""
        if not _one_at_a_time.acquire(blocking=False):
            return self
        try:
            if self.is_begun or sum(build.is_running for build in _builds) < _MOST_COMPILERS:
                return self.advanced(source)
            return self
        except RuntimeError as error:  # what runs now goes on: slower, and right
            _log.warning("jaxish goes on without a C++ function: %s", error)
            return None
        finally:
            _one_at_a_time.release()

    def settled(self, source: Callable[[], Source]) -> Loop | None:
        """Return the loop when it is compiled, None where it runs step by step."""
        while True:
            with _one_at_a_time:
                found = self.advanced(source)
            if not isinstance(found, _Awaited):
                return found
            assert self._build is not None
            self._build.wait()
