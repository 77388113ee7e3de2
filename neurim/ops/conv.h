// Convolution (cross-correlation, as everywhere in deep learning) over one, two or three axes, its two
// gradients.
#pragma once
#include "neurim/graph/op.h"
#include "neurim/ops/common/window.h"

namespace neurim {

/// How a convolution over N axes moves its kernel.
template <std::size_t N>
struct ConvOptions {
  std::array<std::int64_t, N> stride = each_axis<N>(1),  ///< steps of the kernel: [depth,] [height,] width
      dilation = each_axis<N>(1);                        ///< distance between taps of the kernel
  std::array<std::int64_t, 2 * N> pad{};  ///< all begins, then all ends, as ONNX: top, left, bottom, right
  std::int64_t groups = 1;                ///< divides the input and the output channels
};
using Conv1dOptions = ConvOptions<1>;  ///< of conv1d, x(N,C,L)
using Conv2dOptions = ConvOptions<2>;  ///< of conv2d, x(N,C,H,W)
using Conv3dOptions = ConvOptions<3>;  ///< of conv3d, x(N,C,D,H,W)

/// x(N,C,L) with weight(O,C/groups,k) and, when given, bias(O) -> (N,O,L') with
/// L' = floor((L + left + right - dilation*(k-1) - 1) / stride) + 1. One floating dtype throughout.
/// Throws Error(usage) when channels, groups or sizes do not fit.
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const Conv1dOptions& options = {});

/// The same of x(N,C,H,W) with weight(O,C/groups,kh,kw) -> (N,O,H',W').
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const Conv2dOptions& options = {});

/// The same of x(N,C,D,H,W) with weight(O,C/groups,kd,kh,kw) -> (N,O,D',H',W').
Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const Conv3dOptions& options = {});

/// A convolution over N axes; an undefined bias is none.
template <std::size_t N>
Tensor conv(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions<N>& options);

/// The gradient of a convolution over N axes with respect to x of shape `input_shape`: dy(N,O,…), weight ->
/// (N,C,…).
template <std::size_t N>
Tensor conv_input_grad(const Tensor& dy, const Tensor& weight, const Shape& input_shape, const ConvOptions<N>& options);

/// The gradient with respect to the weight of shape `weight_shape`: dy(N,O,…), x -> (O,C/groups,…).
template <std::size_t N>
Tensor conv_weight_grad(const Tensor& dy, const Tensor& x, const Shape& weight_shape, const ConvOptions<N>& options);

/// Inputs (x, weight[, bias]).
template <std::size_t N>
class Conv final : public Op {
 public:
  ConvOptions<N> options;  ///< of the convolution
  std::string_view name() const override { return N == 1 ? "conv1d" : N == 2 ? "conv2d" : "conv3d"; }
  void fields(Fields& f) override;
  Types infer(std::span<const Type> in) const override;
  Tensors grad(const Gradient& g) const override;
  std::int64_t multiply_adds(std::span<const Type> in) const override;
  Onnx onnx() const override { return {"Conv", 11}; }
  void write_onnx(OnnxNode& node) const override;
  std::vector<Sample> samples() const override;
};
using Conv1d = Conv<1>;  ///< of x(N,C,L)
using Conv2d = Conv<2>;  ///< of x(N,C,H,W)
using Conv3d = Conv<3>;  ///< of x(N,C,D,H,W)

/// Inputs (dy, weight).
template <std::size_t N>
class ConvInputGrad final : public Op {
 public:
  ConvOptions<N> options;  ///< of the convolution
  Shape input_shape;       ///< of x, which strides may not let dy tell
  std::string_view name() const override {
    return N == 1 ? "conv1d_input_grad" : N == 2 ? "conv2d_input_grad" : "conv3d_input_grad";
  }
  void fields(Fields& f) override;
  Types infer(std::span<const Type> in) const override;
  Tensors grad(const Gradient& g) const override;
  std::int64_t multiply_adds(std::span<const Type> in) const override;
  std::vector<Sample> samples() const override;
};
using Conv1dInputGrad = ConvInputGrad<1>;  ///< of x(N,C,L)
using Conv2dInputGrad = ConvInputGrad<2>;  ///< of x(N,C,H,W)
using Conv3dInputGrad = ConvInputGrad<3>;  ///< of x(N,C,D,H,W)

/// Inputs (dy, x).
template <std::size_t N>
class ConvWeightGrad final : public Op {
 public:
  ConvOptions<N> options;  ///< of the convolution
  Shape weight_shape;      ///< (O,C/groups,…)
  std::string_view name() const override {
    return N == 1 ? "conv1d_weight_grad" : N == 2 ? "conv2d_weight_grad" : "conv3d_weight_grad";
  }
  void fields(Fields& f) override;
  Types infer(std::span<const Type> in) const override;
  Tensors grad(const Gradient& g) const override;
  std::int64_t multiply_adds(std::span<const Type> in) const override;
  std::vector<Sample> samples() const override;
};
using Conv1dWeightGrad = ConvWeightGrad<1>;  ///< of x(N,C,L)
using Conv2dWeightGrad = ConvWeightGrad<2>;  ///< of x(N,C,H,W)
using Conv3dWeightGrad = ConvWeightGrad<3>;  ///< of x(N,C,D,H,W)

}  // namespace neurim
