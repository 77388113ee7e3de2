// Zagoruyko and Komodakis, "Wide residual networks", BMVC'16, for 32x32: pre-activation blocks of two 3x3
// convolutions.
#include "neurim/model/zoo/entry.h"
#include "neurim/nn/batch_norm2d.h"
#include "neurim/nn/conv.h"
#include "neurim/nn/linear.h"
#include "neurim/nn/sequential.h"
#include "neurim/ops/add.h"
#include "neurim/ops/flatten.h"
#include "neurim/ops/global_avg_pool2d.h"
#include "neurim/ops/relu.h"

namespace neurim::zoo {

namespace {

nn::Conv2d conv(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride) {
  return {in, out, {.kernel = kernel, .stride = stride, .pad = kernel / 2, .bias = false, .init = nn::fan_out_normal}};
}

/// Where the shape changes, a 1x1 convolution of the activated input is the shortcut.
struct Block {
  Block(std::int64_t in, std::int64_t out, std::int64_t stride)
      : bn1(in), bn2(out), conv1(conv(in, out, 3, stride)), conv2(conv(out, out, 3, 1)) {
    if (in != out) shortcut.add(conv(in, out, 1, stride));
  }

  void parts(Parts& p) { p("bn1", bn1)("conv1", conv1)("bn2", bn2)("conv2", conv2)("shortcut", shortcut); }
  Tensor operator()(const Tensor& x) const {
    const Tensor active = relu(bn1(x));
    return conv2(relu(bn2(conv1(active)))) + (shortcut.size() ? shortcut(active) : x);
  }

  nn::BatchNorm2d bn1, bn2;
  nn::Conv2d conv1, conv2;
  nn::Sequential shortcut;
};

nn::Sequential stage(int blocks, std::int64_t in, std::int64_t out, std::int64_t stride) {
  nn::Sequential layers;
  layers.add(Block(in, out, stride));
  for (int i = 1; i < blocks; ++i) layers.add(Block(out, out, 1));
  return layers;
}

struct WideResNet {
  WideResNet(int blocks, std::int64_t width, const Options& o)
      : conv1(conv(o.in_chans, 16, 3, 1)),
        layer1(stage(blocks, 16, 16 * width, 1)),
        layer2(stage(blocks, 16 * width, 32 * width, 2)),
        layer3(stage(blocks, 32 * width, 64 * width, 2)),
        bn(64 * width),
        fc(64 * width, o.classes) {}

  void parts(Parts& p) { p("conv1", conv1)("layer1", layer1)("layer2", layer2)("layer3", layer3)("bn", bn)("fc", fc); }
  Tensor operator()(const Tensor& x) const {
    return fc(flatten(global_avg_pool2d(relu(bn(layer3(layer2(layer1(conv1(x)))))))));
  }

  nn::Conv2d conv1;
  nn::Sequential layer1, layer2, layer3;
  nn::BatchNorm2d bn;
  nn::Linear fc;
};

}  // namespace

Entries wide_resnet_models() {
  return {{.name = "wide_resnet28_10",
           .build = [](const Options& o) { return WideResNet(4, 10, o); },
           .image_size = 32,
           .classes = 10}};
}

}  // namespace neurim::zoo
