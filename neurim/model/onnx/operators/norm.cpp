// Normalizations.
#include <numeric>

#include "neurim/base/error.h"
#include "neurim/graph/trace.h"
#include "neurim/graph/value.h"
#include "neurim/model/onnx/operators/operators.h"
#include "neurim/model/onnx/operators/window.h"
#include "neurim/ops/abs.h"
#include "neurim/ops/add.h"
#include "neurim/ops/avg_pool.h"
#include "neurim/ops/batch_norm.h"
#include "neurim/ops/broadcast_to.h"
#include "neurim/ops/cast.h"
#include "neurim/ops/common/rules.h"
#include "neurim/ops/common/wide.h"
#include "neurim/ops/compare.h"
#include "neurim/ops/div.h"
#include "neurim/ops/group_norm.h"
#include "neurim/ops/layer_norm.h"
#include "neurim/ops/local_response_norm.h"
#include "neurim/ops/mean.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/pow.h"
#include "neurim/ops/reshape.h"
#include "neurim/ops/rms_norm.h"
#include "neurim/ops/rsqrt.h"
#include "neurim/ops/sqrt.h"
#include "neurim/ops/square.h"
#include "neurim/ops/sub.h"
#include "neurim/ops/sum.h"
#include "neurim/ops/where.h"

