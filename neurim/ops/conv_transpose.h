// Transposed convolution over one, two or three axes: the data gradient of a convolution as an op of its own.
#pragma once
#include "neurim/graph/op.h"
#include "neurim/ops/common/window.h"

namespace neurim {

/// How a transposed convolution over N axes moves its kernel: the options of the convolution that it is the data
/// gradient of.
template <std::size_t N>
struct ConvTransposeOptions {
  std::array<std::int64_t, N> stride = each_axis<N>(1),  ///< steps of the kernel: [depth,] [height,] width
      dilation = each_axis<N>(1);                        ///< distance between taps of the kernel
  std::array<std::int64_t, 2 * N> pad{};                 ///< cut off the output: all begins, then all ends, as ONNX
  std::array<std::int64_t, N> output_padding{};          ///< added to the size at the ends; less than the stride
  std::int64_t groups = 1;                               ///< divides the input and the output channels
};
using ConvTranspose1dOptions = ConvTransposeOptions<1>;  ///< of x(N,C,L)
using ConvTranspose2dOptions = ConvTransposeOptions<2>;  ///< of x(N,C,H,W)
using ConvTranspose3dOptions = ConvTransposeOptions<3>;  ///< of x(N,C,D,H,W)

/// A transposed convolution over N axes, from x(N,C,…), weight(C,O/groups,k…) and, when given, bias(O).
template <std::size_t N>
Tensor conv_transpose(const Tensor& x, const Tensor& weight, const Tensor& bias,
                      const ConvTransposeOptions<N>& options);

/// x(N,C,L) with weight(C,O/groups,k) and, when given, bias(O) -> (N,O,L') with
/// L' = (L - 1)*stride + dilation*(k - 1) + 1 + output_padding - left - right: the size from which conv1d
/// with these options makes L. One floating dtype throughout. Throws Error(usage) when channels, groups or
/// sizes do not fit.
Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTranspose1dOptions& options = {});

/// The same of x(N,C,H,W) with weight(C,O/groups,kh,kw) -> (N,O,H',W').
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTranspose2dOptions& options = {});

/// The same of x(N,C,D,H,W) with weight(C,O/groups,kd,kh,kw) -> (N,O,D',H',W').
Tensor conv_transpose3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTranspose3dOptions& options = {});

/// Inputs (x, weight[, bias]).
template <std::size_t N>
class ConvTranspose final : public Op {
 public:
  ConvTransposeOptions<N> options;  ///< the attributes
  std::string_view name() const override {
    return N == 1 ? "conv_transpose1d" : N == 2 ? "conv_transpose2d" : "conv_transpose3d";
  }
  void fields(Fields& f) override;
  Types infer(std::span<const Type> in) const override;
  Tensors decompose(std::span<const Tensor> in) const override;
  std::int64_t multiply_adds(std::span<const Type> in) const override;
  Onnx onnx() const override { return {"ConvTranspose", 11}; }
  void write_onnx(OnnxNode& node) const override;
  std::vector<Sample> samples() const override;
};

}  // namespace neurim
