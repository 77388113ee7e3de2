#include "neurim/ops/group_norm.h"

#include "neurim/graph/onnx.h"
#include "neurim/graph/trace.h"
#include "neurim/ops/add.h"
#include "neurim/ops/batch_norm.h"
#include "neurim/ops/cast.h"
#include "neurim/ops/common/rules.h"
#include "neurim/ops/mean.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/square.h"
#include "neurim/ops/sub.h"

namespace neurim {

Types GroupNorm::infer(std::span<const Type> in) const {
  check_count(*this, in, 3, 3);
  require(groups > 0, "group_norm: num_groups is ", groups, ", but has to be 1 or more");
  check(in[0], in[1], in.subspan(2));
  return {in[0]};
}

std::vector<Sample> GroupNorm::samples() const {
  const auto row = [](const Shape& x, std::int64_t count, double epsilon = 1e-5) -> Sample {
    const Type channels{DType::f32, {x[1]}};
    return {std::make_shared<GroupNorm>(count, epsilon), {{DType::f32, x}, channels, channels}};
  };
  return {row({2, 6, 5, 4}, 2, 1e-3), row({2, 6, 9, 9}, 6),  row({3, 12}, 2),
          row({2, 3, 7}, 1),          row({1, 32, 3, 3}, 8), row({4, 8, 40, 40}, 4)};
}

Types InstanceNorm::infer(std::span<const Type> in) const {
  check_count(*this, in, 3, 3);
  const Shape& x = in[0].shape;
  require(x.rank() >= 3, "instance_norm: takes an input (N,C,…) with one axis or more behind C, got ", x);
  return GroupNorm(x[1], eps).infer(in);
}

Tensors InstanceNorm::decompose(std::span<const Tensor> in) const {
  return {apply1(std::make_shared<GroupNorm>(in[0].size(1), eps), {in[0], in[1], in[2]})};
}

std::vector<Sample> InstanceNorm::samples() const {
  std::vector<Sample> all;
  for (const Shape& x : {Shape{2, 3, 5, 4}, {1, 17, 9}, {2, 1, 3, 3}}) {
    const Type channels{DType::f32, {x[1]}};
    all.push_back({std::make_shared<InstanceNorm>(1e-3), {{DType::f32, x}, channels, channels}});
  }
  return all;
}

namespace {

/// Applies an op of inputs (x, weight(C), bias(C)), of which the last two may be undefined.
Tensor with_affine(const std::shared_ptr<const Op>& op, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const Type type{weight ? weight.dtype() : bias ? bias.dtype() : x.dtype(), {x.size(1)}};
  return apply1(
      op, {x, weight ? weight : Tensor::full(type, 1, x.device()), bias ? bias : Tensor::full(type, 0, x.device())});
}

}  // namespace

Tensor group_norm(const Tensor& x, std::int64_t num_groups, const Tensor& weight, const Tensor& bias, double eps) {
  require(x.rank() >= 2, "group_norm: takes an input (N,C,…), got ", x.shape());
  return with_affine(std::make_shared<GroupNorm>(num_groups, eps), x, weight, bias);
}

Tensor instance_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& running_mean,
                     const Tensor& running_var, double momentum, double eps) {
  require(x.rank() >= 3, "instance_norm: takes an input (N,C,…) with one axis or more behind C, got ", x.shape());
  require(static_cast<bool>(running_mean) == static_cast<bool>(running_var),
          "instance_norm: running mean and running variance are given together or not at all");
  if (running_mean && !training()) return batch_norm(x, weight, bias, running_mean, running_var, momentum, eps);
  const Dim planes = x.size(0) * x.size(1), count = planes == 0 ? Dim(0) : x.numel() / planes;
  require(count != 1, "instance_norm: input ", x.shape(),
          " has one value per channel and sample, which has no variance: use a larger input");
  if (running_mean) {
    std::vector<std::int64_t> axes;
    for (int axis = 2; axis < x.rank(); ++axis) axes.push_back(axis);
    const Tensor wide_x = cast(x, running_mean.dtype()), center = mean(wide_x, axes, true);
    const double unbiased = static_cast<double>(count) / static_cast<double>(count - 1);
    const auto over_batch = [&](const Tensor& values) {
      std::vector<std::int64_t> all{0};
      all.insert(all.end(), axes.begin(), axes.end());
      return mean(values, all);
    };
    running_mean.assign(running_mean * (1 - momentum) + over_batch(center) * momentum);
    running_var.assign(running_var * (1 - momentum) + over_batch(square(wide_x - center)) * (momentum * unbiased));
  }
  return with_affine(std::make_shared<InstanceNorm>(eps), x, weight, bias);
}

void GroupNorm::write_onnx(OnnxNode& node) const {
  const std::vector<std::string> in = node.in_one_dtype();
  node.add(onnx_operator(*this, node.file), in, {{"num_groups", groups}, {"epsilon", eps}});
}

void InstanceNorm::write_onnx(OnnxNode& node) const {
  const std::vector<std::string> in = node.in_one_dtype();
  node.add(onnx_operator(*this, node.file), in, onnx_attributes(*this));
}

void define_group_norm() {
  define<GroupNorm>();
  define<InstanceNorm>();
}

}  // namespace neurim
