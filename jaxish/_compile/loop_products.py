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
from .loop_values import Unsupported, Value, beginning, in_buffer, is_in_order, strides

# Multiplications of a product beyond which BLAS wins, earlier where it has many processors; and elements of the second factor that a
# product brings in order, beyond which that takes longer than that the threads of BLAS wait for each other (1 to 2 us).
_FEW_PRODUCTS = 1 << 20 if machine.cores() <= 2 else 1 << 18
_MOST_PACKED = 1 << 13
_OF_BLAS = (torch.float32, torch.float64)
# Elements of the left factor or the product, beyond which passes over memory matter, and of a right factor that a processor's
# first cache has room for.
_MANY_OF_ROWS, _MOST_OF_WEIGHTS = 1 << 16, 1 << 12
_MOST_PRODUCTS = 1 << 27


def _mm(emitter: Emitter, shape: tuple[int, ...], dtype: torch.dtype, left: Value, right: Value) -> Value:
    # A vector is a row if it is the first factor, and a column if it is the second one.
    m, n = len(left.shape), len(right.shape)
    rows = left.seen((1, 1, *left.shape)[-3:], lambda i: i[3 - m :])
    columns = right.seen((1, *right.shape, 1)[:3], lambda i: i[1 : 1 + n])
    return _bmm(emitter, shape, dtype, rows, columns)


def _bmm(emitter: Emitter, shape: tuple[int, ...], dtype: torch.dtype, left: Value, right: Value) -> Value:
    if math.prod(shape) * left.shape[-1] > _MOST_PRODUCTS:
        raise Unsupported("the matrix product is large")
    if kind_of(dtype) in "bw" or left.dtype is not dtype or right.dtype is not dtype:
        raise Unsupported(f"a product of {left.dtype} and {right.dtype}")
    left, right = _oriented(left, right)
    (batch, rows, inner), columns = left.shape, right.shape[-1]
    emitter.work += math.prod(shape) * inner // (32 if dtype.is_floating_point else 8)
    array = re.fullmatch(r"(\w+)\[", beginning(left) or "")
    if array and batch == 1 and goes_along_rows(rows, inner, columns, dtype):
        first = emitter.in_order(right).load(["0"] * 3)
        lines = emitter.lines_for(f"{array[1]} {first}")
        name = emitter.declared(shape, dtype, lines)
        lines.append(f"product_of_rows<{rows}, {inner}, {columns}>({array[1]}, &{first}, {name});")
        return in_buffer(name, shape, dtype)
    by_blas = dtype in _OF_BLAS and (rows * inner * columns > _FEW_PRODUCTS or _is_long_turned(emitter, right))
    if not (_is_in_rows(left) or (columns > 1 and _is_in_rows(_turned(left)))):
        left = emitter.stored(left)
    if not (is_in_order(right) or _is_taken_as_it_lies(emitter, right, by_blas)):
        right = emitter.stored(right)
    lines = emitter.lines_for(f"{left.text} {right.text}")
    name, n = emitter.declared(shape, dtype, lines), emitter.new_name("n")
    places = (f"&{v.load([n, '0', '0'])}" for v in (left, right))
    call = f"{_function(left, right, by_blas)}({', '.join(places)}, {name}+{n}*{rows * columns})"
    lines.append(f"for (int {n} = 0; {n} < {batch}; ++{n}) {call};")
    return in_buffer(name, shape, dtype)


def goes_along_rows(rows: int, inner: int, columns: int, dtype: torch.dtype) -> bool:
    """Tell whether a product is best made some rows at a time, as what is computed of its rows is."""
    is_large = rows * max(inner, columns) > _MANY_OF_ROWS
    return is_large and inner * columns <= _MOST_OF_WEIGHTS and dtype in _OF_BLAS


def _function(left: Value, right: Value, by_blas: bool) -> str:
    """Return the name of the function that multiplies one matrix of each."""
    (_, rows, inner), columns = left.shape, right.shape[-1]
    moves = [*_moves(left), *_moves(right)]
    sizes = [rows, inner, columns, *([] if moves == [inner, 1, columns, 1] else moves)]
    return f"{'large_product' if by_blas else 'product'}<{', '.join([C_TYPES[left.dtype], *map(str, sizes)])}>"


def _oriented(left: Value, right: Value) -> tuple[Value, Value]:
    """Return the factors, or where one is a vector those of the transposed product, if the other one lies in rows there."""
    matrix = left if right.shape[-1] == 1 else right
    if 1 in (left.shape[-2], right.shape[-1]) and not _is_in_rows(matrix) and _is_in_rows(_turned(matrix)):
        return _turned(right), _turned(left)
    return left, right


