// What several families of the zoo are made of.
#pragma once
#include <optional>

#include "neurim/nn/batch_norm2d.h"
#include "neurim/nn/conv.h"
#include "neurim/nn/sequential.h"

namespace neurim::zoo {

/// `channels` as a multiple of `divisor`: the nearest one that is not below nine tenths of it, as the
/// MobileNets round (Sandler et al., "MobileNetV2", CVPR'18, in its published code).
std::int64_t make_divisible(double channels, std::int64_t divisor);

struct ConvNormOptions {
  nn::Size2d kernel = 3, stride = 1;
  std::int64_t groups = 1;
  nn::BatchNorm2d::Config norm = {};
  nn::InitRule init = nn::fan_out_normal;
  /// Padded as TensorFlow does it: just enough for ceil(size/stride) results, where that is odd with one more
  /// at the end. Else by half the kernel.
  bool same = false;
};

/// A convolution without bias ("0"), batch norm ("1") and, where given, an activation.
nn::Sequential conv_norm(std::int64_t in, std::int64_t out, const ConvNormOptions& options,
                         std::optional<nn::Layer> activation = {});

/// Scales each channel by a share that follows from all of them: x * gate(fc2(activation(fc1(mean of each
/// channel)))), where fc1 and fc2 are 1x1 convolutions. Hu et al., "Squeeze-and-excitation networks",
/// CVPR'18.
struct SqueezeExcitation {
  SqueezeExcitation(std::int64_t channels, std::int64_t squeezed, nn::Layer activation, nn::Layer gate,
                    nn::InitRule bias_init = nn::fan_in_uniform);
  void parts(Parts& p) { p("fc1", fc1)("fc2", fc2); }
  Tensor operator()(const Tensor& x) const;

  nn::Conv2d fc1, fc2;
  nn::Layer activation, gate;
};

}  // namespace neurim::zoo
