#include "neurim/ops/roi_align.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "neurim/backend/reference/view.h"
#include "neurim/core/launch.h"

namespace neurim {

namespace {

using reference::View;

/// One axis of a bilinear sample: two elements and their weights; nothing far outside of the image.
struct Between {
  std::int64_t low = 0, high = 0;
  double low_weight = 0, high_weight = 0;
};

Between between(double at, std::int64_t size) {
  if (!(at >= -1 && at <= static_cast<double>(size))) return {};  // NaN too
  at = std::max(at, 0.0);
  const auto low = static_cast<std::int64_t>(at);
  if (low >= size - 1) return {size - 1, size - 1, 1, 0};
  const double ratio = at - static_cast<double>(low);
  return {low, low + 1, 1 - ratio, ratio};
}

/// One axis of a box, cut into bins.
struct Bins {
  double start, size;
  std::int64_t samples;
};

Bins bins_of(const RoiAlignOptions& options, double first, double last, std::int64_t count) {
  const double offset = options.half_pixel ? 0.5 : 0;
  const double start = first * options.spatial_scale - offset;
  double length = last * options.spatial_scale - offset - start;
  if (!options.half_pixel) length = std::max(length, 1.0);
  const double size = length / static_cast<double>(count);
  const double samples = options.sampling_ratio > 0 ? static_cast<double>(options.sampling_ratio) : std::ceil(size);
  return {start, size, samples > 0 ? static_cast<std::int64_t>(std::min(samples, 4096.0)) : 0};
}

double sampled(const RoiAlignOptions& options, const View& x, std::int64_t first, const Bins& rows, const Bins& columns,
               std::int64_t row, std::int64_t column) {
  const std::int64_t height = x.shape()[2], width = x.shape()[3];
  double sum = 0, top = 0;
  bool any = false;
  const auto place = [](const Bins& bins, std::int64_t bin, std::int64_t sample) {
    return bins.start + static_cast<double>(bin) * bins.size +
           (static_cast<double>(sample) + 0.5) * bins.size / static_cast<double>(bins.samples);
  };
  for (std::int64_t i = 0; i < rows.samples; ++i)
    for (std::int64_t k = 0; k < columns.samples; ++k) {
      const double at_y = place(rows, row, i), at_x = place(columns, column, k);
      Between y = between(at_y, height), z = between(at_x, width);
      const auto value = [&](std::int64_t a, std::int64_t b) { return x[first + a * width + b]; };
      const std::array parts{
          y.low_weight * z.low_weight * value(y.low, z.low), y.low_weight * z.high_weight * value(y.low, z.high),
          y.high_weight * z.low_weight * value(y.high, z.low), y.high_weight * z.high_weight * value(y.high, z.high)};
      for (const double part : parts) {
        sum += part;
        top = any ? std::max(top, part) : part;
        any = true;
      }
    }
  const auto count = static_cast<double>(std::max<std::int64_t>(rows.samples * columns.samples, 1));
  return options.largest ? top : sum / count;
}

void roi_align_body(const Op& op, std::span<const View> in, std::span<const View> out, std::uint32_t& status) {
  const RoiAlignOptions& options = static_cast<const RoiAlign&>(op).options;
  const Shape& shape = in[0].shape();
  const std::int64_t channels = shape[1], plane = shape[2] * shape[3], bins = options.height * options.width;
  for (std::int64_t box = 0; box < out[0].shape()[0]; ++box) {
    const auto image = in[2].integer(box);
    if (image < 0 || image >= shape[0] || plane == 0) {
      status |= kStatusIndexOutOfRange;
      return;
    }
    const Bins columns = bins_of(options, in[1][4 * box], in[1][4 * box + 2], options.width),
               rows = bins_of(options, in[1][4 * box + 1], in[1][4 * box + 3], options.height);
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t bin = 0; bin < bins; ++bin)
        out[0].set((box * channels + c) * bins + bin, sampled(options, in[0], (image * channels + c) * plane, rows,
                                                              columns, bin / options.width, bin % options.width));
  }
}

}  // namespace

void reference_roi_align() { reference::define_reference("roi_align", roi_align_body); }

}  // namespace neurim
