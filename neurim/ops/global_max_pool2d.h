// Maximum over each image plane.
#pragma once
#include "neurim/graph/op.h"

namespace neurim {

/// x(N,C,H,W), floating -> (N,C,1,1). The gradient goes to the first maximum of a plane in row-major order.
Tensor global_max_pool2d(const Tensor& x);

/// Input (x).
class GlobalMaxPool2d final : public Op {
 public:
  std::string_view name() const override { return "global_max_pool2d"; }
  Types infer(std::span<const Type> in) const override;
  Tensors decompose(std::span<const Tensor> in) const override;
  Onnx onnx() const override { return {"GlobalMaxPool", 1}; }
  std::vector<Sample> samples() const override;
};

}  // namespace neurim
