// Maxima over axes.
#pragma once
#include "neurim/ops/common/rules.h"

namespace neurim {

/// Base of reduce_max and reduce_min: elements that equal the result share the gradient evenly.
class ExtremumOp : public ReduceOp {
 public:
  /// As the base class.
  using ReduceOp::ReduceOp;
  Types infer(std::span<const Type> in) const override;
  Tensors grad(const Gradient& g) const override;
};

/// The maximum over `axes` (empty: all; negative ones count from the end), which go, or stay with size 1 for
/// `keepdims`. Any number dtype; NaN wins. Equal maxima share the gradient evenly, as in PyTorch's amax.
/// Throws Error(usage) over no elements.
Tensor reduce_max(const Tensor& x, std::vector<std::int64_t> axes = {}, bool keepdims = false);

}  // namespace neurim
