// Direct weight gradients over blocks of 16 channels: any kernel, stride and dilation, without groups, with a fused
// prologue that computes the activation. Factors are rounded to 16 bits; in f32 the kernel takes strided convolutions
// of many channels and few pixels, and all of them where oneDNN has no kernels for blocks. A task is a range of lines
// of dy with sums of its own, which the reduction phase adds, or a range of output channels where the weights are
// larger than the activation. For each tile of lines it copies x once for each column of the kernel, or rounds two
// neighbouring pixels to a pair; then each tap of the kernel is one product.
#include <algorithm>

#include "neurim/backend/cpu/common/block_product.h"
#include "neurim/backend/cpu/common/conv_pattern.h"
#include "neurim/backend/cpu/common/conv_steps.h"
#include "neurim/backend/cpu/common/packed_weights.h"
#include "neurim/backend/cpu/common/physical.h"
#include "neurim/backend/cpu/common/priorities.h"
#include "neurim/ops/conv.h"

namespace neurim {

namespace {

using namespace cpu;

constexpr std::int64_t kLanes = 16, kBlock = kLanes * kLanes;
constexpr std::int64_t kTile = 1 << 17;         // words of x
constexpr std::int64_t kManyWeights = 1 << 16;  // of f32: oneDNN is up to a third slower from there on
constexpr std::int64_t kFewPixels = 196,
                       kManyPixels = 1024;  // of a tile: below, adding to all weights is too much traffic

const Type& type_of(const KernelRequest& request, int value) { return request.values[value].type; }

struct Geometry : ConvSizes {
  StorageDtype pairs;  ///< the dtype that pixels are rounded to, two in the place of one
  /// The rows of a product for so many pixels.
  std::int64_t rows(std::int64_t count) const { return pairs ? (count + 1) / 2 : count; }
  /// Whether all pixels of an image are one line, which tiles may cut anywhere.
  bool flat() const { return pixelwise(); }
  std::int64_t in_blocks() const { return blocks_of(in_channels); }
  std::int64_t out_blocks() const { return blocks_of(out_channels); }
  std::int64_t pixels() const { return out_height * out_width; }
  std::int64_t weights() const { return in_blocks() * out_blocks() * kernel[0] * kernel[1] * kBlock; }
  /// Units of a tile in an image: rows of dy, or pixels where it is flat.
  std::int64_t units() const { return flat() ? pixels() : out_height; }
};

/// Null, or why the kernel leaves the gradient to others.
const char* against(const ConvPattern& pattern) {
  if (const char* why = pattern.against()) return why;
  const Geometry g{pattern.sizes, pattern.storage};
  if (!g.pairs && onednn_takes_blocks() &&
      (g.at_stride_1() || g.pixels() > kFewPixels || g.in_channels * g.out_channels < kManyWeights))
    return "takes kernels with a stride, many channels and few pixels, or rounds to 16 bits, which the plan does not "
           "allow";
  if (g.options.groups != 1 || !fills_blocks(g.in_channels) || !fills_blocks(g.out_channels))
    return "takes 8 channels and more, without groups";
  return pattern.followed ? "takes nothing after it" : nullptr;
}

Layout layout_of(const KernelRequest& request, const ConvPattern& pattern, int value) {
  const Type& type = type_of(request, value);
  if (value == pattern.weight) return forward_weights(type);
  return value == pattern.y || type == type_of(request, pattern.x) ? blocked_layout(request, value) : Layout{};
}

bool propose_layouts(KernelRequest& request, const ConvPattern& pattern) {
  if (const char* why = against(pattern)) return decline(request, why), false;
  ask_layouts(request, layout_of, pattern);
  return FusedPrologue().read(request, pattern);
}

/// The lines of a tile.
struct Lines {
  std::int64_t runs, pixels, rows;  ///< lines of an image, or the flat one; pixels of each, and what they become
  std::int64_t x_rows, step;        ///< rows of x that are kept of an image, and those between two runs

  Lines(const Geometry& g, const Tile& tile)
      : runs(g.flat() ? 1 : tile.units),
        pixels(g.flat() ? tile.units : g.out_width),
        rows(g.rows(pixels)),
        x_rows(g.kernel[0] == 1 ? runs
                                : (runs - 1) * g.options.stride[0] + (g.kernel[0] - 1) * g.options.dilation[0] + 1),
        step(g.kernel[0] == 1 ? 1 : g.options.stride[0]) {}
};

struct WeightGrad {
  Geometry g;
  FusedPrologue prologue;
  int dy;  // argument
  StorageDtype dy_rounded;
  struct Task {
    std::int64_t first_block, last_block;
    std::vector<Tile> tiles;
    std::int64_t sums = -1;  ///< where in the scratch, in floats; -1: in the result
  };
  std::vector<Task> tasks;
  std::int64_t room = 0;             ///< floats of a thread's workspace
  std::vector<std::int64_t> ranges;  ///< of the weights that each reduction task adds

