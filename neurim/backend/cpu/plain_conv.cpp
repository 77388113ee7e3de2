// Convolutions of fewer than 16 channels where there are not the images for lanes of their own (few_channels.h): lanes are pixels
// of a row. A part is a run of rows, counted through all images, whose input rows it copies with zeros beside them.
#include "neurim/backend/cpu/plain_conv.h"

#include <algorithm>
#include <cstring>

#include "neurim/backend/cpu/conv_site.h"
#include "neurim/backend/cpu/physical.h"
#include "neurim/ops/conv.h"

namespace neurim {

namespace {

using namespace cpu;

constexpr std::int64_t kLanes = 16;
constexpr std::int64_t kStaged = 16 * 1024;       // floats of padded rows that stay near
constexpr std::int64_t kWorthAPart = 200 * 1000;  // multiply-adds

struct Convolution {
  std::int64_t images, in, out, height, width, out_height, out_width;
  std::int64_t kernel_height, kernel_width, dilation_height, dilation_width, pad_height, pad_width;
  std::int64_t band = 1, x_channel = 0;  ///< rows of y at a time; floats of a padded channel then
  Relu relu;
  bool bias = false;
  PlainConv plain{};
  std::vector<std::int32_t> taps;
  std::vector<std::int64_t> begin;  ///< rows of y, counted through all images, where parts begin

  std::int64_t rows_read(std::int64_t rows) const { return rows + (kernel_height - 1) * dilation_height; }
  std::size_t staged() const { return whole_lines(static_cast<std::size_t>(in * x_channel + kLanes) * sizeof(float)); }

  static void run(const void* self, const Args& args, int part) noexcept {
    const auto& own = *static_cast<const Convolution*>(self);
    const auto in = [&](std::size_t argument) { return static_cast<const float*>(args.in[argument]); };
    float* const rows =
        reinterpret_cast<float*>(static_cast<char*>(args.scratch) + static_cast<std::size_t>(part) * own.staged());
    const auto p = static_cast<std::size_t>(part);
    for (std::int64_t next, row = own.begin[p]; row < own.begin[p + 1]; row = next) {
      const std::int64_t image = row / own.out_height, first = row % own.out_height;
      next = std::min({row + own.band, own.begin[p + 1], (image + 1) * own.out_height});
      own.stage(in(0) + image * own.in * own.height * own.width, first, next - row, rows);
      float* const y = static_cast<float*>(args.out[0]) + image * own.out * own.plain.y_channel + first * own.out_width;
      NEURIM_DISPATCH(plain_conv)(own.plain, rows, in(1), own.bias ? in(2) : nullptr, own.relu, own.out, next - row, y);
    }
  }

  /// Copies what `count` rows of y from `first` on read.
  void stage(const float* x, std::int64_t first, std::int64_t count, float* to) const {
    const std::int64_t left = std::min(pad_width, plain.x_row), columns = std::min(width, plain.x_row - left);
    for (std::int64_t channel = 0; channel < in; ++channel)
      for (std::int64_t r = 0; r < rows_read(count); ++r) {
        const std::int64_t row = first + r - pad_height;
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

/// Null, or why the kernel leaves the site to others.
const char* against(const Site& site) {
  for (const Spec& spec : site.values)
    if (spec.type.dtype != DType::f32) return "takes f32 only";
  const Step& step = site.steps[0];
  const Conv2dOptions& o = static_cast<const Conv2d&>(*step.op).options;
  const auto shape = [&](int value) { return site.values[static_cast<std::size_t>(value)].type.shape; };
  const Shape x = shape(step.in[0]), weight = shape(step.in[1]), y = shape(step.out[0]);
  if (step.in[0] == step.in[1]) return "takes two operands";
  if (o.groups != 1 || o.stride != std::array<std::int64_t, 2>{1, 1}) return "takes stride 1 and no groups";
  if (x.numel() == 0 || y.numel() == 0) return "takes no empty tensors";
  if (weight[2] == 1 && weight[3] == 1) return "leaves 1x1 kernels to matrix products";
  // oneDNN reads plain images of up to three channels and gives blocks.
  if (fills_blocks(y[1]) && (fills_blocks(x[1]) || x[1] <= 3)) return "leaves channels from 16 on to blocked16";
  Epilogue epilogue;
  if (site.anchor != 0 || site.out.size() != 1 || !read_epilogue(site, epilogue) || epilogue.add) return "fuses relu only";
  return nullptr;
}

bool wants(Site& site) {
  if (const char* why = against(site)) return decline(site, why), false;
  for (Spec& spec : site.values) spec.layout = {};
  return true;
}

Launch prepare(Site& site) {
  if (const char* why = against(site)) return decline(site, why);
  for (const Spec& spec : site.values)
    if (spec.layout != Layout{}) return decline(site, "takes plain layouts");
  Epilogue epilogue;
  read_epilogue(site, epilogue);
  const Conv2dOptions& o = static_cast<const Conv2d&>(site.op()).options;
  const Shape &x = site.input(0).type.shape, &weight = site.input(1).type.shape, &y = site.output(0).type.shape;
  auto own = std::make_shared<Convolution>(Convolution{x[0], x[1], y[1], x[2], x[3], y[2], y[3], weight[2], weight[3],
                                                       o.dilation[0], o.dilation[1], o.pad[0], o.pad[1]});
  Convolution& c = *own;
  c.relu = epilogue.relu, c.bias = epilogue.bias;
  const std::int64_t row = c.out_width + (c.kernel_width - 1) * c.dilation_width;
  c.band = std::clamp<std::int64_t>(kStaged / (c.in * row) - c.rows_read(0), 1, c.out_height);
  c.x_channel = c.rows_read(c.band) * row;
  if (c.in * c.x_channel > INT32_MAX) return decline(site, "takes smaller images");
  for (std::int64_t channel = 0; channel < c.in; ++channel)
    for (std::int64_t h = 0; h < c.kernel_height; ++h)
      for (std::int64_t w = 0; w < c.kernel_width; ++w)
        c.taps.push_back(static_cast<std::int32_t>(channel * c.x_channel + h * c.dilation_height * row + w * c.dilation_width));
  c.plain = {static_cast<std::int64_t>(c.taps.size()), c.taps.data(), c.out_width, row, c.out_height * c.out_width};
  const std::int64_t rows = c.images * c.out_height, work = y.numel() * c.plain.tap_count,
                     parts = std::clamp<std::int64_t>(work / kWorthAPart, 1, std::min<std::int64_t>(rows, site.chunks));
  for (std::int64_t part = 0; part <= parts; ++part) c.begin.push_back(rows * part / parts);
  site.scratch = static_cast<std::size_t>(parts) * c.staged();
  return {Convolution::run, own, static_cast<int>(parts)};
}

}  // namespace

void cpu_plain_conv() {
  add({.op = "conv2d", .name = "cpu plain", .rank = 14, .prepare = prepare, .wants = wants, .fuses = true});
}

}  // namespace neurim
