// Convolutions of fewer than 16 channels and their gradients, on images in blocks of 16 (batch-blocked layout). A task
// is a range of output rows, counted through all blocks of images. Where the kernel reaches past the sides of an image,
// its input rows are copied with zeros beside them; taps above and below the image are skipped. The data gradient is
// the convolution of dy with reversed weights. Each task sums its own weight gradient; the reduction phase adds these
// in a fixed order.
#include "neurim/backend/cpu/conv/conv_nchw16n.h"

#include <algorithm>
#include <cstring>

#include "neurim/backend/cpu/common/conv_pattern.h"
#include "neurim/backend/cpu/common/physical.h"
#include "neurim/backend/cpu/common/priorities.h"
#include "neurim/graph/kernel.h"
#include "neurim/ops/conv.h"

namespace neurim::cpu {

namespace {

constexpr std::int64_t kLanes = 16;
constexpr std::int64_t kStaged = 128 * 1024;      // floats of padded rows that a task keeps in its second-level cache
constexpr std::int64_t kMostWeights = 64 * 1024;  // each has a vector of sums in every task

constexpr std::int64_t kMostPixels = std::int64_t{1} << 26;  // of an image: places within a group are 32-bit numbers

/// Rows (0) or columns (1) of the convolution itself.
FewAxis axis(const ConvSizes& g, int i) {
  const auto at = [&](std::int64_t rows, std::int64_t columns) { return static_cast<int>(i == 0 ? rows : columns); };
  return {at(g.height, g.width),
          at(g.out_height, g.out_width),
          static_cast<int>(g.kernel[i]),
          static_cast<int>(g.options.stride[i]),
          static_cast<int>(g.options.dilation[i]),
          static_cast<int>(g.options.pad[i])};
}
/// Of the data gradient at stride 1: from y to x, tap t at the weight's tap kernel - 1 - t.
FewAxis backwards(const ConvSizes& g, int i) {
  const FewAxis own = axis(g, i);
  return {own.out, own.in, own.kernel, 1, own.dilation, own.dilation * (own.kernel - 1) - own.begin};
}

/// Null, or why these kernels leave the request to others.
const char* against(const KernelRequest& request, const ConvPattern& pattern) {
  if (const char* why = pattern.against()) return why;
  const ConvSizes& g = pattern.sizes;
  const bool forward = pattern.direction == Direction::forward, gradient = pattern.direction == Direction::input_grad;
  const AddRelu steps = read_add_relu(request, 1, request.steps.size(), pattern.result());
  if (steps.end != request.steps.size() || steps.add >= 0 || (pattern.followed && !forward)) return "fuses relu only";
  if (g.options.groups != 1) return "takes no groups";
  if (g.images % kLanes) return "takes images by 16";
  // oneDNN reads plain images of up to three channels and gives blocks, but has plain loops only for the way back.
  const bool image = g.in_channels <= 3 && !gradient;
  if (many_channels(g.out_channels) && (many_channels(g.in_channels) || image))
    return "leaves channels from 16 on to blocked16";
  if (g.in_channels * g.out_channels * g.kernel[0] * g.kernel[1] > kMostWeights) return "takes few weights";
  if (std::max(g.in_channels * g.height * g.width, g.out_channels * g.out_height * g.out_width) > kMostPixels)
    return "takes smaller images";
  if (gradient && !g.at_stride_1()) return "takes data gradients at stride 1";
  return nullptr;
}

/// Of images; the others are weights and bias.
Layout layout_of(const KernelRequest& request, const ConvPattern& pattern, int value) {
  const auto shape = [&](int one) -> const Shape& { return request.values[one].type.shape; };
  const bool image = shape(value) == shape(pattern.x) || shape(value) == shape(pattern.y);
  return value != pattern.weight && image ? kImages : Layout{};
}

bool propose_layouts(KernelRequest& request, const ConvPattern& pattern) {
  if (const char* why = against(request, pattern)) return decline(request, why), false;
  ask_layouts(request, layout_of, pattern);
  return true;
}

/// A convolution over all groups.
struct Convolution {
  FewGeometry geometry;
  std::vector<FewTap> taps;
  std::vector<std::int32_t> pixels;
  std::int64_t channels, x_group, y_group;  ///< of x; floats of a group
  std::int64_t columns;                     ///< that the kernel sees, from number -begin on
  bool staged;
  std::int64_t rows, block;  ///< output rows of all image blocks; rows that are staged together at most
  std::size_t staged_bytes = 0;
  int tasks;

