// Pooling to a given size: windows that cover one, two or three axes.
#pragma once
#include "neurim/ops/common/pool.h"

namespace neurim {

/// Base of both; input (x).
template <std::size_t N>
class AdaptivePool : public Op {
 public:
  std::array<std::int64_t, N> output = each_axis<N>(1);  ///< sizes of the result; 0 keeps the axis
  void fields(Fields& f) final { list_field(f, "output", output); }
  Types infer(std::span<const Type> in) const final;

 protected:
  /// The op O over even, uneven, overlapping and more windows than there are places.
  template <class O>
  static std::vector<Sample> samples_of(const Fill& fill);
};

/// The op of adaptive_avg_pool.
template <std::size_t N>
class AdaptiveAvgPool final : public AdaptivePool<N> {
 public:
  std::string_view name() const override {
    return N == 1 ? "adaptive_avg_pool1d" : N == 2 ? "adaptive_avg_pool2d" : "adaptive_avg_pool3d";
  }
  Tensors decompose(std::span<const Tensor> in) const override;
  std::vector<Sample> samples() const override;
};

/// The op of adaptive_max_pool.
template <std::size_t N>
class AdaptiveMaxPool final : public AdaptivePool<N> {
 public:
  std::string_view name() const override {
    return N == 1 ? "adaptive_max_pool1d" : N == 2 ? "adaptive_max_pool2d" : "adaptive_max_pool3d";
  }
  Tensors decompose(std::span<const Tensor> in) const override;
  std::vector<Sample> samples() const override;
};

/// x(N,C,…), floating, of N axes to pool over -> (N,C,output): along an axis of size n with m outputs, place
/// i is the mean of x from floor(i*n/m) to before ceil((i+1)*n/m), as PyTorch has it. An output of 0 keeps
/// the axis.
template <std::size_t N>
Tensor adaptive_avg_pool(const Tensor& x, const std::array<std::int64_t, N>& output) {
  auto op = std::make_shared<AdaptiveAvgPool<N>>();
  op->output = output;
  return apply1(op, {x});
}

/// The same with the maximum; the gradient goes to the first one of a window in row-major order.
template <std::size_t N>
Tensor adaptive_max_pool(const Tensor& x, const std::array<std::int64_t, N>& output) {
  auto op = std::make_shared<AdaptiveMaxPool<N>>();
  op->output = output;
  return apply1(op, {x});
}

/// x(N,C,L) -> (N,C,output).
inline Tensor adaptive_avg_pool1d(const Tensor& x, std::int64_t output) { return adaptive_avg_pool<1>(x, {output}); }
/// x(N,C,H,W) -> (N,C,output).
inline Tensor adaptive_avg_pool2d(const Tensor& x, const std::array<std::int64_t, 2>& output) {
  return adaptive_avg_pool<2>(x, output);
}
/// x(N,C,D,H,W) -> (N,C,output).
inline Tensor adaptive_avg_pool3d(const Tensor& x, const std::array<std::int64_t, 3>& output) {
  return adaptive_avg_pool<3>(x, output);
}
/// x(N,C,L) -> (N,C,output).
inline Tensor adaptive_max_pool1d(const Tensor& x, std::int64_t output) { return adaptive_max_pool<1>(x, {output}); }
/// x(N,C,H,W) -> (N,C,output).
inline Tensor adaptive_max_pool2d(const Tensor& x, const std::array<std::int64_t, 2>& output) {
  return adaptive_max_pool<2>(x, output);
}
/// x(N,C,D,H,W) -> (N,C,output).
inline Tensor adaptive_max_pool3d(const Tensor& x, const std::array<std::int64_t, 3>& output) {
  return adaptive_max_pool<3>(x, output);
}

}  // namespace neurim
