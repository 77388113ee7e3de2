// Vectors for the CPU kernels. Every file under cpu/simd/ is compiled once for each instruction set, in its own
// namespace (NEURIM_ISA); the best one for the machine is chosen at run time. A vector has 16 floats on all of them, so
// that blocked layouts and results do not depend on the machine: one register with AVX-512, two with AVX2, four on the
// portable path.
#pragma once
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#ifndef NEURIM_ISA
#error "compile this through neurim_isa_sources()"
#endif

namespace neurim::cpu::NEURIM_ISA {

inline constexpr int kLanes = 16;

/// `bytes` bytes of T as a compiler vector, at most one register.
template <class T, int bytes>
struct Register {
  typedef T type __attribute__((vector_size(bytes)));
};

/// Two vectors as one. A compiler vector wider than a register would be kept in memory.
template <class Half>
struct Twice {
  Half lo, hi;

  auto operator[](int lane) const {
    constexpr int kHalf = sizeof(Half) / sizeof(lo[0]);
    return lane < kHalf ? lo[lane] : hi[lane - kHalf];
  }
  Twice operator-() const { return {-lo, -hi}; }
};
template <class V>
constexpr bool kTwice = false;
template <class Half>
constexpr bool kTwice<Twice<Half>> = true;

// Lane-wise operators, also with a scalar, which is broadcast. Comparisons give lanes of all ones or all zeros.
#define NEURIM_LANES(op)                                                     \
  template <class Half>                                                      \
  inline auto operator op(const Twice<Half>& a, const Twice<Half>& b) {      \
    return Twice<decltype(a.lo op b.lo)>{a.lo op b.lo, a.hi op b.hi};        \
  }                                                                          \
  template <class Half, class Number>                                        \
    requires std::is_arithmetic_v<Number>                                    \
  inline auto operator op(const Twice<Half>& a, Number number) {             \
    const auto b = static_cast<std::remove_cvref_t<decltype(a[0])>>(number); \
    return Twice<decltype(a.lo op b)>{a.lo op b, a.hi op b};                 \
  }                                                                          \
  template <class Half, class Number>                                        \
    requires std::is_arithmetic_v<Number>                                    \
  inline auto operator op(Number number, const Twice<Half>& b) {             \
    const auto a = static_cast<std::remove_cvref_t<decltype(b[0])>>(number); \
    return Twice<decltype(a op b.lo)>{a op b.lo, a op b.hi};                 \
  }
NEURIM_LANES(+)
NEURIM_LANES(-)
NEURIM_LANES(*)
NEURIM_LANES(/)
NEURIM_LANES(&)
NEURIM_LANES(|)
NEURIM_LANES(^)
NEURIM_LANES(<<)
NEURIM_LANES(>>)
NEURIM_LANES(<)
NEURIM_LANES(>)
NEURIM_LANES(==)
NEURIM_LANES(!=)
#undef NEURIM_LANES
template <class Half, class B>
inline Twice<Half>& operator+=(Twice<Half>& a, const B& b) {
  return a = a + b;
}
template <class Half, class B>
inline Twice<Half>& operator-=(Twice<Half>& a, const B& b) {
  return a = a - b;
}
template <class Half, class B>
inline Twice<Half>& operator*=(Twice<Half>& a, const B& b) {
  return a = a * b;
}

#if defined(__AVX2__)
template <class T>
using HalfWide = typename Register<T, 32>::type;
#else
template <class T>
using HalfWide = Twice<typename Register<T, 16>::type>;
#endif
#if defined(__AVX512F__)
template <class T>
using Wide = typename Register<T, 64>::type;
#else
template <class T>
using Wide = Twice<HalfWide<T>>;
#endif
typedef Wide<float> Vec;
typedef HalfWide<float> HalfVector;
typedef Wide<std::int32_t> IVec;

/// The lanes of a where the mask is set, else those of b. Also for scalars.
template <class Mask, class V>
inline V select(const Mask& mask, const V& a, const V& b) {
  if constexpr (kTwice<V>)
    return {select(mask.lo, a.lo, b.lo), select(mask.hi, a.hi, b.hi)};
  else
    return mask ? a : b;
}

/// Reinterprets the bits as lanes of another type.
template <class To, class From>
inline To bits_as(const From& v) {
  if constexpr (kTwice<From>)
    return {bits_as<decltype(To::lo)>(v.lo), bits_as<decltype(To::hi)>(v.hi)};
  else
    return (To)v;
}

/// Converts lanes to another type of the same size.
template <class To, class From>
inline To numbers_as(const From& v) {
  if constexpr (kTwice<From>)
    return {numbers_as<decltype(To::lo)>(v.lo), numbers_as<decltype(To::hi)>(v.hi)};
  else
    return __builtin_convertvector(v, To);
}

#if defined(__AVX512F__)
inline constexpr __mmask16 kAll = 0xffff;  // g++ 12 warns of uninitialized lanes in intrinsics without a mask
#endif

/// Widens integers of 8 and 16 bits to 32 bits, and narrows them again by truncation. The compiler's own conversion
/// takes several steps or goes lane by lane. `Wider` is one register.
template <class Wider, class T>
constexpr bool kWidens = std::is_integral_v<T> && sizeof(T) < 4 &&
                         std::is_integral_v<std::remove_cvref_t<decltype(Wider{}[0])>>;
template <class Wider, class Narrow>
inline Wider widened(const Narrow& v) {
  [[maybe_unused]] constexpr bool kBytes = sizeof v[0] == 1,
                                  kSigned = std::is_signed_v<std::remove_cvref_t<decltype(v[0])>>;
#if defined(__AVX512F__)
  const auto of = [&] {
    if constexpr (kBytes)
      return kSigned ? _mm512_maskz_cvtepi8_epi32(kAll, (__m128i)v) : _mm512_maskz_cvtepu8_epi32(kAll, (__m128i)v);
    else
      return kSigned ? _mm512_maskz_cvtepi16_epi32(kAll, (__m256i)v) : _mm512_maskz_cvtepu16_epi32(kAll, (__m256i)v);
  };
  return (Wider)of();
#elif defined(__AVX2__)
  __m128i all{};
  std::memcpy(&all, &v, sizeof v);
  if constexpr (kBytes)
    return (Wider)(kSigned ? _mm256_cvtepi8_epi32(all) : _mm256_cvtepu8_epi32(all));
  else
    return (Wider)(kSigned ? _mm256_cvtepi16_epi32(all) : _mm256_cvtepu16_epi32(all));
#else
  typedef typename Register<std::int16_t, sizeof(Wider) / 2>::type Shorts;
  if constexpr (kBytes)
    return __builtin_convertvector(__builtin_convertvector(v, Shorts), Wider);
  else
    return __builtin_convertvector(v, Wider);
#endif
}
template <class Narrow, class Wider>
inline Narrow narrowed_to(const Wider& v) {
  constexpr bool kBytes = sizeof(Narrow{}[0]) == 1;
#if defined(__AVX512F__)
  if constexpr (kBytes)
    return (Narrow)_mm512_maskz_cvtepi32_epi8(kAll, (__m512i)v);
  else
    return (Narrow)_mm512_maskz_cvtepi32_epi16(kAll, (__m512i)v);
#else
  typedef typename Register<std::int16_t, sizeof v / 2>::type Shorts;
  if constexpr (kBytes)
    return __builtin_convertvector(__builtin_convertvector(v, Shorts), Narrow);
  else
    return __builtin_convertvector(v, Narrow);
#endif
}

/// Loads a vector of elements T, and stores one.
template <class V, class T>
inline V load_as(const T* at) {
  V v;
  if constexpr (kTwice<V>) {
    v.lo = load_as<decltype(v.lo)>(at);
    v.hi = load_as<decltype(v.hi)>(at + sizeof v.lo / sizeof v.lo[0]);
  } else {
    constexpr int kCount = sizeof v / sizeof v[0];
    typename Register<T, kCount * sizeof(T)>::type numbers;
    std::memcpy(&numbers, at, sizeof numbers);
    if constexpr (kWidens<V, T>)
      v = widened<V>(numbers);
    else
      v = __builtin_convertvector(numbers, V);
  }
  return v;
}
template <class T, class V>
inline void store_as(T* at, const V& v) {
  if constexpr (kTwice<V>) {
    store_as(at, v.lo);
    store_as(at + sizeof v.lo / sizeof v.lo[0], v.hi);
  } else {
    constexpr int kCount = sizeof v / sizeof v[0];
    typedef typename Register<T, kCount * sizeof(T)>::type Numbers;
    Numbers numbers;
    if constexpr (kWidens<V, T>)
      numbers = narrowed_to<Numbers>(v);
    else
      numbers = __builtin_convertvector(v, Numbers);
    std::memcpy(at, &numbers, sizeof numbers);
  }
}
inline Vec load(const float* at) { return load_as<Vec>(at); }
inline void store(float* at, const Vec& v) { store_as(at, v); }
/// Stores without reading the line into the cache first: for results larger than the caches. `at` is aligned to 16
/// floats. Other threads may read it after streamed().
inline void stream(float* at, const Vec& v) {
#if defined(__AVX512F__)
  _mm512_stream_ps(at, (__m512)v);
#elif defined(__AVX2__)
  _mm256_stream_ps(at, (__m256)v.lo);
  _mm256_stream_ps(at + 8, (__m256)v.hi);
#else
  store(at, v);
#endif
}
inline void streamed() {
#if defined(__AVX2__)
  _mm_sfence();
#endif
}
inline Vec splat(float x) { return x - Vec{}; }  // x + Vec{} would turn -0 into 0, and cost an addition
/// Loads the first n of 16 floats; the rest is zero.
inline Vec load_partial(const float* at, int n) {
  float lanes[kLanes] = {};
  std::memcpy(lanes, at, n * sizeof(float));
  return load(lanes);
}
inline void store_partial(float* at, const Vec& v, int n) {
  float lanes[kLanes];
  store(lanes, v);
  std::memcpy(at, lanes, n * sizeof(float));
}
/// A mask of the first n lanes.
inline IVec first_mask(int n) {
  static constexpr std::int32_t kNumbers[kLanes] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return load_as<IVec>(kNumbers) < n;
}
/// The first n lanes; the others are zero.
inline Vec first_lanes(const Vec& v, int n) { return select(first_mask(n), v, Vec{}); }
/// The maximum, or the minimum; b where they are equal or one is NaN. One instruction for vectors, which the compiler
/// does not always find; a comparison and a select would take a port of the multipliers on some processors.
template <bool larger, class V>
inline V extreme(const V& a, const V& b) {
  if constexpr (kTwice<V>) return {extreme<larger>(a.lo, b.lo), extreme<larger>(a.hi, b.hi)};
#if defined(__AVX512F__)
  else if constexpr (std::is_same_v<V, Vec>)
    return (V)(larger ? _mm512_maskz_max_ps(kAll, (__m512)a, (__m512)b)
                      : _mm512_maskz_min_ps(kAll, (__m512)a, (__m512)b));
#endif
#if defined(__AVX2__)
  else if constexpr (std::is_same_v<V, HalfVector>)
    return (V)(larger ? _mm256_max_ps((__m256)a, (__m256)b) : _mm256_min_ps((__m256)a, (__m256)b));
#endif
  else
    return select(larger ? a > b : a < b, a, b);
}
template <class V>
inline V max(const V& a, const V& b) {
  return extreme<true>(a, b);
}
template <class V>
inline V min(const V& a, const V& b) {
  return extreme<false>(a, b);
}
/// Eight lanes followed by zeros.
inline Vec with_zeros(const HalfVector& v) {
#if defined(__AVX512F__)
  return __builtin_shufflevector(v, HalfVector{}, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
#else
  return {v, HalfVector{}};
#endif
}
/// The maximum; NaN if either is NaN. For scalars and vectors.
template <class V>
inline V larger(const V& best, const V& v) {
  return select(v != v, v, max(v, best));
}
/// clamp() for a Relu (relu.h), and its gradient by its output y. A NaN in v stays; a NaN limit is no limit.
template <class V>
inline V limited(const V& v, const V& least, const V& most) {
  return min(most, max(least, v));
}
inline Vec masked(const Vec& dy, const Vec& y, const Vec& most) { return select((y > Vec{}) & (y != most), dy, Vec{}); }
/// Broadcasts lane i of each group of `width` neighbouring lanes to the group. A group is within one register.
template <int width, int i, class V>
inline V one_of_each(const V& v) {
  if constexpr (kTwice<V>) {
    return {one_of_each<width, i>(v.lo), one_of_each<width, i>(v.hi)};
  } else {
    constexpr int kAll = sizeof v / sizeof v[0];
    static_assert(width <= kAll);
    return [&]<int... lane>(std::integer_sequence<int, lane...>) {
      return __builtin_shuffle(v, typename Register<std::int32_t, sizeof v>::type{(lane / width * width + i)...});
    }(std::make_integer_sequence<int, kAll>());
  }
}
/// Sums the lanes by adding halves, log2 steps.
template <class V>
inline float sum(const V& v) {
  if constexpr (kTwice<V>) {
    return sum(v.lo + v.hi);
  } else if constexpr (sizeof v == 4 * sizeof(float)) {
    return (v[0] + v[2]) + (v[1] + v[3]);
  } else {
    typename Register<float, sizeof v / 2>::type halves[2];
    std::memcpy(halves, &v, sizeof v);
    return sum(halves[0] + halves[1]);
  }
}

}  // namespace neurim::cpu::NEURIM_ISA
