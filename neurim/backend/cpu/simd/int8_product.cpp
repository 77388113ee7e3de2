#include "neurim/backend/cpu/int8/int8_product.h"
#if defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "neurim/backend/cpu/simd/bytes.h"
#define NEURIM_PRODUCT NEURIM_MAY_NAME_NARROW
#include "neurim/backend/cpu/simd/product.h"

namespace neurim::cpu::NEURIM_ISA {

namespace {

/// Scales the i32 sums of a row to floats, before rounding and limiting.
template <bool adds>
inline Vec real_of(const Vec& sum, std::int64_t at, const ByteEpilogue& epilogue) {
  const Vec v = floats_of(bits_of(sum)) * load(epilogue.scale) + load(epilogue.bias);
  if constexpr (!adds) return v;
  return v + (load_bytes(epilogue.add + at, epilogue.add_flip) - epilogue.add_zero) * epilogue.add_scale;
}

/// Writes rows of sums, which are contiguous, to rows of y that are `y_row` apart.
void finish(const float* sums, std::int64_t rows, std::int64_t y_row, const ByteEpilogue& epilogue, void* y) {
  const int lanes = static_cast<int>(std::min<std::int64_t>(kLanes, epilogue.channels)),
            written = epilogue.cut ? lanes : kLanes;
  const Vec least = splat(epilogue.least), most = splat(epilogue.most);
  const auto real = [&](std::int64_t row) {
    const Vec sum = load(sums + row * kLanes);
    return epilogue.add ? real_of<true>(sum, row * y_row, epilogue) : real_of<false>(sum, row * y_row, epilogue);
  };
  if (epilogue.floats) {
    auto* const to = static_cast<float*>(y);
    const IVec mask = first_mask(lanes);
    for (std::int64_t row = 0; row < rows; ++row) {
      const Vec v = from_bits(bits_of(limited(real(row), least, most)) & mask);
      written < kLanes ? store_partial(to + row * y_row, v, written) : store(to + row * y_row, v);
    }
    return;
  }
  const ByteRows bytes(epilogue);
  for (std::int64_t row = 0; row < rows; ++row) {
    const Vec v = min(most, real(row));
    std::uint8_t four[4 * kLanes];
    bytes.store(four, {v, v, v, v});
    std::memcpy(static_cast<std::uint8_t*>(y) + row * y_row, four, written);
  }
}

/// The same for sums in registers and contiguous output bytes.
template <bool adds, int T>
[[gnu::always_inline]] inline void put_rows(const Vec (&sums)[T], const ByteEpilogue& epilogue, std::uint8_t* to) {
  const Vec most = splat(epilogue.most);
  const ByteRows bytes(epilogue);
#pragma GCC unroll 32
  for (int t = 0; t < T; t += 4) {
    std::array<Vec, 4> rows;
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const int row = t + i < T ? t + i : T - 1;
      rows[i] = min(most, real_of<adds>(sums[row], row * kLanes, epilogue));
    }
    if (t + 4 <= T) {
      bytes.store(to + t * kLanes, rows);
    } else {
      std::uint8_t last[4 * kLanes];
      bytes.store(last, rows);
      std::memcpy(to + t * kLanes, last, (T - t) * kLanes);
    }
  }
}

/// The same for any epilogue.
template <int T>
[[gnu::always_inline]] inline void finish_in_registers(const Vec (&sums)[T], const ByteEpilogue& epilogue,
                                                       std::int64_t y_row, void* y) {
  if (epilogue.floats || y_row != kLanes) {
    alignas(64) float rows[T * kLanes];
#pragma GCC unroll 32
    for (int t = 0; t < T; ++t) store(rows + t * kLanes, sums[t]);
    return finish(rows, T, y_row, epilogue, y);
  }
  auto* const to = static_cast<std::uint8_t*>(y);
  epilogue.add ? put_rows<true>(sums, epilogue, to) : put_rows<false>(sums, epilogue, to);
}

/// The same for sums in memory.
template <int T>
void results_of(const std::int32_t* sums, const ByteEpilogue& epilogue, void* y) {
  Vec rows[T];
#pragma GCC unroll 4
  for (int t = 0; t < T; ++t) rows[t] = from_bits(load_as<IVec>(sums + t * kLanes));
  finish_in_registers(rows, epilogue, kLanes, y);
}

/// The same for bytes of whole fours of rows of sums in memory, of which what is the same for all is read once.
template <bool adds>
void put_fours(const std::int32_t* sums, std::int64_t rows, const ByteEpilogue& epilogue, std::uint8_t* to) {
  const Vec scale = load(epilogue.scale), bias = load(epilogue.bias), most = splat(epilogue.most),
            add_scale = splat(epilogue.add_scale), add_zero = splat(epilogue.add_zero);
  const std::uint8_t* const add = epilogue.add;
  const std::uint8_t flip = epilogue.add_flip;
  const ByteRows bytes(epilogue);
  for (std::int64_t row = 0; row < rows; row += 4) {
    std::array<Vec, 4> four;
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const std::int64_t at = (row + i) * kLanes;
      four[i] = floats_of(load_as<IVec>(sums + at)) * scale + bias;
      if constexpr (adds) four[i] += (load_bytes(add + at, flip) - add_zero) * add_scale;
      four[i] = min(most, four[i]);
    }
    bytes.store(to + row * kLanes, four);
  }
}

