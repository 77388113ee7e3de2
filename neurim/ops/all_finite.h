// Whether a step may be taken.
#pragma once
#include "neurim/graph/op.h"

namespace neurim {

/// The op of all_finite. Inputs: one or more floating tensors -> bool scalar.
class AllFinite final : public Op {
 public:
  std::string_view name() const override { return "all_finite"; }
  Types infer(std::span<const Type> in) const override;
  std::vector<Sample> samples() const override;
};

/// Whether no number of any of the tensors, one or more of any floating type and shape, is infinite or NaN: a bool
/// scalar. Without gradient. Throws Error(usage) otherwise.
Tensor all_finite(const Tensors& tensors);

}  // namespace neurim