  static void run(const void* self, const Args& args, int task) noexcept {
    const auto& own = *static_cast<const WeightGrad*>(self);
    const auto number = static_cast<std::size_t>(task);
    number < own.tasks.size() ? own.run_task(args, number) : own.join(args, number - own.tasks.size());
  }

  float* sums(const Args& args, const Task& task) const {
    return task.sums < 0 ? static_cast<float*>(args.out[0]) : static_cast<float*>(args.scratch) + task.sums;
  }

  std::int64_t x_block(const Tile& tile) const {
    const Lines p(g, tile);
    return tile.images * g.kernel[1] * p.x_rows * p.rows * kLanes;
  }
  std::int64_t dy_block(const Tile& tile) const {
    const Lines p(g, tile);
    return tile.images * p.runs * p.rows * kLanes;
  }

  void run_task(const Args& args, std::size_t number) const {
    const Task& task = tasks[number];
    const std::int64_t taps = g.kernel[0] * g.kernel[1], blocks = task.last_block - task.first_block;
    float* const total = sums(args, task) + task.first_block * g.in_blocks() * taps * kBlock;
    float* const x = static_cast<float*>(args.workspace);
    for (const Tile& tile : task.tiles) {
      const Lines p(g, tile);
      float *const gradient = x + g.in_blocks() * x_block(tile), *const made = gradient + blocks * dy_block(tile);
      fill(args, tile, p, x, made);
      fill_gradient(args, tile, p, task, gradient);
      const std::int64_t row = p.rows * kLanes;
      const BlockWeightGrad shape{.in_blocks = g.in_blocks(),
                                  .rows = p.rows,
                                  .x_block = x_block(tile),
                                  .dy_block = dy_block(tile),
                                  .weight_block = taps * kBlock,
                                  .runs = p.runs,
                                  .x_run = p.step * row,
                                  .images = tile.images,
                                  .x_image = g.kernel[1] * p.x_rows * row,
                                  .pairs = g.pairs};
      for (std::int64_t tap = 0; tap < taps; ++tap) {
        const std::int64_t from = (tap % g.kernel[1] * p.x_rows + tap / g.kernel[1] * g.options.dilation[0]) * row;
        NEURIM_DISPATCH(block_weight_grad)
        (shape, blocks, x + from, gradient, &tile != &task.tiles[0], total + tap * kBlock);
      }
    }
  }

  /// As pair_rows, or floats as they are.
  void copy(const float* from, StorageDtype rounded, std::int64_t step, std::int64_t first, std::int64_t last,
            std::int64_t pixels, int lanes, float* to) const {
    if (rounded) {
      NEURIM_DISPATCH(pair_rounded_rows)
      (reinterpret_cast<const std::uint16_t*>(from), step, first, last, pixels, lanes, to);
      return;
    }
    if (g.pairs) {
      NEURIM_DISPATCH(pair_rows)(g.pairs, from, step, first, last, pixels, lanes, to);
      return;
    }
    std::fill_n(to, first * kLanes, 0.0f);
    for (std::int64_t pixel = first; pixel < last; ++pixel, from += step)
      std::copy_n(from, kLanes, to + pixel * kLanes);
    std::fill(to + last * kLanes, to + pixels * kLanes, 0.0f);
  }

  /// x of a tile: [in block][image][column of the kernel][row][pixel or pair][16], zero where it is padding.
  void fill(const Args& args, const Tile& tile, const Lines& p, float* to, float* made) const {
    const Conv2dOptions& o = g.options;
    // Rows of x that are read, or of a flat image pixels.
    const std::int64_t top = g.flat() ? tile.unit : tile.unit * o.stride[0] - o.pad[0], size = g.flat() ? 1 : g.width,
                       apart = g.kernel[0] == 1 ? o.stride[0] : 1,  // rows that are kept
        first = std::clamp<std::int64_t>(top, 0, g.flat() ? g.pixels() : g.height),
                       last = std::clamp<std::int64_t>(
                           g.flat() ? tile.unit + tile.units : top + (p.x_rows - 1) * apart + 1, first,
                           g.flat() ? g.pixels() : g.height);
    for (std::int64_t block = 0; block < g.in_blocks(); ++block) {
      const int lanes = static_cast<int>(std::min(kLanes, g.in_channels - block * kLanes));
      for (std::int64_t image = tile.image; image < tile.image + tile.images; ++image) {
        const std::int64_t plane = (image * g.in_blocks() + block) * g.height * g.width;
        const float* const x = prologue.activation(args, made, (plane + first * size) * kLanes,
                                                   (plane + last * size) * kLanes);
        for (std::int64_t column = 0; column < g.kernel[1]; ++column)
          for (std::int64_t r = 0; r < p.x_rows; ++r, to += p.rows * kLanes) {
            const std::int64_t row = top + r * apart,
                               begin = column * o.dilation[1] - o.pad[1];  // x's column of the first pixel
            const bool inside = g.flat() || (row >= first && row < last);
            const std::int64_t left = !inside || begin >= 0
                                          ? 0
                                          : std::min((o.stride[1] - 1 - begin) / o.stride[1], p.pixels),
                               right = !inside    ? 0
                                       : g.flat() ? p.pixels
                                                  : std::clamp((g.width - begin + o.stride[1] - 1) / o.stride[1], left,
                                                               p.pixels);
            const std::int64_t from = left < right ? ((row - first) * size + begin + left * o.stride[1]) * kLanes : 0;
            copy(element(x, from, prologue.rounded), prologue.rounded, o.stride[1] * kLanes, left, right, p.pixels,
                 lanes, to);
          }
      }
    }
  }

