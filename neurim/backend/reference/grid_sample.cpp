#include "neurim/ops/grid_sample.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "neurim/backend/reference/view.h"

namespace neurim {

namespace {

using reference::View;

/// The elements of an axis that a place meets, and their weights; a place beyond the image has weight 0 there.
struct Taps {
  std::array<std::int64_t, 4> at{};
  std::array<double, 4> weight{};
  int count = 0;
};

double reflected(double x, double low, double high) {
  const double range = high - low;
  if (range <= 0) return low;
  const double beyond = x < low ? low - x : x > high ? x - high : -1;
  if (beyond < 0) return x;
  const double turns = std::floor(beyond / range), left = beyond - turns * range;
  const bool even = std::fmod(turns, 2) == 0;
  return (x < low) == even ? low + left : high - left;
}

double keys(double t) {
  constexpr double kA = -0.75;
  t = std::abs(t);
  if (t <= 1) return ((kA + 2) * t - (kA + 3)) * t * t + 1;
  return t < 2 ? ((t - 5) * t + 8) * t * kA - 4 * kA : 0;
}

Taps taps_of(const GridSampleOptions& options, double coordinate, std::int64_t size) {
  if (size == 0) return {.at = {}, .weight = {}, .count = 1};
  const auto length = static_cast<double>(size);
  const double low = options.align_corners ? 0 : -0.5, high = options.align_corners ? length - 1 : length - 0.5;
  double x = options.align_corners ? (coordinate + 1) / 2 * (length - 1) : ((coordinate + 1) * length - 1) / 2;
  if (options.mode == "nearest") x = std::nearbyint(x);
  const bool outside = x < low || x > high;
  if (outside && options.padding == "border") x = std::clamp(x, 0.0, length - 1);
  if (outside && options.padding == "reflection") x = reflected(x, low, high);
  Taps taps;
  const auto add = [&](double place, double weight) {
    double at = place;
    bool there = std::isfinite(place);
    if (there && (at < 0 || at > length - 1)) {
      if (options.padding == "zeros") there = false;
      if (options.padding == "border") at = std::clamp(at, 0.0, length - 1);
      if (options.padding == "reflection") at = std::clamp(std::trunc(reflected(at, low, high)), 0.0, length - 1);
    }
    taps.at[taps.count] = there ? static_cast<std::int64_t>(at) : 0;
    taps.weight[taps.count++] = there && size > 0 ? weight : 0;
  };
  const double base = std::floor(x), ratio = x - base;
  if (options.mode == "nearest") {
    add(x, 1);
  } else if (options.mode == "linear") {
    add(base, 1 - ratio);
    add(base + 1, ratio);
  } else {
    for (int i = -1; i < 3; ++i) add(base + i, keys(ratio - i));
  }
  return taps;
}

void grid_sample_body(const Op& op, std::span<const View> in, std::span<const View> out, std::uint32_t&) {
  const GridSampleOptions& options = static_cast<const GridSample&>(op).options;
  const Shape& shape = in[0].shape();
  const int axes = shape.rank() - 2;
  const std::int64_t images = shape[0], channels = shape[1];
  std::int64_t plane = 1, places = 1;
  for (int axis = 0; axis < axes; ++axis) plane *= shape[axis + 2];
  for (int axis = 2; axis < out[0].shape().rank(); ++axis) places *= out[0].shape()[axis];
  for (std::int64_t n = 0; n < images; ++n)
    for (std::int64_t p = 0; p < places; ++p) {
      std::array<Taps, 3> taps;
      int all = 1;
      for (int axis = 0; axis < axes; ++axis) {  // the coordinate of the last axis comes first
        taps[axis] = taps_of(options, in[1][(n * places + p) * axes + axes - 1 - axis], shape[axis + 2]);
        all *= taps[axis].count;
      }
      for (std::int64_t c = 0; c < channels; ++c) {
        double sum = 0;
        for (int tap = 0; tap < all; ++tap) {
          std::int64_t at = 0;
          double weight = 1;
          for (int axis = 0, left = tap; axis < axes; ++axis) {
            const int own = left % taps[axis].count;
            left /= taps[axis].count;
            at = at * shape[axis + 2] + taps[axis].at[own];
            weight *= taps[axis].weight[own];
          }
          if (weight != 0) sum += weight * in[0][(n * channels + c) * plane + at];
        }
        out[0].set((n * channels + c) * places + p, sum);
      }
    }
}

}  // namespace

void reference_grid_sample() { reference::define_reference("grid_sample", grid_sample_body); }

}  // namespace neurim
