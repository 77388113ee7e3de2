// What batch and instance norms hold.
// Internal: not part of neurim.h.
#pragma once
#include "neurim/nn/module.h"

namespace neurim::nn {

/// Throws Error(usage) in the name of `who` where eps is below 0, and where momentum, the share of the new batch in
/// running statistics, is none.
void check_norm(std::string_view who, double eps, double momentum = 0);

/// Of each channel: weight 1 and bias 0 where `affine`, running_mean 0 and running_var 1 where `track_running_stats`;
/// undefined else. Throws Error(usage) in the name of `who` where there are no channels.
struct ChannelNorm {
  /// `who` begins the errors.
  ChannelNorm(std::string_view who, std::int64_t channels, bool affine, bool track_running_stats);
  void parts(Parts& p);

  Tensor weight,     ///< (channels), the factor; undefined unless affine
      bias,          ///< (channels), the summand; undefined unless affine
      running_mean,  ///< (channels), or undefined
      running_var;   ///< (channels), or undefined
};

}  // namespace neurim::nn
