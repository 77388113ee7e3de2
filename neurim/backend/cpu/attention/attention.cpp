#include "neurim/backend/cpu/attention/attention.h"

#include <algorithm>
#include <cstring>

#include "neurim/backend/cpu/common/block_product.h"
#include "neurim/backend/cpu/common/physical.h"
#include "neurim/backend/cpu/common/priorities.h"
#include "neurim/graph/kernel.h"
#include "neurim/ops/multihead_attention.h"

namespace neurim {

namespace {

using namespace cpu;

constexpr std::int64_t kLanes = 16, kScores = 1 << 14;  // floats of a tile's scores

/// Softmax(scale * query key^T) value. A task takes runs of the queries of one head.
struct Attention : AttentionSizes {
  std::int64_t cuts, rows;  ///< runs of a head's queries; queries of a tile
  std::int64_t packed;      ///< floats of the per-thread workspace before the scores
  StorageDtype rounded{};   ///< storage of operands and result

  static void run(const void* self, const Args& args, int task) noexcept {
    const auto& own = *static_cast<const Attention*>(self);
    own.run_queries(args, task, static_cast<float*>(args.workspace));
  }

  /// Block `block` of an operand in one image of `count` rows.
  const float* at(const AttentionOperand& operand, const Args& args, std::int64_t image, std::int64_t count,
                  std::int64_t block) const {
    const float* const all = static_cast<const float*>(args.in[operand.in]);
    return element(all, (image * (operand.features / kLanes) + operand.first / kLanes + block) * count * kLanes,
                   rounded);
  }

