// Convolutions and fully connected layers of 8-bit values by products of matrix tiles (see int8_group.h and TileConv).
// Sums are exact i32; the zero point of x times the sum of a channel's weights is subtracted from them.
#include <algorithm>
#include <vector>

#include "neurim/backend/cpu/common/int8_group.h"
#include "neurim/backend/cpu/common/priorities.h"
#include "neurim/backend/cpu/common/tile_conv.h"
#include "neurim/backend/cpu/packing/vnni_weights.h"

namespace neurim {

namespace {

using namespace cpu;

constexpr std::int64_t kLanes = 16, kGroup = 4 * kLanes;
constexpr std::int64_t kFewPixels = 8;

/// Reads the request; null, or why the kernel leaves it to others.
const char* read_request(const KernelRequest& request, const ConvPattern& pattern, Int8Group& group) {
  if (!uses_tiles()) return "takes matrix tiles, which this machine does not have";
  if (const char* why = read_group(request, pattern, group)) return why;
  if (group.depthwise) return "takes no groups";
  if (group.plain) return "takes features in blocks";
  const ConvSizes& s = group.sizes;
  return s.images * s.out_height * s.out_width < kFewPixels ? "takes 8 pixels and more" : nullptr;
}

Layout layout_of(const KernelRequest& request, const Int8Group& group, int value) {
  if (value != group.weight.value) return activation_layout(group, value);
  return byte_tile_weights(desc_of(request, value).type, group.image());
}

bool propose_layouts(KernelRequest& request, const ConvPattern& pattern) {
  Int8Group group;
  if (const char* why = read_request(request, pattern, group)) return decline(request, why), false;
  ask_layouts(request, layout_of, group);
  return true;
}

struct ByteTiles {
  ByteOperands operands;
  TileConv conv;
  ConvRows image_rows;  ///< of images

  static void run(const void* self, const Args& args, int task) noexcept {
    const auto& own = *static_cast<const ByteTiles*>(self);
    const TileConv& conv = own.conv;
    conv.compute(
        conv.tasks[task], args.in[own.operands.weight], own.operands.start.data(), args.workspace,
        [&](const Tile& tile, char* band) {
          conv.of_image() ? own.fill_of_image(args, tile, band) : own.fill(args, tile, band);
        },
        [&](const TileConv::Segment& segment, std::int64_t block, TileLines& lines) {
          const std::int64_t size = segment.count * conv.out_line(),
                             place = (segment.image * conv.out_blocks() + block) * conv.out_plane() +
                                     segment.unit * conv.out_line();
          lines.add(own.operands.out(args, place), size * (own.operands.epilogue.floats ? 4 : 1));
          if (own.operands.residual >= 0) lines.add(own.operands.in(args, own.operands.residual) + place, size);
        },
        [&](const TileConv::Part& part, const TileConv::Segment& segment, std::int64_t block, const float* sums) {
          const std::int64_t plane = (segment.image * conv.out_blocks() + block) * conv.out_plane();
          conv.each_run(part, segment, sums,
                        [&](const float* from, std::int64_t pixels, std::int64_t place, std::int64_t) {
                          NEURIM_DISPATCH(byte_results)
                          (reinterpret_cast<const std::int32_t*>(from), pixels,
                           own.operands.after(args, block, plane + place), own.operands.out(args, plane + place));
                        });
        },
        [](const TileConv::Segment&, std::int64_t, bool) {});
  }

  /// The band of a tile: [group][image][phases][row][column][64 channels].
  void fill(const Args& args, const Tile& tile, char* to) const {
    const std::uint8_t* const x = operands.in(args, operands.x) + conv.rows(tile).first * conv.line();
    for (std::int64_t g = 0; g < conv.groups(); ++g)
      for (std::int64_t image = tile.image; image < tile.image + tile.images; ++image, to += conv.image_bytes())
        conv.fill_image(
            tile, operands.zero, to, [&](std::int64_t pixel, std::int64_t apart, std::int64_t count, char* at) {
              const std::uint8_t* from[4] = {};
              for (std::int64_t i = 0, block = 4 * g; i < 4 && block < conv.in_blocks(); ++i, ++block)
                from[i] = x + (image * conv.in_blocks() + block) * conv.y.size * conv.line() + pixel * kLanes;
              NEURIM_DISPATCH(tile_bytes)(from, apart * kLanes, count, operands.flip, at);
            });
  }

