// Negative log likelihood of class numbers.
#pragma once
#include <string>

#include "neurim/graph/tensor.h"

namespace neurim {

/// The options of nll_loss.
struct NllOptions {
  std::int64_t ignore_index = -100;  ///< positions with this target count nothing
  std::string reduction = "mean";    ///< "mean" (over the class weights of the targets), "sum" or "none"
};

/// -w[t] log_probs[t]: log_probs(N,C,…), floating, target t i64(N,…), class_weights w(C) floating when given
/// -> a scalar, or (N,…) with reduction "none", in the dtype of log_probs. cross_entropy is this of
/// log_softmax. As there, a mean over nothing is NaN, and a target outside [0, C) that is not
/// `ignore_index` sets kStatusIndexOutOfRange.
Tensor nll_loss(const Tensor& log_probs, const Tensor& target, const NllOptions& options = {},
                const Tensor& class_weights = {});

}  // namespace neurim
