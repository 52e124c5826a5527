"""Fourier transforms in native loops: MKL's, which torch's operators call, too, so that the numbers are the same.

A step of a spectral method is a few transforms of some hundred numbers and what lies between them; calls of torch's operators take
several times as long as the transforms. What is to be transformed is brought into order, the dimensions of a transform last, and all
transforms of a batch are one call. MKL's plan for them is made once, where the function is first called.
"""

import ctypes
import functools
import math
from collections.abc import Sequence

import torch

from . import lapack
from .loop_emitter import Emitter
from .loop_operators import C_TYPES
from .loop_values import Unsupported, Value, in_buffer
from .loop_views import permute

_ROUTINES = (
    *(f"DftiCreateDescriptor_{letter}_{sizes}" for sizes in ("1d", "md") for letter in "sd"),
    *(
        f"Dfti{name}"
        for name in ("SetValue", "CommitDescriptor", "ComputeForward", "ComputeBackward", "FreeDescriptor")
    ),
)
_ROOM = 16  # arrays as large as one that is transformed, in a step that may hold no more: a transform takes as long


def tables_of(text: str) -> str:
    """Return the table that code needs for what it calls of MKL."""
    return _TABLE if "transform<" in text else ""


def connect(library: ctypes.CDLL) -> None:
    """Tell a library of native code where MKL's routines are, if it calls any."""
    lapack.fill(library, "transforms", len(_ROUTINES), _places)


@functools.cache
def _places() -> list[int | None]:
    return [lapack.of_torch(name) for name in _ROUTINES]


def _transformed(
    emitter: Emitter,
    shape: tuple[int, ...],
    dtype: torch.dtype,
    x: Value,
    dims: Sequence[int],
    norm: int,
    forward: bool,
    mirrors: bool = False,
) -> Value:
    """Return the transform of x along `dims`, the last of which is the one that is halved if either side is real."""
    if not dims:
        return x
    if not all(_places()) or math.prod(shape) == 0:
        raise Unsupported("a transform without MKL, or of nothing")
    wanted = [d % len(shape) for d in dims]
    along = [*sorted(wanted[:-1]), wanted[-1]]
    order = [*(d for d in range(len(shape)) if d not in along), *along]
    given, made = ([of[d] for d in order] for of in (x.shape, shape))
    source = emitter.in_order(permute(tuple(given), x, order))
    name, place = emitter.declared(tuple(made), dtype), source.load(["0"] * len(given))
    sizes = (given if x.dtype.is_floating_point else made)[-len(along) :]
    count = math.prod(made[: -len(along)])
    words = [str(word).lower() for word in (forward, mirrors)]
    arguments = ", ".join([C_TYPES[x.dtype], C_TYPES[dtype], *words, *map(str, (norm, count, *sizes))])
    emitter.made["room"] += _ROOM * math.prod(shape)
    emitter.work += math.prod(shape) * math.ceil(math.log2(math.prod(sizes) + 1))
    emitter.lines.append(f"transform<{arguments}>(&{place}, {name});")
    back = [order.index(d) for d in range(len(order))]
    return permute(shape, in_buffer(name, tuple(made), dtype), back)


def _of_real(
    emitter: Emitter, shape: tuple[int, ...], dtype: torch.dtype, x: Value, dims: Sequence[int], norm: int, half: bool
) -> Value:
    return _transformed(emitter, shape, dtype, x, dims, norm, forward=True, mirrors=not half)


def _to_real(
    emitter: Emitter, shape: tuple[int, ...], dtype: torch.dtype, x: Value, dims: Sequence[int], norm: int, size: int
) -> Value:
    *others, last = dims
    x = _transformed(emitter, x.shape, x.dtype, x, others, norm, forward=False)
    return _transformed(emitter, shape, dtype, x, [last], norm, forward=False)


