#include "neurim/nn/channel_norm.h"

#include <cmath>

#include "neurim/base/error.h"

namespace neurim::nn {

void check_norm(std::string_view who, double eps, double momentum) {
  require(eps >= 0 && std::isfinite(eps), who, ": eps (", eps, ") must be 0 or more");
  require(momentum >= 0 && momentum <= 1, who, ": momentum (", momentum, ") must be a share, from 0 to 1");
}

ChannelNorm::ChannelNorm(std::string_view who, std::int64_t channels, bool affine, bool track_running_stats) {
  require(channels > 0, who, ": channels (", channels, ") must be 1 or more");
  if (affine) {
    weight = parameter({channels}, constant(1));
    bias = parameter({channels}, constant(0));
  }
  if (track_running_stats) {
    running_mean = parameter({channels}, constant(0));
    running_var = parameter({channels}, constant(1));
  }
}

void ChannelNorm::parts(Parts& p) {
  p("weight", weight, constant(1))("bias", bias, constant(0));
  p("running_mean", running_mean, Role::state, constant(0))("running_var", running_var, Role::state, constant(1));
}

}  // namespace neurim::nn
