// Depthwise convolutions in blocks of 16 channels: kernels larger than 3x3 with constant weights, which oneDNN computes
// at a third of the machine's speed, and their weight gradient, for which it has only plain loops. Where oneDNN has no
// kernels for blocks (without AVX-512): kernels of any size, weights that change, and the data gradient.
#include "neurim/backend/cpu/conv/depthwise.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "neurim/backend/cpu/common/conv_pattern.h"
#include "neurim/backend/cpu/common/conv_steps.h"
#include "neurim/backend/cpu/common/packed_weights.h"
#include "neurim/backend/cpu/common/physical.h"
#include "neurim/backend/cpu/common/priorities.h"
#include "neurim/backend/cpu/packing/reorder.h"
#include "neurim/graph/kernel.h"
#include "neurim/ops/conv.h"

namespace neurim {

namespace {

using namespace cpu;

constexpr std::int64_t kTile = 1 << 14;  // floats of the result that an epilogue finds in L1 or L2

// --- forward, and the data gradient ---

/// A convolution that computes outputs [first, first + step, …) of each axis of y.
struct Phase {
  DepthwiseShape shape;
  std::int64_t first[2] = {0, 0}, step[2] = {1, 1};
  std::vector<std::int64_t> taps;  ///< of the kernel in the order in which it reads them; empty: as they are

  /// How many of its rows of outputs are before row `at` of y.
  std::int64_t before(std::int64_t at) const { return at <= first[0] ? 0 : (at - first[0] - 1) / step[0] + 1; }
};

/// The data gradient as convolutions at stride 1: pixels of dx that are a stride apart read the same taps of the
/// reversed kernel, and neighbouring pixels of dy.
std::vector<Phase> gradient_phases(const DepthwiseShape& conv) {
  std::vector<Phase> phases;
  const std::int64_t size[2] = {conv.height, conv.width};
  for (std::int64_t row = 0; row < std::min(conv.stride[0], conv.height); ++row)
    for (std::int64_t column = 0; column < std::min(conv.stride[1], conv.width); ++column) {
      Phase& phase = phases.emplace_back(
          Phase{.shape = conv, .first = {row, column}, .step = {conv.stride[0], conv.stride[1]}});
      DepthwiseShape& s = phase.shape;
      std::vector<std::int64_t> taps[2];
      for (const int axis : {0, 1}) {
        const std::int64_t first = phase.first[axis], stride = conv.stride[axis], dilation = conv.dilation[axis];
        for (std::int64_t tap = conv.kernel[axis]; tap-- > 0;)
          if ((first + conv.pad[axis] - tap * dilation) % stride == 0) taps[axis].push_back(tap);
        s.kernel[axis] = std::ssize(taps[axis]), s.stride[axis] = 1;
        s.dilation[axis] = dilation / std::gcd(dilation, stride);
        s.pad[axis] = taps[axis].empty() ? 0 : (taps[axis][0] * dilation - first - conv.pad[axis]) / stride;
        (axis == 0 ? s.height : s.width) = axis == 0 ? conv.out_height : conv.out_width;
        (axis == 0 ? s.out_height : s.out_width) = (size[axis] - first - 1) / stride + 1;
      }
      s.y_pitch = conv.stride[0] * conv.width, s.y_step = conv.stride[1];
      for (const std::int64_t tap_row : taps[0])
        for (const std::int64_t tap : taps[1]) phase.taps.push_back(tap_row * conv.kernel[1] + tap);
    }
  return phases;
}

struct Depthwise {
  std::vector<Phase> phases;
  std::int64_t blocks, height, width;  ///< of the result
  std::int64_t x_plane, taps;          ///< floats of a block of x, and of its filters
  bool backwards;
  std::int64_t rows;  ///< of the result before the epilogue runs over them
  std::int64_t channels;
  int x, weight, bias;   ///< arguments, or -1
  StorageDtype rounded;  ///< how x is stored
  Epilogue epilogue;     ///< what follows, where the kernel does it in registers; else see `after`
  FusedEpilogue fused;
  std::vector<std::int64_t> begin;  ///< of the tasks, blocks counted through all images

