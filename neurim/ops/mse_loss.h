// Squared error.
#pragma once
#include "neurim/graph/op.h"

namespace neurim {

/// (x - y)^2 of two floating tensors of one type; its "mean" (a scalar), its "sum" (a scalar), or "none" (the
/// shape of x).
Tensor mse_loss(const Tensor& x, const Tensor& y, const std::string& reduction = "mean");

/// Inputs (x, y) -> loss.
class MseLoss final : public Op {
 public:
  std::string reduction = "mean";  ///< "mean", "sum" or "none"
  std::string_view name() const override { return "mse_loss"; }
  void fields(Fields& f) override { f("reduction", reduction); }
  Types infer(std::span<const Type> in) const override;
  Tensors decompose(std::span<const Tensor> in) const override;
  std::vector<Sample> samples() const override;
};

}  // namespace neurim
