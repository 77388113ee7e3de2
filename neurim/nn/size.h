// Sizes along the axes of a series, an image or a volume; one number stands for all axes.
#pragma once
#include <algorithm>
#include <concepts>

#include "neurim/base/error.h"
#include "neurim/graph/op.h"
#include "neurim/ops/common/window.h"

namespace neurim::nn {

/// One number for each of N spatial axes.
template <std::size_t N>
struct Size {
  std::array<std::int64_t, N> each;                              ///< [depth,] [height,] width
  constexpr Size(std::int64_t all) : each(each_axis<N>(all)) {}  ///< the same on all axes
  /// One number an axis.
  template <std::convertible_to<std::int64_t>... Sizes>
    requires(N > 1 && sizeof...(Sizes) == N)
  constexpr Size(Sizes... sizes) : each{static_cast<std::int64_t>(sizes)...} {}
  constexpr operator const std::array<std::int64_t, N>&() const { return each; }    ///< as the ops take it
  constexpr std::int64_t operator[](std::size_t axis) const { return each[axis]; }  ///< axis 0 is the first spatial one
};
/// [height, width].
using Size2d = Size<2>;
/// [depth, height, width].
using Size3d = Size<3>;

/// Visited as a list: a number an axis, or one for all.
template <std::size_t N>
void field(Fields& f, std::string_view name, Size<N>& size) {
  std::vector<std::int64_t> list(size.each.begin(), size.each.end());
  f(name, list);
  require(list.size() == 1 || list.size() == N, name, ": takes one number", N == 1 ? "" : text(" or ", N), ", got ",
          list.size());
  size = list[0];
  if (list.size() == N) std::copy(list.begin(), list.end(), size.each.begin());
}

/// The same padding at both ends of each axis, in the order of the ops: all begins, then all ends.
template <std::size_t N>
constexpr std::array<std::int64_t, 2 * N> both_ends(const Size<N>& pad) {
  std::array<std::int64_t, 2 * N> ends{};
  for (std::size_t axis = 0; axis < N; ++axis) ends[axis] = ends[axis + N] = pad[axis];
  return ends;
}

}  // namespace neurim::nn
