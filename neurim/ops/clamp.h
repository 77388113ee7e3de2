// min(max(x, low), high)
#pragma once
#include "neurim/ops/common/rules.h"

namespace neurim {

/// min(max(x, low), high); input (x).
class Clamp final : public UnaryOp {
 public:
  double low,  ///< the lower bound
      high;    ///< the upper bound

  /// Sets the attributes.
  explicit Clamp(double low_ = 0, double high_ = 6) : low(low_), high(high_) {}
  std::string_view name() const override { return "clamp"; }
  void fields(Fields& f) override { f("low", low)("high", high); }
  Formula formula() const override { return {low, high}; }
  Types infer(std::span<const Type> in) const override;
  Tensors grad(const Gradient& g) const override;
  Onnx onnx() const override { return {.composed = true}; }
  void write_onnx(OnnxNode& node) const override;
  std::vector<Sample> samples() const override;

 protected:
  bool takes_integers() const override { return true; }
};

/// dy where low <= x <= high, else 0; inputs (x, dy).
class ClampGrad final : public UnaryGradOp {
 public:
  double low,  ///< the lower bound
      high;    ///< the upper bound

  /// Sets the attributes.
  explicit ClampGrad(double low_ = 0, double high_ = 6) : low(low_), high(high_) {}
  std::string_view name() const override { return "clamp_grad"; }
  void fields(Fields& f) override { f("low", low)("high", high); }
  Formula formula() const override { return {low, high}; }

 protected:
  Fill domain() const override { return {-4, 10}; }
};

/// Limits every element to [low, high]; any number type, any shape; either bound may be infinite. The bounds
/// are within the reach of the gradient, as in PyTorch's clamp. Throws Error(usage) when low > high.
Tensor clamp(const Tensor& x, double low, double high);

}  // namespace neurim
