#include "neurim/backend/cpu/block_product.h"

#include "neurim/backend/cpu/simd_bytes.h"
#define NEURIM_PRODUCT NEURIM_MAY_NAME_NARROW
#include "neurim/backend/cpu/simd_product.h"

namespace neurim::cpu::NEURIM_ISA {

namespace {

/// What is multiplied: floats, or pairs of halves or quads of bytes by two ways each.
struct Floats : Factors<kLanes> {
  static Vec weights(const float* at) { return load(at); }
  static Vec multiply_add(Vec sum, Vec row, const float* x) { return sum + row * splat(*x); }
};
struct PairRow {
  Vec first, second;
};
struct Pairs : Factors<kLanes / 2, Bf16<false>> {
  static PairRow weights(const float* at) { return {first_of_pairs(load(at)), second_of_pairs(load(at))}; }
  static Vec multiply_add(Vec sum, const PairRow& row, const float* x) {
    const Vec pair = splat_bits(x);
    return sum + row.first * first_of_pairs(pair) + row.second * second_of_pairs(pair);
  }
};
struct F16Pairs : Factors<kLanes / 2, F16> {
  static PairRow weights(const float* at) {
    const Bits pairs = load_as<Bits>(reinterpret_cast<const std::uint32_t*>(at));
    return {f16_floats(pairs & 0xffff), f16_floats(pairs >> 16)};
  }
  static Vec multiply_add(Vec sum, const PairRow& row, const float* x) {
    std::uint16_t pair[2];
    std::memcpy(pair, x, sizeof pair);
    return sum + row.first * splat(f16_float(pair[0])) + row.second * splat(f16_float(pair[1]));
  }
};
#if defined(__AVX512F__)
struct NativePairs : Factors<kLanes / 2, Bf16<true>> {
  static Vec weights(const float* at) { return load(at); }
  NEURIM_MAY_NAME_NARROW static Vec multiply_add(Vec sum, Vec row, const float* x) { return add_products_of_pairs(sum, row, splat_bits(x)); }
};
struct NativeQuads : Factors<kLanes / 4, void, true> {
  static Vec weights(const float* at) { return load(at); }
  NEURIM_MAY_NAME_NARROW static Vec multiply_add(Vec sum, Vec row, const float* x) { return add_products_of_quads(sum, splat_bits(x), row); }
};
#endif
struct Quads : Factors<kLanes / 4, void, true> {
  struct Row {
    Vec even, odd;
  };
  static Row weights(const float* at) { return {even_of_i8(load(at)), odd_of_i8(load(at))}; }
  static Vec multiply_add(Vec sum, const Row& row, const float* x) {
    const Vec quad = splat_bits(x);
    return add_products_of_shorts(add_products_of_shorts(sum, row.even, even_of_u8(quad)), row.odd, odd_of_u8(quad));
  }
};

#if defined(__AVX512F__)
constexpr int kGroupRows = 14;
#else
constexpr int kGroupRows = 4;
#endif

/// Floats of groups of `width` channels: an input channel is multiplied by the weights of its group's lanes.
template <int width>
struct Groups : Factors<kLanes> {
  /// The taps of one block for T rows.
  template <int T>
  static void add(const BlockProduct& shape, const float* x, const float* weight, Vec (&sums)[1][T]) {
    for (std::int64_t tap = 0; tap < shape.tap_count; ++tap, weight += width * kLanes) {
      const float* const rows = shape.taps ? x + shape.taps[tap] : x;
      [&]<int... i>(std::integer_sequence<int, i...>) {
        const Vec own[] = {load(weight + i * kLanes)...};
#pragma GCC unroll 32
        for (int t = 0; t < T; ++t) {
          const Vec row = load(rows + t * kLanes);
          ((sums[0][t] += one_of_each<width, i>(row) * own[i]), ...);
        }
      }(std::make_integer_sequence<int, width>());
    }
  }
};

/// Rows of sums, one behind the other: i32 in the place of floats, or floats.
template <bool whole>
void finish(const float* sums, std::int64_t rows, std::int64_t y_row, const ByteEpilogue& epilogue, void* y) {
  const int lanes = static_cast<int>(std::min<std::int64_t>(kLanes, epilogue.channels));
  const Vec scale = load(epilogue.scale), bias = load(epilogue.bias), least = splat(epilogue.least), most = splat(epilogue.most);
  const IVec zero = epilogue.zero - IVec{}, mask = first_mask(lanes);
  // A loop for each form: what does not change is decided before it.
  const auto all_rows = [&](auto adds, auto put) {
    const float* from = sums;
    const std::uint8_t* other = epilogue.add;
    const Vec add_scale = splat(epilogue.add_scale), add_zero = splat(epilogue.add_zero);
    const std::uint8_t flip = epilogue.add_flip;
    for (std::int64_t row = 0; row < rows; ++row, from += kLanes) {
      Vec v = (whole ? floats_of(bits_of(load(from))) : load(from)) * scale + bias;
      if constexpr (adds) v = v + (load_bytes(other + row * y_row, flip) - add_zero) * add_scale;
      put(limited(v, least, most), row * y_row);
    }
  };
  const auto each = [&](auto put) { epilogue.add ? all_rows(std::true_type(), put) : all_rows(std::false_type(), put); };
  const auto bytes_of = [=](const Vec& v) { return (nearest(v) + zero) & mask; };
  const auto floats_of_row = [=](Vec v) { return from_bits(bits_of(v) & mask); };
  auto* const floats = static_cast<float*>(y);
  auto* const bytes = static_cast<std::uint8_t*>(y);
  const bool part = epilogue.cut && lanes < kLanes;
  if (epilogue.floats && part) return each([=](Vec v, std::int64_t at) { store_part(floats + at, floats_of_row(v), lanes); });
  if (epilogue.floats) return each([=](Vec v, std::int64_t at) { store(floats + at, floats_of_row(v)); });
  if (part)
    return each([=](Vec v, std::int64_t at) {
      std::uint8_t row[kLanes];
      store_as(row, bytes_of(v));
      std::memcpy(bytes + at, row, static_cast<std::size_t>(lanes));
    });
  each([=](const Vec& v, std::int64_t at) { store_as(bytes + at, bytes_of(v)); });
}

template <class Factors>
void multiply_bytes(const BlockProduct& shape, std::int64_t blocks, const float* x, const float* weight, const ByteEpilogue& epilogue,
                    void* y) {
  alignas(64) float sums[kRows[0] * kLanes];
  cut<Factors>(shape, blocks, [&](Product product, std::int64_t block, std::int64_t together, std::int64_t begin, std::int64_t end) {
    BlockProduct own = shape;
    own.y_row = kLanes, own.y_block = (end - begin) * kLanes;
    product(own, x + begin * Factors::kWords, weight + block * shape.weight_block,
            {reinterpret_cast<const float*>(epilogue.start + block * kLanes)}, begin == 0, {}, sums);
    for (std::int64_t b = block; b < block + together; ++b) {
      const std::int64_t at = b * shape.y_block + begin * shape.y_row;
      ByteEpilogue of_block = epilogue;
      of_block.scale += b * kLanes, of_block.bias += b * kLanes, of_block.channels -= b * kLanes;
      if (epilogue.add) of_block.add += at;
      void* const to = epilogue.floats ? static_cast<void*>(static_cast<float*>(y) + at) : static_cast<std::uint8_t*>(y) + at;
      finish<true>(sums + (b - block) * own.y_block, end - begin, shape.y_row, of_block, to);
    }
  });
}

template <class Kind>
NEURIM_MAY_NAME_NARROW void pair_up(const float* x, std::int64_t x_row, std::int64_t first, std::int64_t last, std::int64_t rows, int lanes,
                                  float* to) {
  const auto row = [&](std::int64_t number) {
    const Vec all = number >= first && number < last ? load(x + (number - first) * x_row) : Vec{};
    return lanes < kLanes ? first_lanes(all, lanes) : all;
  };
  for (std::int64_t number = 0; number < rows; number += 2, to += kLanes) store(to, Kind::pairs(row(number), row(number + 1)));
}

template <class Kind>
void round_rows(const float* x, std::int64_t x_block, std::int64_t x_row, std::int64_t rows, std::int64_t channels, float* to) {
  for (std::int64_t left = channels; left > 0; left -= kLanes, x += x_block)
    for (std::int64_t row = 0; row < rows; ++row, to += kLanes / 2) {
      const Vec all = load(x + row * x_row);
      Kind::store(to, left < kLanes ? first_lanes(all, static_cast<int>(left)) : all);
    }
}

template <class Kind>
void round_planes(const float* x, std::int64_t plane, std::int64_t channels, std::int64_t pixels, std::uint16_t* to) {
  for (std::int64_t channel = 0; channel < channels; ++channel, x += plane)
    for (std::int64_t pixel = 0; pixel < pixels; pixel += kLanes) {
      const int count = static_cast<int>(std::min<std::int64_t>(kLanes, pixels - pixel));
      alignas(64) float words[kLanes / 2];
      std::uint16_t rounded[kLanes];
      Kind::store(words, count == kLanes ? load(x + pixel) : load_part(x + pixel, count));
      std::memcpy(rounded, words, sizeof rounded);
      for (int i = 0; i < count; ++i) to[(pixel + i) * channels + channel] = rounded[i];
    }
}

}  // namespace

void block_product(const BlockProduct& shape, std::int64_t blocks, const float* x, const float* weight,
                   const BlockEpilogue& epilogue, float* y) {
  auto factors = shape.pairs == Half::f16 ? multiply<F16Pairs> : shape.pairs ? multiply<Pairs> : multiply<Floats>;
#if defined(__AVX512F__)
  if (shape.pairs == Half::bf16 && has_bf16()) factors = multiply<NativePairs>;
  if (shape.pairs == Half::f16 && has_f16()) factors = f16_product;
#endif
  factors(shape, blocks, x, weight, epilogue, y);
  if (epilogue.beyond) streamed();
}

void group_product([[maybe_unused]] const BlockProduct& shape, [[maybe_unused]] int width, [[maybe_unused]] const float* x,
                   [[maybe_unused]] const float* weight, [[maybe_unused]] const BlockEpilogue& epilogue, [[maybe_unused]] float* y) {
#if defined(__AVX2__)
  static constexpr auto kOfFour = products<Groups<4>, 1>(std::make_integer_sequence<int, kGroupRows>());
  static constexpr auto kOfEight = products<Groups<8>, 1>(std::make_integer_sequence<int, kGroupRows>());
  const auto* const product_of = width == 4 ? kOfFour.data() : kOfEight.data();
  each_group(shape.rows, kGroupRows, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t at = begin * shape.y_row;
    BlockEpilogue own = epilogue;
    if (epilogue.add) own.add += at;
    product_of[end - begin - 1](shape, x + begin * kLanes, weight, own, false, {}, y + at);
  });
  if (epilogue.beyond) streamed();
#else
  __builtin_unreachable();
#endif
}

