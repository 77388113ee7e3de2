// What max and average pooling share: the options and the rule of output sizes.
#pragma once
#include "neurim/ops/list_field.h"
#include "neurim/ops/window.h"

namespace neurim {

/// A two-dimensional window that slides over the last two axes.
struct Pool2dOptions {
  std::array<std::int64_t, 2> kernel{2, 2};     ///< height, width
  std::array<std::int64_t, 2> stride{0, 0};     ///< 0: the kernel
  std::array<std::int64_t, 4> pad{0, 0, 0, 0};  ///< top, left, bottom, right, as ONNX
  std::array<std::int64_t, 2> dilation{1, 1};
  bool ceil_mode =
      false;  ///< also the last window that overhangs, when it starts inside the input or left padding
  bool count_include_pad = true;  ///< average pooling: padding counts in the divisor

  void fields(Fields& f) {
    list_field(f, "kernel", kernel);
    list_field(f, "stride", stride);
    list_field(f, "pad", pad);
    list_field(f, "dilation", dilation);
    f("ceil_mode", ceil_mode)("count_include_pad", count_include_pad);
  }
};

/// The options with every stride given, for kernels.
inline Pool2dOptions resolved(Pool2dOptions options) {
  for (std::size_t axis = 0; axis < 2; ++axis)
    if (options.stride[axis] == 0) options.stride[axis] = options.kernel[axis];
  return options;
}

/// The output shape of pooling x(N,C,H,W); throws Error(usage) that starts with `who`.
inline Shape pooled_shape(std::string_view who, const Shape& x, const Pool2dOptions& given) {
  const Pool2dOptions o = resolved(given);
  require(x.rank() == 4, who, ": takes x(N,C,H,W), got a tensor of shape ", x);
  Shape out = x;
  for (std::size_t axis = 0; axis < 2; ++axis) {
    const std::string_view side = axis == 0 ? "height" : "width";
    require(o.kernel[axis] > 0 && o.stride[axis] > 0 && o.dilation[axis] > 0, who, ": kernel ",
            o.kernel[axis], ", stride ", o.stride[axis], " and dilation ", o.dilation[axis], " of the ", side,
            " have to be positive");
    const std::int64_t extent = o.dilation[axis] * (o.kernel[axis] - 1) + 1;
    for (const std::int64_t pad : {o.pad[axis], o.pad[axis + 2]})
      require(pad >= 0 && pad < extent, who, ": padding ", pad, " of the ", side, " has to lie in [0, ",
              extent, "), the extent of the kernel, or a window would see padding alone");
    const int image_axis = static_cast<int>(axis) + 2;
    out[image_axis] = window_count(x[image_axis], o.kernel[axis], o.stride[axis], o.dilation[axis],
                                   o.pad[axis], o.pad[axis + 2], o.ceil_mode);
    require(out[image_axis] > 0, who, ": a kernel of extent ", extent, " does not fit into ", side, " ",
            x[image_axis], " with padding ", o.pad[axis], " and ", o.pad[axis + 2], " of input ", x);
  }
  return out;
}

}  // namespace neurim
