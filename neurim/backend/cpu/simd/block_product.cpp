#include "neurim/backend/cpu/block_product.h"

#include <algorithm>
#include <array>
#include <utility>

#include "neurim/backend/cpu/simd.h"
#include "neurim/backend/cpu/simd_bytes.h"

namespace neurim::cpu::NEURIM_ISA {

namespace {

/// Rows of which 1, 2 or 3 blocks stay in registers, beside weights and a broadcast value; and how many blocks go together however many
/// rows there are.
#if defined(__AVX512F__)
constexpr int kRows[] = {28, 14, 9}, kTogether = 2, kGradRows = 8, kGroupRows = 14;
#else
constexpr int kRows[] = {6, 2, 1}, kTogether = 1, kGradRows = 2, kGroupRows = 4;
#endif

/// What is multiplied: floats, or pairs of bf16 or quads of bytes by two ways each.
struct Floats {
  static constexpr int kWords = kLanes;  ///< of a row of a block
  static constexpr bool kWhole = false;  ///< sums are i32 in the place of floats
  static constexpr bool kPairs = false, kNative = false;
  static Vec weights(const float* at) { return load(at); }
  static Vec multiply_add(Vec sum, Vec row, const float* x) { return sum + row * splat(*x); }
};
struct Pairs {
  static constexpr int kWords = kLanes / 2;
  static constexpr bool kWhole = false;
  static constexpr bool kPairs = true, kNative = false;
  struct Row {
    Vec first, second;
  };
  static Row weights(const float* at) { return {first_of_pairs(load(at)), second_of_pairs(load(at))}; }
  static Vec multiply_add(Vec sum, const Row& row, const float* x) {
    const Vec pair = splat_bits(x);
    return sum + row.first * first_of_pairs(pair) + row.second * second_of_pairs(pair);
  }
};
#if defined(__AVX512F__)
struct NativePairs {
  static constexpr int kWords = kLanes / 2;
  static constexpr bool kWhole = false;
  static constexpr bool kPairs = true, kNative = true;
  static Vec weights(const float* at) { return load(at); }
  NEURIM_MAY_NAME_NARROW static Vec multiply_add(Vec sum, Vec row, const float* x) { return add_products_of_pairs(sum, row, splat_bits(x)); }
};
struct NativeQuads {
  static constexpr int kWords = kLanes / 4;
  static constexpr bool kWhole = true;
  static constexpr bool kPairs = false;
  static Vec weights(const float* at) { return load(at); }
  NEURIM_MAY_NAME_NARROW static Vec multiply_add(Vec sum, Vec row, const float* x) { return add_products_of_quads(sum, splat_bits(x), row); }
};
#endif
struct Quads {
  static constexpr int kWords = kLanes / 4;
  static constexpr bool kWhole = true;
  static constexpr bool kPairs = false;
  struct Row {
    Vec even, odd;
  };
  static Row weights(const float* at) { return {even_of_i8(load(at)), odd_of_i8(load(at))}; }
  static Vec multiply_add(Vec sum, const Row& row, const float* x) {
    const Vec quad = splat_bits(x);
    return add_products_of_shorts(add_products_of_shorts(sum, row.even, even_of_u8(quad)), row.odd, odd_of_u8(quad));
  }
};

/// Floats of groups of `width` channels: an input channel is multiplied by the weights of its group's lanes.
template <int width>
struct Groups {
  static constexpr int kWords = kLanes, kGroup = width;
  static constexpr bool kWhole = false;
  static constexpr bool kPairs = false, kNative = false;
};

/// The taps of one block for T rows.
template <int width, int T>
void add_groups(const BlockProduct& shape, const float* x, const float* weight, Vec (&sums)[1][T]) {
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

/// B blocks of T rows, kept in registers over all input channels. `ahead`: the weights of the next blocks are fetched meanwhile, which
/// may lie in DRAM.
template <class Factors, int B, int T>
NEURIM_MAY_NAME_NARROW void product(const BlockProduct& shape, const float* x, const float* weight, const BlockEpilogue& epilogue, bool ahead,
                                    float* y) {
  Vec sums[B][T];
#pragma GCC unroll 32
  for (int b = 0; b < B; ++b) {
    const Vec first = epilogue.bias ? load(epilogue.bias + b * kLanes) : Vec{};
#pragma GCC unroll 32
    for (int t = 0; t < T; ++t) sums[b][t] = first;
  }
  constexpr int kWords = Factors::kWords, kTogether = kLanes / kWords;
  const std::int64_t weight_block = shape.weight_block;
  const float* own = weight;
  if constexpr (requires { Factors::kGroup; }) {
    add_groups<Factors::kGroup>(shape, x, weight, sums);
  } else for (std::int64_t left = shape.in_channels; left > 0; left -= kLanes, x += shape.x_block) {
    const int words = static_cast<int>((std::min<std::int64_t>(left, kLanes) + kTogether - 1) / kTogether);
    if (shape.fetch) shape.fetch->some();
    for (std::int64_t tap = 0; tap < shape.tap_count; ++tap, own += kWords * kLanes) {
      const float* const rows = shape.taps ? x + shape.taps[tap] : x;
      if (shape.weight_taps) own = weight + shape.weight_taps[tap];
#pragma GCC unroll 2
      for (int i = 0; i < words; ++i) {
        decltype(Factors::weights(own)) row[B];
#pragma GCC unroll 32
        for (int b = 0; b < B; ++b) row[b] = Factors::weights(own + b * weight_block + i * kLanes);
        if (ahead) {
#pragma GCC unroll 32
          for (int b = 0; b < B; ++b) __builtin_prefetch(own + (B + b) * weight_block + i * kLanes, 0, 2);
        }
#pragma GCC unroll 32
        for (int t = 0; t < T; ++t)
#pragma GCC unroll 32
          for (int b = 0; b < B; ++b) sums[b][t] = Factors::multiply_add(sums[b][t], row[b], rows + t * kWords + i);
      }
    }
    if (shape.weight_taps) weight += shape.weight_in;
  }
  const Vec least = splat(epilogue.relu.on ? 0.0f : -__builtin_inff()), most = splat(epilogue.relu.most);
#pragma GCC unroll 32
  for (int b = 0; b < B; ++b)
#pragma GCC unroll 32
    for (int t = 0; t < T; ++t) {
      const std::int64_t at = b * shape.y_block + t * shape.y_row;
      if constexpr (Factors::kWhole) {
        store(y + at, sums[b][t]);
      } else {
        Vec sum = sums[b][t];
        if (Factors::kPairs && epilogue.add_rounded)
          sum += Rounded::get(epilogue.add, at);
        else if (epilogue.add)
          sum += load(epilogue.add + at);
        const Vec result = limited(sum, least, most);
        if constexpr (Factors::kPairs)
          if (epilogue.rounds) {
            store_pairs<Factors::kNative>(y + at / 2, result);
            continue;
          }
        epilogue.beyond ? stream(y + at, result) : store(y + at, result);
      }
    }
}

using Product = void (*)(const BlockProduct&, const float*, const float*, const BlockEpilogue&, bool, float*);

/// The products of 1 to T rows.
template <class Factors, int B, int... T>
constexpr std::array<Product, sizeof...(T)> products(std::integer_sequence<int, T...>) {
  return {product<Factors, B, T + 1>...};
}

/// Calls each(begin, end) for groups of nearly equal length, as few as hold at most `most` rows each.
template <class Each>
void each_group(std::int64_t rows, std::int64_t most, Each each) {
  const std::int64_t groups = (rows + most - 1) / most;
  for (std::int64_t g = 0; g < groups; ++g) each(rows * g / groups, rows * (g + 1) / groups);
}

/// Calls `each` with the products of which a result is made: which it is, and its blocks [block, block + together) and rows [begin, end).
template <class Factors, class Each>
void cut(const BlockProduct& shape, std::int64_t blocks, Each each) {
  static constexpr auto kOne = products<Factors, 1>(std::make_integer_sequence<int, kRows[0]>());
  static constexpr auto kTwo = products<Factors, 2>(std::make_integer_sequence<int, kRows[1]>());
  static constexpr auto kThree = products<Factors, 3>(std::make_integer_sequence<int, kRows[2]>());
  for (std::int64_t block = 0, together = 0; block < blocks; block += together) {
    together = std::min<std::int64_t>(shape.rows <= kRows[2] ? 3 : shape.rows <= kRows[1] ? 2 : shape.rows <= kRows[0] ? 1 : kTogether, blocks - block);
    const auto* const product_of = together == 3 ? kThree.data() : together == 2 ? kTwo.data() : kOne.data();
    each_group(shape.rows, kRows[together - 1], [&](std::int64_t begin, std::int64_t end) {
      each(product_of[end - begin - 1], block, together, begin, end);
    });
  }
}

template <class Factors>
void multiply(const BlockProduct& shape, std::int64_t blocks, const float* x, const float* weight, const BlockEpilogue& epilogue,
              float* y) {
  cut<Factors>(shape, blocks, [&](Product product, std::int64_t block, std::int64_t, std::int64_t begin, std::int64_t) {
    const std::int64_t at = block * shape.y_block + begin * shape.y_row;
    BlockEpilogue own = epilogue;
    if (epilogue.bias) own.bias += block * kLanes;
    if (epilogue.add) own.add += epilogue.add_rounded ? at / 2 : at;
    product(shape, x + begin * Factors::kWords, weight + block * shape.weight_block, own, begin == 0 && !shape.fetch,
            y + (epilogue.rounds ? at / 2 : at));
  });
}

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
            {reinterpret_cast<const float*>(epilogue.start + block * kLanes)}, begin == 0, sums);
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

/// kGradRows input channels of B blocks, kept in registers over all rows.
template <class Factors, int B>
NEURIM_MAY_NAME_NARROW void weight_grad(const BlockWeightGrad& shape, const float* x, const float* dy, bool add, float* dw) {
  Vec sums[B][kGradRows];
#pragma GCC unroll 8
  for (int b = 0; b < B; ++b)
#pragma GCC unroll 8
    for (int i = 0; i < kGradRows; ++i) sums[b][i] = Vec{};
  const std::int64_t dy_block = shape.dy_block;
  for (std::int64_t run = 0; run < shape.images * shape.runs; ++run) {
    const float* value = x + run / shape.runs * shape.x_image + run % shape.runs * shape.x_run;
    for (std::int64_t row = 0; row < shape.rows; ++row, value += kLanes, dy += kLanes) {
      const float* const gradient = dy;
      decltype(Factors::weights(gradient)) own[B];
#pragma GCC unroll 8
      for (int b = 0; b < B; ++b) own[b] = Factors::weights(gradient + b * dy_block);
#pragma GCC unroll 8
      for (int i = 0; i < kGradRows; ++i)
#pragma GCC unroll 8
        for (int b = 0; b < B; ++b) sums[b][i] = Factors::multiply_add(sums[b][i], own[b], value + i);
    }
  }
#pragma GCC unroll 8
  for (int b = 0; b < B; ++b)
#pragma GCC unroll 8
    for (int i = 0; i < kGradRows; ++i) {
      float* const to = dw + b * shape.in_blocks * shape.weight_block + i * kLanes;
      store(to, add ? load(to) + sums[b][i] : sums[b][i]);
    }
}

template <class Factors>
void weight_grads(const BlockWeightGrad& shape, std::int64_t blocks, const float* x, const float* dy, bool add, float* dw) {
  for (std::int64_t block = 0; block < blocks; block += 2)
    for (std::int64_t in = 0; in < shape.in_blocks * kLanes; in += kGradRows) {
      const float *const values = x + in / kLanes * shape.x_block + in % kLanes, *const gradients = dy + block * shape.dy_block;
      float* const sums = dw + (block * shape.in_blocks + in / kLanes) * shape.weight_block + in % kLanes * kLanes;
      (block + 1 < blocks ? weight_grad<Factors, 2> : weight_grad<Factors, 1>)(shape, values, gradients, add, sums);
    }
}

template <bool native>
NEURIM_MAY_NAME_NARROW void pair_up(const float* x, std::int64_t x_row, std::int64_t first, std::int64_t last, std::int64_t rows, int lanes,
                                  float* to) {
  const auto row = [&](std::int64_t number) {
    const Vec all = number >= first && number < last ? load(x + (number - first) * x_row) : Vec{};
    return lanes < kLanes ? first_lanes(all, lanes) : all;
  };
  for (std::int64_t number = 0; number < rows; number += 2, to += kLanes) store(to, pairs_of<native>(row(number), row(number + 1)));
}

template <bool native>
void round_rows(const float* x, std::int64_t x_block, std::int64_t x_row, std::int64_t rows, std::int64_t channels, float* to) {
  for (std::int64_t left = channels; left > 0; left -= kLanes, x += x_block)
    for (std::int64_t row = 0; row < rows; ++row, to += kLanes / 2) {
      const Vec all = load(x + row * x_row);
      store_pairs<native>(to, left < kLanes ? first_lanes(all, static_cast<int>(left)) : all);
    }
}

template <bool native>
void round_planes(const float* x, std::int64_t plane, std::int64_t channels, std::int64_t pixels, std::uint16_t* to) {
  for (std::int64_t channel = 0; channel < channels; ++channel, x += plane)
    for (std::int64_t pixel = 0; pixel < pixels; pixel += kLanes) {
      const int count = static_cast<int>(std::min<std::int64_t>(kLanes, pixels - pixel));
      alignas(64) float words[kLanes / 2];
      std::uint16_t rounded[kLanes];
      store_pairs<native>(words, count == kLanes ? load(x + pixel) : load_part(x + pixel, count));
      std::memcpy(rounded, words, sizeof rounded);
      for (int i = 0; i < count; ++i) to[(pixel + i) * channels + channel] = rounded[i];
    }
}

}  // namespace

void block_product(const BlockProduct& shape, std::int64_t blocks, const float* x, const float* weight,
                   const BlockEpilogue& epilogue, float* y) {
  auto factors = shape.pairs ? multiply<Pairs> : multiply<Floats>;
#if defined(__AVX512F__)
  if (shape.pairs && has_bf16()) factors = multiply<NativePairs>;
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
    product_of[end - begin - 1](shape, x + begin * kLanes, weight, own, false, y + at);
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
#if defined(__AVX512F__)
  if (has_bf16()) return weight_grads<NativePairs>(shape, blocks, x, dy, add, dw);
#endif
  weight_grads<Pairs>(shape, blocks, x, dy, add, dw);
}

void pair_rows(const float* x, std::int64_t x_row, std::int64_t first, std::int64_t last, std::int64_t rows, int lanes, float* to) {
  (has_bf16() ? pair_up<true> : pair_up<false>)(x, x_row, first, last, rows, lanes, to);
}

void pair_rounded_rows(const std::uint16_t* x, std::int64_t x_row, std::int64_t first, std::int64_t last, std::int64_t rows, int lanes,
                       float* to) {
  const IVec kept = first_mask(lanes);
  const auto row = [&](std::int64_t number) {
    return number >= first && number < last ? load_as<IVec>(x + (number - first) * x_row) & kept : IVec{};
  };
  for (std::int64_t number = 0; number < rows; number += 2, to += kLanes) store(to, from_bits(row(number) | row(number + 1) << 16));
}

void round_to_pairs(const float* x, std::int64_t x_block, std::int64_t x_row, std::int64_t rows, std::int64_t channels, float* to) {
  (has_bf16() ? round_rows<true> : round_rows<false>)(x, x_block, x_row, rows, channels, to);
}

void round_interleaved(const float* x, std::int64_t plane, std::int64_t channels, std::int64_t pixels, std::uint16_t* to) {
  (has_bf16() ? round_planes<true> : round_planes<false>)(x, plane, channels, pixels, to);
}

}  // namespace neurim::cpu::NEURIM_ISA
