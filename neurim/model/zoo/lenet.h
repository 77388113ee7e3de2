// LeNet-5.
#pragma once
#include "neurim/nn/conv.h"
#include "neurim/nn/linear.h"

namespace neurim {

/// LeCun et al., "Gradient-based learning applied to document recognition", 1998, with ReLU and max pooling:
/// x(N,in_chans,28,28) -> logits (N,classes).
struct LeNet5 {
  LeNet5(std::int64_t classes, std::int64_t in_chans);
  void parts(Parts& p);
  Tensor operator()(const Tensor& x) const;

  nn::Conv2d c1, c2;
  nn::Linear f1, f2, f3;
};

}  // namespace neurim
