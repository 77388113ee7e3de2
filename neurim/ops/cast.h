// Conversion of the element type.
#pragma once
#include "neurim/graph/op.h"

namespace neurim {

/// The op of cast. Input (x).
class Cast final : public Op {
 public:
  DType dtype;  ///< of the result

  /// Sets the attributes.
  explicit Cast(DType dtype_ = DType::f32) : dtype(dtype_) {}
  std::string_view name() const override { return "cast"; }
  void fields(Fields& f) override { f("dtype", dtype); }
  Formula formula() const override { return {.variant = dtype == DType::boolean ? "bool" : ""}; }
  Types infer(std::span<const Type> in) const override;
  Tensors grad(const Gradient& g) const override;
  FusionTraits fusion() const override { return kPointwise; }
  Onnx onnx() const override { return {.composed = true}; }
  void write_onnx(OnnxNode& node) const override;
  std::vector<Sample> samples() const override;
};

/// x as another dtype, any shape. Floating to floating rounds to nearest even; floating to integer truncates
/// towards zero and saturates; to bool is x != 0. Returns x itself when it has that dtype already.
Tensor cast(const Tensor& x, DType dtype);

}  // namespace neurim
