// The same elements under another shape.
#pragma once
#include "neurim/graph/op.h"
#include "neurim/ops/common/list_field.h"

namespace neurim {

/// The op of reshape. Input (x).
class Reshape final : public Op {
 public:
  /// Sets the attributes.
  explicit Reshape(const Shape& target = {}) : shape(target) {}
  Shape shape;  ///< at most one size is -1

  std::string_view name() const override { return "reshape"; }
  FusionTraits fusion() const override { return {.data_movement = true}; }
  void fields(Fields& f) override { list_field(f, "shape", shape); }
  Types infer(std::span<const Type> in) const override;
  Tensors grad(const Gradient& g) const override;
  Alias alias(int, int) const override { return Alias::view; }
  /// Blocks of an axis stay where they are when the axes between them and the first one become others.
  std::optional<Layout> layout_alias(const Type& in, const Layout& layout) const override;
  Onnx onnx() const override { return {.name = "Reshape", .since = 13}; }
  void write_onnx(OnnxNode& node) const override;
  std::vector<Sample> samples() const override;
};

/// The elements of x, any dtype, in row-major order under `shape`; one size may be -1 and follows from the
/// others. Throws Error(usage) when the numbers of elements differ.
Tensor reshape(const Tensor& x, const Shape& shape);

}  // namespace neurim
