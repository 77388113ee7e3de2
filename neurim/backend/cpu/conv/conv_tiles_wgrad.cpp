// Weight gradients of convolutions by products of matrix tiles, in bf16: any kernel, stride and dilation, without
// groups, with a fused prologue that computes the activation. A task is a range of units of dy with sums of its own,
// which the reduction phase adds, or a range of output channels where the weights are larger than the activation. For
// each tile of units it rounds two neighbouring pixels to a pair, of x once for each column of the kernel. Then for two
// blocks of each, and each tap of the kernel, pairs of one are a tile's rows and of the other, transposed, its columns.
#include <algorithm>
#include <vector>

#include "neurim/backend/cpu/common/conv_pattern.h"
#include "neurim/backend/cpu/common/packed_weights.h"
#include "neurim/backend/cpu/common/physical.h"
#include "neurim/backend/cpu/common/priorities.h"
#include "neurim/backend/cpu/common/tile_conv.h"
#include "neurim/ops/conv.h"

namespace neurim {

namespace {

using namespace cpu;

constexpr std::int64_t kLanes = 16, kBlock = kLanes * kLanes;
constexpr std::int64_t kBand = 1 << 18;  // pairs of x in a tile of units, if no fewer are left than
constexpr std::int64_t kFewPixels = 512, kManyPixels = 2048;

struct Geometry : ConvSizes {
  TileAxis y;  ///< rows of x that rows of dy read
  /// Whether all pixels of an image are one line, which tiles may cut anywhere.
  bool flat() const { return pixelwise(); }
  std::int64_t in_blocks() const { return blocks_of(in_channels); }
  std::int64_t out_blocks() const { return blocks_of(out_channels); }
  std::int64_t pixels() const { return out_height * out_width; }
  std::int64_t taps() const { return kernel[0] * kernel[1]; }
  std::int64_t weights() const { return in_blocks() * out_blocks() * taps() * kBlock; }
  /// Units of an image: rows of dy, or pixels where it is flat.
  std::int64_t units() const { return flat() ? pixels() : out_height; }
};

Geometry geometry_of(const ConvPattern& pattern) { return {pattern.sizes, forward_axis(pattern.sizes, 0)}; }

/// Null, or why the kernel leaves the gradient to others.
const char* against(const ConvPattern& pattern) {
  if (!uses_tiles()) return "takes matrix tiles, which this machine does not have";
  if (pattern.storage != StorageDtype::bf16) return "rounds to bf16, which the plan does not allow";
  if (const char* why = pattern.against()) return why;
  const ConvSizes& s = pattern.sizes;
  if (s.options.groups != 1 || !fills_blocks(s.in_channels) || !fills_blocks(s.out_channels))
    return "takes 8 channels and more, without groups";
  return pattern.followed ? "takes nothing after it" : nullptr;
}

Layout layout_of(const KernelRequest& request, const ConvPattern& pattern, int value) {
  const Type& type = request.values[value].type;
  if (value == pattern.weight) return forward_weights(type);
  return value == pattern.y || type == request.values[pattern.x].type ? blocked_layout(request, value) : Layout{};
}

bool propose_layouts(KernelRequest& request, const ConvPattern& pattern) {
  if (const char* why = against(pattern)) return decline(request, why), false;
  ask_layouts(request, layout_of, pattern);
  return FusedPrologue().read(request, pattern);
}

/// The pairs of a tile of units, each of 16 channels.
struct Pairs {
  std::int64_t lines, pixels, pairs;  ///< of dy in an image, and the pixels and pairs of each
  std::int64_t plane;                 ///< pairs of x in a column and a phase
  std::int64_t images, steps;         ///< runs of whole tiles, of 16 pairs each
  std::int64_t x_image, dy_image;     ///< pairs of an image
  std::int64_t x_block, dy_block;     ///< pairs of a block

