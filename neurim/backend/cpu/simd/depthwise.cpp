#include "neurim/backend/cpu/depthwise.h"

#include <algorithm>

#include "neurim/backend/cpu/simd.h"

namespace neurim::cpu::NEURIM_ISA {

namespace {

/// The outputs [first, last) of an axis at which a place of the kernel lies inside the input, at o * stride +
/// offset.
struct Reach {
  std::int64_t first, last, offset;
};

Reach reach(const DepthwiseShape& s, int axis, std::int64_t place) {
  const std::int64_t size = axis == 0 ? s.height : s.width, count = axis == 0 ? s.out_height : s.out_width;
  const std::int64_t stride = s.stride[axis], offset = place * s.dilation[axis] - s.pad[axis];
  const std::int64_t first = offset < 0 ? (-offset + stride - 1) / stride : 0;
  const std::int64_t last = offset < size ? (size - 1 - offset) / stride + 1 : 0;
  return {std::min(first, count), std::min(last, count), offset};
}

/// Adds one image's sums for the columns [column, column + kColumns) of a kernel row to dw. Where all columns
/// lie inside the input, each dy is read once for all of them.
template <int kColumns>
void add_columns(const DepthwiseShape& s, const float* dy, const float* x, float* dw, std::int64_t row,
                 std::int64_t column) {
  const Reach rows = reach(s, 0, row);
  Reach columns[kColumns];
  std::int64_t begin = 0, end = s.out_width;
  for (int c = 0; c < kColumns; ++c) {
    columns[c] = reach(s, 1, column + c);
    begin = std::max(begin, columns[c].first);
    end = std::min(end, columns[c].last);
  }
  end = std::max(begin, end);
  const std::int64_t step = s.stride[1] * kLanes;
  Vec sums[kColumns] = {};
  for (std::int64_t o = rows.first; o < rows.last; ++o) {
    const float* at = dy + o * s.out_width * kLanes;
    const float* from = x + (o * s.stride[0] + rows.offset) * s.width * kLanes;
    for (int c = 0; c < kColumns; ++c) {
      const float* shifted = from + columns[c].offset * kLanes;
      for (std::int64_t i = columns[c].first; i < std::min(begin, columns[c].last); ++i)
        sums[c] += load(at + i * kLanes) * load(shifted + i * step);
      for (std::int64_t i = std::max(end, columns[c].first); i < columns[c].last; ++i)
        sums[c] += load(at + i * kLanes) * load(shifted + i * step);
    }
    for (std::int64_t i = begin; i < end; ++i) {
      const Vec d = load(at + i * kLanes);
      for (int c = 0; c < kColumns; ++c) sums[c] += d * load(from + columns[c].offset * kLanes + i * step);
    }
  }
  for (int c = 0; c < kColumns; ++c) {
    float* to = dw + (row * s.kernel[1] + column + c) * kLanes;
    store(to, load(to) + sums[c]);
  }
}

using AddColumns = void (*)(const DepthwiseShape&, const float*, const float*, float*, std::int64_t,
                            std::int64_t);
constexpr AddColumns kAddColumns[] = {add_columns<1>, add_columns<2>, add_columns<3>, add_columns<4>,
                                      add_columns<5>, add_columns<6>, add_columns<7>};
constexpr std::int64_t kMost = 7;  // sums that stay in registers

}  // namespace

void depthwise_weight_grad(const DepthwiseShape& s, const float* dy, const float* x, float* dw,
                           std::int64_t first, std::int64_t last) {
  const std::int64_t filter = s.kernel[0] * s.kernel[1] * kLanes, x_plane = s.height * s.width * kLanes,
                     y_plane = s.out_height * s.out_width * kLanes;
  std::fill(dw + first * filter, dw + last * filter, 0.0f);
  for (std::int64_t block = first; block < last; ++block)
    for (std::int64_t n = 0; n < s.images; ++n)
      for (std::int64_t row = 0; row < s.kernel[0]; ++row)
        for (std::int64_t column = 0; column < s.kernel[1]; column += kMost) {
          const std::int64_t plane = n * s.blocks + block, columns = std::min(kMost, s.kernel[1] - column);
          kAddColumns[columns - 1](s, dy + plane * y_plane, x + plane * x_plane, dw + block * filter, row,
                                   column);
        }
}

}  // namespace neurim::cpu::NEURIM_ISA
