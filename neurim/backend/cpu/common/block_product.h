// The matrix product of convolutions whose channels are in blocks of 16.
#pragma once
#include <cstdint>
#include <limits>

#include "neurim/backend/cpu/common/isa.h"
#include "neurim/backend/cpu/common/relu.h"
#include "neurim/core/types.h"

namespace neurim::cpu {

/// Cache lines that are needed after a product, far apart in memory. They are prefetched a few at a time while it runs:
/// more at once than the first-level cache can have in flight would stall it.
struct Fetch {
  const float *const *next, *const *end;
  void some() {
    for (int n = 0; n < 4 && next != end; ++n) __builtin_prefetch(*next++, 0, 2);
  }
};

/// y[out block][row][16] = the sum over the input channels of x[in block][row][16] weight[out block][in block][16
/// in][16 out]; rows are pixels, or tiles of them. Distances in floats.
struct BlockProduct {
  std::int64_t rows, in_channels;               ///< lanes of x after the last channel are not read
  std::int64_t x_block, weight_block, y_block;  ///< between blocks of x, and output blocks of the weights and of y
  /// x and the weights are pairs of bf16 or f16, one pair in the space of a float: x[in block][row][8 pairs],
  /// weight[out block][in block][8 pairs][16 out]. An odd last channel is paired with zero.
  StorageDtype pairs = StorageDtype::exact;
  /// Adds several products: of rows `taps` floats after x with further weights, weight[out block][in block][tap][...].
  /// Null: one product, of x itself.
  const std::int64_t* taps = nullptr;
  std::int64_t tap_count = 1;
  /// Where not all taps of the weights are meant: where those of an input block begin, and the distance between input
  /// blocks.
  const std::int64_t* weight_taps = nullptr;
  std::int64_t weight_in = 0;
  std::int64_t y_row = 16;  ///< between rows of y
  /// From the first block of y on; lanes after the last one, whose weights are zero, become zero. More than there are:
  /// all lanes count.
  std::int64_t out_channels = std::numeric_limits<std::int64_t>::max();
  Fetch* fetch = nullptr;  ///< what is prefetched; null: the weights of the next blocks
};

/// What y becomes before it is written.
struct BlockEpilogue {
  const float* bias = nullptr;  ///< 16 a block
  const float* add = nullptr;   ///< laid out as y
  Relu relu = {};
  bool non_temporal = false;  ///< y is larger than the caches, and is written past them; not where it is rounded
  /// The storage of y and of the addend (see Layout::storage): exact or, with pairs, that of the pairs.
  StorageDtype rounds = StorageDtype::exact, add_rounded = StorageDtype::exact;
};

/// For `blocks` blocks of y; distances there are in elements.
NEURIM_EACH_ISA(void block_product(const BlockProduct& shape, std::int64_t blocks, const float* x, const float* weight,
                                   const BlockEpilogue& epilogue, float* y))

/// The same for one block of y in whose convolution groups of `width` channels, 4 or 8, see each other alone:
/// weight[tap][width][16 out], of x one block, as floats. Not on the portable path.
NEURIM_EACH_ISA(void group_product(const BlockProduct& shape, int width, const float* x, const float* weight,
                                   const BlockEpilogue& epilogue, float* y))

/// The same where groups have whole eights of channels, in_channels of them: those that the block's first eight
/// channels see begin with channel `first`, of its others with `second`, which is -1 where there are none;
/// weight[tap][in_channels][16 out], of x all blocks. Not where there is AVX-512.
NEURIM_EACH_ISA(void eights_product(const BlockProduct& shape, std::int64_t first, std::int64_t second, const float* x,
                                    const float* weight, const BlockEpilogue& epilogue, float* y))

/// to[out block][in channel][16 out] = weight[out block][in channel][16 out] gate[in channel], blocks `weight_block`
/// floats apart.
NEURIM_EACH_ISA(void scale_weights(const float* weight, const float* gate, std::int64_t in_channels,
                                   std::int64_t blocks, std::int64_t weight_block, float* to))

/// The gradient of the weights dw[out block][in block][16 in][16 out]: sums over rows of x[in block][row][16] times
/// those of dy[out block][row][16]. Distances in floats.
struct BlockWeightGrad {
  std::int64_t in_blocks, rows;
  std::int64_t x_block, dy_block,
      weight_block;  ///< between blocks; output blocks of dw are in_blocks times weight_block apart
  std::int64_t runs = 1,
               x_run = 0;                ///< the rows are those of several runs, this far apart in x, contiguous in dy
  std::int64_t images = 1, x_image = 0;  ///< and there are several images of runs
  StorageDtype pairs = StorageDtype::exact;  ///< a row is two rows of these: see pair_rows
};

/// dw of `blocks` blocks of dy becomes, or with `add` gains, those sums.
NEURIM_EACH_ISA(void block_weight_grad(const BlockWeightGrad& shape, std::int64_t blocks, const float* x,
                                       const float* dy, bool add, float* dw))

/// The two products of pairs of f16 in which sums of f16 are added up, as AVX512-FP16's instructions make them.
struct F16Products {
  void (*product)(const BlockProduct& shape, std::int64_t first_block, std::int64_t last_block, const float* x,
                  const float* weight, const BlockEpilogue& epilogue, float* y);
  void (*weight_grad)(const BlockWeightGrad& shape, std::int64_t blocks, const float* x, const float* dy, bool add,
                      float* dw);
};
/// Null but in tests, which take an imitation of those instructions in place of what the machine has.
inline F16Products imitated_f16_products{};

/// Packs pairs of rows: to[row / 2][16 pairs], rounded to the nearest `half`, ties to even. Rows [first, last) come
/// from x, `x_row` floats apart; all others are zero, as is the partner of an odd last one. Lanes after the first
/// `lanes` become zero.
NEURIM_EACH_ISA(void pair_rows(StorageDtype storage, const float* x, std::int64_t x_row, std::int64_t first,
                               std::int64_t last, std::int64_t rows, int lanes, float* to))
/// The same of rows that are rounded.
NEURIM_EACH_ISA(void pair_rounded_rows(const std::uint16_t* x, std::int64_t x_row, std::int64_t first,
                                       std::int64_t last, std::int64_t rows, int lanes, float* to))

/// to[block][row][8 pairs] = x[block][row][16] rounded to the nearest `half`, ties to even; lanes after the last
/// channel become zero. Blocks of x are `x_block` floats apart, its rows `x_row`.
NEURIM_EACH_ISA(void round_to_pairs(StorageDtype storage, const float* x, std::int64_t x_block, std::int64_t x_row,
                                    std::int64_t rows, std::int64_t channels, float* to))

/// to[pixel][channel] = x[channel][pixel] of four channels at most; planes of x are `plane` floats apart.
NEURIM_EACH_ISA(void interleave(const float* x, std::int64_t plane, std::int64_t channels, std::int64_t pixels,
                                float* to))
/// The same, rounded so.
NEURIM_EACH_ISA(void round_interleaved(StorageDtype storage, const float* x, std::int64_t plane, std::int64_t channels,
                                       std::int64_t pixels, std::uint16_t* to))

/// to[column] = the 16 elements from from[column * step] on, floats or bf16 or f16 values: `size` bytes, 64 or 32.
NEURIM_EACH_ISA(void copy_columns(const void* from, std::int64_t step, std::int64_t columns, std::int64_t size,
                                  void* to))

}  // namespace neurim::cpu
