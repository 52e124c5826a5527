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

import torch
from torch import Tensor

from .._core import cache, config, debugging, machine
from .._core.graph import Graph, TensorType
from .loop_emitter import C_TYPES, Emitter, Unsupported, Value, flat_index, loops_over

_PRELUDE = r"""#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#ifdef VECTOR_MATH
#define SIMD(name) extern "C" { __attribute__((simd("notinbranch"))) float name##f(float); \
                                __attribute__((simd("notinbranch"))) double name(double); }
SIMD(sin) SIMD(cos) SIMD(tan) SIMD(sinh) SIMD(cosh) SIMD(tanh) SIMD(asin) SIMD(acos) SIMD(atan)
SIMD(exp) SIMD(expm1) SIMD(log) SIMD(log1p) SIMD(erf)
#endif
#define OVERLOAD(name) static inline float name##_(float x) { return name##f(x); } \
                       static inline double name##_(double x) { return name(x); }
OVERLOAD(sin) OVERLOAD(cos) OVERLOAD(tan) OVERLOAD(sinh) OVERLOAD(cosh) OVERLOAD(tanh) OVERLOAD(asin) OVERLOAD(acos)
OVERLOAD(atan) OVERLOAD(exp) OVERLOAD(expm1) OVERLOAD(log) OVERLOAD(log1p) OVERLOAD(erf)
#define NaN std::numeric_limits<double>::quiet_NaN()
#define Inf std::numeric_limits<double>::infinity()
// Distances that the compiler does not know: it turns a pair of known shifts into a rotation, for which it has no
// vectors (GCC 12), and a threefry takes four times as long.
extern "C" int32_t shifts[64];
int32_t shifts[64] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
                      22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42,
                      43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63};
template <class T, class S> static inline T same_bits(S x) { T y; std::memcpy(&y, &x, sizeof(T)); return y; }
template <class T> static inline T maximum(T a, T b) { return a != a || a > b ? a : b; }
template <class T> static inline T minimum(T a, T b) { return a != a || a < b ? a : b; }
template <class T> static inline T power(T a, T b) { return (T)std::pow(a, b); }
template <class T, int n, int m> static void solve(T* a, T* b) {  // Gaussian elimination with row pivoting, in place
  for (int k = 0; k < n; ++k) {
    int p = k;
    for (int i = k + 1; i < n; ++i) if (std::abs(a[i*n+k]) > std::abs(a[p*n+k])) p = i;
    if (p != k) {
      for (int j = 0; j < n; ++j) { T t = a[k*n+j]; a[k*n+j] = a[p*n+j]; a[p*n+j] = t; }
      for (int j = 0; j < m; ++j) { T t = b[k*m+j]; b[k*m+j] = b[p*m+j]; b[p*m+j] = t; }
    }
    for (int i = k + 1; i < n; ++i) {
      T f = a[i*n+k] / a[k*n+k];
      for (int j = k; j < n; ++j) a[i*n+j] -= f * a[k*n+j];
      for (int j = 0; j < m; ++j) b[i*m+j] -= f * b[k*m+j];
    }
  }
  for (int k = n - 1; k >= 0; --k)
    for (int j = 0; j < m; ++j) {
      T t = b[k*m+j];
      for (int i = k + 1; i < n; ++i) t -= a[k*n+i] * b[i*m+j];
      b[k*m+j] = t / a[k*n+k];
    }
}
"""


def _pointer(name: str, position: int, type: TensorType, source: str) -> str:
    kind = C_TYPES[type.dtype]
    return f"{'const ' if source == 'in' else ''}{kind}* __restrict__ {name} = ({kind}*){source}[{position}];"


def _buffer(name: str, type: TensorType, offset: str = "") -> Value:
    def load(index: Sequence[str]) -> str:
        return f"{name}[{offset}{flat_index(index, type.shape)}]"

    return Value(type.shape, type.dtype, load)


def _size(type: TensorType) -> int:
    return math.prod(type.shape)


def _check(types: Sequence[TensorType]) -> None:
    for type in types:
        if type.dtype not in C_TYPES or type.device.type != "cpu":
            raise Unsupported(f"{type.dtype} on {type.device}")


def _carry_over(targets: Sequence[str], results: Sequence[Value]) -> list[str]:
    """Return statements that store results, all of which were computed from the targets' old values."""
    lines = []
    for target, value in zip(targets, results, strict=True):
        index = [f"i{d}" for d in range(len(value.shape))]
        lines.append(
            f"{loops_over(index, value.shape)}{target}[{flat_index(index, value.shape)}] = {value.load(index)};"
        )
    return lines


def scan_source(body: Graph, consts: int, carries: int) -> str:
    """Return the C++ text of a scan: inputs (consts, init, xs), outputs (carry, ys). Raises `Unsupported`."""
    _check([*body.in_types, *body.out_types])
    types, head = body.in_types, consts + carries
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
    stores = _carry_over([f"(y{i}+step*{_size(t)})" for i, t in enumerate(y_types)], results[carries:])
    stores += _carry_over([f"s{i}" for i in range(carries)], results[:carries])
    return _function(
        declared,
        "for (int64_t n = 0; n < length; ++n)",
        ["const int64_t step = reverse ? length - 1 - n : n;", *emitter.lines, *stores],
    )


