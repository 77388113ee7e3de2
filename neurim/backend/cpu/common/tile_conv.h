// Convolutions, and gradients of them, as products of matrix tiles. For each band of the result the rows of the source
// that it reads are copied in groups of channels, padded; then rows of the band, one after the other with their
// padding, are the rows of one product for each block of the result.
#pragma once
#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "neurim/backend/cpu/common/conv_rows.h"
#include "neurim/backend/cpu/common/conv_steps.h"
#include "neurim/backend/cpu/common/tiles.h"

namespace neurim::cpu {

/// Where the positions of the source that units of the result read are along one axis. A unit is a position of the
/// result, or for gradients `step` of them, each of which reads taps of its own.
struct TileAxis {
  std::int64_t size, out_size;        ///< of the source and the result
  std::int64_t step = 1;              ///< positions of a unit
  std::int64_t scale = 1, first = 0;  ///< unit u reads from position u * scale + first on
  /// Positions are kept `distance` apart, those of each of the phases side by side, `more` than there are units.
  std::int64_t phases = 1, distance = 1, more = 0;
  struct Tap {
    std::int64_t phase, place;  ///< the place is counted from the unit's
  };
  /// For each position of a unit and each index of the kernel; no place: it does not meet it.
  std::vector<std::vector<std::optional<Tap>>> taps;

  std::int64_t units() const { return (out_size + step - 1) / step; }
  std::int64_t kept(std::int64_t units) const { return units + more; }
  /// The position of the source that is kept at `place` of a phase, for units from `unit` on.
  std::int64_t position(std::int64_t unit, std::int64_t phase, std::int64_t place) const {
    return unit * scale + first + (place * phases + phase) * distance;
  }
};

/// Of the rows of a convolution (axis 0) or its columns, and of its data gradient.
TileAxis forward_axis(const ConvSizes& sizes, int axis);
TileAxis gradient_axis(const ConvSizes& sizes, int axis);
/// Of `pixels` that are read one for one.
TileAxis pixel_axis(std::int64_t pixels);

/// The geometry of a convolution that is computed so. What reads one pixel for one pixel has all of them along y.
struct TileConv {
  static constexpr std::int64_t kLanes = 16, kTile = kTileRows * kTileBytes;

  std::int64_t group_channels = 32;  ///< of a row of a tile: 32 of bf16, or 64 bytes
  std::int64_t images = 0, in_channels = 0, out_channels = 0;
  TileAxis y, x;
  std::int64_t image_columns = 0;  ///< of the kernel, where the source has planes of few channels; else 0

  /// A position of each unit, and the taps that it reads.
  struct Part {
    std::int64_t y, x;
    std::vector<std::int64_t> taps, weight_taps;
  };
  std::vector<Part> parts;
  struct Task {
    std::int64_t first_block, last_block;
    std::vector<Tile> tiles;
  };
  std::vector<Task> tasks;
  std::int64_t units = 1;        ///< of a band in an image, at most
  std::int64_t sum_units = 1;    ///< of a product, at most
  std::int64_t chunk = 1;        ///< groups of a product
  std::int64_t most_images = 1;  ///< of a band

  /// Reads images, channels and axes of a convolution or, if not `forward`, of its data gradient.
  void read(const ConvSizes& sizes, bool forward);
  /// Cuts the result into such tasks.
  void cut(const std::vector<Run>& runs);

