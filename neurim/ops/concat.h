// Joining tensors along an axis.
#pragma once
#include "neurim/graph/op.h"

namespace neurim {

/// The op of concat. Inputs: one or more tensors.
class Concat final : public Op {
 public:
  /// Sets the attributes.
  explicit Concat(std::int64_t along = 0) : axis(along) {}
  std::int64_t axis;  ///< may count from the back

  std::string_view name() const override { return "concat"; }
  FusionTraits fusion() const override { return {.data_movement = true, .concat_axis = axis}; }
  void fields(Fields& f) override { f("axis", axis); }
  Types infer(std::span<const Type> in) const override;
  Tensors grad(const Gradient& g) const override;
  Onnx onnx() const override { return {"Concat", 13}; }
  std::vector<Sample> samples() const override;
};

/// The tensors one after the other along `axis`, which may count from the back: one or more of one dtype,
/// whose shapes are equal along the other axes. Throws Error(usage) otherwise.
Tensor concat(const Tensors& tensors, std::int64_t axis);

}  // namespace neurim
