#include "neurim/data/resample.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "neurim/base/error.h"
#include "neurim/data/wide.h"

namespace neurim {
namespace {

using Floats4 [[gnu::vector_size(16)]] = float;
using Floats8 [[gnu::vector_size(32)]] = float;
using Levels4 [[gnu::vector_size(4)]] = std::uint8_t;
using Levels8 [[gnu::vector_size(8)]] = std::uint8_t;

template <class Vector, class Element>
Vector load(const Element* from) {
  Vector vector;
  std::memcpy(&vector, from, sizeof vector);
  return vector;
}

/// line[i] = the sum of weights[t] * row[t * stride + i] over the taps.
NEURIM_WIDE void add_rows(const std::uint8_t* row, std::size_t stride, const float* weights, int taps,
                          float* line, int count) {
  int i = 0;
  for (; i + 8 <= count; i += 8) {
    Floats8 sum{};
    for (int t = 0; t < taps; ++t)
      sum += weights[t] * __builtin_convertvector(
                              load<Levels8>(row + static_cast<std::size_t>(t) * stride + i), Floats8);
    std::memcpy(line + i, &sum, sizeof sum);
  }
  for (; i < count; ++i) {
    line[i] = 0;
    for (int t = 0; t < taps; ++t)
      line[i] += weights[t] * static_cast<float>(row[static_cast<std::size_t>(t) * stride + i]);
  }
}

/// One output row out of a row of interleaved floats, after which three more can be read.
template <int channels>
[[gnu::always_inline]] inline void gather(const float* line, const int* first, const float* weights, int taps,
                                          int count, std::uint8_t* out) {
  for (int x = 0; x < count; ++x, weights += taps, out += channels) {
    const float* from = line + first[x] * channels;
    Floats4 sum{};
    for (int t = 0; t < taps; ++t) sum += weights[t] * load<Floats4>(from + t * channels);
    sum += 0.5f;
    const Levels4 levels = __builtin_convertvector(sum, Levels4);
    std::memcpy(out, &levels, channels);
  }
}

NEURIM_WIDE void gather_gray(const float* line, const int* first, const float* weights, int taps, int count,
                             std::uint8_t* out) {
  gather<1>(line, first, weights, taps, count, out);
}

NEURIM_WIDE void gather_rgb(const float* line, const int* first, const float* weights, int taps, int count,
                            std::uint8_t* out) {
  gather<3>(line, first, weights, taps, count, out);
}

}  // namespace

void Resampler::Axis::plan(int in_size, int full_size, int begin_at, int out_count) {
  if (in == in_size && full == full_size && begin == begin_at && count == out_count) return;
  in = in_size, full = full_size, begin = begin_at, count = out_count;
  const double scale = static_cast<double>(in) / full, support = std::max(scale, 1.0);
  taps = std::min(static_cast<int>(2 * support) + 1, in);  // so many whole numbers lie in 2 * support at most
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
  const std::size_t stride = static_cast<std::size_t>(in.width() * channels);
  const auto room = static_cast<std::size_t>(from.width * channels + 3);
  if (line_.size() < room) line_.resize(room);
  const auto gather = channels == 1 ? gather_gray : gather_rgb;
  for (int y = 0; y < window.height; ++y) {
    const auto at = static_cast<std::size_t>(y);
    const std::uint8_t* row = in.row(from.top + rows_.first[at]) + from.left * channels + skipped;
    add_rows(row, stride, rows_.weights.data() + at * static_cast<std::size_t>(rows_.taps), rows_.taps,
             line_.data() + skipped, used);
    gather(line_.data(), columns_.first.data(), columns_.weights.data(), columns_.taps, window.width,
           out.row(top + y) + left * channels);
  }
}

}  // namespace neurim
