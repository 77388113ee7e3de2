// Attention whose features stand in rows, as in training, and its gradient, head by head. What the products read is copied into blocks
// of 16 features, a hundredth of their work; a tile of queries at a time, scores are made, exponentiated and multiplied in the cache. The
// gradient makes them again.
#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "neurim/backend/cpu/attention.h"
#include "neurim/backend/cpu/block_product.h"
#include "neurim/backend/cpu/physical.h"
#include "neurim/graph/kernel.h"
#include "neurim/ops/multihead_attention.h"

namespace neurim {

namespace {

using namespace cpu;

constexpr std::int64_t kLanes = 16, kScores = 1 << 14;  // floats of a tile

void copy_block(const float* from, float* to) { std::memcpy(to, from, kLanes * sizeof(float)); }  // std::copy_n calls a function

/// Of one head: rows of features, `pitch` floats apart, and those in blocks, [block][row][16].
void to_blocks(const float* rows, std::int64_t pitch, std::int64_t count, std::int64_t blocks, float* to) {
  for (std::int64_t block = 0; block < blocks; ++block)
    for (std::int64_t row = 0; row < count; ++row, to += kLanes) copy_block(rows + row * pitch + block * kLanes, to);
}
/// `apart` floats lie between blocks.
void to_rows(const float* from, std::int64_t apart, std::int64_t pitch, std::int64_t count, std::int64_t blocks, float* rows) {
  for (std::int64_t row = 0; row < count; ++row)
    for (std::int64_t block = 0; block < blocks; ++block)
      copy_block(from + block * apart + row * kLanes, rows + row * pitch + block * kLanes);
}

struct AttentionRows {
  int query, key, value;  ///< arguments
  std::int64_t images, heads, length, positions, blocks, value_blocks;  ///< blocks of a head's features
  float scale;
  std::int64_t rows = 0;  ///< queries of a tile, at most
  std::int64_t size = 0;  ///< floats of a part's scratch
  int parts = 0;

  std::int64_t key_blocks() const { return blocks_of(positions); }
  std::int64_t pitch() const { return heads * blocks * kLanes; }
  std::int64_t value_pitch() const { return heads * value_blocks * kLanes; }

  /// Scratch, from the beginning on.
  struct Room {
    float* next;
    float* take(std::int64_t floats) { return std::exchange(next, next + floats); }
  };
  /// What both passes have of a head.
  struct Head {
    float *keys, *queries, *scores, *inverse;  ///< keys packed; of a tile the others
  };
  Head head(Room& room) const {
    return {room.take(key_blocks() * blocks * kLanes * kLanes), room.take(rows * blocks * kLanes), room.take(key_blocks() * rows * kLanes),
            room.take((rows + kLanes - 1) / kLanes * kLanes)};
  }
  std::int64_t head_size() const {
    return key_blocks() * kLanes * (blocks * kLanes + rows) + rows * blocks * kLanes + (rows + kLanes - 1) / kLanes * kLanes;
  }

  /// Calls each(image, head, scratch) for those of a part.
  template <class Each>
  void each_head(const Args& args, int part, Each each) const {
    const std::int64_t runs = images * heads;
    for (std::int64_t i = part_begin(runs, parts, part); i < part_begin(runs, parts, part + 1); ++i)
      each(i / heads, i % heads, Room{static_cast<float*>(args.scratch) + part * size});
  }

