#include "neurim/backend/cpu/packing/vnni_weights.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "neurim/backend/cpu/common/block_product.h"
#include "neurim/backend/cpu/common/interned.h"
#include "neurim/backend/cpu/common/packed_weights.h"
#include "neurim/backend/cpu/common/physical.h"
#include "neurim/backend/cpu/common/priorities.h"
#include "neurim/backend/cpu/int8/int8_product.h"
#include "neurim/base/text.h"
#include "neurim/core/float16.h"
#include "neurim/graph/kernel.h"

namespace neurim::cpu {

namespace {

constexpr int kLanes = 16, kBlock = kLanes * kLanes;

/// The layout of the packed f32 weights that are rounded.
Layout blocks_of_floats(const Type& weight, bool gradient) {
  return gradient ? gradient_weights(weight) : forward_weights(weight);
}

template <bool gradient, StorageDtype storage>
void pack_pairs(const void* self, const void* plain, void* packed) {
  const Type& type = *static_cast<const Type*>(self);
  const Layout blocks = blocks_of_floats(type, gradient);
  std::vector<float> floats(bytes(type, blocks) / sizeof(float));
  pack(type, blocks, plain, floats.data());
  NEURIM_DISPATCH(pair_rows)
  (storage, floats.data(), kLanes, 0, std::ssize(floats) / kLanes, std::ssize(floats) / kLanes, kLanes,
   static_cast<float*>(packed));
}

template <StorageDtype storage>
void pack_rows(const void* self, const void* plain, void* packed) {
  const Shape& s = static_cast<const Type*>(self)->shape;
  const auto* const from = static_cast<const float*>(plain);
  auto* to = static_cast<float*>(packed);
  const std::int64_t channels = s[1], height = s[2], width = s[3], all = channels * width;
  float block[kBlock];
  for (std::int64_t out = 0; out < s[0]; out += 16)
    for (std::int64_t in = 0; in < all; in += 16)
      for (std::int64_t row = 0; row < height; ++row, to += storage == StorageDtype::exact ? kBlock : kBlock / 2) {
        std::fill_n(block, kBlock, 0.0f);
        for (std::int64_t i = 0; i < std::min<std::int64_t>(16, all - in); ++i)
          for (std::int64_t o = 0; o < std::min<std::int64_t>(16, s[0] - out); ++o) {
            const std::int64_t column = (in + i) / channels, channel = (in + i) % channels;
            block[i * 16 + o] = from[(((out + o) * channels + channel) * height + row) * width + column];
          }
        if constexpr (storage != StorageDtype::exact)
          NEURIM_DISPATCH(pair_rows)(storage, block, kLanes, 0, kLanes, kLanes, kLanes, to);
        else
          std::copy_n(block, kBlock, to);
      }
}

/// Where blocks of 16 by 16 stand in groups for tiles, two to a group of an output block and tap.
struct TileGroups {
  std::int64_t blocks, in_blocks, taps;
  std::int64_t groups() const { return (in_blocks + 1) / 2; }
  std::size_t bytes() const { return static_cast<std::size_t>(blocks / in_blocks * groups() * 2 * kBlock * 2); }

  /// Rounds blocks [first, last) of floats. The other half of a group with one block becomes zero.
  void round(const float* from, std::int64_t first, std::int64_t last, void* to) const {
    for (std::int64_t block = first; block < last; ++block) {
      const std::int64_t tap = block % taps, in = block / taps % in_blocks, out = block / taps / in_blocks;
      auto* const group = static_cast<float*>(to) + ((out * groups() + in / 2) * taps + tap) * kBlock;
      NEURIM_DISPATCH(pair_rows)
      (StorageDtype::bf16, from + block * kBlock, kLanes, 0, kLanes, kLanes, kLanes, group + in % 2 * (kBlock / 2));
      if (in % 2 == 0 && in + 1 == in_blocks) std::fill_n(group + kBlock / 2, kBlock / 2, 0.0f);
    }
  }
};
TileGroups tile_groups(const Type& weight, bool gradient) {
  const Shape& s = weight.shape;
  const std::int64_t taps = s.rank() == 2 ? Dim(1) : s[2] * s[3], out = blocks_of(s[0]), in = blocks_of(s[1]);
  return {out * in * taps, gradient ? out : in, taps};
}
TileGroups tile_row_groups(const Type& weight) {
  const Shape& s = weight.shape;
  const std::int64_t in = blocks_of(s[1] * s[3]);
  return {blocks_of(s[0]) * in * s[2], in, s[2]};
}

template <bool gradient>
void pack_tiles(const void* self, const void* plain, void* packed) {
  const Type& type = *static_cast<const Type*>(self);
  const Layout blocks = blocks_of_floats(type, gradient);
  std::vector<float> floats(bytes(type, blocks) / sizeof(float));
  pack(type, blocks, plain, floats.data());
  const TileGroups groups = tile_groups(type, gradient);
  groups.round(floats.data(), 0, groups.blocks, packed);
}

void pack_tile_rows(const void* self, const void* plain, void* packed) {
  const TileGroups groups = tile_row_groups(*static_cast<const Type*>(self));
  std::vector<float> floats(groups.blocks * kBlock);
  pack_rows<StorageDtype::exact>(self, plain, floats.data());
  groups.round(floats.data(), 0, groups.blocks, packed);
}

/// Weights of grouped convolutions.
struct Grouped {
  Type weight;
  std::int64_t groups;
  bool operator==(const Grouped&) const = default;

