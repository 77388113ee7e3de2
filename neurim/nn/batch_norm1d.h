// Batch normalisation over vectors and series.
#pragma once
#include "neurim/nn/batch_norm2d.h"

namespace neurim::nn {

/// x(N,channels) or x(N,channels,L) -> the same shape, as BatchNorm2d.
struct BatchNorm1d : BatchNorm2d {
  /// Takes the number of channels, and a Config.
  using BatchNorm2d::BatchNorm2d;
  Tensor operator()(const Tensor& x) const;  ///< x (N,C) or (N,C,L); gives the same shape
};

/// Batch normalisation of x(N,channels,…) whose statistics are those of all ranks' batches together. There is
/// one rank, on which it is BatchNorm2d, with its parameters under its names.
struct SyncBatchNorm : BatchNorm2d {
  /// Takes the number of channels, and a Config.
  using BatchNorm2d::BatchNorm2d;
};

}  // namespace neurim::nn
