#include "neurim/backend/cpu/block_product.h"

#include <algorithm>
#include <array>
#include <utility>

#include "neurim/backend/cpu/simd.h"
#include "neurim/backend/cpu/simd_bf16.h"

namespace neurim::cpu::NEURIM_ISA {

namespace {

#if defined(__AVX512F__)
constexpr int kAccumulators = 28;  // of 32 registers: the rest hold weights and a broadcast value
constexpr int kGradRows = 8;
#else
constexpr int kAccumulators = 6;  // of 16 registers, two for each vector
constexpr int kGradRows = 2;
#endif

/// What is multiplied: floats, or pairs of bf16 by two ways.
struct Floats {
  static constexpr int kWords = kLanes;  ///< of a row of a block
  static Vec weights(const float* at) { return load(at); }
  static Vec multiply_add(Vec sum, Vec row, const float* x) { return sum + row * splat(*x); }
};
struct Pairs {
  static constexpr int kWords = kLanes / 2;
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
  static Vec weights(const float* at) { return load(at); }
  NEURIM_MAY_NAME_BF16 static Vec multiply_add(Vec sum, Vec row, const float* x) { return add_products_of_pairs(sum, row, splat_bits(x)); }
};
#endif

/// B blocks of T rows, kept in registers over all input channels.
template <class Factors, int B, int T>
NEURIM_MAY_NAME_BF16 void product(const BlockProduct& shape, const float* x, const float* weight, const BlockEpilogue& epilogue, float* y) {
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
  for (std::int64_t left = shape.in_channels; left > 0; left -= kLanes, x += shape.x_block) {
    const int words = static_cast<int>((std::min<std::int64_t>(left, kLanes) + kTogether - 1) / kTogether);
    for (std::int64_t tap = 0; tap < shape.tap_count; ++tap, own += kWords * kLanes) {
      const float* const rows = shape.taps ? x + shape.taps[tap] : x;
      if (shape.weight_taps) own = weight + shape.weight_taps[tap];
#pragma GCC unroll 2
      for (int i = 0; i < words; ++i) {
        decltype(Factors::weights(own)) row[B];
#pragma GCC unroll 32
        for (int b = 0; b < B; ++b) row[b] = Factors::weights(own + b * weight_block + i * kLanes);
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
      const Vec sum = epilogue.add ? sums[b][t] + load(epilogue.add + at) : sums[b][t];
      store(y + at, limited(sum, least, most));
    }
}

using Product = void (*)(const BlockProduct&, const float*, const float*, const BlockEpilogue&, float*);

/// The products of 1 to T rows.
template <class Factors, int B, int... T>
constexpr std::array<Product, sizeof...(T)> products(std::integer_sequence<int, T...>) {
  return {product<Factors, B, T + 1>...};
}

template <class Factors>
void multiply(const BlockProduct& shape, std::int64_t blocks, const float* x, const float* weight, const BlockEpilogue& epilogue,
              float* y) {
  static constexpr auto kOne = products<Factors, 1>(std::make_integer_sequence<int, kAccumulators>());
  static constexpr auto kTwo = products<Factors, 2>(std::make_integer_sequence<int, kAccumulators / 2>());
  static constexpr auto kThree = products<Factors, 3>(std::make_integer_sequence<int, kAccumulators / 3>());
  for (std::int64_t block = 0, together = 0; block < blocks; block += together) {
    together = std::min<std::int64_t>(shape.rows <= kAccumulators / 3 ? 3 : 2, blocks - block);
    const auto* const product_of = together == 3 ? kThree.data() : together == 2 ? kTwo.data() : kOne.data();
    // Groups of nearly equal length, as few as the registers allow.
    const std::int64_t most = kAccumulators / together, groups = (shape.rows + most - 1) / most;
    for (std::int64_t g = 0; g < groups; ++g) {
      const std::int64_t begin = shape.rows * g / groups, end = shape.rows * (g + 1) / groups,
                         at = block * shape.y_block + begin * shape.y_row;
      const BlockEpilogue own{epilogue.bias ? epilogue.bias + block * kLanes : nullptr,
                              epilogue.add ? epilogue.add + at : nullptr, epilogue.relu};
      product_of[end - begin - 1](shape, x + begin * Factors::kWords, weight + block * shape.weight_block, own, y + at);
    }
  }
}

/// kGradRows input channels of B blocks, kept in registers over all rows.
template <class Factors, int B>
NEURIM_MAY_NAME_BF16 void weight_grad(const BlockWeightGrad& shape, const float* x, const float* dy, bool add, float* dw) {
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
NEURIM_MAY_NAME_BF16 void pair_up(const float* x, std::int64_t x_row, std::int64_t first, std::int64_t last, std::int64_t rows, int lanes,
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
  if (!shape.pairs) return multiply<Floats>(shape, blocks, x, weight, epilogue, y);
#if defined(__AVX512F__)
  if (has_bf16()) return multiply<NativePairs>(shape, blocks, x, weight, epilogue, y);
#endif
  multiply<Pairs>(shape, blocks, x, weight, epilogue, y);
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

void round_to_pairs(const float* x, std::int64_t x_block, std::int64_t x_row, std::int64_t rows, std::int64_t channels, float* to) {
  (has_bf16() ? round_rows<true> : round_rows<false>)(x, x_block, x_row, rows, channels, to);
}

void round_interleaved(const float* x, std::int64_t plane, std::int64_t channels, std::int64_t pixels, std::uint16_t* to) {
  (has_bf16() ? round_planes<true> : round_planes<false>)(x, plane, channels, pixels, to);
}

}  // namespace neurim::cpu::NEURIM_ISA
