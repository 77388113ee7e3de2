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
  /// x and the weights are bf16 in pairs, each pair in the place of a float: x[in block][row][8 pairs], weight[out block]
  /// [in block][8 pairs][16 out]. A single last channel has a zero beside it.
  bool pairs = false;
  /// Several products, of rows that lie `taps` floats behind x and of further weights each, weight[out block][in block][tap][…],
  /// are added up; null: one, of x itself.
  const std::int64_t* taps = nullptr;
  std::int64_t tap_count = 1;
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

/// to[block][row][8 pairs] = x[block][row][16] rounded to the nearest bf16, ties to even; lanes behind the last channel become zero.
/// Blocks of x are `x_block` floats apart, its rows `x_row`.
NEURIM_EACH_ISA(void round_to_pairs(const float* x, std::int64_t x_block, std::int64_t x_row, std::int64_t rows,
                                    std::int64_t channels, float* to))

/// to[pixel][channel] = x[channel][pixel], rounded so; planes of x are `plane` floats apart.
NEURIM_EACH_ISA(void round_interleaved(const float* x, std::int64_t plane, std::int64_t channels, std::int64_t pixels,
                                       std::uint16_t* to))

}  // namespace neurim::cpu
