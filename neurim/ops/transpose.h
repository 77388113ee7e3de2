// Permuting the axes.
#pragma once
#include "neurim/graph/op.h"

namespace neurim {

/// The op of transpose. Input (x).
class Transpose final : public Op {
 public:
  /// Sets the attributes.
  explicit Transpose(std::vector<std::int64_t> permutation = {}) : perm(std::move(permutation)) {}
  std::vector<std::int64_t> perm;  ///< axis i of the output is axis perm[i] of the input

  std::string_view name() const override { return "transpose"; }
  FusionTraits fusion() const override { return {.data_movement = true}; }
  void fields(Fields& f) override { f("perm", perm); }
  Types infer(std::span<const Type> in) const override;
  Tensors grad(const Gradient& g) const override;
  /// From images to rows of pixels and back, blocks of channels stay where they are.
  std::optional<Layout> layout_alias(const Type& in, const Layout& layout) const override;
  Onnx onnx() const override { return {"Transpose", 13}; }
  void write_onnx(OnnxNode& node) const override;
  std::vector<Sample> samples() const override;
};

/// Axis i of the result is axis perm[i] of x, any dtype. Throws Error(usage) unless perm is a permutation of
/// the axes.
Tensor transpose(const Tensor& x, const std::vector<std::int64_t>& perm);

}  // namespace neurim
