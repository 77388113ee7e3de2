// Convolutions of fewer than 16 channels in the plain layout, for batches too small for blocks of images
// (conv_nchw16n.h), with a fused ReLU and 2x2 max pooling. Lanes are pixels of a row, or output channels where weights
// are constant and there are 16 and more. A task is a range of rows of the result, counted through all images; it
// copies the rows of x that they read and pads them with zeros.
#include "neurim/backend/cpu/conv/conv_nchw.h"

#include <algorithm>
#include <cstring>

#include "neurim/backend/cpu/common/conv_pattern.h"
#include "neurim/backend/cpu/common/packed_weights.h"
#include "neurim/backend/cpu/common/physical.h"
#include "neurim/backend/cpu/common/priorities.h"
#include "neurim/ops/conv.h"
#include "neurim/ops/max_pool.h"

namespace neurim {

namespace {

using namespace cpu;

constexpr std::int64_t kLanes = 16;
constexpr std::int64_t kStaged = 16 * 1024;          // floats of padded rows that stay near
constexpr std::int64_t kLeastTaskWork = 200 * 1000;  // multiply-adds

struct Convolution {
  /// out_height and out_width are those of the convolution, before pooling.
  std::int64_t images, in, out, height, width, out_height, out_width;
  std::int64_t kernel_height, kernel_width, dilation_height, dilation_width, pad_height, pad_width;
  std::int64_t
      band = 1,
      x_channel = 0;      ///< rows of y that are computed together; floats of their padded input rows, for each channel
  std::int64_t step = 1;  ///< rows of the convolution for one of y
  std::int64_t weight_block = 0;  ///< see conv_nchw_channels; 0 where lanes are pixels
  Relu relu;
  bool bias = false;
  ConvNchw plain{};
  std::vector<std::int32_t> taps, weight_taps;
  std::vector<std::int64_t> begin;  ///< rows of y, counted through all images, where tasks begin

  std::int64_t y_height() const { return out_height / step; }
  std::int64_t rows_read(std::int64_t rows) const { return rows * step + (kernel_height - 1) * dilation_height; }
  std::size_t staged() const { return (in * x_channel + kLanes) * sizeof(float); }

  static void run(const void* self, const Args& args, int task) noexcept {
    const auto& own = *static_cast<const Convolution*>(self);
    const auto in = [&](std::size_t argument) { return static_cast<const float*>(args.in[argument]); };
    float* const rows = static_cast<float*>(args.workspace);
    const auto p = static_cast<std::size_t>(task);
    for (std::int64_t next, row = own.begin[p]; row < own.begin[p + 1]; row = next) {
      const std::int64_t image = row / own.y_height(), first = row % own.y_height();
      next = std::min({row + own.band, own.begin[p + 1], (image + 1) * own.y_height()});
      own.stage(in(0) + image * own.in * own.height * own.width, first, next - row, rows);
      float* const y = static_cast<float*>(args.out[0]) + image * own.out * own.plain.y_channel +
                       first * own.plain.y_width();
      const float* const bias = own.bias ? in(2) : nullptr;
      if (own.weight_block > 0) NEURIM_DISPATCH(conv_nchw_channels)
      (own.plain, rows, in(1), own.weight_block, bias, own.relu, own.out, next - row, y);
      else NEURIM_DISPATCH(conv_nchw)(own.plain, rows, in(1), bias, own.relu, own.out, next - row, y);
    }
  }