  Pairs(const Geometry& g, const Tile& tile) {
    lines = g.flat() ? 1 : tile.units, pixels = g.flat() ? tile.units : g.out_width, pairs = (pixels + 1) / 2;
    plane = g.flat() ? pairs : g.y.kept(tile.units) * pairs;
    if (g.flat()) {  // images follow each other
      images = 1, x_image = dy_image = pairs;
      x_block = dy_block = whole_tiles(tile.images * pairs);
    } else {  // what is read past the last pair meets zeros in dy, and is one of the same channel or zero itself
      images = tile.images;
      x_image = g.kernel[1] * g.y.phases * plane + kTileRows, dy_image = whole_tiles(lines * pairs);
      x_block = images * x_image, dy_block = images * dy_image;
    }
    steps = dy_block / images / kTileRows;
  }
};

struct TilesWeightGrad {
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
  bool turns_x = false;  ///< whether x is transposed, else dy, and so the sums
  std::vector<std::int64_t>
      ranges;  ///< of the blocks of weights that each reduction task adds; none: tasks do not meet

  static void run(const void* self, const Args& args, int task) noexcept {
    const auto& own = *static_cast<const TilesWeightGrad*>(self);
    const auto number = static_cast<std::size_t>(task);
    if (number < own.tasks.size()) return own.run_task(args, number);
    const std::size_t range = number - own.tasks.size();
    own.finish(args, own.ranges[range], own.ranges[range + 1]);
  }

  float* sums(const Args& args, const Task& task) const {
    return task.sums < 0 ? static_cast<float*>(args.out[0]) : static_cast<float*>(args.scratch) + task.sums;
  }
  /// Blocks of weights that a block of dy has.
  std::int64_t weight_blocks() const { return g.in_blocks() * g.taps(); }

  void run_task(const Args& args, std::size_t number) const {
    const TileScope scope;
    const Task& task = tasks[number];
    const std::int64_t blocks = task.last_block - task.first_block;
    float *const total = sums(args, task) + task.first_block * weight_blocks() * kBlock, *const x = static_cast<float*>(
                                                                                             args.workspace);
    for (const Tile& tile : task.tiles) {
      const Pairs p(g, tile);
      float *const gradient = x + g.in_blocks() * p.x_block * kLanes, *const made = gradient +
                                                                                    blocks * p.dy_block * kLanes;
      fill(args, tile, p, x, made);
      fill_gradient(args, tile, p, task, gradient);
      NEURIM_DISPATCH(transpose_tiles)
      (turns_x ? x : gradient, (turns_x ? g.in_blocks() * p.x_block : blocks * p.dy_block) / kTileRows);
      multiply(p, blocks, x, gradient, &tile != &task.tiles[0], total);
    }
    if (ranges.empty()) finish(args, task.first_block * weight_blocks(), task.last_block * weight_blocks());
  }

  void multiply(const Pairs& p, std::int64_t blocks, const float* x, const float* gradient, bool add,
                float* total) const {
    constexpr std::int64_t kPair = kLanes * sizeof(float), kSum = kBlock * sizeof(float);
    const std::int64_t of_x = g.taps() * kSum, of_dy = weight_blocks() * kSum;
    TileGrad shape{p.images, p.steps, p.dy_block * kPair, p.dy_image * kPair, p.x_block * kPair, p.x_image * kPair,
                   of_dy,    of_x};
    if (turns_x)
      shape = {p.images, p.steps, p.x_block * kPair, p.x_image * kPair, p.dy_block * kPair, p.dy_image * kPair,
               of_x,     of_dy};
    for (std::int64_t out = 0; out < blocks; out += 2)
      for (std::int64_t tap = 0; tap < g.taps(); ++tap)
        for (std::int64_t in = 0; in < g.in_blocks(); in += 2) {
          const auto& row = *g.y.taps[0][tap / g.kernel[1]];
          const std::int64_t from = (tap % g.kernel[1] * g.y.phases + row.phase) * p.plane + row.place * p.pairs,
                             outs = std::min<std::int64_t>(2, blocks - out),
                             ins = std::min<std::int64_t>(2, g.in_blocks() - in);
          const float *const one = gradient + out * p.dy_block * kLanes, *const other = x + (in * p.x_block + from) *
                                                                                                kLanes;
          float* const to = total + (out * weight_blocks() + in * g.taps() + tap) * kBlock;
          NEURIM_DISPATCH(tile_grad)
          (shape, turns_x ? ins : outs, turns_x ? outs : ins, turns_x ? other : one, turns_x ? one : other, add, to);
        }
  }

