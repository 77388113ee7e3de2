// x * Phi(x), Phi the normal distribution function
#pragma once
#include "neurim/ops/common/rules.h"

namespace neurim {

/// x * Phi(x); input (x).
class Gelu final : public UnaryOp {
 public:
  std::string approximate;  ///< "none": exact; "tanh": 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))

  /// Sets the attributes.
  explicit Gelu(std::string approximate_ = "none") : approximate(std::move(approximate_)) {}
  std::string_view name() const override { return "gelu"; }
  void fields(Fields& f) override { f("approximate", approximate); }
  Formula formula() const override { return {.variant = approximate == "tanh" ? "tanh" : ""}; }
  Types infer(std::span<const Type> in) const override;
  Tensors grad(const Gradient& g) const override;
  Onnx onnx() const override { return {"Gelu", 20}; }
  void write_onnx(OnnxNode& node) const override;
  std::vector<Sample> samples() const override;

 protected:
  Fill domain() const override { return {-4, 4}; }
};

/// dy * gelu'(x); inputs (x, dy).
class GeluGrad final : public UnaryGradOp {
 public:
  std::string approximate;  ///< as of Gelu

  /// Sets the attributes.
  explicit GeluGrad(std::string approximate_ = "none") : approximate(std::move(approximate_)) {}
  std::string_view name() const override { return "gelu_grad"; }
  void fields(Fields& f) override { f("approximate", approximate); }
  Formula formula() const override { return {.variant = approximate == "tanh" ? "tanh" : ""}; }
  std::vector<Sample> samples() const override;

 protected:
  Fill domain() const override { return {-4, 4}; }
};

/// Gaussian error linear unit (Hendrycks and Gimpel, 2016), element by element; floating x of any shape.
/// Throws Error(usage) unless `approximate` is "none" or "tanh".
Tensor gelu(const Tensor& x, std::string approximate = "none");

}  // namespace neurim
