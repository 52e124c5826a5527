"""LAPACK and BLAS in native code: SciPy's, which JAX calls too, and torch's products, reached by their places in memory.

A library of native code that calls them has a table of places (`TABLE`), filled when it is loaded: others import no SciPy. Fortran's matrices
lie column by column: a row-major matrix is its transpose there. Where a triangle or a side can be named instead, nothing
is copied.
"""

import ctypes
import functools
import pathlib
import re
from collections.abc import Callable, Sequence

import torch

_LAPACK = ("potrf", "getrf", "syevd", "gesdd", "geev", "geqrf", "orgqr")
_BLAS = ("trsm",)
_COUNT = 2 * len((*_LAPACK, *_BLAS))


SMALL = 64  # rows of matrices: up to here, LAPACK is called for eigenvalues and singular values only

_CALL = re.compile(r"\b(\w+)<(?:float|double)((?:, \d+)+)>")


def tables_of(text: str) -> str:
    """Return the tables that code needs for what it may call of LAPACK and BLAS."""
    is_called = any(
        name in ("eigh", "svd", "eig") or any(int(n) > SMALL for n in re.findall(r"\d+", numbers))
        for name, numbers in _CALL.findall(text)
        if not name.endswith("product")
    )
    return (_ROUTINES if is_called else "") + (_PRODUCTS if "large_product<" in text else "")


def connect(library: ctypes.CDLL) -> None:
    """Tell a library of native code where the routines are, if it calls any."""
    fill(library, "routines", _COUNT, _places)
    fill(library, "products", 2, _products)


def fill(library: ctypes.CDLL, table: str, count: int, places: Callable[[], Sequence[int | None]]) -> None:
    """Put places in memory into a table of a library, if it has that one."""
    try:
        found = (ctypes.c_void_p * count).in_dll(library, table)
    except ValueError:
        return
    found[:] = places()


@functools.cache
def _places() -> list[int]:
    from scipy.linalg import cython_blas, cython_lapack  # pyright: ignore[reportAttributeAccessIssue]

    routines = [(cython_lapack, name) for name in _LAPACK] + [(cython_blas, name) for name in _BLAS]
    return [_place(module.__pyx_capi__[f"{letter}{name}"]) for module, name in routines for letter in "sd"]


@functools.cache
def _products() -> list[int]:
    found = [place for letter in "sd" if (place := of_torch(f"{letter}gemm_"))]
    if len(found) == 2:
        return found
    from scipy.linalg import cython_blas  # pyright: ignore[reportAttributeAccessIssue]

    return [_place(cython_blas.__pyx_capi__[f"{letter}gemm"]) for letter in "sd"]


def of_torch(name: str) -> int | None:
    """Return where a routine of MKL is that torch has (2.9 to 2.13): it shares threads with all else."""
    library = pathlib.Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    try:
        return ctypes.cast(getattr(ctypes.CDLL(str(library)), name), ctypes.c_void_p).value
    except (OSError, AttributeError):
        return None


