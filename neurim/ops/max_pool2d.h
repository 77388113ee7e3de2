// Maximum over sliding windows.
#pragma once
#include "neurim/ops/pool2d.h"

namespace neurim {

/// x(N,C,H,W), floating -> (N,C,H',W'). Padding never wins; NaN does. The gradient goes to the first maximum
/// of a window in row-major order. `count_include_pad` has no meaning here.
Tensor max_pool2d(const Tensor& x, const Pool2dOptions& options = {});

/// Input (x).
class MaxPool2d final : public Op {
 public:
  Pool2dOptions options;
  std::string_view name() const override { return "max_pool2d"; }
  void fields(Fields& f) override;
  Types infer(std::span<const Type> in) const override;
  Tensors grad(const Gradient& g) const override;
  Onnx onnx() const override { return {"MaxPool", 12}; }
  std::vector<Sample> samples() const override;
};

/// Inputs (x, y, dy) -> dx.
class MaxPool2dGrad final : public Op {
 public:
  Pool2dOptions options;
  std::string_view name() const override { return "max_pool2d_grad"; }
  void fields(Fields& f) override;
  Types infer(std::span<const Type> in) const override;
  std::vector<Sample> samples() const override;
};

}  // namespace neurim
