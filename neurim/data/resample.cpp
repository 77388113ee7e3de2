#include "neurim/data/resample.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "neurim/base/error.h"
#include "neurim/data/wide.h"

namespace neurim {
namespace {

using Floats4 [[gnu::vector_size(16)]] = float;
using Ints4 [[gnu::vector_size(16)]] = std::int32_t;
using Bytes16 [[gnu::vector_size(16)]] = std::uint8_t;

/// line[i] = a * first[i] + b * second[i].
NEURIM_WIDE void begin_line(const std::uint8_t* __restrict first, const std::uint8_t* __restrict second, float a,
                            float b, float* __restrict line, int count) {
  for (int i = 0; i < count; ++i) line[i] = a * static_cast<float>(first[i]) + b * static_cast<float>(second[i]);
}

/// line[i] += a * first[i] + b * second[i].
NEURIM_WIDE void add_to_line(const std::uint8_t* __restrict first, const std::uint8_t* __restrict second, float a,
                             float b, float* __restrict line, int count) {
  for (int i = 0; i < count; ++i) line[i] += a * static_cast<float>(first[i]) + b * static_cast<float>(second[i]);
}

/// line[i] = the sum of weights[t] * row[t * stride + i] over the taps.
void add_rows(const std::uint8_t* row, std::size_t stride, const float* weights, int taps, float* line, int count) {
  for (int t = 0; t < taps; t += 2) {
    const std::uint8_t* first = row + static_cast<std::size_t>(t) * stride;
    const bool two = t + 1 < taps;
    (t == 0 ? begin_line : add_to_line)(first, two ? first + stride : first, weights[t], two ? weights[t + 1] : 0,
                                        line, count);
  }
}

/// One output row out of a row of interleaved floats, after which three more can be read. `fixed`: the number of
/// taps where the compiler knows it; 0: `any`.
template <int channels, int fixed = 0>
[[gnu::always_inline]] inline void gather(const float* line, const int* first, const float* weights, int any,
                                          int count, std::uint8_t* out) {
  const int taps = fixed ? fixed : any;
  for (int x = 0; x < count; ++x, weights += taps, out += channels) {
    const float* from = line + first[x] * channels;
    Floats4 sum{};
    for (int t = 0; t < taps; ++t) {
      Floats4 pixel;
      std::memcpy(&pixel, from + t * channels, sizeof pixel);
      sum += weights[t] * pixel;
    }
    const Bytes16 bytes = reinterpret_cast<Bytes16>(__builtin_convertvector(sum + 0.5f, Ints4));
    constexpr Bytes16 kLowest{0, 4, 8, 12};
    const std::uint32_t levels = static_cast<std::uint32_t>(reinterpret_cast<Ints4>(__builtin_shuffle(bytes, kLowest))[0]);
    // A store of four bytes is one instruction; the next pixel covers the fourth.
    if (channels == 3 && x + 1 < count)
      std::memcpy(out, &levels, 4);
    else
      std::memcpy(out, &levels, channels);
  }
}

NEURIM_WIDE void gather_gray(const float* line, const int* first, const float* weights, int taps, int count,
                             std::uint8_t* out) {
  gather<1>(line, first, weights, taps, count, out);
}

NEURIM_WIDE void gather_rgb(const float* line, const int* first, const float* weights, int taps, int count,
                            std::uint8_t* out) {
  switch (taps) {  // the most frequent: enlarging, and shrinking to no less than half
    case 2: return gather<3, 2>(line, first, weights, taps, count, out);
    case 3: return gather<3, 3>(line, first, weights, taps, count, out);
    case 4: return gather<3, 4>(line, first, weights, taps, count, out);
    default: return gather<3>(line, first, weights, taps, count, out);
  }
}

}  // namespace

void Resampler::Axis::plan(int in_size, int full_size, int begin_at, int out_count) {
  if (in == in_size && full == full_size && begin == begin_at && count == out_count) return;
  in = in_size, full = full_size, begin = begin_at, count = out_count;
  const double scale = static_cast<double>(in) / full, support = std::max(scale, 1.0);
  taps = std::min(static_cast<int>(std::ceil(2 * support)), in);  // that an interval of 2 * support can hold
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
