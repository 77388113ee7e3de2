// Cross entropy that counts what is classified well already for less (Lin et al., Focal Loss for Dense
// Object Detection, 2017).
#pragma once
#include <string>

#include "neurim/graph/tensor.h"

namespace neurim {

/// The options of sigmoid_focal_loss.
struct SigmoidFocalOptions {
  double alpha = 0.25;             ///< in [0, 1]: positives weigh alpha, negatives 1 - alpha; -1: no weights
  double gamma = 2;                ///< at least 0: the larger, the less easy places count; 0: cross entropy
  std::string reduction = "none";  ///< "none", "mean" (over all elements) or "sum"
};

/// -a (1 - p)^gamma log p, where p is the probability that sigmoid(logits) gives to what the target (1 or 0,
/// or between) says, and a its weight. Both floating and of one type, any shape -> that shape, or a scalar.
/// Finite for logits of any size. f16 and bf16 are computed in f32 and rounded once. Options and figures are
/// those of torchvision's sigmoid_focal_loss, of RetinaNet.
Tensor sigmoid_focal_loss(const Tensor& logits, const Tensor& target, const SigmoidFocalOptions& options = {});

/// The options of softmax_focal_loss.
struct SoftmaxFocalOptions {
  double gamma = 2;                  ///< as above
  std::int64_t ignore_index = -100;  ///< positions with this target count nothing
  std::string reduction = "mean";    ///< "mean" (over the class weights of the targets), "sum" or "none"
};

/// -w[t] (1 - p)^gamma log p, where p is the probability that softmax(logits) gives to class t: logits
/// (N,C,…), floating, target t i64(N,…), class_weights w(C) floating when given -> a scalar, or (N,…) with
/// reduction "none", in the dtype of the logits. With gamma 0 it is cross_entropy, whose numerics and errors
/// it shares.
Tensor softmax_focal_loss(const Tensor& logits, const Tensor& target, const SoftmaxFocalOptions& options = {},
                          const Tensor& class_weights = {});

}  // namespace neurim
