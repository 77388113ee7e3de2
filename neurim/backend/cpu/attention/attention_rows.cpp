// Attention whose features are plain rows, as in training, and its gradient, head by head. The operands are copied into
// blocks of 16 features, at a hundredth of the products' cost, and rounded to the plan's compute dtype. For a tile of
// queries the scores are computed, exponentiated and multiplied in the cache. The gradient recomputes them.
#include <algorithm>
#include <cstring>
#include <utility>

#include "neurim/backend/cpu/attention/attention.h"
#include "neurim/backend/cpu/common/block_product.h"
#include "neurim/backend/cpu/common/physical.h"
#include "neurim/backend/cpu/common/priorities.h"
#include "neurim/graph/kernel.h"
#include "neurim/ops/multihead_attention.h"

namespace neurim {

namespace {

using namespace cpu;

constexpr std::int64_t kLanes = 16, kScores = 3 << 14;  // floats of a tile's scores

/// Copies one head's features from blocks, [block][row][16], blocks `apart` floats apart, to rows that are `pitch`
/// floats apart.
void to_rows(const float* from, std::int64_t apart, std::int64_t pitch, std::int64_t count, std::int64_t blocks,
             float* rows) {
  for (std::int64_t row = 0; row < count; ++row)
    for (std::int64_t block = 0; block < blocks; ++block)
      std::memcpy(rows + row * pitch + block * kLanes, from + block * apart + row * kLanes, kLanes * sizeof(float));
}

struct AttentionRows : AttentionSizes {
  std::int64_t rows, size = 0;  ///< queries of a tile, at most; floats of a task's workspace
  int tasks;
  std::int64_t packed_keys, queries, scores,
      inverse;  ///< offsets in the workspace: packed keys, and a tile's other values

  std::int64_t value_pitch() const { return heads * value_blocks * kLanes; }  ///< between rows of results

  /// The offset of a head's features in an operand or its gradient, from a row of an image on.
  static std::int64_t place(const AttentionOperand& operand, std::int64_t row, std::int64_t number,
                            std::int64_t head_blocks) {
    return row * operand.features + operand.first + number * head_blocks * kLanes;
  }
  static const float* in(const Args& args, int argument) { return static_cast<const float*>(args.in[argument]); }
  /// Reserves so many floats of the workspace, in whole blocks of 16.
  std::int64_t take(std::int64_t floats) { return std::exchange(size, size + (floats + kLanes - 1) / kLanes * kLanes); }

  /// Reads the request. If not possible, sets request.why.
  bool read(KernelRequest& request, std::int64_t heads_of_op, bool packed, double scale_of_op) {
    if (!read_sizes(request, heads_of_op, packed, scale_of_op, *this)) return false;
    const std::int64_t most = std::max<std::int64_t>(kScores / (key_blocks() * kLanes), kLanes),
                       tiles = (length + most - 1) / most;
    rows = (length + tiles - 1) / tiles;
    tasks = static_cast<int>(std::min<std::int64_t>(images * heads, 4 * request.chunks));
    packed_keys = take(key_floats()), queries = take(blocks * rows * words()),
    scores = take(key_blocks() * rows * kLanes), inverse = take(rows);
    return true;
  }

  /// The product of rows of a head's features with all keys.
  BlockProduct scores_of(std::int64_t count, std::int64_t head_blocks) const {
    return {.rows = count,
            .in_channels = head_blocks * kLanes,
            .x_block = count * words(),
            .weight_block = head_blocks * kLanes * words(),
            .y_block = count * kLanes,
            .pairs = pairs,
            .out_channels = positions};
  }
  /// The product of `count` rows of weights with all values; results in rows `pitch` floats apart.
  BlockProduct means_of(std::int64_t count, std::int64_t pitch) const {
    return {.rows = count,
            .in_channels = positions,
            .x_block = count * words(),
            .weight_block = terms(positions),
            .y_block = kLanes,
            .pairs = pairs,
            .y_row = pitch};
  }

