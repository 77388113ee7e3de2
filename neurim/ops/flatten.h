// Joining neighbouring axes, and taking one apart.
#pragma once
#include "neurim/ops/reshape.h"

namespace neurim {

/// x with the axes start_axis … end_axis, both included, as one; either may count from the back. Throws
/// Error(usage) when x has no such axes or they stand in the wrong order.
inline Tensor flatten(const Tensor& x, std::int64_t start_axis = 1, std::int64_t end_axis = -1) {
  const int start = normal_axis(start_axis, x.rank(), "flatten"), end = normal_axis(end_axis, x.rank(), "flatten");
  require(start <= end, "flatten: start axis ", start, " of ", x.shape(), " is behind end axis ", end);
  Shape shape(std::span(x.shape().begin(), static_cast<std::size_t>(start)));
  std::int64_t joined = 1;
  for (int axis = start; axis <= end; ++axis) joined *= x.size(axis);
  shape.push_back(joined);
  for (int axis = end + 1; axis < x.rank(); ++axis) shape.push_back(x.size(axis));
  return reshape(x, shape);
}

/// x with the axis `axis` as several of the given sizes, one of which may be -1 and follows from the others.
/// Throws Error(usage) unless their product is the size of the axis.
inline Tensor unflatten(const Tensor& x, std::int64_t axis, const Shape& sizes) {
  const int along = normal_axis(axis, x.rank(), "unflatten");
  std::int64_t known = 1, open = 0;
  bool fits = true;
  for (const std::int64_t size : sizes)
    if (size == -1)
      ++open;
    else
      fits = fits && !__builtin_mul_overflow(known, size, &known);
  const std::int64_t whole = x.size(along);
  require(fits && (open == 0 ? known == whole : open == 1 && known > 0 && whole % known == 0), "unflatten: axis ",
          along, " of ", x.shape(), " does not divide into ", sizes);
  Shape shape(std::span(x.shape().begin(), static_cast<std::size_t>(along)));
  for (const std::int64_t size : sizes) shape.push_back(size == -1 ? whole / known : size);
  for (int a = along + 1; a < x.rank(); ++a) shape.push_back(x.size(a));
  return reshape(x, shape);
}

}  // namespace neurim