  /// Copies and pads the input rows that `count` rows of y from `first` on read.
  void stage(const float* x, std::int64_t first, std::int64_t count, float* to) const {
    const std::int64_t left = std::min(pad_width, plain.x_row), columns = std::min(width, plain.x_row - left);
    for (std::int64_t channel = 0; channel < in; ++channel)
      for (std::int64_t r = 0; r < rows_read(count); ++r) {
        const std::int64_t row = first * step + r - pad_height;
        float* const at = to + channel * x_channel + r * plain.x_row;
        if (row < 0 || row >= height) {
          std::fill_n(at, plain.x_row, 0.0f);
          continue;
        }
        std::fill_n(at, left, 0.0f);
        std::copy_n(x + (channel * height + row) * width, columns, at + left);
        std::fill_n(at + left + columns, plain.x_row - left - columns, 0.0f);
      }
    std::fill_n(to + (in - 1) * x_channel + rows_read(count) * plain.x_row, kLanes, 0.0f);
  }
};

/// Whether the pooling after the convolution is of 2x2 pixels that do not overlap, none of them padding.
bool takes_pooling(const KernelRequest& request, const Step& step) {
  const Pool2dOptions o = resolved(static_cast<const MaxPool2d&>(*step.op).options);
  const auto shape = [&](int value) { return request.values[value].type.shape; };
  const Shape x = shape(step.in[0]), y = shape(step.out[0]);
  const std::array<std::int64_t, 2> one{1, 1}, two{2, 2};
  return o.kernel == two && o.stride == two && o.dilation == one && o.pad == std::array<std::int64_t, 4>{} &&
         y[2] == x[2] / 2 && y[3] == x[3] / 2;
}

/// Null, or why the kernel leaves the request to others.
const char* against(const KernelRequest& request, const ConvPattern& pattern) {
  if (const char* why = pattern.against()) return why;
  const ConvSizes& g = pattern.sizes;
  if (g.options.groups != 1 || !g.at_stride_1()) return "takes stride 1 and no groups";
  if (g.kernel[0] == 1 && g.kernel[1] == 1) return "leaves 1x1 kernels to matrix products";
  // oneDNN reads plain images of up to three channels and gives blocks.
  if (many_channels(g.out_channels) && (many_channels(g.in_channels) || g.in_channels <= 3))
    return "leaves channels from 16 on to blocked16";
  if (pattern.prologue || request.out.size() != 1 || !pattern.epilogue || pattern.epilogue->add)
    return "fuses relu only";
  if (pattern.pooling && !takes_pooling(request, request.steps[*pattern.pooling]))
    return "takes poolings of 2x2 pixels apart";
  return nullptr;
}

/// Whether output channels are lanes.
bool channels_are_lanes(const ConvPattern& pattern) {
  return pattern.constant_weight && pattern.sizes.out_channels % kLanes == 0;
}

Layout layout_of(const KernelRequest& request, const ConvPattern& pattern, int value) {
  return value == pattern.weight && channels_are_lanes(pattern) ? forward_weights(request.values[value].type)
                                                                : Layout{};
}

bool propose_layouts(KernelRequest& request, const ConvPattern& pattern) {
  if (const char* why = against(request, pattern)) return decline(request, why), false;
  ask_layouts(request, layout_of, pattern);
  return true;
}

Launch prepare(KernelRequest& request, const ConvPattern& pattern) {
  if (const char* why = against(request, pattern)) return decline(request, why);
  if (!has_layouts(request, layout_of, pattern)) return decline(request, "takes plain layouts");
  const ConvSizes& g = pattern.sizes;
  const Conv2dOptions& o = g.options;
  auto own = std::make_shared<Convolution>(Convolution{g.images, g.in_channels, g.out_channels, g.height, g.width,
                                                       g.out_height, g.out_width, g.kernel[0], g.kernel[1],
                                                       o.dilation[0], o.dilation[1], o.pad[0], o.pad[1]});
  Convolution& c = *own;
  c.relu = pattern.epilogue->relu, c.bias = pattern.epilogue->bias;
  if (pattern.pooling) c.step = 2;
  const std::int64_t row = c.out_width + (c.kernel_width - 1) * c.dilation_width;
  c.band = std::clamp<std::int64_t>((kStaged / (c.in * row) - c.rows_read(0)) / c.step, 1, c.y_height());
  c.x_channel = c.rows_read(c.band) * row;
  if (c.in * c.x_channel > INT32_MAX) return decline(request, "takes smaller images");
  const std::int64_t pixels = c.kernel_height * c.kernel_width;
  for (std::int64_t channel = 0; channel < c.in; ++channel)
    for (std::int64_t h = 0; h < c.kernel_height; ++h)
      for (std::int64_t w = 0; w < c.kernel_width; ++w) {
        c.taps.push_back(
            static_cast<std::int32_t>(channel * c.x_channel + h * c.dilation_height * row + w * c.dilation_width));
        const std::int64_t block = channel / kLanes * pixels + h * c.kernel_width + w;  // of 16 times 16 weights
        c.weight_taps.push_back(static_cast<std::int32_t>((block * kLanes + channel % kLanes) * kLanes));
      }
  if (channels_are_lanes(pattern)) c.weight_block = blocks_of(c.in) * pixels * kLanes * kLanes;
  c.plain = {static_cast<std::int64_t>(c.taps.size()),
             c.taps.data(),
             c.out_width,
             row,
             request.output(0).type.shape[2] * request.output(0).type.shape[3],
             pattern.pooling.has_value(),
             c.weight_taps.data()};
  const std::int64_t rows = c.images * c.y_height(),
                     work = g.images * g.out_channels * g.out_height * g.out_width * c.plain.tap_count,
                     tasks = std::clamp<std::int64_t>(work / kLeastTaskWork, 1,
                                                      std::min<std::int64_t>(rows, request.chunks));
  for (std::int64_t task = 0; task <= tasks; ++task) c.begin.push_back(rows * task / tasks);
  return {Convolution::run, own, static_cast<int>(tasks), 0, request.chunks, c.staged()};
}

}  // namespace

void cpu_conv_nchw() {
  add_conv_kernel<prepare, propose_layouts>({.op = "conv2d", .name = "cpu nchw", .fuses = true, .endings = true});
}

}  // namespace neurim