  std::vector<ReadBlocks> read() const { return read_blocks(weight.shape[1] * groups, weight.shape[0], groups); }
  std::int64_t taps() const { return weight.shape[2] * weight.shape[3]; }
  std::int64_t floats() const {
    const ReadBlocks last = read().back();
    return (last.before + last.count()) * taps() * kBlock;
  }
};

template <StorageDtype storage>
void pack_groups(const void* self, const void* plain, void* packed) {
  const auto& own = *static_cast<const Grouped*>(self);
  const std::vector<ReadBlocks> read = own.read();
  const std::int64_t out_size = own.weight.shape[0] / own.groups, in_size = own.weight.shape[1], taps = own.taps();
  const auto* from = static_cast<const float*>(plain);
  std::vector<float> floats(own.floats());
  for (std::int64_t o = 0; o < own.weight.shape[0]; ++o)
    for (std::int64_t i = 0; i < in_size; ++i)
      for (std::int64_t tap = 0; tap < taps; ++tap) {
        const std::int64_t in = o / out_size * in_size + i;
        const ReadBlocks& blocks = read[o / kLanes];
        const std::int64_t block = blocks.before + in / kLanes - blocks.first;
        floats[((block * taps + tap) * kLanes + in % kLanes) * kLanes + o % kLanes] = *from++;
      }
  const std::int64_t rows = own.floats() / kLanes;
  if constexpr (storage != StorageDtype::exact)
    NEURIM_DISPATCH(pair_rows)(storage, floats.data(), kLanes, 0, rows, rows, kLanes, static_cast<float*>(packed));
  else
    std::copy(floats.begin(), floats.end(), static_cast<float*>(packed));
}

void pack_group_rows(const void* self, const void* plain, void* packed) {
  const Shape& s = static_cast<const Type*>(self)->shape;
  const std::int64_t width = s[1], taps = s[2] * s[3];
  const auto* from = static_cast<const float*>(plain);
  auto* const to = static_cast<float*>(packed);
  std::fill_n(to, blocks_of(s[0]) * taps * width * kLanes, 0.0f);
  for (std::int64_t o = 0; o < s[0]; ++o)
    for (std::int64_t i = 0; i < width; ++i)
      for (std::int64_t tap = 0; tap < taps; ++tap)
        to[((o / kLanes * taps + tap) * width + i) * kLanes + o % kLanes] = *from++;
}

/// Words of `group` input channels together.
template <class T, bool rows, int group = kLanes>
void pack_bytes(const void* self, const void* plain, void* packed) {
  const Shape& s = static_cast<const Type*>(self)->shape;
  const auto* const from = static_cast<const std::int8_t*>(plain);
  auto* to = static_cast<T*>(packed);
  constexpr int kTogether = 4 / sizeof(T);
  const std::int64_t channels = s[1], height = s.rank() == 2 ? Dim(1) : s[2], width = s.rank() == 2 ? Dim(1) : s[3],
                     terms = rows ? channels * width : channels;
  for (std::int64_t out = 0; out < s[0]; out += kLanes)
    for (std::int64_t in = 0; in < terms; in += group)
      for (std::int64_t tap = 0; tap < (rows ? height : height * width); ++tap)
        for (std::int64_t word = in; word < in + group; word += kTogether)
          for (std::int64_t o = out; o < out + kLanes; ++o)
            for (std::int64_t i = word; i < word + kTogether; ++i) {
              const std::int64_t channel = rows ? i % channels : i, place = rows ? tap * width + i / channels : tap;
              *to++ = o < s[0] && i < terms ? from[(o * channels + channel) * height * width + place] : T{0};
            }
}

template <StorageDtype storage>
void round_matrix(const void* self, const void* plain, void* packed) {
  const Shape& s = static_cast<const Type*>(self)->shape;
  const auto* from = static_cast<const float*>(plain);
  auto* to = static_cast<std::uint16_t*>(packed);
  for (std::int64_t o = 0; o < s[0]; ++o)
    for (std::int64_t i = 0; i < blocks_of(s[1]) * kLanes; ++i)
      *to++ = i < s[1] ? to_storage(storage, *from++) : std::uint16_t{0};
}

/// The layout of a packed format made of f32 weights of this type; registered once for each.
Layout format_of(std::string_view name, const Type& weight, std::size_t size,
                 void (*pack)(const void*, const void*, void*), std::optional<Layout> made_from = {}) {
  return {Layout::packed, 0,
          register_format({.name = text(name, ' ', weight),
                           .bytes = size,
                           .pack = pack,
                           .self = interned(weight),
                           .made_from = made_from})};
}

/// The function that packs pairs of such weights.
auto* pack_pairs_of(StorageDtype storage, bool gradient) {
  return storage == StorageDtype::f16
             ? (gradient ? pack_pairs<true, StorageDtype::f16> : pack_pairs<false, StorageDtype::f16>)
             : (gradient ? pack_pairs<true, StorageDtype::bf16> : pack_pairs<false, StorageDtype::bf16>);
}

/// Rounds packed weights to pairs in each call, for weights that change.
struct Rounding {
  StorageDtype storage;
  std::optional<TileGroups> tiles;
  std::int64_t blocks;
  int tasks;

