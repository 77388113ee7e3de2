// How the positions of a convolution's source are kept along one axis for products of tiles.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

namespace neurim::cpu {

inline std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }

/// Where the positions of the source that units of the result read are along one axis. A unit is a position of the
/// result, or for gradients `step` of them, each of which reads taps of its own.
struct TileAxis {
  std::int64_t size, out_size;       ///< of the source and the result
  std::int64_t step = 1;             ///< positions of a unit
  std::int64_t scale = 1, first = 0; ///< unit u reads from position u * scale + first on
  /// Positions are kept `distance` apart, those of each of the phases side by side, `more` than there are units.
  std::int64_t phases = 1, distance = 1, more = 0;
  struct Tap {
    std::int64_t phase, place;  ///< the place is counted from the unit's
  };
  /// For each position of a unit and each index of the kernel; no place: it does not meet it.
  std::vector<std::vector<std::optional<Tap>>> taps;

  std::int64_t units() const { return (out_size + step - 1) / step; }
  std::int64_t kept(std::int64_t units) const { return units + more; }
  /// The position of the source that is kept at `place` of a phase, for units from `unit` on.
  std::int64_t position(std::int64_t unit, std::int64_t phase, std::int64_t place) const {
    return unit * scale + first + (place * phases + phase) * distance;
  }
};

/// Of a convolution.
inline TileAxis forward_axis(std::int64_t size, std::int64_t out_size, std::int64_t kernel, std::int64_t stride, std::int64_t pad,
                  std::int64_t dilation) {
  TileAxis axis{.size = size, .out_size = out_size, .scale = stride, .first = -pad};
  auto& taps = axis.taps.emplace_back();
  if (kernel == 1) {
    axis.distance = stride;
    taps.push_back(TileAxis::Tap{0, 0});
    return axis;
  }
  axis.phases = stride, axis.more = (kernel - 1) * dilation / stride;
  for (std::int64_t i = 0; i < kernel; ++i) taps.push_back(TileAxis::Tap{i * dilation % stride, i * dilation / stride});
  return axis;
}

}  // namespace neurim::cpu
