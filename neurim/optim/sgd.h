// Stochastic gradient descent.
#pragma once
#include "neurim/optim/optimizer.h"

namespace neurim {

/// torch.optim.SGD's numerics: see ops/sgd_step.h. State: "<weight>.momentum", when there is momentum.
class SGD final : public Optimizer {
 public:
  /// Defaults as torch.optim.SGD.
  struct Config {
    double lr = 1e-3,       ///< learning rate
        momentum = 0,       ///< share of the last step's direction that is kept; 0: no buffer
        dampening = 0,      ///< share of the gradient that the momentum leaves out
        weight_decay = 0;   ///< joins the gradient
    bool nesterov = false;  ///< needs momentum and no dampening
    bool decay_1d = true;   ///< whether biases and norms decay too
  };
  SGD(const Parameters& parameters, const Config& config);  ///< throws Error(usage) when options disagree

 private:
  void update(const Weight& weight, const Tensor& gradient, const Common& common) const override;
  Config config_;
};

}  // namespace neurim
