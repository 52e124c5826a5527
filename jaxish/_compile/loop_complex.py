"""Complex numbers of native loops, in C++: what stands after the prelude where a loop has any.

A struct of our own: GCC's complex numbers, and so std::complex, look for NaN after each product and call a function for each
quotient, which keeps loops over them out of vectors. Products are the plain ones, as torch's and XLA's are. Quotients are
Smith's, with C's answers (Annex G) where his are NaN, as XLA's are. What is not simple, glibc computes, as it does for torch.
"""

PRELUDE = r"""
// GCC's pragmas about optimization leave out constructors, which would not be inlined into functions that have them.
#define MADE __attribute__((always_inline)) constexpr
template <class T> struct Complex {
  T re, im;
  Complex() = default;
  MADE Complex(T re, T im) : re(re), im(im) {}
  template <class S, class = std::enable_if_t<std::is_arithmetic_v<S>>> MADE Complex(S x) : re(T(x)), im(0) {}
  template <class S> MADE Complex(Complex<S> z) : re(T(z.re)), im(T(z.im)) {}
  friend Complex operator+(Complex a, Complex b) { return {a.re + b.re, a.im + b.im}; }
  friend Complex operator-(Complex a, Complex b) { return {a.re - b.re, a.im - b.im}; }
  friend Complex operator-(Complex a) { return {-a.re, -a.im}; }
  friend Complex operator*(Complex a, Complex b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
  // Choices of numbers, without branches, and inlined however long: else there are no vectors.
  __attribute__((always_inline)) friend inline Complex operator/(Complex a, Complex b) {
    const T above = std::abs(b.re), beside = std::abs(b.im), left = std::abs(a.re), right = std::abs(a.im), end = T(Inf);
    const bool wide = above >= beside;
    const T most = wide ? b.re : b.im, rest = wide ? b.im : b.re, ratio = rest / most, size = most + rest * ratio;
    const T first = wide ? a.re : a.im, second = wide ? a.im : -a.re, third = wide ? a.re : -a.im;
    const T re = (first + (wide ? a.im : a.re) * ratio) / size, im = (second - third * ratio) / size;
    const bool by_zero = (above == 0) & (beside == 0) & ((a.re == a.re) | (a.im == a.im));
    const bool vast = ((left == end) | (right == end)) & (above < end) & (beside < end);
    const bool by_vast = (left < end) & (right < end) & ((above == end) | (beside == end));
    const T endless = std::copysign(end, b.re), scale = vast ? end : T(0);
    const T p = vast ? std::copysign(T(left == end), a.re) : a.re, q = vast ? std::copysign(T(right == end), a.im) : a.im;
    const T r = by_vast ? std::copysign(T(above == end), b.re) : b.re;
    const T s = by_vast ? std::copysign(T(beside == end), b.im) : b.im;
    const T other_re = by_zero ? endless * a.re : scale * (p * r + q * s);
    const T other_im = by_zero ? endless * a.im : scale * (q * r - p * s);
    const bool is_other = (re != re) & (im != im) & (by_zero | vast | by_vast);
    return {is_other ? other_re : re, is_other ? other_im : im};
  }
  friend bool operator==(Complex a, Complex b) { return a.re == b.re && a.im == b.im; }
  friend bool operator!=(Complex a, Complex b) { return a.re != b.re || a.im != b.im; }
};
#define COMPLEX template <class T> static inline Complex<T>
template <class T, class S> static inline T convert(Complex<S> z) {
  if constexpr (std::is_same_v<T, bool>) return z != 0; else return T(z);
}
// In parts: GCC has no vectors for a choice of structs.
COMPLEX chosen(bool first, Complex<T> a, Complex<T> b) { return {first ? a.re : b.re, first ? a.im : b.im}; }
COMPLEX complex_of(T re, T im) { return {re, im}; }
COMPLEX conjugate(Complex<T> z) { return {z.re, -z.im}; }
template <class T> static inline T part(Complex<T> z, int place) { return place ? z.im : z.re; }
static inline float magnitude(Complex<float> z) { return float(std::sqrt(double(z.re) * z.re + double(z.im) * z.im)); }
static inline double magnitude(Complex<double> z) {
  const double a = std::abs(z.re), b = std::abs(z.im), most = maximum(a, b), ratio = (a > b ? b : a) / most;
  return most == 0 || std::isinf(most) ? most + 0 * (a + b == a + b ? 0 : NaN) : most * std::sqrt(1 + ratio * ratio);
}
COMPLEX sign(Complex<T> z) {
  const T size = magnitude(z);
  return z == 0 ? Complex<T>(0) : Complex<T>(z.re / size, z.im / size);
}
COMPLEX exp_(Complex<T> z) {  // in two halves, each of which is in range where their product is
  const T half = exp_(z.re / 2);
  return {half * cos_(z.im) * half, z.im == 0 ? z.im : half * sin_(z.im) * half};
}
#define BORROWED(name, T, function) static inline Complex<T> name##_(Complex<T> z) { \
  __complex__ T w; __real__ w = z.re; __imag__ w = z.im; w = function(w); return {__real__ w, __imag__ w}; }
#define LIBRARY(name) BORROWED(name, float, __builtin_c##name##f) BORROWED(name, double, __builtin_c##name)
LIBRARY(sin) LIBRARY(cos) LIBRARY(tan) LIBRARY(sinh) LIBRARY(cosh) LIBRARY(tanh) LIBRARY(asin) LIBRARY(acos) LIBRARY(atan)
LIBRARY(asinh) LIBRARY(acosh) LIBRARY(atanh) BORROWED(log, double, __builtin_clog) BORROWED(sqrt, double, __builtin_csqrt)
// In double precision, where squares of float32 neither overflow nor lose their digits.
static inline Complex<float> log_(Complex<float> z) {
  const double x = z.re, y = z.im, square = x * x + y * y;
  return {float(std::abs(x) == Inf || std::abs(y) == Inf ? Inf : log_(square) / 2), atan2_(z.im, z.re)};
}
static inline Complex<float> sqrt_(Complex<float> z) {
  const double x = std::abs(z.re), y = std::abs(z.im), root = std::sqrt((std::sqrt(x * x + y * y) + x) / 2);
  const bool endless = y == Inf;
  const float more = endless | (x == Inf) ? float(Inf) : float(root), other = root == 0 ? 0.f : float(y / (2 * root));
  const float less = endless ? float(Inf) : other;
  return {z.re >= 0 ? more : less, std::copysign(z.re >= 0 ? less : more, z.im)};
}
COMPLEX tanh_backward(Complex<T> cotangent, Complex<T> y) { return cotangent * conjugate(1 - y * y); }
COMPLEX sigmoid_backward(Complex<T> cotangent, Complex<T> y) { return cotangent * conjugate((1 - y) * y); }
COMPLEX expm1_(Complex<T> z) {
  const T half = sin_(z.im / 2);
  return {expm1_(z.re) * cos_(z.im) - 2 * half * half, z.im == 0 ? z.im : exp_(z.re) * sin_(z.im)};
}
COMPLEX log1p_(Complex<T> z) {
  const bool near = std::abs(z.re) < T(0.5) && std::abs(z.im) < T(0.5);
  const T size = near ? log1p_(z.re * (2 + z.re) + z.im * z.im) / 2 : log_(magnitude(1 + z));
  return {size, std::atan2(z.im, 1 + z.re)};
}
COMPLEX scaled(Complex<T> z, T factor) { return {z.re * factor, z.im * factor}; }
COMPLEX exp2_(Complex<T> z) { return exp_(scaled(z, T(M_LN2))); }
COMPLEX log2_(Complex<T> z) { return scaled(log_(z), T(M_LOG2E)); }
COMPLEX log10_(Complex<T> z) { return scaled(log_(z), T(M_LOG10E)); }
COMPLEX power(Complex<T> a, Complex<T> b) {
  if (a == 0) return b == 0 ? Complex<T>(1) : b.re > 0 ? Complex<T>(0) : Complex<T>(NaN, NaN);
  return exp_(b * log_(a));
}
template <int n, class T> static inline Complex<T> power(Complex<T> z) {
  if constexpr (n < 0) return 1 / power<-n>(z);
  else if constexpr (n == 0) return 1;
  else if constexpr (n == 1) return z;
  else if constexpr (n % 2) return z * power<n - 1>(z);
  else return power<n / 2>(z * z);
}
"""