  void run_queries(const Args& args, std::int64_t number, float* keys) const {
    float *const scores = keys + packed, *const inverse = scores + key_blocks() * rows * kLanes,
                 *const room = inverse + rows * kLanes;
    const std::int64_t cut = number % cuts, head = number / cuts % heads, image = number / cuts / heads,
                       plane = length * kLanes, row = rounded ? words() : kLanes;
    NEURIM_DISPATCH(pack_keys)
    (at(key, args, image, positions, head * blocks), rounded, positions * row, row, blocks * kLanes, positions, keys);
    const float *const queries = at(query, args, image, length, head * blocks),
                       *values = at(value, args, image, positions, head * value_blocks);
    if (pairs) {
      float* const terms_of_values = keys + key_floats();
      if (rounded)
        for (std::int64_t b = 0; b < value_blocks; ++b) NEURIM_DISPATCH(pair_rounded_rows)
      (reinterpret_cast<const std::uint16_t*>(element(values, b * positions * kLanes, rounded)), kLanes, 0, positions,
       positions, kLanes, terms_of_values + b * terms(positions));
      else pair_keys(blocks, keys),
          to_terms(values, positions * kLanes, kLanes, positions, value_blocks, terms_of_values);
      values = terms_of_values;
    }
    float* const y = element(static_cast<float*>(args.out[0]), (image * heads + head) * value_blocks * plane, rounded);
    const std::int64_t end = length * (cut + 1) / cuts;
    for (std::int64_t first = length * cut / cuts; first < end; first += rows) {
      const std::int64_t count = std::min(rows, end - first), at = first * kLanes;
      const float* x = element(queries, at, rounded);
      if (pairs && !rounded)
        NEURIM_DISPATCH(round_to_pairs)(pairs, x, plane, kLanes, count, blocks * kLanes, room), x = room;
      NEURIM_DISPATCH(block_product)
      ({.rows = count,
        .in_channels = blocks * kLanes,
        .x_block = x == room ? count * words() : length * row,
        .weight_block = blocks * kLanes * words(),
        .y_block = count * kLanes,
        .pairs = pairs,
        .out_channels = positions},
       key_blocks(), x, keys, {}, scores);
      float* const to = rounded ? room : y + at;
      const std::int64_t to_block = rounded ? count * kLanes : plane;
      NEURIM_DISPATCH(exponentiate_scores)(scores, count, positions, scale, inverse);
      round_weights(scores, count);
      NEURIM_DISPATCH(block_product)
      ({count, positions, count * words(), terms(positions), to_block, pairs}, value_blocks, scores, values, {}, to);
      NEURIM_DISPATCH(scale_rows)(to, to_block, kLanes, value_blocks, count, inverse);
      for (std::int64_t b = 0; rounded && b < value_blocks; ++b) NEURIM_DISPATCH(round_to_pairs)
      (pairs, to + b * to_block, to_block, kLanes, count, kLanes, element(y, b * plane + at, rounded));
    }
  }
};

bool read(KernelRequest& request, Attention& own) {
  if (request.training)
    return decline(request, "takes features in blocks, which fully connected layers in training do not make"), false;
  const auto& op = static_cast<const MultiheadAttentionOp&>(request.op());
  if (request.steps[0].in.size() != op.operands() || !op.own_gradient())
    return decline(request, "takes no mask and no dropout"), false;
  return read_sizes(request, op.heads, op.packed, op.attention.scale, own);
}

bool propose_layouts(KernelRequest& request) {
  Attention own;
  if (!read(request, own)) return false;
  const Layout layout = narrowed(request, kFeatures);
  for (TensorDesc& desc : request.values) desc.layout = layout;
  return true;
}

Launch prepare(KernelRequest& request) {
  auto own = std::make_shared<Attention>();
  if (!read(request, *own)) return {};
  const Layout& layout = request.input(0).layout;
  if (exact(layout) != kFeatures || std::any_of(request.values.begin(), request.values.end(),
                                                [&](const TensorDesc& desc) { return desc.layout != layout; }))
    return decline(request, "takes blocks of 16 features");
  own->rounded = layout.storage;
  const std::int64_t both = own->images * own->heads, key_blocks = own->key_blocks();
  own->cuts = both % request.chunks == 0 ? 1 : std::min<std::int64_t>(request.chunks, own->length);
  constexpr std::int64_t kGroup = 14;  // rows that a block product keeps in registers
  own->rows = std::clamp<std::int64_t>(kScores / (key_blocks * kLanes) / kGroup * kGroup, kGroup, 8 * kGroup);
  own->packed = own->key_floats() + (own->pairs ? own->value_blocks * own->terms(own->positions) : 0);
  const std::int64_t room = own->rounded ? own->value_blocks * kLanes : own->pairs ? own->blocks * own->words() : 0;
  const std::int64_t size = own->packed + ((key_blocks + 1) * kLanes + room) * own->rows;
  return {Attention::run, own, static_cast<int>(both * own->cuts), 0, request.chunks, size * sizeof(float)};
}

}  // namespace

bool cpu::read_sizes(KernelRequest& request, std::int64_t heads, bool packed, double scale, AttentionSizes& sizes) {
  for (const TensorDesc& desc : request.values)
    if (desc.type.dtype != DType::f32) return decline(request, "takes f32 only"), false;
  if (!(scale >= 0)) return decline(request, "takes no negative scale"), false;
  const auto shape = [&](int i) -> const Shape& { return request.input(packed ? 0 : i).type.shape; };
  const auto operand = [&](int i) -> AttentionOperand {
    return {packed ? 0 : i, shape(i)[2], packed ? i * shape(i)[2] / 3 : Dim(0)};
  };
  const std::int64_t tasks = packed ? 3 * heads : heads, features = shape(0)[2] / tasks, values = shape(2)[2] / tasks;
  if (features % kLanes || values % kLanes)
    return decline(request, "takes heads of whole blocks of 16 features"), false;
  if (shape(0).numel() == 0 || shape(2).numel() == 0) return decline(request, "takes no empty tensors"), false;
  sizes = {shape(0)[0],
           heads,
           shape(0)[1],
           shape(1)[1],
           features / kLanes,
           values / kLanes,
           static_cast<float>(scale),
           operand(0),
           operand(1),
           operand(2),
           request.storage()};
  if (sizes.pairs) request.used_dtype = request.compute_dtype;
  return true;
}

void cpu::AttentionSizes::pair_keys(std::int64_t head_blocks, float* packed) const {
  for (std::int64_t block = 0; block < key_blocks() * head_blocks; ++block) NEURIM_DISPATCH(pair_rows)
  (pairs, packed + block * kLanes * kLanes, kLanes, 0, kLanes, kLanes, kLanes, packed + block * kLanes * words());
}

void cpu::AttentionSizes::to_terms(const float* x, std::int64_t block, std::int64_t row, std::int64_t rows,
                                   std::int64_t count, float* to) const {
  for (std::int64_t b = 0; b < count; ++b, x += block, to += terms(rows)) {
    if (pairs)
      NEURIM_DISPATCH(pair_rows)(pairs, x, row, 0, rows, rows, kLanes, to);
    else
      for (std::int64_t r = 0; r < rows; ++r)
        std::memcpy(to + r * kLanes, x + r * row, kLanes * sizeof(float));  // std::copy_n would be a call
  }
}

void cpu::AttentionSizes::round_weights(float* weights, std::int64_t rows) const {
  if (pairs) NEURIM_DISPATCH(round_to_pairs)
  (pairs, weights, rows * kLanes, kLanes, rows, positions, weights);  // in place: a row never lies after its source
}

void cpu_attention() {
  cpu::add_kernel({.op = "multihead_attention", .name = "cpu", .prepare = prepare, .propose_layouts = propose_layouts});
}

}  // namespace neurim
