// Poolings as ONNX writes them. Internal to ops/.
#pragma once
#include <algorithm>

#include "neurim/graph/onnx.h"
#include "neurim/ops/common/pool.h"

namespace neurim {

/// The padding with which rounding down gives as many windows as `ceil_mode` does: ONNX's own ceil_mode
/// counts differently in different opsets and runtimes.
template <std::size_t N>
std::array<std::int64_t, 2 * N> widened(const PoolOptions<N>& o, const Shape& x, const Shape& y) {
  std::array<std::int64_t, 2 * N> pad = o.pad;
  for (std::size_t axis = 0; axis < N; ++axis) {
    const int image_axis = static_cast<int>(axis) + 2;
    const std::int64_t end_of_last = (y[image_axis] - 1) * o.stride[axis] + o.dilation[axis] * (o.kernel[axis] - 1) + 1;
    pad[axis + N] = std::max<std::int64_t>(pad[axis + N], end_of_last - o.pad[axis] - x[image_axis]);
  }
  return pad;
}

/// The attributes that both poolings have; dilations of 1 are left out, as old opsets know no others.
template <std::size_t N>
OnnxAttributes onnx_window(const PoolOptions<N>& o) {
  using List = std::vector<std::int64_t>;
  OnnxAttributes attributes{{"kernel_shape", List(o.kernel.begin(), o.kernel.end())},
                            {"strides", List(o.stride.begin(), o.stride.end())},
                            {"pads", List(o.pad.begin(), o.pad.end())}};
  if (o.dilation != each_axis<N>(1)) attributes.emplace_back("dilations", List(o.dilation.begin(), o.dilation.end()));
  return attributes;
}

}  // namespace neurim
