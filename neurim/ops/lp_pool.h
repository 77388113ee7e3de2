// The norm of sliding windows of one, two or three axes.
#pragma once
#include "neurim/ops/common/pool.h"

namespace neurim {

/// A window that slides over the last N axes, and the norm taken of it.
template <std::size_t N>
struct LpPoolOptions {
  double norm_type = 2;                                  ///< p, 1 or more
  std::array<std::int64_t, N> kernel = each_axis<N>(2);  ///< [depth,] [height,] width
  std::array<std::int64_t, N> stride{};                  ///< 0: the kernel
  bool ceil_mode = false;  ///< also the last window that overhangs, scaled up to a whole one as PyTorch does
};

/// Input (x).
template <std::size_t N>
class LpPool final : public Op {
 public:
  LpPoolOptions<N> options;  ///< the window and the norm
  std::string_view name() const override { return N == 1 ? "lp_pool1d" : N == 2 ? "lp_pool2d" : "lp_pool3d"; }
  void fields(Fields& f) override;
  Types infer(std::span<const Type> in) const override;
  Tensors decompose(std::span<const Tensor> in) const override;
  std::vector<Sample> samples() const override;
};

/// x(N,C,…), floating, of N axes to pool over -> (N,C,…): (Σ |x|^p)^(1/p) over each window. It is ONNX's
/// rule; PyTorch drops the absolute value, which makes negative sums of odd p NaN. The gradient of a window
/// of zeros is 0.
template <std::size_t N>
Tensor lp_pool(const Tensor& x, const LpPoolOptions<N>& options) {
  auto op = std::make_shared<LpPool<N>>();
  op->options = options;
  return apply1(op, {x});
}

/// x(N,C,L) -> (N,C,L').
inline Tensor lp_pool1d(const Tensor& x, const LpPoolOptions<1>& options = {}) { return lp_pool(x, options); }
/// x(N,C,H,W) -> (N,C,H',W').
inline Tensor lp_pool2d(const Tensor& x, const LpPoolOptions<2>& options = {}) { return lp_pool(x, options); }
/// x(N,C,D,H,W) -> (N,C,D',H',W').
inline Tensor lp_pool3d(const Tensor& x, const LpPoolOptions<3>& options = {}) { return lp_pool(x, options); }

}  // namespace neurim
