#include "neurim/backend/cpu/attention.h"

#include <algorithm>
#include <cstring>

#include "neurim/backend/cpu/block_product.h"
#include "neurim/backend/cpu/physical.h"
#include "neurim/graph/kernel.h"
#include "neurim/ops/multihead_attention.h"

namespace neurim {

namespace {

using namespace cpu;

constexpr std::int64_t kLanes = 16, kScores = 1 << 14;  // floats of a tile

/// Softmax(scale * query key^T) value, in runs of the queries of one head.
struct Attention : AttentionSizes {
  std::int64_t cuts, rows;    ///< runs of the queries of a head; queries of a tile
  std::int64_t packed, size;  ///< floats of a part's scratch: before the scores, and all

  static void run(const void* self, const Args& args, int part) noexcept {
    const auto& own = *static_cast<const Attention*>(self);
    own.run_queries(args, part, static_cast<float*>(args.scratch) + args.place * own.size);
  }

  /// Block `block` of an operand in one image with `count` rows.
  static const float* at(const AttentionOperand& operand, const Args& args, std::int64_t image, std::int64_t count, std::int64_t block) {
    const float* const all = static_cast<const float*>(args.in[static_cast<std::size_t>(operand.in)]);
    return all + (image * (operand.features / kLanes) + operand.first / kLanes + block) * count * kLanes;
  }

