#include "neurim/optim/adam.h"

#include "neurim/base/error.h"
#include "neurim/ops/adam_step.h"

namespace neurim {

Adam::Adam(const Parameters& parameters, const Config& c, bool decoupled)
    : Optimizer(parameters, c.lr, c.weight_decay, c.decay_1d, {"exp_avg", "exp_avg_sq"}),
      config_(c),
      decoupled_(decoupled) {
  require(c.beta1 >= 0 && c.beta1 < 1 && c.beta2 >= 0 && c.beta2 < 1, "Adam: the betas are ", c.beta1, " and ", c.beta2,
          ", both must lie in [0, 1)");
  require(c.eps >= 0, "Adam: eps is ", c.eps, ", it must not be negative");
}

void Adam::update(const Weight& w, const Tensor& gradient, const Common& common) const {
  const AdamStepped next = adam_step(w.weight, gradient, w.buffers[0], w.buffers[1], common.lr, common.step,
                                     {.beta1 = config_.beta1,
                                      .beta2 = config_.beta2,
                                      .eps = config_.eps,
                                      .weight_decay = w.decay,
                                      .decoupled = decoupled_},
                                     common.scale);
  w.weight.assign(next.weight);
  w.buffers[0].assign(next.m);
  w.buffers[1].assign(next.v);
}

}  // namespace neurim
