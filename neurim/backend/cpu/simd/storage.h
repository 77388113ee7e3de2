// 16-bit floats, two in the space of a float: bf16, with the exponent of a float, and f16, with more digits. Products
// of bf16 use AVX512-BF16 where the machine has it (has_bf16()), products of f16 AVX512-FP16 (f16_product.cpp). A file
// is compiled for all machines with AVX-512; functions that use instructions of fewer machines name their target.
#pragma once
#include "neurim/backend/cpu/common/isa.h"
#include "neurim/backend/cpu/simd/math.h"
#include "neurim/backend/cpu/simd/simd.h"
#if defined(__AVX512F__)
#define NEURIM_MAY_NAME_NARROW __attribute__((target("avx512bf16,avx512vl,avx512vnni")))
#else
#define NEURIM_MAY_NAME_NARROW
#endif

namespace neurim::cpu::NEURIM_ISA {

inline Vec from_bits(const IVec& bits) { return bits_as<Vec>(bits); }
inline IVec bits_of(const Vec& v) { return bits_as<IVec>(v); }

/// Broadcasts the 32-bit word at `at`, whatever it holds.
template <template <class> class Lanes = Wide>
inline Lanes<float> splat_bits(const float* at) {
  std::int32_t word;
  std::memcpy(&word, at, sizeof word);
  return bits_as<Lanes<float>>(word - Lanes<std::int32_t>{});
}

typedef Wide<std::uint32_t> Bits;

// --- bf16
// --------------------------------------------------------------------------------------------------------------

/// The first and second values of pairs of bf16 as floats. The first is in the low bits, as in memory.
inline Vec first_of_pairs(Vec pairs) { return from_bits(bits_of(pairs) << 16); }
inline Vec second_of_pairs(Vec pairs) { return from_bits(bits_of(pairs) & static_cast<std::int32_t>(0xffff0000)); }

#if defined(__AVX512F__)
/// sum + first * first + second * second for each lane. Denormal numbers count as zero.
NEURIM_MAY_NAME_NARROW inline Vec add_products_of_pairs(Vec sum, Vec a, Vec b) {
  return (Vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
}
NEURIM_MAY_NAME_NARROW inline HalfVector add_products_of_pairs(HalfVector sum, HalfVector a, HalfVector b) {
  return (HalfVector)_mm256_dpbf16_ps((__m256)sum, (__m256bh)a, (__m256bh)b);
}
#endif

/// Bits whose upper half is the nearest bf16, ties to even. NaN stays NaN.
inline Bits rounded_bits(const Vec& v) {
  const Bits bits = bits_as<Bits>(v);
  const Bits rounded = bits + 0x7fff + ((bits >> 16) & 1), quiet = bits | 0x400000;
  return select(v == v, rounded, quiet);
}

/// Loads and stores 16-bit floats, rounded to the nearest, ties to even; NaN stays NaN. `native`: with AVX512-BF16
/// instructions.
template <bool native>
struct Bf16 {
  static Vec load(const std::uint16_t* at) { return from_bits(load_as<IVec>(at) << 16); }
  /// Stores 16 values in 8 words. In assembly, so that callers need not name the target.
  static void store(float* at, const Vec& v) {
#if defined(__AVX512F__)
    if (native) {
      Register<std::uint16_t, 32>::type halves;
      asm("vcvtneps2bf16 %1, %0" : "=v"(halves) : "v"(v));
      std::memcpy(at, &halves, sizeof halves);
      return;
    }
#endif
    store_as(reinterpret_cast<std::uint16_t*>(at), rounded_bits(v) >> 16);
  }
  /// Interleaves two vectors into pairs.
  NEURIM_MAY_NAME_NARROW static Vec pairs(const Vec& first, const Vec& second) {
#if defined(__AVX512F__)
    if (native) {
      const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                                             21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
      return (Vec)_mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh((__m512)second, (__m512)first));
    }
#endif
    return bits_as<Vec>(rounded_bits(first) >> 16 | (rounded_bits(second) & 0xffff0000));
  }
};

// --- f16
// ---------------------------------------------------------------------------------------------------------------

/// Converts to f16 bits in the lower half of each lane, and back; the upper half is not read.
inline Bits f16_bits(const Vec& v) {
#if defined(__AVX512F__)
  const auto halves = (Register<std::uint16_t, 32>::type)_mm512_maskz_cvtps_ph(
      kAll, (__m512)v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  return widened<Bits>(halves);
#elif defined(__AVX2__)
  const auto half = [](auto lanes) {
    return _mm256_cvtepu16_epi32(_mm256_cvtps_ph((__m256)lanes, _MM_FROUND_TO_NEAREST_INT));
  };
  return bits_as<Bits>(Twice<Register<std::uint32_t, 32>::type>{(Register<std::uint32_t, 32>::type)half(v.lo),
                                                                (Register<std::uint32_t, 32>::type)half(v.hi)});
#else  // the algorithm of to_f16() in core/half.h
  const Bits bits = bits_as<Bits>(v), body = bits & 0x7fffffff,
             normal = (body + 0xfff + (body >> 13 & 1) - (112u << 23)) >> 13,
             small = bits_as<Bits>(bits_as<Vec>(body) + 0.5f) - 0x3f000000,
             finite = select(body < 0x38800000u, small, normal),
             any = select(body < 0x477ff000u, finite, Bits{} + 0x7c00);
  return select(v == v, any, Bits{} + 0x7e00) | (bits >> 16 & 0x8000);
#endif
}
inline Vec f16_floats(const Bits& bits) {
#if defined(__AVX512F__)
  return (Vec)_mm512_maskz_cvtph_ps(kAll, (__m256i)narrowed_to<Register<std::uint16_t, 32>::type>(bits));
#elif defined(__AVX2__)
  const auto half = [](auto lanes) {
    const __m256i low = (__m256i)(lanes & 0xffff);
    return _mm256_cvtph_ps(_mm_packus_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1)));
  };
  return {(Register<float, 32>::type)half(bits.lo), (Register<float, 32>::type)half(bits.hi)};
#else
  const Bits body = bits & 0x7fff, normal = (body << 13) + (112u << 23), beyond = body << 13 | 0x7f800000,
             small = bits_as<Bits>(numbers_as<Vec>(bits_as<IVec>(body)) * 0x1p-24f);
  return bits_as<Vec>(select(body < 0x7c00u, select(body < 0x400u, small, normal), beyond) | (bits & 0x8000) << 16);
#endif
}
inline float f16_float(std::uint16_t bits) {
#if defined(__AVX2__)
  return _cvtsh_ss(bits);
#else
  return float_of_f16(bits);
#endif
}

