// Stochastic gradient descent.
#pragma once
#include "neurim/optim/optimizer.h"

namespace neurim {

/// torch.optim.SGD's numerics: see ops/sgd_step.h. State: "<weight>.momentum", when there is momentum.
class SGD final : public Optimizer {
 public:
  /// Options.
  struct Config {
    double lr = 1e-3, momentum = 0, dampening = 0, weight_decay = 0;  ///< as in PyTorch's SGD
    bool nesterov = false;                                            ///< needs momentum and no dampening
    bool decay_1d = true;                                             ///< whether biases and norms decay too
  };
  SGD(const Parameters& parameters, const Config& config);  ///< throws Error(usage) when options disagree

 private:
  void update(const Weight& weight, const Tensor& gradient, const Common& common) const override;
  Config config_;
};

}  // namespace neurim