  /// dy of a tile: [out block][image][row][pixel or pair][16].
  void fill_gradient(const Args& args, const Tile& tile, const Lines& p, const Task& task, float* to) const {
    const auto* const dy_data = static_cast<const float*>(args.in[dy]);
    for (std::int64_t block = task.first_block; block < task.last_block; ++block) {
      const int lanes = static_cast<int>(std::min(kLanes, g.out_channels - block * kLanes));
      for (std::int64_t image = tile.image; image < tile.image + tile.images; ++image) {
        std::int64_t from = ((image * g.out_blocks() + block) * g.pixels() + tile.unit * (g.flat() ? 1 : g.out_width)) *
                            kLanes;
        for (std::int64_t r = 0; r < p.runs; ++r, from += p.pixels * kLanes, to += p.rows * kLanes)
          copy(element(dy_data, from, dy_rounded), dy_rounded, kLanes, 0, p.pixels, p.pixels, lanes, to);
      }
    }
  }

  void join(const Args& args, std::size_t range) const {
    float* const total = static_cast<float*>(args.out[0]);
    for (const Task& task : tasks) {
      const float* const added = sums(args, task);
      if (added == total) continue;
      for (std::int64_t i = ranges[range]; i < ranges[range + 1]; ++i) total[i] += added[i];
    }
  }

  std::vector<Tile> cut(std::int64_t first, std::int64_t last) const {
    const std::int64_t unit_pixels = g.pixels() / g.units(),
                       fitting = kTile * (g.pairs ? 2 : 1) /
                                 (g.in_blocks() * kLanes * g.kernel[1] * (g.kernel[0] == 1 ? 1 : g.options.stride[0])),
                       most = std::max<std::int64_t>(std::clamp(fitting, kFewPixels, kManyPixels) / unit_pixels, 1);
    return cut_tiles(first, last, g.units(), most);
  }
};

Launch prepare(KernelRequest& request, const ConvPattern& pattern) {
  if (const char* why = against(pattern)) return decline(request, why);
  if (!has_layouts(request, layout_of, pattern)) return decline(request, "takes blocks of 16 channels");
  auto all = std::make_shared<WeightGrad>();
  Geometry& g = all->g;
  g = {pattern.sizes, pattern.storage};
  all->dy = request.place_in(pattern.y);
  all->dy_rounded = request.input(all->dy).layout.storage;
  if (!all->prologue.read(request, pattern)) return {};
  const std::int64_t units = g.images * g.units(), blocks = g.out_blocks();
  const bool sliced = 2 * g.weights() > g.images * g.in_channels * g.height * g.width && blocks >= 2 * request.chunks;
  const std::int64_t count = sliced ? request.chunks : std::min<std::int64_t>(units, request.chunks);
  for (std::int64_t i = 0; i < count; ++i)
    all->tasks.push_back(sliced ? WeightGrad::Task{blocks * i / count, blocks * (i + 1) / count, all->cut(0, units)}
                                : WeightGrad::Task{0, blocks, all->cut(units * i / count, units * (i + 1) / count)});
  for (const auto& task : all->tasks)
    for (const Tile& tile : task.tiles) {
      const Lines p(g, tile);
      const std::int64_t read = g.flat() ? tile.units
                                         : p.x_rows * (g.kernel[0] == 1 ? g.options.stride[0] : 1) * g.width,
                         made = all->prologue.steps ? read * kLanes : 0;
      all->room = std::max(all->room, made + g.in_blocks() * all->x_block(tile) +
                                          (task.last_block - task.first_block) * all->dy_block(tile));
    }
  std::int64_t scratch = 0;
  for (std::int64_t i = 1; !sliced && i < count; ++i, scratch += g.weights()) all->tasks[i].sums = scratch;
  request.scratch = scratch * sizeof(float);
  const int reduction_tasks = sliced || count == 1
                                  ? 0
                                  : static_cast<int>(std::min<std::int64_t>(request.chunks, g.weights() / kBlock));
  for (int i = 0; i <= reduction_tasks; ++i)
    all->ranges.push_back(reduction_tasks == 0 ? 0 : g.weights() / kLanes * i / reduction_tasks * kLanes);
  const int tasks = static_cast<int>(all->tasks.size());
  if (g.pairs) request.used_dtype = request.compute_dtype;
  return {WeightGrad::run, all, tasks, reduction_tasks, request.chunks, all->room * sizeof(float)};
}

}  // namespace

void cpu_conv_direct_wgrad() {
  add_conv_kernel<prepare, propose_layouts>(
      {.op = "conv2d_weight_grad", .name = "cpu direct", .fuses = true, .prologues = true});
}

}  // namespace neurim
