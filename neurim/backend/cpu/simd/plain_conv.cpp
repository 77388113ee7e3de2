#include "neurim/backend/cpu/plain_conv.h"

#include <algorithm>
#include <array>
#include <utility>

#include "neurim/backend/cpu/simd.h"

namespace neurim::cpu::NEURIM_ISA {

namespace {

// A tile keeps the sums of kChannels channels at kRuns runs of pixels in registers, beside a run of x and the channels' weights:
// of one register each, as g++ 12 keeps arrays of vectors in registers only where a vector is one.
#if defined(__AVX512F__)
constexpr int kPart = 16, kChannels = 6;
#elif defined(__AVX2__)
constexpr int kPart = 8, kChannels = 3;
#else
constexpr int kPart = 4, kChannels = 3;
#endif
constexpr int kRuns = 4;

typedef float Part __attribute__((vector_size(kPart * sizeof(float))));

/// Where runs of pixels stand in x and in a channel of y.
struct Run {
  const float* x;
  float* y;
  std::int64_t lanes;  ///< that may be written; those behind the row's end are written again by the next row
};

template <int kOutputs, int kCount>
void tile(const PlainConv& conv, const Run* runs, const float* weight, const float* bias, const Relu& relu,
          std::int64_t y_shift) {
  Part sums[kOutputs][kCount];
#pragma GCC unroll 8
  for (int o = 0; o < kOutputs; ++o)
#pragma GCC unroll 8
    for (int r = 0; r < kCount; ++r) sums[o][r] = (bias ? bias[o] : 0.0f) - Part{};
  for (std::int64_t tap = 0; tap < conv.tap_count; ++tap) {
    const std::int64_t place = conv.taps[tap];
    Part factors[kOutputs];
#pragma GCC unroll 8
    for (int o = 0; o < kOutputs; ++o) factors[o] = weight[o * conv.tap_count + tap] - Part{};
#pragma GCC unroll 8
    for (int r = 0; r < kCount; ++r) {
      Part x;
      std::memcpy(&x, runs[r].x + place, sizeof x);
#pragma GCC unroll 8
      for (int o = 0; o < kOutputs; ++o) sums[o][r] += factors[o] * x;
    }
  }
  const Part least = (relu.on ? 0.0f : -__builtin_inff()) - Part{}, most = relu.most - Part{};
#pragma GCC unroll 8
  for (int o = 0; o < kOutputs; ++o)
#pragma GCC unroll 8
    for (int r = 0; r < kCount; ++r) {
      Part sum = sums[o][r];
      sum = sum < least ? least : sum;
      sum = sum > most ? most : sum;
      float* const y = runs[r].y + y_shift + o * conv.y_channel;
      if (runs[r].lanes >= kPart)
        std::memcpy(y, &sum, sizeof sum);
      else
        std::memcpy(y, &sum, static_cast<std::size_t>(runs[r].lanes) * sizeof(float));
    }
}

using Tile = void (*)(const PlainConv&, const Run*, const float*, const float*, const Relu&, std::int64_t);

template <int kOutputs, int... kCounts>
constexpr std::array<Tile, kRuns> row_of_tiles(std::integer_sequence<int, kCounts...>) {
  return {tile<kOutputs, kCounts + 1>...};
}
template <int... kOutputs>
constexpr std::array<std::array<Tile, kRuns>, kChannels> all_tiles(std::integer_sequence<int, kOutputs...>) {
  return {row_of_tiles<kOutputs + 1>(std::make_integer_sequence<int, kRuns>())...};
}
constexpr auto kTiles = all_tiles(std::make_integer_sequence<int, kChannels>());

}  // namespace

void plain_conv(const PlainConv& conv, const float* x, const float* weight, const float* bias, const Relu& relu,
                std::int64_t channels, std::int64_t rows, float* y) {
  const std::int64_t tiles = (channels + kChannels - 1) / kChannels, size = rows * conv.width;
  Run runs[kRuns];
  int count = 0;
  const auto compute = [&] {
    for (std::int64_t t = 0; t < tiles; ++t) {
      const std::int64_t first = channels * t / tiles, last = channels * (t + 1) / tiles;
      kTiles[static_cast<std::size_t>(last - first - 1)][static_cast<std::size_t>(count - 1)](
          conv, runs, weight + first * conv.tap_count, bias ? bias + first : nullptr, relu, first * conv.y_channel);
    }
    count = 0;
  };
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t column = 0; column < conv.width; column += kPart) {
      const std::int64_t place = row * conv.width + column;
      runs[count++] = {x + row * conv.x_row + column, y + place, size - place};
      if (count == kRuns) compute();
    }
  if (count > 0) compute();
}

}  // namespace neurim::cpu::NEURIM_ISA
