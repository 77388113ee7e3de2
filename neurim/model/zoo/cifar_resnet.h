// The residual networks for small images.
#pragma once
#include "neurim/nn/batch_norm2d.h"
#include "neurim/nn/conv.h"
#include "neurim/nn/linear.h"
#include "neurim/nn/sequential.h"

namespace neurim {

/// He et al., "Deep residual learning", CVPR'16, section 4.2, of 6 * blocks + 2 layers, with shortcuts of
/// option A (no parameters): x(N,in_chans,H,W) -> logits (N,classes); made for 32x32.
struct CifarResNet {
  CifarResNet(int blocks, std::int64_t classes, std::int64_t in_chans);
  void parts(Parts& p);
  Tensor operator()(const Tensor& x) const;

  nn::Conv2d conv1;
  nn::BatchNorm2d bn1;
  nn::Sequential layer1, layer2, layer3;
  nn::Linear linear;
};

}  // namespace neurim
