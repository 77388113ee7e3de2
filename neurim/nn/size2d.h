// A height and a width; one number stands for both.
#pragma once
#include <array>
#include <cstdint>

namespace neurim::nn {

struct Size2d {
  std::int64_t height, width;
  constexpr Size2d(std::int64_t both) : height(both), width(both) {}
  constexpr Size2d(std::int64_t h, std::int64_t w) : height(h), width(w) {}
  constexpr operator std::array<std::int64_t, 2>() const { return {height, width}; }
};

/// The same padding at both ends of each axis, in the order of the ops: top, left, bottom, right.
constexpr std::array<std::int64_t, 4> both_ends(Size2d pad) {
  return {pad.height, pad.width, pad.height, pad.width};
}

}  // namespace neurim::nn