  int tasks() const { return static_cast<int>(begin.size()) - 1; }
  /// Whether several phases read a row: it is then converted to floats once for all, and not padded.
  bool strided() const { return phases[0].step[0] > 1 || phases[0].step[1] > 1; }
  bool widens() const { return rounded && strided(); }
  std::int64_t padded() const { return strided() ? 0 : depthwise_room(phases[0].shape, phases[0].shape.height); }
  std::int64_t apart() const { return fused.apart() ? rows * width * 16 : 0; }
  /// Floats of the workspace: taps, converted pixels, padded rows, and results that the epilogue reads from there.
  std::int64_t room() const { return (backwards ? taps : 0) + (widens() ? x_plane : 0) + padded() + apart(); }

  static void run(const void* self, const Args& args, int task) noexcept {
    const auto& own = *static_cast<const Depthwise*>(self);
    task < own.tasks() ? own.run_task(args, task) : own.fused.norm->finish(args, task - own.tasks());
  }

  void run_task(const Args& args, int task) const {
    const auto in = [&](int argument) { return static_cast<const float*>(args.in[argument]); };
    const ConvEpilogue sums = fused.begin(args, task);
    float* const results = fused.results(args);
    const std::int64_t first = begin[task], last = begin[static_cast<std::size_t>(task) + 1];
    for (std::int64_t plane = first; plane < last; ++plane) {
      const std::int64_t block = plane % blocks;
      alignas(64) float biases[16] = {};
      if (bias >= 0) std::copy_n(in(bias) + block * 16, std::min<std::int64_t>(16, channels - block * 16), biases);
      float* own = static_cast<float*>(args.workspace);
      const float *filter = in(weight) + block * taps, *source = element(in(x), plane * x_plane, rounded);
      if (backwards) filter = sorted(filter, own), own += taps;
      if (widens()) {
        NEURIM_DISPATCH(widen_elements)(rounded, reinterpret_cast<const std::uint16_t*>(source), 0, x_plane, own);
        source = own, own += x_plane;
      }
      float *const made = own + padded(), *const padding = strided() ? nullptr : own;
      const DepthwiseRounded stand{widens() ? StorageDtype::exact : rounded, fused.rounded()};
      for (std::int64_t row = 0; row < height; row += rows) {
        const std::int64_t end = std::min(row + rows, height), to = (plane * height + row) * width * 16,
                           size = (end - row) * width * 16;
        const float* weights = filter;
        for (const Phase& phase : phases) {
          const float* const own_weights = std::exchange(weights, weights + std::ssize(phase.taps) * 16);
          const std::int64_t begins = phase.before(row), ends = phase.before(end);
          if (begins == ends) continue;
          const std::int64_t at = ((phase.first[0] + begins * phase.step[0] - row) * width + phase.first[1]) * 16;
          NEURIM_DISPATCH(depthwise_rows)
          (phase.shape, stand, source, 0, own_weights, biases, epilogue.relu, begins, ends, padding,
           fused.apart() ? made + at : element(results, to + at, fused.rounded()));
        }
        fused.run(args, sums, block, 1, to, to + size, plane < first + blocks && row == 0, made);
      }
    }
  }