  /// Rounds pixels [first, last) of a line of so many to pairs; the others are zero.
  static void pair(const float* from, StorageDtype rounded, std::int64_t step, std::int64_t first, std::int64_t last,
                   std::int64_t pixels, int lanes, float* to) {
    if (rounded) NEURIM_DISPATCH(pair_rounded_rows)
    (reinterpret_cast<const std::uint16_t*>(from), step, first, last, pixels, lanes, to);
    else NEURIM_DISPATCH(pair_rows)(StorageDtype::bf16, from, step, first, last, pixels, lanes, to);
  }

  /// x of a tile: [in block][image][column of the kernel][phase][row][pair][16].
  void fill(const Args& args, const Tile& tile, const Pairs& p, float* to, float* made) const {
    const Conv2dOptions& o = g.options;
    // Rows of x that are read, or of a flat image pixels.
    const std::int64_t size = g.flat() ? 1 : g.width, all = g.flat() ? g.pixels() : g.height,
                       first = g.flat() ? tile.unit : std::clamp<std::int64_t>(g.y.position(tile.unit, 0, 0), 0, all),
                       last = g.flat() ? tile.unit + tile.units
                                       : std::clamp<std::int64_t>(
                                             g.y.position(tile.unit, g.y.phases - 1, g.y.kept(tile.units) - 1) + 1,
                                             first, all);
    for (std::int64_t block = 0; block < g.in_blocks(); ++block) {
      const int lanes = static_cast<int>(std::min(kLanes, g.in_channels - block * kLanes));
      float* const end = to + p.x_block * kLanes;
      for (std::int64_t image = tile.image; image < tile.image + tile.images; ++image) {
        const std::int64_t plane = (image * g.in_blocks() + block) * g.height * g.width;
        const float* const x = prologue.activation(args, made, (plane + first * size) * kLanes,
                                                   (plane + last * size) * kLanes);
        if (g.flat()) {
          pair(x, prologue.rounded, kLanes, 0, p.pixels, p.pixels, lanes, to);
          to += p.pairs * kLanes;
          continue;
        }
        for (std::int64_t column = 0; column < g.kernel[1]; ++column)
          for (std::int64_t phase = 0; phase < g.y.phases; ++phase)
            for (std::int64_t place = 0; place < g.y.kept(tile.units); ++place, to += p.pairs * kLanes) {
              const std::int64_t row = g.y.position(tile.unit, phase, place),
                                 begin = column * o.dilation[1] - o.pad[1];  // x's column of the first pixel
              const bool inside = row >= 0 && row < g.height;
              const std::int64_t left = !inside || begin >= 0
                                            ? 0
                                            : std::min((o.stride[1] - 1 - begin) / o.stride[1], p.pixels),
                                 right = !inside ? 0
                                                 : std::clamp((g.width - begin + o.stride[1] - 1) / o.stride[1], left,
                                                              p.pixels),
                                 from = left < right ? ((row - first) * size + begin + left * o.stride[1]) * kLanes : 0;
              pair(element(x, from, prologue.rounded), prologue.rounded, o.stride[1] * kLanes, left, right, p.pixels,
                   lanes, to);
            }
        std::fill_n(to, kTileRows * kLanes, 0.0f), to += kTileRows * kLanes;
      }
      std::fill(to, end, 0.0f), to = end;
    }
  }

  /// dy of a tile: [out block][image][row][pair][16].
  void fill_gradient(const Args& args, const Tile& tile, const Pairs& p, const Task& task, float* to) const {
    const auto* const data = static_cast<const float*>(args.in[dy]);
    for (std::int64_t block = task.first_block; block < task.last_block; ++block) {
      const int lanes = static_cast<int>(std::min(kLanes, g.out_channels - block * kLanes));
      float* const end = to + p.dy_block * kLanes;
      for (std::int64_t image = tile.image; image < tile.image + tile.images; ++image) {
        float* const end_of_image = to + p.dy_image * kLanes;
        std::int64_t from = ((image * g.out_blocks() + block) * g.pixels() + tile.unit * (g.flat() ? 1 : g.out_width)) *
                            kLanes;
        for (std::int64_t line = 0; line < p.lines; ++line, from += p.pixels * kLanes, to += p.pairs * kLanes)
          pair(element(data, from, dy_rounded), dy_rounded, kLanes, 0, p.pixels, p.pixels, lanes, to);
        std::fill(to, end_of_image, 0.0f), to = end_of_image;
      }
      std::fill(to, end, 0.0f), to = end;
    }
  }