  Convolution(std::int64_t groups, std::int64_t in, std::int64_t out, const FewAxis& height, const FewAxis& width,
              int chunks) {
    FewGeometry& g = geometry;
    g.in = static_cast<int>(in), g.out = static_cast<int>(out), g.height = height, g.width = width;
    g.x_pixel = width.stride * kLanes, g.x_tap = width.dilation * kLanes;
    g.x_row = width.in * kLanes, g.x_channel = height.in * g.x_row;
    g.y_channel = std::int64_t{height.out} * width.out * kLanes;
    channels = in, x_group = in * g.x_channel, y_group = out * g.y_channel;
    columns = std::int64_t{width.out - 1} * width.stride + (width.kernel - 1) * width.dilation + 1;
    staged = width.begin > 0 || columns - width.begin > width.in;
    rows = groups * height.out;
    block = height.out;
    if (staged) {
      g.x_row = columns * kLanes;
      const std::int64_t fitting = kStaged / (in * g.x_row), span = (height.kernel - 1) * height.dilation + 1;
      block = std::clamp<std::int64_t>((fitting - span) / height.stride + 1, 1, height.out);
      const std::int64_t most = std::min<std::int64_t>((block - 1) * height.stride + span, height.in);
      // Channels an odd number of vectors apart do not meet in the same sets of the first-level cache.
      g.x_channel = (most * columns | 1) * kLanes;
      staged_bytes = in * g.x_channel * sizeof(float);
    }
    tasks = static_cast<int>(std::min<std::int64_t>(rows, chunks));
  }

  /// Fills the tables. The geometry has to be complete and at its final address.
  void tabulate() {
    FewGeometry& g = geometry;
    for (int kh = 0; kh < g.height.kernel; ++kh)
      for (int kw = 0; kw < g.width.kernel; ++kw)
        for (int c = 0; c < g.in; ++c)
          taps.push_back({static_cast<std::int32_t>(kh * g.height.dilation * g.x_row + c * g.x_channel + kw * g.x_tap),
                          static_cast<std::int32_t>(kh * g.w_row + c * g.w_in + kw * g.w_column)});
    for (int row = 0; row < few_rows_at_once(g.width.out); ++row)
      for (int column = 0; column < g.width.out; ++column)
        pixels.push_back(static_cast<std::int32_t>(row * g.height.stride * g.x_row + column * g.x_pixel));
    g.taps = taps.data(), g.pixels = pixels.data();
  }

  /// Calls visit(rows, group) for the rows of one task; `scratch` is the thread's workspace.
  template <class Visit>
  void each(int task, const float* x, float* scratch, Visit visit) const {
    const std::int64_t height = geometry.height.out;
    const std::int64_t last = task_begin(rows, tasks, task + 1);
    for (std::int64_t at = task_begin(rows, tasks, task); at < last;) {
      const std::int64_t group = at / height, begin = at % height,
                         end = std::min({height, begin + block, begin + last - at});
      FewRows here{x + group * x_group, 0, static_cast<int>(begin), static_cast<int>(end)};
      if (staged)
        stage(scratch, here);
      else
        here.x -= geometry.width.begin * kLanes;
      visit(here, group);
      at += end - begin;
    }
  }

 private:
  /// Copies the input rows that `here` needs, with zeros for columns outside the input.
  void stage(float* to, FewRows& here) const {
    const FewGeometry& g = geometry;
    const FewAxis& height = g.height;
    const float* x = here.x;
    const int first = std::max(here.begin * height.stride - height.begin, 0);
    const int last = std::min((here.end - 1) * height.stride + (height.kernel - 1) * height.dilation - height.begin + 1,
                              height.in);
    const std::int64_t in_w = g.width.in, first_column = -g.width.begin;
    const std::int64_t begin = std::clamp<std::int64_t>(first_column, 0, in_w),
                       end = std::clamp<std::int64_t>(first_column + columns, begin, in_w);
    const std::size_t before = static_cast<std::size_t>(std::min(columns, begin - first_column) * kLanes),
                      inside = static_cast<std::size_t>((end - begin) * kLanes),
                      after = static_cast<std::size_t>(columns * kLanes) - before - inside;
    for (std::int64_t channel = 0; channel < channels; ++channel)
      for (int row = first; row < last; ++row) {
        float* padded = to + channel * g.x_channel + (row - first) * g.x_row;
        std::memset(padded, 0, before * sizeof(float));
        std::memcpy(padded + before, x + ((channel * height.in + row) * in_w + begin) * kLanes, inside * sizeof(float));
        std::memset(padded + before + inside, 0, after * sizeof(float));
      }
    here.x = to;
    here.x_first = first;
  }
};

float* floats(void* base) { return static_cast<float*>(base); }

// --- forward and data gradient
// -------------------------------------------------------------------------------------

struct Forward {
  Convolution convolution;
  std::int64_t weight_base = 0;  ///< where the walk over the taps begins
  bool bias = false;
  Relu relu;
  int before = -1, y = 0;  ///< outputs
  decltype(&portable::few_convolve) run_rows = NEURIM_DISPATCH(few_convolve);

