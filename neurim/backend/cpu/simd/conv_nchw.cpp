#include "neurim/backend/cpu/conv/conv_nchw.h"

#include <algorithm>
#include <array>
#include <utility>

#include "neurim/backend/cpu/simd/simd.h"

namespace neurim::cpu::NEURIM_ISA {

namespace {

// A tile keeps the sums of kChannels channels at kRuns runs of pixels in registers, beside a run of x and the channels'
// weights. Each sum is one register: g++ 12 keeps arrays of vectors in registers only if a vector is one register.
#if defined(__AVX512F__)
constexpr int kFloats = 16, kChannels = 6;
#elif defined(__AVX2__)
constexpr int kFloats = 8, kChannels = 3;
#else
constexpr int kFloats = 4, kChannels = 3;
#endif
constexpr int kRuns = 4;

typedef float Floats __attribute__((vector_size(kFloats * sizeof(float))));

/// The offsets of a run of pixels in x and in a channel of y. With pooling, two runs of two rows write one run of y.
struct Run {
  const float* x;
  float* y;
  std::int64_t lanes;  ///< lanes that may be written; those past the row's end are overwritten by the next row
};

void put(float* y, const float* lanes, std::int64_t most, std::int64_t count) {
  std::memcpy(y, lanes, std::min(most, count) * sizeof(float));
}

/// Max-pools pairs of lanes of two rows: the maxima of a[0], a[1], b[0], b[1], then of a[2] ..., followed by those of
/// the next two runs.
template <std::size_t... kLane>
Floats pool(const Floats& a, const Floats& b, const Floats& c, const Floats& d, std::index_sequence<kLane...>) {
  const Floats left = larger(a, b), right = larger(c, d);
  return larger(__builtin_shufflevector(left, right, (2 * kLane)...),
                __builtin_shufflevector(left, right, (2 * kLane + 1)...));
}

template <bool pooled, int kOutputs, int kCount>
void tile(const ConvNchw& conv, const Run* runs, const float* weight, const float* bias, const Relu& relu,
          std::int64_t y_shift) {
  Floats sums[kOutputs][kCount];
#pragma GCC unroll 8
  for (int o = 0; o < kOutputs; ++o)
#pragma GCC unroll 8
    for (int r = 0; r < kCount; ++r) sums[o][r] = (bias ? bias[o] : 0.0f) - Floats{};
  for (std::int64_t tap = 0; tap < conv.tap_count; ++tap) {
    const std::int64_t place = conv.taps[tap];
    Floats factors[kOutputs];
#pragma GCC unroll 8
    for (int o = 0; o < kOutputs; ++o) factors[o] = weight[o * conv.tap_count + tap] - Floats{};
#pragma GCC unroll 8
    for (int r = 0; r < kCount; ++r) {
      Floats x;
      std::memcpy(&x, runs[r].x + place, sizeof x);
#pragma GCC unroll 8
      for (int o = 0; o < kOutputs; ++o) sums[o][r] += factors[o] * x;
    }
  }
  const Floats least = (relu.on ? 0.0f : -__builtin_inff()) - Floats{}, most = relu.most - Floats{};
#pragma GCC unroll 8
  for (int o = 0; o < kOutputs; ++o) {
#pragma GCC unroll 8
    for (int r = 0; r < kCount; ++r) {
      Floats& sum = sums[o][r];
      sum = sum < least ? least : sum;
      sum = sum > most ? most : sum;
      if (pooled) continue;
      float* const y = runs[r].y + y_shift + o * conv.y_channel;
      if (runs[r].lanes >= kFloats)
        std::memcpy(y, &sum, sizeof sum);
      else
        std::memcpy(y, &sum, runs[r].lanes * sizeof(float));
    }
    if constexpr (pooled) {
      constexpr int kHalf = kFloats / 2, kNext = kCount - 2;
      const Floats all = pool(sums[o][0], sums[o][1], sums[o][kNext], sums[o][kNext + 1],
                              std::make_index_sequence<kFloats>());
      float lanes[kFloats];
      std::memcpy(lanes, &all, sizeof all);
      for (int r = 0; r < kCount; r += 2)
        put(runs[r].y + y_shift + o * conv.y_channel, lanes + r / 2 * kHalf, kHalf, runs[r].lanes);
    }
  }
}

using Tile = void (*)(const ConvNchw&, const Run*, const float*, const float*, const Relu&, std::int64_t);

template <bool pooled, int kOutputs, int... kCounts>
constexpr std::array<Tile, kRuns> row_of_tiles(std::integer_sequence<int, kCounts...>) {
  return {(pooled && kCounts % 2 == 0 ? nullptr : tile < pooled && kCounts % 2 == 1, kOutputs, kCounts + 1 >)...};
}
template <bool pooled, int... kOutputs>
constexpr std::array<std::array<Tile, kRuns>, kChannels> all_tiles(std::integer_sequence<int, kOutputs...>) {
  return {row_of_tiles<pooled, kOutputs + 1>(std::make_integer_sequence<int, kRuns>())...};
}
constexpr auto kTiles = all_tiles<false>(std::make_integer_sequence<int, kChannels>()),
               kPooledTiles = all_tiles<true>(std::make_integer_sequence<int, kChannels>());

/// Columns of two rows whose sums stay in registers, 16 channels each.
#if defined(__AVX512F__)
constexpr int kColumns = 14;
#else
constexpr int kColumns = 2;
#endif

/// to[row][column][16] of kRows rows.
template <int kRows, int kCount>
void channels_tile(const ConvNchw& conv, const float* x, const float* weight, const Vec& bias, const Vec& least,
                   const Vec& most, float* to) {
  Vec sums[kRows][kCount];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 16
    for (int c = 0; c < kCount; ++c) sums[r][c] = bias;
  const std::int64_t x_row = conv.x_row;
  for (std::int64_t tap = 0; tap < conv.tap_count; ++tap) {
    const Vec factors = load(weight + conv.weight_taps[tap]);
    const float* const at = x + conv.taps[tap];
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 16
      for (int c = 0; c < kCount; ++c) sums[r][c] += factors * splat(at[r * x_row + c]);
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 16
    for (int c = 0; c < kCount; ++c) store(to + (r * kCount + c) * kLanes, limited(sums[r][c], least, most));
}

using ChannelsTile = void (*)(const ConvNchw&, const float*, const float*, const Vec&, const Vec&, const Vec&, float*);

template <int kRows, int... kCounts>
constexpr std::array<ChannelsTile, kColumns> channels_tiles(std::integer_sequence<int, kCounts...>) {
  return {channels_tile<kRows, kCounts + 1>...};
}
constexpr auto kOneRow = channels_tiles<1>(std::make_integer_sequence<int, kColumns>()),
               kTwoRows = channels_tiles<2>(std::make_integer_sequence<int, kColumns>());

}  // namespace

void conv_nchw(const ConvNchw& conv, const float* x, const float* weight, const float* bias, const Relu& relu,
               std::int64_t channels, std::int64_t rows, float* y) {
  const std::int64_t tiles = (channels + kChannels - 1) / kChannels, together = conv.pooled ? 2 : 1,
                     size = rows * conv.y_width();
  Run runs[kRuns];
  int count = 0;
  const auto compute = [&] {
    for (std::int64_t t = 0; t < tiles; ++t) {
      const std::int64_t first = channels * t / tiles, last = channels * (t + 1) / tiles;
      (conv.pooled ? kPooledTiles : kTiles)[last - first - 1][count - 1](
          conv, runs, weight + first * conv.tap_count, bias ? bias + first : nullptr, relu, first * conv.y_channel);
    }
    count = 0;
  };
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t column = 0; column < conv.y_width() * together; column += kFloats) {
      const std::int64_t place = row * conv.y_width() + column / together;
      for (std::int64_t r = 0; r < together; ++r)
        runs[count++] = {x + (row * together + r) * conv.x_row + column, y + place, size - place};
      if (count == kRuns) compute();
    }
  if (count > 0) compute();
}

void conv_nchw_channels(const ConvNchw& conv, const float* x, const float* weight, std::int64_t weight_block,
                        const float* bias, const Relu& relu, std::int64_t channels, std::int64_t rows, float* y) {
  const Vec least = splat(relu.on ? 0.0f : -__builtin_inff()), most = splat(relu.most);
  alignas(64) float outputs[2 * kColumns * kLanes];
  const std::int64_t step = conv.pooled ? 2 : 1, width = conv.y_width() * step,
                     pieces = (width + kColumns - 1) / kColumns;
  for (std::int64_t channel = 0; channel < channels; channel += kLanes, weight += weight_block) {
    const Vec start = bias ? load(bias + channel) : Vec{};
    for (std::int64_t row = 0, together = 0; row < rows * step; row += together) {
      together = std::min<std::int64_t>(2, rows * step - row);
      for (std::int64_t piece = 0; piece < pieces; ++piece) {
        const std::int64_t first = width / step * piece / pieces,
                           count = width / step * (piece + 1) / pieces - first;  // of y
        (together == 2 ? kTwoRows : kOneRow)[count * step - 1](conv, x + row * conv.x_row + first * step, weight, start,
                                                               least, most, outputs);
        float* const to = y + channel * conv.y_channel + row / step * conv.y_width() + first;
        if (conv.pooled)
          for (std::int64_t c = 0; c < count; ++c) {
            const float* const at = outputs + 2 * c * kLanes;
            const auto pair = [&](const float* left) { return larger(load(left), load(left + kLanes)); };
            store(outputs + c * kLanes, larger(pair(at), pair(at + 2 * count * kLanes)));
          }
        for (std::int64_t r = 0; r < together / step; ++r)
          for (std::int64_t lane = 0; lane < kLanes; ++lane)
            for (std::int64_t c = 0; c < count; ++c)
              to[lane * conv.y_channel + r * conv.y_width() + c] = outputs[(r * count + c) * kLanes + lane];
      }
    }
  }
}

}  // namespace neurim::cpu::NEURIM_ISA
