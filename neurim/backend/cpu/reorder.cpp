#include "neurim/backend/cpu/reorder.h"

#include <cstring>

#include "neurim/backend/cpu/physical.h"
#include "neurim/graph/kernel.h"

namespace neurim {

namespace {

using namespace cpu;

constexpr Layout kBlocked{Layout::blocked, 16};

struct Transposed {
  BlockShape shape;
  decltype(&portable::block_channels) run_range;
  std::int64_t ranges;  ///< of places, in each block
  int parts;

  static void run(const void* self, const Args& args, int part) noexcept {
    const auto& own = *static_cast<const Transposed*>(self);
    const std::int64_t pieces = own.shape.images * own.shape.blocks() * own.ranges;
    for (std::int64_t piece = part_begin(pieces, own.parts, part);
         piece < part_begin(pieces, own.parts, part + 1); ++piece) {
      const std::int64_t range = piece % own.ranges;
      own.run_range(own.shape, static_cast<const float*>(args.in[0]), static_cast<float*>(args.out[0]),
                    piece / own.ranges, own.shape.places * range / own.ranges,
                    own.shape.places * (range + 1) / own.ranges);
    }
  }
};

struct Copied {
  std::int64_t bytes;
  int parts;

  static void run(const void* self, const Args& args, int part) noexcept {
    const auto& own = *static_cast<const Copied*>(self);
    const std::int64_t first = part_begin(own.bytes, own.parts, part),
                       last = part_begin(own.bytes, own.parts, part + 1);
    std::memcpy(static_cast<char*>(args.out[0]) + first, static_cast<const char*>(args.in[0]) + first,
                static_cast<std::size_t>(last - first));
  }
};

Launch prepare(Site& site) {
  const Type& type = site.input(0).type;
  const Layout from = site.input(0).layout, to = site.output(0).layout;
  if (from == to) {
    Copied copied{static_cast<std::int64_t>(bytes(type, from)), 1};
    copied.parts = parts_of(site, copied.bytes / 4, copied.bytes);
    return {Copied::run, std::make_shared<Copied>(copied), copied.parts};
  }
  const Layout layout = from == Layout{} ? to : from;
  const bool blocks = from == Layout{}, unblocks = to == Layout{};
  if ((!blocks && !unblocks) || (layout != kBlocked && (layout != kImages || !loopable(type.shape, layout))))
    return decline(site, "takes plain and blocked16 or whole images16, not ", from, " to ", to);
  if (type.dtype != DType::f32) return decline(site, "takes f32 only, not ", type.dtype);
  if (type.shape.numel() == 0) return decline(site, "takes no empty tensors");

  // Sixteen images are the sixteen channels of one block.
  const std::int64_t images = layout == kImages ? type.shape[0] / 16 : type.shape[0],
                     channels = layout == kImages ? 16 : type.shape[1];
  Transposed own{{images, channels, type.shape.numel() / (images * channels)}, nullptr, 1, 1};
  own.run_range = blocks ? NEURIM_DISPATCH(block_channels) : NEURIM_DISPATCH(unblock_channels);
  // A range of places whose two forms fit the first-level cache.
  own.ranges = (own.shape.places + 255) / 256;
  own.parts = parts_of(site, type.shape.numel(), images * own.shape.blocks() * own.ranges);
  return {Transposed::run, std::make_shared<Transposed>(own), own.parts};
}

}  // namespace

void cpu_reorder() { add({.op = "reorder", .name = "cpu", .device = 0, .rank = 20, .prepare = prepare}); }

}  // namespace neurim
