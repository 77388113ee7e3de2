// Determinants.
#pragma once
#include "neurim/graph/op.h"

namespace neurim {

/// The determinants of the matrices in floating x(…,M,M) -> (…). Of an empty matrix it is 1. Has no gradient.
Tensor det(const Tensor& x);

/// The op of det. Input (x).
class Det final : public Op {
 public:
  std::string_view name() const override { return "det"; }
  Types infer(std::span<const Type> in) const override;
  Onnx onnx() const override { return {"Det", 11}; }
  std::vector<Sample> samples() const override;
};

}  // namespace neurim
