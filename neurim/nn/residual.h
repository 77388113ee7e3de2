// Residual blocks of He et al., "Deep residual learning", CVPR'16, with torchvision's names and details.
#pragma once
#include "neurim/nn/batch_norm2d.h"
#include "neurim/nn/conv.h"
#include "neurim/nn/sequential.h"

namespace neurim::nn {

/// Two 3x3 convolutions: x(N,in,H,W) -> (N,channels,H/stride,W/stride). Where the shape changes, a 1x1
/// convolution (downsample.0, downsample.1) fits the shortcut.
struct BasicBlock {
  static constexpr std::int64_t kExpansion = 1;  ///< channels of the result over `channels`

  /// The first convolution has the stride.
  BasicBlock(std::int64_t in, std::int64_t channels, std::int64_t stride = 1);
  void parts(Parts& p);
  Tensor operator()(const Tensor& x) const;  ///< x (N,in,H,W); gives (N,channels,H/stride,W/stride)

  Conv2d conv1,           ///< 3x3, in to channels, with the stride
      conv2;              ///< 3x3, channels to channels
  BatchNorm2d bn1,        ///< after conv1
      bn2;                ///< after conv2
  Sequential downsample;  ///< of the shortcut; empty where the shape stays
};

/// A 1x1, a 3x3 and a 1x1 convolution: x(N,in,H,W) -> (N,4*channels,H/stride,W/stride). The 3x3 one strides,
/// as torchvision's "v1.5". Its width is channels * base_width / 64 in each of the groups: Xie et al.,
/// "Aggregated residual transformations", CVPR'17 (ResNeXt), and Zagoruyko and Komodakis, "Wide residual
/// networks", BMVC'16.
struct Bottleneck {
  static constexpr std::int64_t kExpansion = 4;  ///< channels of the result over `channels`
  /// Options, of ResNeXt and wide networks.
  struct Config {
    std::int64_t groups = 1,  ///< of the 3x3 convolution
        base_width = 64;      ///< width of a group where `channels` is 64

    void fields(Fields& f) { f("groups", groups)("base_width", base_width); }
  };

  Bottleneck(std::int64_t in, std::int64_t channels, std::int64_t stride = 1);  ///< with the default Config
  /// The 3x3 convolution has the stride.
  Bottleneck(std::int64_t in, std::int64_t channels, std::int64_t stride, const Config& config);
  void parts(Parts& p);
  Tensor operator()(const Tensor& x) const;  ///< x (N,in,H,W); gives (N,4*channels,H/stride,W/stride)

  Conv2d conv1,           ///< 1x1, in to width
      conv2,              ///< 3x3, width to width, with the stride
      conv3;              ///< 1x1, width to 4*channels
  BatchNorm2d bn1,        ///< after conv1
      bn2,                ///< after conv2
      bn3;                ///< after conv3
  Sequential downsample;  ///< of the shortcut; empty where the shape stays
};

}  // namespace neurim::nn