  void run_queries(const Args& args, std::int64_t number, float* keys) const {
    float *const scores = keys + packed, *const inverse = scores + key_blocks() * rows * kLanes, *const rounded = inverse + rows * kLanes;
    const std::int64_t cut = number % cuts, head = number / cuts % heads, image = number / cuts / heads, plane = length * kLanes;
    NEURIM_DISPATCH(pack_keys)
    (at(key, args, image, positions, head * blocks), positions * kLanes, kLanes, blocks * kLanes, positions, keys);
    const float *const queries = at(query, args, image, length, head * blocks),
                *values = at(value, args, image, positions, head * value_blocks);
    if (pairs) {
      pair_keys(blocks, keys);
      to_terms(values, positions * kLanes, kLanes, positions, value_blocks, keys + key_floats());
      values = keys + key_floats();
    }
    float* const y = static_cast<float*>(args.out[0]) + (image * heads + head) * value_blocks * plane;
    const std::int64_t end = length * (cut + 1) / cuts;
    for (std::int64_t first = length * cut / cuts; first < end; first += rows) {
      const std::int64_t count = std::min(rows, end - first), at = first * kLanes;
      if (pairs) NEURIM_DISPATCH(round_to_pairs)(pairs, queries + at, plane, kLanes, count, blocks * kLanes, rounded);
      NEURIM_DISPATCH(block_product)
      ({.rows = count,
        .in_channels = blocks * kLanes,
        .x_block = pairs ? count * words() : plane,
        .weight_block = blocks * kLanes * words(),
        .y_block = count * kLanes,
        .pairs = pairs,
        .out_channels = positions},
       key_blocks(), pairs ? rounded : queries + at, keys, {}, scores);
      NEURIM_DISPATCH(exponentiate_scores)(scores, count, positions, scale, inverse);
      round_weights(scores, count);
      NEURIM_DISPATCH(block_product)
      ({count, positions, count * words(), terms(positions), plane, pairs}, value_blocks, scores, values, {}, y + at);
      NEURIM_DISPATCH(scale_rows)(y + at, plane, kLanes, value_blocks, count, inverse);
    }
  }
};

bool read(Site& site, Attention& own) {
  if (site.training) return decline(site, "takes features in blocks, which fully connected layers in training do not make"), false;
  const auto& op = static_cast<const MultiheadAttentionOp&>(site.op());
  if (site.steps[0].in.size() != op.operands() || !op.own_gradient()) return decline(site, "takes no mask and no dropout"), false;
  return read_sizes(site, op.heads, op.packed, op.attention.scale, own);
}

bool wants(Site& site) {
  Attention own;
  if (!read(site, own)) return false;
  for (Spec& spec : site.values) spec.layout = kFeatures;
  return true;
}

Launch prepare(Site& site) {
  auto own = std::make_shared<Attention>();
  if (!read(site, *own)) return {};
  if (std::any_of(site.values.begin(), site.values.end(), [](const Spec& spec) { return spec.layout != kFeatures; }))
    return decline(site, "takes blocks of 16 features");
  const std::int64_t both = own->images * own->heads, key_blocks = own->key_blocks();
  own->cuts = both % site.chunks == 0 ? 1 : std::min<std::int64_t>(site.chunks, own->length);
  constexpr std::int64_t kGroup = 14;  // rows that a block product keeps in registers
  own->rows = std::clamp<std::int64_t>(kScores / (key_blocks * kLanes) / kGroup * kGroup, kGroup, 8 * kGroup);
  own->packed = own->key_floats() + (own->pairs ? own->value_blocks * own->terms(own->positions) : 0);
  own->size = own->packed + (key_blocks + 1) * own->rows * kLanes + (own->pairs ? own->rows * own->blocks * own->words() : 0);
  site.scratch = static_cast<std::size_t>(site.chunks * own->size) * sizeof(float);
  return {Attention::run, own, static_cast<int>(both * own->cuts), 0, site.chunks};
}

}  // namespace

bool cpu::read_sizes(Site& site, std::int64_t heads, bool packed, double scale, AttentionSizes& sizes) {
  for (const Spec& spec : site.values)
    if (spec.type.dtype != DType::f32) return decline(site, "takes f32 only"), false;
  if (!(scale >= 0)) return decline(site, "takes no negative scale"), false;
  const auto shape = [&](int i) -> const Shape& { return site.input(packed ? 0 : i).type.shape; };
  const auto operand = [&](int i) -> AttentionOperand { return {packed ? 0 : i, shape(i)[2], packed ? i * shape(i)[2] / 3 : 0}; };
  const std::int64_t parts = packed ? 3 * heads : heads, features = shape(0)[2] / parts, values = shape(2)[2] / parts;
  if (features % kLanes || values % kLanes) return decline(site, "takes heads of whole blocks of 16 features"), false;
  if (shape(0).numel() == 0 || shape(2).numel() == 0) return decline(site, "takes no empty tensors"), false;
  sizes = {shape(0)[0],         heads,      shape(0)[1], shape(1)[1], features / kLanes, values / kLanes,
           static_cast<float>(scale), operand(0), operand(1),  operand(2),  site.half()};
  if (sizes.pairs) site.rounds = site.products;
  return true;
}

void cpu::AttentionSizes::pair_keys(std::int64_t head_blocks, float* packed) const {
  for (std::int64_t block = 0; block < key_blocks() * head_blocks; ++block)
    NEURIM_DISPATCH(pair_rows)(pairs, packed + block * kLanes * kLanes, kLanes, 0, kLanes, kLanes, kLanes, packed + block * kLanes * words());
}

void cpu::AttentionSizes::to_terms(const float* x, std::int64_t block, std::int64_t row, std::int64_t rows, std::int64_t count, float* to) const {
  for (std::int64_t b = 0; b < count; ++b, x += block, to += terms(rows)) {
    if (pairs)
      NEURIM_DISPATCH(pair_rows)(pairs, x, row, 0, rows, rows, kLanes, to);
    else
      for (std::int64_t r = 0; r < rows; ++r) std::memcpy(to + r * kLanes, x + r * row, kLanes * sizeof(float));  // std::copy_n calls a function
  }
}

void cpu::AttentionSizes::round_weights(float* weights, std::int64_t rows) const {
  if (pairs) NEURIM_DISPATCH(round_to_pairs)(pairs, weights, rows * kLanes, kLanes, rows, positions, weights);  // a row lies no later than before
}

void cpu_attention() { add({.op = "multihead_attention", .name = "cpu", .rank = 20, .prepare = prepare, .wants = wants}); }

}  // namespace neurim
