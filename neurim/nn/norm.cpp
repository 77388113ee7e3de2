#include "neurim/nn/norm.h"

#include "neurim/base/error.h"
#include "neurim/ops/group_norm.h"
#include "neurim/ops/layer_norm.h"
#include "neurim/ops/local_response_norm.h"
#include "neurim/ops/rms_norm.h"

namespace neurim::nn {

namespace {

void check_normalized(std::string_view who, const Shape& shape) {
  require(shape.rank() > 0 && shape.numel() > 0, who, ": the sizes of the normalized shape ", shape,
          " must be 1 or more");
}

}  // namespace

LayerNorm::LayerNorm(const Shape& shape) : LayerNorm(shape, Config{}) {}

LayerNorm::LayerNorm(const Shape& shape, const Config& c) : normalized_shape(shape), config(c) {
  check_normalized("LayerNorm", shape);
  check_norm("LayerNorm", c.eps);
  if (c.elementwise_affine) weight = parameter(shape, constant(1));
  if (c.elementwise_affine && c.bias) bias = parameter(shape, constant(0));
}

void LayerNorm::parts(Parts& p) { p("weight", weight, constant(1))("bias", bias, constant(0)); }

Tensor LayerNorm::operator()(const Tensor& x) const {
  return layer_norm(x, normalized_shape, weight, bias, config.eps);
}

RMSNorm::RMSNorm(const Shape& shape) : RMSNorm(shape, Config{}) {}

RMSNorm::RMSNorm(const Shape& shape, const Config& c) : normalized_shape(shape), config(c) {
  check_normalized("RMSNorm", shape);
  check_norm("RMSNorm", c.eps);
  if (c.elementwise_affine) weight = parameter(shape, constant(1));
}

void RMSNorm::parts(Parts& p) { p("weight", weight, constant(1)); }

Tensor RMSNorm::operator()(const Tensor& x) const { return rms_norm(x, normalized_shape, weight, config.eps); }

GroupNorm::GroupNorm(std::int64_t groups, std::int64_t channels) : GroupNorm(groups, channels, Config{}) {}

GroupNorm::GroupNorm(std::int64_t groups, std::int64_t channels, const Config& c) : num_groups(groups), config(c) {
  require(groups > 0 && channels > 0 && channels % groups == 0, "GroupNorm: ", channels,
          " channels do not divide into ", groups, " groups");
  check_norm("GroupNorm", c.eps);
  if (!c.affine) return;
  weight = parameter({channels}, constant(1));
  bias = parameter({channels}, constant(0));
}

void GroupNorm::parts(Parts& p) { p("weight", weight, constant(1))("bias", bias, constant(0)); }

Tensor GroupNorm::operator()(const Tensor& x) const { return group_norm(x, num_groups, weight, bias, config.eps); }

InstanceNorm2d::InstanceNorm2d(std::int64_t count) : InstanceNorm2d(count, Config{}) {}

InstanceNorm2d::InstanceNorm2d(std::int64_t count, const Config& c)
    : ChannelNorm("InstanceNorm", count, c.affine, c.track_running_stats), channels(count), config(c) {
  check_norm("InstanceNorm", c.eps, c.momentum);
}

Tensor InstanceNorm2d::normalize(const Tensor& x) const {
  require(x.size(1) == channels, "InstanceNorm: input ", x.shape(), " has ", x.size(1), " channels, not ", channels);
  return instance_norm(x, weight, bias, running_mean, running_var, config.momentum, config.eps);
}

Tensor InstanceNorm2d::operator()(const Tensor& x) const {
  require(x.rank() == 4, "InstanceNorm2d: takes x(N,C,H,W), got ", x.shape());
  return normalize(x);
}

Tensor InstanceNorm1d::operator()(const Tensor& x) const {
  require(x.rank() == 3, "InstanceNorm1d: takes x(N,C,L), got ", x.shape());
  return normalize(x);
}

Tensor LocalResponseNorm::operator()(const Tensor& x) const { return local_response_norm(x, {size, alpha, beta, k}); }

}  // namespace neurim::nn