/// Byte factors with `words` words a row.
template <int words>
struct ByteFactors : Factors<words> {
  using Epilogue = ByteEpilogue;
  /// Writes block `block`, counted from where the epilogue begins.
  template <int T>
  [[gnu::always_inline]] static void finish(const Vec (&sums)[T], const BlockProduct& shape,
                                            const ByteEpilogue& epilogue, int block, float* y) {
    const std::int64_t at = block * shape.y_block;
    ByteEpilogue own = epilogue;
    own.scale += block * kLanes, own.bias += block * kLanes, own.channels -= block * kLanes;
    if (own.add) own.add += at;
    void* const to = own.floats ? static_cast<void*>(y + at) : reinterpret_cast<std::uint8_t*>(y) + at;
    finish_in_registers(sums, own, shape.y_row, to);
  }
};

// i32 sums + products with *x of pairs of i16, in assembly for the reason of plus_product() in block_product.cpp.
#if defined(__AVX2__) && !defined(__AVX512F__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
[[gnu::always_inline]] inline Vec plus_products_of_shorts(const Vec& sum, const float* x, const Vec& weight) {
  HalfVector lo = sum.lo, hi = sum.hi, value, product;
  asm("vpbroadcastd %4, %2\n\tvpmaddwd %5, %2, %3\n\tvpaddd %3, %0, %0\n\tvpmaddwd %6, %2, %2\n\tvpaddd %2, %1, %1"
      : "+x"(lo), "+x"(hi), "=&x"(value), "=&x"(product)
      : "m"(*x), "x"(weight.lo), "x"(weight.hi));
  return {lo, hi};
}
#else
inline Vec plus_products_of_shorts(const Vec& sum, const float* x, const Vec& weight) {
  return add_products_of_shorts(sum, weight, splat_bits(x));
}
#endif

#if defined(__AVX512F__) || defined(__aarch64__)
#define NEURIM_QUADS
/// Whether this machine has products of four bytes.
bool has_quads() { return has_vnni() || has_dot_products(); }
struct Quads : ByteFactors<kLanes / 4> {
  static Vec weights(const float* at) { return load(at); }
  NEURIM_MAY_NAME_NARROW static Vec multiply_add(Vec sum, Vec row, const float* x) {
    return add_products_of_quads(sum, x, row);
  }
};
#endif
struct ShortPairs : ByteFactors<kLanes / 2> {
  static Vec weights(const float* at) { return load(at); }
  static constexpr bool kUnrolled = kNamed;
  [[gnu::always_inline]] static Vec multiply_add(const Vec& sum, const Vec& row, const float* x) {
    return plus_products_of_shorts(sum, x, row);
  }
};
/// The same, but returns the sums.
struct SumsOfPairs : ShortPairs {
  template <int T>
  [[gnu::always_inline]] static void finish(const Vec (&sums)[T], const BlockProduct&, const ByteEpilogue&, int,
                                            float* y) {
#pragma GCC unroll 32
    for (int t = 0; t < T; ++t) store(y + t * kLanes, sums[t]);
  }
};

#if defined(__AVX512F__)
constexpr int kChannelRows = 28;
#else
constexpr int kChannelRows = 6;
#endif

/// Words of one channel each, broadcast from x.
struct ChannelShorts : ShortPairs {
  static Vec multiply(Vec sum, Vec row, Vec x) { return add_products_of_shorts(sum, row, x); }
};
#if defined(NEURIM_QUADS)
struct ChannelQuads : Quads {
  NEURIM_MAY_NAME_NARROW static Vec multiply(Vec sum, Vec row, Vec x) { return add_products_of_quads(sum, x, row); }
};
#endif