  /// Packs rows of a head's features, `pitch` floats apart, in blocks of 16 for a product.
  void to_factors(const float* from, std::int64_t pitch, std::int64_t count, std::int64_t head_blocks,
                  float* to) const {
    if (pairs)
      NEURIM_DISPATCH(round_to_pairs)(pairs, from, kLanes, pitch, count, head_blocks * kLanes, to);
    else
      to_terms(from, kLanes, pitch, count, head_blocks, to);
  }

  /// Computes and exponentiates the scores of a tile's queries, from row `row` of all images on.
  void exponentiate(float* room, const Args& args, std::int64_t row, std::int64_t number, std::int64_t count) const {
    to_factors(in(args, query.in) + place(query, row, number, blocks), query.features, count, blocks, room + queries);
    NEURIM_DISPATCH(block_product)
    (scores_of(count, blocks), key_blocks(), room + queries, room + packed_keys, {}, room + scores);
    NEURIM_DISPATCH(exponentiate_scores)(room + scores, count, positions, scale, room + inverse);
  }
  void pack(const Args& args, const AttentionOperand& operand, std::int64_t image, std::int64_t number,
            std::int64_t head_blocks, float* to) const {
    NEURIM_DISPATCH(pack_keys)
    (in(args, operand.in) + place(operand, image * positions, number, head_blocks), StorageDtype::exact, kLanes,
     operand.features, head_blocks * kLanes, positions, to);
    if (pairs) pair_keys(head_blocks, to);
  }
};

template <class Own>
void run(const void* self, const Args& args, int task) noexcept {
  const auto& own = *static_cast<const Own*>(self);
  const std::int64_t heads = own.images * own.heads;
  for (std::int64_t i = task_begin(heads, own.tasks, task); i < task_begin(heads, own.tasks, task + 1); ++i)
    own.run_head(args, i / own.heads, i % own.heads, static_cast<float*>(args.workspace));
}

template <class Own>
Launch launch(KernelRequest& request, const Own& own) {
  return {run<Own>, std::make_shared<Own>(own), own.tasks, 0, request.chunks, own.size * sizeof(float)};
}

struct Forward : AttentionRows {
  std::int64_t values;  ///< offset in the workspace

  void run_head(const Args& args, std::int64_t image, std::int64_t number, float* room) const {
    pack(args, key, image, number, blocks, room + packed_keys);
    to_terms(in(args, value.in) + place(value, image * positions, number, value_blocks), kLanes, value.features,
             positions, value_blocks, room + values);
    for (std::int64_t row = 0; row < length; row += rows) {
      const std::int64_t count = std::min(rows, length - row), at = image * length + row;
      exponentiate(room, args, at, number, count);
      float* const y = static_cast<float*>(args.out[0]) + at * value_pitch() + number * value_blocks * kLanes;
      round_weights(room + scores, count);
      NEURIM_DISPATCH(block_product)(means_of(count, value_pitch()), value_blocks, room + scores, room + values, {}, y);
      NEURIM_DISPATCH(scale_rows)(y, kLanes, value_pitch(), value_blocks, count, room + inverse);
    }
  }
};

Launch forward(KernelRequest& request) {
  const auto& op = static_cast<const MultiheadAttentionOp&>(request.op());
  if (request.in.size() != op.operands() || !op.own_gradient()) return decline(request, "takes no mask and no dropout");
  Forward own;
  if (!own.read(request, op.heads, op.packed, op.attention.scale)) return {};
  own.values = own.take(own.value_blocks * own.terms(own.positions));
  return launch(request, own);
}

struct Backward : AttentionRows {
  bool packed;
  std::int64_t packed_values, keys, gradients, dresults, dkeys, dvalues;  ///< offsets in the workspace
  std::int64_t query_terms, gradient_terms, dresult_terms;  ///< the same, packed for products that sum over rows

  /// Floats of the gradients of all keys or values, padded to whole blocks.
  std::int64_t sums(std::int64_t feature_blocks) const { return feature_blocks * key_blocks() * kLanes * kLanes; }

