#include "neurim/nn/channel_norm.h"

#include "neurim/base/error.h"

namespace neurim::nn {

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
  p("running_mean", running_mean, Role::state, constant(0))("running_var", running_var, Role::state,
                                                            constant(1));
}

}  // namespace neurim::nn
