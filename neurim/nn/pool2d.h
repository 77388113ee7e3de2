// Pooling layers, without parameters.
#pragma once
#include "neurim/graph/tensor.h"
#include "neurim/nn/size.h"

namespace neurim::nn {

/// x(N,C,H,W) -> (N,C,H',W'): the maximum of each window.
struct MaxPool2d {
  Size2d kernel = 2;
  Size2d stride = 0;  ///< 0: the kernel
  Size2d pad = 0, dilation = 1;
  bool ceil_mode = false;
  Tensor operator()(const Tensor& x) const;
};

/// x(N,C,H,W) -> (N,C,H',W'): the mean of each window.
struct AvgPool2d {
  Size2d kernel = 2;
  Size2d stride = 0;  ///< 0: the kernel
  Size2d pad = 0;
  bool ceil_mode = false, count_include_pad = true;
  Tensor operator()(const Tensor& x) const;
};

/// x(N,C,H,W) -> (N,C,1,1): the mean of each channel.
struct GlobalAvgPool2d {
  Tensor operator()(const Tensor& x) const;
};

}  // namespace neurim::nn
