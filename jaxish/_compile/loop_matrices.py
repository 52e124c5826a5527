"""Factorizations, solves and sorting of small arrays in native loops: torch's operators as calls of C++ functions.

Each operator is a call per matrix (or row) of a batch, of a function that works on copies of the operands where they lie,
as LAPACK's do, and by LAPACK's methods: Gaussian elimination with row pivoting, Householder reflections with its signs.
The loops that need them (filters, samplers, Newton's method) call them on matrices of a few rows, for which a call of LAPACK
by way of torch costs a hundred times the work.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from .loop_operators import C_TYPES
from .loop_values import Unsupported, Value

_MOST_ROWS = 32  # beyond, LAPACK's blocks win
_MOST_SORTED = 1024


@dataclass(frozen=True)
class Call:
    """A call of a C++ function on each element of a batch.

    `operands` are copied into buffers, of which the last `rank` dimensions are an element's; `made` are buffers for what
    the function writes besides, with the rank of an element. `results` are the buffers, in this order, that are torch's results.
    """

    function: str
    operands: Sequence[tuple[Value, int]]
    made: Sequence[tuple[tuple[int, ...], torch.dtype, int]]
    results: Sequence[int]


def _square(x: Value) -> int:
    size = x.shape[-1]
    if x.shape[-2] != size or not 0 < size <= _MOST_ROWS or not x.dtype.is_floating_point:
        raise Unsupported(f"a factorization of {x.dtype}{list(x.shape)}")
    return size


def _named(function: str, x: Value, *numbers: int) -> str:
    return f"{function}<{', '.join([C_TYPES[x.dtype], *(str(int(n)) for n in numbers)])}>"


def _of_batch(x: Value, dtype: torch.dtype, *element: int) -> tuple[tuple[int, ...], torch.dtype, int]:
    return (*x.shape[:-2], *element), dtype, len(element)


def _inverse(x: Value, check_errors: bool = False) -> Call:
    made = [_of_batch(x, x.dtype, *x.shape[-2:]), _of_batch(x, torch.int32)]
    return Call(_named("inverse", x, _square(x)), [(x, 2)], made, [1, 2])


def _cholesky(x: Value, upper: bool = False, check_errors: bool = False) -> Call:
    return Call(_named("cholesky", x, _square(x), upper), [(x, 2)], [_of_batch(x, torch.int32)], [0, 1])


def _solve(matrix: Value, right: Value, left: bool = True, check_errors: bool = False) -> Call:
    size, is_vector = _square(matrix), len(right.shape) == len(matrix.shape) - 1
    rank = 1 if is_vector else 2
    if not left or right.shape[:-rank] != matrix.shape[:-2]:
        raise Unsupported("a solve from the right, or of one matrix for a batch")
    return Call(
        _named("solve", matrix, size, 1 if is_vector else right.shape[-1]), [(matrix, 2), (right, rank)], [], [1]
    )


def _solve_triangular(
    matrix: Value, right: Value, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Call:
    size = _square(matrix)
    if right.shape[:-2] != matrix.shape[:-2]:
        raise Unsupported("a solve with one matrix for a batch")
    function = _named("solve_triangular", matrix, size, right.shape[-1 if left else -2], upper, left, unitriangular)
    return Call(function, [(matrix, 2), (right, 2)], [], [1])


def _qr(x: Value, mode: str = "reduced") -> Call:
    *_, rows, columns = x.shape
    if mode == "r" or not 0 < max(rows, columns) <= _MOST_ROWS or not rows * columns or not x.dtype.is_floating_point:
        raise Unsupported(f"the factors of {x.dtype}{list(x.shape)} ({mode})")
    kept = rows if mode == "complete" else min(rows, columns)
    made = [_of_batch(x, x.dtype, rows, kept), _of_batch(x, x.dtype, kept, columns)]
    return Call(_named("qr", x, rows, columns, kept), [(x, 2)], made, [1, 2])


def _solve_by_cholesky(right: Value, factor: Value, upper: bool = False) -> Call:
    if right.shape[:-2] != factor.shape[:-2]:
        raise Unsupported("a solve with one matrix for a batch")
    function = _named("solve_by_cholesky", factor, _square(factor), right.shape[-1], upper)
    return Call(function, [(factor, 2), (right, 2)], [], [1])


def _factors(x: Value, pivot: bool = True, check_errors: bool = False) -> Call:
    if not pivot:
        raise Unsupported("factors without pivots")
    made = [_of_batch(x, torch.int32, x.shape[-1]), _of_batch(x, torch.int32)]
    return Call(_named("factors", x, _square(x)), [(x, 2)], made, [0, 1, 2])


def _solve_factored(factors: Value, pivots: Value, right: Value, left: bool = True, adjoint: bool = False) -> Call:
    if not left or adjoint or right.shape[:-2] != factors.shape[:-2]:
        raise Unsupported("a solve from the right, of the adjoint, or of one matrix for a batch")
    function = _named("solve_factored", factors, _square(factors), right.shape[-1])
    return Call(function, [(factors, 2), (pivots, 1), (right, 2)], [], [2])


def _determinant(x: Value) -> Call:
    return Call(_named("determinant", x, _square(x)), [(x, 2)], [_of_batch(x, x.dtype)], [1])


def _log_determinant(x: Value) -> Call:
    made = [_of_batch(x, x.dtype), _of_batch(x, x.dtype)]
    return Call(_named("log_determinant", x, _square(x)), [(x, 2)], made, [1, 2])


def _sorted(x: Value, dim: int = -1, descending: bool = False, stable: bool | None = None) -> Call:
    if not x.shape or not 0 < x.shape[dim] <= _MOST_SORTED:
        raise Unsupported(f"sorting {list(x.shape)} along {dim}")
    axis, size = dim % len(x.shape), x.shape[dim]
    function = _named("sort", x, size, math.prod(x.shape[axis + 1 :]), descending)
    rank = len(x.shape) - axis
    return Call(function, [(x, rank)], [(x.shape, torch.int64, rank)], [0, 1])


def _greatest(x: Value, count: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Call:
    if dim not in (-1, len(x.shape) - 1):
        raise Unsupported(f"the greatest along {dim}")
    return _sorted(x, dim, largest)  # of which the first are taken


# Operators by name. What torch returns after the results of a call (the factors within a solve) is not written out.
CALLS: Mapping[str, Callable[..., Call]] = {
    "linalg_inv_ex": _inverse,
    "linalg_cholesky_ex": _cholesky,
    "_linalg_solve_ex": _solve,
    "linalg_solve_triangular": _solve_triangular,
    "cholesky_solve": _solve_by_cholesky,
    "linalg_qr": _qr,
    "_linalg_det": _determinant,
    "_linalg_slogdet": _log_determinant,
    "linalg_lu_factor_ex": _factors,
    "linalg_lu_solve": _solve_factored,
    "sort": _sorted,
    "topk": _greatest,
}


def arguments(call: Call, names: Sequence[str], shapes: Sequence[tuple[int, ...]], element: str) -> tuple[int, str]:
    """Return the length of the batch and the call's arguments for the element of it at the expression `element`."""
    ranks = [*(rank for _, rank in call.operands), *(rank for *_, rank in call.made)]
    parts = [shape[len(shape) - rank :] for shape, rank in zip(shapes, ranks, strict=True)]
    batch = math.prod(shapes[0][: len(shapes[0]) - ranks[0]])
    return batch, ", ".join(f"{n}+{element}*{math.prod(p)}" for n, p in zip(names, parts, strict=True))


