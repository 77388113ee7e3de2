// x where x > 0, else alpha * (e^x - 1)
#pragma once
#include "neurim/ops/common/rules.h"

namespace neurim {

/// x where x > 0, else alpha * (e^x - 1); input (x).
class Elu final : public UnaryOp {
 public:
  double alpha;  ///< the limit for large negative x is -alpha

  /// Sets the attributes.
  explicit Elu(double alpha_ = 1) : alpha(alpha_) {}
  std::string_view name() const override { return "elu"; }
  void fields(Fields& f) override { f("alpha", alpha); }
  Formula formula() const override { return {alpha}; }
  Tensors grad(const Gradient& g) const override;
  Onnx onnx() const override { return {"Elu", 6}; }
  std::vector<Sample> samples() const override;

 protected:
  Fill domain() const override { return {-3, 3}; }
};

/// Exponential linear unit (Clevert et al., 2015), element by element; floating x of any shape.
Tensor elu(const Tensor& x, double alpha = 1);

}  // namespace neurim
