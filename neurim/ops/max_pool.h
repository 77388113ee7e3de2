// Maximum over sliding windows of one, two or three axes.
#pragma once
#include "neurim/ops/common/pool.h"

namespace neurim {

/// Input (x).
template <std::size_t N>
class MaxPool final : public Op {
 public:
  PoolOptions<N> options;  ///< the window
  std::string_view name() const override { return N == 1 ? "max_pool1d" : N == 2 ? "max_pool2d" : "max_pool3d"; }
  void fields(Fields& f) override;
  FusionTraits fusion() const override { return {.ends_group = N == 2, .data_movement = N == 2}; }
  Types infer(std::span<const Type> in) const override;
  Tensors grad(const Gradient& g) const override;
  Tensors decompose(std::span<const Tensor> in) const override;
  Onnx onnx() const override { return {"MaxPool", 12}; }
  void write_onnx(OnnxNode& node) const override;
  std::vector<Sample> samples() const override;
};
using MaxPool2d = MaxPool<2>;  ///< of x(N,C,H,W)

/// Inputs (x, dy) -> dx. It finds the maxima again: an x that a plan has computed again may differ from the first in
/// its last bits.
class MaxPool2dGrad final : public Op {
 public:
  Pool2dOptions options;  ///< as of MaxPool2d
  std::string_view name() const override { return "max_pool2d_grad"; }
  void fields(Fields& f) override;
  Types infer(std::span<const Type> in) const override;
  std::vector<Sample> samples() const override;
};

/// x(N,C,…), floating or of bytes, of N axes to pool over -> (N,C,…). Padding never wins; NaN does. The gradient goes
/// to the first maximum of a window in row-major order. `count_include_pad` has no meaning here.
template <std::size_t N>
Tensor max_pool(const Tensor& x, const PoolOptions<N>& options) {
  auto op = std::make_shared<MaxPool<N>>();
  op->options = options;
  return apply1(op, {x});
}

/// x(N,C,L) -> (N,C,L').
inline Tensor max_pool1d(const Tensor& x, const Pool1dOptions& options = {}) { return max_pool(x, options); }
/// x(N,C,H,W) -> (N,C,H',W').
inline Tensor max_pool2d(const Tensor& x, const Pool2dOptions& options = {}) { return max_pool(x, options); }
/// x(N,C,D,H,W) -> (N,C,D',H',W').
inline Tensor max_pool3d(const Tensor& x, const Pool3dOptions& options = {}) { return max_pool(x, options); }

}  // namespace neurim
