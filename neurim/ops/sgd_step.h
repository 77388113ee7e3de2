// One step of stochastic gradient descent.
#pragma once
#include "neurim/graph/op.h"

namespace neurim {

/// The rule of sgd_step().
struct SgdRule {
  double momentum = 0, dampening = 0, weight_decay = 0;  ///< as in PyTorch's SGD
  bool nesterov = false;                                 ///< Nesterov momentum
  bool scaled = false;                                   ///< the gradient is that of a scaled loss
};

/// Inputs (weight, grad[, buffer], lr[, scale]), outputs (weight'[, buffer']); the buffer is there exactly when
/// momentum is not 0, the scale when the rule is scaled.
class SgdStep final : public Op {
 public:
  /// With these attributes.
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

/// The results of sgd_step().
struct SgdStepped {
  Tensor weight, buffer;  ///< the buffer is undefined without momentum
};

/// As torch.optim.SGD: g = grad + weight_decay * weight; buffer' = momentum * buffer + (1 - dampening) * g;
/// weight' = weight - lr * (nesterov ? g + momentum * buffer' : buffer'), or weight - lr * g without
/// momentum. weight, grad and buffer are floating, of one type; lr is a floating scalar. PyTorch fills the
/// first buffer with g itself, which a buffer of zeros gives too while dampening is 0. With a scale, a f32 scalar, grad
/// is multiplied by it first, and where it is 0 nothing changes. Throws Error(usage) when types or options disagree.
SgdStepped sgd_step(const Tensor& weight, const Tensor& grad, const Tensor& buffer, const Tensor& lr,
                    const SgdRule& rule = {}, const Tensor& scale = {});

}  // namespace neurim
