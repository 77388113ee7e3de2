// Attention by tiles of queries, whose scores stay in the cache.
#pragma once
#include <cstdint>

#include "neurim/backend/cpu/common/isa.h"
#include "neurim/core/types.h"

namespace neurim {

struct KernelRequest;

}  // namespace neurim

namespace neurim::cpu {

/// Query, key or value: an argument, and the first of its features that belong to it.
struct AttentionOperand {
  int in;
  std::int64_t features, first;
};

struct AttentionSizes {
  std::int64_t images, heads, length, positions, blocks, value_blocks;  ///< blocks: of 16 features of a head
  float scale;
  AttentionOperand query, key, value;
  StorageDtype pairs;  ///< storage of the factors (see BlockProduct)

  std::int64_t key_blocks() const { return (positions + 15) / 16; }
  std::int64_t key_floats() const { return key_blocks() * blocks * 16 * 16; }  ///< of a head's packed keys
  std::int64_t words() const { return pairs ? 8 : 16; }                        ///< words of 16 features
  /// Floats of a block of `rows` rows as the summed dimension of a product, as floats or pairs.
  std::int64_t terms(std::int64_t rows) const { return (pairs ? (rows + 1) / 2 : rows) * 16; }
  /// Converts packed keys to pairs of features, in place.
  void pair_keys(std::int64_t head_blocks, float* packed) const;
  /// Packs `count` blocks of x for a product that sums over their rows: to[block][row, or pair of rows][16]. Blocks of
  /// x are `block` floats apart, rows `row`.
  void to_terms(const float* x, std::int64_t block, std::int64_t row, std::int64_t rows, std::int64_t count,
                float* to) const;
  /// Rounds the weights of all keys, or their gradients, [key block][row][16], to the product's storage, in place.
  void round_weights(float* weights, std::int64_t rows) const;
};

/// Reads the sizes of a request whose first operands are query, key and value, or one that packs all three. If not
/// possible, sets request.why.
bool read_sizes(KernelRequest& request, std::int64_t heads, bool packed, double scale, AttentionSizes& sizes);

/// Packs the keys of one head, [block][key][16], as the weights of a BlockProduct with queries: [block of
/// keys][feature][16 keys]. Missing keys are zero. Blocks of features are `block` floats apart, keys `row`. Features
/// with 16-bit storage are packed in pairs.
NEURIM_EACH_ISA(void pack_keys(const float* keys, StorageDtype rounded, std::int64_t block, std::int64_t row,
                               std::int64_t features, std::int64_t count, float* packed))

/// Replaces the scores [block of keys][row][16] of `rows` queries by e^(scale * (score - row maximum)), and sets
/// inverse[row] to 1 / their sum.
NEURIM_EACH_ISA(void exponentiate_scores(float* scores, std::int64_t rows, std::int64_t keys, float scale,
                                         float* inverse))

/// Multiplies row r of y[block][row][16] by factor[r]. Blocks are `block` floats apart, rows `row`.
NEURIM_EACH_ISA(void scale_rows(float* y, std::int64_t block, std::int64_t row, std::int64_t blocks, std::int64_t rows,
                                const float* factor))

/// Replaces exponentiated scores [block of keys][row][16] by weights (row times inverse[row]), and the gradients of the
/// weights by those of the scores before scaling: scale * weight * (gradient - the row's sum of weight * gradient).
NEURIM_EACH_ISA(void score_gradients(float* scores, float* gradients, std::int64_t rows, std::int64_t keys, float scale,
                                     const float* inverse))

}  // namespace neurim::cpu
