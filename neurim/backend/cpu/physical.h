// The axes of a tensor in the order in which its memory runs.
#pragma once
#include <algorithm>
#include <vector>

#include "neurim/graph/kernel.h"

namespace neurim::cpu {

/// One loop over memory: a step of it moves `unit` along the logical axis `axis`.
struct PhysicalAxis {
  int axis;
  std::int64_t size, unit;
};

/// The loops over a tensor, outermost first. A blocked layout has two loops along axis 1; the inner one runs
/// beyond the channels when their count is no multiple of the block. Not for packed layouts.
inline std::vector<PhysicalAxis> physical_axes(const Shape& shape, const Layout& layout) {
  std::vector<PhysicalAxis> axes;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (axis != 1 || layout.kind == Layout::plain)
      axes.push_back({axis, shape[axis], 1});
    else if (layout.kind == Layout::blocked)
      axes.push_back({1, (shape[1] + layout.block - 1) / layout.block, layout.block});
  }
  if (layout.kind == Layout::channels_last) axes.push_back({1, shape[1], 1});
  if (layout.kind == Layout::blocked) axes.push_back({1, layout.block, 1});
  return axes;
}

/// Whether the kernels that loop over physical_axes() take this layout of a shape as it stands.
inline bool loopable(const Shape& shape, const Layout& layout) {
  if (layout.kind == Layout::plain) return true;
  return shape.rank() >= 2 && (layout.kind == Layout::channels_last || layout == Layout{Layout::blocked, 16});
}

/// Into how many parts to cut work whose parts do not meet: a few a chunk, each large enough to be worth a
/// thread.
inline int parts_of(const Site& site, std::int64_t elements, std::int64_t pieces) {
  constexpr std::int64_t kWorthIt = 16384;
  const std::int64_t most = std::min(elements / kWorthIt, pieces);
  return static_cast<int>(std::clamp<std::int64_t>(most, 1, 4 * site.chunks));
}

/// Where part number `part` begins when `pieces` are cut into `parts`.
inline std::int64_t part_begin(std::int64_t pieces, int parts, int part) { return pieces * part / parts; }

}  // namespace neurim::cpu
