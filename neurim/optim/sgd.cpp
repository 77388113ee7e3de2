#include "neurim/optim/sgd.h"

#include "neurim/base/error.h"
#include "neurim/ops/add.h"
#include "neurim/ops/common/rules.h"
#include "neurim/ops/compare.h"
#include "neurim/ops/logical.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/sgd_step.h"
#include "neurim/ops/where.h"

namespace neurim {

SGD::SGD(const Parameters& parameters, const Config& c)
    : Optimizer(parameters, c.lr, c.weight_decay, c.decay_1d, c.momentum != 0 ? Names{"momentum"} : Names{}),
      config_(c) {
  require(c.momentum >= 0 && c.momentum < 1, "SGD: momentum is ", c.momentum, ", it must lie in [0, 1)");
  require(!c.nesterov || (c.momentum > 0 && c.dampening == 0), "SGD: nesterov needs momentum (", c.momentum,
          ") above 0 and dampening (", c.dampening, ") of 0");
}

void SGD::update(const Weight& w, const Tensor& gradient, const Common& common) const {
  Tensor buffer;
  if (config_.momentum != 0) {
    buffer = w.buffers[0];
    if (config_.dampening != 0) {
      // The first step is not damped: it starts from the buffer that dampening turns into the gradient.
      const Tensor& scale = common.scale;
      const Tensor own = scale ? gradient * scale : gradient, decayed = w.decay != 0 ? own + w.weight * w.decay : own;
      Tensor first = equal(common.step, scalar_like(common.step, 1));
      if (scale) first = logical_and(first, greater(scale, scalar_like(scale, 0)));
      buffer = where(first, decayed * (config_.dampening / config_.momentum), buffer);
    }
  }
  const SgdStepped next = sgd_step(w.weight, gradient, buffer, common.lr,
                                   {.momentum = config_.momentum,
                                    .dampening = config_.dampening,
                                    .weight_decay = w.decay,
                                    .nesterov = config_.nesterov},
                                   common.scale);
  w.weight.assign(next.weight);
  if (next.buffer) w.buffers[0].assign(next.buffer);
}

}  // namespace neurim
