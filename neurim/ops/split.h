// Cutting a tensor into parts along an axis.
#pragma once
#include "neurim/graph/op.h"

namespace neurim {

/// Input (x) -> the parts, as slices would give them; but their gradients are joined at once, where those of
/// slices would each be filled up with zeros and then added.
class SplitOp final : public Op {
 public:
  /// Sets the attributes.
  explicit SplitOp(std::vector<std::int64_t> parts = {}, std::int64_t along = 0)
      : sizes(std::move(parts)), axis(along) {}
  std::vector<std::int64_t> sizes;  ///< of the parts along the axis
  std::int64_t axis;                ///< may count from the back

  std::string_view name() const override { return "split"; }
  void fields(Fields& f) override { f("sizes", sizes)("axis", axis); }
  Types infer(std::span<const Type> in) const override;
  Tensors grad(const Gradient& g) const override;
  Tensors decompose(std::span<const Tensor> in) const override;
  std::vector<Sample> samples() const override;
};

/// x, any dtype, as parts of these sizes along `axis`, which may count from the back. Throws Error(usage)
/// unless the sizes add up to that of the axis.
Tensors split(const Tensor& x, std::vector<std::int64_t> sizes, std::int64_t axis);

}  // namespace neurim
