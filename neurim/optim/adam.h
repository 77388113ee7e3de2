// Adam and AdamW.
#pragma once
#include "neurim/optim/optimizer.h"

namespace neurim {

/// torch.optim.Adam's numerics: see ops/adam_step.h. State: "<weight>.exp_avg" and "<weight>.exp_avg_sq".
class Adam : public Optimizer {
 public:
  /// Options.
  struct Config {
    /// Learning rate, decay of the moments, term of the denominator, and L2 penalty.
    double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
    bool decay_1d = true;  ///< whether biases and norms decay too
  };
  /// With these options.
  Adam(const Parameters& parameters, const Config& config) : Adam(parameters, config, false) {}

 protected:
  Adam(const Parameters& parameters, const Config& config, bool decoupled);  ///< AdamW with `decoupled`.

 private:
  void update(const Weight& weight, const Tensor& gradient, const Common& common) const override;
  Config config_;
  bool decoupled_;
};

/// torch.optim.AdamW: the decay multiplies the weight instead of joining the gradient.
class AdamW final : public Adam {
 public:
  /// Options.
  struct Config {
    /// Learning rate, decay of the moments, term of the denominator, and decoupled decay.
    double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.01;
    bool decay_1d = true;  ///< whether biases and norms decay too
  };
  /// With these options.
  AdamW(const Parameters& parameters, const Config& c)
      : Adam(parameters, {c.lr, c.beta1, c.beta2, c.eps, c.weight_decay, c.decay_1d}, true) {}
};

}  // namespace neurim
