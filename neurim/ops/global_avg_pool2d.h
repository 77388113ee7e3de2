// Mean over each image plane.
#pragma once
#include "neurim/graph/op.h"

namespace neurim {

/// x(N,C,H,W), floating -> (N,C,1,1).
Tensor global_avg_pool2d(const Tensor& x);

/// Input (x).
class GlobalAvgPool2d final : public Op {
 public:
  std::string_view name() const override { return "global_avg_pool2d"; }
  Types infer(std::span<const Type> in) const override;
  Tensors grad(const Gradient& g) const override;
  Onnx onnx() const override { return {"GlobalAveragePool", 1}; }
  std::vector<Sample> samples() const override;
};

}  // namespace neurim