  /// The taps in the order in which the phases read them.
  const float* sorted(const float* filter, float* to) const {
    float* at = to;
    for (const Phase& phase : phases)
      for (const std::int64_t tap : phase.taps) at = std::copy_n(filter + tap * 16, 16, at);
    return to;
  }
};

/// Null, or why the kernels leave the request to others.
const char* against(const ConvPattern& pattern) {
  if (const char* why = pattern.against()) return why;
  const ConvSizes& g = pattern.sizes;
  if (onednn_takes_blocks() && pattern.direction != Direction::weight_grad && !pattern.constant_weight)
    return "takes constant weights";
  if (pattern.direction == Direction::input_grad)
    for (const int axis : {0, 1})
      if (g.options.pad[axis] > (g.kernel[axis] - 1) * g.options.dilation[axis])
        return "takes no padding beyond the kernel";
  if (g.in_channels != g.options.groups || g.out_channels != g.options.groups || !fills_blocks(g.out_channels))
    return "takes one filter a channel, of 8 channels and more";
  if (g.kernel[0] <= 3 && g.kernel[1] <= 3 && onednn_takes_blocks()) return "leaves kernels of up to 3x3 to oneDNN";
  return nullptr;
}

Layout layout_of(const KernelRequest& request, const ConvPattern& pattern, int value) {
  if (value == pattern.weight) return depthwise_weights(request.values[value].type);
  return pattern.is_activation(request, value) ? blocked_layout(request, value) : Layout{};
}

/// Reads the epilogue; false with a reason in the request where it is something else.
bool read_steps(KernelRequest& request, const ConvPattern& pattern, Depthwise& own) {
  if (!own.fused.read(request, pattern)) return false;
  if (pattern.epilogue && !pattern.epilogue->add) own.epilogue = *pattern.epilogue, own.fused.steps.reset();
  return true;
}

bool propose_layouts(KernelRequest& request, const ConvPattern& pattern) {
  if (const char* why = against(pattern)) return decline(request, why), false;
  ask_layouts(request, layout_of, pattern);
  Depthwise own;
  return read_steps(request, pattern, own);
}

Launch prepare(KernelRequest& request, const ConvPattern& pattern) {
  if (const char* why = against(pattern)) return decline(request, why);
  if (!has_layouts(request, layout_of, pattern)) return decline(request, "takes blocks of 16 channels");
  auto own = std::make_shared<Depthwise>();
  if (!read_steps(request, pattern, *own)) return {};
  const DepthwiseShape conv = depthwise_shape(pattern.sizes);
  own->backwards = pattern.direction == Direction::input_grad;
  own->phases = own->backwards ? gradient_phases(conv) : std::vector{Phase{.shape = conv}};
  own->blocks = conv.blocks;
  own->height = own->backwards ? conv.height : conv.out_height,
  own->width = own->backwards ? conv.width : conv.out_width;
  own->x_plane = (own->backwards ? conv.out_height * conv.out_width : conv.height * conv.width) * 16;
  own->taps = conv.kernel[0] * conv.kernel[1] * 16;
  own->rows = std::clamp<std::int64_t>(kTile / (own->width * 16), 1, own->height);
  own->channels = pattern.sizes.out_channels;
  own->x = request.place_in(pattern.source()), own->weight = request.place_in(pattern.weight);
  own->bias = pattern.bias;
  own->rounded = request.input(own->x).layout.storage;
  if (own->fused.norm) {
    for (const std::int64_t image : own->fused.norm->cut(request, conv.images))
      own->begin.push_back(image * conv.blocks);
  } else {
    const int tasks = tasks_of(request, depthwise_work(conv), conv.images * conv.blocks);
    for (int task = 0; task <= tasks; ++task) own->begin.push_back(task_begin(conv.images * conv.blocks, tasks, task));
  }
  const int tasks = own->tasks();
  own->fused.ask_scratch(request);
  return {Depthwise::run, own, tasks, own->fused.reduction_tasks(), request.chunks, own->room() * sizeof(float)};
}

// --- weight gradient ---

bool propose_grad_layouts(KernelRequest& request, const ConvPattern& pattern) {
  if (const char* why = against(pattern)) return decline(request, why), false;
  for (const int value : {pattern.x, pattern.y}) request.values[value].layout = blocked_layout(request, value);
  TensorDesc& dw = request.values[pattern.weight];
  dw.layout = depthwise_weights(dw.type);
  return true;
}

struct WeightGrad {
  DepthwiseShape shape;
  StorageDtype dy_rounded, x_rounded;
  int tasks;

