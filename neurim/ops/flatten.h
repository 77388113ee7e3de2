// Joining the trailing axes.
#pragma once
#include "neurim/ops/reshape.h"

namespace neurim {

/// x (d0, …, dn) as (d0, …, d(start_axis-1), product of the others); start_axis may count from the back.
/// Throws Error(usage) when x has no such axis.
inline Tensor flatten(const Tensor& x, std::int64_t start_axis = 1) {
  const int start = normal_axis(start_axis, x.rank(), "flatten");
  Shape shape(std::span(x.shape().begin(), static_cast<std::size_t>(start)));
  std::int64_t rest = 1;
  for (int axis = start; axis < x.rank(); ++axis) rest *= x.size(axis);
  shape.push_back(rest);
  return reshape(x, shape);
}

}  // namespace neurim
