// Normalization over groups of channels of each sample.
#pragma once
#include "neurim/ops/layer_norm.h"

namespace neurim {

/// x(N,C,…), floating, weight(C) and bias(C) -> y like x: each sample's channels are normalized in
/// `num_groups` groups of neighbours (Wu and He, "Group normalization", ECCV'18). An undefined weight is 1,
/// an undefined bias 0. Both share one floating dtype, which may differ from that of x.
Tensor group_norm(const Tensor& x, std::int64_t num_groups, const Tensor& weight = {}, const Tensor& bias = {},
                  double eps = 1e-5);

/// group_norm with a group a channel (Ulyanov et al., "Instance normalization", 2016). With running
/// statistics (C), in a trace for training, they are assigned (1 - momentum) * old + momentum * new, where
/// the new ones are the means over the batch of each sample's mean and unbiased variance; elsewhere they take
/// the place of those of the sample. Throws Error(usage) when a channel of a sample has a single value.
Tensor instance_norm(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {},
                     const Tensor& running_mean = {}, const Tensor& running_var = {}, double momentum = 0.1,
                     double eps = 1e-5);

/// Inputs (x, weight, bias) -> y.
class GroupNorm final : public NormOp {
 public:
  std::int64_t groups;  ///< number of groups; divides the channels

  /// Sets the attributes.
  explicit GroupNorm(std::int64_t groups_ = 1, double eps_ = 1e-5) : groups(groups_) { eps = eps_; }
  std::string_view name() const override { return "group_norm"; }
  void fields(Fields& f) override { f("groups", groups)("eps", eps); }
  std::int64_t group_count() const override { return groups; }
  Types infer(std::span<const Type> in) const override;
  Onnx onnx() const override { return {"GroupNormalization", 21}; }
  void write_onnx(OnnxNode& node) const override;
  std::vector<Sample> samples() const override;
};

/// Inputs (x, weight, bias) -> y; group_norm with a group a channel, under ONNX's name for it.
class InstanceNorm final : public Op {
 public:
  double eps;  ///< added to the variance

  /// Sets the attributes.
  explicit InstanceNorm(double eps_ = 1e-5) : eps(eps_) {}
  std::string_view name() const override { return "instance_norm"; }
  void fields(Fields& f) override { f("eps", eps); }
  Types infer(std::span<const Type> in) const override;
  Tensors decompose(std::span<const Tensor> in) const override;
  Onnx onnx() const override { return {"InstanceNormalization", 6}; }
  void write_onnx(OnnxNode& node) const override;
  std::vector<Sample> samples() const override;
};

}  // namespace neurim
