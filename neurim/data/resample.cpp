#include "neurim/data/resample.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "neurim/base/error.h"
#include "neurim/data/wide.h"

namespace neurim {
namespace {

using Floats4 [[gnu::vector_size(16)]] = float;
using Ints4 [[gnu::vector_size(16)]] = std::int32_t;
using Bytes16 [[gnu::vector_size(16)]] = std::uint8_t;
using Shorts8 [[gnu::vector_size(16)]] = std::uint16_t;

template <class Value>
constexpr float kWhite = static_cast<float>(std::numeric_limits<Value>::max());

template <bool begins, class Value>
[[gnu::always_inline]] inline void two_rows(const Value* __restrict first, const Value* __restrict second, float a,
                                            float b, float* __restrict line, int count) {
  for (int i = 0; i < count; ++i) {
    const float sum = a * static_cast<float>(first[i]) + b * static_cast<float>(second[i]);
    line[i] = begins ? sum : line[i] + sum;
  }
}

/// line[i] = a * first[i] + b * second[i].
NEURIM_WIDE void begin_line(const std::uint8_t* first, const std::uint8_t* second, float a, float b, float* line,
                            int count) {
  two_rows<true>(first, second, a, b, line, count);
}
NEURIM_WIDE void begin_line(const std::uint16_t* first, const std::uint16_t* second, float a, float b, float* line,
                            int count) {
  two_rows<true>(first, second, a, b, line, count);
}

/// line[i] += a * first[i] + b * second[i].
NEURIM_WIDE void add_to_line(const std::uint8_t* first, const std::uint8_t* second, float a, float b, float* line,
                             int count) {
  two_rows<false>(first, second, a, b, line, count);
}
NEURIM_WIDE void add_to_line(const std::uint16_t* first, const std::uint16_t* second, float a, float b, float* line,
                             int count) {
  two_rows<false>(first, second, a, b, line, count);
}

/// line[i] = the sum of weights[t] * row[t * stride + i] over the taps.
template <class Value>
void add_rows(const Value* row, std::size_t stride, const float* weights, int taps, float* line, int count) {
  for (int t = 0; t < taps; t += 2) {
    const Value* first = row + static_cast<std::size_t>(t) * stride;
    const bool two = t + 1 < taps;
    const Value* second = two ? first + stride : first;
    const float b = two ? weights[t + 1] : 0;
    if (t == 0)
      begin_line(first, second, weights[t], b, line, count);
    else
      add_to_line(first, second, weights[t], b, line, count);
  }
}

/// Rounds four sums and writes the first `count` of them.
[[gnu::always_inline]] inline void store(Floats4 sum, int count, std::uint8_t* out) {
  const Bytes16 bytes = reinterpret_cast<Bytes16>(__builtin_convertvector(sum + 0.5f, Ints4));
  constexpr Bytes16 kLowest{0, 4, 8, 12};
  const std::uint32_t values = static_cast<std::uint32_t>(
      reinterpret_cast<Ints4>(__builtin_shuffle(bytes, kLowest))[0]);
  if (count == 4)
    std::memcpy(out, &values, 4);
  else
    std::memcpy(out, &values, count);
}

[[gnu::always_inline]] inline void store(Floats4 sum, int count, std::uint16_t* out) {
  const Shorts8 shorts = reinterpret_cast<Shorts8>(__builtin_convertvector(sum + 0.5f, Ints4));
  const Shorts8 lowest = __builtin_shuffle(shorts, Shorts8{0, 2, 4, 6});
  std::memcpy(out, &lowest, count * sizeof *out);
}

/// One output row out of a row of interleaved floats, after which three more can be read. `fixed`: the number of
/// taps where the compiler knows it; 0: `any`.
template <int channels, int fixed = 0>
[[gnu::always_inline]] inline void gather(const float* line, const int* first, const float* weights, int any, int count,
                                          std::uint8_t* out) {
  const int taps = fixed ? fixed : any;
  for (int x = 0; x < count; ++x, weights += taps, out += channels) {
    const float* from = line + first[x] * channels;
    Floats4 sum{};
    for (int t = 0; t < taps; ++t) {
      Floats4 pixel;
      std::memcpy(&pixel, from + t * channels, sizeof pixel);
      sum += weights[t] * pixel;
    }
    // A store of four bytes is one instruction; the next pixel covers the fourth.
    if (channels == 3 && x + 1 < count)
      store(sum, 4, out);
    else
      store(sum, channels, out);
  }
}

NEURIM_WIDE void gather_gray(const float* line, const int* first, const float* weights, int taps, int count,
                             std::uint8_t* out, int) {
  gather<1>(line, first, weights, taps, count, out);
}

NEURIM_WIDE void gather_rgb(const float* line, const int* first, const float* weights, int taps, int count,
                            std::uint8_t* out, int) {
  switch (taps) {  // the most frequent: enlarging, and shrinking to no less than half
    case 2: return gather<3, 2>(line, first, weights, taps, count, out);
    case 3: return gather<3, 3>(line, first, weights, taps, count, out);
    case 4: return gather<3, 4>(line, first, weights, taps, count, out);
    default: return gather<3>(line, first, weights, taps, count, out);
  }
}

/// The same of any number of channels, four at a time. `cut`: sums may leave the range of values.
template <bool cut, class Value>
[[gnu::always_inline]] inline void gather_any(const float* line, const int* first, const float* weights, int taps,
                                              int count, Value* out, int channels) {
  const int values = count * channels;
  for (int x = 0; x < count; ++x, weights += taps)
    for (int c = 0; c < channels; c += 4) {
      const float* from = line + first[x] * channels + c;
      Floats4 sum{};
      for (int t = 0; t < taps; ++t, from += channels) {
        Floats4 some;
        std::memcpy(&some, from, sizeof some);
        sum += weights[t] * some;
      }
      if (cut) {
        sum = sum < 0.0f ? Floats4{} : sum;
        sum = sum > kWhite<Value> ? Floats4{} + kWhite<Value> : sum;
      }
      // What of four does not belong to this pixel is written over by the next one.
      const int at = x * channels + c;
      store(sum, std::min(at + 4 <= values ? 4 : channels - c, 4), out + at);
    }
}

NEURIM_WIDE void gather_many(const float* line, const int* first, const float* weights, int taps, int count,
                             std::uint8_t* out, int channels) {
  gather_any<false>(line, first, weights, taps, count, out, channels);
}
NEURIM_WIDE void gather_many(const float* line, const int* first, const float* weights, int taps, int count,
                             std::uint16_t* out, int channels) {
  gather_any<false>(line, first, weights, taps, count, out, channels);
}

NEURIM_WIDE void gather_and_cut(const float* line, const int* first, const float* weights, int taps, int count,
                                std::uint8_t* out, int channels) {
  gather_any<true>(line, first, weights, taps, count, out, channels);
}
NEURIM_WIDE void gather_and_cut(const float* line, const int* first, const float* weights, int taps, int count,
                                std::uint16_t* out, int channels) {
  gather_any<true>(line, first, weights, taps, count, out, channels);
}

template <class Value>
[[gnu::always_inline]] inline void round_values(const float* __restrict line, int count, Value* __restrict out) {
  for (int i = 0; i < count; ++i) out[i] = static_cast<Value>(std::min(std::max(line[i], 0.0f), kWhite<Value>) + 0.5f);
}
NEURIM_WIDE void round_and_cut(const float* line, int count, std::uint8_t* out) { round_values(line, count, out); }
NEURIM_WIDE void round_and_cut(const float* line, int count, std::uint16_t* out) { round_values(line, count, out); }

/// The weight of a value whose distance is `x` pixels.
double filter(Interpolation interpolation, double x) {
  x = std::abs(x);
  if (interpolation == Interpolation::bilinear) return std::max(0.0, 1 - x);
  constexpr double a = -0.5;
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

}  // namespace

void Resampler::Axis::plan(Interpolation interpolation, const Span& from_span, int full_size, int begin_at,
                           int out_count) {
  if (from == from_span && full == full_size && begin == begin_at && count == out_count) return;
  from = from_span, full = full_size, begin = begin_at, count = out_count;
  const int offset = from.offset, reduction = from.reduction, end = offset + from.size;
  const int in = (end + reduction - 1) / reduction;
  const double origin = static_cast<double>(offset) / reduction;
  const double scale = static_cast<double>(from.size) / reduction / full;
  first.assign(count, 0);
  if (interpolation == Interpolation::nearest) {
    taps = 1;
    weights.assign(count, 1.0f);
    double center = origin + scale / 2;  // summed up, as Pillow does it, for where it falls between two pixels
    for (int i = 0; i < begin; ++i) center += scale;
    for (int& at : first) at = std::min(static_cast<int>(center), in - 1), center += scale;
    return;
  }
  const double width = std::max(scale, 1.0), support = interpolation == Interpolation::bicubic ? 2 * width : width;
  taps = std::min(static_cast<int>(std::ceil(2 * support)), in);  // that an interval of 2 * support can hold
  weights.assign(static_cast<std::size_t>(count) * static_cast<std::size_t>(taps), 0.0f);
  for (int i = 0; i < count; ++i) {
    const double center = origin + (begin + i + 0.5) * scale;
    const int low = std::max(static_cast<int>(center - support + 0.5), 0);
    const int high = std::min(static_cast<int>(center + support + 0.5), in);
    const auto weight = [&](int at) {
      const double of_whole = filter(interpolation, (at - center + 0.5) / width);
      if (reduction == 1) return of_whole;
      return of_whole * (std::min((at + 1) * reduction, end) - std::max(at * reduction, offset));
    };
    double total = 0;
    for (int at = low; at < high; ++at) total += weight(at);
    // All taps stay inside the input, so that the kernels need no test: near the end the window moves back.
    const int start = std::min(low, in - taps);
    first[i] = start;
    float* row = taps_of(i);
    for (int at = low; at < high; ++at) row[at - start] = static_cast<float>(weight(at) / total);
  }
}

void Resampler::resize(const Image& in, const Box& from, int full_height, int full_width, const Box& window, Image& out,
                       int top, int left, int reduction) {
  const int channels = in.channels();
  const Box pixels = reduced(from, reduction);
  NEURIM_ASSERT(channels == out.channels() && in.size().bits == out.size().bits);
  NEURIM_ASSERT(top + window.height <= out.height() && left + window.width <= out.width());
  rows_.plan(interpolation_, {from.top % reduction, from.height, reduction}, full_height, window.top, window.height);
  columns_.plan(interpolation_, {from.left % reduction, from.width, reduction}, full_width, window.left, window.width);
  const auto room = static_cast<std::size_t>(std::max(pixels.width, window.width) * channels + 3);
  if (line_.size() < room) line_.resize(room);
  const bool wide = in.size().bits == 16;
  if (interpolation_ == Interpolation::bicubic)
    wide ? columns_first<std::uint16_t>(in, pixels, window, out, top, left)
         : columns_first<std::uint8_t>(in, pixels, window, out, top, left);
  else
    wide ? rows_first<std::uint16_t>(in, pixels, window, out, top, left)
         : rows_first<std::uint8_t>(in, pixels, window, out, top, left);
}

template <class Value>
void Resampler::rows_first(const Image& in, const Box& from, const Box& window, Image& out, int top, int left) {
  const int channels = in.channels();
  // Only the columns that the window can see take part in the vertical pass.
  const int skipped = columns_.first.front() * channels, used = columns_.end() * channels - skipped;
  const std::size_t stride = in.width() * channels;
  void (*gather)(const float*, const int*, const float*, int, int, Value*, int) = gather_many;
  if constexpr (sizeof(Value) == 1)
    if (channels == 1 || channels == 3) gather = channels == 1 ? gather_gray : gather_rgb;
  for (int y = 0; y < window.height; ++y) {
    const Value* row = in.values<Value>(from.top + rows_.first[y]) + from.left * channels + skipped;
    add_rows(row, stride, rows_.taps_of(y), rows_.taps, line_.data() + skipped, used);
    gather(line_.data(), columns_.first.data(), columns_.weights.data(), columns_.taps, window.width,
           out.values<Value>(top + y) + left * channels, channels);
  }
}

/// Where weights are negative it shows which pass comes first and that its values are rounded and cut. Pillow before
/// 13 does it in this order; 13 takes the rows first where that is less work.
template <class Value>
void Resampler::columns_first(const Image& in, const Box& from, const Box& window, Image& out, int top, int left) {
  const int channels = in.channels(), first_row = rows_.first.front(), count = window.width * channels;
  const int skipped = columns_.first.front() * channels, used = columns_.end() * channels - skipped;
  narrow_.reshape({rows_.end() - first_row, window.width, channels, in.size().bits});
  for (int y = 0; y < narrow_.height(); ++y) {
    const Value* row = in.values<Value>(from.top + first_row + y) + from.left * channels + skipped;
    constexpr float kOne = 1;
    add_rows(row, 0, &kOne, 1, line_.data() + skipped, used);
    gather_and_cut(line_.data(), columns_.first.data(), columns_.weights.data(), columns_.taps, window.width,
                   narrow_.values<Value>(y), channels);
  }
  for (int y = 0; y < window.height; ++y) {
    add_rows(narrow_.values<Value>(rows_.first[y] - first_row), static_cast<std::size_t>(count), rows_.taps_of(y),
             rows_.taps, line_.data(), count);
    round_and_cut(line_.data(), count, out.values<Value>(top + y) + left * channels);
  }
}

}  // namespace neurim
