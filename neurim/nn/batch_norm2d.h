// Batch normalisation over images.
#pragma once
#include "neurim/nn/channel_norm.h"

namespace neurim::nn {

/// x(N,channels,H,W) -> the same shape. In a trace for training it normalises by the batch's statistics and
/// moves the running ones; else by the running ones, where it tracks them. Ioffe and Szegedy, "Batch normalization",
/// ICML'15.
struct BatchNorm2d : ChannelNorm {
  struct Config {
    double momentum = 0.1;  ///< the share of the new batch in the running statistics
    double eps = 1e-5;
    bool affine = true;               ///< or neither weight nor bias
    bool track_running_stats = true;  ///< or always the batch's statistics

    void fields(Fields& f) {
      f("momentum", momentum)("eps", eps)("affine", affine)("track_running_stats", track_running_stats);
    }
  };

  explicit BatchNorm2d(std::int64_t channels);
  BatchNorm2d(std::int64_t channels, const Config& config);
  Tensor operator()(const Tensor& x) const;

  Config config;
};

}  // namespace neurim::nn