  void run_head(const Args& args, std::int64_t image, std::int64_t number, float* room) const {
    const auto gradient = [&](std::size_t i, const AttentionOperand& operand, std::int64_t row,
                              std::int64_t head_blocks) {
      return static_cast<float*>(args.out[packed ? 0 : i]) + place(operand, row, number, head_blocks);
    };
    pack(args, key, image, number, blocks, room + packed_keys);
    pack(args, value, image, number, value_blocks, room + packed_values);
    to_terms(in(args, key.in) + place(key, image * positions, number, blocks), kLanes, key.features, positions, blocks,
             room + keys);
    for (std::int64_t row = 0; row < length; row += rows) {
      const std::int64_t count = std::min(rows, length - row), at = image * length + row;
      exponentiate(room, args, at, number, count);
      const float* const dy = in(args, packed ? 1 : 3) + at * value_pitch() + number * value_blocks * kLanes;
      to_factors(dy, value_pitch(), count, value_blocks, room + dresults);
      NEURIM_DISPATCH(block_product)
      (scores_of(count, value_blocks), key_blocks(), room + dresults, room + packed_values, {}, room + gradients);
      NEURIM_DISPATCH(score_gradients)(room + scores, room + gradients, count, positions, scale, room + inverse);
      if (pairs) {
        to_terms(in(args, query.in) + place(query, at, number, blocks), kLanes, query.features, count, blocks,
                 room + query_terms);
        to_terms(dy, kLanes, value_pitch(), count, value_blocks, room + dresult_terms);
        to_terms(room + gradients, count * kLanes, kLanes, count, key_blocks(), room + gradient_terms);
        to_terms(room + scores, count * kLanes, kLanes, count, key_blocks(),
                 room + scores);  // in place: a pair of rows never lies after its source
      }
      round_weights(room + gradients, count);
      NEURIM_DISPATCH(block_product)
      (means_of(count, query.features), blocks, room + gradients, room + keys, {}, gradient(0, query, at, blocks));
      const BlockWeightGrad sum{.in_blocks = key_blocks(),
                                .rows = terms(count) / kLanes,
                                .x_block = terms(count),
                                .dy_block = terms(count),
                                .weight_block = kLanes * kLanes,
                                .pairs = pairs};
      NEURIM_DISPATCH(block_weight_grad)(sum, blocks, room + gradient_terms, room + query_terms, row > 0, room + dkeys);
      NEURIM_DISPATCH(block_weight_grad)
      (sum, value_blocks, room + scores, room + dresult_terms, row > 0, room + dvalues);
    }
    to_rows(room + dkeys, sums(1), key.features, positions, blocks, gradient(1, key, image * positions, blocks));
    to_rows(room + dvalues, sums(1), value.features, positions, value_blocks,
            gradient(2, value, image * positions, value_blocks));
  }
};

Launch backward(KernelRequest& request) {
  const auto& op = static_cast<const MultiheadAttentionGrad&>(request.op());
  Backward own;
  if (!own.read(request, op.heads, op.packed, op.scale)) return {};
  own.packed = op.packed;
  own.packed_values = own.take(own.sums(own.value_blocks)), own.keys = own.take(own.blocks * own.terms(own.positions));
  own.gradients = own.take(own.key_blocks() * own.rows * kLanes),
  own.dresults = own.take(own.value_blocks * own.rows * own.words());
  own.dkeys = own.take(own.sums(own.blocks)), own.dvalues = own.take(own.sums(own.value_blocks));
  const auto terms_of = [&](std::int64_t factors, std::int64_t count) {
    return own.pairs ? own.take(count * own.terms(own.rows)) : factors;
  };
  own.query_terms = terms_of(own.queries, own.blocks), own.gradient_terms = terms_of(own.gradients, own.key_blocks());
  own.dresult_terms = terms_of(own.dresults, own.value_blocks);
  return launch(request, own);
}

}  // namespace

void cpu_attention_rows() {
  cpu::add_kernel({.op = "multihead_attention", .name = "cpu rows", .prepare = forward});
  cpu::add_kernel({.op = "multihead_attention_grad", .name = "cpu rows", .prepare = backward});
}

}  // namespace neurim
