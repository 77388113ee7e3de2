#include "neurim/ops/interpolate.h"

#include <algorithm>
#include <cmath>

#include "neurim/graph/onnx.h"
#include "neurim/ops/add.h"
#include "neurim/ops/common/rules.h"
#include "neurim/ops/common/wide.h"
#include "neurim/ops/gather.h"
#include "neurim/ops/mul.h"

namespace neurim {

namespace {

constexpr double kCubic = -0.75;  // Keys' a

/// An element of the result along an axis is the sum over k of weight[k] times element index[k] of x.
struct Taps {
  std::vector<std::vector<std::int64_t>> index;
  std::vector<std::vector<double>> weight;  ///< empty: a single tap of weight 1
};

/// Keys' weights of the four elements around a point at distance t in [0, 1) after the second.
std::array<double, 4> cubic_weights(double t) {
  const auto near = [](double d) { return ((kCubic + 2) * d - (kCubic + 3)) * d * d + 1; };
  const auto far = [](double d) { return ((kCubic * d - 5 * kCubic) * d + 8 * kCubic) * d - 4 * kCubic; };
  return {far(t + 1), near(t), near(1 - t), far(2 - t)};
}

/// For an axis whose size goes from `in` to `out`; `scale` is 0 where the size was given.
Taps taps_of(const InterpolateOptions& o, std::int64_t in, std::int64_t out, double scale) {
  const auto clamped = [in](std::int64_t i) { return std::clamp<std::int64_t>(i, 0, in - 1); };
  const bool cubic = o.mode == "bicubic", nearest = o.mode.starts_with("nearest");
  const std::size_t count = nearest ? 1 : cubic ? 4 : 2;
  Taps taps{std::vector(count, std::vector<std::int64_t>(static_cast<std::size_t>(out))), {}};
  if (!nearest) taps.weight.assign(count, std::vector<double>(static_cast<std::size_t>(out)));
  // Elements of x a step of the result.
  const double step = o.align_corners ? (out > 1 ? double(in - 1) / double(out - 1) : 0)
                      : scale > 0     ? 1 / scale
                                      : double(in) / double(out);
  for (std::int64_t i = 0; i < out; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (nearest) {  // whole numbers keep the places exact
      const std::int64_t twice = o.mode == "nearest" ? 2 * i : 2 * i + 1;
      taps.index[0][at] = clamped(scale > 0 ? static_cast<std::int64_t>(std::floor(0.5 * double(twice) * step))
                                            : twice * in / (2 * out));
      continue;
    }
    double place = o.align_corners ? step * double(i) : step * (double(i) + 0.5) - 0.5;
    if (!cubic) place = std::max(place, 0.0);
    const auto below = static_cast<std::int64_t>(std::floor(place));
    const double t = place - double(below);
    const std::array<double, 4> weights = cubic ? cubic_weights(t) : std::array<double, 4>{1 - t, t};
    for (std::size_t k = 0; k < count; ++k) {
      taps.index[k][at] = clamped(below + static_cast<std::int64_t>(k) - (cubic ? 1 : 0));
      taps.weight[k][at] = weights[k];
    }
  }
  return taps;
}

/// x resampled along one axis.
Tensor resampled(const Tensor& x, int axis, const Taps& taps) {
  const auto size = static_cast<std::int64_t>(taps.index[0].size());
  Tensor total;
  for (std::size_t k = 0; k < taps.index.size(); ++k) {
    const Tensor index = Tensor::from({size}, taps.index[k], x.device()), taken = gather(x, index, axis);
    if (taps.weight.empty()) return taken;
    Shape beside{size};
    while (beside.rank() < x.rank() - axis) beside.push_back(1);
    const Tensor weight = Tensor::from({DType::f64, beside}, taps.weight[k].data(), x.device());
    const Tensor part = taken * cast(weight, x.dtype());
    total = total ? total + part : part;
  }
  return total;
}

}  // namespace

Types Interpolate::infer(std::span<const Type> in) const {
  check_count(*this, in, 1, 1);
  check_floating(*this, in[0], "the input");
  const InterpolateOptions& o = options;
  Type out = in[0];
  const std::size_t axes = std::max(0, out.shape.rank() - 2);
  require(axes == 1 || axes == 2, name(), ": takes x(N,C,L) or x(N,C,H,W), got ", out.shape);
  const bool nearest = o.mode == "nearest" || o.mode == "nearest-exact";
  require(nearest || o.mode == (axes == 1 ? "linear" : "bilinear") || (axes == 2 && o.mode == "bicubic"), name(),
          ": mode is '", o.mode, "', input ", out.shape, " takes nearest, nearest-exact, ",
          axes == 1 ? "linear" : "bilinear, bicubic");
  require(!(nearest && o.align_corners), name(), ": mode ", o.mode, " knows no align_corners");
  const std::size_t count = std::max(o.size.size(), o.scale_factor.size());
  require(o.size.empty() != o.scale_factor.empty() && (count == 1 || count == axes), name(), ": takes size or ",
          "scale_factor, one number", axes == 1 ? "" : " or two", ", for input ", out.shape, ", got ", o.size.size(),
          " and ", o.scale_factor.size());
  for (std::size_t i = 0; i < axes; ++i) {
    Dim& size = out.shape[static_cast<int>(i) + 2];
    require(size.may_be_positive(), name(), ": input ", in[0].shape, " has nothing to resample");
    const std::size_t k = count == 1 ? 0 : i;
    size = o.size.empty() ? static_cast<std::int64_t>(std::floor(static_cast<double>(size) * o.scale_factor[k]))
                          : o.size[k];
    require(size > 0, name(), ": input ", in[0].shape, " would become of size ", size, " along axis ", i + 2);
  }
  return {out};
}

Tensors Interpolate::decompose(std::span<const Tensor> in) const {
  const Shape from = in[0].shape(), to = infer(std::array{in[0].type()})[0].shape;
  const bool nearest = options.mode.starts_with("nearest");
  Tensor x = nearest ? in[0] : wide(in[0]);
  for (int axis = 2; axis < from.rank(); ++axis) {
    const std::vector<double>& factors = options.scale_factor;
    const double scale = factors.empty() ? 0 : factors[factors.size() == 1 ? 0 : static_cast<std::size_t>(axis - 2)];
    x = resampled(x, axis, taps_of(options, from[axis], to[axis], scale));
  }
  return {cast(x, in[0].dtype())};
}

std::vector<Sample> Interpolate::samples() const {
  const auto row = [](const Shape& x, InterpolateOptions given) -> Sample {
    auto op = std::make_shared<Interpolate>();
    op->options = std::move(given);
    return {op, {{DType::f32, x}}};
  };
  std::vector<Sample> all;
  for (const std::string mode : {"nearest", "nearest-exact", "bilinear", "bicubic"})
    for (const bool align : {false, true}) {
      if (align && mode.starts_with("nearest")) continue;
      all.push_back(row({2, 3, 5, 4}, {.size = {9, 8}, .mode = mode, .align_corners = align}));
      all.push_back(row({1, 2, 7, 6}, {.size = {3, 1}, .mode = mode, .align_corners = align}));
      if (!align) all.push_back(row({1, 2, 4, 5}, {.scale_factor = {2, 1.5}, .mode = mode}));
    }
  for (const std::string mode : {"nearest", "nearest-exact", "linear"})
    all.push_back(row({2, 3, 6}, {.size = {10}, .mode = mode}));
  all.push_back(row({1, 2, 3, 4}, {.scale_factor = {2}}));
  all.push_back(row({2, 3, 6}, {.size = {4}, .mode = "linear", .align_corners = true}));
  return all;
}

Tensor interpolate(const Tensor& x, const InterpolateOptions& options) {
  auto op = std::make_shared<Interpolate>();
  op->options = options;
  return apply1(op, {x});
}

void Interpolate::write_onnx(OnnxNode& node) const {
  const InterpolateOptions& o = options;
  const bool nearest = o.mode.starts_with("nearest"), exact = o.mode == "nearest-exact";
  OnnxAttributes attributes{{"mode", nearest ? "nearest" : o.mode == "bicubic" ? "cubic" : "linear"}};
  attributes.emplace_back("coordinate_transformation_mode", o.align_corners     ? "align_corners"
                                                            : nearest && !exact ? "asymmetric"
                                                                                : "half_pixel");
  if (nearest) attributes.emplace_back("nearest_mode", exact ? "round_prefer_ceil" : "floor");
  if (o.scale_factor.empty()) {
    node.add("Resize", {node.in[0], "", "", node.list(node.out.shape, "sizes")}, attributes);
    return;
  }
  std::vector<float> scales(node.out.shape.rank(), 1);
  for (std::size_t axis = 2; axis < scales.size(); ++axis)
    scales[axis] = static_cast<float>(o.scale_factor[o.scale_factor.size() == 1 ? 0 : axis - 2]);
  const Tensor list = Tensor::from({static_cast<std::int64_t>(scales.size())}, scales);
  node.add("Resize", {node.in[0], "", node.file.constant(list, text(node.name, "/scales"))}, attributes);
}

void define_interpolate() { define<Interpolate>(); }

}  // namespace neurim