  bool of_image() const { return image_columns > 0; }
  /// Numbers that a pixel of the band has.
  std::int64_t depth() const { return of_image() ? in_channels * image_columns : in_channels; }
  std::int64_t groups() const { return (depth() + group_channels - 1) / group_channels; }
  std::int64_t in_blocks() const { return blocks_of(in_channels); }
  std::int64_t out_blocks() const { return blocks_of(out_channels); }
  /// Whether units of an image follow each other without padding, and images do.
  bool joined() const {
    return y.phases * x.phases == 1 && y.more == 0 && x.more == 0 && y.step * x.step == 1 && !of_image();
  }
  std::int64_t columns() const { return x.kept(x.units()); }  ///< of a row of the band
  std::int64_t row() const { return columns() * kTileBytes; }
  std::int64_t plane() const { return y.kept(units) * row(); }  ///< bytes of a phase of one image
  std::int64_t image_bytes() const { return y.phases * x.phases * plane(); }
  std::int64_t line() const { return x.size * kLanes; }  ///< elements of a row of the source in a block
  std::int64_t out_line() const { return x.out_size * kLanes; }
  std::int64_t out_plane() const { return y.out_size * out_line(); }
  std::int64_t weight_group() const { return std::ssize(y.taps[0]) * std::ssize(x.taps[0]) * kTile; }
  std::int64_t weight_block() const { return groups() * weight_group(); }
  /// Bytes of the largest band, with what the last rows' tiles read behind it, and of the sums behind that.
  std::int64_t band_bytes() const { return groups() * most_images * image_bytes() + 2 * kTile; }
  std::int64_t sum_block() const { return whole_tiles(sum_units * columns()) * kLanes; }  ///< in words
  std::int64_t sum_bytes() const { return 2 * sum_block() * 4; }
  /// The rows of the source that a tile reads.
  struct Rows {
    std::int64_t first, last;
  };
  Rows rows(const Tile& tile) const {
    const std::int64_t first = std::clamp<std::int64_t>(y.position(tile.unit, 0, 0), 0, y.size);
    return {first,
            std::clamp<std::int64_t>(y.position(tile.unit, y.phases - 1, y.kept(tile.units) - 1) + 1, first, y.size)};
  }
  /// As many as a band has.
  std::int64_t most_rows() const { return std::min(y.size, units * y.scale + y.kept(0) * y.phases * y.distance); }

  /// Units of an image whose sums are done: from unit `unit` of the tile's, the `at`th of the product.
  struct Segment {
    std::int64_t image, unit, count, at;
  };

  /// Computes a task with a workspace of band_bytes() + sum_bytes(). `start`: what the sums of each channel start from,
  /// in whole blocks. fill(tile, band) fills the band. For each two
  /// blocks of the result and some units, reach(segment, block, lines) adds the memory that results() takes;
  /// results(part, segment, block, sums) takes the sums of each part of them, and after(segment, block, first) is
  /// called when all are done; `first`: for the first units of the task.
  template <class Fill, class Reach, class Results, class After>
  void compute(const Task& task, const void* weights, const void* start, void* workspace, const Fill& fill,
               const Reach& reach, const Results& results, const After& after) const {
    const TileScope scope;
    auto* const band = static_cast<char*>(workspace);
    for (const Tile& tile : task.tiles) {
      fill(tile, band);
      const std::int64_t all = tile.images * tile.units;
      for (std::int64_t block = task.first_block; block < task.last_block; block += 2) {
        const std::int64_t blocks = std::min<std::int64_t>(2, task.last_block - block);
        TileLines next_weights(false);
        next_weights.add(static_cast<const char*>(weights) + (block + 2) * weight_block(),
                         std::min<std::int64_t>(2, task.last_block - block - 2) * weight_block());
        next_weights.share(steps_of(all));
        for (std::int64_t first = 0, last = 0; first < all; first = last) {
          last = std::min(first + sum_units, all);
          if (!joined()) last = std::min(last, first / tile.units * tile.units + tile.units);
          auto* const sums = reinterpret_cast<float*>(band + band_bytes());
          TileLines lines(true);
          each_segment(tile, first, last, blocks,
                       [&](const Segment& segment, std::int64_t b) { reach(segment, block + b, lines); });
          for (const Part& part : parts) {
            multiply(part, tile, first, last, blocks, band, static_cast<const char*>(weights) + block * weight_block(),
                     start ? static_cast<const float*>(start) + block * kLanes : nullptr, sums, lines, next_weights);
            each_segment(tile, first, last, blocks, [&](const Segment& segment, std::int64_t b) {
              results(part, segment, block + b, sums + b * sum_block() + segment.at * columns() * kLanes);
            });
          }
          each_segment(tile, first, last, blocks, [&](const Segment& segment, std::int64_t b) {
            after(segment, block + b, &tile == &task.tiles[0] && first == 0 && segment.at == 0);
          });
        }
      }
    }
  }

