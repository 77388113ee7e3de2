// Direct data gradients over blocks of 16 channels: any kernel, stride and dilation, without groups, with a fused
// prologue and epilogue. Factors are rounded to 16 bits; in f32 the kernel is used where oneDNN has no kernels for
// blocks. A task is a range of rows of dx, counted through all images, or of input channels where rows are few. For
// each band it copies and pads the rows of dy that the rows of dx read. Columns of dx that are a stride apart read the
// same taps and neighbouring columns of dy: they are one product.
#include <algorithm>
#include <vector>

#include "neurim/backend/cpu/common/block_product.h"
#include "neurim/backend/cpu/common/conv_pattern.h"
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
constexpr std::int64_t kBand = 1 << 16;  // floats, where a row of dx needs no more
constexpr std::int64_t kMostTaps = 128;

struct Geometry : ConvSizes {
  std::int64_t words;  ///< 4-byte words of a pixel in a block: pairs of bf16 or f16 values, or floats
  StorageDtype pairs;  ///< the dtype of pairs
  std::int64_t tap() const { return kLanes * words; }  ///< words of a block's weights
  std::int64_t in_blocks() const { return blocks_of(in_channels); }
  std::int64_t out_blocks() const { return blocks_of(out_channels); }
  /// The first column of dy in a band, which may be before the first of dy.
  std::int64_t first_column() const {
    return floor_div(options.pad[1] - (kernel[1] - 1) * options.dilation[1], options.stride[1]);
  }
  std::int64_t columns() const { return floor_div(width - 1 + options.pad[1], options.stride[1]) + 1 - first_column(); }
  std::int64_t row_size() const { return columns() * words; }
  /// Rows of dy that rows [first, last) of dx read.
  std::int64_t first_row(std::int64_t first) const {
    const std::int64_t at = first + options.pad[0] - (kernel[0] - 1) * options.dilation[0];
    return std::clamp<std::int64_t>(-floor_div(-at, options.stride[0]), 0, out_height);
  }
  std::int64_t last_row(std::int64_t first, std::int64_t last) const {
    return std::clamp<std::int64_t>(floor_div(last - 1 + options.pad[0], options.stride[0]) + 1, first_row(first),
                                    out_height);
  }
  /// Of as many rows of dx as that.
  std::int64_t most_rows(std::int64_t rows) const {
    std::int64_t most = 0;
    for (std::int64_t first = 0; first < height; ++first)
      most = std::max(most, last_row(first, std::min(first + rows, height)) - first_row(first));
    return most;
  }
};

Geometry geometry_of(const ConvPattern& pattern) {
  return {pattern.sizes, pattern.storage ? kLanes / 2 : kLanes, pattern.storage};
}

/// Null, or why the kernel leaves the gradient to others.
const char* against(const ConvPattern& pattern) {
  if (const char* why = pattern.against()) return why;
  const Geometry g = geometry_of(pattern);
  if (!g.pairs && onednn_takes_blocks())
    return "rounds to 16 bits, which the plan does not allow, where oneDNN is as fast in f32";
  if (g.options.groups != 1 || !fills_blocks(g.in_channels) || !fills_blocks(g.out_channels))
    return "takes 8 channels and more, without groups";
  if (!g.pairs && g.suits_nchw16n()) return "leaves fewer than 16 channels at stride 1 to kernels that waste no lanes";
  if (g.kernel[0] * g.kernel[1] > kMostTaps) return "takes kernels of up to 128 pixels";
  return nullptr;
}

Layout layout_of(const KernelRequest& request, const ConvPattern& pattern, int value) {
  const Type& type = request.values[value].type;
  if (value == pattern.weight)
    return pattern.storage ? vnni_weights(type, pattern.storage, true) : gradient_weights(type);
  return pattern.is_activation(request, value) ? blocked_layout(request, value) : Layout{};
}

