#include "neurim/data/resample.h"

#include <algorithm>
#include <cmath>

#include "neurim/base/error.h"
#include "neurim/data/wide.h"

namespace neurim {
namespace {

/// line[i] += weight * row[i].
NEURIM_WIDE void add_row(float* line, const std::uint8_t* row, float weight, int count) {
  for (int i = 0; i < count; ++i) line[i] += weight * static_cast<float>(row[i]);
}

std::uint8_t level(float value) { return static_cast<std::uint8_t>(std::clamp(value + 0.5f, 0.0f, 255.0f)); }

/// One output row out of a row of `channels` interleaved floats.
template <int channels>
void gather_row(const float* line, const int* first, const float* weights, int taps, int count,
                std::uint8_t* out) {
  for (int x = 0; x < count; ++x, weights += taps, out += channels) {
    const float* from = line + first[x] * channels;
    float sum[channels] = {};
    for (int t = 0; t < taps; ++t, from += channels)
      for (int c = 0; c < channels; ++c) sum[c] += weights[t] * from[c];
    for (int c = 0; c < channels; ++c) out[c] = level(sum[c]);
  }
}

}  // namespace

void Resampler::Axis::plan(int in_size, int full_size, int begin_at, int out_count) {
  if (in == in_size && full == full_size && begin == begin_at && count == out_count) return;
  in = in_size, full = full_size, begin = begin_at, count = out_count;
  const double scale = static_cast<double>(in) / full, support = std::max(scale, 1.0);
  taps = std::min(static_cast<int>(std::ceil(support)) * 2 + 1, in);
  first.assign(static_cast<std::size_t>(count), 0);
  weights.assign(static_cast<std::size_t>(count) * static_cast<std::size_t>(taps), 0.0f);
  for (int i = 0; i < count; ++i) {
    const double center = (begin + i + 0.5) * scale;
    const int low = std::max(static_cast<int>(center - support + 0.5), 0);
    const int high = std::min(static_cast<int>(center + support + 0.5), in);
    const auto weight = [&](int at) { return std::max(0.0, 1 - std::abs(at - center + 0.5) / support); };
    double total = 0;
    for (int at = low; at < high; ++at) total += weight(at);
    // All taps stay inside the input, so that the kernels need no test: near the end the window moves back.
    const int start = std::min(low, in - taps);
    first[static_cast<std::size_t>(i)] = start;
    float* row = weights.data() + static_cast<std::size_t>(i) * static_cast<std::size_t>(taps);
    for (int at = low; at < high; ++at) row[at - start] = static_cast<float>(weight(at) / total);
  }
}

void Resampler::resize(const Image& in, const Box& from, int full_height, int full_width, const Box& window,
                       Image& out, int top, int left) {
  const int channels = in.channels();
  NEURIM_ASSERT(channels == out.channels() && (channels == 1 || channels == 3));
  NEURIM_ASSERT(top + window.height <= out.height() && left + window.width <= out.width());
  rows_.plan(from.height, full_height, window.top, window.height);
  columns_.plan(from.width, full_width, window.left, window.width);
  // Only the columns that the window can see take part in the vertical pass.
  const int used_begin = columns_.first.front(), used_end = columns_.first.back() + columns_.taps;
  const int used = (used_end - used_begin) * channels, skipped = used_begin * channels;
  if (line_.size() < static_cast<std::size_t>(from.width * channels))
    line_.resize(static_cast<std::size_t>(from.width * channels));
  for (int y = 0; y < window.height; ++y) {
    std::fill_n(line_.data() + skipped, used, 0.0f);
    const float* weights =
        rows_.weights.data() + static_cast<std::size_t>(y) * static_cast<std::size_t>(rows_.taps);
    for (int t = 0; t < rows_.taps; ++t) {
      if (weights[t] == 0) continue;
      const std::uint8_t* row = in.row(from.top + rows_.first[static_cast<std::size_t>(y)] + t);
      add_row(line_.data() + skipped, row + from.left * channels + skipped, weights[t], used);
    }
    std::uint8_t* to = out.row(top + y) + left * channels;
    const auto gather = channels == 1 ? gather_row<1> : gather_row<3>;
    gather(line_.data(), columns_.first.data(), columns_.weights.data(), columns_.taps, window.width, to);
  }
}

}  // namespace neurim
