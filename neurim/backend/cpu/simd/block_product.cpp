#include "neurim/backend/cpu/block_product.h"

#include <algorithm>
#include <array>
#include <utility>

#include "neurim/backend/cpu/simd.h"

namespace neurim::cpu::NEURIM_ISA {

namespace {

#if defined(__AVX512F__)
constexpr int kAccumulators = 28;  // of 32 registers: the rest hold weights and a broadcast value
#else
constexpr int kAccumulators = 6;  // of 16 registers, two for each vector
#endif

/// B blocks of T rows, kept in registers over all input channels.
template <int B, int T>
void product(const BlockProduct& shape, const float* x, const float* weight, const BlockEpilogue& epilogue, float* y) {
  Vec sums[B][T];
#pragma GCC unroll 32
  for (int b = 0; b < B; ++b) {
    const Vec first = epilogue.bias ? load(epilogue.bias + b * kLanes) : Vec{};
#pragma GCC unroll 32
    for (int t = 0; t < T; ++t) sums[b][t] = first;
  }
  const std::int64_t weight_block = shape.weight_block;
  for (std::int64_t left = shape.in_channels; left > 0; left -= kLanes, x += shape.x_block, weight += kLanes * kLanes) {
    const int channels = static_cast<int>(std::min<std::int64_t>(left, kLanes));
#pragma GCC unroll 2
    for (int i = 0; i < channels; ++i) {
      Vec row[B];
#pragma GCC unroll 32
      for (int b = 0; b < B; ++b) row[b] = load(weight + b * weight_block + i * kLanes);
#pragma GCC unroll 32
      for (int t = 0; t < T; ++t) {
        const Vec one = splat(x[t * kLanes + i]);
#pragma GCC unroll 32
        for (int b = 0; b < B; ++b) sums[b][t] += row[b] * one;
      }
    }
  }
  const Vec least = splat(epilogue.relu.on ? 0.0f : -__builtin_inff()), most = splat(epilogue.relu.most);
#pragma GCC unroll 32
  for (int b = 0; b < B; ++b)
#pragma GCC unroll 32
    for (int t = 0; t < T; ++t) {
      const std::int64_t at = b * shape.y_block + t * kLanes;
      const Vec sum = epilogue.add ? sums[b][t] + load(epilogue.add + at) : sums[b][t];
      store(y + at, limited(sum, least, most));
    }
}

using Product = void (*)(const BlockProduct&, const float*, const float*, const BlockEpilogue&, float*);

/// The products of 1 to T rows.
template <int B, int... T>
constexpr std::array<Product, sizeof...(T)> products(std::integer_sequence<int, T...>) {
  return {product<B, T + 1>...};
}
constexpr auto kOne = products<1>(std::make_integer_sequence<int, kAccumulators>());
constexpr auto kTwo = products<2>(std::make_integer_sequence<int, kAccumulators / 2>());

}  // namespace

void block_product(const BlockProduct& shape, std::int64_t blocks, const float* x, const float* weight,
                   const BlockEpilogue& epilogue, float* y) {
  for (std::int64_t block = 0; block < blocks; block += 2) {
    const bool two = block + 1 < blocks;
    // Groups of nearly equal length, as few as the registers allow.
    const std::int64_t most = two ? kAccumulators / 2 : kAccumulators, groups = (shape.rows + most - 1) / most;
    for (std::int64_t g = 0; g < groups; ++g) {
      const std::int64_t begin = shape.rows * g / groups, end = shape.rows * (g + 1) / groups,
                         at = block * shape.y_block + begin * kLanes;
      const BlockEpilogue own{epilogue.bias ? epilogue.bias + block * kLanes : nullptr,
                              epilogue.add ? epilogue.add + at : nullptr, epilogue.relu};
      const auto length = static_cast<std::size_t>(end - begin - 1);
      (two ? kTwo[length] : kOne[length])(shape, x + begin * kLanes, weight + block * shape.weight_block, own, y + at);
    }
  }
}

}  // namespace neurim::cpu::NEURIM_ISA
