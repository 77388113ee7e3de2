// Direct convolutions over blocks of 16 channels: any kernel, stride, dilation and groups, with a fused prologue and
// epilogue. Factors are rounded to 16 bits; in f32 the kernel takes grouped convolutions, and all of them where oneDNN
// has no kernels for blocks (without AVX-512). A task is a range of rows of the result, counted through all images, or
// of output channels where rows are few. For each band of rows it copies and pads the rows of x that they read
// (ConvRows).
#include <algorithm>
#include <cstring>
#include <vector>

#include "neurim/backend/cpu/common/block_product.h"
#include "neurim/backend/cpu/common/conv_rows.h"
#include "neurim/backend/cpu/common/conv_steps.h"
#include "neurim/backend/cpu/common/packed_weights.h"
#include "neurim/backend/cpu/common/physical.h"
#include "neurim/backend/cpu/common/priorities.h"
#include "neurim/backend/cpu/packing/vnni_weights.h"
#include "neurim/ops/conv.h"

namespace neurim {

namespace {

using namespace cpu;

constexpr std::int64_t kLanes = 16;
constexpr std::int64_t kBand = 1 << 16;  // floats, where a row of the result needs no more
constexpr std::int64_t
    kNear = 5 << 10;  // floats of weights that stay in the first-level cache, and of all that stay in the second
constexpr std::int64_t kManyWeights = 1 << 15;

/// How groups are multiplied: as whole blocks with zeros for the weights between groups; groups of 4 or 8 channels by
/// group_product(); groups of whole 8-channel halves by eights_product(), where registers hold half a block (AVX2).
enum class GroupsBy : std::uint8_t { blocks, group, eights };
GroupsBy groups_by(const ConvRows& g) {
  const std::int64_t groups = g.options.groups, in = g.in_channels / groups, out = g.out_channels / groups;
  if (groups == 1 || g.pairs) return GroupsBy::blocks;
  if (isa() != Isa::portable && in == out && (in == 4 || (in == 8 && isa() == Isa::avx512))) return GroupsBy::group;
  const bool whole = in % kLanes == 0 && out % kLanes == 0;
  return isa() != Isa::avx512 && in % 8 == 0 && out % 8 == 0 && !whole ? GroupsBy::eights : GroupsBy::blocks;
}

ConvRows rows_of(const ConvPattern& pattern) {
  return {pattern.sizes, pattern.storage ? kLanes / 2 : kLanes, pattern.storage};
}

/// Null, or why the kernel leaves the convolution to others.
const char* against(const KernelRequest& request, const ConvPattern& pattern) {
  if (const char* why = pattern.against()) return why;
  const ConvRows g = rows_of(pattern);
  const bool groups = g.options.groups != 1;
  // oneDNN cuts work into images, or one image into blocks of channels: enough for all threads?
  const bool shared_out = g.images * blocks_of(g.out_channels) >= request.chunks;
  if (!g.pairs && !groups && onednn_takes_blocks() && shared_out)
    return "rounds to 16 bits, which the plan does not allow, where oneDNN is as fast in f32";
  if (g.image() && (!pattern.constant_weight || pattern.prologue))
    return "takes constant weights and no steps before of images";
  if (!((g.image() && !groups) || fills_blocks(g.in_channels)) || !fills_blocks(g.out_channels))
    return "takes 8 channels and more or images";
  if (!g.pairs && !groups && g.suits_nchw16n())
    return "leaves fewer than 16 channels at stride 1 to kernels that waste no lanes";
  if (groups && !pattern.constant_weight) return "takes constant weights in groups";
  const auto whole = [&](std::int64_t channels) { return channels / g.options.groups % kLanes == 0; };
  if (groups && !g.pairs && onednn_takes_blocks() && g.images >= request.chunks && whole(g.in_channels) &&
      whole(g.out_channels))
    return "leaves groups of whole blocks to oneDNN, where it has images for all threads";
  if (groups && g.in_channels == g.options.groups) return "takes groups of two channels and more";
  if (g.image() && g.options.dilation[1] != 1) return "takes kernels without holes over images";
  return nullptr;
}

Layout layout_of(const KernelRequest& request, const ConvPattern& pattern, const ConvRows& g, int value) {
  const Type& type = request.values[value].type;
  if (value == pattern.weight)
    return groups_by(g) != GroupsBy::blocks ? group_rows(type)
           : g.options.groups != 1          ? group_weights(type, g.options.groups, g.pairs)
           : g.image()                      ? row_weights(type, g.pairs)
           : g.pairs                        ? vnni_weights(type, g.pairs)
                                            : forward_weights(type);
  if (!pattern.is_activation(request, value) || (value == pattern.x && g.image())) return {};
  return blocked_layout(request, value);
}

bool propose_layouts(KernelRequest& request, const ConvPattern& pattern) {
  if (const char* why = against(request, pattern)) return decline(request, why), false;
  ask_layouts(request, layout_of, pattern, rows_of(pattern));
  return FusedPrologue().read(request, pattern, pattern.storage) && FusedEpilogue().read(request, pattern);
}

struct Direct {
  ConvRows g;
  int weight, bias;           ///< arguments, or -1
  bool non_temporal = false;  ///< BlockEpilogue::non_temporal
  Epilogue epilogue;          ///< what follows, where the product does it in registers; else see `after`
  FusedPrologue prologue;
  FusedEpilogue fused;
  std::int64_t rows;               ///< of the result in a band
  std::vector<std::int64_t> taps;  ///< BlockProduct::taps
  GroupsBy by;                     ///< groups_by()
  std::int64_t chunk;  ///< blocks of x whose products are added up for all rows of a band before those of others
  std::vector<ReadBlocks> read;  ///< of each block of the result
  std::vector<Run> tasks;

