// log(softmax(x)) along an axis
#pragma once
#include "neurim/ops/softmax.h"

namespace neurim {

/// log(softmax(x)); input (x).
class LogSoftmax final : public SoftmaxOp {
 public:
  /// Sets the attributes.
  explicit LogSoftmax(std::int64_t axis_ = -1) : SoftmaxOp(axis_) {}
  std::string_view name() const override { return "log_softmax"; }
  Tensors grad(const Gradient& g) const override;
  Onnx onnx() const override { return {"LogSoftmax", 13}; }
  std::vector<Sample> samples() const override { return samples_of<LogSoftmax>({-5, 5}); }
};

/// dy - e^y * sum(dy); inputs (y, dy).
class LogSoftmaxGrad final : public SoftmaxOp {
 public:
  /// Sets the attributes.
  explicit LogSoftmaxGrad(std::int64_t axis_ = -1) : SoftmaxOp(axis_) {}
  std::string_view name() const override { return "log_softmax_grad"; }
  std::vector<Sample> samples() const override { return samples_of<LogSoftmaxGrad>({-5, 0}); }

 protected:
  std::size_t inputs() const override { return 2; }
};

/// The logarithm of softmax along `axis` of floating x, stable for large values.
Tensor log_softmax(const Tensor& x, std::int64_t axis = -1);

}  // namespace neurim
