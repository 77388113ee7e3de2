// Residual blocks of He et al., "Deep residual learning", CVPR'16, with torchvision's names and details.
#pragma once
#include "neurim/nn/batch_norm2d.h"
#include "neurim/nn/conv.h"
#include "neurim/nn/sequential.h"

namespace neurim::nn {

/// Two 3x3 convolutions: x(N,in,H,W) -> (N,channels,H/stride,W/stride). Where the shape changes, a 1x1
/// convolution (downsample.0, downsample.1) fits the shortcut.
struct BasicBlock {
  static constexpr std::int64_t kExpansion = 1;

  BasicBlock(std::int64_t in, std::int64_t channels, std::int64_t stride = 1);
  void parts(Parts& p);
  Tensor operator()(const Tensor& x) const;

  Conv2d conv1, conv2;
  BatchNorm2d bn1, bn2;
  Sequential downsample;
};

/// A 1x1, a 3x3 and a 1x1 convolution: x(N,in,H,W) -> (N,4*channels,H/stride,W/stride). The 3x3 one strides,
/// as torchvision's "v1.5". Its width is channels * base_width / 64 in each of the groups: Xie et al.,
/// "Aggregated residual transformations", CVPR'17 (ResNeXt), and Zagoruyko and Komodakis, "Wide residual
/// networks", BMVC'16.
struct Bottleneck {
  static constexpr std::int64_t kExpansion = 4;
  struct Config {
    std::int64_t groups = 1, base_width = 64;

    void fields(Fields& f) { f("groups", groups)("base_width", base_width); }
  };

  Bottleneck(std::int64_t in, std::int64_t channels, std::int64_t stride = 1);
  Bottleneck(std::int64_t in, std::int64_t channels, std::int64_t stride, const Config& config);
  void parts(Parts& p);
  Tensor operator()(const Tensor& x) const;

  Conv2d conv1, conv2, conv3;
  BatchNorm2d bn1, bn2, bn3;
  Sequential downsample;
};

}  // namespace neurim::nn
