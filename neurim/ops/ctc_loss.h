// Connectionist temporal classification (Graves et al., 2006).
#pragma once
#include "neurim/graph/op.h"

namespace neurim {

/// The options of ctc_loss, as of torch.nn.CTCLoss.
struct CtcOptions {
  std::int64_t blank = 0;          ///< the class that stands for no label
  std::string reduction = "mean";  ///< "mean" (of the losses over their target lengths), "sum" or "none"
  bool zero_infinity = false;      ///< whether a target too long for its input has loss 0, not infinity
};

/// -log of the probability that the first input_lengths[n] steps of log_probs(T,N,C), floating, the
/// logarithms of the probabilities of the classes, spell the first target_lengths[n] labels of the target:
/// the sum over every way to repeat labels and to put blanks between them. Targets i64(N,S), or one after
/// the other, i64(at least the sum of the lengths); lengths i64(N) -> a scalar, or (N) with reduction "none",
/// in the dtype of log_probs. Sums are in double precision. A length outside [0, T] or [0, S], or a label
/// that is blank or outside [0, C), sets kStatusIndexOutOfRange.
///
/// The gradient is that to log_probs as they are. PyTorch's takes for granted that they come from log_softmax
/// and so differs, until log_softmax has made of both the same gradient to the logits.
Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, const CtcOptions& options = {});

/// Inputs (log_probs, targets, input_lengths, target_lengths) -> losses (N).
class CtcLoss final : public Op {
 public:
  std::int64_t blank = 0;      ///< as of CtcOptions
  bool zero_infinity = false;  ///< as of CtcOptions
  std::string_view name() const override { return "ctc_loss"; }
  void fields(Fields& f) override { f("blank", blank)("zero_infinity", zero_infinity); }
  Types infer(std::span<const Type> in) const override;
  Tensors grad(const Gradient& g) const override;
  bool checks_data() const override { return true; }
  std::string data_fault(std::span<const Tensor> in) const override;
  std::vector<Sample> samples() const override;
};

/// Inputs (log_probs, targets, input_lengths, target_lengths, dlosses) -> dlog_probs.
class CtcLossGrad final : public Op {
 public:
  std::int64_t blank = 0;      ///< as of CtcOptions
  bool zero_infinity = false;  ///< as of CtcOptions
  std::string_view name() const override { return "ctc_loss_grad"; }
  void fields(Fields& f) override { f("blank", blank)("zero_infinity", zero_infinity); }
  Types infer(std::span<const Type> in) const override;
  bool checks_data() const override { return true; }
  std::string data_fault(std::span<const Tensor> in) const override;
  std::vector<Sample> samples() const override;
};

}  // namespace neurim
