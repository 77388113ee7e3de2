// He et al., "Deep residual learning for image recognition", CVPR'16, section 4.2: residual networks of 6n +
// 2 layers for 32x32, with shortcuts of option A (no parameters).
#include <limits>

#include "neurim/model/zoo/entry.h"
#include "neurim/nn/batch_norm2d.h"
#include "neurim/nn/conv.h"
#include "neurim/nn/linear.h"
#include "neurim/nn/sequential.h"
#include "neurim/ops/add.h"
#include "neurim/ops/flatten.h"
#include "neurim/ops/global_avg_pool2d.h"
#include "neurim/ops/pad.h"
#include "neurim/ops/relu.h"
#include "neurim/ops/slice.h"

namespace neurim::zoo {

namespace {

nn::Conv2d conv3x3(std::int64_t in, std::int64_t out, std::int64_t stride) {
  return {in, out, {.kernel = 3, .stride = stride, .pad = 1, .bias = false}};
}

struct Block {
  Block(std::int64_t in, std::int64_t out, std::int64_t step)
      : conv1(conv3x3(in, out, step)),
        conv2(conv3x3(out, out, 1)),
        bn1(out),
        bn2(out),
        stride(step),
        grown((out - in) / 2) {}

  void parts(Parts& p) { p("conv1", conv1)("bn1", bn1)("conv2", conv2)("bn2", bn2); }

  Tensor operator()(const Tensor& x) const { return relu(bn2(conv2(relu(bn1(conv1(x))))) + shortcut(x)); }

  /// Option A: every stride-th pixel, and zeros for the new channels, half of them on each side.
  Tensor shortcut(const Tensor& x) const {
    if (stride == 1 && grown == 0) return x;
    constexpr std::int64_t kToEnd = std::numeric_limits<std::int64_t>::max();
    const Tensor pixels = slice(x, {0, 0}, {kToEnd, kToEnd}, {2, 3}, {stride, stride});
    return pad(pixels, {0, grown, 0, 0, 0, grown, 0, 0});
  }

  nn::Conv2d conv1, conv2;
  nn::BatchNorm2d bn1, bn2;
  std::int64_t stride, grown;
};

nn::Sequential stage(int blocks, std::int64_t in, std::int64_t out, std::int64_t stride) {
  nn::Sequential layers;
  layers.add(Block(in, out, stride));
  for (int i = 1; i < blocks; ++i) layers.add(Block(out, out, 1));
  return layers;
}

struct CifarResNet {
  CifarResNet(int blocks, const Options& o)
      : conv1(conv3x3(o.in_chans, 16, 1)),
        bn1(16),
        layer1(stage(blocks, 16, 16, 1)),
        layer2(stage(blocks, 16, 32, 2)),
        layer3(stage(blocks, 32, 64, 2)),
        linear(64, o.classes) {}

  void parts(Parts& p) {
    p("conv1", conv1)("bn1", bn1)("layer1", layer1)("layer2", layer2)("layer3", layer3)("linear", linear);
  }
  Tensor operator()(const Tensor& x) const {
    const Tensor features = layer3(layer2(layer1(relu(bn1(conv1(x))))));
    return linear(flatten(global_avg_pool2d(features)));
  }

  nn::Conv2d conv1;
  nn::BatchNorm2d bn1;
  nn::Sequential layer1, layer2, layer3;
  nn::Linear linear;
};

}  // namespace

Entries cifar_resnet_models() {
  Entries entries;
  for (const int blocks : {3, 5, 7, 9, 18})
    entries.push_back({.name = text("resnet", 6 * blocks + 2),
                       .build = [=](const Options& o) { return CifarResNet(blocks, o); },
                       .image_size = 32,
                       .classes = 10});
  return entries;
}

}  // namespace neurim::zoo