  /// Adds the sums of all tasks and turns them, for some blocks of weights.
  void finish(const Args& args, std::int64_t first, std::int64_t last) const {
    float* const total = static_cast<float*>(args.out[0]);
    for (const Task& task : tasks) {
      const float* const added = sums(args, task);
      if (added == total) continue;
      for (std::int64_t i = first * kBlock; i < last * kBlock; ++i) total[i] += added[i];
    }
    if (!turns_x) NEURIM_DISPATCH(transpose_tiles)(total + first * kBlock, last - first);
  }

  std::vector<Tile> cut(std::int64_t first, std::int64_t last) const {
    const std::int64_t unit_pixels = g.pixels() / g.units(),
                       fitting = 2 * kBand /
                                 (g.in_blocks() * kLanes * g.kernel[1] * (g.kernel[0] == 1 ? 1 : g.options.stride[0])),
                       most = std::max<std::int64_t>(std::clamp(fitting, kFewPixels, kManyPixels) / unit_pixels, 1);
    return cut_tiles(first, last, g.units(), most);
  }

  /// Floats of a thread's workspace.
  std::int64_t room() const {
    std::int64_t most = 0;
    for (const Task& task : tasks)
      for (const Tile& tile : task.tiles) {
        const Pairs p(g, tile);
        const std::int64_t read = g.flat() ? tile.units : g.y.kept(tile.units) * g.y.phases * g.y.distance * g.width,
                           made = prologue.steps ? read * kLanes : 0;
        most = std::max(
            most, made + (g.in_blocks() * p.x_block + (task.last_block - task.first_block) * p.dy_block) * kLanes);
      }
    return most;
  }
};

Launch prepare(KernelRequest& request, const ConvPattern& pattern) {
  if (const char* why = against(pattern)) return decline(request, why);
  if (!has_layouts(request, layout_of, pattern)) return decline(request, "takes blocks of 16 channels");
  auto all = std::make_shared<TilesWeightGrad>();
  const Geometry& g = all->g = geometry_of(pattern);
  all->dy = request.place_in(pattern.y);
  all->dy_rounded = request.input(all->dy).layout.storage;
  if (!all->prologue.read(request, pattern)) return {};
  const std::int64_t units = g.images * g.units(), blocks = g.out_blocks();
  const bool sliced = 2 * g.weights() > g.images * g.in_channels * g.height * g.width && blocks >= 2 * request.chunks;
  const std::int64_t count = sliced ? request.chunks : std::min<std::int64_t>(units, request.chunks);
  for (std::int64_t i = 0; i < count; ++i)
    all->tasks.push_back(sliced
                             ? TilesWeightGrad::Task{blocks * i / count, blocks * (i + 1) / count, all->cut(0, units)}
                             : TilesWeightGrad::Task{0, blocks, all->cut(units * i / count, units * (i + 1) / count)});
  all->turns_x = g.flat() && g.in_channels < g.out_channels;
  std::int64_t scratch = 0;
  for (std::int64_t i = 1; !sliced && i < count; ++i, scratch += g.weights()) all->tasks[i].sums = scratch;
  request.scratch = scratch * sizeof(float);
  const std::int64_t weight_blocks = g.weights() / kBlock,
                     joins = sliced || count == 1 ? 0 : std::min<std::int64_t>(request.chunks, weight_blocks);
  for (std::int64_t i = 0; joins > 0 && i <= joins; ++i) all->ranges.push_back(weight_blocks * i / joins);
  request.used_dtype = request.compute_dtype;
  return {TilesWeightGrad::run,       all, static_cast<int>(count), static_cast<int>(joins), request.chunks,
          all->room() * sizeof(float)};
}

}  // namespace

void cpu_conv_tiles_wgrad() {
  add_conv_kernel<prepare, propose_layouts>(
      {.op = "conv2d_weight_grad", .name = "cpu tiles direct", .fuses = true, .prologues = true});
}

}  // namespace neurim
