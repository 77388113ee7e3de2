// Windows that slide over the axes of images, as the attributes of ONNX's operators say them. Internal to the
// operators.
#pragma once
#include <algorithm>
#include <array>
#include <limits>

#include "neurim/base/error.h"
#include "neurim/model/onnx/call.h"

namespace neurim {

/// A window over the axes of x(N,C,…) from the third on.
struct OnnxWindow {
  std::vector<std::int64_t> kernel,  ///< places along each axis
      strides,                       ///< steps
      dilations,                     ///< distances between places
      pads;                          ///< all begins, then all ends
  std::string auto_pad;              ///< "NOTSET", "VALID", "SAME_UPPER" or "SAME_LOWER"

  std::size_t axes() const { return kernel.size(); }  ///< how many it slides over
  /// From its first place along an axis to after its last.
  std::int64_t extent(std::size_t axis) const { return dilations[axis] * (kernel[axis] - 1) + 1; }
  bool automatic() const { return auto_pad != "NOTSET"; }  ///< whether sizes say the padding
};

/// The most that a number of a window may be: products of two of them fit into 64 bits.
inline constexpr std::int64_t kMostOfWindow = std::numeric_limits<std::int32_t>::max();

/// The numbers of an attribute, none of which is above kMostOfWindow or below its negative.
inline std::vector<std::int64_t> numbers_of(const OnnxCall& call, std::string_view attribute) {
  std::vector<std::int64_t> all = call.integers(attribute);
  for (const std::int64_t number : all)
    require(number >= -kMostOfWindow && number <= kMostOfWindow, attribute, " has ", number, ", where numbers up to ",
            kMostOfWindow, " are wanted");
  return all;
}

/// Numbers, one for each axis; `otherwise` for each where the attribute is missing.
inline std::vector<std::int64_t> each_of(const OnnxCall& call, std::string_view attribute, std::size_t count,
                                         std::int64_t otherwise) {
  std::vector<std::int64_t> all = numbers_of(call, attribute);
  if (all.empty()) all.assign(count, otherwise);
  require(all.size() == count, attribute, " has ", all.size(), " numbers, where ", count, " are wanted");
  return all;
}

/// What the attributes say. Without `kernel` they have to say it.
inline OnnxWindow window_of(const OnnxCall& call, const Shape& x, std::vector<std::int64_t> kernel = {}) {
  require(x.rank() >= 3, "the input is ", x, ", where (N,C,…) with one axis or more after C is wanted");
  const auto axes = static_cast<std::size_t>(x.rank() - 2);
  OnnxWindow window;
  window.kernel = each_of(call, "kernel_shape", axes, 0);
  if (!kernel.empty()) {
    require(kernel.size() == axes, "the weight has ", kernel.size(), " axes of a window, the input ", x, " has ", axes);
    require(!call.has("kernel_shape") || window.kernel == kernel, "kernel_shape is ", Shape(std::span(window.kernel)),
            ", and the weight has ", Shape(std::span(kernel)));
    window.kernel = std::move(kernel);
  }
  window.strides = each_of(call, "strides", axes, 1);
  window.dilations = each_of(call, "dilations", axes, 1);
  window.pads = each_of(call, "pads", 2 * axes, 0);
  for (const std::vector<std::int64_t>* list : {&window.kernel, &window.strides, &window.dilations})
    for (const std::int64_t number : *list)
      require(number > 0 && number <= kMostOfWindow, "kernel_shape, strides or dilations have ", number,
              ", where positive numbers up to ", kMostOfWindow, " are wanted");
  window.auto_pad = call.word("auto_pad", "NOTSET");
  if (window.auto_pad.empty()) window.auto_pad = "NOTSET";
  for (const std::string_view known : {"NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"})
    if (window.auto_pad == known) return window;
  fail(Fault::usage, "auto_pad is '", window.auto_pad, "', which is not supported");
}

/// Divides padding among the two ends of an axis: the odd element comes last for SAME_UPPER.
inline void pad_axis(OnnxWindow& window, std::size_t axis, std::int64_t total) {
  const std::int64_t less = total / 2, begin = window.auto_pad == "SAME_UPPER" ? less : total - less;
  window.pads[axis] = begin;
  window.pads[axis + window.axes()] = total - begin;
}

/// Sets the padding that auto_pad says for the size of x.
inline void pad_automatically(OnnxWindow& window, const Shape& x) {
  if (!window.automatic()) return;
  std::fill(window.pads.begin(), window.pads.end(), 0);
  if (window.auto_pad == "VALID") return;
  for (std::size_t axis = 0; axis < window.axes(); ++axis) {
    const Dim size = x[static_cast<int>(axis) + 2], windows = (size - 1) / window.strides[axis] + 1;
    const std::int64_t total = (windows - 1) * window.strides[axis] + window.extent(axis) - size;
    pad_axis(window, axis, std::max<std::int64_t>(total, 0));
  }
}

/// The same numbers as an array.
template <std::size_t N>
std::array<std::int64_t, N> array_of(const std::vector<std::int64_t>& list) {
  std::array<std::int64_t, N> all{};
  std::copy_n(list.begin(), N, all.begin());
  return all;
}

/// Calls `body` with the number of axes as its template argument.
template <class Body>
Tensor for_axes(std::size_t axes, Body body) {
  if (axes == 1) return body.template operator()<1>();
  if (axes == 2) return body.template operator()<2>();
  require(axes == 3, "there are ", axes, " axes to slide over, and 1 to 3 are supported");
  return body.template operator()<3>();
}

/// The axes of x after (N,C).
inline std::vector<std::int64_t> spatial_axes(const Shape& x) {
  std::vector<std::int64_t> axes;
  for (int axis = 2; axis < x.rank(); ++axis) axes.push_back(axis);
  return axes;
}

}  // namespace neurim
