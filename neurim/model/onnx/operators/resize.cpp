// Resize: along each axis a product with a matrix of weights, which sizes give; or the op interpolate where it computes
// the same.
#include "neurim/model/onnx/operators/resize.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "neurim/base/error.h"
#include "neurim/base/text.h"
#include "neurim/ops/cast.h"
#include "neurim/ops/gather.h"
#include "neurim/ops/interpolate.h"
#include "neurim/ops/math_function.h"
#include "neurim/ops/matmul.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/transpose.h"
#include "neurim/ops/where.h"

namespace neurim {

namespace {

/// One axis of a resize.
struct ResizedAxis {
  int axis = 0;
  std::int64_t in = 0, out = 0;
  double scale = 1;
  double roi_start = 0, roi_end = 1;  // of tf_crop_and_resize, shares of the axis
};

struct ResizeHow {
  std::string mode, places, nearest;
  double cubic_a = -0.75, extrapolation = 0;
  bool exclude_outside = false, antialias = false;
};

/// Where an element of the result lies in the input.
double place_of(const ResizedAxis& a, const ResizeHow& how, std::int64_t i) {
  const auto x = static_cast<double>(i), in = static_cast<double>(a.in), out = static_cast<double>(a.out),
             exact = a.scale * in;  // the size of the result before it was cut to a whole number
  const std::string& places = how.places;
  if (places == "half_pixel") return (x + 0.5) / a.scale - 0.5;
  if (places == "pytorch_half_pixel") return exact == 1 ? 0 : (x + 0.5) / a.scale - 0.5;
  if (places == "asymmetric") return x / a.scale;
  if (places == "align_corners") return exact == 1 ? 0 : x * (in - 1) / (exact - 1);
  if (places == "tf_half_pixel_for_nn") return (x + 0.5) / a.scale;
  if (places == "half_pixel_symmetric") return in / 2 * (1 - out / exact) + (x + 0.5) / a.scale - 0.5;
  require(places == "tf_crop_and_resize", "coordinate_transformation_mode is '", places, "', which is none");
  return exact == 1 ? 0.5 * (a.roi_start + a.roi_end) * (in - 1)
                    : a.roi_start * (in - 1) + x * (a.roi_end - a.roi_start) * (in - 1) / (exact - 1);
}

std::int64_t nearest_of(const ResizeHow& how, double x) {
  if (how.nearest == "round_prefer_floor") return static_cast<std::int64_t>(std::ceil(x - 0.5));
  if (how.nearest == "round_prefer_ceil") return static_cast<std::int64_t>(std::floor(x + 0.5));
  if (how.nearest == "floor") return static_cast<std::int64_t>(std::floor(x));
  require(how.nearest == "ceil", "nearest_mode is '", how.nearest, "', which is none");
  return static_cast<std::int64_t>(std::ceil(x));
}

/// Keys' kernel.
double cubic(double t, double a) {
  t = std::abs(t);
  if (t <= 1) return ((a + 2) * t - (a + 3)) * t * t + 1;
  return t < 2 ? ((t - 5) * t + 8) * t * a - 4 * a : 0;
}

/// The weights of the input's elements for one of the result, a row of the matrix.
void weigh(const ResizedAxis& a, const ResizeHow& how, double x, double* row) {
  const bool linear = how.mode == "linear";
  const double scale = how.antialias ? std::min(a.scale, 1.0) : 1.0, reach = linear ? 1 : 2;
  const auto first = static_cast<std::int64_t>(std::floor(-reach / scale)) + 1;
  const auto base = static_cast<std::int64_t>(std::ceil(x)) - 1;
  const double ratio = x - static_cast<double>(base);
  std::vector<std::pair<std::int64_t, double>> weights;
  double sum = 0;
  for (std::int64_t i = first; i < 2 - first; ++i) {
    const double t = (static_cast<double>(i) - ratio) * scale;
    double weight = linear ? std::max(1 - std::abs(t), 0.0) : cubic(t, how.cubic_a);
    if (how.exclude_outside && (base + i < 0 || base + i >= a.in)) weight = 0;
    weights.emplace_back(base + i, weight);
    sum += weight;
  }
  const double divisor = how.antialias || how.exclude_outside ? sum : 1;
  for (const auto& [at, weight] : weights) row[std::clamp<std::int64_t>(at, 0, a.in - 1)] += weight / divisor;
}

Tensor moved_last(const Tensor& x, int axis, bool back) {
  if (axis == x.rank() - 1) return x;
  std::vector<std::int64_t> order;
  for (int i = 0; i < x.rank(); ++i)
    if (i != axis) order.push_back(i);
  order.push_back(axis);
  if (!back) return transpose(x, order);
  std::vector<std::int64_t> inverse(order.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    inverse[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  return transpose(x, inverse);
}

Tensor resized(const Tensor& x, const ResizedAxis& a, const ResizeHow& how) {
  if (how.mode == "nearest") {
    std::vector<std::int64_t> places;
    for (std::int64_t i = 0; i < a.out; ++i)
      places.push_back(std::clamp<std::int64_t>(nearest_of(how, place_of(a, how, i)), 0, a.in - 1));
    return gather(x, Tensor::from({a.out}, places), a.axis);
  }
  std::vector<double> weights(static_cast<std::size_t>(a.out * a.in));
  for (std::int64_t i = 0; i < a.out; ++i) weigh(a, how, place_of(a, how, i), weights.data() + i * a.in);
  const Tensor matrix = cast(Tensor::from({DType::f64, {a.out, a.in}}, weights.data()), x.dtype());
  return moved_last(matmul(moved_last(x, a.axis, false), matrix, false, true), a.axis, true);
}

/// What interpolate computes, if that is the same: of the axes after the first two.
std::optional<InterpolateOptions> interpolation(const Tensor& x, const std::vector<ResizedAxis>& axes,
                                                const ResizeHow& how, bool of_scales) {
  const int rank = x.rank();
  if (rank < 3 || rank > 4 || !is_floating(x.dtype()) || how.antialias || how.exclude_outside) return std::nullopt;
  InterpolateOptions options;
  const bool half_pixel = how.places == "half_pixel" || how.places == "pytorch_half_pixel";
  if (how.mode == "nearest" && how.places == "asymmetric" && how.nearest == "floor")
    options.mode = "nearest";
  else if (how.mode == "linear" && (half_pixel || how.places == "align_corners"))
    options.mode = rank == 3 ? "linear" : "bilinear";
  else if (how.mode == "cubic" && rank == 4 && how.cubic_a == -0.75 && (half_pixel || how.places == "align_corners"))
    options.mode = "bicubic";
  else
    return std::nullopt;
  options.align_corners = how.places == "align_corners";
  for (int axis = 2; axis < rank; ++axis) {
    options.size.push_back(x.size(axis));
    options.scale_factor.push_back(1);
  }
  for (const ResizedAxis& a : axes) {
    const bool whole = std::abs(a.scale * static_cast<double>(a.in) - static_cast<double>(a.out)) < 1e-9;
    if (a.axis < 2 || a.in == 0 || (!whole && (options.align_corners || !of_scales)) || (half_pixel && a.out == 1))
      return std::nullopt;
    options.size[static_cast<std::size_t>(a.axis) - 2] = a.out;
    options.scale_factor[static_cast<std::size_t>(a.axis) - 2] = a.scale;
  }
  if (of_scales && !options.align_corners)
    options.size.clear();
  else
    options.scale_factor.clear();
  return options;
}

/// Where tf_crop_and_resize looks outside of the input, `extrapolation` stands instead.
Tensor with_outside(const Tensor& y, const std::vector<ResizedAxis>& axes, const ResizeHow& how) {
  Tensor result = y;
  for (const ResizedAxis& a : axes) {
    std::vector<std::uint8_t> outside(static_cast<std::size_t>(a.out));
    for (std::int64_t i = 0; i < a.out; ++i) {
      const double x = place_of(a, how, i);
      outside[static_cast<std::size_t>(i)] = x < 0 || x > static_cast<double>(a.in) - 1;
    }
    if (std::none_of(outside.begin(), outside.end(), [](std::uint8_t each) { return each != 0; })) continue;
    Shape shape;
    for (int axis = 0; axis < y.rank(); ++axis) shape.push_back(axis == a.axis ? Dim(a.out) : Dim(1));
    result = where(Tensor::from({DType::boolean, shape}, outside.data()), Tensor::scalar(how.extrapolation, y.dtype()),
                   result);
  }
  return result;
}

OnnxValues resize_axes(const OnnxCall& call, const std::vector<ResizedAxis>& axes, const ResizeHow& how,
                       bool of_scales) {
  const Tensor& x = call.tensor(0);
  std::vector<ResizedAxis> changed;
  for (const ResizedAxis& a : axes)
    if (a.in != a.out || a.scale != 1 || how.places == "tf_crop_and_resize") changed.push_back(a);
  if (changed.empty()) return {x};
  const bool empty = std::any_of(axes.begin(), axes.end(), [](const ResizedAxis& a) { return a.in == 0 && a.out > 0; });
  require(!empty, "an axis of no elements cannot grow");
  if (const auto options = interpolation(x, changed, how, of_scales)) return {interpolate(x, *options)};
  const bool exact = how.mode == "nearest";
  const bool whole = !is_floating(x.dtype());
  Tensor y = exact || bits(x.dtype()) >= 32 ? x : cast(x, DType::f32);
  if (!exact && whole) y = cast(x, DType::f64);
  for (const ResizedAxis& a : changed) y = resized(y, a, how);
  if (how.places == "tf_crop_and_resize") y = with_outside(y, changed, how);
  // Whole numbers are cut off, but not where a sum is below one by its rounding alone.
  if (!exact && whole) y = math_function(y * 0x1p20, "round") * 0x1p-20;
  return {OnnxValue(cast(y, x.dtype()), call.in(0).element())};
}

/// Sizes and scales as the inputs say, for the named axes or all.
std::vector<ResizedAxis> resized_axes(const OnnxCall& call, int scales_input, int sizes_input, bool& of_scales) {
  const Shape& x = call.in(0).shape();
  std::vector<std::int64_t> axes = call.integers("axes");
  if (axes.empty()) {
    axes.resize(static_cast<std::size_t>(x.rank()));
    std::iota(axes.begin(), axes.end(), 0);
  }
  const auto given = [&](int input) { return input >= 0 && call.has(input) && call.in(input).shape().numel() > 0; };
  of_scales = given(scales_input);
  require(of_scales || given(sizes_input), "neither scales nor sizes are given");
  std::vector<Dim> sizes;
  if (!of_scales) sizes = call.dims(sizes_input);
  std::vector<double> numbers = of_scales ? call.numbers(scales_input) : std::vector<double>(sizes.size(), 1);
  require(numbers.size() == axes.size(), "there are ", numbers.size(), of_scales ? " scales" : " sizes", " for ",
          axes.size(), " axes");
  std::vector<ResizedAxis> all;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    ResizedAxis a{.axis = call.axis(axes[i])};
    if (x[a.axis].symbolic() && (of_scales ? numbers[i] == 1 : sizes[i] == x[a.axis])) {  // it stays
      all.push_back({.axis = a.axis, .in = 1, .out = 1, .scale = 1});
      continue;
    }
    a.in = x[a.axis];
    if (!of_scales) numbers[i] = static_cast<double>(std::int64_t{sizes[i]});
    a.scale = of_scales ? numbers[i] : numbers[i] / static_cast<double>(std::max<std::int64_t>(a.in, 1));
    require(numbers[i] >= 0 && numbers[i] < 0x1p31, "a size or scale is ", numbers[i]);  // false for NaN
    a.out = static_cast<std::int64_t>(
        of_scales ? std::floor(static_cast<double>(a.in) * static_cast<double>(static_cast<float>(a.scale)))
                  : numbers[i]);
    require(a.scale > 0 || a.in == 0 || a.out == 0, "a scale is ", a.scale);
    all.push_back(a);
  }
  const std::string policy = call.word("keep_aspect_ratio_policy", "stretch");
  if (!of_scales && policy != "stretch") {
    require(policy == "not_larger" || policy == "not_smaller", "keep_aspect_ratio_policy is '", policy,
            "', which is none");
    double scale = all[0].scale;
    for (const ResizedAxis& a : all)
      scale = policy == "not_larger" ? std::min(scale, a.scale) : std::max(scale, a.scale);
    for (ResizedAxis& a : all)
      a.scale = scale, a.out = static_cast<std::int64_t>(std::floor(scale * static_cast<double>(a.in) + 0.5));
  }
  return all;
}

OnnxValues resize_rule(const OnnxCall& call) {
  const bool old = call.version() < 11;
  ResizeHow how{.mode = call.word("mode", "nearest"),
                .places = old ? "asymmetric" : call.word("coordinate_transformation_mode", "half_pixel"),
                .nearest = old ? "floor" : call.word("nearest_mode", "round_prefer_floor"),
                .cubic_a = call.number("cubic_coeff_a", -0.75),
                .extrapolation = call.number("extrapolation_value", 0.0),
                .exclude_outside = call.integer("exclude_outside", std::int64_t{0}) != 0,
                .antialias = call.integer("antialias", std::int64_t{0}) != 0};
  if (how.cubic_a == static_cast<double>(-0.75F)) how.cubic_a = -0.75;
  require(how.mode == "nearest" || how.mode == "linear" || how.mode == "cubic", "mode is '", how.mode,
          "', which is none");
  bool of_scales = false;
  std::vector<ResizedAxis> axes = old ? resized_axes(call, 1, -1, of_scales) : resized_axes(call, 2, 3, of_scales);
  if (how.places == "tf_crop_and_resize") {
    const std::vector<double> roi = call.numbers(1);
    require(roi.size() == 2 * axes.size(), "roi has ", roi.size(), " numbers for ", axes.size(), " axes");
    for (const double each : roi) require(std::abs(each) < 0x1p20, "roi has ", each);  // false for NaN
    for (std::size_t i = 0; i < axes.size(); ++i) axes[i].roi_start = roi[i], axes[i].roi_end = roi[i + axes.size()];
  }
  return resize_axes(call, axes, how, of_scales);
}

/// Upsample: the forerunner of Resize, of scales alone.
OnnxValues upsample_rule(const OnnxCall& call) {
  const std::string mode = call.word("mode", "nearest");
  require(mode == "nearest" || mode == "linear" || mode == "bilinear", "mode is '", mode, "', which is none");
  const ResizeHow how{.mode = mode == "nearest" ? "nearest" : "linear", .places = "asymmetric", .nearest = "floor"};
  bool of_scales = true;
  if (call.version() >= 9) return resize_axes(call, resized_axes(call, 1, -1, of_scales), how, true);
  std::vector<double> scales = call.numbers("scales");
  if (call.version() < 7) scales = {1, 1, call.number("height_scale", 1.0), call.number("width_scale", 1.0)};
  const Shape& x = call.in(0).shape();
  require(std::ssize(scales) == x.rank(), "there are ", scales.size(), " scales for ", x);
  std::vector<ResizedAxis> axes;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const double scale = scales[static_cast<std::size_t>(axis)];
    axes.push_back({.axis = axis,
                    .in = x[axis],
                    .out = static_cast<std::int64_t>(std::floor(static_cast<double>(std::int64_t{x[axis]}) * scale)),
                    .scale = scale});
  }
  return resize_axes(call, axes, how, true);
}

}  // namespace

void add_resize_operators(OnnxOperators& to) {
  to.add("Resize", 10, resize_rule);
  to.add("Upsample", 1, upsample_rule);
}

}  // namespace neurim
