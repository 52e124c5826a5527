"""Products of small matrices in native loops: a C++ function, whose sums stay in registers.

A tile of rows by the numbers of one or a few vectors is summed up over the inner dimension, in order, and then written. Narrow rests are
tiles of narrower vectors. Rows of a single column are dot products in several sums, which JAX's order is not, either.

Of many rows and a small matrix, a layer's weights, each row is a product of its own: loop_blocks.py makes some of them at a time, between
what makes the rows and what reads theirs.
"""

import math
import re
from collections.abc import Sequence

import torch

from .._core import machine
from .loop_elements import element_of
from .loop_emitter import Emitter
from .loop_operators import C_TYPES, kind_of
from .loop_values import Unsupported, Value, beginning, in_buffer, is_in_order

# Multiplications of a product beyond which BLAS wins, earlier where it has many processors; and elements of a turned factor, which BLAS
# takes as it is, beyond which bringing it in order takes longer than that its threads wait for each other (1 to 2 us).
_FEW_PRODUCTS = 1 << 20 if machine.cores() <= 2 else 1 << 18
_FEW_TURNED = 1 << 13
_OF_BLAS = (torch.float32, torch.float64)
# Elements of the left factor or the product, beyond which passes over memory matter, and of a right factor that a processor's
# first cache has room for.
_MANY_OF_ROWS, _MOST_OF_WEIGHTS = 1 << 16, 1 << 12
_MOST_PRODUCTS = 1 << 27


def _product(
    emitter: Emitter, left: Value, right: Value, shape: tuple[int, ...], dtype: torch.dtype, several: bool = False
) -> Value:
    inner, kind = left.shape[-1], C_TYPES[dtype]
    if math.prod(shape) * inner > _MOST_PRODUCTS:
        raise Unsupported("the matrix product is large")
    if kind_of(dtype) in "bw" or left.dtype is not dtype or right.dtype is not dtype:
        raise Unsupported(f"a product of {left.dtype} and {right.dtype}")
    batch = shape[0] if several else 1
    rows, columns = math.prod(shape[several : len(left.shape) - 1]), math.prod(shape[len(left.shape) - 1 :])
    count = rows * inner * columns
    are_turned = [dtype in _OF_BLAS and _is_turned(emitter, v) for v in (left, right)]
    factors = [_turned(v) if t else emitter.in_order(v) for v, t in zip((left, right), are_turned, strict=True)]
    places = [f"&{v.load(['0'] * len(v.shape))}" for v in factors]
    lines = emitter.lines_for(" ".join(places))
    name, n = emitter.declared(shape, dtype, lines), emitter.new_name("n")
    emitter.work += math.prod(shape) * inner // (32 if dtype.is_floating_point else 8)
    found = in_buffer(name, shape, dtype)
    array = re.fullmatch(r"(\w+)\[", beginning(factors[0]) or "")
    if array and batch == 1 and goes_along_rows(rows, inner, columns, dtype) and not any(are_turned):
        lines.append(f"product_of_rows<{rows}, {inner}, {columns}>({array[1]}, {places[1]}, {name});")
        return found
    given = zip([*places, name], [rows * inner, inner * columns, rows * columns], strict=True)
    function = f"product<{kind}, {rows}, {inner}, {columns}>"
    if any(are_turned) or (dtype in _OF_BLAS and count > _FEW_PRODUCTS):
        flags = ", ".join(str(int(t)) for t in are_turned)
        function = f"large_product<{kind}, {rows}, {inner}, {columns}, {flags}>"
    lines.append(
        f"for (int {n} = 0; {n} < {batch}; ++{n}) {function}({', '.join(f'{p}+{n}*{size}' for p, size in given)});"
    )
    return found


def goes_along_rows(rows: int, inner: int, columns: int, dtype: torch.dtype) -> bool:
    """Tell whether a product is best made some rows at a time, as what is computed of its rows is."""
    is_large = rows * max(inner, columns) > _MANY_OF_ROWS
    return is_large and inner * columns <= _MOST_OF_WEIGHTS and dtype in _OF_BLAS


def _is_turned(emitter: Emitter, factor: Value) -> bool:
    """Tell whether large matrices lie in memory column by column, and are no constant of a loop, which is brought in order once."""
    if len(factor.shape) < 2 or math.prod(factor.shape[-2:]) <= _FEW_TURNED or is_in_order(factor):
        return False
    turned = _turned(factor)
    return is_in_order(turned) and emitter.changes(turned.text)


def _turned(factor: Value) -> Value:
    *batch, rows, columns = factor.shape
    return factor.seen((*batch, columns, rows), lambda i: [*i[:-2], i[-1], i[-2]])


def _mm(emitter: Emitter, shape: tuple[int, ...], dtype: torch.dtype, left: Value, right: Value) -> Value:
    return _product(emitter, left, right, shape, dtype)


def _bmm(emitter: Emitter, shape: tuple[int, ...], dtype: torch.dtype, left: Value, right: Value) -> Value:
    return _product(emitter, left, right, shape, dtype, several=True)


def _cross(emitter: Emitter, shape: tuple[int, ...], dtype: torch.dtype, a: Value, b: Value, dim: int = -1) -> Value:
    a, b, axis = emitter.held(a), emitter.held(b), dim % len(shape)

    def load(index: Sequence[str]) -> str:
        x, y = ([f"({i}+{d})%3" if n == axis else i for n, i in enumerate(index)] for d in (1, 2))
        products = (f"{element_of(a, p, shape, dtype)} * {element_of(b, q, shape, dtype)}" for p, q in ((x, y), (y, x)))
        return f"({' - '.join(products)})"

    return Value(shape, dtype, load)


