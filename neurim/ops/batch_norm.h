// Batch normalization (Ioffe and Szegedy, 2015, arXiv:1502.03167) over all axes but 1.
#pragma once
#include <functional>

#include "neurim/graph/op.h"

namespace neurim {

/// x(N,C,…) -> (x - mean) / sqrt(var + eps) * weight + bias per channel; weight, bias, running_mean and
/// running_var are (C). In a trace for training, mean and biased variance of the batch are used, and
/// running_mean and running_var are assigned (1 - momentum) * old + momentum * new with the unbiased
/// variance; elsewhere the running ones are used. An undefined weight is 1, an undefined bias 0; with
/// undefined running statistics those of the batch are always used. weight, bias and the statistics share one
/// floating dtype, which may differ from that of x (f32 beside bf16).
Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& running_mean,
                  const Tensor& running_var, double momentum = 0.1, double eps = 1e-5);

/// As long as it lives, batch_norm in traces for training of this thread takes mean and variance over the samples of
/// other processes too: synchronized batch normalization. `sum` adds tensors up over all of them, and can be
/// differentiated.
class SharedStatistics {
 public:
  using Sum = std::function<Tensors(const Tensors& of_this_process)>;  ///< gives the sums of all processes
  explicit SharedStatistics(Sum sum);                                  ///< begins it
  ~SharedStatistics();
  SharedStatistics(const SharedStatistics&) = delete;
  SharedStatistics& operator=(const SharedStatistics&) = delete;

 private:
  const Sum sum_;
  const Sum* const outer_;
};

/// Inference: inputs (x, weight, bias, mean, var) -> y.
class BatchNorm final : public Op {
 public:
  double eps = 1e-5;  ///< added to the variance
  std::string_view name() const override { return "batch_norm"; }
  void fields(Fields& f) override { f("eps", eps); }
  Types infer(std::span<const Type> in) const override;
  Tensors grad(const Gradient& g) const override;
  Onnx onnx() const override { return {"BatchNormalization", 9}; }
  std::vector<Sample> samples() const override;
};

/// Training: inputs (x, weight, bias) -> (y, mean(C), biased var(C)).
class BatchNormTrain final : public Op {
 public:
  double eps = 1e-5;  ///< added to the variance
  std::string_view name() const override { return "batch_norm_train"; }
  FusionTraits fusion() const override { return {.follows = true, .rematerializable = true}; }
  Tensor rematerialize(std::span<const Tensor> in, std::span<const Tensor> out) const override;
  void fields(Fields& f) override { f("eps", eps); }
  Types infer(std::span<const Type> in) const override;
  Tensors grad(const Gradient& g) const override;
  std::vector<Sample> samples() const override;
};

/// The gradient of y of BatchNormTrain: inputs (dy, x, weight, mean, var) -> (dx, dweight, dbias).
class BatchNormGrad final : public Op {
 public:
  double eps = 1e-5;  ///< added to the variance
  std::string_view name() const override { return "batch_norm_grad"; }
  FusionTraits fusion() const override { return {.follows = true}; }
  void fields(Fields& f) override { f("eps", eps); }
  Types infer(std::span<const Type> in) const override;
  std::vector<Sample> samples() const override;
};

}  // namespace neurim
