#include "neurim/backend/cpu/conv_norm.h"

#include "neurim/backend/cpu/simd.h"

namespace neurim::cpu::NEURIM_ISA {

void affine_block(const float* x, const float* a, const float* b, const float* z, const float* c,
                  const float* add, const Relu& relu, float* y, std::int64_t count) {
  const Vec scale = load(a), shift = load(b), other = c ? load(c) : Vec{};
  const Vec least = splat(relu.on ? 0.0f : -__builtin_inff()), most = splat(relu.most);
  for (std::int64_t i = 0; i < count * kLanes; i += kLanes) {
    Vec value = load(x + i) * scale + shift;
    if (z) value += load(z + i) * other;
    if (add) value += load(add + i);
    store(y + i, limited(value, least, most));
  }
}

void add_pixels(ChannelSums& sums, const float* y, const float* factor, std::int64_t count, bool first) {
  constexpr std::int64_t kTile = 256;  // pixels that are summed up in floats
  if (first) store(sums.pivot, load(y));
  const Vec pivot = load(sums.pivot);
  for (std::int64_t tile = 0; tile < count; tile += kTile) {
    const std::int64_t end = count - tile < kTile ? count : tile + kTile;
    Vec sum[2] = {}, product[2] = {};  // two chains: one would wait for its own additions
    const auto add = [&](std::int64_t pixel, int chain) {
      Vec value = load(y + pixel * kLanes), other = value - pivot;
      if (factor)
        other = load(factor + pixel * kLanes) - pivot;
      else
        value = other;
      sum[chain] += value;
      product[chain] += value * other;
    };
    std::int64_t pixel = tile;
    for (; pixel + 1 < end; pixel += 2) add(pixel, 0), add(pixel + 1, 1);
    if (pixel < end) add(pixel, 0);
    for (int i = 0; i < kLanes; ++i) sums.sum[i] += sum[0][i] + sum[1][i], sums.product[i] += product[0][i] + product[1][i];
  }
}

}  // namespace neurim::cpu::NEURIM_ISA
