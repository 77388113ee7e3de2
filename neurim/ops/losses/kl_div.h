// Kullback-Leibler divergence.
#pragma once
#include <string>

#include "neurim/graph/tensor.h"

namespace neurim {

/// The options of kl_div.
struct KlDivOptions {
  bool log_target = false;  ///< whether the target too is given as log probabilities
  /// "mean" (over all elements), "batchmean" (the sum over the first size: the divergence of one
  /// distribution, on average), "sum" or "none"
  std::string reduction = "mean";
};

/// target (log target - log_probs), where 0 log 0 is 0: how far log_probs is from the target. Both floating
/// and of one type, any shape -> a scalar, or that shape with reduction "none". f16 and bf16 are computed in
/// f32 and rounded once. PyTorch's figures; its gradient to a target of 0 is the finite part, -log_probs.
Tensor kl_div(const Tensor& log_probs, const Tensor& target, const KlDivOptions& options = {});

}  // namespace neurim
