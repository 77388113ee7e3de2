// Convolutions of few channels on images16: the lanes of a vector are sixteen images, so that none of them
// waits for a channel that is not there. Weights are plain.
#pragma once
#include <cstdint>

#include "neurim/backend/cpu/common/isa.h"
#include "neurim/backend/cpu/common/relu.h"

namespace neurim::cpu {

/// Where a tap reads, in floats: from the pixel that the first tap reads, and among the weights of an output
/// channel. Loops over tables of places have one end where loops over channels, rows and columns have a
/// mispredicted one each.
struct FewTap {
  std::int32_t x, w;
};

/// One axis of a convolution: output o and tap t meet in input o * stride + t * dilation - begin.
struct FewAxis {
  int in = 0, out = 0, kernel = 0, stride = 1, dilation = 1, begin = 0;
};

/// A convolution of one group of sixteen images. Rows outside the input are left out; columns are all there:
/// the caller pads them. Strides are in floats.
struct FewGeometry {
  int in = 0, out = 0;  ///< channels
  FewAxis height, width;
  std::int64_t x_row = 0, x_channel = 0;
  std::int64_t x_pixel = 0, x_tap = 0;  ///< between what neighbouring output and kernel columns read
  std::int64_t y_channel = 0;
  std::int64_t w_out = 0, w_in = 0, w_row = 0,
               w_column = 0;     ///< negative where the taps are walked backwards
  const FewTap* taps = nullptr;  ///< kernel rows, of them columns, of them input channels
  /// Where the pixels of few_rows_at_once() output rows read, from the first one.
  const std::int32_t* pixels = nullptr;
};

/// How many rows of dy a tile of the weight gradient takes: as many as stay in the first-level cache while
/// all taps pass.
inline int few_rows_at_once(std::int64_t out_w) {
  constexpr std::int64_t kPixels = 112;
  return static_cast<int>(out_w < kPixels ? kPixels / out_w : 1);
}

/// Rows [begin, end) of the output, of which the first group of x begins at input row `x_first`.
struct FewRows {
  const float* x;
  int x_first, begin, end;
};

/// y = relu(conv(x) + bias); `before` takes the values before the ReLU. bias and before may be null.
NEURIM_EACH_ISA(void few_convolve(const FewGeometry& g, const FewRows& rows, const float* w, const float* bias,
                                  const Relu& relu, float* before, float* y))

/// Adds to `sums`, a vector of sixteen for each weight, what the rows give of the weight's gradient.
NEURIM_EACH_ISA(void few_weight_sums(const FewGeometry& g, const FewRows& rows, const float* dy, float* sums))

/// dw[i] = the sum of the vectors number i of all `tasks` arrays of `count` vectors, for i in [first, last).
NEURIM_EACH_ISA(void few_join(const float* sums, int tasks, std::int64_t count, float* dw, std::int64_t first,
                              std::int64_t last))

}  // namespace neurim::cpu