namespace neurim {

namespace {

DType wider_dtype(DType a, DType b) {
  if (a == b) return a;
  return a == DType::f64 || b == DType::f64 ? DType::f64 : DType::f32;
}

bool trains(const OnnxCall& call) {
  if (call.version() >= 14) return call.integer("training_mode", std::int64_t{0}) != 0;
  bool more = false;  // outputs than the result, which there are in training alone
  for (int output = 1; output < call.outputs(); ++output) more = more || call.wants(output);
  return more && (call.version() >= 7 || call.integer("is_test", std::int64_t{0}) == 0);
}

OnnxValues batch_normalization_rule(const OnnxCall& call) {
  const Tensor& given = call.tensor(0);
  // Without an axis of channels there is one channel; not spatial: each element of an image is a channel.
  const bool flat = call.version() < 9 && call.integer("spatial", std::int64_t{1}) == 0;
  const Tensor x = given.rank() == 1 ? reshape(given, {given.size(0), 1})
                   : flat            ? reshape(given, {given.size(0), given.numel() / given.size(0)})
                                     : given;
  const bool of_batch = trains(call);
  DType dtype = wider_dtype(call.tensor(1).dtype(), call.tensor(3).dtype());
  if (of_batch && bits(dtype) == 16) dtype = DType::f32;  // statistics are sums of many
  const auto channels = [&](int input) {
    const Tensor& t = call.tensor(input);
    return cast(t.rank() == 1 ? t : reshape(t, {t.numel()}), dtype);
  };
  const Tensor scale = channels(1), bias = channels(2), old_mean = channels(3), old_var = channels(4);
  const double eps = call.number("epsilon", 1e-5), momentum = call.number("momentum", 0.9);
  const auto as_given = [&](const Tensor& y) { return y.shape() == given.shape() ? y : reshape(y, given.shape()); };
  // Statistics that are state follow the batches of a model that is trained.
  if (!of_batch && training() && old_mean.value()->state && old_var.value()->state)
    return {as_given(batch_norm(x, scale, bias, old_mean, old_var, 1 - momentum, eps))};
  if (!of_batch) {
    auto op = std::make_shared<BatchNorm>();
    op->eps = eps;
    return {as_given(apply1(op, {x, scale, bias, old_mean, old_var}))};
  }
  auto op = std::make_shared<BatchNormTrain>();
  op->eps = eps;
  const Tensors y = apply(op, {x, scale, bias});
  const auto moved = [&](const Tensor& old, const Tensor& now, int input) {
    const Tensor next = old * momentum + now * (1 - momentum);
    return cast(next.shape() == call.tensor(input).shape() ? next : reshape(next, call.tensor(input).shape()),
                call.tensor(input).dtype());
  };
  const auto saved = [&](const Tensor& now) { return cast(now, given.dtype()); };
  return {as_given(y[0]), moved(old_mean, y[1], 3), moved(old_var, y[2], 4), saved(y[1]), saved(y[2])};
}

/// The axes from `axis` on.
Shape last_axes(const Shape& x, int axis) { return Shape(std::span(x.begin() + axis, x.end())); }

/// A factor that broadcasts to x, in the shape of the last axes of x; undefined where it differs along other axes.
Tensor for_last_axes(const Tensor& factor, const Shape& x, int axis) {
  const Shape normalized = last_axes(x, axis);
  const int more = factor.rank() - normalized.rank();
  for (int i = 0; i < more; ++i)
    if (factor.size(i) != 1) return {};
  if (factor.shape() == normalized) return factor;
  const Tensor inner = more > 0 ? reshape(factor, last_axes(factor.shape(), more)) : factor;
  return inner.shape() == normalized ? inner : broadcast_to(inner, normalized);
}

std::vector<std::int64_t> axes_from(int axis, int rank) {
  std::vector<std::int64_t> axes(static_cast<std::size_t>(rank - axis));
  std::iota(axes.begin(), axes.end(), axis);
  return axes;
}

OnnxValues layer_normalization_rule(const OnnxCall& call) {
  const Tensor& x = call.tensor(0);
  const int axis = call.axis(call.integer("axis", std::int64_t{-1}));
  const double eps = call.number("epsilon", 1e-5);
  const Tensor scale = for_last_axes(call.tensor(1), x.shape(), axis),
               bias = call.has(2) ? for_last_axes(call.tensor(2), x.shape(), axis) : Tensor();
  OnnxValues out(3);
  if (scale && (bias || !call.has(2))) {
    out[0] = layer_norm(x, last_axes(x.shape(), axis), scale, bias, eps);
  } else {
    const Tensor y = layer_norm(x, last_axes(x.shape(), axis), {}, {}, eps) * call.tensor(1);
    out[0] = call.has(2) ? y + call.tensor(2) : y;
  }
  if (!call.wants(1) && !call.wants(2)) return out;
  const DType stash = dtype_of(static_cast<OnnxElement>(call.integer("stash_type", std::int64_t{1})));
  const std::vector<std::int64_t> axes = axes_from(axis, x.rank());
  const Tensor w = wide(x), center = mean(w, axes, true);
  out[1] = cast(center, stash);
  out[2] = cast(rsqrt(mean(square(w - center), axes, true) + eps), stash);
  return out;
}

OnnxValues rms_normalization_rule(const OnnxCall& call) {
  const Tensor &x = call.tensor(0), &factor = call.tensor(1);
  const int axis = call.axis(call.integer("axis", std::int64_t{-1}));
  const double eps = call.number("epsilon", 1e-5);
  const DType dtype = wider_dtype(x.dtype(), factor.dtype());
  const Tensor w = cast(x, dtype), scale = for_last_axes(cast(factor, dtype), x.shape(), axis);
  const Shape normalized = last_axes(x.shape(), axis);
  const Tensor y = scale ? rms_norm(w, normalized, scale, eps) : rms_norm(w, normalized, {}, eps) * cast(factor, dtype);
  return {cast(y, factor.dtype())};
}

OnnxValues group_normalization_rule(const OnnxCall& call) {
  const Tensor& x = call.tensor(0);
  const std::int64_t groups = call.integer("num_groups", std::int64_t{0}), channels = x.size(1);
  require(groups > 0 && channels % groups == 0, "the ", channels, " channels of ", x.shape(), " do not divide into ",
          groups, " groups");
  const auto each = [&](int input) {  // before version 21 there is one number a group
    const Tensor& t = call.tensor(input);
    if (call.version() >= 21 || groups == channels || t.numel() != groups) return t;
    return reshape(broadcast_to(reshape(t, {groups, 1}), {groups, channels / groups}), {channels});
  };
  return {group_norm(x, groups, each(1), each(2), call.number("epsilon", 1e-5))};
}

OnnxValues lrn_rule(const OnnxCall& call) {
  const LocalResponseNormOptions o{.size = call.integer("size", std::int64_t{0}),
                                   .alpha = call.number("alpha", 1e-4),
                                   .beta = call.number("beta", 0.75),
                                   .k = call.number("bias", 1.0)};
  const Tensor& x = call.tensor(0);
  require(o.size > 0, "size is ", o.size, ", where a positive number is wanted");
  if (o.size % 2 == 1) return {local_response_norm(x, o)};
  // An even window reaches one channel further ahead, where the op's reaches one further back.
  const Tensor w = wide(x);
  Dim places = 1;
  for (int axis = 2; axis < x.rank(); ++axis) places *= x.size(axis);
  const std::int64_t before = (o.size - 1) / 2;
  const Tensor squares = avg_pool2d(
      reshape(square(w), {x.size(0), 1, x.size(1), places}),
      {.kernel = {o.size, 1}, .stride = {1, 1}, .pad = {before, 0, o.size - 1 - before, 0}});
  const Tensor base = reshape(squares, x.shape()) * o.alpha + o.k;
  return {cast(w / pow(base, scalar_like(base, o.beta)), x.dtype())};
}

OnnxValues lp_normalization_rule(const OnnxCall& call) {
  const std::int64_t p = call.integer("p", std::int64_t{2}), axis = call.axis(call.integer("axis", std::int64_t{-1}));
  require(p == 1 || p == 2, "p is ", p, ", where 1 or 2 is wanted");
  const Tensor x = wide(call.tensor(0)), norm = p == 1 ? sum(abs(x), {axis}, true) : sqrt(sum(square(x), {axis}, true));
  const Tensor zero = scalar_like(x, 0);
  return {cast(where(equal(norm, zero), zero, x / norm), call.tensor(0).dtype())};
}

OnnxValues mean_variance_rule(const OnnxCall& call) {
  const Tensor x = wide(call.tensor(0));
  std::vector<std::int64_t> axes = call.integers("axes", {0, 2, 3});
  for (std::int64_t& axis : axes) axis = call.axis(axis);
  const Tensor centered = axes.empty() ? x - x : x - mean(x, axes, true);
  const Tensor spread = axes.empty() ? centered : sqrt(mean(square(centered), axes, true));
  return {cast(centered / (spread + 1e-9), call.tensor(0).dtype())};
}

}  // namespace

void add_norm_operators(OnnxOperators& to) {
  to.add("BatchNormalization", 1, batch_normalization_rule);
  to.add("InstanceNormalization", 1, [](const OnnxCall& call) {
    const Tensor& x = call.tensor(0);
    return OnnxValues{group_norm(x, x.size(1), call.tensor(1), call.tensor(2), call.number("epsilon", 1e-5))};
  });
  to.add("LayerNormalization", 17, layer_normalization_rule);
  to.add("GroupNormalization", 18, group_normalization_rule);
  to.add("RMSNormalization", 23, rms_normalization_rule);
  to.add("LRN", 1, lrn_rule);
  to.add("LpNormalization", 1, lp_normalization_rule);
  to.add("MeanVarianceNormalization", 9, mean_variance_rule);
}

}  // namespace neurim