struct F16 {
  static Vec load(const std::uint16_t* at) {
#if defined(__AVX512F__)
    return (Vec)_mm512_maskz_cvtph_ps(kAll, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
#elif defined(__AVX2__)
    const auto half = [at](int i) {
      return (Register<float, 32>::type)_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at) + i));
    };
    return {half(0), half(1)};
#else
    return f16_floats(load_as<Bits>(at));
#endif
  }
  static void store(float* at, const Vec& v) {
#if defined(__AVX512F__)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(at),
                        _mm512_maskz_cvtps_ph(kAll, (__m512)v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#elif defined(__AVX2__)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(at), _mm256_cvtps_ph((__m256)v.lo, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(at) + 1, _mm256_cvtps_ph((__m256)v.hi, _MM_FROUND_TO_NEAREST_INT));
#else
    store_as(reinterpret_cast<std::uint16_t*>(at), f16_bits(v));
#endif
  }
  static Vec pairs(const Vec& first, const Vec& second) {
    return bits_as<Vec>(f16_bits(first) | f16_bits(second) << 16);
  }
};

// --- tensors
// -----------------------------------------------------------------------------------------------------------

/// How the memory at a pointer to float stores elements: Exact as floats, RoundedTo in 16 bits (Layout::storage).
struct Exact {
  static constexpr std::int64_t words(std::int64_t elements) { return elements; }  ///< words that so many elements take
  static Vec get(const float* tensor, std::int64_t at) { return load(tensor + at); }
  static void put(float* tensor, std::int64_t at, const Vec& v) { store(tensor + at, v); }
};

/// 16-bit elements; `at` of put is even.
template <class Kind>
struct RoundedTo {
  static constexpr std::int64_t words(std::int64_t elements) { return elements / 2; }
  static Vec get(const float* tensor, std::int64_t at) {
    return Kind::load(reinterpret_cast<const std::uint16_t*>(tensor) + at);
  }
  static void put(float* tensor, std::int64_t at, const Vec& v) { Kind::store(tensor + at / 2, v); }
};

#ifdef NEURIM_F32_STORAGE
// A library whose plans store no tensor in 16 bits.
template <class Function>
void with_kind(StorageDtype, Function) {
  __builtin_trap();
}
template <class Function>
auto with_places(StorageDtype, Function function) {
  return function(Exact());
}
template <class Function>
auto with_read_places(StorageDtype, Function function) {
  return function(Exact());
}
#else
/// Calls function(Bf16) or function(F16), as `half` says.
template <class Function>
auto with_kind(StorageDtype half, Function function) {
  return half == StorageDtype::f16 ? function(F16()) : has_bf16() ? function(Bf16<true>()) : function(Bf16<false>());
}
/// Calls a function with the Exact or RoundedTo that reads and writes tensors of this storage.
template <class Function>
auto with_places(StorageDtype half, Function function) {
  return half == StorageDtype::exact
             ? function(Exact())
             : with_kind(half, [&](auto kind) { return function(RoundedTo<decltype(kind)>()); });
}
/// The same for loads only, which need no instruction that some machines lack.
template <class Function>
auto with_read_places(StorageDtype half, Function function) {
  return half == StorageDtype::exact ? function(Exact())
         : half == StorageDtype::f16 ? function(RoundedTo<F16>())
                                     : function(RoundedTo<Bf16<false>>());
}
#endif

/// Whether a tensor of storage `rounded` is null or has the storage `half`.
inline bool stands_as(StorageDtype half, const float* tensor, StorageDtype rounded) {
  return !tensor || rounded == half;
}

/// Storage that is chosen at run time.
struct Stored {
  StorageDtype rounded;
  bool native = has_bf16();
  Vec get(const float* tensor, std::int64_t at) const {
    return rounded == StorageDtype::exact ? Exact::get(tensor, at)
           : rounded == StorageDtype::f16 ? RoundedTo<F16>::get(tensor, at)
                                          : RoundedTo<Bf16<false>>::get(tensor, at);
  }
  void put(float* tensor, std::int64_t at, const Vec& v) const {
    rounded == StorageDtype::exact ? Exact::put(tensor, at, v)
    : rounded == StorageDtype::f16 ? RoundedTo<F16>::put(tensor, at, v)
    : native                       ? RoundedTo<Bf16<true>>::put(tensor, at, v)
                                   : RoundedTo<Bf16<false>>::put(tensor, at, v);
  }
};

}  // namespace neurim::cpu::NEURIM_ISA