def _place(capsule: object) -> int:
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype, api.PyCapsule_GetName.argtypes = ctypes.c_char_p, [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    return api.PyCapsule_GetPointer(capsule, api.PyCapsule_GetName(capsule))


_ROUTINES, _PRODUCTS = f"void* routines[{_COUNT}];\n", "void* products[2];\n"
PRELUDE = (
    f"enum {{ {', '.join(name.upper() for name in (*_LAPACK, *_BLAS))} }};\n"
    f'extern "C" void *routines[{_COUNT}], *products[2];\n'
    r"""
template <class... A> static inline void call(void* routine, A... a) { ((void (*)(A...))routine)(a...); }
template <class T, class... A> static inline void fortran(int name, A... a) {
  call(routines[2*name + (sizeof(T) == 8)], a...);
}
template <class T, int n> static void large_eliminate(T* a, int* pivots) {
  const Memory memory(sizeof(T) * n * n);
  T* const turned = (T*)memory.place;
  int size = n, info;
  turn<T, n, n>(a, turned);
  fortran<T>(GETRF, &size, &size, turned, &size, pivots, &info);
  turn<T, n, n>(turned, a);
}
template <class T, int n> static int large_cholesky(T* a, bool upper) {
  int size = n, info;
  fortran<T>(POTRF, upper ? "L" : "U", &size, a, &size, &info);
  for (int i = 0; i < n; ++i) for (int j = 0; j < i; ++j) (upper ? a[i*n+j] : a[j*n+i]) = 0;
  return info;
}
template <class T, int n, int m> static void large_triangular(const T* a, T* b, bool upper, bool left, bool unit) {
  int size = n, others = m;
  T one = 1;
  fortran<T>(TRSM, left ? "R" : "L", upper ? "L" : "U", "N", unit ? "U" : "N", left ? &others : &size,
             left ? &size : &others, &one, a, &size, b, left ? &others : &size);
}
template <class T, int rows, int inner, int columns, int a_row = inner, int a_column = 1, int b_row = columns, int b_column = 1>
static void large_product(const T* a, const T* b, T* out) {
  const bool a_turned = a_column != 1, b_turned = b_column != 1;
  int m = columns, n = rows, k = inner, a_apart = a_turned ? a_column : a_row, b_apart = b_turned ? b_column : b_row;
  T one = 1, zero = 0;
  call(products[sizeof(T) == 8], b_turned ? "T" : "N", a_turned ? "T" : "N", &m, &n, &k, &one, b, &b_apart, a, &a_apart,
       &zero, out, &m);
}
template <class T, int m, int n, int kept> static void large_qr(const T* a, T* q, T* r) {
  constexpr int steps = m < n ? m : n, widest = kept > n ? kept : n;
  const Memory memory(sizeof(T) * (m * widest + steps + 64 * widest));
  T *const turned = (T*)memory.place, *const scales = turned + m * widest, *const work = scales + steps;
  int rows = m, columns = n, count = steps, width = kept, space = 64 * widest, info;
  turn<T, m, n>(a, turned);
  fortran<T>(GEQRF, &rows, &columns, turned, &rows, scales, work, &space, &info);
  for (int i = 0; i < kept; ++i) for (int j = 0; j < n; ++j) r[i*n+j] = j < i ? 0 : turned[j*m+i];
  fortran<T>(ORGQR, &rows, &width, &count, turned, &rows, scales, work, &space, &info);
  turn<T, kept, m>(turned, q);
}
template <class T, int n, bool lower> static void eigh(const T* a, T* values, T* vectors) {
  const int space = 1 + 70 * n + 2 * n * n, integers = 3 + 5 * n;
  const Memory memory(sizeof(T) * (n * n + space) + sizeof(int) * integers);
  T *const turned = (T*)memory.place, *const work = turned + n * n;
  int size = n, info;
  turn<T, n, n>(a, turned);  // the other triangle would do as well, and give eigenvectors of other signs
  fortran<T>(SYEVD, "V", lower ? "L" : "U", &size, turned, &size, values, work, &space, (int*)(work + space), &integers,
             &info);
  turn<T, n, n>(turned, vectors);
  if (info) for (int i = 0; i < n; ++i) values[i] = T(NaN);
}
template <class T, int m, int n, bool full, bool wanted> static void svd(const T* a, T* u, T* values, T* vh) {
  constexpr int least = m < n ? m : n, ku = full ? m : least, kv = full ? n : least;
  int rows = m, columns = n, left = kv, space = -1, info, integers[8 * least];
  T best;
  const char* const job = !wanted ? "N" : full ? "A" : "S";
  const Memory memory(sizeof(T) * (m * n + (wanted ? m * ku + n * kv : 0)));
  T *const turned = (T*)memory.place, *const found = turned + m * n, *const others = found + (wanted ? m * ku : 0);
  turn<T, m, n>(a, turned);
  fortran<T>(GESDD, job, &rows, &columns, turned, &rows, values, found, &rows, others, &left, &best, &space, integers,
             &info);
  space = int(best);
  const Memory work(sizeof(T) * space);
  fortran<T>(GESDD, job, &rows, &columns, turned, &rows, values, found, &rows, others, &left, (T*)work.place, &space,
             integers, &info);
  if (wanted) turn<T, ku, m>(found, u), turn<T, n, kv>(others, vh);
  if (info) for (int i = 0; i < least; ++i) values[i] = T(NaN);
}
template <class T, int n, bool wanted, class C> static void eig(const T* a, C* values, C* vectors) {
  const int space = 68 * n;
  const Memory memory(sizeof(T) * (2 * n * n + 2 * n + space));
  T *const turned = (T*)memory.place, *const found = turned + n * n, *const re = found + n * n, *const im = re + n;
  int size = n, info;
  turn<T, n, n>(a, turned);
  fortran<T>(GEEV, "N", wanted ? "V" : "N", &size, turned, &size, re, im, found, &size, found, &size, im + n, &space,
             &info);
  for (int j = 0; j < n; ++j) {
    values[j] = info ? C(T(NaN), T(NaN)) : C(re[j], im[j]);
    if (wanted) for (int i = 0; i < n; ++i) {
      const T one = found[j*n+i], next = j + 1 < n ? found[(j+1)*n+i] : 0, last = j ? found[(j-1)*n+i] : 0;
      vectors[i*n+j] = im[j] == 0 ? C(one, 0) : im[j] > 0 ? C(one, next) : C(last, -one);
    }
  }
}
"""
)
