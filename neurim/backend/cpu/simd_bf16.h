// Numbers of 16 bits with the exponent of a float (bf16), two of them in the place of one. Their products are AVX512-BF16's where the
// machine has it (has_bf16()). Files are compiled for all machines with AVX-512: functions that name its instructions say so.
#pragma once
#include "neurim/backend/cpu/simd.h"
#if defined(__AVX512F__)
#include <immintrin.h>
#define NEURIM_MAY_NAME_NARROW __attribute__((target("avx512bf16,avx512vnni")))
#else
#define NEURIM_MAY_NAME_NARROW
#endif

namespace neurim::cpu::NEURIM_ISA {

inline Vec from_bits(const IVec& bits) { return bits_as<Vec>(bits); }
inline IVec bits_of(const Vec& v) { return bits_as<IVec>(v); }

/// The word at `at` in every lane, whatever it means.
inline Vec splat_bits(const float* at) {
  std::int32_t word;
  std::memcpy(&word, at, sizeof word);
  return from_bits(word - IVec{});
}

/// The halves of pairs as floats; the first lies in the low bits, as in memory.
inline Vec first_of_pairs(Vec pairs) { return from_bits(bits_of(pairs) << 16); }
inline Vec second_of_pairs(Vec pairs) { return from_bits(bits_of(pairs) & static_cast<std::int32_t>(0xffff0000)); }

#if defined(__AVX512F__)
/// sum + first * first + second * second, lane by lane; denormal numbers count as zero.
NEURIM_MAY_NAME_NARROW inline Vec add_products_of_pairs(Vec sum, Vec a, Vec b) {
  return (Vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
}
#endif

/// Bits whose upper halves are the nearest bf16, ties to even. A NaN stays one.
typedef Wide<std::uint32_t> Bits;
inline Bits rounded_bits(const Vec& v) {
  const Bits bits = bits_as<Bits>(v);
  const Bits rounded = bits + 0x7fff + ((bits >> 16) & 1), quiet = bits | 0x400000;
  return select(v == v, rounded, quiet);
}

/// 16 numbers of bf16 as floats, and floats rounded so, ties to even; a NaN stays one.
inline Vec load_rounded(const std::uint16_t* at) { return from_bits(load_as<IVec>(at) << 16); }
inline void store_rounded(std::uint16_t* at, const Vec& v) { store_as(at, rounded_bits(v) >> 16); }

/// How the elements of a tensor stand behind a pointer to float: as these, or rounded (Layout::rounded).
struct Exact {
  static constexpr std::int64_t words(std::int64_t elements) { return elements; }  ///< that these take
  static Vec get(const float* tensor, std::int64_t at) { return load(tensor + at); }
  static void put(float* tensor, std::int64_t at, const Vec& v) { store(tensor + at, v); }
};

/// Rounds 16 floats, ties to even, and writes them as 8 words; `native`: by AVX512-BF16's instruction, in assembly so that callers
/// need not name it. A NaN stays one.
template <bool native>
inline void store_pairs(float* at, const Vec& v) {
#if defined(__AVX512F__)
  if (native) {
    Register<std::uint16_t, 32>::type halves;
    asm("vcvtneps2bf16 %1, %0" : "=v"(halves) : "v"(v));
    std::memcpy(at, &halves, sizeof halves);
    return;
  }
#endif
  store_rounded(reinterpret_cast<std::uint16_t*>(at), v);
}

/// The other way; `at` of put is even.
template <bool native>
struct RoundedBy {
  static constexpr std::int64_t words(std::int64_t elements) { return elements / 2; }
  static Vec get(const float* tensor, std::int64_t at) { return load_rounded(reinterpret_cast<const std::uint16_t*>(tensor) + at); }
  static void put(float* tensor, std::int64_t at, const Vec& v) { store_pairs<native>(tensor + at / 2, v); }
};
using Rounded = RoundedBy<false>;

/// Elements that stand in the one way or the other, as is known when it runs.
struct Stored {
  bool rounded, native = has_bf16();
  Vec get(const float* tensor, std::int64_t at) const { return rounded ? Rounded::get(tensor, at) : Exact::get(tensor, at); }
  void put(float* tensor, std::int64_t at, const Vec& v) const {
    !rounded ? Exact::put(tensor, at, v) : native ? RoundedBy<true>::put(tensor, at, v) : Rounded::put(tensor, at, v);
  }
};

/// Two vectors as one of pairs, rounded so.
template <bool native>
NEURIM_MAY_NAME_NARROW inline Vec pairs_of(const Vec& first, const Vec& second) {
#if defined(__AVX512F__)
  if (native) {
    const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18,
                                           2, 17, 1, 16, 0);
    return (Vec)_mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh((__m512)second, (__m512)first));
  }
#endif
  return bits_as<Vec>(rounded_bits(first) >> 16 | (rounded_bits(second) & 0xffff0000));
}

}  // namespace neurim::cpu::NEURIM_ISA