void byte_product(const BlockProduct& shape, std::int64_t blocks, const void* x, const void* weight, const ByteEpilogue& epilogue,
                  void* y) {
  const auto *const quads = static_cast<const float*>(x), *const factors = static_cast<const float*>(weight);
#if defined(__AVX512F__)
  if (has_vnni()) return multiply_bytes<NativeQuads>(shape, blocks, quads, factors, epilogue, y);
#endif
  multiply_bytes<Quads>(shape, blocks, quads, factors, epilogue, y);
}

void finish_bytes(const float* sums, std::int64_t rows, std::int64_t y_row, const ByteEpilogue& epilogue, void* y) {
  finish<false>(sums, rows, y_row, epilogue, y);
}

void floats_of_bytes(const std::uint8_t* from, std::int64_t pixels, std::uint8_t flip, std::uint8_t zero, float* to) {
  const Vec least = splat(zero);
  for (std::int64_t pixel = 0; pixel < pixels; ++pixel, from += kLanes, to += kLanes) store(to, load_bytes(from, flip) - least);
}

void block_weight_grad(const BlockWeightGrad& shape, std::int64_t blocks, const float* x, const float* dy, bool add, float* dw) {
  if (!shape.pairs) return weight_grads<Floats>(shape, blocks, x, dy, add, dw);
  auto factors = shape.pairs == Half::f16 ? weight_grads<F16Pairs> : weight_grads<Pairs>;
#if defined(__AVX512F__)
  if (shape.pairs == Half::bf16 && has_bf16()) factors = weight_grads<NativePairs>;
  if (shape.pairs == Half::f16 && has_f16()) factors = f16_weight_grad;
#endif
  factors(shape, blocks, x, dy, add, dw);
}

