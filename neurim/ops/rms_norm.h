// Normalization by the root of the mean square.
#pragma once
#include "neurim/ops/layer_norm.h"

namespace neurim {

/// x(…,normalized), floating, and a weight of the normalized shape -> y like x:
/// x / sqrt(mean of squares over the last axes + eps) * weight (Zhang and Sennrich, "Root mean square layer
/// normalization", NeurIPS'19). An undefined weight is 1; its floating dtype may differ from that of x. The
/// default of eps is the epsilon of f32, which PyTorch takes for inputs of that dtype.
Tensor rms_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight = {}, double eps = 0x1p-23);

/// Inputs (x, weight) -> y.
class RmsNorm final : public NormOp {
 public:
  /// Sets the attributes.
  explicit RmsNorm(double eps_ = 0x1p-23) { eps = eps_; }
  std::string_view name() const override { return "rms_norm"; }
  void fields(Fields& f) override { f("eps", eps); }
  bool centered() const override { return false; }
  Types infer(std::span<const Type> in) const override;
  std::vector<Sample> samples() const override;
};

}  // namespace neurim
