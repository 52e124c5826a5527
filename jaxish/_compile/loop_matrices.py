"""Factorizations, solves and sorting of small arrays in native loops: torch's operators as calls of C++ functions.

Each operator is a call per matrix (or row) of a batch, of a function that works on copies of the operands where they lie,
as LAPACK's do, and by LAPACK's methods: Gaussian elimination with row pivoting, Householder reflections with its signs.
The loops that need them (filters, samplers, Newton's method) call them on matrices of a few rows, for which a call of LAPACK
by way of torch costs a hundred times the work. Innermost loops run along rows, for which the compiler has vectors.
Beyond `_SMALL` rows, and for eigenvalues and singular values, LAPACK itself is called (lapack.py).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from torch import fx

from .._core.graph import Graph
from . import lapack
from .loop_operators import C_TYPES, name_of
from .loop_values import Unsupported, Value
from .loop_views import expand

_SMALL = lapack.SMALL  # rows: beyond, LAPACK's blocks win
_SMALL_TALL = 8192  # elements of a matrix that has more rows: likewise
_MOST_ROWS = 512
_MOST_OF_TALL = 1 << 18  # elements of a matrix that has more rows
_MOST_SORTED = 1024
# Elements that are sorted by exchanges of neighbours, where there are at least so many times as many.
_SHORT, _SIDE_BY_SIDE = 32, 16
_MOST_GREATEST = 64  # that are kept in order while the others pass by


@dataclass(frozen=True)
class Call:
    """A call of a C++ function on each element of a batch.

    `operands` are copied into buffers, of which the last `rank` dimensions are an element's, and which all of the batch
    reads if there are no others; `made` are buffers for what the function writes besides, with the rank of an element.
    `results` are the buffers, in this order, that are torch's results. It is `over_rows` where it looks at each element once,
    and else as often as a row has elements.
    """

    function: str
    operands: Sequence[tuple[Value, int]]
    made: Sequence[tuple[tuple[int, ...], torch.dtype, int]]
    results: Sequence[int]
    over_rows: bool = False


def _square(x: Value) -> int:
    size = x.shape[-1]
    if x.shape[-2] != size or not 0 < size <= _MOST_ROWS or not x.dtype.is_floating_point:
        raise Unsupported(f"a factorization of {x.dtype}{list(x.shape)}")
    return size


def _named(function: str, x: Value, *numbers: int) -> str:
    return f"{function}<{', '.join([C_TYPES[x.dtype], *(str(int(n)) for n in numbers)])}>"


def _of_batch(x: Value, dtype: torch.dtype, *element: int) -> tuple[tuple[int, ...], torch.dtype, int]:
    return (*x.shape[:-2], *element), dtype, len(element)


def _of_one_batch(right: Value, *matrices: tuple[Value, int]) -> tuple[Value, list[tuple[Value, int]]]:
    """Return the right sides and the matrices of solves, as many as there are; one matrix may be that of all."""
    batches = [m.shape[: len(m.shape) - rank] for m, rank in matrices]
    batch = np.broadcast_shapes(right.shape[:-2], *batches)

    def whole(x: Value, rank: int) -> Value:
        shape = (*batch, *x.shape[len(x.shape) - rank :])
        return x if x.shape == shape else expand(shape, x)

    given = [(m if math.prod(b) == 1 else whole(m, rank), rank) for (m, rank), b in zip(matrices, batches, strict=True)]
    return whole(right, 2), given


def _inverse(x: Value, check_errors: bool = False) -> Call:
    made = [_of_batch(x, x.dtype, *x.shape[-2:]), _of_batch(x, torch.int32)]
    return Call(_named("inverse", x, _square(x)), [(x, 2)], made, [1, 2])


def _cholesky(x: Value, upper: bool = False, check_errors: bool = False) -> Call:
    return Call(_named("cholesky", x, _square(x), upper), [(x, 2)], [_of_batch(x, torch.int32)], [0, 1])


def _solve(matrix: Value, right: Value, left: bool = True, check_errors: bool = False) -> Call:
    size, is_vector = _square(matrix), len(right.shape) == len(matrix.shape) - 1
    rank = 1 if is_vector else 2
    if not left or right.shape[:-rank] != matrix.shape[:-2]:
        raise Unsupported(
            "a solve from the right, or of one matrix for a batch"
        )  # it would be eliminated once for each
    return Call(
        _named("solve", matrix, size, 1 if is_vector else right.shape[-1]), [(matrix, 2), (right, rank)], [], [1]
    )


def _solve_triangular(
    matrix: Value, right: Value, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Call:
    size = _square(matrix)
    right, given = _of_one_batch(right, (matrix, 2))
    function = _named("solve_triangular", matrix, size, right.shape[-1 if left else -2], upper, left, unitriangular)
    return Call(function, [*given, (right, 2)], [], [1])


def _tall(x: Value, most_columns: int = _SMALL, most: int = _SMALL_TALL) -> tuple[int, int]:
    *_, rows, columns = x.shape
    if not (0 < columns <= most_columns and 0 < rows * columns <= most) or not x.dtype.is_floating_point:
        raise Unsupported(f"reflections of {x.dtype}{list(x.shape)}")
    return rows, columns


def _reflectors(x: Value) -> Call:
    rows, columns = _tall(x)
    return Call(_named("reflectors", x, rows, columns), [(x, 2)], [_of_batch(x, x.dtype, min(rows, columns))], [0, 1])


def _product_of_reflections(x: Value, scales: Value) -> Call:
    rows, columns = _tall(x)
    function = _named("reflections", x, rows, columns, columns, scales.shape[-1])
    return Call(function, [(x, 2), (scales, 1)], [_of_batch(x, x.dtype, rows, columns)], [2])


def _qr(x: Value, mode: str = "reduced") -> Call:
    rows, columns = _tall(x, _MOST_ROWS, _MOST_OF_TALL)
    if mode == "r":
        raise Unsupported("one of the factors")
    kept = rows if mode == "complete" else min(rows, columns)
    made = [_of_batch(x, x.dtype, rows, kept), _of_batch(x, x.dtype, kept, columns)]
    return Call(_named("qr", x, rows, columns, kept), [(x, 2)], made, [1, 2])


def _solve_by_cholesky(right: Value, factor: Value, upper: bool = False) -> Call:
    right, given = _of_one_batch(right, (factor, 2))
    function = _named("solve_by_cholesky", factor, _square(factor), right.shape[-1], upper)
    return Call(function, [*given, (right, 2)], [], [1])


def _factors(x: Value, pivot: bool = True, check_errors: bool = False) -> Call:
    if not pivot:
        raise Unsupported("factors without pivots")
    made = [_of_batch(x, torch.int32, x.shape[-1]), _of_batch(x, torch.int32)]
    return Call(_named("factors", x, _square(x)), [(x, 2)], made, [0, 1, 2])


def _unpacked(factors: Value, pivots: Value, unpack_data: bool = True, unpack_pivots: bool = True) -> Call:
    made = [_of_batch(factors, factors.dtype, *factors.shape[-2:])] * 3
    return Call(
        _named("unpacked", factors, _square(factors)),
        [(factors, 2), (pivots, 1)],
        made,
        [2, 3, 4] if unpack_data else [2],
    )


def _solve_factored(factors: Value, pivots: Value, right: Value, left: bool = True, adjoint: bool = False) -> Call:
    if not left or adjoint:
        raise Unsupported("a solve from the right, or of the adjoint")
    right, given = _of_one_batch(right, (factors, 2), (pivots, 1))
    function = _named("solve_factored", factors, _square(factors), right.shape[-1])
    return Call(function, [*given, (right, 2)], [], [2])


def _eigh(x: Value, triangle: str = "L", vectors: bool = True) -> Call:
    made = [_of_batch(x, x.dtype, x.shape[-1]), _of_batch(x, x.dtype, *x.shape[-2:])]
    return Call(_named("eigh", x, _square(x), triangle == "L"), [(x, 2)], made, [1, 2])


def _svd(x: Value, full: bool = False, vectors: bool = True, *, driver: str | None = None) -> Call:
    *_, rows, columns = x.shape
    least = min(rows, columns)
    if not 0 < least <= _MOST_ROWS or rows * columns > _MOST_OF_TALL or not x.dtype.is_floating_point or driver:
        raise Unsupported(f"the singular values of {x.dtype}{list(x.shape)}")
    left, right = (rows, columns) if full else (least, least)
    made = [
        _of_batch(x, x.dtype, rows, left if vectors else 0),
        _of_batch(x, x.dtype, least),
        _of_batch(x, x.dtype, right, columns if vectors else 0),
    ]
    return Call(_named("svd", x, rows, columns, full, vectors), [(x, 2)], made, [1, 2, 3])


def _eig(x: Value, vectors: bool = True) -> Call:
    dtype = x.dtype.to_complex()
    made = [_of_batch(x, dtype, x.shape[-1]), _of_batch(x, dtype, *x.shape[-2:])]
    return Call(_named("eig", x, _square(x), vectors), [(x, 2)], made, [1, 2])


def _eigenvalues(x: Value) -> Call:
    return _eig(x, vectors=False)


def _determinant(x: Value) -> Call:
    return Call(_named("determinant", x, _square(x)), [(x, 2)], [_of_batch(x, x.dtype)], [1])


def _log_determinant(x: Value) -> Call:
    made = [_of_batch(x, x.dtype), _of_batch(x, x.dtype)]
    return Call(_named("log_determinant", x, _square(x)), [(x, 2)], made, [1, 2])


def _sorted(x: Value, dim: int = -1, descending: bool = False, stable: bool | None = None) -> Call:
    if not x.shape or not 0 < x.shape[dim] <= _MOST_SORTED:
        raise Unsupported(f"sorting {list(x.shape)} along {dim}")
    axis, size = dim % len(x.shape), x.shape[dim]
    columns, rank = math.prod(x.shape[axis + 1 :]), len(x.shape) - axis
    if not _is_side_by_side(x.shape, axis):
        function = _named("sort", x, size, columns, descending)
    elif axis < len(x.shape) - 1:
        function = _named("sort_side_by_side", x, size, columns, columns, 1, descending)
    else:
        rank = len(x.shape)  # all rows in one call
        function = _named("sort_side_by_side", x, size, math.prod(x.shape[:-1]), 1, size, descending)
    return Call(function, [(x, rank)], [(x.shape, torch.int64, rank)], [0, 1])


def orders_fast(node: fx.Node) -> bool:
    """Tell whether a node sorts along a short dimension, many at a time, or finds few of the greatest."""
    shape, dim = node.meta["val"][0].shape, cast("int", node.kwargs.get("dim", -1))
    if name_of(node) == "topk":
        return len(shape) > 0 and 0 < shape[-1] <= _MOST_GREATEST and node.args[2:] in ((), (-1,), (len(shape) - 1,))
    return len(shape) > 0 and _is_side_by_side(shape, dim % len(shape))


def _is_side_by_side(shape: Sequence[int], axis: int) -> bool:
    at_a_time = math.prod(shape[axis + 1 :]) if axis < len(shape) - 1 else math.prod(shape[:axis])
    return 1 < shape[axis] <= _SHORT and at_a_time >= _SIDE_BY_SIDE


def _greatest(x: Value, count: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Call:
    if dim not in (-1, len(x.shape) - 1):
        raise Unsupported(f"the greatest along {dim}")
    if count > _MOST_GREATEST or not x.shape or not x.shape[-1]:
        return _sorted(x, dim, largest)  # of which the first are taken
    made = [((*x.shape[:-1], count), dtype, 1) for dtype in (x.dtype, torch.int64)]
    return Call(_named("greatest", x, x.shape[-1], count, largest), [(x, 1)], made, [1, 2], over_rows=True)


# Operators by name. What torch returns after the results of a call (the factors within a solve) is not written out.
CALLS: Mapping[str, Callable[..., Call]] = {
    "linalg_inv_ex": _inverse,
    "linalg_cholesky_ex": _cholesky,
    "_linalg_solve_ex": _solve,
    "linalg_solve_triangular": _solve_triangular,
    "cholesky_solve": _solve_by_cholesky,
    "linalg_qr": _qr,
    "geqrf": _reflectors,
    "linalg_householder_product": _product_of_reflections,
    "_linalg_det": _determinant,
    "_linalg_slogdet": _log_determinant,
    "linalg_lu_factor_ex": _factors,
    "lu_unpack": _unpacked,
    "linalg_lu_solve": _solve_factored,
    "_linalg_eigh": _eigh,
    "_linalg_svd": _svd,
    "linalg_eig": _eig,
    "linalg_eigvals": _eigenvalues,
    "sort": _sorted,
    "topk": _greatest,
}


_SORTING = ("sort", "topk")


def is_factorizing(body: Graph) -> bool:
    """Tell whether a graph factorizes matrices."""
    targets = [n.target for n in body.module.graph.nodes if n.op == "call_function"]
    names = {getattr(t, "__name__", "").split(".")[0] for t in targets}
    return not names.isdisjoint(CALLS.keys() - _SORTING) or any(getattr(t, "factorizes", False) for t in targets)


def arguments(call: Call, names: Sequence[str], shapes: Sequence[tuple[int, ...]], element: str) -> tuple[int, str]:
    """Return the length of the batch and the call's arguments for the element of it at the expression `element`."""
    ranks = [*(rank for _, rank in call.operands), *(rank for *_, rank in call.made)]
    batches = [math.prod(shape[: len(shape) - rank]) for shape, rank in zip(shapes, ranks, strict=True)]
    parts = [math.prod(shape[len(shape) - rank :]) for shape, rank in zip(shapes, ranks, strict=True)]
    batch = 0 if 0 in batches else max(batches)
    places = [f"{n}+{element}*{p}" if b == batch else n for n, p, b in zip(names, parts, batches, strict=True)]
    return batch, ", ".join(places)