def while_source(cond: Graph, body: Graph, cond_consts: int, body_consts: int) -> str:
    """Return the C++ text of a while loop: inputs (both constants, init), outputs the carry. Raises `Unsupported`."""
    _check([*cond.in_types, *body.in_types])
    carry_types = body.out_types
    names = [*(f"a{i}" for i in range(cond_consts)), *(f"b{i}" for i in range(body_consts))]
    types = [*cond.in_types[:cond_consts], *body.in_types[:body_consts]]
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
    inner = [*step.lines, *_carry_over([f"s{i}" for i in range(len(state))], results)]
    return _function(declared, "for (;;)", ["{", *tested[:-1], tested[-1], "}", *inner])


def map_source(body: Graph, shared: int) -> str:
    """Return the C++ text of an elementwise function: inputs (shared, rows), outputs rows; `length` elements each.

    The body takes the position of one element, the shared tensors, and an element of each row.
    """
    _check([*body.in_types, *body.out_types])
    types = body.in_types[1:]
    names = [f"{'c' if i < shared else 'x'}{i}" for i in range(len(types))]
    rows = [_buffer(n, t, "" if i < shared else "n+") for i, (n, t) in enumerate(zip(names, types, strict=True))]
    emitter = Emitter(body)
    results = emitter.emit([Value((), torch.int64, lambda _: "n"), *rows])
    declared = [_pointer(n, i, t, "in") for i, (n, t) in enumerate(zip(names, types, strict=True))]
    declared += [_pointer(f"y{i}", i, t, "out") for i, t in enumerate(body.out_types)]
    stores = [f"y{i}[n] = {r.load(['0'] * len(r.shape))};" for i, r in enumerate(results)]
    return _function(declared, "for (int64_t n = 0; n < length; ++n)", [*emitter.lines, *stores])


def _function(declared: Sequence[str], loop: str, body: Sequence[str]) -> str:
    text = "\n    ".join(body)
    shifts = [f"const int32_t shift_{d} = shifts[{d}];" for d in sorted(set(re.findall(r"shift_(\d+)", text)))]
    head = "\n  ".join([*shifts, *declared])
    signature = 'extern "C" void loop(const void** in, void** out, int64_t length, bool reverse)'
    return f"{_PRELUDE}{signature} {{\n  {head}\n  {loop} {{\n    {text}\n  }}\n}}\n"


class NativeLoop:
    """A compiled loop: call it with input tensors, output tensors, length and direction."""

    def __init__(self, library: pathlib.Path) -> None:
        """Load the library; its file is not needed any more. Raises `OSError`."""
        loaded = ctypes.CDLL(str(library))
        weakref.finalize(self, _ctypes.dlclose, loaded._handle).atexit = False
        self._function = loaded.loop
        self._function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_bool]
        self._function.restype = None

    def __call__(
        self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], length: int = 0, reverse: bool = False
    ) -> None:
        """Run the loop, reading contiguous `inputs` and filling contiguous `outputs`."""
        given = (ctypes.c_void_p * max(len(inputs), 1))(*(t.data_ptr() for t in inputs))
        made = (ctypes.c_void_p * max(len(outputs), 1))(*(t.data_ptr() for t in outputs))
        self._function(ctypes.addressof(given), ctypes.addressof(made), length, reverse)


_loaded: "weakref.WeakValueDictionary[str, NativeLoop]" = weakref.WeakValueDictionary()


def compile_source(source: str) -> NativeLoop | None:
    """Compile a loop, or take it from the cache on disk; None where there is no compiler. Raises `cache.Unusable`."""
    compiler = machine.compiler()
    if compiler is None:
        return None
    # No contraction to fused multiply-adds: a step gives the numbers that torch's operators give.
    command = [compiler, "-O3", "-march=native", "-std=c++17", "-fPIC", "-shared", "-fwrapv", "-ffp-contract=off"]
    command += ["-fno-math-errno", "-fno-trapping-math"]
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
        text.write_text(source)
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


def ready(body: Graph, key: Hashable, source: Callable[[], str]) -> NativeLoop | None:
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


def _compiled(source: Callable[[], str]) -> NativeLoop | None:
    try:
        return compile_source(source())
    except Unsupported:
        return None
    except cache.Unusable as error:
        cache.warn(str(error))
        return None


def run(
    loop: NativeLoop, inputs: Sequence[Tensor], types: Sequence[TensorType], length: int = 0, reverse: bool = False
) -> list[Tensor]:
    """Run a native loop and return its results, which are of these types."""
    outputs = [torch.empty(t.shape, dtype=t.dtype) for t in types]
    loop([_in_memory(t) for t in inputs], outputs, length, reverse)
    return outputs


def _in_memory(tensor: Tensor) -> Tensor:
    if tensor._is_zerotensor():  # torch's stand-in for a derivative that is zero has no memory
        return torch.zeros(tensor.shape, dtype=tensor.dtype)
    return tensor.contiguous()
