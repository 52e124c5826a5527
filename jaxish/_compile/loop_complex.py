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
// What a loop does in each step that is not to be made of vectors.
INLINE void one_by_one() { asm volatile(""); }
#define COMPLEX template <class T> static inline Complex<T>
template <class T, class S> static inline T convert(Complex<S> z) {
  if constexpr (std::is_same_v<T, bool>) return z != 0; else return T(z);
}
// In parts: GCC has no vectors for a choice of structs.
COMPLEX chosen(bool first, Complex<T> a, Complex<T> b) { return {first ? a.re : b.re, first ? a.im : b.im}; }
COMPLEX complex_of(T re, T im) { return {re, im}; }
COMPLEX conjugate(Complex<T> z) { return {z.re, -z.im}; }
template <class T> static inline T part(Complex<T> z, int place) { return place ? z.im : z.re; }
// Squares of numbers that a power of two has brought near one, of which vectors have twice as many as of doubles.
static inline float magnitude(Complex<float> z) {
  const int32_t re_bits = same_bits<int32_t>(z.re) & 0x7fffffff, im_bits = same_bits<int32_t>(z.im) & 0x7fffffff;
  const int32_t exponent = (re_bits > im_bits ? re_bits : im_bits) & 0x7f800000;
  const int32_t power = exponent < 0x00800000 ? 0x00800000 : exponent > 0x7e800000 ? 0x7e800000 : exponent;
  const float scale = same_bits<float>(0x7f000000 - power), re = z.re * scale, im = z.im * scale;
  return std::sqrt(re * re + im * im) * same_bits<float>(power);
}
static inline double magnitude(Complex<double> z) {
  const double a = std::abs(z.re), b = std::abs(z.im), most = maximum(a, b), ratio = (a > b ? b : a) / most;
  return most == 0 || std::isinf(most) ? most + 0 * (a + b == a + b ? 0 : NaN) : most * std::sqrt(1 + ratio * ratio);
}
COMPLEX sign(Complex<T> z) {
  const T size = magnitude(z);
  return z == 0 ? Complex<T>(0) : Complex<T>(z.re / size, z.im / size);
}
// What is chosen are operands, not results: GCC would compute these in branches, for which it has no vectors.
// Far from zero exponentials are those of a smaller number, to be multiplied by a scale twice: so their products with a sine
// are in range where they are not.
template <class T> struct Far {
  T step, scale;
  MADE explicit Far(T x) : step(0), scale(1) {
    constexpr bool wide = sizeof(T) == 8;
    const bool first = x > T(wide ? 700 : 80), second = x > T(wide ? 1050 : 128);
    step = second ? T(wide ? 740 : 96) : first ? T(wide ? 350 : 48) : T(0);
    scale = second ? T(wide ? 4.8860544700039736e+160 : 7.016735912097631e+20) : first ? T(wide ? 1.0035391806143295e+76 : 26489122129.84347) : T(1);
  }
};
COMPLEX exp_(Complex<T> z) {
  const Far<T> far(z.re);
  const T size = exp_(z.re - far.step), cosine = cos_(z.im), sine = sin_(z.im);
  const T factor = z.im == 0 ? T(1) : size, scale = z.im == 0 ? T(1) : far.scale;
  return {cosine * size * far.scale * far.scale, sine * factor * scale * scale};
}
template <class T> struct Hyperbolic { T sine, cosine, scale; };
template <class T> static inline Hyperbolic<T> hyperbolic(T x) {
  const T size = std::abs(x), most = std::numeric_limits<T>::max();
  const Far<T> far(size);
  const T more = expm1_(size - far.step), held = more > most ? most : more;
  const T sine = (more + held / (held + 1)) / 2, cosine = (more + 1 + 1 / (more + 1)) / 2;
  return {std::copysign(sine, x), cosine, far.scale};
}
template <class T> static inline T times(T a, T b) {  // where zero times infinity or NaN is zero
  const bool is_zero = (a == 0) & !(std::abs(b) <= std::numeric_limits<T>::max());
  return a * (is_zero ? T(1) : b);
}
COMPLEX of_product(T a, T b, T c, T d, T scale) { return {times(a, b) * scale * scale, times(c, d) * scale * scale}; }
COMPLEX sin_(Complex<T> z) {
  const auto h = hyperbolic(z.im);
  const T sine = sin_(z.re), cosine = cos_(z.re);
  return of_product(sine, h.cosine, h.sine, cosine, h.scale);
}
COMPLEX cos_(Complex<T> z) {
  const auto h = hyperbolic(z.im);
  const T sine = sin_(z.re), cosine = cos_(z.re);
  return of_product(h.cosine, cosine, -sine, h.sine, h.scale);
}
COMPLEX sinh_(Complex<T> z) {
  const auto h = hyperbolic(z.re);
  const T sine = sin_(z.im), cosine = cos_(z.im);
  return of_product(h.sine, cosine, sine, h.cosine, h.scale);
}
COMPLEX cosh_(Complex<T> z) {
  const auto h = hyperbolic(z.re);
  const T sine = sin_(z.im), cosine = cos_(z.im);
  return of_product(h.cosine, cosine, sine, h.sine, h.scale);
}
COMPLEX tanh_(Complex<T> z) {  // (sinh x cosh x + i sin y cos y) / (cos^2 y + sinh^2 x)
  constexpr T end = sizeof(T) == 8 ? 350 : 42;  // the square is in range up to here, and the imaginary part is zero beyond
  const auto h = hyperbolic(std::abs(z.re) > end ? std::copysign(end, z.re) : z.re);
  const T angle = std::abs(z.re) == T(Inf) ? T(0) : z.im, fade = std::abs(z.re) > end ? T(0) : T(1);
  const T sine = sin_(angle), cosine = cos_(angle), size = cosine * cosine + h.sine * h.sine;
  return {h.sine * h.cosine / size, sine * cosine * fade / (sine == 0 ? T(1) : size)};
}
COMPLEX tan_(Complex<T> z) {
  const Complex<T> turned = tanh_(Complex<T>(-z.im, z.re));
  return {turned.im, -turned.re};
}
#define BORROWED(name, T, function) static inline Complex<T> name##_(Complex<T> z) { \
  __complex__ T w; __real__ w = z.re; __imag__ w = z.im; w = function(w); return {__real__ w, __imag__ w}; }
