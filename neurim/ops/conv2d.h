// Two-dimensional convolution (cross-correlation, as everywhere in deep learning) and its two gradients.
#pragma once
#include "neurim/graph/op.h"

namespace neurim {

struct Conv2dOptions {
  std::array<std::int64_t, 2> stride{1, 1}, dilation{1, 1};  ///< height, width
  std::array<std::int64_t, 4> pad{0, 0, 0, 0};               ///< top, left, bottom, right, as ONNX
  std::int64_t groups = 1;                                   ///< divides the input and the output channels
};

/// x(N,C,H,W) with weight(O,C/groups,kh,kw) and, when given, bias(O) -> (N,O,H',W') with
/// H' = floor((H + top + bottom - dilation*(kh-1) - 1) / stride) + 1. One floating dtype throughout.
/// Throws Error(usage) when channels, groups or sizes do not fit.
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const Conv2dOptions& options = {});

/// The gradient of conv2d with respect to x of shape `input_shape`: dy(N,O,H',W'), weight -> (N,C,H,W). It is
/// also the transposed convolution.
Tensor conv2d_input_grad(const Tensor& dy, const Tensor& weight, const Shape& input_shape,
                         const Conv2dOptions& options = {});

/// The gradient of conv2d with respect to the weight of shape `weight_shape`: dy(N,O,H',W'), x ->
/// (O,C/groups,kh,kw).
Tensor conv2d_weight_grad(const Tensor& dy, const Tensor& x, const Shape& weight_shape,
                          const Conv2dOptions& options = {});

/// Inputs (x, weight[, bias]).
class Conv2d final : public Op {
 public:
  Conv2dOptions options;
  std::string_view name() const override { return "conv2d"; }
  void fields(Fields& f) override;
  Types infer(std::span<const Type> in) const override;
  Tensors grad(const Gradient& g) const override;
  Onnx onnx() const override { return {"Conv", 11}; }
  std::vector<Sample> samples() const override;
};

/// Inputs (dy, weight).
class Conv2dInputGrad final : public Op {
 public:
  Conv2dOptions options;
  Shape input_shape;  ///< (N,C,H,W) of x, which strides may not let dy tell
  std::string_view name() const override { return "conv2d_input_grad"; }
  void fields(Fields& f) override;
  Types infer(std::span<const Type> in) const override;
  Tensors grad(const Gradient& g) const override;
  std::vector<Sample> samples() const override;
};

/// Inputs (dy, x).
class Conv2dWeightGrad final : public Op {
 public:
  Conv2dOptions options;
  Shape weight_shape;  ///< (O,C/groups,kh,kw)
  std::string_view name() const override { return "conv2d_weight_grad"; }
  void fields(Fields& f) override;
  Types infer(std::span<const Type> in) const override;
  Tensors grad(const Gradient& g) const override;
  std::vector<Sample> samples() const override;
};

}  // namespace neurim
