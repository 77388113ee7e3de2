#include "neurim/backend/cpu/pair_weights.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <vector>

#include "neurim/backend/cpu/winograd.h"
#include "neurim/base/text.h"
#include "neurim/core/half.h"

namespace neurim::cpu {

namespace {

constexpr std::size_t kLanes = 16, kBlock = kLanes * kLanes;

void pack_pairs(const void* self, const void* plain, void* packed) {
  const Type& type = *static_cast<const Type*>(self);
  const Layout blocks = forward_weights(type);
  std::vector<float> floats(bytes(type, blocks) / sizeof(float));
  pack(type, blocks, plain, floats.data());
  for (std::size_t at = 0; at < floats.size(); at += kBlock) pair_block(&floats[at], static_cast<std::uint16_t*>(packed) + at);
}

}  // namespace

void pair_block(const float* from, std::uint16_t* to) {
  for (std::size_t in = 0; in < kLanes; ++in)
    for (std::size_t out = 0; out < kLanes; ++out) to[(in / 2 * kLanes + out) * 2 + in % 2] = to_bf16(from[in * kLanes + out]);
}

Layout pair_weights(const Type& weight) {
  static std::mutex mutex;
  static std::deque<Type> types;  // a deque, since PackedFormat::self points in
  const std::lock_guard lock(mutex);
  const auto known = std::find(types.begin(), types.end(), weight);
  const Type& type = known != types.end() ? *known : types.emplace_back(weight);
  const Layout blocks = forward_weights(weight);
  return {Layout::packed, 0,
          register_format({.name = text("pairs ", weight), .bytes = bytes(weight, blocks) / 2, .pack = pack_pairs,
                           .self = &type, .made_from = blocks})};
}

}  // namespace neurim::cpu
