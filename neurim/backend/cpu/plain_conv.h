// Convolutions of few channels on plain images: the lanes of a vector are pixels of a row. Weights are plain.
#pragma once
#include <cstdint>

#include "neurim/backend/cpu/isa.h"
#include "neurim/backend/cpu/relu.h"

namespace neurim::cpu {

/// Where an output begins to read is x + row * x_row + column; tap t reads `taps[t]` floats behind that, from rows with zeros
/// beside them and 16 floats behind the last one. Taps are input channels, of them kernel rows, of them columns.
struct PlainConv {
  std::int64_t tap_count;
  const std::int32_t* taps;
  std::int64_t width, x_row, y_channel;  ///< columns of y; floats between rows of x and between channels of y
};

/// Rows [0, rows) of `channels` channels of y: relu(bias + sum of weight[channel][tap] * x). bias may be null.
NEURIM_EACH_ISA(void plain_conv(const PlainConv& conv, const float* x, const float* weight, const float* bias, const Relu& relu,
                                std::int64_t channels, std::int64_t rows, float* y))

}  // namespace neurim::cpu
