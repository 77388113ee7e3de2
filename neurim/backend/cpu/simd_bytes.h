// Products of bytes, four of them in the place of a float: u8 times i8, summed up in i32. They are AVX512-VNNI's where the
// machine has it (has_vnni()), and the same numbers elsewhere: no sum is cut short.
#pragma once
#include "neurim/backend/cpu/simd_halves.h"
#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace neurim::cpu::NEURIM_ISA {

#if defined(__AVX512F__)
/// sum + the four products, lane by lane; of i32 sums in the place of floats, as everywhere here.
NEURIM_MAY_NAME_NARROW inline Vec add_products_of_quads(Vec sum, Vec u8, Vec i8) {
  return (Vec)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)u8, (__m512i)i8);
}
#endif

/// Numbers of 16 bits in pairs: those of a quad at places 0 and 2, and at 1 and 3.
inline Vec even_of_u8(Vec quads) { return from_bits(bits_of(quads) & 0x00ff00ff); }
inline Vec odd_of_u8(Vec quads) { return from_bits((bits_of(quads) >> 8) & 0x00ff00ff); }
inline Vec even_of_i8(const Vec& quads) { return bits_as<Vec>((bits_as<Wide<std::int16_t>>(quads) << 8) >> 8); }
inline Vec odd_of_i8(const Vec& quads) { return bits_as<Vec>(bits_as<Wide<std::int16_t>>(quads) >> 8); }

/// sum + the two products of such pairs.
inline Vec add_products_of_shorts(Vec sum, Vec a, Vec b) {
#if defined(__AVX512BW__)
  return (Vec)_mm512_add_epi32((__m512i)sum, _mm512_madd_epi16((__m512i)a, (__m512i)b));
#elif defined(__AVX2__)
  const auto half = [](auto sums, auto first, auto second) {
    return (Register<float, 32>::type)_mm256_add_epi32((__m256i)sums, _mm256_madd_epi16((__m256i)first, (__m256i)second));
  };
  return {half(sum.lo, a.lo, b.lo), half(sum.hi, a.hi, b.hi)};
#else
  const IVec x = bits_of(a), y = bits_of(b);
  return from_bits(bits_of(sum) + ((x << 16) >> 16) * ((y << 16) >> 16) + (x >> 16) * (y >> 16));
#endif
}

/// The nearest whole numbers, ties to even, of floats in (-2^22, 2^22).
inline IVec nearest(Vec v) {
  constexpr float kWhole = 12582912;  // 1.5 2^23: such floats have no digits behind the point
  return bits_of(v + kWhole) - bits_of(splat(kWhole));
}

inline Vec floats_of(const IVec& whole) { return numbers_as<Vec>(whole); }

/// 16 u8 as floats, after their bits have been changed by `flip`.
inline Vec load_bytes(const std::uint8_t* at, std::uint8_t flip) {
  return floats_of(load_as<IVec>(at) ^ flip);
}

}  // namespace neurim::cpu::NEURIM_ISA
