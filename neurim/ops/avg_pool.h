// Mean over sliding windows of one, two or three axes.
#pragma once
#include "neurim/ops/common/pool.h"

namespace neurim {

/// Input (x).
template <std::size_t N>
class AvgPool final : public Op {
 public:
  PoolOptions<N> options;  ///< the window
  std::string_view name() const override { return N == 1 ? "avg_pool1d" : N == 2 ? "avg_pool2d" : "avg_pool3d"; }
  void fields(Fields& f) override;
  Types infer(std::span<const Type> in) const override;
  Tensors grad(const Gradient& g) const override;
  Tensors decompose(std::span<const Tensor> in) const override;
  Onnx onnx() const override;
  void write_onnx(OnnxNode& node) const override;
  std::vector<Sample> samples() const override;
};
using AvgPool2d = AvgPool<2>;  ///< of x(N,C,H,W)

/// Input (dy) -> dx.
class AvgPool2dGrad final : public Op {
 public:
  Pool2dOptions options;  ///< as of AvgPool2d
  Shape input_shape;      ///< of x
  std::string_view name() const override { return "avg_pool2d_grad"; }
  void fields(Fields& f) override;
  Types infer(std::span<const Type> in) const override;
  Tensors grad(const Gradient& g) const override;
  std::vector<Sample> samples() const override;
};

/// x(N,C,…), floating, of N axes to pool over -> (N,C,…). The divisor is the number of window places inside
/// the input and, with `count_include_pad`, inside the padding; places beyond the padding (`ceil_mode`) never
/// count.
template <std::size_t N>
Tensor avg_pool(const Tensor& x, const PoolOptions<N>& options) {
  auto op = std::make_shared<AvgPool<N>>();
  op->options = options;
  return apply1(op, {x});
}

/// x(N,C,L) -> (N,C,L').
inline Tensor avg_pool1d(const Tensor& x, const Pool1dOptions& options = {}) { return avg_pool(x, options); }
/// x(N,C,H,W) -> (N,C,H',W').
inline Tensor avg_pool2d(const Tensor& x, const Pool2dOptions& options = {}) { return avg_pool(x, options); }
/// x(N,C,D,H,W) -> (N,C,D',H',W').
inline Tensor avg_pool3d(const Tensor& x, const Pool3dOptions& options = {}) { return avg_pool(x, options); }

}  // namespace neurim
