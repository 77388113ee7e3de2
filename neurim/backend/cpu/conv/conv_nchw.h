// Convolutions of few channels on plain images: the lanes of a vector are pixels of a row, or output channels.
#pragma once
#include <cstdint>

#include "neurim/backend/cpu/common/isa.h"
#include "neurim/backend/cpu/common/relu.h"

namespace neurim::cpu {

/// Output (row, column) reads from x + row * x_row + column on; tap t reads `taps[t]` floats further. Rows of x are
/// padded with zeros, and 16 more floats follow the last one. Taps are ordered by input channel, kernel row and column.
struct ConvNchw {
  std::int64_t tap_count;
  const std::int32_t* taps;
  std::int64_t width, x_row, y_channel;  ///< columns of the outputs; floats between rows of x and between channels of y
  bool pooled = false;  ///< y is the maximum of every 2x2 outputs; an odd last row or column is left out
  const std::int32_t* weight_taps = nullptr;  ///< see conv_nchw_channels

  std::int64_t y_width() const { return pooled ? width / 2 : width; }
};

/// Rows [0, rows) of `channels` channels of y: relu(bias + sum of weight[channel][tap] * x). bias may be null.
NEURIM_EACH_ISA(void conv_nchw(const ConvNchw& conv, const float* x, const float* weight, const float* bias,
                               const Relu& relu, std::int64_t channels, std::int64_t rows, float* y))

/// The same with 16 channels in the lanes of a vector. Their weights for tap t are `weight_taps[t]` floats after the
/// first ones of a block; blocks are `weight_block` floats apart. `channels` is a multiple of 16.
NEURIM_EACH_ISA(void conv_nchw_channels(const ConvNchw& conv, const float* x, const float* weight,
                                        std::int64_t weight_block, const float* bias, const Relu& relu,
                                        std::int64_t channels, std::int64_t rows, float* y))

}  // namespace neurim::cpu
