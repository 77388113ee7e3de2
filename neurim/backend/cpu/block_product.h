// The matrix product in convolutions whose channels lie in blocks of 16.
#pragma once
#include <cstdint>

#include "neurim/backend/cpu/isa.h"
#include "neurim/backend/cpu/relu.h"

namespace neurim::cpu {

/// y[out block][row][16] = the sum over the input channels of x[in block][row][16] weight[out block][in block][16 in][16 out];
/// rows are pixels, or tiles of them. Distances in floats.
struct BlockProduct {
  std::int64_t rows, in_channels;               ///< lanes of x behind the last channel are not read
  std::int64_t x_block, weight_block, y_block;  ///< between blocks of x, and output blocks of the weights and of y
};

/// What y becomes before it is written.
struct BlockEpilogue {
  const float* bias = nullptr;  ///< 16 a block
  const float* add = nullptr;   ///< lies as y
  Relu relu = {};
};

/// For `blocks` blocks of y.
NEURIM_EACH_ISA(void block_product(const BlockProduct& shape, std::int64_t blocks, const float* x, const float* weight,
                                   const BlockEpilogue& epilogue, float* y))

}  // namespace neurim::cpu
