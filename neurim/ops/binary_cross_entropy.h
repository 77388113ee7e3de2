// Binary cross entropy of logits against targets, one yes or no a class.
#pragma once
#include "neurim/graph/op.h"

namespace neurim {

/// -(w y log p + (1 - y) log(1 - p)) with p = sigmoid(logits) and y = target in [0, 1]: its "mean" (a
/// scalar), its "sum" (a scalar), or "none" (the shape of the logits). Logits (…,C) and target are floating
/// and of one type; pos_weight of that dtype, (C) or another shape that broadcasts to the logits, is w, 1 where it is
/// not given. Exact for logits of any size; PyTorch's binary_cross_entropy_with_logits.
Tensor binary_cross_entropy(const Tensor& logits, const Tensor& target, const std::string& reduction = "mean",
                            const Tensor& pos_weight = {});

/// Inputs (logits, target[, pos_weight]) -> loss.
class BinaryCrossEntropy final : public Op {
 public:
  std::string reduction = "mean";  ///< "mean", "sum" or "none"
  std::string_view name() const override { return "binary_cross_entropy"; }
  void fields(Fields& f) override { f("reduction", reduction); }
  Types infer(std::span<const Type> in) const override;
  Tensors decompose(std::span<const Tensor> in) const override;
  std::vector<Sample> samples() const override;
};

}  // namespace neurim
