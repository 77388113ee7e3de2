#include "neurim/nn/batch_norm2d.h"

#include "neurim/base/error.h"
#include "neurim/ops/batch_norm.h"

namespace neurim::nn {

BatchNorm2d::BatchNorm2d(std::int64_t channels) : BatchNorm2d(channels, Config{}) {}

BatchNorm2d::BatchNorm2d(std::int64_t channels, const Config& c) : config(c) {
  require(channels > 0, "BatchNorm2d: channels (", channels, ") must be 1 or more");
  if (c.affine) {
    weight = parameter({channels}, constant(1));
    bias = parameter({channels}, constant(0));
  }
  if (c.track_running_stats) {
    running_mean = parameter({channels}, constant(0));
    running_var = parameter({channels}, constant(1));
  }
}

void BatchNorm2d::parts(Parts& p) {
  p("weight", weight, constant(1))("bias", bias, constant(0));
  p("running_mean", running_mean, Role::state, constant(0))("running_var", running_var, Role::state,
                                                            constant(1));
}

Tensor BatchNorm2d::operator()(const Tensor& x) const {
  return batch_norm(x, weight, bias, running_mean, running_var, config.momentum, config.eps);
}

}  // namespace neurim::nn
