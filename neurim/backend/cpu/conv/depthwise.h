// Depthwise convolutions and their weight gradient: one filter a channel, a vector of 16 channels at a time.
#pragma once
#include <cstdint>

#include "neurim/backend/cpu/common/isa.h"
#include "neurim/backend/cpu/common/relu.h"
#include "neurim/core/types.h"

namespace neurim::cpu {

struct ConvSizes;

/// x and dy are nChw16c of `blocks` blocks an image. Pairs are height, width; the padding is that above and
/// on the left.
struct DepthwiseShape {
  std::int64_t images, blocks, height, width, out_height, out_width;
  std::int64_t kernel[2], stride[2], dilation[2], pad[2];
  std::int64_t y_pitch, y_step = 1;  ///< pixels of y from a row of outputs to the next, and from an output
};

DepthwiseShape depthwise_shape(const ConvSizes& sizes);

/// The work of all of it, counted as elements of pointwise ops that take as long.
inline std::int64_t depthwise_work(const DepthwiseShape& s) {
  return s.images * s.blocks * s.out_height * s.out_width * 16 * s.kernel[0] * s.kernel[1] / 4;
}

/// How x and y are stored.
struct DepthwiseRounded {
  StorageDtype x{}, y{};
};

/// Rows [first, last) of one block of y, written from y on: relu(bias[16] + the sum of weight[row][column][16] * x). x
/// begins with row `x_row` of the block and has all rows that are read. `room` is null or a workspace of
/// depthwise_room() floats, where rows are padded first: faster where many outputs are near the sides. With it, x may
/// be stored in 16 bits.
NEURIM_EACH_ISA(void depthwise_rows(const DepthwiseShape& shape, const DepthwiseRounded& rounded, const float* x,
                                    std::int64_t x_row, const float* weight, const float* bias, const Relu& relu,
                                    std::int64_t first, std::int64_t last, float* room, float* y))

/// Pixels of a row padded to what the outputs read.
inline std::int64_t depthwise_width(const DepthwiseShape& shape) {
  return (shape.out_width - 1) * shape.stride[1] + (shape.kernel[1] - 1) * shape.dilation[1] + 1;
}
inline std::int64_t depthwise_room(const DepthwiseShape& shape, std::int64_t rows) {
  return rows * depthwise_width(shape) * 16;
}

/// dw[row][column][16] += the sum of dy * x over the pixels of one block of one image.
NEURIM_EACH_ISA(void depthwise_weight_grad(const DepthwiseShape& shape, const float* dy, const float* x, float* dw))

}  // namespace neurim::cpu
