// Repeating along axes of size 1.
#pragma once
#include "neurim/graph/op.h"
#include "neurim/ops/common/list_field.h"

namespace neurim {

/// The op of broadcast_to. Input (x).
class BroadcastTo final : public Op {
 public:
  /// Sets the attributes.
  explicit BroadcastTo(const Shape& target = {}) : shape(target) {}
  Shape shape;  ///< of the result

  std::string_view name() const override { return "broadcast_to"; }
  void fields(Fields& f) override { list_field(f, "shape", shape); }
  Types infer(std::span<const Type> in) const override;
  Tensors grad(const Gradient& g) const override;
  Onnx onnx() const override { return {.name = "Expand", .since = 13}; }
  void write_onnx(OnnxNode& node) const override;
  std::vector<Sample> samples() const override;
};

/// x, any dtype, repeated to `shape` by NumPy's rule. Throws Error(usage) when x does not broadcast to it.
Tensor broadcast_to(const Tensor& x, const Shape& shape);

}  // namespace neurim
