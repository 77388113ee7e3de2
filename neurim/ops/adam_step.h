// One step of Adam or AdamW.
#pragma once
#include "neurim/graph/op.h"

namespace neurim {

/// The options of adam_step, with the defaults of torch.optim.Adam.
struct AdamRule {
  double beta1 = 0.9,      ///< decay of the mean of gradients m
      beta2 = 0.999,       ///< decay of the mean of their squares v
      eps = 1e-8,          ///< added to the root of v
      weight_decay = 0;    ///< times the weight joins the gradient; decoupled: the weight shrinks by lr * this
  bool decoupled = false;  ///< AdamW: the decay multiplies the weight instead of joining the gradient
  bool scaled = false;     ///< the gradient is that of a scaled loss
};

/// Inputs (weight, grad, m, v, lr, step[, scale]), the scale when the rule is scaled, outputs (weight', m', v').
class AdamStep final : public Op {
 public:
  /// An op with these options.
  explicit AdamStep(const AdamRule& update = {}) : rule(update) {}
  AdamRule rule;  ///< the attributes

  std::string_view name() const override { return "adam_step"; }
  void fields(Fields& f) override {
    f("beta1", rule.beta1)("beta2", rule.beta2)("eps", rule.eps);
    f("weight_decay", rule.weight_decay)("decoupled", rule.decoupled)("scaled", rule.scaled);
  }
  Types infer(std::span<const Type> in) const override;
  Alias alias(int out, int in) const override {
    return in == (out == 0 ? 0 : out + 1) ? Alias::overwrite : Alias::none;
  }
  std::vector<Sample> samples() const override;
};

/// What adam_step returns.
struct AdamStepped {
  Tensor weight,  ///< after the step
      m,          ///< mean of gradients
      v;          ///< mean of squared gradients
};

/// As torch.optim.Adam, or AdamW when decoupled (Kingma and Ba, arXiv 1412.6980; Loshchilov and Hutter,
/// 1711.05101): g = grad + weight_decay * weight, or weight *= 1 - lr * weight_decay when decoupled; m' =
/// beta1 * m + (1 - beta1) * g; v' = beta2 * v + (1 - beta2) * g²; weight' = weight - lr / (1 - beta1^step) *
/// m' / (sqrt(v' / (1 - beta2^step)) + eps). weight, grad, m and v are floating, of one type; lr is a
/// floating scalar; step is an i64 scalar, 1 at the first step. With a scale, a f32 scalar, grad is multiplied
/// by it first, and where it is 0 nothing changes. Throws Error(usage) when types or options disagree.
AdamStepped adam_step(const Tensor& weight, const Tensor& grad, const Tensor& m, const Tensor& v, const Tensor& lr,
                      const Tensor& step, const AdamRule& rule = {}, const Tensor& scale = {});

}  // namespace neurim