bool propose_layouts(KernelRequest& request, const ConvPattern& pattern) {
  if (const char* why = against(pattern)) return decline(request, why), false;
  ask_layouts(request, layout_of, pattern);
  return FusedPrologue().read(request, pattern, pattern.storage) && FusedEpilogue().read(request, pattern);
}

struct InputGrad {
  Geometry g;
  int weight;  // argument
  FusedPrologue prologue;
  FusedEpilogue fused;
  std::int64_t rows = 1;                 ///< of dx in a band
  std::int64_t band_size = 0, made = 0;  ///< floats of a band, and of what the prologue computes
  std::vector<Run> tasks;

  static void run(const void* self, const Args& args, int task) noexcept {
    const auto& own = *static_cast<const InputGrad*>(self);
    const int tasks = static_cast<int>(own.tasks.size());
    task < tasks ? own.run_task(args, task) : own.fused.norm->finish(args, task - tasks);
  }

  void run_task(const Args& args, int number) const {
    const Run& task = tasks[number];
    const ConvEpilogue sums = fused.begin(args, number);
    float *const band = static_cast<float*>(args.workspace), *const apart = band + band_size + made;
    const std::int64_t plane = g.height * g.width * kLanes, line = g.width * kLanes;
    for (std::int64_t at = task.first; at < task.last;) {
      const std::int64_t image = at / g.height, row = at % g.height,
                         count = std::min({rows, g.height - row, task.last - at}), first = g.first_row(row),
                         last = g.last_row(row, row + count);
      fill(args, image, first, last, band);
      for (std::int64_t block = task.first_block; block < task.last_block; block += 2) {
        const std::int64_t blocks = std::min<std::int64_t>(2, task.last_block - block),
                           place = (image * g.in_blocks() + block) * plane + row * line,
                           dx_block = fused.apart() ? count * line : plane;
        float* const dx = fused.apart() ? apart : element(fused.results(args), place, fused.rounded());
        for (std::int64_t r = 0; r < count; ++r)
          multiply(args, row + r, block, blocks, first, last, band, dx_block, element(dx, r * line, fused.rounded()));
        for (std::int64_t b = 0; b < blocks && (fused.steps || fused.norm); ++b) {
          const std::int64_t begin = place + b * plane;
          fused.run(args, sums, block + b, 1, begin, begin + count * line, at == task.first, apart + b * dx_block);
        }
      }
      at += count;
    }
  }

  /// Rows [first, last) of dy: [out block][row][column][words].
  void fill(const Args& args, std::int64_t image, std::int64_t first, std::int64_t last, float* to) const {
    const std::int64_t line = g.out_width * kLanes,
                       left = std::min(std::max<std::int64_t>(0, -g.first_column()), g.columns()),
                       skipped = std::max<std::int64_t>(0, g.first_column()),
                       count = std::clamp<std::int64_t>(g.out_width - skipped, 0, g.columns() - left);
    float* const room = to + band_size;
    for (std::int64_t block = 0; block < g.out_blocks(); ++block) {
      const std::int64_t channels = std::min(kLanes, g.out_channels - block * kLanes),
                         plane = (image * g.out_blocks() + block) * g.out_height * line;
      const float* const dy = prologue.activation(args, room, plane + first * line, plane + last * line);
      for (std::int64_t row = first; row < last; ++row, to += g.row_size()) {
        const float* const from = element(dy, (row - first) * line + skipped * kLanes, prologue.rounded);
        std::fill(to, to + left * g.words, 0.0f);
        if (count > 0 && g.pairs && !prologue.rounded)
          NEURIM_DISPATCH(round_to_pairs)(g.pairs, from, 0, kLanes, count, channels, to + left * g.words);
        else if (count > 0)
          std::copy_n(from, count * g.words, to + left * g.words);
        std::fill(to + (left + count) * g.words, to + g.row_size(), 0.0f);
      }
    }
  }

