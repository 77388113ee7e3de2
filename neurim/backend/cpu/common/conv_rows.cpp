#include "neurim/backend/cpu/common/conv_rows.h"

#include <algorithm>

namespace neurim::cpu {

namespace {

constexpr std::int64_t kLanes = 16;

void interleave_row(const ConvRows& g, const float* x, std::int64_t pixels, std::uint16_t* to) {
  NEURIM_DISPATCH(round_interleaved)(g.pairs, x, g.height * g.width, g.in_channels, pixels, to);
}
void interleave_row(const ConvRows& g, const float* x, std::int64_t pixels, float* to) {
  NEURIM_DISPATCH(interleave)(x, g.height * g.width, g.in_channels, pixels, to);
}

template <class T>
void fill(const ConvRows& g, const float* planes, std::int64_t row, std::int64_t count, T* line, float* to) {
  const Conv2dOptions& o = g.options;
  const std::int64_t columns = g.columns();
  const auto [all, first, last] = g.windows();
  std::fill_n(line, g.line_size(), T{0});
  for (std::int64_t r = 0; r < count; ++r, to += g.row_size()) {
    const std::int64_t in_row = row * o.stride[0] - o.pad[0] + r * g.row_distance();
    const bool inside = in_row >= 0 && in_row < g.height;
    if (inside) interleave_row(g, planes + in_row * g.width, last - first, line + first * g.in_channels);
    for (std::int64_t block = 0; block < g.in_blocks(); ++block) {
      auto* const pixels = reinterpret_cast<T*>(to + block * count * g.row_size());
      if (inside) NEURIM_DISPATCH(copy_columns)
      (line + block * kLanes, o.stride[1] * g.in_channels, columns, kLanes * sizeof(T), pixels);
      else std::fill_n(pixels, columns * kLanes, T{0});
      const std::int64_t there = g.depth() - block * kLanes;
      for (std::int64_t column = 0; g.pairs && there < kLanes && column < columns; ++column)
        pixels[column * kLanes + there] = 0;  // the other half of the last pair
    }
  }
}

}  // namespace

void ConvRows::fill_image(const float* planes, std::int64_t row, std::int64_t count, float* line, float* to) const {
  pairs ? fill(*this, planes, row, count, reinterpret_cast<std::uint16_t*>(line), to)
        : fill(*this, planes, row, count, line, to);
}

}  // namespace neurim::cpu
