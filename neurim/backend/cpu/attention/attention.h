// Attention: a tile of queries at a time, whose scores stay in the cache.
#pragma once
#include <cstdint>

#include "neurim/backend/cpu/common/isa.h"
#include "neurim/core/types.h"

namespace neurim {

struct KernelRequest;

}  // namespace neurim

namespace neurim::cpu {

/// Query, key or value: an argument, and the first of its features that are meant.
struct AttentionOperand {
  int in;
  std::int64_t features, first;
};

struct AttentionSizes {
  std::int64_t images, heads, length, positions, blocks, value_blocks;  ///< blocks of 16 of a head's features
  float scale;
  AttentionOperand query, key, value;
  StorageDtype pairs;  ///< what factors are rounded to (see BlockProduct)

  std::int64_t key_blocks() const { return (positions + 15) / 16; }
  std::int64_t key_floats() const { return key_blocks() * blocks * 16 * 16; }  ///< of a head's keys, packed
  std::int64_t words() const { return pairs ? 8 : 16; }                        ///< of 16 features of x
  /// Floats of a block of `rows` rows that a product sums over: as they are, or in pairs.
  std::int64_t terms(std::int64_t rows) const { return (pairs ? (rows + 1) / 2 : rows) * 16; }
  /// Packed keys in pairs of features, where they lie.
  void pair_keys(std::int64_t head_blocks, float* packed) const;
  /// to[block][row or two][16] = x[block][row][16], `count` blocks, as a product sums over its rows; blocks of x are
  /// `block` floats apart, its rows `row`.
  void to_terms(const float* x, std::int64_t block, std::int64_t row, std::int64_t rows, std::int64_t count,
                float* to) const;
  /// Weights of all keys, or their gradients, [key block][row][16], as a product multiplies them, where they lie.
  void round_weights(float* weights, std::int64_t rows) const;
};

/// Reads those of a request whose anchor's first operands are query, key and value, or all three packed in one; on no,
/// says why.
bool read_sizes(KernelRequest& request, std::int64_t heads, bool packed, double scale, AttentionSizes& sizes);

/// Keys of one head, [block][key][16], become the weights of a BlockProduct with queries: [block of keys][feature][16
/// keys]; missing keys are zero. `block` floats lie between the blocks of features, `row` between keys. Of features
/// that are rounded pairs stand in the place of floats.
NEURIM_EACH_ISA(void pack_keys(const float* keys, StorageDtype rounded, std::int64_t block, std::int64_t row,
                               std::int64_t features, std::int64_t count, float* packed))

/// Scores [block of keys][row][16] of `rows` queries become e^(scale * (score - the row's greatest)), and inverse[row]
/// 1 / their sum.
NEURIM_EACH_ISA(void exponentiate_scores(float* scores, std::int64_t rows, std::int64_t keys, float scale,
                                         float* inverse))

/// Multiplies row r of y[block][row][16] by factor[r]; `block` floats lie between the blocks, `row` between rows.
NEURIM_EACH_ISA(void scale_rows(float* y, std::int64_t block, std::int64_t row, std::int64_t blocks, std::int64_t rows,
                                const float* factor))

/// Exponentiated scores [block of keys][row][16] become weights, each row times inverse[row], and the gradients of
/// weights those of the scores before `scale`: scale * weight * (gradient - the sum over the row of weight * gradient).
NEURIM_EACH_ISA(void score_gradients(float* scores, float* gradients, std::int64_t rows, std::int64_t keys, float scale,
                                     const float* inverse))

}  // namespace neurim::cpu