  /// Row `row` of dx in `blocks` blocks from `block` on, which are `dx_block` elements apart.
  void multiply(const Args& args, std::int64_t row, std::int64_t block, std::int64_t blocks, std::int64_t first,
                std::int64_t last, const float* band, std::int64_t dx_block, float* dx) const {
    const Conv2dOptions& o = g.options;
    std::int64_t taps[kMostTaps], weight_taps[kMostTaps];
    const std::int64_t all = g.kernel[0] * g.kernel[1], weight_block = g.out_blocks() * all * g.tap();
    const auto* const weights = static_cast<const float*>(args.in[weight]) + block * weight_block;
    for (std::int64_t phase = 0; phase < std::min(o.stride[1], g.width); ++phase) {
      std::int64_t count = 0;
      for (std::int64_t i = 0; i < g.kernel[0]; ++i) {
        const std::int64_t above = row + o.pad[0] - i * o.dilation[0], y = floor_div(above, o.stride[0]);
        if (y * o.stride[0] != above || y < first || y >= last) continue;
        for (std::int64_t j = 0; j < g.kernel[1]; ++j) {
          const std::int64_t beside = phase + o.pad[1] - j * o.dilation[1], column = floor_div(beside, o.stride[1]);
          if (column * o.stride[1] != beside) continue;
          taps[count] = ((y - first) * g.columns() + column - g.first_column()) * g.words;
          weight_taps[count++] = (i * g.kernel[1] + j) * g.tap();
        }
      }
      const BlockProduct product{.rows = (g.width - phase + o.stride[1] - 1) / o.stride[1],
                                 .in_channels = g.out_channels,
                                 .x_block = (last - first) * g.row_size(),
                                 .weight_block = weight_block,
                                 .y_block = dx_block,
                                 .pairs = g.pairs,
                                 .taps = taps,
                                 .tap_count = count,
                                 .weight_taps = weight_taps,
                                 .weight_in = all * g.tap(),
                                 .y_row = o.stride[1] * kLanes,
                                 .out_channels = g.in_channels - block * kLanes};
      NEURIM_DISPATCH(block_product)
      (product, blocks, band, weights, {.rounds = fused.rounded()}, element(dx, phase * kLanes, fused.rounded()));
    }
  }
};

Launch prepare(KernelRequest& request, const ConvPattern& pattern) {
  if (const char* why = against(pattern)) return decline(request, why);
  if (!has_layouts(request, layout_of, pattern)) return decline(request, "takes blocks of 16 channels");
  auto all = std::make_shared<InputGrad>();
  Geometry& g = all->g;
  g = geometry_of(pattern);
  all->weight = request.place_in(pattern.weight);
  if (!all->prologue.read(request, pattern, g.pairs) || !all->fused.read(request, pattern)) return {};
  all->tasks = all->fused.cut(request, g.images, g.height, g.width, g.in_channels);
  const auto size = [&](std::int64_t count) { return g.out_blocks() * g.most_rows(count) * g.row_size(); };
  while (all->rows < g.height && size(all->rows + 1) <= kBand) ++all->rows;
  all->band_size = (size(all->rows) + kLanes - 1) / kLanes * kLanes;
  all->made = all->prologue.steps ? g.most_rows(all->rows) * g.out_width * kLanes : 0;
  const std::int64_t apart = all->fused.apart() ? 2 * all->rows * g.width * kLanes : 0;
  const int tasks = static_cast<int>(all->tasks.size());
  all->fused.ask_scratch(request);
  if (g.pairs) request.used_dtype = request.compute_dtype;
  return {InputGrad::run, all,
          tasks,          all->fused.reduction_tasks(),
          request.chunks, (all->band_size + all->made + apart) * sizeof(float)};
}

}  // namespace

void cpu_conv_direct_dgrad() {
  add_conv_kernel<prepare, propose_layouts>(
      {.op = "conv2d_input_grad", .name = "cpu direct", .fuses = true, .prologues = true});
}

}  // namespace neurim
