// x where x > 0, else slope * x
#pragma once
#include "neurim/ops/common/rules.h"

namespace neurim {

/// x where x > 0, else slope * x; input (x).
class LeakyRelu final : public UnaryOp {
 public:
  double slope;  ///< where x is not positive

  /// Sets the attributes.
  explicit LeakyRelu(double slope_ = 0.01) : slope(slope_) {}
  std::string_view name() const override { return "leaky_relu"; }
  void fields(Fields& f) override { f("slope", slope); }
  Formula formula() const override { return {slope}; }
  Tensors grad(const Gradient& g) const override;
  Onnx onnx() const override { return {.composed = true}; }
  void write_onnx(OnnxNode& node) const override;
  std::vector<Sample> samples() const override;
};

/// dy where x > 0, else slope * dy; inputs (x, dy).
class LeakyReluGrad final : public UnaryGradOp {
 public:
  double slope;  ///< where x is not positive

  /// Sets the attributes.
  explicit LeakyReluGrad(double slope_ = 0.01) : slope(slope_) {}
  std::string_view name() const override { return "leaky_relu_grad"; }
  void fields(Fields& f) override { f("slope", slope); }
  Formula formula() const override { return {slope}; }
};

/// Leaky rectified linear unit, element by element; floating x of any shape.
Tensor leaky_relu(const Tensor& x, double slope = 0.01);

}  // namespace neurim