  static void run(const void* self, const Args& args, int task) noexcept {
    const auto& own = *static_cast<const Direct*>(self);
    const int tasks = static_cast<int>(own.tasks.size());
    task < tasks ? own.run_task(args, task) : own.fused.norm->finish(args, task - tasks);
  }

  void run_task(const Args& args, int number) const {
    const Run& task = tasks[number];
    const ConvEpilogue sums = fused.begin(args, number);
    float *const made = static_cast<float*>(args.workspace), *const band = made + apart();
    for (std::int64_t at = task.first; at < task.last;) {
      const std::int64_t image = at / g.out_height, row = at % g.out_height,
                         count = std::min({rows, g.out_height - row, task.last - at});
      float* const behind_band = band + g.band_size(rows);
      if (g.image())
        g.fill_image(prologue.activation(args, nullptr, image * g.in_channels * g.height * g.width, 0), row,
                     g.rows(count), behind_band, band);
      else
        fill(args, image, row, g.rows(count), task, band, behind_band);
      for (std::int64_t block = task.first_block, blocks = 0; block < task.last_block; block += blocks) {
        blocks = together(block, task.last_block);
        const std::int64_t all = read[block].count();
        for (std::int64_t first = 0; first < all; first += chunk)
          for (std::int64_t r = 0; r < count; ++r)
            multiply(args, image, row + r, block, blocks, {first, std::min(first + chunk, all)},
                     g.rows(count) * g.row_size(), band + r * g.row_step() * g.row_size(), made, sums,
                     at == task.first && r == 0);
      }
      at += count;
    }
  }

  /// How many blocks of the result from `block` on, before `last`, one product computes: those that read the same
  /// blocks of x.
  std::int64_t together(std::int64_t block, std::int64_t last) const {
    std::int64_t blocks = 1;
    const auto reads = [&](std::int64_t other) {
      const ReadBlocks &one = read[block], &two = read[other];
      return one.first == two.first && one.last == two.last;
    };
    while (by == GroupsBy::blocks && blocks < g.together() && block + blocks < last && reads(block + blocks)) ++blocks;
    return blocks;
  }

  /// Fills the band from row `row` of the result on, of the blocks of x that the task reads.
  void fill(const Args& args, std::int64_t image, std::int64_t row, std::int64_t count, const Run& task, float* to,
            float* made) const {
    const std::int64_t first_block = read[task.first_block].first, last_block = read[task.last_block - 1].last;
    to += first_block * count * g.row_size();
    const std::int64_t line = g.width * kLanes, top = row * g.options.stride[0] - g.options.pad[0],
                       first = std::clamp<std::int64_t>(top, 0, g.height) * line,
                       last = std::clamp<std::int64_t>(top + (count - 1) * g.row_distance() + 1, 0, g.height) * line;
    for (std::int64_t block = first_block; block < last_block; ++block) {
      const std::int64_t channels = std::min(kLanes, g.in_channels - block * kLanes),
                         plane = (image * g.in_blocks() + block) * g.height * line;
      const float* const x = prologue.activation(args, made, plane + first, plane + last);
      const auto copy = [&](std::int64_t pixel, std::int64_t apart, std::int64_t columns, float* copied) {
        const float* const from = element(x, pixel * kLanes - first, prologue.rounded);
        if (g.pairs && !prologue.rounded)
          NEURIM_DISPATCH(round_to_pairs)(g.pairs, from, 0, apart * kLanes, columns, channels, copied);
        else if (apart == 1)
          std::memcpy(copied, from, columns * g.words * sizeof *copied);
        else
          NEURIM_DISPATCH(copy_columns)(from, apart * kLanes, columns, g.words * sizeof *copied, copied);
      };
      to = g.fill_block(row, count, 0, to, copy);
    }
  }

  /// Floats of the workspace for results that the epilogue reads from there.
  std::int64_t apart() const { return fused.apart() ? ConvRows::kMostTogether * g.out_width * kLanes : 0; }

