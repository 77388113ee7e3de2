#include "neurim/backend/cpu/reorder.h"

#include <algorithm>
#include <cstring>

#include "neurim/backend/cpu/physical.h"
#include "neurim/graph/kernel.h"

namespace neurim {

namespace {

using namespace cpu;

/// Whether this layout of a shape is one of vectors that the kernels below know.
bool of_vectors(const Shape& shape, const Layout& layout) {
  return layout == kBlocked || ((layout == kImages || layout == kFeatures) && loopable(shape, layout));
}

struct Transposed {
  BlockShape shape;
  decltype(&portable::block_channels) run_range;
  std::int64_t ranges;  ///< of places, in each block
  int parts;

  /// Between plain and `layout`; sixteen images are the sixteen channels of one block.
  Transposed(const Site& site, const Layout& layout, bool blocks) {
    const Shape& logical = site.input(0).type.shape;
    const std::int64_t images = layout == kImages ? logical[0] / 16 : logical[0],
                       channels = layout == kImages ? 16 : logical[*split_axis(layout)];
    shape = {images, channels, logical.numel() / (images * channels), layout == kFeatures};
    run_range = blocks ? NEURIM_DISPATCH(block_channels) : NEURIM_DISPATCH(unblock_channels);
    // A range of places whose two forms fit the first-level cache.
    ranges = (shape.places + 255) / 256;
    parts = parts_of(site, logical.numel(), images * shape.blocks() * ranges);
  }

  void run_part(const void* from, void* to, int part) const {
    const std::int64_t pieces = shape.images * shape.blocks() * ranges;
    for (std::int64_t piece = part_begin(pieces, parts, part); piece < part_begin(pieces, parts, part + 1); ++piece) {
      const std::int64_t range = piece % ranges;
      run_range(shape, static_cast<const float*>(from), static_cast<float*>(to), piece / ranges,
                shape.places * range / ranges, shape.places * (range + 1) / ranges);
    }
  }

  static void run(const void* self, const Args& args, int part) noexcept {
    static_cast<const Transposed*>(self)->run_part(args.in[0], args.out[0], part);
  }
};

/// The same layout of vectors rounded, or not.
struct Converted {
  std::int64_t count;
  Half from, to;  ///< one of them exact
  int parts;

  Converted(const Site& site, const Layout& source, const Layout& target)
      : count(static_cast<std::int64_t>(bytes(site.input(0).type, exact(target)) / sizeof(float))), from(source.rounded), to(target.rounded), parts(parts_of(site, count, count / 16)) {}

  void run_part(const void* source, void* target, int part) const {
    const std::int64_t first = part_begin(count / 16, parts, part) * 16, last = part_begin(count / 16, parts, part + 1) * 16;
    if (to)
      NEURIM_DISPATCH(round_elements)(to, static_cast<const float*>(source), first, last, static_cast<std::uint16_t*>(target));
    else
      NEURIM_DISPATCH(widen_elements)(from, static_cast<const std::uint16_t*>(source), first, last, static_cast<float*>(target));
  }

  static void run(const void* self, const Args& args, int part) noexcept {
    static_cast<const Converted*>(self)->run_part(args.in[0], args.out[0], part);
  }
};

/// From one layout to another by way of a third.
template <class First, class Second>
struct Through {
  First first;
  Second second;

  static Launch launch(Site& site, const First& first, const Second& second, const Layout& between) {
    site.scratch = bytes(site.input(0).type, between);
    return {run, std::make_shared<Through>(Through{first, second}), first.parts, second.parts};
  }

  static void run(const void* self, const Args& args, int part) noexcept {
    const auto& own = *static_cast<const Through*>(self);
    if (part < own.first.parts)
      own.first.run_part(args.in[0], args.scratch, part);
    else
      own.second.run_part(args.scratch, args.out[0], part - own.first.parts);
  }
};

/// Rows that lie apart to rows that do not, or the other way.
struct CopiedRows {
  std::int64_t rows, row, from, to;  ///< elements: of a row, and from each to the next
  int parts;

  static void run(const void* self, const Args& args, int part) noexcept {
    const auto& own = *static_cast<const CopiedRows*>(self);
    for (std::int64_t r = part_begin(own.rows, own.parts, part); r < part_begin(own.rows, own.parts, part + 1); ++r) {
      float* const to = static_cast<float*>(args.out[0]) + r * own.to;
      std::copy_n(static_cast<const float*>(args.in[0]) + r * own.from, own.row, to);
      std::fill_n(to + own.row, own.to - own.row, 0.0f);
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
  if (type.dtype == DType::f32 && type.shape.rank() >= 2 && type.shape.numel() > 0 && in_rows(site.input(0)) && in_rows(site.output(0))) {
    const std::int64_t row = type.shape[-1], rows = type.shape.numel() / row;
    const auto copied = std::make_shared<CopiedRows>(
        CopiedRows{rows, row, row_distance(site.input(0)), row_distance(site.output(0)), parts_of(site, type.shape.numel(), rows)});
    return {CopiedRows::run, copied, copied->parts};
  }
  for (const Layout& layout : {from, to})
    if (layout != Layout{} && !of_vectors(type.shape, exact(layout)))
      return decline(site, "takes plain, blocked16, features16 and whole images16, not ", from, " to ", to);
  if (type.dtype != DType::f32) return decline(site, "takes f32 only, not ", type.dtype);
  if (type.shape.numel() == 0) return decline(site, "takes no empty tensors");
  if (from.rounded || to.rounded) {
    if (exact(from) == exact(to) && !(from.rounded && to.rounded)) {
      const auto converted = std::make_shared<Converted>(site, from, to);
      return {Converted::run, converted, converted->parts};
    }
    if (to == Layout{})
      return Through<Converted, Transposed>::launch(site, {site, from, exact(from)}, {site, exact(from), false}, exact(from));
    if (from == Layout{}) return Through<Transposed, Converted>::launch(site, {site, exact(to), true}, {site, exact(to), to}, exact(to));
    return decline(site, "does not go from ", from, " to ", to);
  }
  if (from != Layout{} && to != Layout{})
    return Through<Transposed, Transposed>::launch(site, {site, from, false}, {site, to, true}, {});
  const auto transposed = std::make_shared<Transposed>(site, from == Layout{} ? to : from, from == Layout{});
  return {Transposed::run, transposed, transposed->parts};
}

}  // namespace

void cpu_reorder() { add({.op = "reorder", .name = "cpu", .device = 0, .rank = 20, .prepare = prepare}); }

}  // namespace neurim
