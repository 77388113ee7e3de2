// The largest or smallest elements of each row.
#pragma once
#include "neurim/graph/op.h"

namespace neurim {

/// Which elements top_k takes.
struct TopKOptions {
  std::int64_t k = 1,   ///< how many, at most the size of the axis
      axis = -1;        ///< along which; may count from the back
  bool largest = true;  ///< or the smallest
  void fields(Fields& f) { f("k", k)("axis", axis)("largest", largest); }
};

/// The k largest elements of x, any number dtype, along an axis, the largest first, and their indices (i64); or the
/// smallest, the smallest first. Of equal ones that of the lower index comes first; NaN counts as the largest. Throws
/// Error(usage) where the axis has fewer. The gradient is that of the values.
Tensors top_k(const Tensor& x, const TopKOptions& options);

/// The op of top_k. Input (x), outputs (values, indices).
class TopK final : public Op {
 public:
  TopKOptions options;  ///< the attributes
  std::string_view name() const override { return "top_k"; }
  void fields(Fields& f) override { options.fields(f); }
  Types infer(std::span<const Type> in) const override;
  Tensors grad(const Gradient& g) const override;
  Onnx onnx() const override { return {.since = 11, .composed = true}; }
  void write_onnx(OnnxNode& node) const override;
  std::vector<Sample> samples() const override;
};

}  // namespace neurim
