#include "neurim/ops/batch_norm.h"

#include <utility>

#include "neurim/base/error.h"
#include "neurim/graph/trace.h"
#include "neurim/ops/add.h"
#include "neurim/ops/broadcast_to.h"
#include "neurim/ops/cast.h"
#include "neurim/ops/common/rules.h"
#include "neurim/ops/div.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/reshape.h"
#include "neurim/ops/rsqrt.h"
#include "neurim/ops/sub.h"
#include "neurim/ops/sum.h"

namespace neurim {

namespace {

/// Throws unless x is (N,C,…) and the inputs from `first` on are (C) and of one floating dtype.
void check_channels(const Op& op, const Type& x, std::span<const Type> in, std::size_t first) {
  check_floating(op, x, "the input");
  require(x.shape.rank() >= 2, op.name(), ": takes an input (N,C,…), got ", x.shape);
  constexpr std::array<std::string_view, 4> kNames{"weight", "bias", "mean", "var"};
  for (std::size_t i = first; i < in.size(); ++i) {
    const std::string_view what = op.name() == "batch_norm_grad" && i > first ? kNames[i - first + 1]
                                                                              : kNames[i - first];
    check_floating(op, in[i], what);
    check_same_dtype(op, in[first], in[i]);
    require(in[i].shape == Shape{x.shape[1]}, op.name(), ": input ", x.shape, " has ", x.shape[1], " channels, ", what,
            " is ", in[i].shape);
  }
}

/// A tensor of channels (C) in the shape that broadcasts with x(N,C,…).
Tensor beside(const Tensor& channels, const Shape& x) {
  Shape shape{1, x[1]};
  while (shape.rank() < x.rank()) shape.push_back(1);
  return reshape(channels, shape);
}

std::vector<std::int64_t> all_axes_but_1(const Shape& x) {
  std::vector<std::int64_t> axes{0};
  for (int axis = 2; axis < x.rank(); ++axis) axes.push_back(axis);
  return axes;
}

/// How many elements share a channel.
Dim per_channel(const Shape& x) { return x[1] == 0 ? Dim(0) : x.numel() / x[1]; }

template <class O>
std::shared_ptr<O> make(double eps) {
  auto op = std::make_shared<O>();
  op->eps = eps;
  return op;
}

const std::vector<Shape>& sample_shapes() {
  static const std::vector<Shape> all{{2, 3, 5, 4}, {4, 16, 3, 3}, {3, 17, 2, 2}, {8, 6},
                                      {4, 1, 7},    {2, 32, 5, 5}, {1, 6, 4, 4}};
  return all;
}

thread_local const SharedStatistics::Sum* shared_sum = nullptr;

/// Mean and biased variance of each channel over all processes, and how many elements share a channel.
struct Statistics {
  Tensor mean, var, count;
};
Statistics shared_statistics(const Tensor& x, DType dtype) {
  const std::vector<std::int64_t> axes = all_axes_but_1(x.shape());
  const Tensor wide = cast(x, dtype);
  const Tensor own = Tensor::scalar(static_cast<double>(per_channel(x.shape())), dtype, x.device());
  const Tensors sums = (*shared_sum)({sum(wide, axes), own});
  const Tensor mean = sums[0] / sums[1];
  const Tensor apart = wide - beside(mean, x.shape());
  return {mean, (*shared_sum)({sum(apart * apart, axes)})[0] / sums[1], sums[1]};
}

constexpr Fill kPositive{.low = 0.5, .high = 2};

}  // namespace

Types BatchNorm::infer(std::span<const Type> in) const {
  check_count(*this, in, 5, 5);
  check_channels(*this, in[0], in, 1);
  return {in[0]};
}

Types BatchNormTrain::infer(std::span<const Type> in) const {
  check_count(*this, in, 3, 3);
  check_channels(*this, in[0], in, 1);
  return {in[0], in[1], in[1]};
}

Types BatchNormGrad::infer(std::span<const Type> in) const {
  check_count(*this, in, 5, 5);
  check_channels(*this, in[1], in, 2);
  require(in[0] == in[1], name(), ": dy is ", in[0], ", x is ", in[1], "; they have to be equal");
  return {in[1], in[2], in[2]};
}

Tensors BatchNorm::grad(const Gradient& g) const {
  const Tensor &weight = g.in[1], &mean = g.in[3], &var = g.in[4];
  const Shape& shape = g.in[0].shape();
  const std::vector<std::int64_t> axes = all_axes_but_1(shape);
  // In the dtype of the channels: that of x may be too narrow for sums.
  const Tensor x = cast(g.in[0], weight.dtype()), dy = cast(g.dout[0], weight.dtype());
  const Tensor inverse = rsqrt(var + eps), scale = weight * inverse;
  Tensors d(5);
  if (g.wanted[0]) d[0] = cast(dy * beside(scale, shape), g.in[0].dtype());
  const Tensor dbias = g.wanted[2] || g.wanted[3] ? sum(dy, axes) : Tensor();
  if (g.wanted[1] || g.wanted[4]) {
    const Tensor dweight = sum(dy * (x - beside(mean, shape)), axes) * inverse;
    d[1] = dweight;
    if (g.wanted[4]) d[4] = dweight * scale * inverse * -0.5;
  }
  d[2] = dbias;
  if (g.wanted[3]) d[3] = dbias * scale * -1.0;
  return d;
}

Tensors BatchNormTrain::grad(const Gradient& g) const {
  const Tensor &x = g.in[0], &weight = g.in[1], &mean = g.out[1], &var = g.out[2];
  const Tensor &dy = g.dout[0], &dmean = g.dout[1], &dvar = g.dout[2];
  Tensors d(3);
  if (dy) d = apply(make<BatchNormGrad>(eps), {dy, x, weight, mean, var});
  if (!g.wanted[0]) return d;
  const double share = 1.0 / static_cast<double>(per_channel(x.shape()));
  auto accumulate = [&](const Tensor& part) {
    const Tensor narrow = cast(part, x.dtype());
    d[0] = d[0] ? d[0] + narrow : narrow;
  };
  const Tensor wide = dvar ? cast(x, weight.dtype()) : Tensor();
  if (dvar) accumulate((wide - beside(mean, x.shape())) * beside(dvar * (2 * share), x.shape()));
  if (dmean) accumulate(broadcast_to(beside(dmean * share, x.shape()), x.shape()));
  return d;
}

Tensor BatchNormTrain::rematerialize(std::span<const Tensor> in, std::span<const Tensor> out) const {
  const Tensor &x = in[0], &weight = in[1], &mean = out[1], &var = out[2];
  const Tensor scale = weight * rsqrt(var + eps), shift = in[2] - mean * scale;
  return cast(cast(x, weight.dtype()) * beside(scale, x.shape()) + beside(shift, x.shape()), x.dtype());
}

std::vector<Sample> BatchNorm::samples() const {
  std::vector<Sample> all;
  for (const Shape& x : sample_shapes()) {
    const Type channels{DType::f32, {x[1]}};
    all.push_back({make<BatchNorm>(all.empty() ? 1e-3 : 1e-5),
                   {{DType::f32, x}, channels, channels, channels, channels},
                   {{}, {}, {}, {}, kPositive}});
  }
  return all;
}

std::vector<Sample> BatchNormTrain::samples() const {
  std::vector<Sample> all;
  for (const Shape& x : sample_shapes()) {
    const Type channels{DType::f32, {x[1]}};
    all.push_back({make<BatchNormTrain>(all.empty() ? 1e-3 : 1e-5), {{DType::f32, x}, channels, channels}});
  }
  return all;
}

std::vector<Sample> BatchNormGrad::samples() const {
  std::vector<Sample> all;
  for (const Shape& x : sample_shapes()) {
    const Type channels{DType::f32, {x[1]}};
    all.push_back({make<BatchNormGrad>(all.empty() ? 1e-3 : 1e-5),
                   {{DType::f32, x}, {DType::f32, x}, channels, channels, channels},
                   {{}, {}, {}, {}, kPositive}});
  }
  return all;
}

Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& running_mean,
                  const Tensor& running_var, double momentum, double eps) {
  require(x.rank() >= 2, "batch_norm: takes an input (N,C,…), got ", x.shape());
  require(static_cast<bool>(running_mean) == static_cast<bool>(running_var),
          "batch_norm: running mean and running variance are given together or not at all");
  const DType dtype = weight ? weight.dtype() : bias ? bias.dtype() : running_mean ? running_mean.dtype() : x.dtype();
  const Type channels{dtype, {x.size(1)}};
  const Tensor scale = weight ? weight : Tensor::full(channels, 1, x.device());
  const Tensor shift = bias ? bias : Tensor::full(channels, 0, x.device());
  if (!training() && running_mean) return apply1(make<BatchNorm>(eps), {x, scale, shift, running_mean, running_var});

  if (training() && shared_sum) {
    const auto [mean, var, count] = shared_statistics(x, dtype);
    if (running_mean) {
      running_mean.assign(running_mean * (1 - momentum) + mean * momentum);
      running_var.assign(running_var * (1 - momentum) + var * (count / (count + -1)) * momentum);
    }
    return apply1(make<BatchNorm>(eps), {x, scale, shift, mean, var});
  }
  const Dim count = per_channel(x.shape());
  if (training() && count <= 1)
    fail_at({x, weight, bias, running_mean}, Fault::usage,
            text("batch_norm: input ", x.shape(),
                 " has one value per channel, training needs more: use a larger batch or "
                 "drop the last, smaller one"));
  const Tensors y = apply(make<BatchNormTrain>(eps), {x, scale, shift});
  if (training() && running_mean) {
    const double unbiased = static_cast<double>(count) / static_cast<double>(count - 1);
    running_mean.assign(running_mean * (1 - momentum) + y[1] * momentum);
    running_var.assign(running_var * (1 - momentum) + y[2] * (momentum * unbiased));
  }
  return y[0];
}

SharedStatistics::SharedStatistics(Sum sum) : sum_(std::move(sum)), outer_(std::exchange(shared_sum, &sum_)) {}
SharedStatistics::~SharedStatistics() { shared_sum = outer_; }

void define_batch_norm() {
  define<BatchNorm>();
  define<BatchNormTrain>();
  define<BatchNormGrad>();
}

}  // namespace neurim