  static void run(const void* self, const Args& args, int task) noexcept {
    const auto& own = *static_cast<const Forward*>(self);
    const Convolution& c = own.convolution;
    const auto output = [&](int number, std::int64_t group) -> float* {
      return number < 0 ? nullptr : floats(args.out[number]) + group * c.y_group;
    };
    const float* weight = floats(args.in[1]) + own.weight_base;
    c.each(task, floats(args.in[0]), floats(args.workspace), [&](const FewRows& rows, std::int64_t group) {
      own.run_rows(c.geometry, rows, weight, own.bias ? floats(args.in[2]) : nullptr, own.relu,
                   output(own.before, group), output(own.y, group));
    });
  }
};

Launch prepare(KernelRequest& request, const ConvPattern& pattern) {
  if (const char* why = against(request, pattern)) return decline(request, why);
  if (!has_layouts(request, layout_of, pattern)) return decline(request, "takes images16 and plain weights");
  const ConvSizes& conv = pattern.sizes;
  const bool gradient = pattern.direction == Direction::input_grad;
  const std::int64_t groups = conv.images / kLanes, in = conv.in_channels, out = conv.out_channels;
  const std::int64_t columns = conv.kernel[1], taps = conv.kernel[0] * columns;
  auto forward = std::make_shared<Forward>(
      Forward{gradient ? Convolution(groups, out, in, backwards(conv, 0), backwards(conv, 1), request.chunks)
                       : Convolution(groups, in, out, axis(conv, 0), axis(conv, 1), request.chunks)});
  FewGeometry& g = forward->convolution.geometry;
  g.w_out = gradient ? taps : in * taps;
  g.w_in = gradient ? in * taps : taps;
  g.w_row = gradient ? -columns : columns;
  g.w_column = gradient ? -1 : 1;
  forward->convolution.tabulate();
  forward->weight_base = gradient ? taps - 1 : 0;
  forward->bias = pattern.bias >= 0;
  forward->relu = read_add_relu(request, 1, request.steps.size(), pattern.result()).relu;
  forward->y = request.place_out(request.steps.back().out[0]);
  if (pattern.followed) forward->before = request.place_out(request.steps[0].out[0]);
  return {Forward::run, forward, forward->convolution.tasks, 0, request.chunks, forward->convolution.staged_bytes};
}

// --- weight gradient
// -----------------------------------------------------------------------------------------------

struct WeightGrad {
  Convolution convolution;
  std::int64_t weights;
  int reduction_tasks;
  decltype(&portable::few_weight_sums) run_rows = NEURIM_DISPATCH(few_weight_sums);
  decltype(&portable::few_join) join = NEURIM_DISPATCH(few_join);

  std::int64_t sums_floats() const { return weights * kLanes; }

  static void run(const void* self, const Args& args, int task) noexcept {
    const auto& own = *static_cast<const WeightGrad*>(self);
    const Convolution& c = own.convolution;
    if (task >= c.tasks) {
      const int join = task - c.tasks;
      own.join(floats(args.scratch), c.tasks, own.weights, floats(args.out[0]),
               task_begin(own.weights, own.reduction_tasks, join),
               task_begin(own.weights, own.reduction_tasks, join + 1));
      return;
    }
    float* sums = floats(args.scratch) + task * own.sums_floats();
    std::memset(sums, 0, own.sums_floats() * sizeof(float));
    c.each(task, floats(args.in[1]), floats(args.workspace), [&](const FewRows& rows, std::int64_t group) {
      own.run_rows(c.geometry, rows, floats(args.in[0]) + group * c.y_group, sums);
    });
  }
};

Launch prepare_weight_grad(KernelRequest& request, const ConvPattern& pattern) {
  if (const char* why = against(request, pattern)) return decline(request, why);
  if (!has_layouts(request, layout_of, pattern)) return decline(request, "takes images16 and plain weights");
  const ConvSizes& conv = pattern.sizes;
  const std::int64_t in = conv.in_channels, columns = conv.kernel[1], taps = conv.kernel[0] * columns;
  auto own = std::make_shared<WeightGrad>(
      WeightGrad{Convolution(conv.images / kLanes, in, conv.out_channels, axis(conv, 0), axis(conv, 1), request.chunks),
                 in * conv.out_channels * taps, 1});
  FewGeometry& g = own->convolution.geometry;
  g.w_out = in * taps, g.w_in = taps, g.w_row = columns, g.w_column = 1;
  if (taps == 1) {  // a tile of one column would wait for its few sums: the input channels take the place of
                    // the columns
    g.width.kernel = g.in, g.x_tap = g.x_channel;
    g.in = 1;
  }
  own->convolution.tabulate();
  constexpr std::int64_t kWorthIt = 1024;
  own->reduction_tasks = static_cast<int>(std::clamp<std::int64_t>(own->weights / kWorthIt, 1, request.chunks));
  request.scratch = own->convolution.tasks * own->sums_floats() * sizeof(float);
  return {WeightGrad::run,        own,
          own->convolution.tasks, own->reduction_tasks,
          request.chunks,         own->convolution.staged_bytes};
}

}  // namespace

}  // namespace neurim::cpu

namespace neurim {

void cpu_conv_nchw16n() {
  constexpr std::string_view kName = "cpu nchw16n";
  using namespace cpu;
  add_conv_kernel<prepare, propose_layouts>({.op = "conv2d", .name = kName, .fuses = true});
  add_conv_kernel<prepare, propose_layouts>({.op = "conv2d_input_grad", .name = kName});
  add_conv_kernel<prepare_weight_grad, propose_layouts>({.op = "conv2d_weight_grad", .name = kName});
}

}  // namespace neurim
