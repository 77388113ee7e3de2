// Adam and AdamW.
#pragma once
#include "neurim/optim/optimizer.h"

namespace neurim {

/// torch.optim.Adam's numerics: see ops/adam_step.h. State: "<weight>.exp_avg" and "<weight>.exp_avg_sq".
class Adam : public Optimizer {
 public:
  /// Defaults as torch.optim.Adam.
  struct Config {
    double lr = 1e-3,      ///< learning rate
        beta1 = 0.9,       ///< decay of the mean of the gradients
        beta2 = 0.999,     ///< decay of the mean of their squares
        eps = 1e-8,        ///< added to the root of the latter
        weight_decay = 0;  ///< joins the gradient
    bool decay_1d = true;  ///< whether biases and norms decay too
  };
  /// Steps the parameters that are weights. Throws Error(usage) where a field of `config` is out of range.
  Adam(const Parameters& parameters, const Config& config) : Adam(parameters, config, false) {}

 protected:
  /// `decoupled`: as AdamW.
  Adam(const Parameters& parameters, const Config& config, bool decoupled);

 private:
  void update(const Weight& weight, const Tensor& gradient, const Common& common) const override;
  Config config_;
  bool decoupled_;
};

/// torch.optim.AdamW: the decay multiplies the weight instead of joining the gradient.
class AdamW final : public Adam {
 public:
  /// Defaults as torch.optim.AdamW.
  struct Config {
    double lr = 1e-3,         ///< learning rate
        beta1 = 0.9,          ///< decay of the mean of the gradients
        beta2 = 0.999,        ///< decay of the mean of their squares
        eps = 1e-8,           ///< added to the root of the latter
        weight_decay = 0.01;  ///< the weight is multiplied by 1 - lr * weight_decay
    bool decay_1d = true;     ///< whether biases and norms decay too
  };
  /// Throws as Adam.
  AdamW(const Parameters& parameters, const Config& c)
      : Adam(parameters, {c.lr, c.beta1, c.beta2, c.eps, c.weight_decay, c.decay_1d}, true) {}
};

}  // namespace neurim