void pair_rows(Half half, const float* x, std::int64_t x_row, std::int64_t first, std::int64_t last, std::int64_t rows, int lanes, float* to) {
  with_kind(half, [&](auto kind) { pair_up<decltype(kind)>(x, x_row, first, last, rows, lanes, to); });
}

void pair_rounded_rows(const std::uint16_t* x, std::int64_t x_row, std::int64_t first, std::int64_t last, std::int64_t rows, int lanes,
                       float* to) {
  const IVec kept = first_mask(lanes);
  const auto row = [&](std::int64_t number) {
    return number >= first && number < last ? load_as<IVec>(x + (number - first) * x_row) & kept : IVec{};
  };
  for (std::int64_t number = 0; number < rows; number += 2, to += kLanes) store(to, from_bits(row(number) | row(number + 1) << 16));
}

void round_to_pairs(Half half, const float* x, std::int64_t x_block, std::int64_t x_row, std::int64_t rows, std::int64_t channels, float* to) {
  with_kind(half, [&](auto kind) { round_rows<decltype(kind)>(x, x_block, x_row, rows, channels, to); });
}

void round_interleaved(Half half, const float* x, std::int64_t plane, std::int64_t channels, std::int64_t pixels, std::uint16_t* to) {
  with_kind(half, [&](auto kind) { round_planes<decltype(kind)>(x, plane, channels, pixels, to); });
}

}  // namespace neurim::cpu::NEURIM_ISA
