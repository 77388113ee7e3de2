#include "neurim/backend/cpu/common/conv_norm.h"

#include "neurim/backend/cpu/simd/storage.h"

namespace neurim::cpu::NEURIM_ISA {

namespace {

/// If all operands have the same storage, the loops need no branches.
template <class X, class Z, class Add, class Y>
void affine(const AffineBlock& block, const float* a, const float* b, const float* c, const Relu& relu,
            std::int64_t count, X x, Z z, Add add, Y y) {
  const Vec scale = load(a), shift = load(b), other = c ? load(c) : Vec{};
  const Vec least = splat(relu.on ? 0.0f : -__builtin_inff()), most = splat(relu.most);
  for (std::int64_t i = 0; i < count * kLanes; i += kLanes) {
    Vec value = x.get(block.x, i) * scale + shift;
    if (block.z) value += z.get(block.z, i) * other;
    if (block.add) value += add.get(block.add, i);
    y.put(block.y, i, limited(value, least, most));
  }
}

template <class Y, class Factor>
void add_all(ChannelSums& sums, const float* y, const float* factor, std::int64_t count, bool first, Y get,
             Factor get_factor) {
  constexpr std::int64_t kTile = 256;  // pixels summed in floats
  if (first) store(sums.pivot, get.get(y, 0));
  const Vec pivot = load(sums.pivot);
  for (std::int64_t tile = 0; tile < count; tile += kTile) {
    const std::int64_t end = count - tile < kTile ? count : tile + kTile;
    Vec sum[2] = {}, product[2] = {};  // two accumulators: one would wait for its own additions
    const auto add = [&](std::int64_t pixel, int group) {
      Vec value = get.get(y, pixel * kLanes), other = value - pivot;
      if (factor)
        other = get_factor.get(factor, pixel * kLanes) - pivot;
      else
        value = other;
      sum[group] += value;
      product[group] += value * other;
    };
    std::int64_t pixel = tile;
    for (; pixel + 1 < end; pixel += 2) add(pixel, 0), add(pixel + 1, 1);
    if (pixel < end) add(pixel, 0);
    for (int i = 0; i < kLanes; ++i)
      sums.sum[i] += sum[0][i] + sum[1][i], sums.product[i] += product[0][i] + product[1][i];
  }
}

}  // namespace

void affine_block(const AffineBlock& block, const float* a, const float* b, const float* c, const Relu& relu,
                  std::int64_t count) {
  const StorageDtype storage = block.x_rounded;
  if (block.y_rounded == storage && stands_as(storage, block.z, block.z_rounded) &&
      stands_as(storage, block.add, block.add_rounded))
    with_places(storage, [&](auto all) { affine(block, a, b, c, relu, count, all, all, all, all); });
  else
    affine(block, a, b, c, relu, count, Stored{storage}, Stored{block.z_rounded}, Stored{block.add_rounded},
           Stored{block.y_rounded});
}

void add_pixels(ChannelSums& sums, const float* y, StorageDtype y_rounded, const float* factor,
                StorageDtype factor_rounded, std::int64_t count, bool first) {
  if (stands_as(y_rounded, factor, factor_rounded))
    with_read_places(y_rounded, [&](auto all) { add_all(sums, y, factor, count, first, all, all); });
  else
    add_all(sums, y, factor, count, first, Stored{y_rounded}, Stored{factor_rounded});
}

}  // namespace neurim::cpu::NEURIM_ISA