  /// A range of the blocks of x that a block of the result reads.
  struct Chunk {
    std::int64_t first, last;
  };
  void multiply(const Args& args, std::int64_t image, std::int64_t row, std::int64_t block, std::int64_t blocks,
                Chunk read_now, std::int64_t x_block, const float* from, float* made, const ConvEpilogue& sums,
                bool begins) const {
    const auto in = [&](int argument) { return static_cast<const float*>(args.in[argument]); };
    const ReadBlocks& reads = read[block];
    const bool first = read_now.first == 0, last = read_now.last == reads.count();
    const std::int64_t plane = g.out_height * g.out_width * kLanes, begin = reads.first + read_now.first,
                       depth = std::min((read_now.last - read_now.first) * kLanes, g.depth() - begin * kLanes),
                       weights = g.tap_count() * kLanes * g.words,  // of a block of x
        place = (image * g.out_blocks() + block) * plane + row * g.out_width * kLanes;
    alignas(64) float biases[ConvRows::kMostTogether * kLanes] = {};
    if (bias >= 0)
      std::copy_n(in(bias) + block * kLanes, std::min(blocks * kLanes, g.out_channels - block * kLanes), biases);
    const std::int64_t y_block = fused.apart() ? g.out_width * kLanes : plane;
    const BlockProduct product{.rows = g.out_width,
                               .in_channels = depth,
                               .x_block = x_block,
                               .weight_block = reads.count() * weights,
                               .y_block = y_block,
                               .pairs = g.pairs,
                               .taps = taps.data(),
                               .tap_count = g.tap_count(),
                               .out_channels = g.out_channels - block * kLanes};
    float* const y = fused.apart() ? made : element(fused.results(args), place, fused.rounded());
    const float* const add = !first         ? y
                             : epilogue.add ? element(in(epilogue.residual), place, epilogue.add_rounded)
                                            : nullptr;
    const BlockEpilogue after{
        first ? biases : nullptr, add, last ? epilogue.relu : Relu(), non_temporal, fused.rounded(),
        epilogue.add_rounded};
    if (by == GroupsBy::blocks) NEURIM_DISPATCH(block_product)
    (product, blocks, from + begin * x_block, in(weight) + (reads.before + read_now.first) * weights, after, y);
    else multiply_groups(product, block, from, in(weight), after, y);
    for (std::int64_t b = 0; b < blocks && last && (fused.steps || fused.norm); ++b)
      fused.run(args, sums, block + b, 1, place + b * plane, place + b * plane + g.out_width * kLanes, begins,
                made + b * y_block);
  }

  /// Computes one block of the result from weights that are packed group by group.
  void multiply_groups(BlockProduct product, std::int64_t block, const float* x, const float* weights,
                       const BlockEpilogue& after, float* y) const {
    const std::int64_t width = g.in_channels / g.options.groups, out = g.out_channels / g.options.groups;
    const auto sees = [&](std::int64_t channel) { return channel < g.out_channels ? channel / out * width : -1; };
    weights += block * g.tap_count() * width * kLanes;
    product.in_channels = width;
    if (by == GroupsBy::group)
      NEURIM_DISPATCH(group_product)(product, static_cast<int>(width), x + block * product.x_block, weights, after, y);
    else
      NEURIM_DISPATCH(eights_product)
    (product, sees(block * kLanes), sees(block * kLanes + kLanes / 2), x, weights, after, y);
  }
};

Launch prepare(KernelRequest& request, const ConvPattern& pattern) {
  if (const char* why = against(request, pattern)) return decline(request, why);
  auto all = std::make_shared<Direct>();
  ConvRows& g = all->g;
  g = rows_of(pattern);
  if (!has_layouts(request, layout_of, pattern, g)) return decline(request, "takes blocks of 16 channels");
  all->weight = request.place_in(pattern.weight);
  all->bias = pattern.bias;
  if (!all->prologue.read(request, pattern, g.pairs) || !all->fused.read(request, pattern)) return {};
  if (pattern.epilogue) all->epilogue = *pattern.epilogue, all->fused.steps.reset();
  all->non_temporal = all->fused.non_temporal(bytes(request.output(0).type, kBlocked));
  all->taps = g.taps();
  all->by = groups_by(g);
  all->read = read_blocks(g.depth(), g.out_channels, g.options.groups);
  all->tasks = all->fused.cut(request, g.images, g.out_height, g.out_width, g.out_channels);
  all->rows = g.band_rows(kBand);
  // Each row reads all weights of a block. Where these do not stay in the cache beside the rows of x, the band is
  // computed for a few blocks of x at a time.
  const std::int64_t weights = g.tap_count() * kLanes * g.words;
  const bool chunks = !g.pairs && g.options.groups == 1 && !all->non_temporal && g.in_blocks() * weights > kManyWeights;
  all->chunk = chunks ? std::max<std::int64_t>(1, kNear / weights) : g.in_blocks();
  const int tasks = static_cast<int>(all->tasks.size());
  const std::int64_t made = all->prologue.steps ? ((g.rows(all->rows) - 1) * g.row_distance() + 1) * g.width * kLanes
                                                : 0,
                     line = g.image() ? g.line_words() : 0;
  all->fused.ask_scratch(request);
  if (g.pairs) request.used_dtype = request.compute_dtype;
  return {Direct::run,    all,
          tasks,          all->fused.reduction_tasks(),
          request.chunks, (all->apart() + g.band_size(all->rows) + made + line) * sizeof(float)};
}

}  // namespace

void cpu_conv_direct() {
  add_conv_kernel<prepare, propose_layouts>({.op = "conv2d", .name = "cpu direct", .fuses = true, .prologues = true});
}

}  // namespace neurim
