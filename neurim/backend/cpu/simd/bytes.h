// Products of bytes with i32 sums, which stand in the lanes of float vectors. With AVX512-VNNI (has_vnni()) a lane
// takes four products of u8 and i8, with AArch64's dot products (has_dot_products()) four of i8; elsewhere two, widened
// to 16 bits. The sums are exact either way: nothing saturates.
#pragma once
#include <array>

#include "neurim/backend/cpu/int8/int8_product.h"
#include "neurim/backend/cpu/simd/storage.h"
#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace neurim::cpu::NEURIM_ISA {

#if defined(__AVX512F__)
/// Adds four products to each i32 lane.
NEURIM_MAY_NAME_NARROW inline Vec add_products_of_quads(Vec sum, Vec u8, Vec i8) {
  return (Vec)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)u8, (__m512i)i8);
}
/// The same with the word at `u8`, whatever it holds, for all lanes.
NEURIM_MAY_NAME_NARROW inline Vec add_products_of_quads(Vec sum, const float* u8, Vec i8) {
  return add_products_of_quads(sum, splat_bits(u8), i8);
}
#elif defined(__aarch64__)
// In assembly, so that callers need not name the target.
/// Adds four products of i8 to each i32 lane.
inline Vec add_products_of_quads(Vec sum, Vec a, Vec b) {
  const auto quarter = [](auto& sums, const auto& first, const auto& second) {
    asm(".arch armv8.2-a+dotprod\n\tsdot %0.4s, %1.16b, %2.16b" : "+w"(sums) : "w"(first), "w"(second));
  };
  quarter(sum.lo.lo, a.lo.lo, b.lo.lo), quarter(sum.lo.hi, a.lo.hi, b.lo.hi);
  quarter(sum.hi.lo, a.hi.lo, b.hi.lo), quarter(sum.hi.hi, a.hi.hi, b.hi.hi);
  return sum;
}
inline Vec add_products_of_quads(Vec sum, const float* a, Vec b) {
  const auto quarter = [word = *a](auto& sums, const auto& second) {
    asm(".arch armv8.2-a+dotprod\n\tsdot %0.4s, %1.16b, %2.4b[0]" : "+w"(sums) : "w"(second), "w"(word));
  };
  quarter(sum.lo.lo, b.lo.lo), quarter(sum.lo.hi, b.lo.hi);
  quarter(sum.hi.lo, b.hi.lo), quarter(sum.hi.hi, b.hi.hi);
  return sum;
}
#endif

/// Adds two products of i16 to each i32 lane.
inline Vec add_products_of_shorts(Vec sum, Vec a, Vec b) {
#if defined(__AVX512BW__)
  return (Vec)_mm512_add_epi32((__m512i)sum, _mm512_madd_epi16((__m512i)a, (__m512i)b));
#elif defined(__AVX2__)
  const auto half = [](auto sums, auto first, auto second) {
    return (Register<float, 32>::type)_mm256_add_epi32((__m256i)sums,
                                                       _mm256_madd_epi16((__m256i)first, (__m256i)second));
  };
  return {half(sum.lo, a.lo, b.lo), half(sum.hi, a.hi, b.hi)};
#else
  const IVec x = bits_of(a), y = bits_of(b);
  return from_bits(bits_of(sum) + ((x << 16) >> 16) * ((y << 16) >> 16) + (x >> 16) * (y >> 16));
#endif
}

/// 16 numbers of 16 bits.
#if defined(__AVX2__)
typedef Register<std::int16_t, 32>::type Shorts;
#else
typedef Twice<Register<std::int16_t, 16>::type> Shorts;
#endif

#if defined(__AVX2__)
inline __m128i load_16(const std::uint8_t* at) {
  __m128i bytes;
  std::memcpy(&bytes, at, sizeof bytes);
  return bytes;
}
#endif

/// Widens 16 u8 to i16: (byte ^ flip) - zero.
inline Shorts shorts_of(const std::uint8_t* at, std::uint8_t flip, std::uint8_t zero) {
#if defined(__AVX2__)
  return (Shorts)_mm256_cvtepu8_epi16(load_16(at) ^ _mm_set1_epi8(static_cast<char>(flip))) - zero;
#else
  std::int16_t all[kLanes];
  for (int i = 0; i < kLanes; ++i) all[i] = static_cast<std::int16_t>((at[i] ^ flip) - zero);
  Shorts shorts;
  std::memcpy(&shorts, all, sizeof shorts);
  return shorts;
#endif
}