  std::int64_t filter() const { return shape.kernel[0] * shape.kernel[1] * 16; }
  std::int64_t dy_plane() const { return shape.out_height * shape.out_width * 16; }
  std::int64_t x_plane() const { return shape.height * shape.width * 16; }
  /// Floats of the workspace for a converted plane of each.
  std::int64_t room() const { return (dy_rounded ? dy_plane() : 0) + (x_rounded ? x_plane() : 0); }

  static void run(const void* self, const Args& args, int task) noexcept {
    const auto& own = *static_cast<const WeightGrad*>(self);
    const std::int64_t blocks = own.shape.blocks;
    float *const room = static_cast<float*>(args.workspace), *const dw = static_cast<float*>(args.out[0]);
    for (std::int64_t block = task_begin(blocks, own.tasks, task); block < task_begin(blocks, own.tasks, task + 1);
         ++block) {
      std::fill_n(dw + block * own.filter(), own.filter(), 0.0f);
      for (std::int64_t plane = block; plane < own.shape.images * blocks; plane += blocks) {
        const auto floats = [&](int in, std::int64_t size, StorageDtype rounded, float* to) {
          return floats_of(element(static_cast<float*>(args.in[in]), plane * size, rounded), rounded, size, to);
        };
        const float *const dy = floats(0, own.dy_plane(), own.dy_rounded, room), *const x = floats(
                                                                                     1, own.x_plane(), own.x_rounded,
                                                                                     own.dy_rounded
                                                                                         ? room + own.dy_plane()
                                                                                         : room);
        NEURIM_DISPATCH(depthwise_weight_grad)(own.shape, dy, x, dw + block * own.filter());
      }
    }
  }
};

Launch prepare_grad(KernelRequest& request, const ConvPattern& pattern) {
  const TensorDesc &dy = request.input(0), &x = request.input(1), &dw = request.output(0);
  if (exact(dy.layout) != kBlocked || exact(x.layout) != kBlocked || dw.layout != depthwise_weights(dw.type))
    return decline(request, "takes blocked16 to filters of 16 channels, not ", dy.layout, " and ", x.layout, " to ",
                   dw.layout);
  WeightGrad all{depthwise_shape(pattern.sizes), dy.layout.storage, x.layout.storage, 1};
  all.tasks = tasks_of(request, depthwise_work(all.shape), all.shape.blocks);
  return {WeightGrad::run, std::make_shared<WeightGrad>(all), all.tasks, 0, request.chunks, all.room() * sizeof(float)};
}

}  // namespace

DepthwiseShape cpu::depthwise_shape(const ConvSizes& sizes) {
  const Conv2dOptions& o = sizes.options;
  return {.images = sizes.images,
          .blocks = blocks_of(sizes.in_channels),
          .height = sizes.height,
          .width = sizes.width,
          .out_height = sizes.out_height,
          .out_width = sizes.out_width,
          .kernel = {sizes.kernel[0], sizes.kernel[1]},
          .stride = {o.stride[0], o.stride[1]},
          .dilation = {o.dilation[0], o.dilation[1]},
          .pad = {o.pad[0], o.pad[1]},
          .y_pitch = sizes.out_width};
}

void cpu_depthwise() {
  constexpr std::string_view kName = "cpu depthwise";
  add_conv_kernel<prepare, propose_layouts>({.op = "conv2d", .name = kName, .fuses = true});
  if (isa() != Isa::avx512)
    add_conv_kernel<prepare, propose_layouts>({.op = "conv2d_input_grad", .name = kName, .fuses = true});
  add_conv_kernel<prepare_grad, propose_grad_layouts>({.op = "conv2d_weight_grad", .name = kName});
}

}  // namespace neurim
