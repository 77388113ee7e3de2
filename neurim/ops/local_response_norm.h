// Normalization by the squares of neighbouring channels.
#pragma once
#include "neurim/graph/op.h"

namespace neurim {

/// The options of local_response_norm, as of torch.nn.LocalResponseNorm.
struct LocalResponseNormOptions {
  std::int64_t size = 5;  ///< channels of a window
  double alpha = 1e-4,    ///< the factor of the mean of squares
      beta = 0.75,        ///< the exponent of the divisor
      k = 1;              ///< added to the mean
};

/// x(N,C,…), floating -> x / (k + alpha * mean of squares)^beta, the mean over `size` channels around each,
/// where those beyond the ends count as 0 (Krizhevsky et al., "ImageNet classification with deep
/// convolutional neural networks", NeurIPS'12; PyTorch's window, which for an even size reaches one channel
/// further back than ahead). Throws Error(usage) unless size is 1 or more.
Tensor local_response_norm(const Tensor& x, const LocalResponseNormOptions& options = {});

/// Input (x), of four axes.
class LocalResponseNorm final : public Op {
 public:
  LocalResponseNormOptions options;  ///< the attributes
  std::string_view name() const override { return "local_response_norm"; }
  void fields(Fields& f) override {
    f("size", options.size)("alpha", options.alpha)("beta", options.beta)("k", options.k);
  }
  Types infer(std::span<const Type> in) const override;
  Tensors decompose(std::span<const Tensor> in) const override;
  /// ONNX's window of an even size reaches further ahead.
  Onnx onnx() const override { return options.size % 2 == 1 ? Onnx{"LRN", 13} : Onnx{}; }
  std::vector<Sample> samples() const override;
};

}  // namespace neurim
