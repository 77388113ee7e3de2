// The fully connected layer.
#pragma once
#include "neurim/graph/op.h"

namespace neurim {

/// x(…,in) times the transpose of weight(out,in), plus bias(out) when given -> (…,out). One floating dtype.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

/// Inputs (x, weight[, bias]).
class Linear final : public Op {
 public:
  std::string_view name() const override { return "linear"; }
  Types infer(std::span<const Type> in) const override;
  Tensors grad(const Gradient& g) const override;
  std::int64_t multiply_adds(std::span<const Type> in) const override;
  bool precedes(const Op& anchor) const override;  ///< the recurrence over its rows
  Onnx onnx() const override { return {.composed = true}; }
  void write_onnx(OnnxNode& node) const override;
  std::vector<Sample> samples() const override;
};

}  // namespace neurim