PRELUDE = r"""
#define MATRICES(...) template <class T, __VA_ARGS__> static void
MATRICES(int n) eliminate(T* a, int32_t* pivots) {  // LU with row pivoting, in place; pivots count from 1
  for (int k = 0; k < n; ++k) {
    int p = k;
    for (int i = k + 1; i < n; ++i) if (std::abs(a[i*n+k]) > std::abs(a[p*n+k])) p = i;
    pivots[k] = p + 1;
    if (p != k) for (int j = 0; j < n; ++j) { T t = a[k*n+j]; a[k*n+j] = a[p*n+j]; a[p*n+j] = t; }
    if (a[k*n+k] == 0) continue;
    for (int i = k + 1; i < n; ++i) {
      a[i*n+k] /= a[k*n+k];
      for (int j = k + 1; j < n; ++j) a[i*n+j] -= a[i*n+k] * a[k*n+j];
    }
  }
}
MATRICES(int n, int m, bool upper, bool left, bool unit) solve_triangular(const T* a, T* b) {
  // From the right, b is m by n, and x a = b is the solution of the transposed system for each row.
  const int row = left ? m : 1, column = left ? 1 : n;
  const bool down = upper != left;
  for (int j = 0; j < m; ++j)
    for (int s = 0; s < n; ++s) {
      const int k = down ? s : n - 1 - s;
      T t = b[k*row+j*column];
      for (int i = down ? 0 : k + 1; i < (down ? k : n); ++i) t -= (left ? a[k*n+i] : a[i*n+k]) * b[i*row+j*column];
      b[k*row+j*column] = unit ? t : t / a[k*n+k];
    }
}
MATRICES(int n, int m) solve_factored(T* a, int32_t* pivots, T* b) {
  for (int k = 0; k < n; ++k) {
    const int p = pivots[k] - 1;
    if (p != k) for (int j = 0; j < m; ++j) { T t = b[k*m+j]; b[k*m+j] = b[p*m+j]; b[p*m+j] = t; }
  }
  solve_triangular<T, n, m, false, true, true>(a, b);
  solve_triangular<T, n, m, true, true, false>(a, b);
}
MATRICES(int n) factors(T* a, int32_t* pivots, int32_t* info) {
  eliminate<T, n>(a, pivots);
  *info = 0;
  for (int k = n - 1; k >= 0; --k) if (a[k*n+k] == 0) *info = k + 1;
}
MATRICES(int n, int m) solve(T* a, T* b) {
  int32_t pivots[n];
  eliminate<T, n>(a, pivots);
  solve_factored<T, n, m>(a, pivots, b);
}
MATRICES(int n) inverse(T* a, T* x, int32_t* info) {
  int32_t pivots[n];
  for (int i = 0; i < n * n; ++i) x[i] = i % (n + 1) == 0;
  factors<T, n>(a, pivots, info);
  solve_factored<T, n, n>(a, pivots, x);
}
MATRICES(int n, bool upper) cholesky(T* a, int32_t* info) {  // of the triangle that it makes; the other one becomes 0
  #define L(i, j) a[upper ? (j)*n+(i) : (i)*n+(j)]
  *info = 0;
  for (int j = 0; j < n; ++j) {
    T d = L(j, j);
    for (int k = 0; k < j; ++k) d -= L(j, k) * L(j, k);
    if (!(d > 0) && *info == 0) *info = j + 1;
    L(j, j) = d = std::sqrt(d);
    for (int i = j + 1; i < n; ++i) {
      T t = L(i, j);
      for (int k = 0; k < j; ++k) t -= L(i, k) * L(j, k);
      L(i, j) = t / d;
      L(j, i) = 0;
    }
  }
  #undef L
}
MATRICES(int n, int m, bool upper) solve_by_cholesky(T* a, T* b) {
  for (int i = 0; i < n; ++i) for (int j = 0; j < i; ++j) (upper ? a[i*n+j] : a[j*n+i]) = upper ? a[j*n+i] : a[i*n+j];
  solve_triangular<T, n, m, false, true, false>(a, b);
  solve_triangular<T, n, m, true, true, false>(a, b);
}
MATRICES(int m, int n, int kept) qr(T* a, T* q, T* r) {
  constexpr int steps = m < n ? m : n;
  T scales[steps];
  for (int k = 0; k < steps; ++k) {
    T below = 0;
    for (int i = k + 1; i < m; ++i) below += a[i*n+k] * a[i*n+k];
    scales[k] = 0;
    if (below == 0) continue;
    const T head = a[k*n+k], beta = -std::copysign(std::sqrt(head * head + below), head);
    scales[k] = (beta - head) / beta;
    for (int i = k + 1; i < m; ++i) a[i*n+k] /= head - beta;
    a[k*n+k] = beta;
    for (int j = k + 1; j < n; ++j) {
      T t = a[k*n+j];
      for (int i = k + 1; i < m; ++i) t += a[i*n+k] * a[i*n+j];
      t *= scales[k];
      a[k*n+j] -= t;
      for (int i = k + 1; i < m; ++i) a[i*n+j] -= t * a[i*n+k];
    }
  }
  for (int i = 0; i < kept; ++i) for (int j = 0; j < n; ++j) r[i*n+j] = j < i ? 0 : a[i*n+j];
  for (int i = 0; i < m; ++i) for (int j = 0; j < kept; ++j) q[i*kept+j] = i == j;
  for (int k = steps - 1; k >= 0; --k)
    for (int j = 0; j < kept; ++j) {
      T t = q[k*kept+j];
      for (int i = k + 1; i < m; ++i) t += a[i*n+k] * q[i*kept+j];
      t *= scales[k];
      q[k*kept+j] -= t;
      for (int i = k + 1; i < m; ++i) q[i*kept+j] -= t * a[i*n+k];
    }
}
MATRICES(int n) determinant(T* a, T* value) {
  int32_t pivots[n];
  eliminate<T, n>(a, pivots);
  *value = 1;
  for (int k = 0; k < n; ++k) *value *= pivots[k] == k + 1 ? a[k*n+k] : -a[k*n+k];
}
MATRICES(int n) log_determinant(T* a, T* sign, T* size) {
  int32_t pivots[n];
  eliminate<T, n>(a, pivots);
  *sign = 1, *size = 0;
  for (int k = 0; k < n; ++k) {
    const T d = pivots[k] == k + 1 ? a[k*n+k] : -a[k*n+k];
    *sign *= d > 0 ? 1 : d < 0 ? -1 : d;
    *size += std::log(std::abs(d));
  }
}
// Of each column; equal elements keep their order, and NaN is the greatest.
MATRICES(int n, int columns, bool descending) sort(T* a, int64_t* places) {
  auto before = [](T x, T y) { return descending ? y < x || (is_nan(x) && !is_nan(y)) : x < y || (is_nan(y) && !is_nan(x)); };
  T now[n], other[n];
  int64_t at[n], others[n];
  for (int c = 0; c < columns; ++c) {
    for (int i = 0; i < n; ++i) now[i] = a[i*columns+c], at[i] = i;
    for (int width = 1; width < n; width *= 2) {
      for (int start = 0; start < n; start += 2 * width) {
        const int middle = start + width < n ? start + width : n, end = middle + width < n ? middle + width : n;
        for (int i = start, j = middle, k = start; k < end; ++k) {
          const bool second = i >= middle || (j < end && before(now[j], now[i]));
          const int from = second ? j++ : i++;
          other[k] = now[from], others[k] = at[from];
        }
      }
      for (int i = 0; i < n; ++i) now[i] = other[i], at[i] = others[i];
    }
    for (int i = 0; i < n; ++i) a[i*columns+c] = now[i], places[i*columns+c] = at[i];
  }
}
"""
