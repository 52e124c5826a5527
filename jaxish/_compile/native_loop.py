"""Small loops as one C++ function.

A loop whose body does a few dozen operations on a few numbers spends all its time between them: 1 to 5 µs a step
when Python drives compiled steps, 3 ns when the loop is native. This module writes such a loop out as C++, compiles
it with the machine's compiler, and keeps the library in the cache on disk, under a hash of its text.

Bodies that loop_emitter.py cannot write out, or that do enough work for kernels in parallel to pay, run step by step.
"""

import _ctypes
import contextlib
import ctypes
import math
import pathlib
import re
import subprocess
import weakref
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .._core import cache, config, debugging, machine
from .._core.graph import Graph, TensorType
from .loop_emitter import Emitter, Unsupported, Value, carry_over, flat_index
from .loop_operators import C_TYPES
from .loop_prelude import PRELUDE

# Index variables are int.
_MOST_BYTES = 1 << 31

# More flags for the compiler: the harness in tests/differential has the loops that it runs checked as they run.
extra_flags: list[str] = []


@dataclass(frozen=True)
class Source:
    """A loop in C++: its text, how many bytes each input has, and from which input on it has them per step."""

    text: str
    sizes: list[int]
    sliced: int

    def bytes_of_inputs(self, length: int) -> list[int]:
        """Return how many bytes the inputs of a loop of this length have."""
        return [*self.sizes[: self.sliced], *(size * length for size in self.sizes[self.sliced :])]


def _pointer(name: str, position: int, type: TensorType, source: str) -> str:
    kind = C_TYPES[type.dtype]
    return f"{'const ' if source == 'in' else ''}{kind}* __restrict__ {name} = ({kind}*){source}[{position}];"


def _buffer(name: str, type: TensorType, offset: str = "") -> Value:
    def load(index: Sequence[str]) -> str:
        return f"{name}[{offset}{flat_index(index, type.shape)}]"

    return Value(type.shape, type.dtype, load, is_held=True)


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
        _buffer(n, t, f"step*{_size(t)}+" if i >= head else "")
        for i, (n, t) in enumerate(zip(names, types, strict=True))
    ]
    emitter = Emitter(body)
    results = emitter.emit(values)
    declared = [
        _pointer(n, i, t, "in") for i, (n, t) in enumerate(zip(names, types, strict=True)) if not consts <= i < head
    ]
    for i in range(carries):
        declared.append(_pointer(f"s{i}", i, types[consts + i], "out"))
        declared.append(
            f"std::memcpy(s{i}, in[{consts + i}], sizeof({C_TYPES[types[consts + i].dtype]}) * {_size(types[consts + i])});"
        )
    y_types = body.out_types[carries:]
    declared += [_pointer(f"y{i}", carries + i, t, "out") for i, t in enumerate(y_types)]
    stores = carry_over([f"(y{i}+step*{_size(t)})" for i, t in enumerate(y_types)], results[carries:])
    stores += carry_over([f"s{i}" for i in range(carries)], results[:carries])
    text = _function(
        declared,
        "for (int64_t n = 0; n < length; ++n)",
        ["const int64_t step = reverse ? length - 1 - n : n;", *emitter.lines, *stores],
    )
    return Source(text, sizes, head)


def while_source(cond: Graph, body: Graph, cond_consts: int, body_consts: int) -> Source:
    """Return the C++ of a while loop: inputs (both constants, init), outputs the carry. Raises `Unsupported`."""
    carry_types = body.out_types
    names = [*(f"a{i}" for i in range(cond_consts)), *(f"b{i}" for i in range(body_consts))]
    types = [*cond.in_types[:cond_consts], *body.in_types[:body_consts]]
    sizes = _sizes([*types, *carry_types])
    constants = [_buffer(n, t) for n, t in zip(names, types, strict=True)]
    state = [_buffer(f"s{i}", t) for i, t in enumerate(carry_types)]
    declared = [_pointer(n, i, t, "in") for i, (n, t) in enumerate(zip(names, types, strict=True))]
    for i, type in enumerate(carry_types):
        declared.append(_pointer(f"s{i}", i, type, "out"))
        declared.append(f"std::memcpy(s{i}, in[{len(names) + i}], sizeof({C_TYPES[type.dtype]}) * {_size(type)});")
    test, step = Emitter(cond), Emitter(body)
    (going,) = test.emit([*constants[:cond_consts], *state])
    results = step.emit([*constants[cond_consts:], *state])
    tested = [*test.lines, f"if (!({going.load([])})) break;"]
    inner = [*step.lines, *carry_over([f"s{i}" for i in range(len(state))], results)]
    return Source(_function(declared, "for (;;)", ["{", *tested, "}", *inner]), sizes, len(sizes))


def map_source(body: Graph, shared: int) -> Source:
    """Return the C++ of an elementwise function: inputs (shared, rows), outputs rows; `length` elements each.

    The body takes the position of one element, the shared tensors, and an element of each row.
    """
    types = body.in_types[1:]
    sizes = _sizes([*types, *body.out_types])[: len(types)]
    names = [f"{'c' if i < shared else 'x'}{i}" for i in range(len(types))]
    rows = [_buffer(n, t, "" if i < shared else "n+") for i, (n, t) in enumerate(zip(names, types, strict=True))]
    emitter = Emitter(body)
    results = emitter.emit([Value((), torch.int64, lambda _: "n"), *rows])
    declared = [_pointer(n, i, t, "in") for i, (n, t) in enumerate(zip(names, types, strict=True))]
    declared += [_pointer(f"y{i}", i, t, "out") for i, t in enumerate(body.out_types)]
    assert all(math.prod(r.shape) == 1 for r in [*rows[shared:], *results])
    stores = [f"y{i}[n] = {r.load(['0'] * len(r.shape))};" for i, r in enumerate(results)]
    text = _function(declared, "for (int64_t n = 0; n < length; ++n)", [*emitter.lines, *stores])
    return Source(text, sizes, shared)