STATEMENTS = {"_fft_c2c": _transformed, "_fft_r2c": _of_real, "_fft_c2r": _to_real}
_TABLE = f"void* transforms[{len(_ROUTINES)}];\n"
PRELUDE = (
    f'extern "C" void* transforms[{len(_ROUTINES)}];\n'
    r"""
enum { CREATE, CREATE_SEVERAL = 2, SET = 4, COMMIT, FORWARD, BACKWARD, FREE };
template <class... A> static inline long mkl(int name, void* plan, A... a) {
  return ((long (*)(void*, ...))transforms[name])(plan, a...);
}
template <class T> struct PartOf { typedef T type; static constexpr bool is_real = true; };
template <class T> struct PartOf<Complex<T>> { typedef T type; static constexpr bool is_real = false; };
template <class A, class B, int rank> struct Plan {
  static constexpr bool is_double = sizeof(typename PartOf<A>::type) == 8;
  static constexpr bool is_real = PartOf<A>::is_real || PartOf<B>::is_real;
  void* handle = nullptr;
  long failed = 0;
  // `halved` are the numbers of a row of either side: half of them, where the other side is real.
  Plan(const long* sizes, const long* halved, long count, bool forward, double scale) {
    enum { FORWARD_SCALE = 4, BACKWARD_SCALE, TRANSFORMS = 7, EVEN_STORAGE = 10, PLACEMENT, STRIDES, DISTANCE = 14 };
    enum { AS_COMPLEX = 32, AS_REAL, COMPLEX_STORED = 39, APART = 44 };
    const int kind = is_real ? AS_REAL : AS_COMPLEX;
    auto make = (long (*)(void**, int, long, ...))transforms[(rank == 1 ? CREATE : CREATE_SEVERAL) + is_double];
    failed = rank == 1 ? make(&handle, kind, sizes[0]) : make(&handle, kind, rank, sizes);
    for (int side = 0; side < 2; ++side) {
      long strides[rank+1] = {}, length = 1;
      for (int d = rank; d; --d) strides[d] = length, length *= d == rank ? halved[side] : sizes[d-1];
      failed |= mkl(SET, handle, STRIDES + side, strides);
      failed |= mkl(SET, handle, DISTANCE + side, length);
    }
    failed |= mkl(SET, handle, PLACEMENT, APART);
    failed |= mkl(SET, handle, TRANSFORMS, count);
    if (is_real) failed |= mkl(SET, handle, EVEN_STORAGE, COMPLEX_STORED);
    failed |= mkl(SET, handle, forward ? FORWARD_SCALE : BACKWARD_SCALE, scale);
    failed |= mkl(COMMIT, handle);
  }
  ~Plan() { mkl(FREE, &handle); }
};
// Of a real array's transform the other half, which is the first one's conjugate.
template <class T, int rank> static void mirror(Complex<T>* x, const long* sizes, long count) {
  const long columns = sizes[rank-1];
  long rows = 1;
  for (int d = 0; d < rank - 1; ++d) rows *= sizes[d];
  for (long n = 0; n < count; ++n, x += rows * columns) for (long row = 0; row < rows; ++row) {
    long rest = row, other = 0, stride = 1;
    for (int d = rank - 2; d >= 0; rest /= sizes[d], stride *= sizes[d], --d)
      other += (sizes[d] - rest % sizes[d]) % sizes[d] * stride;
    for (long i = columns / 2 + 1; i < columns; ++i) x[row*columns + i] = conjugate(x[other*columns + columns - i]);
  }
}
template <class A, class B, bool forward, bool mirrors, int norm, int count, int... given>
static void transform(const A* x, B* out) {
  constexpr int rank = sizeof...(given);
  static constexpr long sizes[] = {given...}, last = sizes[rank-1], all = (long(given) * ...);
  static constexpr bool is_real[] = {PartOf<A>::is_real, PartOf<B>::is_real};
  static constexpr long halved[] = {is_real[1] ? last / 2 + 1 : last, is_real[0] && !mirrors ? last / 2 + 1 : last};
  static const Plan<A, B, rank> plan(sizes, halved, count, forward,
                                     norm == 0 ? 1.0 : norm == 1 ? 1 / std::sqrt(double(all)) : 1.0 / all);
  const bool failed = plan.failed || mkl(forward ? FORWARD : BACKWARD, plan.handle, x, out);
  if constexpr (mirrors) mirror<typename PartOf<B>::type, rank>(out, sizes, count);
  if (failed) for (long i = 0; i < count * all / last * halved[1]; ++i) out[i] = B(NaN);
}
"""
)