template <class F, int T>
NEURIM_PRODUCT void product_of_channels(const BlockProduct& shape, const float* x, const float* weight,
                                        const ByteEpilogue& epilogue, void* y) {
  Vec sums[T];
  const Vec first = from_bits(load_as<IVec>(epilogue.start));
#pragma GCC unroll 32
  for (int t = 0; t < T; ++t) sums[t] = first;
  for (std::int64_t tap = 0; tap < shape.tap_count; ++tap) {
    const auto own = F::weights(weight + tap * kLanes);
    const float* const rows = x + shape.taps[tap];
#pragma GCC unroll 32
    for (int t = 0; t < T; ++t) sums[t] = F::multiply(sums[t], own, load(rows + t * kLanes));
  }
  finish_in_registers(sums, epilogue, shape.y_row, y);
}
using ChannelProduct = void (*)(const BlockProduct&, const float*, const float*, const ByteEpilogue&, void*);
template <class F, int... T>
constexpr std::array<ChannelProduct, sizeof...(T)> channel_products(std::integer_sequence<int, T...>) {
  return {product_of_channels<F, T + 1>...};
}

/// Interleaves 16 channels of two pixels, as i16 less `zero`.
inline void pair_pixels(const std::uint8_t* first, const std::uint8_t* second, std::uint8_t zero, std::uint8_t* to) {
#if defined(__AVX2__)
  const __m128i a = load_16(first), b = load_16(second);
  const auto shorts = [&](__m128i pairs) {
    return _mm256_sub_epi16(_mm256_cvtepu8_epi16(pairs), _mm256_set1_epi16(zero));
  };
  const __m256i pairs[2] = {shorts(_mm_unpacklo_epi8(a, b)), shorts(_mm_unpackhi_epi8(a, b))};
  std::memcpy(to, pairs, sizeof pairs);
#else
  std::int16_t pairs[2 * kLanes];
  for (int i = 0; i < kLanes; ++i)
    pairs[2 * i] = static_cast<std::int16_t>(first[i] - zero),
              pairs[2 * i + 1] = static_cast<std::int16_t>(second[i] - zero);
  std::memcpy(to, pairs, sizeof pairs);
#endif
}

#if defined(__AVX512BW__)
/// Interleaves 16 channels of four pixels, whose bytes are `apart` from each other.
inline void transpose_pixels(const std::uint8_t* from, std::int64_t apart, std::uint8_t* to) {
  std::uint8_t pixels[4 * kLanes];
  if (apart != 1) {
    for (int i = 0; i < 4; ++i) std::memcpy(pixels + i * kLanes, from + i * apart * kLanes, kLanes);
    from = pixels;
  }
  const IVec together = fours_turned(load_as<IVec>(reinterpret_cast<const std::int32_t*>(from)));
  constexpr IVec kOrder = IVec{0x0c080400, 0x0d090501, 0x0e0a0602, 0x0f0b0703, 0x0c080400, 0x0d090501,
                               0x0e0a0602, 0x0f0b0703, 0x0c080400, 0x0d090501, 0x0e0a0602, 0x0f0b0703,
                               0x0c080400, 0x0d090501, 0x0e0a0602, 0x0f0b0703};
  store_as(reinterpret_cast<std::int32_t*>(to), (IVec)_mm512_shuffle_epi8((__m512i)together, (__m512i)kOrder));
}
#elif defined(__aarch64__)
inline void transpose_pixels(const std::uint8_t* from, std::int64_t apart, std::uint8_t* to) {
  const auto pixel = [&](int i) { return vld1q_u8(from + i * apart * kLanes); };
  vst4q_u8(to, {{pixel(0), pixel(1), pixel(2), pixel(3)}});
}
#endif

/// each_group() that also advances the epilogue and the output pointer.
template <class Each>
void each_group_of_bytes(std::int64_t rows, std::int64_t most, const ByteEpilogue& epilogue, void* y, Each each) {
  each_group(rows, most, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t at = begin * kLanes;
    ByteEpilogue own = epilogue;
    if (own.add) own.add += at;
    each(begin, end, own,
         own.floats ? static_cast<void*>(static_cast<float*>(y) + at) : static_cast<std::uint8_t*>(y) + at);
  });
}