def _turned(factor: Value) -> Value:
    batch, rows, columns = factor.shape
    return factor.seen((batch, columns, rows), lambda i: [i[0], i[2], i[1]])


def _is_in_rows(factor: Value) -> bool:
    """Tell whether what is in a row lies one after the other, and rows lie apart."""
    if strides(factor, 2) is None:
        return False
    (_, rows, columns), (row, column) = factor.shape, _moves(factor)
    return column == 1 and (rows == 1 or row >= columns)


def _moves(factor: Value) -> list[int]:
    """Return how far apart rows and columns lie, of a single one as if there were more."""
    _, rows, columns = factor.shape
    if rows == columns == 1:
        return [1, 1]
    found = strides(factor, 2)
    assert found is not None
    return [columns if rows == 1 else found[0], 1 if columns == 1 else found[1]]


def _is_taken_as_it_lies(emitter: Emitter, right: Value, by_blas: bool) -> bool:
    """Tell whether a product takes matrices whose rows or columns lie in memory one after the other, or brings them in order.

    Constants of a loop are brought in order once.
    """
    if not (_is_in_rows(right) or _is_in_rows(_turned(right))):
        return False
    return by_blas or (math.prod(right.shape[1:]) <= _MOST_PACKED and emitter.changes(right.text))


def _is_long_turned(emitter: Emitter, right: Value) -> bool:
    """Tell whether large matrices lie in memory column by column, and are no constants of a loop."""
    is_long = math.prod(right.shape[1:]) > _MOST_PACKED and not is_in_order(right)
    return is_long and _is_in_rows(_turned(right)) and emitter.changes(right.text)


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
template <class V, class P> static inline V shuffled(V a, V b, P places) {
#if defined(__GNUC__) && !defined(__clang__)
  return __builtin_shuffle(a, b, places);
#else
  constexpr int n = sizeof(V) / sizeof(a[0]);
  V found;
  for (int l = 0; l < n; ++l) found[l] = places[l] < n ? a[places[l]] : b[places[l]-n];
  return found;
#endif
}
// Of a block of as many rows as a vector has numbers the first half is interleaved with the second one: the first bit of a row's number
// becomes the last one of a column's. Done for each bit, rows are columns.
template <class T, int n> static inline void turn_block(const T* a, int apart, T* out, int rows) {
  typedef typename Lanes<T, n>::type Vector;
  typedef typename Lanes<std::conditional_t<sizeof(T) == 4, int32_t, int64_t>, n>::type Places;
  Places low, high;
  for (int l = 0; l < n; ++l) low[l] = l / 2 + l % 2 * n, high[l] = low[l] + n / 2;
  Vector block[n], other[n];
  for (int r = 0; r < n; ++r) block[r] = *(const Vector*)(a + r*apart);
  for (int bit = 1; bit < n; bit *= 2) {
    for (int r = 0; r < n / 2; ++r) {
      other[2*r] = shuffled(block[r], block[r+n/2], low);
      other[2*r+1] = shuffled(block[r], block[r+n/2], high);
    }
    for (int r = 0; r < n; ++r) block[r] = other[r];
  }
  for (int r = 0; r < n; ++r) *(Vector*)(out + r*rows) = block[r];
}
template <class T, int rows, int columns, int apart = columns> static void turn(const T* a, T* out) {  // rows, apart, into columns
  int done = 0;
  if constexpr (std::is_arithmetic_v<T> && sizeof(T) >= 4) {
    constexpr int n = (VECTOR < 32 ? VECTOR : 32) / sizeof(T);
    for (; done + n <= columns; done += n) {
      int i = 0;
      for (; i + n <= rows; i += n) turn_block<T, n>(a + i*apart + done, apart, out + done*rows + i, rows);
      for (; i < rows; ++i) for (int j = done; j < done + n; ++j) out[j*rows+i] = a[i*apart+j];
    }
  }
  for (int j = done; j < columns; ++j) for (int i = 0; i < rows; ++i) out[j*rows+i] = a[i*apart+j];
}
// How far apart rows and columns of factors lie is said by *_row and *_column.
template <class T, int inner, int columns, int lanes, int rows, int a_row, int a_column, int b_row>
static inline void tile(const T* a, const T* b, T* out) {
  constexpr int width = lanes * sizeof(T) > VECTOR ? VECTOR / sizeof(T) : lanes, count = lanes / width;
  typedef typename Lanes<T, width>::type Vector;
  ALIGNED Vector sums[rows][count] = {};
  for (int k = 0; k < inner; ++k) {
    for (int v = 0; v < count; ++v) {
      const Vector row = *(const Vector*)(b + k*b_row + v*width);
      for (int i = 0; i < rows; ++i) sums[i][v] += a[i*a_row+k*a_column] * row;
    }
  }
  for (int i = 0; i < rows; ++i) for (int v = 0; v < count; ++v) *(Vector*)(out + i*columns + v*width) = sums[i][v];
}
template <class T, int rows, int inner, int columns, int lanes, int from, int a_row, int a_column, int b_row>
static inline void tiles(const T* a, const T* b, T* out) {
  constexpr int high = 4, end = columns - (columns - from) % lanes;
  for (int j = from; j < end; j += lanes) {
    int i = 0;
    for (; i + high <= rows; i += high)
      tile<T, inner, columns, lanes, high, a_row, a_column, b_row>(a + i*a_row, b + j, out + i*columns + j);
    for (; i < rows; ++i) tile<T, inner, columns, lanes, 1, a_row, a_column, b_row>(a + i*a_row, b + j, out + i*columns + j);
  }
  if constexpr (end < columns) tiles<T, rows, inner, columns, lanes / 2, end, a_row, a_column, b_row>(a, b, out);
}
// The dot products of several rows with one column, each as `dot` has it: sums that do not wait for each other.
template <class T, int rows, int a_row> static inline void dots(const T* a, const T* b, T* out, int inner) {
  constexpr int lanes = 8, width = lanes * sizeof(T) > VECTOR ? VECTOR / sizeof(T) : lanes, count = lanes / width;
  typedef typename Lanes<T, width>::type Vector;
  ALIGNED Vector sums[rows][count] = {};
  const int end = inner - inner % lanes;
  for (int i = 0; i < end; i += lanes) for (int v = 0; v < count; ++v) {
    const Vector part = *(const Vector*)(b + i + v*width);
    for (int r = 0; r < rows; ++r) sums[r][v] += *(const Vector*)(a + r*a_row + i + v*width) * part;
  }
  ALIGNED T each[lanes][rows];
  for (int r = 0; r < rows; ++r) for (int l = 0; l < lanes; ++l) each[l][r] = sums[r][l / width][l % width];
  for (int half = lanes / 2; half; half /= 2)
    for (int l = 0; l < half; ++l) for (int r = 0; r < rows; ++r) each[l][r] += each[l+half][r];
  for (int r = 0; r < rows; ++r) {
    T rest = 0;
    for (int i = end; i < inner; ++i) rest += a[r*a_row+i] * b[i];
    out[r] = each[0][r] + rest;
  }
}
template <class T, int rows, int inner, int columns, int a_row = inner, int a_column = 1, int b_row = columns, int b_column = 1>
static void product(const T* a, const T* b, T* out) {
  constexpr int reread = 16;  // rows from which on that takes longer than bringing what they read in order
  if constexpr (columns == 1 ? b_row != 1 : b_column != 1 || (b_row != columns && rows >= reread)) {
    ALIGNED T packed[inner*columns];
    if constexpr (b_column == 1)
      for (int k = 0; k < inner; ++k) for (int j = 0; j < columns; ++j) packed[k*columns+j] = b[k*b_row+j];
    else turn<T, columns, inner, b_column>(b, packed);
    product<T, rows, inner, columns, a_row, a_column>(a, packed, out);
  } else if constexpr (std::is_floating_point_v<T> && columns == 1) {
    int i = 0;
    for (; i + 8 <= rows; i += 8) dots<T, 8, a_row>(a + i*a_row, b, out + i, inner);
    for (; i < rows; ++i) out[i] = dot(a + i*a_row, b, inner);
  } else if constexpr (std::is_floating_point_v<T> && rows >= 4) {
    tiles<T, rows, inner, columns, 64 / sizeof(T), 0, a_row, a_column, b_row>(a, b, out);
  } else {
    for (int i = 0; i < rows; ++i) {
      T* row = out + i*columns;
      for (int j = 0; j < columns; ++j) row[j] = 0;
      for (int k = 0; k < inner; ++k) {
        const T factor = a[i*a_row+k*a_column];
        for (int j = 0; j < columns; ++j) {
          if constexpr (std::is_integral_v<T>) row[j] = add(row[j], multiply(factor, b[k*b_row+j]));
          else row[j] = row[j] + factor * b[k*b_row+j];
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
