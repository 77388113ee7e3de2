// Products of bytes, summed up in i32: of four u8 and i8 in the place of a float by AVX512-VNNI where the machine has
// it (has_vnni()), and elsewhere of two, widened to 16 bits. These are the same numbers: no sum is cut short.
#pragma once
#include <array>

#include "neurim/backend/cpu/int8/int8_product.h"
#include "neurim/backend/cpu/simd/storage.h"
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

/// sum + the two products of pairs of i16.
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

/// 16 u8, after their bits have been changed by `flip`, less `zero`.
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

/// The nearest whole numbers, ties to even, of floats in (-2^22, 2^22).
inline IVec nearest(Vec v) {
  constexpr float kWhole = 12582912;  // 1.5 2^23: such floats have no digits behind the point
  return bits_of(v + kWhole) - bits_of(splat(kWhole));
}

inline Vec floats_of(const IVec& whole) { return numbers_as<Vec>(whole); }

#if defined(__AVX512BW__)
/// Four times four lanes, column by column.
inline IVec fours_turned(const IVec& v) {
  return __builtin_shuffle(v, IVec{0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15});
}
#endif

/// Makes bytes of rows of 16 numbers, as ByteEpilogue says, but that these are no larger than `most`.
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

  /// Four rows, one behind the other.
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

/// 16 u8 as floats, after their bits have been changed by `flip`.
inline Vec load_bytes(const std::uint8_t* at, std::uint8_t flip) { return floats_of(load_as<IVec>(at) ^ flip); }

}  // namespace neurim::cpu::NEURIM_ISA
