// Convolutions, their data gradients and fully connected layers with constant weights by products of matrix tiles, in
// bf16: any kernel, stride and dilation, without groups, with a fused prologue and epilogue. A task is a range of units
// of the result, counted through all images, or of output channels where there are more of these. For each band of
// units it copies and pads the rows of the source that they read, in groups of 32 channels; then rows of the band,
// one after the other with their padding, are the rows of one product for each block of the result.
#include <algorithm>
#include <vector>

#include "neurim/backend/cpu/common/conv_pattern.h"
#include "neurim/backend/cpu/common/conv_rows.h"
#include "neurim/backend/cpu/common/conv_steps.h"
#include "neurim/backend/cpu/common/packed_weights.h"
#include "neurim/backend/cpu/common/physical.h"
#include "neurim/backend/cpu/common/priorities.h"
#include "neurim/backend/cpu/common/tiles.h"
#include "neurim/backend/cpu/conv/tile_axis.h"
#include "neurim/backend/cpu/packing/vnni_weights.h"
#include "neurim/ops/conv.h"

namespace neurim {

namespace {

using namespace cpu;

constexpr std::int64_t kLanes = 16, kGroup = 2 * kLanes, kTile = kTileRows * kTileBytes;
constexpr std::int64_t kBand = 256 << 10, kLargeBand = 768 << 10;  // bytes; the large one shares out weights that do not
constexpr std::int64_t kManyWeights = 1 << 20;                     // stay in the second-level cache, so many bytes
constexpr std::int64_t kSumRows = 128;                             // of a product, where a unit has no more
constexpr std::int64_t kSteps = 20;  // tiles of weights that stay in the first-level cache: 40 KiB for two blocks
constexpr std::int64_t kFewPixels = 8;

TileAxis gradient_axis(std::int64_t size, std::int64_t out_size, std::int64_t kernel, std::int64_t stride, std::int64_t pad,
                   std::int64_t dilation) {
  TileAxis axis{.size = size, .out_size = out_size, .step = stride};
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

/// The product that runs: of x forward, of dy for the data gradient. What reads one pixel for one pixel has all of them
/// along one axis.
struct Problem {
  Layout layout;  ///< of activations
  std::int64_t images, in_channels, out_channels;
  TileAxis y, x;
  bool image = false;  ///< whether the source has planes of few channels, and rows of the kernel are taps

  /// Numbers that a pixel of the band has.
  std::int64_t depth() const { return image ? in_channels * image_columns : in_channels; }
  std::int64_t image_columns = 1;  ///< columns of the kernel, for images
  std::int64_t groups() const { return (depth() + kGroup - 1) / kGroup; }
  std::int64_t in_blocks() const { return blocks_of(in_channels); }
  std::int64_t out_blocks() const { return blocks_of(out_channels); }
  /// Whether units of an image follow each other without padding, and images do.
  bool joined() const {
    return y.phases * x.phases == 1 && y.more == 0 && x.more == 0 && y.step * x.step == 1 && !image;
  }
};

Problem problem_of(const KernelRequest& request, const ConvPattern& pattern) {
  const Type &source = request.values[pattern.source()].type, &result = request.values[pattern.result()].type;
  const Layout layout = pattern.linear ? kFeatures : kBlocked;
  const int channels = *split_axis(layout);
  Problem problem{.layout = layout,
                  .images = source.shape[0],
                  .in_channels = source.shape[channels],
                  .out_channels = result.shape[channels]};
  const ConvSizes& sizes = pattern.sizes;
  if (pattern.linear || sizes.pixelwise()) {
    const std::int64_t pixels = source.shape.numel() / (problem.images * problem.in_channels);
    problem.y = forward_axis(pixels, pixels, 1, 1, 0, 1), problem.x = forward_axis(1, 1, 1, 1, 0, 1);
    return problem;
  }
  const bool forward = pattern.direction == Direction::forward;
  const auto axis = [&](int i, std::int64_t kernel) {
    const std::int64_t of_x = i == 0 ? sizes.height : sizes.width, of_y = i == 0 ? sizes.out_height : sizes.out_width;
    const Conv2dOptions& o = sizes.options;
    return forward ? forward_axis(of_x, of_y, kernel, o.stride[i], o.pad[i], o.dilation[i])
                   : gradient_axis(of_y, of_x, kernel, o.stride[i], o.pad[i], o.dilation[i]);
  };
  problem.image = forward && sizes.image();
  if (problem.image) problem.image_columns = sizes.kernel[1];
  problem.y = axis(0, sizes.kernel[0]), problem.x = axis(1, problem.image ? 1 : sizes.kernel[1]);
  return problem;
}

/// Null, or why the kernel leaves the request to others.
const char* against(const KernelRequest& request, const ConvPattern& pattern) {
  if (!uses_tiles()) return "takes matrix tiles, which this machine does not have";
  if (pattern.storage != StorageDtype::bf16) return "rounds to bf16, which the plan does not allow";
  if (const char* why = pattern.against()) return why;
  if (pattern.linear && request.values[pattern.x].type.shape.rank() < 3) return "takes three axes and more";
  if (pattern.linear && !pattern.constant_weight) return "takes constant weights";
  if (!pattern.linear && pattern.sizes.options.groups != 1) return "takes no groups";
  const Shape& weight = request.values[pattern.weight].type.shape;
  const bool image = !pattern.linear && pattern.direction == Direction::forward && pattern.sizes.image();
  if (image && (!pattern.constant_weight || pattern.prologue || pattern.sizes.options.dilation[1] != 1))
    return "takes constant weights, no steps before and no holes of images";
  if (!fills_blocks(weight[0]) || !(image || fills_blocks(weight[1]))) return "takes 8 channels and more or images";
  const Type& result = request.values[pattern.result()].type;
  const std::int64_t channels = result.shape[*split_axis(pattern.linear ? kFeatures : kBlocked)];
  if (result.shape.numel() / channels < kFewPixels) return "takes 8 pixels and more";
  return nullptr;
}

Layout layout_of(const KernelRequest& request, const ConvPattern& pattern, const Problem& problem, int value) {
  const Type& type = request.values[value].type;
  if (value == pattern.weight)
    return problem.image ? tile_row_weights(type) : tile_weights(type, pattern.direction != Direction::forward);
  if (!pattern.is_activation(request, value) || (value == pattern.x && problem.image)) return {};
  return blocked_layout(request, value, problem.layout);
}

/// Reads prologue and epilogue; false with a reason in the request where the kernel takes other steps.
bool read_steps(KernelRequest& request, const ConvPattern& pattern, FusedPrologue& prologue, FusedEpilogue& epilogue) {
  if (!prologue.read(request, pattern, pattern.storage) || !epilogue.read(request, pattern)) return false;
  const bool other = epilogue.norm && pattern.linear;  // its channels are another axis
  return !other || (decline(request, "takes no batch norm after a fully connected layer"), false);
}

bool propose_layouts(KernelRequest& request, const ConvPattern& pattern) {
  if (const char* why = against(request, pattern)) return decline(request, why), false;
  ask_layouts(request, layout_of, pattern, problem_of(request, pattern));
  FusedPrologue prologue;
  FusedEpilogue epilogue;
  return read_steps(request, pattern, prologue, epilogue);
}

struct ConvTiles : Problem {
  ConvRows of_image;                  ///< of images
  int weight, bias;                   ///< arguments, or -1
  Epilogue epilogue;                  ///< what follows, where results are written so; else see `fused`
  FusedPrologue prologue;
  FusedEpilogue fused;
  std::int64_t units = 1;             ///< of a band, at most
  std::int64_t sum_units = 1;         ///< of a product
  std::int64_t chunk = 1;             ///< groups of a product
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
  std::int64_t most_images = 1;  ///< of a band

  std::int64_t columns() const { return x.kept(x.units()); }
  std::int64_t row() const { return columns() * kTileBytes; }
  std::int64_t plane() const { return y.kept(units) * row(); }  ///< bytes of a phase
  std::int64_t image_bytes() const { return y.phases * x.phases * plane(); }
  std::int64_t line() const { return x.size * kLanes; }  ///< elements of a row of the source in a block
  std::int64_t out_line() const { return x.out_size * kLanes; }
  std::int64_t weight_group() const { return std::ssize(y.taps[0]) * std::ssize(x.taps[0]) * kTile; }

  // Where parts of the workspace begin, in floats.
  std::int64_t sum_block() const { return whole_tiles(sum_units * columns()) * kLanes; }
  std::int64_t apart_block() const { return fused.apart() ? sum_units * y.step * out_line() : 0; }
  std::int64_t made_block() const {
    return prologue.steps ? std::min(y.size, units * y.scale + y.kept(0) * y.phases * y.distance) * line() : 0;
  }
  std::int64_t band_floats() const { return groups() * most_images * image_bytes() / 4 + 2 * kTile / 4; }
  std::int64_t image_line() const { return image ? (of_image.line_words() + 2 * kLanes) / kLanes * kLanes : 0; }
  std::int64_t room() const {
    return band_floats() + 2 * (sum_block() + apart_block() + made_block()) + image_line();
  }

  static void run(const void* self, const Args& args, int task) noexcept {
    const auto& own = *static_cast<const ConvTiles*>(self);
    const int tasks = static_cast<int>(own.tasks.size());
    task < tasks ? own.run_task(args, task) : own.fused.norm->finish(args, task - tasks);
  }

  void run_task(const Args& args, int number) const {
    const TileScope scope;
    const Task& task = tasks[number];
    const ConvEpilogue norm_sums = fused.begin(args, number);
    float* const band = static_cast<float*>(args.workspace);
    for (const Tile& tile : task.tiles) {
      image ? fill_image(args, tile, band) : fill(args, tile, band);
      const std::int64_t all = tile.images * tile.units;
      for (std::int64_t block = task.first_block; block < task.last_block; block += 2) {
        const std::int64_t blocks = std::min<std::int64_t>(2, task.last_block - block);
        for (std::int64_t first = 0, last = 0; first < all; first = last) {
          last = std::min(first + sum_units, all);
          if (!joined()) last = std::min(last, first / tile.units * tile.units + tile.units);
          multiply(args, tile, {first, last}, block, blocks, band, norm_sums, &tile == &task.tiles[0] && first == 0);
        }
      }
    }
  }

  /// Units of a tile, counted through its images.
  struct Units {
    std::int64_t first, last;
  };

  /// Computes `blocks` blocks of the result for some units.
  void multiply(const Args& args, const Tile& tile, const Units& some, std::int64_t block, std::int64_t blocks,
                float* band, const ConvEpilogue& norm_sums, bool first) const {
    float *const sums = band + band_floats(), *const made = sums + 2 * sum_block();
    const std::int64_t group = tile.images * image_bytes(), from = some.first / tile.units * image_bytes() +
                                                                   some.first % tile.units * row();
    const auto* const weights = static_cast<const char*>(args.in[weight]) + block * groups() * weight_group();
    alignas(64) float biases[2 * kLanes] = {};
    if (bias >= 0)
      std::copy_n(static_cast<const float*>(args.in[bias]) + block * kLanes,
                  std::min(blocks * kLanes, out_channels - block * kLanes), biases);
    for (const Part& part : parts) {
      TileProduct product{.rows = (some.last - some.first - 1) * columns() + x.units(),
                          .groups = 0,
                          .x_group = group,
                          .weight_group = weight_group(),
                          .weight_block = groups() * weight_group(),
                          .taps = part.taps.data(),
                          .weight_taps = part.weight_taps.data(),
                          .tap_count = std::ssize(part.taps),
                          .sum_block = sum_block()};
      for (std::int64_t g = 0; g < groups(); g += chunk) {
        product.groups = std::min(chunk, groups() - g);
        NEURIM_DISPATCH(tile_product)
        (product, blocks, reinterpret_cast<const char*>(band) + g * group + from, weights + g * weight_group(), g > 0,
         sums);
      }
      each_segment(tile, some, [&](std::int64_t number, std::int64_t unit, std::int64_t count, std::int64_t at) {
        for (std::int64_t b = 0; b < blocks; ++b)
          write(args, part, number, block + b, unit, count, biases + b * kLanes,
                sums + b * sum_block() + at * columns() * kLanes, made + b * apart_block() + at * y.step * out_line());
      });
    }
    if (!fused.steps && !fused.norm) return;
    each_segment(tile, some, [&](std::int64_t number, std::int64_t unit, std::int64_t count, std::int64_t at) {
      const std::int64_t top = unit * y.step, bottom = std::min((unit + count) * y.step, y.out_size);
      for (std::int64_t b = 0; b < blocks; ++b) {
        const std::int64_t place = (number * out_blocks() + block + b) * y.out_size * out_line();
        fused.run(args, norm_sums, block + b, 1, place + top * out_line(), place + bottom * out_line(), first && at == 0,
                  made + b * apart_block() + at * y.step * out_line());
      }
    });
  }

  /// Calls use(image, unit, count, at) for the units of each image among some of a tile; `at` counts from the first.
  template <class Use>
  static void each_segment(const Tile& tile, const Units& some, Use use) {
    for (std::int64_t first = some.first; first < some.last;) {
      const std::int64_t image = first / tile.units, last = std::min(some.last, (image + 1) * tile.units);
      use(tile.image + image, tile.unit + first % tile.units, last - first, first - some.first);
      first = last;
    }
  }

  /// Writes the sums of one block for a part of some units of an image.
  void write(const Args& args, const Part& part, std::int64_t number, std::int64_t block, std::int64_t unit,
             std::int64_t count, const float* biases, const float* sums, float* made) const {
    const std::int64_t width = (x.out_size - part.x + x.step - 1) / x.step,
                       height = std::min(count, (y.out_size - part.y + y.step - 1) / y.step - unit);
    if (width <= 0 || height <= 0) return;
    const StorageDtype rounds = fused.rounded();
    const std::int64_t place = (number * out_blocks() + block) * y.out_size * out_line() +
                               (unit * y.step + part.y) * out_line() + part.x * kLanes;
    float* const y_data = fused.apart() ? made + part.y * out_line() + part.x * kLanes
                                        : element(fused.results(args), place, rounds);
    BlockEpilogue after{.bias = bias >= 0 ? biases : nullptr,
                        .add = epilogue.add ? element(static_cast<const float*>(args.in[epilogue.residual]), place,
                                                      epilogue.add_rounded)
                                            : nullptr,
                        .relu = epilogue.relu,
                        .rounds = rounds,
                        .add_rounded = epilogue.add_rounded};
    const bool contiguous = columns() == x.out_size && x.step == 1 && y.step == 1;
    if (contiguous) {
      NEURIM_DISPATCH(tile_results)(sums, height * width, after, kLanes, y_data);
      return;
    }
    const float* const add = after.add;
    for (std::int64_t r = 0; r < height; ++r) {
      const std::int64_t to = r * y.step * out_line();
      after.add = element(add, to, epilogue.add_rounded);
      NEURIM_DISPATCH(tile_results)
      (sums + r * columns() * kLanes, width, after, x.step * kLanes, element(y_data, to, rounds));
    }
  }

  /// Calls row(source row, or -1 outside, phase of rows, place) for all kept rows.
  template <class Row>
  void each_row(const Tile& tile, Row use) const {
    for (std::int64_t phase = 0; phase < y.phases; ++phase)
      for (std::int64_t place = 0; place < y.kept(tile.units); ++place) {
        const std::int64_t at = y.position(tile.unit, phase, place);
        use(at >= 0 && at < y.size ? at : -1, phase, place);
      }
  }

  /// The band of a tile: [group][image][phases][row][column][32 channels].
  void fill(const Args& args, const Tile& tile, float* band) const {
    float* const made = band + band_floats() + 2 * (sum_block() + apart_block());
    const std::int64_t first = std::clamp<std::int64_t>(y.position(tile.unit, 0, 0), 0, y.size),
                       last = std::clamp<std::int64_t>(
                           y.position(tile.unit, y.phases - 1, y.kept(tile.units) - 1) + 1, first, y.size);
    auto* to = reinterpret_cast<char*>(band);
    for (std::int64_t g = 0; g < groups(); ++g)
      for (std::int64_t i = 0; i < tile.images; ++i, to += image_bytes()) {
        const auto source = [&](std::int64_t block, float* room) -> const float* {
          if (block >= in_blocks()) return nullptr;
          const std::int64_t at = ((tile.image + i) * in_blocks() + block) * y.size * line();
          return prologue.activation(args, room, at + first * line(), at + last * line());
        };
        const float *const low = source(2 * g, made), *const high = source(2 * g + 1, made + made_block());
        copy(low, high, in_channels - g * kGroup, tile, first, last, to);
      }
  }

  /// Copies rows [first, last) of two blocks of the source into the phases of one image.
  void copy(const float* low, const float* high, std::int64_t channels, const Tile& tile, std::int64_t first,
            std::int64_t last, char* to) const {
    const auto pixels = [&](std::int64_t pixel, std::int64_t apart, std::int64_t count, char* at) {
      NEURIM_DISPATCH(tile_pixels)
      (prologue.rounded, element(low, pixel * kLanes, prologue.rounded),
       element(high, pixel * kLanes, prologue.rounded), apart * kLanes, count, channels, at);
    };
    if (x.phases * y.phases * x.distance * y.distance == 1 && x.first == 0 && x.more == 0 && x.size == x.out_size) {
      // Whole rows without padding beside them.
      const std::int64_t all = y.kept(tile.units),
                         above = std::min(first - y.position(tile.unit, 0, 0), all - (last - first));
      std::fill_n(to, above * row(), 0);
      pixels(0, 1, (last - first) * x.size, to + above * row());
      std::fill(to + (above + last - first) * row(), to + all * row(), 0);
      return;
    }
    each_row(tile, [&](std::int64_t at, std::int64_t phase, std::int64_t place) {
      for (std::int64_t q = 0; q < x.phases; ++q) {
        char* const line_to = to + (phase * x.phases + q) * plane() + place * row();
        const std::int64_t apart = x.phases * x.distance, begin = x.position(0, q, 0),
                           left = at < 0 ? 0 : std::clamp<std::int64_t>((apart - 1 - begin) / apart, 0, columns()),
                           right = at < 0 ? 0
                                          : std::clamp<std::int64_t>(floor_div(x.size - 1 - begin, apart) + 1, left,
                                                                     columns());
        std::fill_n(line_to, left * kTileBytes, 0);
        if (left < right)
          pixels((at - first) * x.size + begin + left * apart, apart, right - left, line_to + left * kTileBytes);
        std::fill(line_to + right * kTileBytes, line_to + row(), 0);
      }
    });
  }

  /// The same of images, whose pixels have the columns of a row of the kernel: [group][image][phase][row][column][32].
  void fill_image(const Args& args, const Tile& tile, float* band) const {
    auto* const pixels = reinterpret_cast<std::uint16_t*>(band + band_floats() +
                                                          2 * (sum_block() + apart_block() + made_block()));
    const auto [all, first, last] = of_image.windows();
    for (std::int64_t i = 0; i < tile.images; ++i) {
      const float* const planes = prologue.activation(args, nullptr, (tile.image + i) * in_channels * y.size * x.size, 0);
      std::fill_n(pixels, of_image.line_size(), std::uint16_t{0});
      each_row(tile, [&](std::int64_t at, std::int64_t phase, std::int64_t place) {
        auto* const to = reinterpret_cast<char*>(band) + (i * y.phases + phase) * plane() + place * row();
        if (at >= 0) NEURIM_DISPATCH(round_interleaved)
        (StorageDtype::bf16, planes + at * x.size, y.size * x.size, in_channels, last - first,
         pixels + first * in_channels);
        for (std::int64_t g = 0; g < groups(); ++g) {
          char* const group = to + g * tile.images * image_bytes();
          if (at < 0) {
            std::fill_n(group, row(), 0);
            continue;
          }
          const auto* const from = pixels + g * kGroup;
          NEURIM_DISPATCH(tile_pixels)
          (StorageDtype::bf16, reinterpret_cast<const float*>(from), reinterpret_cast<const float*>(from + kLanes),
           of_image.options.stride[1] * in_channels, columns(), depth() - g * kGroup, group);
        }
      });
    }
  }

  void read_parts() {
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
};

Launch prepare(KernelRequest& request, const ConvPattern& pattern) {
  if (const char* why = against(request, pattern)) return decline(request, why);
  const Problem problem = problem_of(request, pattern);
  if (!has_layouts(request, layout_of, pattern, problem)) return decline(request, "takes blocks of 16 channels");
  auto all = std::make_shared<ConvTiles>();
  static_cast<Problem&>(*all) = problem;
  all->of_image = {pattern.sizes, kLanes / 2, StorageDtype::bf16};
  all->weight = request.place_in(pattern.weight), all->bias = pattern.bias;
  if (!read_steps(request, pattern, all->prologue, all->fused)) return {};
  if (pattern.epilogue) all->epilogue = *pattern.epilogue, all->fused.steps.reset();
  const std::int64_t units = all->y.units(), columns = all->columns(),
                     weights = all->out_blocks() * all->groups() * all->weight_group(),
                     most = weights > kManyWeights ? kLargeBand : kBand,
                     unit = all->groups() * all->y.phases * all->x.phases * all->row(),
                     fitting = std::max<std::int64_t>(1, most / unit - all->y.more);  // units, in one image
  all->units = std::min(units, fitting);
  // Several images, where their bands fit, with what they pad.
  const std::int64_t together = fitting < units ? fitting
                                                : units * std::max<std::int64_t>(1, most / (unit * all->y.kept(units)));
  for (const Run& run : all->fused.cut(request, problem.images, units, all->x.units(), problem.out_channels)) {
    auto& task = all->tasks.emplace_back(ConvTiles::Task{run.first_block, run.last_block, {}});
    task.tiles = cut_tiles(run.first, run.last, units, together);
    for (const Tile& tile : task.tiles) all->most_images = std::max(all->most_images, tile.images);
  }
  all->sum_units = std::max<std::int64_t>(1, kSumRows / columns);
  all->chunk = std::max<std::int64_t>(1, kSteps * kTile / all->weight_group());
  all->read_parts();
  const int tasks = static_cast<int>(all->tasks.size());
  all->fused.ask_scratch(request);
  request.used_dtype = request.compute_dtype;
  return {ConvTiles::run, all,
          tasks,          all->fused.reduction_tasks(),
          request.chunks, all->room() * sizeof(float)};
}

}  // namespace

void cpu_conv_tiles() {
  for (const char* op : {"conv2d", "conv2d_input_grad", "linear"})
    add_conv_kernel<prepare, propose_layouts>({.op = op, .name = "cpu tiles", .fuses = true, .prologues = true});
}

}  // namespace neurim
