"""Products of small matrices in native loops: a C++ function, whose sums stay in registers.

A tile of rows by the numbers of one or a few vectors is summed up over the inner dimension, in order, and then written. Narrow rests are
tiles of narrower vectors. Rows of a single column are dot products in several sums, which JAX's order is not, either.
"""

_FEW_PRODUCTS = 1 << 21  # of one matrix product: beyond, BLAS wins
MOST_PRODUCTS = 1 << 27

PRELUDE = (
    f"constexpr int64_t FEW_PRODUCTS = {_FEW_PRODUCTS};\n"
    r"""
FUNCTION dot(const T* a, const T* b, int n) {
  constexpr int lanes = 8;
  T sums[lanes] = {}, rest = 0;
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
  Vector sums[rows][count] = {};
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
template <class T, int rows, int inner, int columns> static void product(const T* a, const T* b, T* out) {
  if constexpr (std::is_floating_point_v<T> && int64_t(rows) * inner * columns > FEW_PRODUCTS) {
    large_product<T, rows, inner, columns>(a, b, out);
  } else if constexpr (std::is_floating_point_v<T> && columns == 1) {
    for (int i = 0; i < rows; ++i) out[i] = dot(a + i*inner, b, inner);
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
"""
)