inline void store(std::int16_t* at, const Shorts& v) { std::memcpy(at, &v, sizeof v); }

/// Rounds floats in (-2^22, 2^22) to the nearest integer, ties to even.
inline IVec nearest(Vec v) {
  constexpr float kWhole = 12582912;  // 1.5 * 2^23: floats of this size have no fraction bits
  return bits_of(v + kWhole) - bits_of(splat(kWhole));
}

inline Vec floats_of(const IVec& whole) { return numbers_as<Vec>(whole); }

#if defined(__AVX512BW__)
/// Transposes the lanes as a 4 x 4 matrix.
inline IVec fours_turned(const IVec& v) {
  return __builtin_shuffle(v, IVec{0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15});
}
#endif

/// Rounds rows of 16 floats to bytes as ByteEpilogue describes, except its upper bound `most`: the caller applies that.
class ByteRows {
 public:
  explicit ByteRows(const ByteEpilogue& epilogue) {
    const auto least = static_cast<std::uint32_t>(static_cast<std::int32_t>(epilogue.least) + epilogue.zero);
    const auto all = [](std::uint32_t word) { return begin_of(static_cast<std::int32_t>(word) - IVec{}); };
    zero_ = all(static_cast<std::uint16_t>(epilogue.zero) * 0x10001u), least_ = all(least * 0x1010101u),
    flip_ = all(epilogue.flip * 0x1010101u), mask_ = all(~0u);
    if (epilogue.channels >= kLanes) return;
    std::uint8_t kept[sizeof mask_];
    for (std::size_t i = 0; i < sizeof kept; ++i)
      kept[i] = static_cast<std::int64_t>(i % kLanes) < epilogue.channels ? 0xff : 0;
    std::memcpy(&mask_, kept, sizeof kept);
  }

  /// Stores four rows, contiguous.
  void store(std::uint8_t* to, const std::array<Vec, 4>& rows) const {
#if defined(__AVX512BW__)
    const auto shorts = [&](const Vec& first, const Vec& second) {
      const auto whole = [](const Vec& v) { return _mm512_maskz_cvtps_epi32(kAll, (__m512)v); };
      return _mm512_adds_epi16(_mm512_packs_epi32(whole(first), whole(second)), zero_);
    };
    const __m512i bytes = _mm512_max_epu8(_mm512_packus_epi16(shorts(rows[0], rows[1]), shorts(rows[2], rows[3])),
                                          least_);
    put(to, ((__m512i)fours_turned((IVec)bytes) ^ flip_) & mask_);
#elif defined(__AVX2__)
    const auto shorts = [&](const Vec& v) {
      return _mm256_adds_epi16(_mm256_packs_epi32(_mm256_cvtps_epi32((__m256)v.lo), _mm256_cvtps_epi32((__m256)v.hi)),
                               zero_);
    };
    for (int i = 0; i < 4; i += 2) {
      const __m256i bytes = _mm256_max_epu8(_mm256_packus_epi16(shorts(rows[i]), shorts(rows[i + 1])), least_);
      put(to + i * kLanes,
          (_mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)) ^ flip_) & mask_);
    }
#else
    const auto zero = static_cast<std::int16_t>(zero_[0] | zero_[1] << 8);
    for (int i = 0; i < 4; ++i) {
      const IVec whole = nearest(max(rows[i], splat(-512))) + static_cast<std::int32_t>(zero),
                 least = least_[0] - IVec{};
      Row bytes;
      store_as(reinterpret_cast<std::uint8_t*>(&bytes), select(whole > least, whole, least));
      put(to + i * kLanes, (bytes ^ flip_) & mask_);
    }
#endif
  }

 private:
#if defined(__AVX512BW__)
  typedef __m512i Row;
#elif defined(__AVX2__)
  typedef __m256i Row;
#else
  typedef Register<std::uint8_t, kLanes>::type Row;
#endif
  static void put(std::uint8_t* to, const Row& row) { std::memcpy(to, &row, sizeof row); }
  template <class V>
  static Row begin_of(const V& v) {
    if constexpr (sizeof v > sizeof(Row))
      return begin_of(v.lo);
    else
      return (Row)v;
  }

  Row zero_, least_, flip_, mask_;
};

/// Loads 16 bytes as floats of byte ^ flip.
inline Vec load_bytes(const std::uint8_t* at, std::uint8_t flip) { return floats_of(load_as<IVec>(at) ^ flip); }

}  // namespace neurim::cpu::NEURIM_ISA
