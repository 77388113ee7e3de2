// Windows that slide over the axes of images: what convolution and pooling share.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "neurim/core/dim.h"

namespace neurim {

/// `value` for each of N axes.
template <std::size_t N>
constexpr std::array<std::int64_t, N> each_axis(std::int64_t value) {
  std::array<std::int64_t, N> all{};
  all.fill(value);
  return all;
}

/// The number of windows along an axis of `size`, PyTorch's rule; 0 or less when not even one fits.
/// Of a symbolic size with ceil_mode it is not known: throws Error(usage).
inline Dim window_count(Dim size, Dim kernel, std::int64_t stride, std::int64_t dilation, std::int64_t pad_begin,
                        std::int64_t pad_end, bool ceil_mode = false) {
  const Dim room = size + pad_begin + pad_end - dilation * (kernel - 1) - 1;
  if (room.symbolic() && !ceil_mode) return room / stride + 1;
  if (room < 0 && !(ceil_mode && room > -stride)) return 0;
  Dim count = (room + (ceil_mode ? stride - 1 : 0)) / stride + 1;
  if (ceil_mode && (count - 1) * stride >= size + pad_begin) count -= 1;
  return count;
}

/// What the last of three axes, the last of two and the only one are called in messages.
template <std::size_t N>
constexpr std::string_view side_name(std::size_t axis) {
  constexpr std::array<std::string_view, 3> kSides{"depth", "height", "width"};
  return kSides[axis + 3 - N];
}

}  // namespace neurim