  static void run(const void* self, const Args& args, int task) noexcept {
    const auto& own = *static_cast<const Rounding*>(self);
    const auto* const from = static_cast<const float*>(args.in[0]);
    const std::int64_t begin = task_begin(own.blocks, own.tasks, task),
                       end = task_begin(own.blocks, own.tasks, task + 1);
    if (own.tiles) return own.tiles->round(from, begin, end, args.out[0]);
    NEURIM_DISPATCH(pair_rows)
    (own.storage, from + begin * kBlock, kLanes, 0, (end - begin) * kLanes, (end - begin) * kLanes, kLanes,
     static_cast<float*>(args.out[0]) + begin * kBlock / 2);
  }
};

/// How a packed format's pairs are made; nothing if it has none.
std::optional<Rounding> rounding_of(const PackedFormat& format) {
  for (const bool gradient : {false, true}) {
    const auto blocks = [&] { return tile_groups(*static_cast<const Type*>(format.self), gradient); };
    if (format.pack == (gradient ? pack_tiles<true> : pack_tiles<false>))
      return Rounding{StorageDtype::bf16, blocks(), blocks().blocks, 0};
    for (const StorageDtype storage : {StorageDtype::bf16, StorageDtype::f16})
      if (format.pack == pack_pairs_of(storage, gradient)) return Rounding{storage, {}, blocks().blocks, 0};
  }
  return {};
}

Launch prepare(KernelRequest& request) {
  const Layout &from = request.input(0).layout, &to = request.output(0).layout;
  const auto* const format = to.kind == Layout::packed ? &packed_format(to.format) : nullptr;
  const auto rounding = format ? rounding_of(*format) : std::nullopt;
  if (!rounding || from != format->made_from) return decline(request, "makes pairs of packed weights only");
  const auto all = std::make_shared<Rounding>(*rounding);
  all->tasks = tasks_of(request, all->blocks * kBlock, all->blocks);
  return {Rounding::run, all, all->tasks};
}

}  // namespace

std::string name_of_pairs(StorageDtype storage) { return storage == StorageDtype::f16 ? "f16 pairs" : "pairs"; }

void unpair_block(StorageDtype storage, const std::uint16_t* from, float* to) {
  for (int in = 0; in < kLanes; ++in)
    for (int out = 0; out < kLanes; ++out)
      to[in * kLanes + out] = from_storage(storage, from[(in / 2 * kLanes + out) * 2 + in % 2]);
}

Layout vnni_weights(const Type& weight, StorageDtype storage, bool gradient) {
  const Layout floats = blocks_of_floats(weight, gradient);
  return format_of(text(gradient ? "gradient " : "", name_of_pairs(storage)), weight, bytes(weight, floats) / 2,
                   pack_pairs_of(storage, gradient), floats);
}

Layout tile_weights(const Type& weight, bool gradient) {
  return format_of(gradient ? "gradient tiles" : "tiles", weight, tile_groups(weight, gradient).bytes(),
                   gradient ? pack_tiles<true> : pack_tiles<false>, blocks_of_floats(weight, gradient));
}

Layout tile_row_weights(const Type& weight) {
  return format_of("row tiles", weight, tile_row_groups(weight).bytes(), pack_tile_rows);
}

Layout rounded_rows(const Type& weight, StorageDtype storage) {
  const std::int64_t numbers = weight.shape[0] * blocks_of(weight.shape[1]) * kLanes;
  return format_of(storage == StorageDtype::f16 ? "f16 matrix" : "bf16 matrix", weight,
                   static_cast<std::size_t>(numbers) * 2,
                   storage == StorageDtype::f16 ? round_matrix<StorageDtype::f16> : round_matrix<StorageDtype::bf16>);
}

Layout byte_weights(const Type& weight, bool rows) {
  const Shape& s = weight.shape;
  const std::int64_t columns = s.rank() == 2 ? Dim(1) : s[3],
                     taps = s.rank() == 2 ? Dim(1) : s[2] * (rows ? 1 : columns),
                     size = blocks_of(s[0]) * blocks_of(rows ? s[1] * columns : s[1]) * taps * kBlock;
  const bool quads = bytes_together() == 4;
  return format_of(text(rows ? "row " : "", quads ? "quads" : "shorts"), weight,
                   static_cast<std::size_t>(size) * (quads ? 1 : 2),
                   quads ? (rows ? pack_bytes<std::int8_t, true> : pack_bytes<std::int8_t, false>)
                         : (rows ? pack_bytes<std::int16_t, true> : pack_bytes<std::int16_t, false>));
}

Layout byte_tile_weights(const Type& weight, bool rows) {
  const Shape& s = weight.shape;
  const std::int64_t columns = s.rank() == 2 ? Dim(1) : s[3],
                     taps = s.rank() == 2 ? Dim(1) : s[2] * (rows ? 1 : columns),
                     groups = (s[1] * (rows ? columns : 1) + 4 * kLanes - 1) / (4 * kLanes);
  return format_of(rows ? "row byte tiles" : "byte tiles", weight,
                   static_cast<std::size_t>(blocks_of(s[0]) * groups * taps * 4 * kBlock),
                   rows ? pack_bytes<std::int8_t, true, 4 * kLanes> : pack_bytes<std::int8_t, false, 4 * kLanes>);
}

std::vector<ReadBlocks> read_blocks(std::int64_t in_channels, std::int64_t out_channels, std::int64_t groups) {
  const std::int64_t out_size = out_channels / groups, in_size = in_channels / groups;
  std::vector<ReadBlocks> all;
  for (std::int64_t out = 0, before = 0; out < out_channels; out += kLanes) {
    const std::int64_t last = std::min<std::int64_t>(out + kLanes, out_channels) - 1;
    all.push_back({out / out_size * in_size / kLanes, blocks_of((last / out_size + 1) * in_size), before});
    before += all.back().count();
  }
  return all;
}

Layout group_weights(const Type& weight, std::int64_t groups, StorageDtype storage) {
  const Grouped* const own = interned(Grouped{weight, groups});
  return {Layout::packed, 0,
          register_format({.name = text(storage ? name_of_pairs(storage) + " of " : "", groups, " groups ", weight),
                           .bytes = static_cast<std::size_t>(own->floats()) * (storage ? 2 : 4),
                           .pack = storage == StorageDtype::f16    ? pack_groups<StorageDtype::f16>
                                   : storage == StorageDtype::bf16 ? pack_groups<StorageDtype::bf16>
                                                                   : pack_groups<StorageDtype::exact>,
                           .self = own})};
}

Layout group_rows(const Type& weight) {
  const Shape& s = weight.shape;
  return format_of("group rows", weight, blocks_of(s[0]) * s[1] * s[2] * s[3] * kLanes * sizeof(float),
                   pack_group_rows);
}

Layout row_weights(const Type& weight, StorageDtype storage) {
  const Shape& s = weight.shape;
  const std::int64_t size = blocks_of(s[0]) * blocks_of(s[1] * s[3]) * s[2] * kBlock * (storage ? 2 : 4);
  return format_of(storage ? "row " + name_of_pairs(storage) : "rows", weight, static_cast<std::size_t>(size),
                   storage == StorageDtype::f16    ? pack_rows<StorageDtype::f16>
                   : storage == StorageDtype::bf16 ? pack_rows<StorageDtype::bf16>
                                                   : pack_rows<StorageDtype::exact>);
}

}  // namespace neurim::cpu

namespace neurim {

void cpu_vnni_weights() { cpu::add_kernel({.op = "reorder", .name = "cpu vnni", .prepare = cpu::prepare}); }

}  // namespace neurim