  /// Bytes of a padded row of an image, and of what the last tile's row reads behind it.
  std::int64_t image_line() const {
    return conv.of_image() ? (image_rows.line_size() + 2 * kGroup) / kGroup * kGroup : 0;
  }

  /// The same of images, whose pixels have the columns of a row of the kernel: [group][image][phase][row][column][64].
  void fill_of_image(const Args& args, const Tile& tile, char* band) const {
    const auto [all, first, last] = image_rows.windows();
    const std::int64_t group_bytes = tile.images * conv.image_bytes(), plane = conv.y.size * conv.x.size;
    auto* const pixels = static_cast<std::uint8_t*>(args.workspace) + conv.band_bytes() + conv.sum_bytes();
    std::fill_n(pixels, image_line(), static_cast<std::uint8_t>(operands.zero ^ operands.flip));
    for (std::int64_t image = tile.image; image < tile.image + tile.images; ++image, band += conv.image_bytes()) {
      const std::uint8_t* const planes = operands.in(args, operands.x) + image * conv.in_channels * plane;
      conv.each_row(tile, [&](std::int64_t at, std::int64_t phase, std::int64_t place) {
        char* const to = band + phase * conv.plane() + place * conv.row();
        for (std::int64_t channel = 0; at >= 0 && channel < conv.in_channels; ++channel)
          for (std::int64_t pixel = first; pixel < last; ++pixel)
            pixels[pixel * conv.in_channels + channel] = planes[channel * plane + at * conv.x.size + pixel - first];
        for (std::int64_t g = 0; g < conv.groups(); ++g) {
          if (at < 0) {
            std::fill_n(to + g * group_bytes, conv.row(), static_cast<char>(operands.zero));
            continue;
          }
          const std::uint8_t* const line = pixels + g * kGroup;
          NEURIM_DISPATCH(tile_bytes)
          ({line, line + kLanes, line + 2 * kLanes, line + 3 * kLanes}, image_rows.options.stride[1] * conv.in_channels,
           conv.columns(), operands.flip, to + g * group_bytes);
        }
      });
    }
  }
};

/// Sets the sums' start: for each channel, minus the zero point times the sum of its weights, which are packed as
/// [block][group][tap][quad][16 channels][4].
void set_start(ByteTiles& own, const std::int8_t* weights) {
  const std::int64_t quads = own.conv.weight_block() / kGroup;
  for (std::size_t block = 0; block < own.operands.start.size(); block += kLanes)
    for (std::int64_t quad = 0; quad < quads; ++quad)
      for (std::size_t lane = 0; lane < kLanes; ++lane)
        for (int i = 0; i < 4; ++i) own.operands.start[block + lane] -= own.operands.zero * *weights++;
}

Launch prepare(KernelRequest& request, const ConvPattern& pattern) {
  Int8Group group;
  if (const char* why = read_request(request, pattern, group)) return decline(request, why);
  if (!has_layouts(request, layout_of, group)) return decline(request, "takes blocks of 16 channels");
  auto all = std::make_shared<ByteTiles>();
  if (const char* why = all->operands.read(request, group)) return decline(request, why);
  TileConv& conv = all->conv;
  conv.group_channels = kGroup;
  conv.read(group.sizes, true);
  conv.cut(FusedEpilogue().cut(request, conv.images, conv.y.units(), conv.x.units(), conv.out_channels));
  all->image_rows = {group.sizes, kLanes / 4};
  set_start(*all, static_cast<const std::int8_t*>(desc_of(request, group.weight.value).known));
  request.used_dtype = DType::i8;
  return {ByteTiles::run,
          all,
          static_cast<int>(conv.tasks.size()),
          0,
          request.chunks,
          static_cast<std::size_t>(conv.band_bytes() + conv.sum_bytes() + all->image_line())};
}

}  // namespace

void cpu_int8_tiles() {
  for (const char* op : {"conv2d", "linear"})
    add_conv_kernel<prepare, propose_layouts>(
        {.op = op, .name = "cpu int8 tiles", .fused_only = true, .prologues = true});
}

}  // namespace neurim
