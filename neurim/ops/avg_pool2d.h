// Mean over sliding windows.
#pragma once
#include "neurim/ops/pool2d.h"

namespace neurim {

/// x(N,C,H,W), floating -> (N,C,H',W'). The divisor is the number of window places inside the input and, with
/// `count_include_pad`, inside the padding; places beyond the padding (`ceil_mode`) never count.
Tensor avg_pool2d(const Tensor& x, const Pool2dOptions& options = {});

/// Input (x).
class AvgPool2d final : public Op {
 public:
  Pool2dOptions options;
  std::string_view name() const override { return "avg_pool2d"; }
  void fields(Fields& f) override;
  Types infer(std::span<const Type> in) const override;
  Tensors grad(const Gradient& g) const override;
  Onnx onnx() const override;
  std::vector<Sample> samples() const override;
};

/// Input (dy) -> dx.
class AvgPool2dGrad final : public Op {
 public:
  Pool2dOptions options;
  Shape input_shape;  ///< of x
  std::string_view name() const override { return "avg_pool2d_grad"; }
  void fields(Fields& f) override;
  Types infer(std::span<const Type> in) const override;
  Tensors grad(const Gradient& g) const override;
  std::vector<Sample> samples() const override;
};

}  // namespace neurim