def _function(declared: Sequence[str], loop: str, body: Sequence[str]) -> str:
    text = "\n    ".join(body)
    shifts = [f"const int32_t shift_{d} = shifts[{d}];" for d in sorted(set(re.findall(r"shift_(\d+)", text)))]
    head = "\n  ".join([*shifts, *declared])
    signature = 'extern "C" void loop(const void** in, void** out, int64_t length, bool reverse)'
    return f"{PRELUDE}{signature} {{\n  {head}\n  {loop} {{\n    {text}\n  }}\n}}\n"


class NativeLoop:
    """A compiled loop: call it with the places of inputs and outputs in memory, length and direction."""

    def __init__(self, library: pathlib.Path) -> None:
        """Load the library; its file is not needed any more. Raises `OSError`."""
        loaded = ctypes.CDLL(str(library))
        weakref.finalize(self, _ctypes.dlclose, loaded._handle).atexit = False
        self._function = loaded.loop
        self._function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_bool]
        self._function.restype = None

    def __call__(self, inputs: Sequence[int], outputs: Sequence[int], length: int, reverse: bool) -> None:
        """Run the loop on contiguous inputs, filling contiguous outputs."""
        given = (ctypes.c_void_p * max(len(inputs), 1))(*inputs)
        made = (ctypes.c_void_p * max(len(outputs), 1))(*outputs)
        self._function(ctypes.addressof(given), ctypes.addressof(made), length, reverse)


_loaded: "weakref.WeakValueDictionary[str, NativeLoop]" = weakref.WeakValueDictionary()


def compile_source(source: str) -> NativeLoop | None:
    """Compile a loop, or take it from the cache on disk; None where there is no compiler. Raises `cache.Unusable`."""
    compiler = machine.compiler()
    if compiler is None:
        return None
    # No contraction to fused multiply-adds: a step gives the numbers that torch's operators give.
    command = [compiler, "-O3", "-march=native", "-std=c++17", "-fPIC", "-shared", "-ffp-contract=off"]
    command += ["-fno-math-errno", "-fno-trapping-math", *extra_flags]
    key = cache.key_of(command, source)
    loop = _loaded.get(key)
    if loop is None:
        loop = _loaded[key] = _from_cache(key) or _built(key, command, source)
    return loop


def _from_cache(key: str) -> NativeLoop | None:
    with cache.scratch() as folder:
        if cache.read(key, folder):
            try:
                return NativeLoop(folder / "loop.so")
            except OSError as error:
                cache.discard(key, f"could not be loaded ({error})")
    return None


def _built(key: str, command: Sequence[str], source: str) -> NativeLoop:
    with cache.scratch() as folder:
        text, library = folder / "loop.cpp", folder / "loop.so"
        try:
            text.write_text(source)
        except OSError:
            cache.check_room()
            raise
        # glibc's libmvec (2.35) has tanh and the like for whole vectors; elsewhere they are called one by one.
        for extras in (["-DVECTOR_MATH", "-lmvec"], []):
            result = subprocess.run(
                [*command, str(text), "-o", str(library), *extras], capture_output=True, stdin=subprocess.DEVNULL
            )
            with contextlib.suppress(OSError):
                loop = NativeLoop(library)
                text.unlink()
                cache.write(key, folder)
                return loop
        cache.check_room()
        raise RuntimeError(f"{command[0]} could not compile a loop: {result.stderr.decode(errors='replace')}")


@dataclass(frozen=True)
class Loop:
    """A native loop, and the sizes of what it may be given."""

    native: NativeLoop
    source: Source

    def __call__(
        self, inputs: Sequence[Tensor], types: Sequence[TensorType], length: int = 0, reverse: bool = False
    ) -> list[Tensor]:
        """Run the loop and return its results, which are of these types."""
        outputs = [torch.empty(t.shape, dtype=t.dtype, device=t.device) for t in types]
        given = [t.contiguous() for t in inputs]
        assert [t.nbytes for t in given] == self.source.bytes_of_inputs(length)
        places = [t.data_ptr() for t in given]
        if 0 in places:  # torch's stand-in for a derivative that is zero has no memory
            given = [torch.zeros(t.shape, dtype=t.dtype, device=t.device) if t._is_zerotensor() else t for t in given]
            places = [t.data_ptr() for t in given]
        self.native(places, [t.data_ptr() for t in outputs], length, reverse)
        return outputs


def ready(body: Graph, key: Hashable, source: Callable[[], Source]) -> Loop | None:
    """Return the native loop over `body`, or None where it runs step by step.

    Which it is, the tier says (executable.py): never native on `direct`, at once on `compiled`, and from the second
    run on `auto`.
    """
    tier = config.jit_tier.value
    if tier == "direct" or debugging.is_on():
        return None
    entry = ("native loop", key)
    if tier == "auto" and entry not in body.cache:
        body.cache[entry] = _SEEN_ONCE
        return None
    found = body.cache.get(entry, _SEEN_ONCE)
    if found is _SEEN_ONCE:
        found = body.cache[entry] = _compiled(source)
    return found


_SEEN_ONCE = object()


def _compiled(source: Callable[[], Source]) -> Loop | None:
    try:
        found = source()
    except Unsupported:
        return None
    try:
        native = compile_source(found.text)
    except cache.Unusable as error:
        cache.warn(str(error))
        return None
    return None if native is None else Loop(native, found)
