// Convolutions, their data gradients and fully connected layers with constant weights by products of matrix tiles, in
// bf16 (see TileConv): any kernel, stride and dilation, without groups, with a fused prologue and epilogue. A task is a
// range of units of the result, counted through all images, or of output channels where there are more of these.
#include <algorithm>

#include "neurim/backend/cpu/common/conv_pattern.h"
#include "neurim/backend/cpu/common/packed_weights.h"
#include "neurim/backend/cpu/common/physical.h"
#include "neurim/backend/cpu/common/priorities.h"
#include "neurim/backend/cpu/common/tile_conv.h"
#include "neurim/backend/cpu/packing/vnni_weights.h"
#include "neurim/ops/conv.h"

namespace neurim {

namespace {

using namespace cpu;

constexpr std::int64_t kLanes = 16, kGroup = 2 * kLanes;
constexpr std::int64_t kFewPixels = 8;

/// Whether Winograd's kernels might take it: these are asked before the kernel that takes all others, and after the one
/// that takes such convolutions.
bool windows(const ConvPattern& pattern) {
  const ConvSizes& s = pattern.sizes;
  return !pattern.linear && s.at_stride_1() && !s.pixelwise() && !s.image();
}

/// Null, or why the kernel leaves the request to others.
template <bool direct>
const char* against(const KernelRequest& request, const ConvPattern& pattern) {
  if (windows(pattern) != direct)
    return direct ? "takes kernels of several pixels at stride 1" : "leaves these to cpu tiles direct";
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

TileConv conv_of(const KernelRequest& request, const ConvPattern& pattern) {
  TileConv conv;
  if (!pattern.linear) {
    conv.read(pattern.sizes, pattern.direction == Direction::forward);
    return conv;
  }
  const Shape &source = request.values[pattern.x].type.shape, &result = request.values[pattern.y].type.shape;
  conv.images = source[0], conv.in_channels = source[-1], conv.out_channels = result[-1];
  conv.y = pixel_axis(source.numel() / (source[0] * source[-1])), conv.x = pixel_axis(1);
  return conv;
}

Layout layout_of(const KernelRequest& request, const ConvPattern& pattern, int value) {
  const Type& type = request.values[value].type;
  const bool forward = pattern.direction == Direction::forward,
             image = forward && !pattern.linear && pattern.sizes.image();
  if (value == pattern.weight) return image ? tile_row_weights(type) : tile_weights(type, !forward);
  if (!pattern.is_activation(request, value) || (value == pattern.x && image)) return {};
  return blocked_layout(request, value, pattern.linear ? kFeatures : kBlocked);
}

template <bool direct>
bool propose_layouts(KernelRequest& request, const ConvPattern& pattern) {
  if (const char* why = against<direct>(request, pattern)) return decline(request, why), false;
  ask_layouts(request, layout_of, pattern);
  FusedPrologue prologue;
  FusedEpilogue epilogue;
  return read_steps(request, pattern, prologue, epilogue);
}

struct ConvTiles : TileConv {
  ConvRows image_rows;  ///< of images
  int weight, bias;     ///< arguments, or -1
  Epilogue epilogue;    ///< what follows, where results are written so; else see `fused`
  FusedPrologue prologue;
  FusedEpilogue fused;

  // Parts of the workspace behind the band and the sums, in floats; all but the line for each of two blocks.
  std::int64_t apart_block() const { return fused.apart() ? sum_units * y.step * out_line() : 0; }
  std::int64_t made_block() const { return prologue.steps ? most_rows() * line() : 0; }
  std::int64_t image_line() const { return of_image() ? (image_rows.line_words() + 3 * kLanes) / kLanes * kLanes : 0; }
  std::int64_t bias_floats() const { return bias >= 0 ? out_blocks() * kLanes : 0; }
  std::int64_t room() const {
    return (band_bytes() + sum_bytes()) / 4 + 2 * (apart_block() + made_block()) + image_line() + bias_floats();
  }

  static void run(const void* self, const Args& args, int task) noexcept {
    const auto& own = *static_cast<const ConvTiles*>(self);
    const int tasks = static_cast<int>(own.tasks.size());
    task < tasks ? own.run_task(args, task) : own.fused.norm->finish(args, task - tasks);
  }

  void run_task(const Args& args, int number) const {
    const Task& task = tasks[number];
    const ConvEpilogue norm_sums = fused.begin(args, number);
    float *const apart = static_cast<float*>(args.workspace) + (band_bytes() + sum_bytes()) / 4,
                 *const made = apart + 2 * apart_block();
    const auto apart_of = [&](const Segment& segment, std::int64_t block) {
      return apart + (block - task.first_block) % 2 * apart_block() + segment.at * y.step * out_line();
    };
    float* const biases = made + 2 * made_block() + image_line();
    if (bias >= 0)
      std::fill(std::copy_n(static_cast<const float*>(args.in[bias]), out_channels, biases), biases + bias_floats(),
                0.0f);
    compute(
        task, args.in[weight], bias >= 0 ? biases : nullptr, args.workspace,
        [&](const Tile& tile, char* band) {
          of_image() ? fill_of_image(args, tile, band, reinterpret_cast<std::uint16_t*>(made))
                     : fill(args, tile, band, made);
        },
        [&](const Segment& segment, std::int64_t block, TileLines& lines) {
          const std::int64_t step = y.step * out_line(),
                             place = (segment.image * out_blocks() + block) * out_plane() + segment.unit * step;
          const auto add = [&](const float* from, StorageDtype rounded) {
            lines.add(element(from, place, rounded), segment.count * step * (rounded ? 2 : 4));
          };
          if (!fused.apart()) add(fused.results(args), fused.rounded());
          if (epilogue.add) add(static_cast<const float*>(args.in[epilogue.residual]), epilogue.add_rounded);
        },
        [&](const Part& part, const Segment& segment, std::int64_t block, const float* sums) {
          write(args, part, segment, block, sums, apart_of(segment, block));
        },
        [&](const Segment& segment, std::int64_t block, bool first) {
          if (!fused.steps && !fused.norm) return;
          const std::int64_t place = (segment.image * out_blocks() + block) * out_plane(), top = segment.unit * y.step,
                             bottom = std::min((segment.unit + segment.count) * y.step, y.out_size);
          fused.run(args, norm_sums, block, 1, place + top * out_line(), place + bottom * out_line(), first,
                    apart_of(segment, block));
        });
  }

  /// Writes the sums of one block for a part of a segment.
  void write(const Args& args, const Part& part, const Segment& segment, std::int64_t block, const float* sums,
             float* apart) const {
    const StorageDtype rounds = fused.rounded();
    const std::int64_t plane_at = (segment.image * out_blocks() + block) * out_plane();
    float* const results = fused.apart() ? apart - segment.unit * y.step * out_line()
                                         : element(fused.results(args), plane_at, rounds);
    const float* const add = epilogue.add ? element(static_cast<const float*>(args.in[epilogue.residual]), plane_at,
                                                    epilogue.add_rounded)
                                          : nullptr;
    each_run(part, segment, sums, [&](const float* from, std::int64_t pixels, std::int64_t place, std::int64_t step) {
      NEURIM_DISPATCH(tile_results)
      (from, pixels,
       {.add = element(add, place, epilogue.add_rounded),
        .relu = epilogue.relu,
        .rounds = rounds,
        .add_rounded = epilogue.add_rounded},
       step, element(results, place, rounds));
    });
  }

  /// The band of a tile: [group][image][phases][row][column][32 channels].
  void fill(const Args& args, const Tile& tile, char* to, float* made) const {
    const auto [first, last] = rows(tile);
    for (std::int64_t g = 0; g < groups(); ++g)
      for (std::int64_t image = tile.image; image < tile.image + tile.images; ++image, to += image_bytes()) {
        const auto source = [&](std::int64_t block, float* room) -> const float* {
          if (block >= in_blocks()) return nullptr;
          const std::int64_t at = (image * in_blocks() + block) * y.size * line();
          return prologue.activation(args, room, at + first * line(), at + last * line());
        };
        const float *const low = source(2 * g, made), *const high = source(2 * g + 1, made + made_block());
        fill_image(tile, 0, to, [&](std::int64_t pixel, std::int64_t apart, std::int64_t count, char* at) {
          NEURIM_DISPATCH(tile_pixels)
          (prologue.rounded, element(low, pixel * kLanes, prologue.rounded),
           element(high, pixel * kLanes, prologue.rounded), apart * kLanes, count, in_channels - g * kGroup, at);
        });
      }
  }

  /// The same of images, whose pixels have the columns of a row of the kernel: [group][image][phase][row][column][32].
  void fill_of_image(const Args& args, const Tile& tile, char* band, std::uint16_t* pixels) const {
    const auto [all, first, last] = image_rows.windows();
    const std::int64_t group_bytes = tile.images * image_bytes();
    for (std::int64_t i = 0; i < tile.images; ++i, band += image_bytes()) {
      const float* const planes = prologue.activation(args, nullptr, (tile.image + i) * in_channels * y.size * x.size,
                                                      0);
      std::fill_n(pixels, image_rows.line_size(), std::uint16_t{0});
      each_row(tile, [&](std::int64_t at, std::int64_t phase, std::int64_t place) {
        char* const to = band + phase * plane() + place * row();
        if (at >= 0) NEURIM_DISPATCH(round_interleaved)
        (StorageDtype::bf16, planes + at * x.size, y.size * x.size, in_channels, last - first,
         pixels + first * in_channels);
        for (std::int64_t g = 0; g < groups(); ++g) {
          const auto* const from = reinterpret_cast<const float*>(pixels + g * kGroup);
          if (at < 0)
            std::fill_n(to + g * group_bytes, row(), 0);
          else
            NEURIM_DISPATCH(tile_pixels)
          (StorageDtype::bf16, from, element(from, kLanes, StorageDtype::bf16),
           image_rows.options.stride[1] * in_channels, columns(), depth() - g * kGroup, to + g * group_bytes);
        }
      });
    }
  }
};

template <bool direct>
Launch prepare(KernelRequest& request, const ConvPattern& pattern) {
  if (const char* why = against<direct>(request, pattern)) return decline(request, why);
  if (!has_layouts(request, layout_of, pattern)) return decline(request, "takes blocks of 16 channels");
  auto all = std::make_shared<ConvTiles>();
  static_cast<TileConv&>(*all) = conv_of(request, pattern);
  all->image_rows = {pattern.sizes, kLanes / 2, StorageDtype::bf16};
  all->weight = request.place_in(pattern.weight), all->bias = pattern.bias;
  if (!read_steps(request, pattern, all->prologue, all->fused)) return {};
  if (pattern.epilogue) all->epilogue = *pattern.epilogue, all->fused.steps.reset();
  all->cut(all->fused.cut(request, all->images, all->y.units(), all->x.units(), all->out_channels));
  const int tasks = static_cast<int>(all->tasks.size());
  all->fused.ask_scratch(request);
  request.used_dtype = request.compute_dtype;
  return {ConvTiles::run, all, tasks, all->fused.reduction_tasks(), request.chunks, all->room() * sizeof(float)};
}

}  // namespace

void cpu_conv_tiles() {
  for (const char* op : {"conv2d", "conv2d_input_grad", "linear"})
    add_conv_kernel<prepare<false>, propose_layouts<false>>(
        {.op = op, .name = "cpu tiles", .fuses = true, .prologues = true});
  for (const char* op : {"conv2d", "conv2d_input_grad"})
    add_conv_kernel<prepare<true>, propose_layouts<true>>(
        {.op = op, .name = "cpu tiles direct", .fuses = true, .prologues = true});
}

}  // namespace neurim