  /// Scores of the queries of a tile with all keys, exponentiated.
  void exponentiate(const Head& head, const float* from, std::int64_t count) const {
    to_blocks(from, pitch(), count, blocks, head.queries);
    NEURIM_DISPATCH(block_product)
    ({count, blocks * kLanes, count * kLanes, blocks * kLanes * kLanes, count * kLanes}, key_blocks(), head.queries, head.keys, {}, head.scores);
    NEURIM_DISPATCH(exponentiate_scores)(head.scores, count, positions, scale, head.inverse);
  }
  void pack(const float* keys, std::int64_t apart, std::int64_t key_features, float* to) const {
    NEURIM_DISPATCH(pack_keys)(keys, kLanes, apart, key_features * kLanes, positions, to);
  }
};

std::optional<AttentionRows> read(Site& site, std::int64_t heads, double scale) {
  for (const Spec& spec : site.values)
    if (spec.type.dtype != DType::f32) return decline(site, "takes f32 only"), std::nullopt;
  if (site.half()) return decline(site, "takes products of floats"), std::nullopt;
  if (!(scale >= 0)) return decline(site, "takes no negative scale"), std::nullopt;
  const std::vector<int>& in = site.steps[static_cast<std::size_t>(site.anchor)].in;
  const auto shape = [&](int value) -> const Shape& { return site.values[static_cast<std::size_t>(value)].type.shape; };
  const Shape &query = shape(in[0]), &key = shape(in[1]), &value = shape(in[2]);
  const std::int64_t features = query[2] / heads, values = value[2] / heads;
  if (features % kLanes || values % kLanes) return decline(site, "takes heads of whole blocks of 16 features"), std::nullopt;
  if (query.numel() == 0 || value.numel() == 0) return decline(site, "takes no empty tensors"), std::nullopt;
  AttentionRows own{.query = site.place_in(in[0]),
                    .key = site.place_in(in[1]),
                    .value = site.place_in(in[2]),
                    .images = query[0],
                    .heads = heads,
                    .length = query[1],
                    .positions = key[1],
                    .blocks = features / kLanes,
                    .value_blocks = values / kLanes,
                    .scale = static_cast<float>(scale)};
  const std::int64_t most = std::max<std::int64_t>(kScores / (own.key_blocks() * kLanes), kLanes), tiles = (own.length + most - 1) / most;
  own.rows = (own.length + tiles - 1) / tiles;
  own.parts = static_cast<int>(std::min<std::int64_t>(own.images * own.heads, 4 * site.chunks));
  return own;
}

template <class Own>
Launch launch(Site& site, Own own) {
  own.size = own.room();
  site.scratch = static_cast<std::size_t>(own.parts * own.size) * sizeof(float);
  return {Own::run, std::make_shared<Own>(own), own.parts};
}

struct Forward : AttentionRows {
  std::int64_t room() const { return head_size() + value_blocks * positions * kLanes; }

  static void run(const void* self, const Args& args, int part) noexcept {
    const auto& own = *static_cast<const Forward*>(self);
    own.each_head(args, part, [&](std::int64_t image, std::int64_t number, Room room) { own.run_head(args, image, number, room); });
  }

  void run_head(const Args& args, std::int64_t image, std::int64_t number, Room room) const {
    const auto in = [&](int argument) { return static_cast<const float*>(args.in[static_cast<std::size_t>(argument)]); };
    const std::int64_t first = number * blocks * kLanes, first_value = number * value_blocks * kLanes;
    const Head own = head(room);
    float* const values = room.take(value_blocks * positions * kLanes);
    pack(in(key) + image * positions * pitch() + first, pitch(), blocks, own.keys);
    to_blocks(in(value) + image * positions * value_pitch() + first_value, value_pitch(), positions, value_blocks, values);
    for (std::int64_t row = 0; row < length; row += rows) {
      const std::int64_t count = std::min(rows, length - row), at = image * length + row;
      exponentiate(own, in(query) + at * pitch() + first, count);
      float* const y = static_cast<float*>(args.out[0]) + at * value_pitch() + first_value;
      BlockProduct product{count, positions, count * kLanes, positions * kLanes, kLanes};
      product.y_row = value_pitch();
      NEURIM_DISPATCH(block_product)(product, value_blocks, own.scores, values, {}, y);
      NEURIM_DISPATCH(scale_rows)(y, kLanes, value_pitch(), value_blocks, count, own.inverse);
    }
  }
};

Launch forward(Site& site) {
  const auto& op = static_cast<const MultiheadAttentionOp&>(site.op());
  if (site.steps[static_cast<std::size_t>(site.anchor)].in.size() != 3 || !op.own_gradient()) return decline(site, "takes no mask and no dropout");
  const auto own = read(site, op.heads, op.attention.scale);
  return own ? launch(site, Forward{*own}) : Launch{};
}

struct Backward : AttentionRows {
  int dy;  ///< argument

