"""The C++ that every native loop starts with: what operators are made of where C++ has none that is right.

Each function here is defined for all values. Integers wrap around by unsigned arithmetic, shifts are checked against
the width, conversions to integers saturate (NaN becomes zero), division by zero gives what XLA gives.
"""

import re

from . import decompositions

_TEXT = r"""#if defined(__GNUC__) && !defined(__clang__)
// Partial redundancies stay, what follows of a condition is not looked for, and nothing is put off until it is chosen: else
// GCC (12) makes branches of selections, for which it has no vectors. Of a loop over rows within which each column is folded
// it makes one over several rows, and leaves out the last columns of some (greatest elements of five rows of 26).
#pragma GCC optimize("no-tree-pre", "no-thread-jumps", "no-tree-sink", "no-loop-unroll-and-jam")
#endif
#define _GLIBCXX_BITS_SPECFUN_H 1  // Bessel functions and their like, of libstdc++: a quarter of the compiler's time
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <type_traits>
#ifdef VECTOR_MATH
#define SIMD(name) extern "C" { __attribute__((simd("notinbranch"))) float name##f(float); \
                                __attribute__((simd("notinbranch"))) double name(double); }
SIMD(tan) SIMD(sinh) SIMD(cosh) SIMD(tanh) SIMD(asin) SIMD(acos) SIMD(atan)
SIMD(asinh) SIMD(acosh) SIMD(atanh) SIMD(exp) SIMD(exp2) SIMD(expm1) SIMD(log) SIMD(log2) SIMD(log10) SIMD(log1p)
SIMD(erf) SIMD(erfc)
#define SIMD_OF_TWO(name) extern "C" { __attribute__((simd("notinbranch"))) float name##f(float, float); \
                                       __attribute__((simd("notinbranch"))) double name(double, double); }
SIMD_OF_TWO(atan2) SIMD_OF_TWO(pow) SIMD_OF_TWO(hypot)
// By names that the compiler does not know: of the sine and the cosine of a number it makes one call, which has no vectors.
#define ALONE __attribute__((simd("notinbranch"), noinline, const, nothrow))
#define APART(name) extern "C" { ALONE float name##_alone_f(float) __asm__(#name "f"); \
                                 ALONE double name##_alone(double) __asm__(#name); } \
  static inline float name##_(float x) { return name##_alone_f(x); } \
  static inline double name##_(double x) { return name##_alone(x); }
APART(sin) APART(cos)
#endif
#define OVERLOAD(name) static inline float name##_(float x) { return name##f(x); } \
                       static inline double name##_(double x) { return name(x); }
#ifndef VECTOR_MATH
OVERLOAD(sin) OVERLOAD(cos)
#endif
OVERLOAD(tan) OVERLOAD(sinh) OVERLOAD(cosh) OVERLOAD(asin) OVERLOAD(acos) OVERLOAD(atan)
OVERLOAD(asinh) OVERLOAD(expm1) OVERLOAD(erf) OVERLOAD(erfc)
#define NaN std::numeric_limits<double>::quiet_NaN()
#define Inf std::numeric_limits<double>::infinity()
// libmvec makes infinite results, NaN, zeros and denormal numbers one by one, in ten to twenty times the time. Masks make many zeros.
#define NOT_BELOW(name, kind, function, low) static inline kind name(kind x) { \
  const bool below = x < kind(low); \
  const kind found = function(below ? kind(0) : x); \
  return below ? kind(0) : found; \
}
#define ABOVE(name, kind, function, pole) static inline kind name(kind x) { \
  const bool usual = x > kind(pole); \
  const kind found = function(usual ? x : kind(pole + 1)), other = x == kind(pole) ? kind(-Inf) : kind(NaN); \
  return usual ? found : other; \
}
#define WITHIN(name, kind, function, range, inner) static inline kind name(kind x) { \
  const bool within = range; \
  const kind found = function(within ? x : kind(inner)); \
  return within ? found : kind(NaN); \
}
WITHIN(acosh_, float, acoshf, x >= 1, 2) WITHIN(acosh_, double, acosh, x >= 1, 2)
WITHIN(atanh_, float, atanhf, std::abs(x) <= 1, 0) WITHIN(atanh_, double, atanh, std::abs(x) <= 1, 0)
NOT_BELOW(exp_, double, exp, -746)
NOT_BELOW(exp2_, float, exp2f, -151) NOT_BELOW(exp2_, double, exp2, -1076)
ABOVE(log_, float, logf, 0) ABOVE(log_, double, log, 0) ABOVE(log2_, float, log2f, 0) ABOVE(log2_, double, log2, 0)
ABOVE(log10_, float, log10f, 0) ABOVE(log10_, double, log10, 0)
ABOVE(log1p_, float, log1pf, -1) ABOVE(log1p_, double, log1p, -1)
#define OVERLOAD_OF_TWO(name) static inline float name##_(float x, float y) { return name##f(x, y); } \
                              static inline double name##_(double x, double y) { return name(x, y); }
OVERLOAD_OF_TWO(atan2)
template <class T, class S> static inline T copied_bits(S x) { T y; std::memcpy((void*)&y, &x, sizeof(T)); return y; }
template <class T, class S> static constexpr inline T same_bits(S x) {  // constant where they are numbers
#if defined(__clang__) || __GNUC__ >= 11
  if constexpr (std::is_trivially_copyable_v<T> && std::is_trivially_copyable_v<S>) return __builtin_bit_cast(T, x);
#endif
  return copied_bits<T>(x);
}
#define OF_ZERO(name, kind, function, test, instead) static inline kind name(kind x, kind y) { \
  const bool zero = test; \
  const kind found = function(zero ? kind(instead) : x, y); \
  return zero ? kind(0) : found; \
}
OF_ZERO(pow_, float, powf, (same_bits<int32_t>(x) == 0) & (y > 0), 1)
OF_ZERO(pow_, double, pow, (same_bits<int64_t>(x) == 0) & (y > 0), 1)
OF_ZERO(hypot_, float, hypotf, (x == 0) & (y == 0), 1)
OF_ZERO(hypot_, double, hypot, (x == 0) & (y == 0), 1)
template <int last, int n> static inline float horner(const float (&c)[n], float x) {
  if constexpr (last == 0) return c[0];
  else return std::fma(horner<last - 1>(c, x), x, c[last]);
}
template <int n> static inline float polynomial(const float (&c)[n], float x) {  // the highest power first
  return horner<n - 1>(c, x);  // GCC (12) unrolls loops after it has made vectors, and makes none of those with a loop within
}
static inline float exp_(float x) {  // XLA's, which makes zero of what is below the normal numbers
  constexpr float powers[] = {1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 0.5};
  const float held = x < -87.8f ? -87.8f : x > 88.8f ? 88.8f : x;
  const float nearest = std::floor(std::fma(held, 1.44269504088896341f, 0.5f)), twos = nearest > 127 ? 127 : nearest;
  const float rest = std::fma(twos, 2.12194440e-4f, std::fma(twos, -0.693359375f, held));
  const float found = std::fma(polynomial(powers, rest), rest * rest, rest) + 1;
  return found * same_bits<float>(uint32_t(int32_t(x == x ? twos : 0) + 127) << 23);
}
static inline float tanh_(float x) {  // XLA's
  constexpr float top[] = {@TANH_NUMERATOR@}, bottom[] = {@TANH_DENOMINATOR@}, bound = @TANH_BOUND@;
  const float y = x < -bound ? -bound : x > bound ? bound : x;
  return std::abs(x) < float(@TANH_IS_LINEAR@) ? x : y * polynomial(top, y * y) / polynomial(bottom, y * y);
}
static inline double tanh_(double x) { return tanh(x); }
struct Memory {  // for the arrays of a call, from the beginning of a line of the cache on
  void* const given;
  char* const place;
  explicit Memory(size_t bytes) : given(std::malloc(bytes + 63)), place((char*)(((uintptr_t)given + 63) / 64 * 64)) {}
  ~Memory() { std::free(given); }
};
// Distances that the compiler does not know: it turns a pair of known shifts into a rotation, for which it has no
// vectors (GCC 12), and a threefry takes four times as long.
extern "C" int32_t shifts[64];
int32_t shifts[64] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
                      22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42,
                      43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63};
// GCC 12 takes some arrays on the stack for aligned as vectors are, without seeing to it: the function ends in a segmentation fault.
#define ALIGNED alignas(64)
// Constant, so that numbers made of numbers are known in loops that threads share, which are functions of their own.
#define FUNCTION template <class T> static constexpr inline T
// Narrow types would be promoted to int, which overflows.
template <class T> using Wrapping = std::conditional_t<(sizeof(T) < 8), uint32_t, uint64_t>;
template <class T> constexpr int width = 8 * sizeof(T);
FUNCTION add(T a, T b) { return T(Wrapping<T>(a) + Wrapping<T>(b)); }
FUNCTION subtract(T a, T b) { return T(Wrapping<T>(a) - Wrapping<T>(b)); }
FUNCTION multiply(T a, T b) { return T(Wrapping<T>(a) * Wrapping<T>(b)); }
FUNCTION negate(T a) { return T(-Wrapping<T>(a)); }
FUNCTION absolute(T a) { return a < 0 ? negate(a) : a; }
FUNCTION sign(T a) { return T((a > 0) - (a < 0)); }
FUNCTION maximum(T a, T b) { const T most = a > b ? a : b; return a != a ? a : most; }  // an instruction, and a test
FUNCTION minimum(T a, T b) { const T least = a < b ? a : b; return a != a ? a : least; }
// Onto an element that is read again at once: what waits for it is one instruction, the test is of the other one.
FUNCTION maximum_onto(T held, T x) { const T most = x > held ? x : held; return x != x ? x : most; }
FUNCTION minimum_onto(T held, T x) { const T least = x < held ? x : held; return x != x ? x : least; }
template <int n, class T> static inline std::enable_if_t<std::is_floating_point_v<T>, T> power(T x) {
  return n < 0 ? 1 / power<-n>(x) : n == 3 ? x * x * x : n == 2 ? x * x : x;
}
// A boolean in memory, read as the byte that it is: GCC 12 has no vectors for what chooses or computes by a `bool` from there.
static inline bool truth(const bool& kept) { return same_bits<uint8_t>(kept) != 0; }
FUNCTION either(bool first, T a, T b) { return first ? a : b; }  // both computed, for all of a vector
FUNCTION tanh_backward(T cotangent, T y) { return cotangent * (1 - y * y); }
FUNCTION sigmoid_backward(T cotangent, T y) { return cotangent * (1 - y) * y; }
FUNCTION logaddexp(T a, T b) {
  return a == b && std::isinf(a) ? a : maximum(a, b) + log1p_(exp_(-std::abs(a - b)));
}
FUNCTION logaddexp2(T a, T b) {
  return a == b && std::isinf(a) ? a : maximum(a, b) + log1p_(exp2_(-std::abs(a - b))) * T(1.4426950408889634);
}
template <class T> static inline bool is_nan(T a) { return a != a; }
FUNCTION nan_to_num(T a) {
  constexpr T most = std::numeric_limits<T>::max();
  return is_nan(a) ? T(0) : a > most ? most : a < -most ? -most : a;
}
static inline double lgamma_(double x) { int sign; return lgamma_r(x, &sign); }  // the other writes to a global variable
template <int steps> static inline double risen(double& x) {  // to 10; returns the product of what it was
  if constexpr (steps == 0) return 1;
  else {
    const bool is_near = x < 10;
    const double part = is_near ? x : 1;
    x = is_near ? x + 1 : x;
    return risen<steps - 1>(x) * part;
  }
}
static inline float lgamma_(float given) {  // in vectors, which no library has: by its recurrence, its series, and reflection below 0.5
  const double x = given, turned = std::abs(sin_(M_PI * (x - std::trunc(x))));
  const bool is_below = x < 0.5;
  double above = is_below ? 1 - x : x;
  const double product = risen<10>(above), y = 1 / above, square = y * y;
  const double series = y * (1. / 12 - square * (1. / 360 - square * (1. / 1260 - square * (1. / 1680 - square * (1. / 1188 -
                        square * (691. / 360360))))));
  const double found = (above - 0.5) * log_(above) - above + 0.91893853320467274178 + series;
  const double rest = log_(is_below ? M_PI * product / turned : product), known = is_below ? rest - found : found - rest;
  return std::abs(x) == Inf ? Inf : std::abs(known) < 1e-12 ? 0 : known;  // at one and two; beside them it is 3e-8
}
template <int end, int steps = end / 2> static inline double reciprocals(double& x) {  // of x, x + 1, ... up to `end`, two at a time
  if constexpr (steps == 0) return 0;
  else {
    const bool is_near = x < end;
    const double part = (is_near ? 2 * x + 1 : 0) / (x * (x + 1));
    x = is_near ? x + 2 : x;
    return reciprocals<end, steps - 1>(x) + part;
  }
}
template <int end> static inline double digamma_of(double x) {  // by its recurrence, and its series
  const double near = reciprocals<end>(x), y = 1 / (x * x);
  const double series = y * (1. / 12 - y * (1. / 120 - y * (1. / 252 - y * (1. / 240 - y * (1. / 132 - y *
                        (691. / 32760 - y / 12))))));
  return log_(x) - (0.5 / x + series + near);
}
FUNCTION digamma_(T given) {  // by reflection where it is negative
  const double x = given, part = x - std::trunc(x), turned = tan_(M_PI * part);
  const bool is_below = x < 0, is_pole = is_below & (part == 0);
  const double mirrored = (is_below ? -M_PI : 0) / (is_below ? turned : 1), above = is_below ? 1 - x : x == 0 ? 1 : x;
  return T(digamma_of<sizeof(T) == 8 ? 10 : 6>(above) + mirrored + (x == 0 ? std::copysign(Inf, -x) : is_pole ? NaN : 0));
}
FUNCTION xlogy(T a, T b) { return is_nan(b) ? b : a == 0 ? T(0) : a * log_(b); }
FUNCTION relu(T a) { return a < 0 ? T(0) : a; }
FUNCTION in_width(T distance) { return T(distance & (width<T> - 1)); }  // so that C++ defines the shift, chosen or not
template <class T> static constexpr inline bool out_of_width(T distance) { return Wrapping<T>(distance) >= Wrapping<T>(width<T>); }  // or negative
FUNCTION shift_left(T a, T b) { return out_of_width(b) ? T(0) : T(Wrapping<T>(a) << in_width(b)); }
FUNCTION shift_right(T a, T b) { return out_of_width(b) ? T(a < 0 ? -1 : 0) : T(a >> in_width(b)); }
FUNCTION quotient(T a, T b) {
  if (__builtin_constant_p(b) && b > 0) return T(a / b);  // products
  if constexpr (sizeof(T) < 8) {  // as doubles, of which the quotient's whole part is right, and for which there are vectors
    const T down = T(int64_t(double(a) / double(b == 0 ? T(1) : b)));
    return b == 0 ? T(-1) : down;
  }
  if (b == 0) return T(-1);
  if (std::is_signed_v<T> && b == T(-1)) return negate(a);
  return T(a / b);
}
FUNCTION remainder_of(T a, T b) {
  if constexpr (sizeof(T) < 8) return subtract(a, multiply(quotient(a, b), b));
  if (b == 0) return a;
  if (std::is_signed_v<T> && b == T(-1)) return T(0);
  return T(a % b);
}
FUNCTION modulus(T a, T b) {
  const T rest = remainder_of(a, b), more = add(rest, b);
  return (rest != 0) & ((rest < 0) != (b < 0)) ? more : rest;
}
FUNCTION floor_quotient(T a, T b) {
  const T down = quotient(a, b), rest = remainder_of(a, b), below = subtract(down, T(1));
  return (b != 0) & (rest != 0) & ((rest < 0) != (b < 0)) ? below : down;
}
static inline double fmod_(double a, double b) { return fmod(a, b); }
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__)
#define FMOD_OF_VECTORS __attribute__((simd("notinbranch"), noinline, const, nothrow, visibility("hidden")))
#else
#define FMOD_OF_VECTORS __attribute__((const, nothrow, visibility("hidden")))
#endif
extern "C" FMOD_OF_VECTORS float fmod_of_vectors(float a, float b);
static inline float fmod_(float a, float b) { return fmod_of_vectors(a, b); }
FUNCTION float_modulus(T a, T b) {
  const T rest = fmod_(a, b), more = rest + b;
  return (rest != 0) & ((rest < 0) != (b < 0)) ? more : rest;
}
FUNCTION float_floor_quotient(T a, T b) {
  const T whole = a / b, rest = fmod_(a, b), near = (a - rest) / b, below = near - 1;
  const T found = (rest != 0) & ((rest < 0) != (b < 0)) ? below : near, down = std::floor(found), up = down + 1;
  const T rounded = found - down > T(0.5) ? up : down, zero = std::copysign(T(0), whole);
  return b == 0 ? whole : found == 0 ? zero : rounded;
}
FUNCTION power(T a, T b) {
  if (b < 0) return a == 1 ? T(1) : a == T(-1) ? (b % 2 ? T(-1) : T(1)) : T(0);
  T result = 1;
  for (; b; b = T(b / 2), a = multiply(a, a)) if (b % 2) result = multiply(result, a);
  return result;
}
template <class T, class S> static constexpr inline T convert(S x) {
  if constexpr (std::is_same_v<T, bool>) {
    return x != 0;
  } else if constexpr (std::is_same_v<S, bool>) {
    return x ? T(1) : T(0);  // for which GCC has vectors; it has none for the conversion
  } else if constexpr (std::is_floating_point_v<S> && std::is_integral_v<T>) {
    constexpr S low = S(std::numeric_limits<T>::min()), end = 2 * S(std::numeric_limits<T>::max() / 2 + 1);
    return x >= end ? std::numeric_limits<T>::max() : x >= low ? T(x) : x < low ? std::numeric_limits<T>::min() : T(0);
  } else {
    return T(x);
  }
}
// 16-bit floats say how they are copied, by their bits: of a number with a name GCC (12) would copy the whole, for which it has
// no vectors.
struct BFloat {
  uint16_t bits;
  BFloat() = default;
  BFloat(const BFloat& x) : bits(x.bits) {}
  BFloat& operator=(const BFloat& x) { bits = x.bits; return *this; }
  BFloat(float x) {
    const uint32_t all = same_bits<uint32_t>(x);
    bits = x == x ? uint16_t((all + 0x7FFF + (all >> 16 & 1)) >> 16) : 0x7FC0;
  }
  operator float() const { return same_bits<float>(uint32_t(bits) << 16); }
};
struct Half {  // in integers: of selections of floats in a row GCC (12) makes branches, for which it has no vectors
  uint16_t bits;
  Half() = default;
  Half(const Half& x) : bits(x.bits) {}
  Half& operator=(const Half& x) { bits = x.bits; return *this; }
  Half(float x) {
    const int32_t all = same_bits<int32_t>(x), size = all & 0x7FFFFFFF, held = size < 0x47800000 ? size : 0x47800000;
    const int32_t normal = (held + 0xFFF + (held >> 13 & 1) - 0x38000000) >> 13;
    const int32_t below = same_bits<int32_t>(same_bits<float>(held) + 0.5f) - 0x3F000000;  // 0.5 has 24 bits behind the point
    const int32_t found = held < 0x38800000 ? below : normal;
    bits = uint16_t(found | int32_t(size > 0x7F800000) << 9 | (all >> 16 & 0x8000));
  }
  operator float() const {
    const int32_t size = bits & 0x7FFF, special = -int32_t(size >= 0x7C00) & 0x7F800000;
    const int32_t found = same_bits<int32_t>(same_bits<float>(size << 13) * 0x1p112f) | special;
    return same_bits<float>(found | int32_t(uint32_t(bits & 0x8000) << 16));
  }
};
#define MIX(d) x0 += x1; x1 = (x1 << d | x1 >> (32 - d)) ^ x0;
#define INJECT(a, b, n) x0 += a; x1 += b + n;
static inline int64_t threefry(uint32_t k0, uint32_t k1, uint32_t x0, uint32_t x1) {  // both words, the first one above
  const uint32_t k2 = k0 ^ k1 ^ 0x1BD11BDA;
  const int a = shifts[13], b = shifts[15], c = shifts[26], d = shifts[6];
  const int e = shifts[17], f = shifts[29], g = shifts[16], h = shifts[24];
  INJECT(k0, k1, 0)
  MIX(a) MIX(b) MIX(c) MIX(d) INJECT(k1, k2, 1) MIX(e) MIX(f) MIX(g) MIX(h) INJECT(k2, k0, 2)
  MIX(a) MIX(b) MIX(c) MIX(d) INJECT(k0, k1, 3) MIX(e) MIX(f) MIX(g) MIX(h) INJECT(k1, k2, 4)
  MIX(a) MIX(b) MIX(c) MIX(d) INJECT(k2, k0, 5)
  return int64_t(uint64_t(x0) << 32 | x1);
}
// What GCC has no vectors for, if it is called: of what it is given elements are read by way of a lambda.
#define INLINE __attribute__((always_inline)) static inline
#define LANE [&](int l) __attribute__((always_inline))
template <int lanes, class F> INLINE void for_each(F lane) {
  if constexpr (lanes > 16) for (int l = 0; l < lanes; ++l) lane(l);
  // GCC (12) would unroll a loop of so few steps before it looks for vectors: of comparisons it finds none then, of what is
  // read by a condition wrong ones (loop_unrolling.py).
  else _Pragma("GCC unroll 1") for (int l = 0; l < lanes; ++l) lane(l);
}
template <int lanes, class T, class F> INLINE T one_of(T* parts, F step) {
  if constexpr (lanes > 1) {
    for_each<lanes / 2>(LANE { parts[l] = step(parts[l], parts[lanes / 2 + l]); });
    return one_of<lanes / 2>(parts, step);
  } else {
    return parts[0];
  }
}
#define EACH [&](int r) __attribute__((always_inline))
constexpr int next_power_of_two(int n) { return n <= 1 ? 1 : 2 * next_power_of_two((n + 1) / 2); }
// n elements into one, in several parts. Of a row that is no multiple of these the last few elements are computed anew, as
// many as a vector has. Of a few elements GCC makes vectors over several rows.
template <int n, class T, class F, class E> INLINE T folded(T start, F step, E element) {
  constexpr int vector = 64 / sizeof(T), whole = n >= 8 * vector ? 4 * vector : vector;
  constexpr int lanes = n < whole ? next_power_of_two(n / 2 + 1) : whole;
  if constexpr (n <= 4 || n == 8) {
    ALIGNED T elements[n];
    for (int i = 0; i < n; ++i) elements[i] = element(i);
    T found = elements[0];
    for (int i = 1; i < n; ++i) found = step(found, elements[i]);
    return found;
  } else {
    ALIGNED T parts[lanes];
    for (int l = 0; l < lanes; ++l) parts[l] = start;
    for (int i = 0; i + lanes <= n; i += lanes) for_each<lanes>(LANE { parts[l] = step(parts[l], element(i + l)); });
    if constexpr (n % lanes > 0) {
      constexpr int half = vector / 2 < lanes ? vector / 2 : lanes, rest = next_power_of_two(n % lanes);
      constexpr int last = rest < half ? half : rest;
      for_each<last>(LANE {
        const T stepped = step(parts[l], element(n - last + l));
        parts[l] = l >= last - n % lanes ? stepped : parts[l];
      });
    }
    return one_of<lanes>(parts, step);
  }
}
// Where the first of n elements is that no other one is `more` than, and of these the first.
template <int n, class T, class F, class E> INLINE int64_t place_of_most(F more, E element) {
  using Place = std::conditional_t<sizeof(T) == 8, int64_t, int32_t>;
  constexpr int lanes = n < 64 ? 1 : 32;
  ALIGNED T most[lanes];
  ALIGNED Place place[lanes];
  for (int l = 0; l < lanes; ++l) most[l] = element(l), place[l] = l;
  int i = lanes;
  for (; i + lanes <= n; i += lanes)
    for (int l = 0; l < lanes; ++l) {
      const T now = element(i + l);
      const bool is_more = more(now, most[l]);
      most[l] = is_more ? now : most[l];
      place[l] = is_more ? Place(i + l) : place[l];
    }
  for (int l = 0; i < n; ++i, ++l) if (const T now = element(i); more(now, most[l])) most[l] = now, place[l] = i;
  for (int l = 1; l < lanes; ++l)
    if (more(most[l], most[0]) || (!more(most[0], most[l]) && place[l] < place[0])) most[0] = most[l], place[0] = place[l];
  return place[0];
}
#define IN_ROW [&](int i0, int r) __attribute__((always_inline))
// Rows of which each column is folded onto its total, some vectors' columns at a time: their totals stay in registers.
template <int width, int lanes = 64, class T, class F, class E>
INLINE void onto_columns(T* totals, int first, int end, F step, E element, int column = 0) {
  if constexpr (width > 0 && lanes > width) {
    onto_columns<width, lanes / 2>(totals, first, end, step, element, column);
  } else if constexpr (width > 0) {
    ALIGNED T parts[lanes];
    for (int c = 0; c < width / lanes; ++c, column += lanes) {
      for (int l = 0; l < lanes; ++l) parts[l] = totals[column + l];
      int i0 = first;
      if constexpr (lanes <= 16)  // of a loop that is not unrolled GCC stores the totals in each step
        for (; i0 + 4 <= end; i0 += 4)
          for_each<lanes>(LANE {
            const int c = column + l;
            const T two = step(element(i0, c), element(i0 + 1, c));
            parts[l] = step(parts[l], step(two, step(element(i0 + 2, c), element(i0 + 3, c))));
          });
      for (; i0 < end; ++i0) for_each<lanes>(LANE { parts[l] = step(parts[l], element(i0, column + l)); });
      for (int l = 0; l < lanes; ++l) totals[column + l] = parts[l];
    }
    onto_columns<width % lanes, lanes / 2>(totals, first, end, step, element, column);
  }
}
template <int n, class T> static inline T at(T i) {  // an index, which counts from the end if it is negative
  i += i < 0 ? n : 0;
  return i < 0 ? 0 : i >= n ? n - 1 : i;
}
template <int n> static inline int64_t kept(int64_t i) { return uint64_t(i) < uint64_t(n) ? i : n; }  // n, what is dropped
// Where an element is read that the compiler cannot know for a comparison's result: of one at a place that is 0 or 1 because
// something is true, in a loop that has vectors, GCC 12 reads the element before the array for 1 (a mask's elements are -1 and 0).
template <class T> static inline T place(T i) { return i ^ shifts[0]; }
"""


def _with_constants(text: str) -> str:
    for name in ("TANH_NUMERATOR", "TANH_DENOMINATOR", "TANH_BOUND", "TANH_IS_LINEAR"):
        value = getattr(decompositions, name)
        text = text.replace(f"@{name}@", repr(value).strip("()"))
    return text


PRELUDE = _with_constants(_TEXT)

# Of a function that is external GCC makes others of vectors: a lane for which fmodf is called does not take the rest to it.
_FMOD = r"""
// Exact in doubles, up to quotients with which a product has more digits than these.
extern "C" FMOD_OF_VECTORS float fmod_of_vectors(float a, float b) {
  const double times = double(a) / double(b);
  if (!(std::abs(times) < 0x1p28 && std::abs(b) <= std::numeric_limits<float>::max())) return fmodf(a, b);
  return std::copysign(float(a - std::trunc(times) * b), a);
}
"""


def remainders_of(text: str) -> str:
    """Return what functions call that have remainders of floats, nothing for others."""
    return _FMOD if re.search(r"\b(?:fmod_|float_modulus|float_floor_quotient)\(", text) else ""
