#include "neurim/backend/cpu/common/tile_conv.h"

#include <algorithm>

namespace neurim::cpu {

namespace {

// Bytes of a band; a large one shares out weights that do not stay in the second-level cache beside it.
constexpr std::int64_t kBand = 256 << 10, kLargeBand = 768 << 10, kManyWeights = 1 << 20;
constexpr std::int64_t kSumRows = 64;  // of a product, where a unit has no more
constexpr std::int64_t kSteps = 20;    // tiles of weights that stay in the first-level cache: 40 KiB for two blocks

}  // namespace

TileAxis forward_axis(const ConvSizes& sizes, int of) {
  const std::int64_t kernel = sizes.kernel[of], stride = sizes.options.stride[of],
                     dilation = sizes.options.dilation[of];
  TileAxis axis{.size = of == 0 ? sizes.height : sizes.width,
                .out_size = of == 0 ? sizes.out_height : sizes.out_width,
                .scale = stride,
                .first = -sizes.options.pad[of]};
  auto& taps = axis.taps.emplace_back();
  if (kernel == 1) {
    axis.distance = stride;
    taps.push_back(TileAxis::Tap{0, 0});
    return axis;
  }
  axis.phases = stride, axis.more = (kernel - 1) * dilation / stride;
  for (std::int64_t i = 0; i < kernel; ++i) taps.push_back(TileAxis::Tap{i * dilation % stride, i * dilation / stride});
  return axis;
}

TileAxis gradient_axis(const ConvSizes& sizes, int of) {
  const std::int64_t kernel = sizes.kernel[of], stride = sizes.options.stride[of],
                     dilation = sizes.options.dilation[of], pad = sizes.options.pad[of];
  TileAxis axis{.size = of == 0 ? sizes.out_height : sizes.out_width,
                .out_size = of == 0 ? sizes.height : sizes.width,
                .step = stride};
  std::int64_t least = 0, most = 0;
  bool any = false;
  for (std::int64_t position = 0; position < stride; ++position) {
    auto& taps = axis.taps.emplace_back();
    for (std::int64_t i = 0; i < kernel; ++i) {
      const std::int64_t above = position + pad - i * dilation, place = floor_div(above, stride);
      if (place * stride != above) {
        taps.push_back(std::nullopt);
        continue;
      }
      taps.push_back(TileAxis::Tap{0, place});
      least = any ? std::min(least, place) : place, most = any ? std::max(most, place) : place, any = true;
    }
  }
  for (auto& taps : axis.taps)
    for (auto& tap : taps)
      if (tap) tap->place -= least;
  axis.first = least, axis.more = most - least;
  return axis;
}

TileAxis pixel_axis(std::int64_t pixels) {
  TileAxis axis{.size = pixels, .out_size = pixels};
  axis.taps.push_back({TileAxis::Tap{0, 0}});
  return axis;
}

void TileConv::read(const ConvSizes& sizes, bool forward) {
  images = sizes.images;
  in_channels = forward ? sizes.in_channels : sizes.out_channels;
  out_channels = forward ? sizes.out_channels : sizes.in_channels;
  if (sizes.pixelwise() && !(forward && sizes.image())) {
    y = pixel_axis(sizes.height * sizes.width), x = pixel_axis(1);
    return;
  }
  ConvSizes of = sizes;
  if (forward && sizes.image()) image_columns = of.kernel[1], of.kernel[1] = 1;
  y = forward ? forward_axis(of, 0) : gradient_axis(of, 0);
  x = forward ? forward_axis(of, 1) : gradient_axis(of, 1);
}

void TileConv::cut(const std::vector<Run>& runs) {
  const std::int64_t all = y.units(), most = out_blocks() * weight_block() > kManyWeights ? kLargeBand : kBand,
                     unit = groups() * y.phases * x.phases * row(),             // bytes
      fitting = std::max<std::int64_t>(1, most / unit - y.more),                // units, in one image
      fitting_images = std::max<std::int64_t>(1, most / (unit * y.kept(all)));  // whole ones
  units = std::min(all, fitting);
  for (const Run& run : runs) {
    tasks.push_back({run.first_block, run.last_block,
                     cut_tiles(run.first, run.last, all, fitting < all ? fitting : all * fitting_images)});
    for (const Tile& tile : tasks.back().tiles) most_images = std::max(most_images, tile.images);
  }
  sum_units = std::max<std::int64_t>(1, kSumRows / columns());
  chunk = std::max<std::int64_t>(1, kSteps * kTile / weight_group());
  const std::int64_t kernel_columns = std::ssize(x.taps[0]);
  for (std::int64_t i = 0; i < std::min(y.step, y.out_size); ++i)
    for (std::int64_t j = 0; j < std::min(x.step, x.out_size); ++j) {
      Part& part = parts.emplace_back(Part{i, j, {}, {}});
      for (std::int64_t k = 0; k < std::ssize(y.taps[i]); ++k)
        for (std::int64_t l = 0; l < kernel_columns; ++l) {
          const auto &down = y.taps[i][k], &along = x.taps[j][l];
          if (!down || !along) continue;
          part.taps.push_back((down->phase * x.phases + along->phase) * plane() + down->place * row() +
                              along->place * kTileBytes);
          part.weight_taps.push_back((k * kernel_columns + l) * kTile);
        }
    }
}

std::int64_t TileConv::steps_of(std::int64_t some) const {
  std::int64_t taps = 0;
  for (const Part& part : parts) taps += std::ssize(part.taps);
  return (some * columns() + 2 * kTileRows - 1) / (2 * kTileRows) * groups() * taps;
}

void TileConv::multiply(const Part& part, const Tile& tile, std::int64_t first, std::int64_t last, std::int64_t blocks,
                        const char* band, const char* weights, const void* start, float* sums, TileLines& lines,
                        TileLines& ahead) const {
  const std::int64_t group = tile.images * image_bytes();
  TileProduct product{.rows = (last - first - 1) * columns() + x.units(),
                      .groups = 0,
                      .x_group = group,
                      .weight_group = weight_group(),
                      .weight_block = weight_block(),
                      .taps = part.taps.data(),
                      .weight_taps = part.weight_taps.data(),
                      .tap_count = std::ssize(part.taps),
                      .sum_block = sum_block(),
                      .start = start,
                      .bytes = group_channels == 64,
                      .lines = &lines,
                      .ahead = &ahead};
  lines.share((product.rows + 2 * kTileRows - 1) / (2 * kTileRows) * groups() * product.tap_count);
  band += first / tile.units * image_bytes() + first % tile.units * row();
  for (std::int64_t g = 0; g < groups(); g += chunk) {
    product.groups = std::min(chunk, groups() - g);
    NEURIM_DISPATCH(tile_product)(product, blocks, band + g * group, weights + g * weight_group(), g > 0, sums);
  }
}

}  // namespace neurim::cpu
