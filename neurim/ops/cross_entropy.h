// Cross entropy of logits against class numbers or probabilities.
#pragma once
#include "neurim/graph/op.h"

namespace neurim {

/// The options of cross_entropy, as of torch.nn.CrossEntropyLoss.
struct CrossEntropyOptions {
  double label_smoothing = 0;        ///< in [0, 1]: this share of the target is spread evenly over the classes
  std::int64_t ignore_index = -100;  ///< positions with this target count nothing
  std::string reduction = "mean";    ///< "mean" (over the class weights of the targets), "sum" or "none"
};

/// logits(N,C,…), floating, target i64(N,…), class_weights(C) floating when given -> a scalar, or (N,…) with
/// reduction "none", in the dtype of the logits. PyTorch's numerics: a mean over nothing is NaN. A target
/// outside [0, C) that is not `ignore_index` sets kStatusIndexOutOfRange and counts as ignored.
///
/// A floating target (N,C,…) holds the probabilities of the classes: of images mixed by MixUp or CutMix, or
/// of a teacher. Then the loss is -sum(w target log_softmax(logits)) over the classes, its mean that over the
/// places, whatever their weights; gradients flow to the target too, and ignore_index has no meaning.
Tensor cross_entropy(const Tensor& logits, const Tensor& target, const CrossEntropyOptions& options = {},
                     const Tensor& class_weights = {});

/// Inputs (logits, target[, class_weights]) -> loss.
class CrossEntropy final : public Op {
 public:
  CrossEntropyOptions options;  ///< of the loss
  std::string_view name() const override { return "cross_entropy"; }
  void fields(Fields& f) override;
  Types infer(std::span<const Type> in) const override;
  Tensors grad(const Gradient& g) const override;
  bool checks_data() const override { return true; }
  std::string data_fault(std::span<const Tensor> in) const override;
  std::vector<Sample> samples() const override;
};

/// Inputs (logits, target[, class_weights], dloss) -> dlogits.
class CrossEntropyGrad final : public Op {
 public:
  CrossEntropyOptions options;  ///< of the loss
  std::string_view name() const override { return "cross_entropy_grad"; }
  void fields(Fields& f) override;
  Types infer(std::span<const Type> in) const override;
  bool checks_data() const override { return true; }
  std::string data_fault(std::span<const Tensor> in) const override;
  std::vector<Sample> samples() const override;
};

}  // namespace neurim