STATEMENTS = {"mm": _mm, "mv": _mm, "dot": _mm, "bmm": _bmm, "linalg_cross": _cross}

PRELUDE = r"""
FUNCTION dot(const T* a, const T* b, int n) {
  constexpr int lanes = 8;
  ALIGNED T sums[lanes] = {}, rest = 0;
  int i = 0;
  for (; i + lanes <= n; i += lanes) for (int l = 0; l < lanes; ++l) sums[l] += a[i+l] * b[i+l];
  for (; i < n; ++i) rest += a[i] * b[i];
  for (int half = lanes / 2; half; half /= 2) for (int l = 0; l < half; ++l) sums[l] += sums[l+half];
  return sums[0] + rest;
}
#if defined(__AVX512F__)
constexpr int VECTOR = 64;  // bytes of a register: what is wider, GCC (12) keeps in memory, at five times the time
#elif defined(__AVX__)
constexpr int VECTOR = 32;
#else
constexpr int VECTOR = 16;
#endif
template <class T, int lanes> struct Lanes {
  typedef T type __attribute__((vector_size(sizeof(T) * lanes), aligned(alignof(T)), may_alias));
};
template <class T> struct Lanes<T, 1> { typedef T type; };
template <class T, int inner, int columns, int lanes, int rows>
static inline void tile(const T* a, const T* b, T* out) {
  constexpr int width = lanes * sizeof(T) > VECTOR ? VECTOR / sizeof(T) : lanes, count = lanes / width;
  typedef typename Lanes<T, width>::type Vector;
  ALIGNED Vector sums[rows][count] = {};
  for (int k = 0; k < inner; ++k) {
    for (int v = 0; v < count; ++v) {
      const Vector row = *(const Vector*)(b + k*columns + v*width);
      for (int i = 0; i < rows; ++i) sums[i][v] += a[i*inner+k] * row;
    }
  }
  for (int i = 0; i < rows; ++i) for (int v = 0; v < count; ++v) *(Vector*)(out + i*columns + v*width) = sums[i][v];
}
template <class T, int rows, int inner, int columns, int lanes, int from>
static inline void tiles(const T* a, const T* b, T* out) {
  constexpr int high = 4, end = columns - (columns - from) % lanes;
  for (int j = from; j < end; j += lanes) {
    int i = 0;
    for (; i + high <= rows; i += high) tile<T, inner, columns, lanes, high>(a + i*inner, b + j, out + i*columns + j);
    for (; i < rows; ++i) tile<T, inner, columns, lanes, 1>(a + i*inner, b + j, out + i*columns + j);
  }
  if constexpr (end < columns) tiles<T, rows, inner, columns, lanes / 2, end>(a, b, out);
}
// The dot products of several rows with one column, each as `dot` has it: sums that do not wait for each other.
template <class T, int rows> static inline void dots(const T* a, const T* b, T* out, int inner) {
  constexpr int lanes = 8, width = lanes * sizeof(T) > VECTOR ? VECTOR / sizeof(T) : lanes, count = lanes / width;
  typedef typename Lanes<T, width>::type Vector;
  ALIGNED Vector sums[rows][count] = {};
  const int end = inner - inner % lanes;
  for (int i = 0; i < end; i += lanes) for (int v = 0; v < count; ++v) {
    const Vector part = *(const Vector*)(b + i + v*width);
    for (int r = 0; r < rows; ++r) sums[r][v] += *(const Vector*)(a + r*inner + i + v*width) * part;
  }
  ALIGNED T each[lanes][rows];
  for (int r = 0; r < rows; ++r) for (int l = 0; l < lanes; ++l) each[l][r] = sums[r][l / width][l % width];
  for (int half = lanes / 2; half; half /= 2)
    for (int l = 0; l < half; ++l) for (int r = 0; r < rows; ++r) each[l][r] += each[l+half][r];
  for (int r = 0; r < rows; ++r) {
    T rest = 0;
    for (int i = end; i < inner; ++i) rest += a[r*inner+i] * b[i];
    out[r] = each[0][r] + rest;
  }
}
template <class T, int rows, int inner, int columns> static void product(const T* a, const T* b, T* out) {
  if constexpr (std::is_floating_point_v<T> && columns == 1) {
    int i = 0;
    for (; i + 8 <= rows; i += 8) dots<T, 8>(a + i*inner, b, out + i, inner);
    for (; i < rows; ++i) out[i] = dot(a + i*inner, b, inner);
  } else if constexpr (std::is_floating_point_v<T> && rows >= 4) {
    tiles<T, rows, inner, columns, 64 / sizeof(T), 0>(a, b, out);
  } else {
    for (int i = 0; i < rows; ++i) {
      T* row = out + i*columns;
      for (int j = 0; j < columns; ++j) row[j] = 0;
      for (int k = 0; k < inner; ++k) {
        const T factor = a[i*inner+k];
        for (int j = 0; j < columns; ++j) {
          if constexpr (std::is_integral_v<T>) row[j] = add(row[j], multiply(factor, b[k*columns+j]));
          else row[j] = row[j] + factor * b[k*columns+j];
        }
      }
    }
  }
}
// A function of its own: within a loop over blocks GCC keeps the sums of a tile in memory, at half as much time again.
template <int rows, int inner, int columns, class T>
__attribute__((noinline)) static void product_of_rows(const T* a, const T* b, T* out) {
  product<T, rows, inner, columns>(a, b, out);
}
"""
