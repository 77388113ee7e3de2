#include "neurim/backend/cpu/conv2d.h"

#include <array>
#include <utility>

#include "neurim/backend/cpu/simd.h"

namespace neurim::cpu::NEURIM_ISA {

namespace {

#if defined(__AVX512F__)
constexpr int kAccumulators = 28;  // of 32 registers: the rest hold weights and a broadcast pixel
#else
constexpr int kAccumulators = 6;  // of 16 registers, two for each vector
#endif

/// B blocks of output channels by T neighbouring pixels of one row at stride S, kept in registers over all
/// input channels and taps. S is a constant so that the pixels stand at fixed distances: 14 registers for
/// addresses would not be there.
template <int B, int T, int S>
void tile(const ConvGeometry& g, const float* x, const float* w, float* y, std::int64_t at,
          const ConvEpilogue& e, bool first) {
  Vec acc[B][T];
#pragma GCC unroll 32
  for (int b = 0; b < B; ++b)
#pragma GCC unroll 32
    for (int t = 0; t < T; ++t) acc[b][t] = Vec{};
  for (int block = 0; block < g.in_blocks; ++block)
    for (int kh = 0; kh < g.kernel_h; ++kh)
      for (int kw = 0; kw < g.kernel_w; ++kw) {
        const float* pixel = x + block * g.x_block + kh * g.x_row + std::int64_t{kw} * kLanes;
        const float* weight = w + block * g.tap_in + kh * g.tap_h + kw * g.tap_w;
#pragma GCC unroll 2
        for (int i = 0; i < kLanes; ++i) {
          Vec row[B];
#pragma GCC unroll 32
          for (int b = 0; b < B; ++b) row[b] = load(weight + b * g.w_block + i * kLanes);
#pragma GCC unroll 32
          for (int t = 0; t < T; ++t) {
            const Vec value = splat(pixel[t * S * kLanes + i]);
#pragma GCC unroll 32
            for (int b = 0; b < B; ++b) acc[b][t] += row[b] * value;
          }
        }
      }
#pragma GCC unroll 32
  for (int b = 0; b < B; ++b) {
    const std::int64_t place = at + b * g.y_block;
    if (e.add)
#pragma GCC unroll 32
      for (int t = 0; t < T; ++t) acc[b][t] += load(e.add + place + t * kLanes);
    if (e.gate)
#pragma GCC unroll 32
      for (int t = 0; t < T; ++t) acc[b][t] = load(e.gate + place + t * kLanes) > Vec{} ? acc[b][t] : Vec{};
#pragma GCC unroll 32
    for (int t = 0; t < T; ++t) store(y + place + t * kLanes, acc[b][t]);
    if (!e.sums) continue;
    ChannelSums& total = e.sums[b];
    if (first) store(total.pivot, acc[b][0]);
    const Vec pivot = load(total.pivot);
    Vec sum{}, product{};
#pragma GCC unroll 32
    for (int t = 0; t < T; ++t) {
      const Vec value = e.factor ? acc[b][t] : acc[b][t] - pivot;
      sum += value;
      product += value * (e.factor ? load(e.factor + place + t * kLanes) - pivot : value);
    }
    for (int i = 0; i < kLanes; ++i) total.sum[i] += sum[i], total.product[i] += product[i];
  }
}

using Tile = void (*)(const ConvGeometry&, const float*, const float*, float*, std::int64_t,
                      const ConvEpilogue&, bool);

template <int B, int S, int... T>
constexpr auto tiles(std::integer_sequence<int, T...>) {
  return std::array<Tile, sizeof...(T)>{tile<B, T + 1, S>...};
}
template <int S>
constexpr auto kOne = tiles<1, S>(std::make_integer_sequence<int, kAccumulators>());
template <int S>
constexpr auto kTwo = tiles<2, S>(std::make_integer_sequence<int, kAccumulators / 2>());

Tile tile_of(int blocks, int width, int stride) {
  const auto at = static_cast<std::size_t>(width - 1);
  if (stride == 1) return blocks == 2 ? kTwo<1>[at] : kOne<1>[at];
  return blocks == 2 ? kTwo<2>[at] : kOne<2>[at];
}

}  // namespace

void conv_image(const ConvGeometry& g, const float* x, const float* w, float* y, int blocks,
                const ConvEpilogue& epilogue) {
  // Tiles of nearly equal width, as few as the registers allow.
  const int most = blocks == 2 ? kAccumulators / 2 : kAccumulators;
  const int count = (g.out_w + most - 1) / most;
  for (int row = 0; row < g.out_h; ++row)
    for (int t = 0; t < count; ++t) {
      const int begin = g.out_w * t / count, width = g.out_w * (t + 1) / count - begin;
      tile_of(blocks, width, g.stride_w)(
          g, x + row * g.stride_h * g.x_row + std::int64_t{begin} * g.stride_w * kLanes, w, y,
          (std::int64_t{row} * g.out_w + begin) * kLanes, epilogue, epilogue.first && row == 0 && t == 0);
    }
}

void affine_block(const float* x, const float* a, const float* b, const float* z, const float* c,
                  const float* add, bool relu, float* y, std::int64_t count) {
  const Vec scale = load(a), shift = load(b), other = c ? load(c) : Vec{};
  const Vec least = splat(relu ? 0.0f : -__builtin_inff());
  for (std::int64_t i = 0; i < count * kLanes; i += kLanes) {
    Vec value = load(x + i) * scale + shift;
    if (z) value += load(z + i) * other;
    if (add) value += load(add + i);
    store(y + i, relu ? max(least, value) : value);  // a NaN stays
  }
}

}  // namespace neurim::cpu::NEURIM_ISA
