// The residual networks for ImageNet-sized images.
#pragma once
#include <array>

#include "neurim/nn/batch_norm2d.h"
#include "neurim/nn/conv.h"
#include "neurim/nn/linear.h"
#include "neurim/nn/sequential.h"

namespace neurim {

/// He et al., "Deep residual learning", CVPR'16, with torchvision's names and details: x(N,in_chans,H,W) ->
/// logits (N,classes).
struct ResNet {
  enum class Block { basic, bottleneck };

  /// `blocks`: how many in each of the four stages.
  ResNet(Block block, const std::array<int, 4>& blocks, std::int64_t classes, std::int64_t in_chans);
  void parts(Parts& p);
  Tensor operator()(const Tensor& x) const;

  nn::Conv2d conv1;
  nn::BatchNorm2d bn1;
  nn::Sequential layer1, layer2, layer3, layer4;
  nn::Linear fc;
};

}  // namespace neurim