  /// Calls write(sums, pixels, place, step) for runs of sums of a part of a segment, whose results are `step` elements
  /// apart from element `place` of a block of the image on.
  template <class Write>
  void each_run(const Part& part, const Segment& segment, const float* sums, const Write& write) const {
    const std::int64_t width = (x.out_size - part.x + x.step - 1) / x.step,
                       height = std::min(segment.count, (y.out_size - part.y + y.step - 1) / y.step - segment.unit),
                       place = (segment.unit * y.step + part.y) * out_line() + part.x * kLanes;
    if (width <= 0 || height <= 0) return;
    if (columns() == x.out_size && x.step * y.step == 1) return write(sums, height * width, place, kLanes);
    for (std::int64_t r = 0; r < height; ++r)
      write(sums + r * columns() * kLanes, width, place + r * y.step * out_line(), x.step * kLanes);
  }

  /// Fills the phases of one image of a band. copy(pixel, apart, count, to) copies pixels of the source that are
  /// `apart` pixels apart, from number `pixel` of the rows that the tile reads on. `padding` is the byte of padding.
  template <class Copy>
  void fill_image(const Tile& tile, int padding, char* to, const Copy& copy) const {
    const auto [first, last] = rows(tile);
    const auto pad = [&](char* at, std::int64_t pixels) { std::memset(at, padding, pixels * kTileBytes); };
    if (x.phases * y.phases * x.distance * y.distance == 1 && x.first == 0 && x.more == 0 && x.size == x.out_size) {
      // Whole rows without padding beside them.
      const std::int64_t all = y.kept(tile.units),
                         above = std::min(first - y.position(tile.unit, 0, 0), all - (last - first));
      pad(to, above * x.size);
      copy(0, 1, (last - first) * x.size, to + above * row());
      pad(to + (above + last - first) * row(), (all - above - (last - first)) * x.size);
      return;
    }
    each_row(tile, [&](std::int64_t at, std::int64_t phase, std::int64_t place) {
      for (std::int64_t q = 0; q < x.phases; ++q) {
        char* const row_to = to + (phase * x.phases + q) * plane() + place * row();
        const std::int64_t apart = x.phases * x.distance, begin = x.position(0, q, 0);
        const auto column = [&](std::int64_t position) {  // the first that is at this position or behind it
          return at < 0 ? 0 : std::clamp<std::int64_t>((position - begin + apart - 1) / apart, 0, columns());
        };
        const std::int64_t left = begin < 0 ? column(0) : 0,
                           right = std::max(left, begin < x.size ? column(x.size) : 0);
        pad(row_to, left);
        if (left < right)
          copy((at - first) * x.size + begin + left * apart, apart, right - left, row_to + left * kTileBytes);
        pad(row_to + right * kTileBytes, columns() - right);
      }
    });
  }

  /// Calls use(row of the source, or -1 outside, phase, place) for all rows that are kept.
  template <class Use>
  void each_row(const Tile& tile, const Use& use) const {
    for (std::int64_t phase = 0; phase < y.phases; ++phase)
      for (std::int64_t place = 0; place < y.kept(tile.units); ++place) {
        const std::int64_t at = y.position(tile.unit, phase, place);
        use(at >= 0 && at < y.size ? at : -1, phase, place);
      }
  }

 private:
  void multiply(const Part& part, const Tile& tile, std::int64_t first, std::int64_t last, std::int64_t blocks,
                const char* band, const char* weights, const void* start, float* sums, TileLines& lines,
                TileLines& ahead) const;
  /// About as many steps as products of so many units have.
  std::int64_t steps_of(std::int64_t units) const;

  /// Calls use(segment, block) for the units [first, last) of a tile, counted through its images.
  template <class Use>
  static void each_segment(const Tile& tile, std::int64_t first, std::int64_t last, std::int64_t blocks,
                           const Use& use) {
    for (std::int64_t begin = first, end = 0; begin < last; begin = end) {
      const std::int64_t image = begin / tile.units;
      end = std::min(last, (image + 1) * tile.units);
      for (std::int64_t b = 0; b < blocks; ++b)
        use(Segment{tile.image + image, tile.unit + begin % tile.units, end - begin, begin - first}, b);
    }
  }
};

}  // namespace neurim::cpu
