// Batch normalisation over images.
#pragma once
#include "neurim/nn/channel_norm.h"

namespace neurim::nn {

/// x(N,channels,H,W) -> the same shape. In a trace for training it normalises by the batch's statistics and
/// moves the running ones; else by the running ones, where it tracks them. Ioffe and Szegedy, "Batch normalization",
/// ICML'15.
struct BatchNorm2d : ChannelNorm {
  /// Options; the names and defaults are PyTorch's.
  struct Config {
    double momentum = 0.1;            ///< the share of the new batch in the running statistics
    double eps = 1e-5;                ///< added to the variance
    bool affine = true;               ///< or neither weight nor bias
    bool track_running_stats = true;  ///< or always the batch's statistics

    void fields(Fields& f) {
      f("momentum", momentum)("eps", eps)("affine", affine)("track_running_stats", track_running_stats);
    }
  };

  explicit BatchNorm2d(std::int64_t channels);  ///< with the default Config
  /// Throws Error(usage) without channels, for a negative eps and for a momentum outside [0, 1].
  BatchNorm2d(std::int64_t channels, const Config& config);
  Tensor operator()(const Tensor& x) const;  ///< x (N,C,H,W); gives the same shape

  Config config;  ///< as given
};

}  // namespace neurim::nn
