// The place of the maximum.
#pragma once
#include "neurim/graph/op.h"

namespace neurim {

/// The op of argmax. Input (x) -> i64 indices.
class Argmax final : public Op {
 public:
  std::int64_t axis;  ///< may count from the back
  bool keepdims;      ///< whether the axis stays, with size 1

  /// Sets the attributes.
  explicit Argmax(std::int64_t axis_ = 0, bool keepdims_ = false) : axis(axis_), keepdims(keepdims_) {}
  std::string_view name() const override { return "argmax"; }
  void fields(Fields& f) override { f("axis", axis)("keepdims", keepdims); }
  Types infer(std::span<const Type> in) const override;
  Onnx onnx() const override { return {"ArgMax", 13}; }
  std::vector<Sample> samples() const override;
};

/// The index (i64) of the first maximum along `axis`, which goes, or stays with size 1 for `keepdims`. Any
/// number dtype; NaN counts as the maximum. Throws Error(usage) over no elements. Without gradient.
Tensor argmax(const Tensor& x, std::int64_t axis, bool keepdims = false);

}  // namespace neurim