PRELUDE = (
    f"constexpr int SMALL = {_SMALL}, SMALL_TALL = {_SMALL_TALL};  // rows, elements\n"
    r"""
#define MATRICES(...) template <class T, __VA_ARGS__> static void
#if defined(__GNUC__) && !defined(__clang__)
#define ROW _Pragma("GCC ivdep") for  // along a row, of which no element is another one's
#else
#define ROW for
#endif
template <class T> static inline void swap_rows(T* a, int first, int second, int n) {
  if (first != second) ROW (int j = 0; j < n; ++j) { T t = a[first*n+j]; a[first*n+j] = a[second*n+j]; a[second*n+j] = t; }
}
MATRICES(int n) eliminate(T* a, int32_t* pivots) {  // LU with row pivoting, in place; pivots count from 1
  if constexpr (n > SMALL) return large_eliminate<T, n>(a, pivots);
  for (int k = 0; k < n; ++k) {
    int p = k;
    for (int i = k + 1; i < n; ++i) if (std::abs(a[i*n+k]) > std::abs(a[p*n+k])) p = i;
    pivots[k] = p + 1;
    swap_rows(a, k, p, n);
    if (a[k*n+k] == 0) continue;
    for (int i = k + 1; i < n; ++i) {
      const T factor = a[i*n+k] /= a[k*n+k];
      ROW (int j = k + 1; j < n; ++j) a[i*n+j] -= factor * a[k*n+j];
    }
  }
}
MATRICES(int n, int m, bool upper, bool left, bool unit) solve_triangular(const T* a, T* b) {
  // From the right, b is m by n, and x a = b is the solution of the transposed system for each row.
  if constexpr (n > SMALL) return large_triangular<T, n, m>(a, b, upper, left, unit);
  constexpr bool down = upper != left;
  for (int j = 0; j < (left ? 1 : m); ++j)
    for (int s = 0; s < n; ++s) {
      const int k = down ? s : n - 1 - s;
      if constexpr (!left) {
        T* x = b + j*n;
        if (!unit) x[k] /= a[k*n+k];
        ROW (int i = down ? k + 1 : 0; i < (down ? n : k); ++i) x[i] -= x[k] * a[k*n+i];
      } else if constexpr (m == 1) {
        b[k] -= down ? dot(a + k*n, b, k) : dot(a + k*n + k+1, b + k+1, n - 1 - k);
        if (!unit) b[k] /= a[k*n+k];
      } else {
        for (int i = down ? 0 : k + 1; i < (down ? k : n); ++i) {
          const T factor = a[k*n+i];
          ROW (int c = 0; c < m; ++c) b[k*m+c] -= factor * b[i*m+c];
        }
        if (!unit) ROW (int c = 0; c < m; ++c) b[k*m+c] /= a[k*n+k];
      }
    }
}
MATRICES(int n, int m) solve_factored(T* a, int32_t* pivots, T* b) {
  for (int k = 0; k < n; ++k) swap_rows(b, k, pivots[k] - 1, m);
  solve_triangular<T, n, m, false, true, true>(a, b);
  solve_triangular<T, n, m, true, true, false>(a, b);
}
MATRICES(int n) factors(T* a, int32_t* pivots, int32_t* info) {
  eliminate<T, n>(a, pivots);
  *info = 0;
  for (int k = n - 1; k >= 0; --k) if (a[k*n+k] == 0) *info = k + 1;
}
MATRICES(int n) unpacked(const T* a, const int32_t* pivots, T* order, T* lower, T* upper) {
  ALIGNED int rows[n];
  for (int i = 0; i < n; ++i) rows[i] = i;
  for (int k = 0; k < n; ++k) { const int p = pivots[k] - 1, t = rows[k]; rows[k] = rows[p]; rows[p] = t; }
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) {
      order[i*n+j] = rows[j] == i;
      lower[i*n+j] = j < i ? a[i*n+j] : j == i;
      upper[i*n+j] = j < i ? 0 : a[i*n+j];
    }
}
MATRICES(int n, int m) solve(T* a, T* b) {
  ALIGNED int32_t pivots[n];
  eliminate<T, n>(a, pivots);
  solve_factored<T, n, m>(a, pivots, b);
}
MATRICES(int n) inverse(T* a, T* x, int32_t* info) {
  ALIGNED int32_t pivots[n];
  for (int i = 0; i < n * n; ++i) x[i] = i % (n + 1) == 0;
  factors<T, n>(a, pivots, info);
  solve_factored<T, n, n>(a, pivots, x);
}
MATRICES(int n, bool upper) cholesky(T* a, int32_t* info) {  // of the triangle that it makes; the other one becomes 0
  if constexpr (n > SMALL) { *info = large_cholesky<T, n>(a, upper); return; }
  ALIGNED T row[n];
  *info = 0;
  for (int k = 0; k < n; ++k) {
    if (!(a[k*n+k] > 0) && *info == 0) *info = k + 1;
    const T d = a[k*n+k] = std::sqrt(a[k*n+k]);
    for (int i = k + 1; i < n; ++i) row[i] = (upper ? a[k*n+i] : a[i*n+k]) / d;
    for (int i = k + 1; i < n; ++i) {
      const T factor = row[i];
      if (upper) ROW (int j = i; j < n; ++j) a[i*n+j] -= factor * row[j];
      else ROW (int j = k + 1; j <= i; ++j) a[i*n+j] -= factor * row[j];
    }
    for (int i = k + 1; i < n; ++i) a[k*n+i] = upper ? row[i] : 0, a[i*n+k] = upper ? 0 : row[i];
  }
}
MATRICES(int n, int m, bool upper) solve_by_cholesky(T* a, T* b) {  // the factor is mirrored, the second time in vain
  for (int i = 0; i < n; ++i) for (int j = 0; j < i; ++j) (upper ? a[i*n+j] : a[j*n+i]) = upper ? a[j*n+i] : a[i*n+j];
  solve_triangular<T, n, m, false, true, false>(a, b);
  solve_triangular<T, n, m, true, true, false>(a, b);
}
// The matrix a becomes itself less scale v (v^T a), from a column on; v is 1 followed by elements `v` of as many rows.
MATRICES(int n) reflect(T* a, int from, const T* v, int rows, T scale) {
  ALIGNED T sums[n];
  ROW (int j = from; j < n; ++j) sums[j] = a[j];
  for (int i = 0; i < rows; ++i) {
    const T factor = v[i];
    ROW (int j = from; j < n; ++j) sums[j] += factor * a[(i+1)*n+j];
  }
  ROW (int j = from; j < n; ++j) a[j] -= sums[j] *= scale;
  for (int i = 0; i < rows; ++i) {
    const T factor = v[i];
    ROW (int j = from; j < n; ++j) a[(i+1)*n+j] -= factor * sums[j];
  }
}
MATRICES(int m, int n) reflectors(T* a, T* scales) {  // in place, below the diagonal
  constexpr int steps = m < n ? m : n;
  ALIGNED T v[m];
  for (int k = 0; k < steps; ++k) {
    const int rows = m - 1 - k;
    for (int i = 0; i < rows; ++i) v[i] = a[(k+1+i)*n+k];
    const T below = dot(v, v, rows);
    scales[k] = 0;
    if (below == 0) continue;
    const T head = a[k*n+k], beta = -std::copysign(std::sqrt(head * head + below), head);
    scales[k] = (beta - head) / beta;
    for (int i = 0; i < rows; ++i) a[(k+1+i)*n+k] = v[i] /= head - beta;
    a[k*n+k] = beta;
    reflect<T, n>(a + k*n, k + 1, v, rows, scales[k]);
  }
}
MATRICES(int m, int n, int kept, int steps) reflections(const T* a, const T* scales, T* q) {  // the product's first columns
  ALIGNED T v[m];
  for (int i = 0; i < m; ++i) for (int j = 0; j < kept; ++j) q[i*kept+j] = i == j;
  for (int k = steps - 1; k >= 0; --k) {
    for (int i = k + 1; i < m; ++i) v[i-k-1] = a[i*n+k];
    reflect<T, kept>(q + k*kept, k, v, m - 1 - k, scales[k]);
  }
}
MATRICES(int m, int n, int kept) qr(T* a, T* q, T* r) {
  constexpr int steps = m < n ? m : n;
  if constexpr (n > SMALL || m * n > SMALL_TALL) return large_qr<T, m, n, kept>(a, q, r);
  ALIGNED T scales[steps];
  reflectors<T, m, n>(a, scales);
  for (int i = 0; i < kept; ++i) for (int j = 0; j < n; ++j) r[i*n+j] = j < i ? 0 : a[i*n+j];
  reflections<T, m, n, kept, steps>(a, scales, q);
}
MATRICES(int n) determinant(T* a, T* value) {
  ALIGNED int32_t pivots[n];
  eliminate<T, n>(a, pivots);
  *value = 1;
  for (int k = 0; k < n; ++k) *value *= pivots[k] == k + 1 ? a[k*n+k] : -a[k*n+k];
}
MATRICES(int n) log_determinant(T* a, T* sign, T* size) {
  ALIGNED int32_t pivots[n];
  eliminate<T, n>(a, pivots);
  *sign = 1, *size = 0;
  for (int k = 0; k < n; ++k) {
    const T d = pivots[k] == k + 1 ? a[k*n+k] : -a[k*n+k];
    *sign *= d > 0 ? 1 : d < 0 ? -1 : d;
    *size += std::log(std::abs(d));
  }
}
template <bool descending, class T> static inline bool before(T x, T y) {  // NaN is the greatest
  return descending ? (y < x) | (is_nan(x) & !is_nan(y)) : (x < y) | (is_nan(y) & !is_nan(x));  // without branches
}
MATRICES(int n, int count, bool descending) greatest(const T* a, T* found, int64_t* places) {
  constexpr int lanes = 128 / sizeof(T);
  for (int first = 0; first < n; first += lanes) {
    if (first >= count && first + lanes <= n) {  // most of what comes late is not among them
      bool enters = false;
      for (int l = 0; l < lanes; ++l) enters |= before<descending>(a[first+l], found[count-1]);
      if (!enters) continue;
    }
    for (int i = first; i < (first + lanes < n ? first + lanes : n); ++i) {
      int k = i < count ? i : count;
      if (k == count && !before<descending>(a[i], found[k-1])) continue;
      if (k == count) --k;
      for (; k > 0 && before<descending>(a[i], found[k-1]); --k) found[k] = found[k-1], places[k] = places[k-1];
      found[k] = a[i], places[k] = i;
    }
  }
}
// Of each column; equal elements keep their order.
MATRICES(int n, int columns, bool descending) sort(T* a, int64_t* places) {
  ALIGNED T now[n], other[n];
  ALIGNED int64_t at[n], others[n];
  for (int c = 0; c < columns; ++c) {
    for (int i = 0; i < n; ++i) now[i] = a[i*columns+c], at[i] = i;
    for (int width = 1; width < n; width *= 2) {
      for (int start = 0; start < n; start += 2 * width) {
        const int middle = start + width < n ? start + width : n, end = middle + width < n ? middle + width : n;
        for (int i = start, j = middle, k = start; k < end; ++k) {
          const bool second = i >= middle || (j < end && before<descending>(now[j], now[i]));
          const int from = second ? j++ : i++;
          other[k] = now[from], others[k] = at[from];
        }
      }
      for (int i = 0; i < n; ++i) now[i] = other[i], at[i] = others[i];
    }
    for (int i = 0; i < n; ++i) a[i*columns+c] = now[i], places[i*columns+c] = at[i];
  }
}
// The same by exchanges of neighbours, for as many columns at a time as a line of the cache has elements. From a row to the
// next one it is `down`, from a column to the next one `across`. GCC would unroll all of it, and take seconds.
#define LOOP _Pragma("GCC unroll 1") for
MATRICES(int n, int columns, int down, int across, bool descending) sort_side_by_side(T* a, int64_t* places) {
  constexpr int lanes = 64 / sizeof(T);
  using Place = std::conditional_t<sizeof(T) == 8, int64_t, std::conditional_t<sizeof(T) == 4, int32_t, int16_t>>;
  ALIGNED T now[n][lanes];
  ALIGNED Place at[n][lanes];
  for (int c = 0; c < columns; c += lanes) {
    const int width = columns - c < lanes ? columns - c : lanes;
    T* const first = a + int64_t(c) * across;
    int64_t* const place = places + int64_t(c) * across;
    LOOP (int i = 0; i < n; ++i) LOOP (int l = 0; l < lanes; ++l) {
      now[i][l] = first[i*down+(l < width ? l : 0)*across], at[i][l] = i;
    }
    LOOP (int last = 1; last < n; ++last) LOOP (int i = last; i > 0; --i) LOOP (int l = 0; l < lanes; ++l) {
      const T upper = now[i-1][l], lower = now[i][l];
      const Place its = at[i-1][l], other = at[i][l];
      const bool moves = before<descending>(lower, upper);
      now[i-1][l] = moves ? lower : upper, now[i][l] = moves ? upper : lower;
      at[i-1][l] = moves ? other : its, at[i][l] = moves ? its : other;
    }
    LOOP (int i = 0; i < n; ++i) LOOP (int l = 0; l < width; ++l) {
      first[i*down+l*across] = now[i][l], place[i*down+l*across] = at[i][l];
    }
  }
}
"""
)