template <class F>
void multiply_bytes(const BlockProduct& shape, std::int64_t blocks, const float* x, const float* weight,
                    const ByteEpilogue& epilogue, void* y) {
  cut<F>(shape, 0, blocks, [&](const Product<F>* product_of, int most, std::int64_t block) {
    ByteEpilogue of_block = epilogue;
    of_block.start += block * kLanes, of_block.scale += block * kLanes, of_block.bias += block * kLanes,
        of_block.channels -= block * kLanes;
    each_group(shape.rows, most, [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t at = block * shape.y_block + begin * shape.y_row;
      ByteEpilogue own = of_block;
      if (own.add) own.add += at;
      float* const to = own.floats ? static_cast<float*>(y) + at
                                   : reinterpret_cast<float*>(static_cast<std::uint8_t*>(y) + at);
      product_of[end - begin - 1](shape, x + begin * F::kWords, weight + block * shape.weight_block, own, begin == 0,
                                  {}, to);
    });
  });
}

}  // namespace

void byte_product(const BlockProduct& shape, std::int64_t blocks, const void* x, const void* weight,
                  const ByteEpilogue& epilogue, void* y) {
  const auto *const words = static_cast<const float*>(x), *const factors = static_cast<const float*>(weight);
#if defined(NEURIM_QUADS)
  if (has_quads()) return multiply_bytes<Quads>(shape, blocks, words, factors, epilogue, y);
#endif
  multiply_bytes<ShortPairs>(shape, blocks, words, factors, epilogue, y);
}

void byte_sums(const BlockProduct& shape, const void* x, const void* weight, std::int32_t* y) {
  static constexpr std::int32_t kZeros[kLanes] = {};
  multiply_bytes<SumsOfPairs>(shape, 1, static_cast<const float*>(x), static_cast<const float*>(weight),
                              {.start = kZeros, .floats = true}, y);
}

void byte_results(const std::int32_t* sums, std::int64_t rows, const ByteEpilogue& given, void* y) {
  ByteEpilogue epilogue = given;
  if (!epilogue.floats) {
    const std::int64_t fours = rows / 4 * 4;
    auto* const to = static_cast<std::uint8_t*>(y);
    epilogue.add ? put_fours<true>(sums, fours, epilogue, to) : put_fours<false>(sums, fours, epilogue, to);
    if (fours == rows) return;
    sums += fours * kLanes, rows -= fours, y = to + fours * kLanes;
    if (epilogue.add) epilogue.add += fours * kLanes;
  }
  static constexpr std::array kAll{results_of<1>, results_of<2>, results_of<3>, results_of<4>};
  each_group_of_bytes(rows, std::ssize(kAll), epilogue, y,
                      [&](std::int64_t begin, std::int64_t end, const ByteEpilogue& own, void* to) {
                        kAll[end - begin - 1](sums + begin * kLanes, own, to);
                      });
}

void channel_product(const BlockProduct& shape, const void* x, const void* weight, const ByteEpilogue& epilogue,
                     void* y) {
  static constexpr auto kAll = channel_products<ChannelShorts>(std::make_integer_sequence<int, kChannelRows>());
  const auto* product_of = kAll.data();
#if defined(NEURIM_QUADS)
  static constexpr auto kNative = channel_products<ChannelQuads>(std::make_integer_sequence<int, kChannelRows>());
  if (has_quads()) product_of = kNative.data();
#endif
  each_group_of_bytes(shape.rows, kChannelRows, epilogue, y,
                      [&](std::int64_t begin, std::int64_t end, const ByteEpilogue& own, void* to) {
                        product_of[end - begin - 1](shape, static_cast<const float*>(x) + begin * kLanes,
                                                    static_cast<const float*>(weight), own, to);
                      });
}

void words_of_channels(const std::uint8_t* from, std::int64_t columns, std::int64_t step, std::int64_t apart,
                       std::uint8_t zero, std::uint8_t* to) {
#if defined(NEURIM_QUADS)
  if (has_quads()) {
    for (std::int64_t column = 0; column < columns; ++column, from += step * kLanes, to += 4 * kLanes)
      transpose_pixels(from, apart, to);
    return;
  }
#endif
  for (std::int64_t column = 0; column < columns; ++column, from += step * kLanes, to += 4 * kLanes)
    pair_pixels(from, from + apart * kLanes, zero, to);
}

void widen_bytes(const std::uint8_t* from, std::int64_t apart, std::int64_t pixels, std::uint8_t flip,
                 std::uint8_t zero, std::int16_t* to) {
  for (std::int64_t pixel = 0; pixel < pixels; ++pixel, from += apart, to += kLanes)
    store(to, shorts_of(from, flip, zero));
}

}  // namespace neurim::cpu::NEURIM_ISA
