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

/// Of a weight in a block of pairs.
std::size_t place(std::size_t in, std::size_t out) { return (in / 2 * kLanes + out) * 2 + in % 2; }

void pack_pairs(const void* self, const void* plain, void* packed) {
  const Type& type = *static_cast<const Type*>(self);
  const Layout blocks = forward_weights(type);
  std::vector<float> floats(bytes(type, blocks) / sizeof(float));
  pack(type, blocks, plain, floats.data());
  for (std::size_t at = 0; at < floats.size(); at += kBlock) pair_block(&floats[at], static_cast<std::uint16_t*>(packed) + at);
}

void pack_rows(const void* self, const void* plain, void* packed) {
  const Shape& s = static_cast<const Type*>(self)->shape;
  const auto* const from = static_cast<const float*>(plain);
  auto* to = static_cast<std::uint16_t*>(packed);
  const std::int64_t channels = s[1], height = s[2], width = s[3], all = channels * width;
  float block[kBlock];
  for (std::int64_t out = 0; out < s[0]; out += 16)
    for (std::int64_t in = 0; in < all; in += 16)
      for (std::int64_t row = 0; row < height; ++row, to += kBlock) {
        std::fill_n(block, kBlock, 0.0f);
        for (std::int64_t i = 0; i < std::min<std::int64_t>(16, all - in); ++i)
          for (std::int64_t o = 0; o < std::min<std::int64_t>(16, s[0] - out); ++o) {
            const std::int64_t column = (in + i) / channels, channel = (in + i) % channels;
            block[i * 16 + o] = from[(((out + o) * channels + channel) * height + row) * width + column];
          }
        pair_block(block, to);
      }
}

}  // namespace

void pair_block(const float* from, std::uint16_t* to) {
  for (std::size_t in = 0; in < kLanes; ++in)
    for (std::size_t out = 0; out < kLanes; ++out) to[place(in, out)] = to_bf16(from[in * kLanes + out]);
}

void unpair_block(const std::uint16_t* from, float* to) {
  for (std::size_t in = 0; in < kLanes; ++in)
    for (std::size_t out = 0; out < kLanes; ++out) to[in * kLanes + out] = from_bf16(from[place(in, out)]);
}

namespace {

/// A format that is made of f32 weights of a type, once for each.
Layout format_of(std::string_view name, const Type& weight, std::size_t size, void (*pack)(const void*, const void*, void*)) {
  static std::mutex mutex;
  static std::deque<Type> types;  // a deque, since PackedFormat::self points in
  const std::lock_guard lock(mutex);
  const auto known = std::find(types.begin(), types.end(), weight);
  const Type& type = known != types.end() ? *known : types.emplace_back(weight);
  return {Layout::packed, 0, register_format({.name = text(name, ' ', weight), .bytes = size, .pack = pack, .self = &type})};
}

}  // namespace

Layout pair_weights(const Type& weight) {
  return format_of("pairs", weight, bytes(weight, forward_weights(weight)) / 2, pack_pairs);
}

Layout row_pair_weights(const Type& weight) {
  const Shape& s = weight.shape;
  const auto blocks = [](std::int64_t size) { return static_cast<std::size_t>((size + 15) / 16); };
  return format_of("row pairs", weight, blocks(s[0]) * blocks(s[1] * s[3]) * static_cast<std::size_t>(s[2]) * kBlock * 2, pack_rows);
}

}  // namespace neurim::cpu
