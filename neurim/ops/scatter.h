// Putting rows into a tensor by index.
#pragma once
#include "neurim/graph/op.h"

namespace neurim {

/// x (R,…) with the rows of updates (M,…) at the indices (M), i64: row i of the updates takes the place of row
/// indices[i] of x, or for `reduction` "add", "mul", "max" and "min" is combined with it, one after the other. Any
/// dtype. An index counts from the back when negative; one outside [-R, R) sets kStatusIndexOutOfRange. Throws
/// Error(usage) for another reduction ("none" replaces). Has no gradient.
Tensor scatter(const Tensor& x, const Tensor& indices, const Tensor& updates, const std::string& reduction = "none");

/// The op of scatter. Inputs (x, indices, updates).
class Scatter final : public Op {
 public:
  /// Sets the attribute.
  explicit Scatter(std::string how = "none") : reduction(std::move(how)) {}
  std::string reduction;  ///< none, add, mul, max or min

  std::string_view name() const override { return "scatter"; }
  void fields(Fields& f) override { f("reduction", reduction); }
  Types infer(std::span<const Type> in) const override;
  bool checks_data() const override { return true; }
  std::string data_fault(std::span<const Tensor> in) const override;
  std::vector<Sample> samples() const override;
};

}  // namespace neurim
