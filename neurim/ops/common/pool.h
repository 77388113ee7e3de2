// What max and average pooling share: the options, the rule of output sizes, and pooling over one or three
// axes by pooling over two.
#pragma once
#include "neurim/ops/common/list_field.h"
#include "neurim/ops/common/window.h"
#include "neurim/ops/reshape.h"

namespace neurim {

/// A window that slides over the last N axes: [depth,] [height,] width.
template <std::size_t N>
struct PoolOptions {
  /// Places of a window along each axis.
  std::array<std::int64_t, N> kernel = each_axis<N>(2);
  std::array<std::int64_t, N> stride{};   ///< 0: the kernel
  std::array<std::int64_t, 2 * N> pad{};  ///< all begins, then all ends, as ONNX: top, left, bottom, right
  /// Distance between places of a window.
  std::array<std::int64_t, N> dilation = each_axis<N>(1);
  bool ceil_mode = false;  ///< also the last window that overhangs, when it starts inside the input or left padding
  bool count_include_pad = true;  ///< average pooling: padding counts in the divisor

  void fields(Fields& f) {
    list_field(f, "kernel", kernel);
    list_field(f, "stride", stride);
    list_field(f, "pad", pad);
    list_field(f, "dilation", dilation);
    f("ceil_mode", ceil_mode)("count_include_pad", count_include_pad);
  }
};
using Pool1dOptions = PoolOptions<1>;  ///< of x(N,C,L)
using Pool2dOptions = PoolOptions<2>;  ///< of x(N,C,H,W)
using Pool3dOptions = PoolOptions<3>;  ///< of x(N,C,D,H,W)

/// The options with every stride given, for kernels.
template <std::size_t N>
PoolOptions<N> resolved(PoolOptions<N> options) {
  for (std::size_t axis = 0; axis < N; ++axis)
    if (options.stride[axis] == 0) options.stride[axis] = options.kernel[axis];
  return options;
}

/// Throws Error(usage) that starts with `who` unless x is (N,C,…) with N axes to pool over.
template <std::size_t N>
void check_pooled(std::string_view who, const Shape& x) {
  constexpr std::string_view kInput = N == 1 ? "(N,C,L)" : N == 2 ? "(N,C,H,W)" : "(N,C,D,H,W)";
  require(x.rank() == int{N} + 2, who, ": takes x", kInput, ", got a tensor of shape ", x);
}

/// The output shape of pooling x(N,C,…); throws Error(usage) that starts with `who`.
template <std::size_t N>
Shape pooled_shape(std::string_view who, const Shape& x, const PoolOptions<N>& given) {
  const PoolOptions<N> o = resolved(given);
  check_pooled<N>(who, x);
  Shape out = x;
  for (std::size_t axis = 0; axis < N; ++axis) {
    const std::string_view side = side_name<N>(axis);
    require(o.kernel[axis] > 0 && o.stride[axis] > 0 && o.dilation[axis] > 0, who, ": kernel ", o.kernel[axis],
            ", stride ", o.stride[axis], " and dilation ", o.dilation[axis], " of the ", side, " have to be positive");
    const std::int64_t extent = o.dilation[axis] * (o.kernel[axis] - 1) + 1;
    for (const std::int64_t pad : {o.pad[axis], o.pad[axis + N]})
      require(pad >= 0 && pad < extent, who, ": padding ", pad, " of the ", side, " has to lie in [0, ", extent,
              "), the extent of the kernel, or a window would see padding alone");
    const int image_axis = static_cast<int>(axis) + 2;
    out[image_axis] = window_count(x[image_axis], o.kernel[axis], o.stride[axis], o.dilation[axis], o.pad[axis],
                                   o.pad[axis + N], o.ceil_mode);
    require(out[image_axis].may_be_positive(), who, ": a kernel of extent ", extent, " does not fit into ", side, " ",
            x[image_axis], " with padding ", o.pad[axis], " and ", o.pad[axis + N], " of input ", x);
  }
  return out;
}

/// The window over two of the axes; -1: an axis that is not there.
template <std::size_t N>
Pool2dOptions over_plane(const PoolOptions<N>& given, int rows, int columns) {
  const PoolOptions<N> o = resolved(given);
  Pool2dOptions plane{.kernel = {1, 1}, .ceil_mode = o.ceil_mode, .count_include_pad = o.count_include_pad};
  for (const auto& [to, from] : {std::pair(0, rows), std::pair(1, columns)}) {
    if (from < 0) continue;
    const auto in = static_cast<std::size_t>(to), at = static_cast<std::size_t>(from);
    plane.kernel[in] = o.kernel[at], plane.stride[in] = o.stride[at], plane.dilation[in] = o.dilation[at];
    plane.pad[in] = o.pad[at], plane.pad[in + 2] = o.pad[at + N];
  }
  return plane;
}

/// x(N,C,L) pooled by `pool2d(x, Pool2dOptions)`.
template <class Pool2d>
Tensor by_planes(const Tensor& x, const PoolOptions<1>& options, Pool2d pool2d) {
  const Tensor y = pool2d(reshape(x, {x.size(0), x.size(1), 1, x.size(2)}), over_plane(options, -1, 0));
  return reshape(y, {x.size(0), x.size(1), y.size(3)});
}

/// x(N,C,D,H,W) pooled by `pool2d(x, Pool2dOptions)`, first over height and width, then over depth: right for
/// the maximum, of which a window's first place in row-major order stays the first, and for the mean, whose
/// divisor is a product over the axes.
template <class Pool2d>
Tensor by_planes(const Tensor& x, const PoolOptions<3>& options, Pool2d pool2d) {
  const Shape& s = x.shape();
  const Tensor planes = pool2d(reshape(x, {s[0], s[1] * s[2], s[3], s[4]}), over_plane(options, 1, 2));
  const Dim height = planes.size(2), width = planes.size(3);
  const Tensor y = pool2d(reshape(planes, {s[0], s[1], s[2], height * width}), over_plane(options, 0, -1));
  return reshape(y, {s[0], s[1], y.size(2), height, width});
}

}  // namespace neurim
