#include "neurim/nn/batch_norm2d.h"

#include "neurim/ops/batch_norm.h"

namespace neurim::nn {

BatchNorm2d::BatchNorm2d(std::int64_t channels) : BatchNorm2d(channels, Config{}) {}

BatchNorm2d::BatchNorm2d(std::int64_t channels, const Config& c)
    : ChannelNorm("BatchNorm2d", channels, c.affine, c.track_running_stats), config(c) {
  check_norm("BatchNorm2d", c.eps, c.momentum);
}

Tensor BatchNorm2d::operator()(const Tensor& x) const {
  return batch_norm(x, weight, bias, running_mean, running_var, config.momentum, config.eps);
}

}  // namespace neurim::nn