#define LIBRARY(name) BORROWED(name, float, __builtin_c##name##f) BORROWED(name, double, __builtin_c##name)
LIBRARY(asin) LIBRARY(acos) LIBRARY(atan) LIBRARY(asinh) LIBRARY(acosh) LIBRARY(atanh)
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
static inline Complex<double> sqrt_(Complex<double> z) {  // scaled to where squares are in range
  const double a = std::abs(z.re), b = std::abs(z.im), most = a > b ? a : b;
  const bool vast = most > 0x1p500, tiny = most < 0x1p-400;
  const double scale = vast ? 0x1p-600 : tiny ? 0x1p600 : 1, back = vast ? 0x1p300 : tiny ? 0x1p-300 : 1;
  const double x = a * scale, y = b * scale, root = std::sqrt((std::sqrt(x * x + y * y) + x) / 2);
  const bool endless = b == Inf;
  const double more = endless | (a == Inf) ? Inf : root * back, half = y / (root == 0 ? 1 : 2 * root) * back;
  const double less = endless ? Inf : half;
  return {z.re >= 0 ? more : less, std::copysign(z.re >= 0 ? less : more, z.im)};
}
static inline double log_of_size(double a, double b) {  // log1p(x * x + y * y - 1) / 2, the sum to twice the digits
  const double most = std::numeric_limits<double>::max();
  const bool endless = (a > most) | (b > most), wrong = (a != a) | (b != b);
  const double more = a > b ? a : b, less = a > b ? b : a;
  const double scale = more < 0x1p-900 ? 0x1p200 : 1, shift = more < 0x1p-900 ? 200 : 0, held = more * scale;
  const int64_t exponent = (same_bits<int64_t>(held) >> shifts[52]) - 1023;
  const int64_t step = (held >= 0.5) & (held < 2) ? 0 : exponent, half = step >> shifts[1];
  const double down = same_bits<double>((1023 - half) << shifts[52]), rest = same_bits<double>((1023 - step + half) << shifts[52]);
  const double x = held * down * rest, y = less * scale * down * rest, p = x * x, q = y * y;
  const double first = p - 1, sum = first + q, part = sum - first, lost = (first - (sum - part)) + (q - part);
  const double total = sum + (lost + std::fma(x, x, -p) + std::fma(y, y, -q));
  return log1p_(endless ? 0 : wrong ? NaN : total) / 2 + ((endless ? Inf : double(step)) - shift) * M_LN2;
}
static inline Complex<double> log_(Complex<double> z) {
  const double size = log_of_size(std::abs(z.re), std::abs(z.im)), angle = atan2_(z.im, z.re);
  return {size, angle};
}
COMPLEX tanh_backward(Complex<T> cotangent, Complex<T> y) { return cotangent * conjugate(1 - y * y); }
COMPLEX sigmoid_backward(Complex<T> cotangent, Complex<T> y) { return cotangent * conjugate((1 - y) * y); }
COMPLEX expm1_(Complex<T> z) {
  const T half = sin_(z.im / 2), more = expm1_(z.re), factor = z.im == 0 ? T(1) : exp_(z.re);
  return {more * cos_(z.im) - 2 * half * half, factor * sin_(z.im)};
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
static inline Complex<double> power(Complex<double> a, Complex<double> b) {  // exp(b log(a)), and XLA's special cases
  const bool of_zero = (a.re == 0) & (a.im == 0), of_one = (a.re == 1) & (a.im == 0);
  const bool by_zero = (b.re == 0) & (b.im == 0), by_one = (b.re == 1) & (b.im == 0), is_set = of_zero | of_one | by_zero | by_one;
  const Complex<double> x(is_set ? 1. : a.re, is_set ? 0. : a.im), y(is_set ? 0. : b.re, is_set ? 0. : b.im), found = y * log_(x);
  const bool is_none = of_zero & !by_zero & !((b.re > 0) & (b.im == 0));
  const double more = is_none ? NaN : of_zero & !by_zero & !by_one ? -Inf : 0;
  const Complex<double> result = exp_(Complex<double>(found.re + more, found.im + (is_none ? NaN : 0)));
  return {result.re * (by_one ? a.re : 1), result.im + (by_one ? a.im : 0)};
}
static inline Complex<float> power(Complex<float> a, Complex<float> b) { return power(Complex<double>(a), Complex<double>(b)); }
template <int n, class T> static inline Complex<T> power(Complex<T> z) {
  if constexpr (n < 0) return 1 / power<-n>(z);
  else if constexpr (n == 0) return 1;
  else if constexpr (n == 1) return z;
  else if constexpr (n % 2) return z * power<n - 1>(z);
  else return power<n / 2>(z * z);
}
"""
