// Poolings.
#include <limits>

#include "neurim/base/error.h"
#include "neurim/model/onnx/operators/operators.h"
#include "neurim/model/onnx/operators/window.h"
#include "neurim/ops/abs.h"
#include "neurim/ops/avg_pool.h"
#include "neurim/ops/common/rules.h"
#include "neurim/ops/common/wide.h"
#include "neurim/ops/div.h"
#include "neurim/ops/global_avg_pool2d.h"
#include "neurim/ops/global_max_pool2d.h"
#include "neurim/ops/max_pool.h"
#include "neurim/ops/max_roi_pool.h"
#include "neurim/ops/max_unpool.h"
#include "neurim/ops/mean.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/pad.h"
#include "neurim/ops/pow.h"
#include "neurim/ops/reduce_max.h"
#include "neurim/ops/sqrt.h"
#include "neurim/ops/square.h"
#include "neurim/ops/sum.h"

namespace neurim {

namespace {

OnnxWindow pool_window(const OnnxCall& call, const Tensor& x) {
  require(call.has("kernel_shape"), "kernel_shape is missing");
  OnnxWindow window = window_of(call, x.shape());
  pad_automatically(window, x.shape());
  return window;
}

/// Where auto_pad says the sizes, rounding up and down give the same.
bool rounds_up(const OnnxCall& call, const OnnxWindow& window) {
  return call.integer("ceil_mode", std::int64_t{0}) != 0 && !window.automatic();
}

template <std::size_t N>
PoolOptions<N> pool_options(const OnnxWindow& window, bool ceil_mode, bool count_include_pad = true) {
  return {.kernel = array_of<N>(window.kernel),
          .stride = array_of<N>(window.strides),
          .pad = array_of<2 * N>(window.pads),
          .dilation = array_of<N>(window.dilations),
          .ceil_mode = ceil_mode,
          .count_include_pad = count_include_pad};
}

/// Whether a window may lie in padding alone, which the ops do not take as an option.
bool pads_far(const OnnxWindow& window) {
  for (std::size_t i = 0; i < window.pads.size(); ++i)
    if (window.pads[i] >= window.extent(i % window.axes())) return true;
  return false;
}

/// x with its padding around it, which the window has no more.
Tensor with_border(const Tensor& x, OnnxWindow& window, double value) {
  const std::size_t axes = window.axes();
  std::vector<std::int64_t> pads(2 * axes + 4);
  for (std::size_t axis = 0; axis < axes; ++axis) {
    pads[axis + 2] = window.pads[axis];
    pads[axes + axis + 4] = window.pads[axis + axes];
  }
  if (std::all_of(pads.begin(), pads.end(), [](std::int64_t each) { return each == 0; })) return x;
  std::fill(window.pads.begin(), window.pads.end(), 0);
  return pad(x, pads, value);
}

double least_of(DType dtype) {
  return dtype == DType::u8 ? 0 : dtype == DType::i8 ? -128 : -std::numeric_limits<double>::infinity();
}

OnnxValues max_pool_rule(const OnnxCall& call) {
  const Tensor& x = call.tensor(0);
  OnnxWindow window = pool_window(call, x);
  const bool ceil_mode = rounds_up(call, window);
  OnnxValues out(2);
  if (call.wants(1))
    out[1] = max_pool_indices(x, {.kernel = window.kernel,
                                  .stride = window.strides,
                                  .dilation = window.dilations,
                                  .pad = window.pads,
                                  .ceil_mode = ceil_mode,
                                  .column_major = call.integer("storage_order", std::int64_t{0}) != 0});
  const Tensor seen = pads_far(window) ? with_border(x, window, least_of(x.dtype())) : x;
  out[0] = for_axes(window.axes(), [&]<std::size_t N>() { return max_pool(seen, pool_options<N>(window, ceil_mode)); });
  return out;
}

Tensor averaged(const Tensor& x, const OnnxWindow& window, bool ceil_mode, bool count_include_pad) {
  return for_axes(window.axes(),
                  [&]<std::size_t N>() { return avg_pool(x, pool_options<N>(window, ceil_mode, count_include_pad)); });
}

OnnxValues average_pool_rule(const OnnxCall& call) {
  const Tensor& x = call.tensor(0);
  OnnxWindow window = pool_window(call, x);
  const bool ceil_mode = rounds_up(call, window), count_pad = call.integer("count_include_pad", std::int64_t{0}) != 0;
  if (!pads_far(window)) return {averaged(x, window, ceil_mode, count_pad)};
  const OnnxWindow given = window;
  const Tensor y = averaged(with_border(x, window, 0), window, ceil_mode, true);
  if (count_pad) return {y};
  window = given;
  const Tensor ones = with_border(Tensor::full({x.dtype(), x.shape()}, 1, x.device()), window, 0);
  return {y / averaged(ones, window, ceil_mode, true)};
}

/// Until version 2 p was a number.
double norm_of(const OnnxCall& call) {
  const double p = call.version() < 2 ? call.number("p", 2.0) : static_cast<double>(call.integer("p", std::int64_t{2}));
  require(p > 0, "p is ", p, ", where a positive number is wanted");
  return p;
}

Tensor powers_of(const Tensor& x, double p) {
  return p == 1 ? abs(x) : p == 2 ? square(x) : pow(abs(x), scalar_like(x, p));
}

Tensor root_of(const Tensor& x, double p) { return p == 1 ? x : p == 2 ? sqrt(x) : pow(x, scalar_like(x, 1 / p)); }

OnnxValues lp_pool_rule(const OnnxCall& call) {
  const double p = norm_of(call);
  const Tensor powers = powers_of(wide(call.tensor(0)), p);
  OnnxWindow window = pool_window(call, powers);
  const bool ceil_mode = rounds_up(call, window);
  double places = 1;
  for (const std::int64_t size : window.kernel) places *= static_cast<double>(size);
  // Zeros as far as the last window reaches: an average counts no places beyond the padding.
  for (std::size_t axis = 0; axis < window.axes() && ceil_mode; ++axis) {
    const Dim size = powers.size(static_cast<int>(axis) + 2);
    std::int64_t& end = window.pads[axis + window.axes()];
    const Dim count = window_count(size, window.kernel[axis], window.strides[axis], window.dilations[axis],
                                   window.pads[axis], end, true);
    const std::int64_t reach = (count - 1) * window.strides[axis] + window.extent(axis) - size - window.pads[axis];
    end = std::max(end, reach);
  }
  const Tensor seen = with_border(powers, window, 0);
  return {cast(root_of(averaged(seen, window, false, true) * places, p), call.tensor(0).dtype())};
}

OnnxValues global_lp_pool_rule(const OnnxCall& call) {
  const double p = norm_of(call);
  const Tensor powers = powers_of(wide(call.tensor(0)), p);
  const std::vector<std::int64_t> axes = spatial_axes(powers.shape());
  return {cast(root_of(axes.empty() ? powers : sum(powers, axes, true), p), call.tensor(0).dtype())};
}

OnnxValues max_unpool_rule(const OnnxCall& call) {
  const Tensor& x = call.tensor(0);
  require(call.has("kernel_shape"), "kernel_shape is missing");
  const OnnxWindow window = window_of(call, x.shape());
  Shape shape{x.size(0), x.size(1)};
  for (std::size_t axis = 0; axis < window.axes(); ++axis)
    shape.push_back((x.size(static_cast<int>(axis) + 2) - 1) * window.strides[axis] + window.kernel[axis] -
                    window.pads[axis] - window.pads[axis + window.axes()]);
  const Tensor y = max_unpool(x, call.tensor(1), shape);
  if (!call.has(2)) return {y};
  // The indices are those of the size that follows from the window; more is zeros.
  std::vector<std::int64_t> sizes = call.integers(2);
  require(std::ssize(sizes) == x.rank(), "output_shape has ", sizes.size(), " numbers for an input ", x.shape());
  std::vector<std::int64_t> ends(2 * sizes.size());
  for (std::size_t axis = 0; axis < sizes.size(); ++axis)
    ends[axis + sizes.size()] = sizes[axis] - shape[static_cast<int>(axis)];
  return {pad(y, ends)};
}

OnnxValues max_roi_pool_rule(const OnnxCall& call) {
  const std::vector<std::int64_t> size = call.integers("pooled_shape");
  require(size.size() == 2, "pooled_shape has ", size.size(), " numbers, where two are wanted");
  return {max_roi_pool(call.tensor(0), call.tensor(1), size[0], size[1], call.number("spatial_scale", 1.0))};
}

}  // namespace

void add_pool_operators(OnnxOperators& to) {
  to.add("MaxPool", 1, max_pool_rule);
  to.add("AveragePool", 1, average_pool_rule);
  to.add("LpPool", 1, lp_pool_rule);
  to.add("GlobalLpPool", 1, global_lp_pool_rule);
  to.add("GlobalAveragePool", 1, [](const OnnxCall& call) {
    const Tensor& x = call.tensor(0);
    if (x.rank() == 4) return OnnxValues{global_avg_pool2d(x)};
    return OnnxValues{x.rank() == 2 ? x : mean(x, spatial_axes(x.shape()), true)};
  });
  to.add("GlobalMaxPool", 1, [](const OnnxCall& call) {
    const Tensor& x = call.tensor(0);
    if (x.rank() == 4) return OnnxValues{global_max_pool2d(x)};
    return OnnxValues{x.rank() == 2 ? x : reduce_max(x, spatial_axes(x.shape()), true)};
  });
  to.add("MaxUnpool", 9, max_unpool_rule);
  to.add("MaxRoiPool", 1, max_roi_pool_rule);
}

}  // namespace neurim
