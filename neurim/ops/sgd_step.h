// One step of stochastic gradient descent.
#pragma once
#include "neurim/graph/op.h"

namespace neurim {

/// The options of sgd_step, with the defaults of torch.optim.SGD.
struct SgdRule {
  double momentum = 0,    ///< decay of the buffer; 0: no buffer
      dampening = 0,      ///< the share of the gradient that does not join the buffer
      weight_decay = 0;   ///< times the weight joins the gradient
  bool nesterov = false;  ///< Nesterov momentum; takes a momentum above 0 and no dampening
  bool scaled = false;    ///< the gradient is that of a scaled loss
};

/// Inputs (weight, grad[, buffer], lr[, scale]), outputs (weight'[, buffer']); the buffer is there exactly when
/// momentum is not 0, the scale when the rule is scaled.
class SgdStep final : public Op {
 public:
  /// An op with these options.
  explicit SgdStep(const SgdRule& update = {}) : rule(update) {}
  SgdRule rule;  ///< the attributes

  std::string_view name() const override { return "sgd_step"; }
  void fields(Fields& f) override {
    f("momentum", rule.momentum)("dampening", rule.dampening)("nesterov", rule.nesterov);
    f("weight_decay", rule.weight_decay)("scaled", rule.scaled);
  }
  Types infer(std::span<const Type> in) const override;
  Alias alias(int out, int in) const override { return in == (out == 0 ? 0 : 2) ? Alias::overwrite : Alias::none; }
  std::vector<Sample> samples() const override;
};

/// What sgd_step returns.
struct SgdStepped {
  Tensor weight,  ///< after the step
      buffer;     ///< undefined without momentum
};

/// As torch.optim.SGD: g = grad + weight_decay * weight; buffer' = momentum * buffer + (1 - dampening) * g;
/// weight' = weight - lr * (nesterov ? g + momentum * buffer' : buffer'), or weight - lr * g without
/// momentum. weight, grad and buffer are floating, of one type; lr is a floating scalar. PyTorch fills the
/// first buffer with g itself, which a buffer of zeros gives too while dampening is 0. With a scale, a f32 scalar, grad
/// is multiplied by it first, and where it is 0 nothing changes. Throws Error(usage) when types or options disagree.
SgdStepped sgd_step(const Tensor& weight, const Tensor& grad, const Tensor& buffer, const Tensor& lr,
                    const SgdRule& rule = {}, const Tensor& scale = {});

}  // namespace neurim