  std::int64_t sums(std::int64_t features) const { return features * key_blocks() * kLanes * kLanes; }  ///< of gradients of all keys
  std::int64_t room() const {
    return head_size() + sums(value_blocks) + blocks * positions * kLanes + key_blocks() * rows * kLanes + rows * value_blocks * kLanes + sums(blocks) +
           sums(value_blocks);
  }

  static void run(const void* self, const Args& args, int part) noexcept {
    const auto& own = *static_cast<const Backward*>(self);
    own.each_head(args, part, [&](std::int64_t image, std::int64_t number, Room room) { own.run_head(args, image, number, room); });
  }

  void run_head(const Args& args, std::int64_t image, std::int64_t number, Room room) const {
    const auto in = [&](int argument) { return static_cast<const float*>(args.in[static_cast<std::size_t>(argument)]); };
    const auto out = [&](std::size_t i) { return static_cast<float*>(args.out[i]); };
    const std::int64_t first = number * blocks * kLanes, first_value = number * value_blocks * kLanes, keys = image * positions * pitch() + first,
                       values = image * positions * value_pitch() + first_value;
    const Head own = head(room);
    float *const packed = room.take(sums(value_blocks)), *const factors = room.take(blocks * positions * kLanes),
          *const gradients = room.take(key_blocks() * rows * kLanes), *const dresults = room.take(rows * value_blocks * kLanes),
          *const dkey = room.take(sums(blocks)), *const dvalue = room.take(sums(value_blocks));
    pack(in(key) + keys, pitch(), blocks, own.keys);
    pack(in(value) + values, value_pitch(), value_blocks, packed);
    to_blocks(in(key) + keys, pitch(), positions, blocks, factors);
    for (std::int64_t row = 0; row < length; row += rows) {
      const std::int64_t count = std::min(rows, length - row), at = image * length + row, queries = at * pitch() + first;
      exponentiate(own, in(query) + queries, count);
      to_blocks(in(dy) + at * value_pitch() + first_value, value_pitch(), count, value_blocks, dresults);
      NEURIM_DISPATCH(block_product)
      ({count, value_blocks * kLanes, count * kLanes, value_blocks * kLanes * kLanes, count * kLanes}, key_blocks(), dresults, packed, {}, gradients);
      NEURIM_DISPATCH(score_gradients)(own.scores, gradients, count, positions, scale, own.inverse);
      BlockProduct product{count, positions, count * kLanes, positions * kLanes, kLanes};
      product.y_row = pitch();
      NEURIM_DISPATCH(block_product)(product, blocks, gradients, factors, {}, out(0) + queries);
      const BlockWeightGrad sum{key_blocks(), count, count * kLanes, count * kLanes, kLanes * kLanes};
      NEURIM_DISPATCH(block_weight_grad)(sum, blocks, gradients, own.queries, row > 0, dkey);
      NEURIM_DISPATCH(block_weight_grad)(sum, value_blocks, own.scores, dresults, row > 0, dvalue);
    }
    to_rows(dkey, sums(1), pitch(), positions, blocks, out(1) + keys);
    to_rows(dvalue, sums(1), value_pitch(), positions, value_blocks, out(2) + values);
  }
};

Launch backward(Site& site) {
  const auto& op = static_cast<const MultiheadAttentionGrad&>(site.op());
  const auto own = read(site, op.heads, op.scale);
  return own ? launch(site, Backward{*own, site.place_in(site.steps[static_cast<std::size_t>(site.anchor)].in[3])}) : Launch{};
}

}  // namespace

void cpu_attention_rows() {
  add({.op = "multihead_attention", .name = "cpu rows", .rank = 15, .prepare = forward});
  add({.op = "multihead_attention_grad", .name = "cpu rows", .rank = 15, .prepare = backward});
}

}  // namespace neurim
