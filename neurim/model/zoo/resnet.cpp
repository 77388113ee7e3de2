// He et al., "Deep residual learning for image recognition", CVPR'16, Xie et al., "Aggregated residual
// transformations for deep neural networks", CVPR'17, and Zagoruyko and Komodakis, "Wide residual networks",
// BMVC'16, for ImageNet-sized images, as torchvision has them; Hu et al., "Squeeze-and-excitation networks",
// CVPR'18, with timm's names.
#include "neurim/model/zoo/entry.h"
#include "neurim/model/zoo/layers.h"
#include "neurim/nn/activations.h"
#include "neurim/nn/linear.h"
#include "neurim/nn/residual.h"
#include "neurim/ops/add.h"
#include "neurim/ops/flatten.h"
#include "neurim/ops/global_avg_pool2d.h"
#include "neurim/ops/max_pool.h"
#include "neurim/ops/relu.h"

namespace neurim::zoo {

namespace {

using Depths = std::array<int, 4>;

/// A bottleneck that scales its channels before the shortcut is added.
struct SqueezeBottleneck {
  SqueezeBottleneck(std::int64_t in, std::int64_t channels, std::int64_t stride)
      : plain(in, channels, stride), se(4 * channels, channels / 4, nn::ReLU(), nn::Sigmoid()) {}

  void parts(Parts& p) {
    plain.parts(p);
    p("se", se);
  }
  Tensor operator()(const Tensor& x) const {
    const Tensor y = relu(plain.bn2(plain.conv2(relu(plain.bn1(plain.conv1(x))))));
    return relu(se(plain.bn3(plain.conv3(y))) + plain.downsample(x));
  }

  nn::Bottleneck plain;
  SqueezeExcitation se;
};

/// Makes a block of `in` to `channels` times its expansion.
using MakeBlock = std::function<nn::Layer(std::int64_t in, std::int64_t channels, std::int64_t stride)>;

/// Stage `index` (0 to 3): 64 * 2^index channels; all but the first halve the image.
nn::Sequential stage(const MakeBlock& block, std::int64_t expansion, int depth, int index) {
  const std::int64_t channels = 64 << index, in = index == 0 ? 64 : channels / 2 * expansion;
  nn::Sequential layers;
  layers.add(block(in, channels, index == 0 ? 1 : 2));
  for (int i = 1; i < depth; ++i) layers.add(block(channels * expansion, channels, 1));
  return layers;
}

struct ResNet {
  ResNet(const MakeBlock& block, std::int64_t expansion, const Depths& depths, const Options& o)
      : conv1(o.in_chans, 64, {.kernel = 7, .stride = 2, .pad = 3, .bias = false, .init = nn::fan_out_normal}),
        bn1(64),
        layer1(stage(block, expansion, depths[0], 0)),
        layer2(stage(block, expansion, depths[1], 1)),
        layer3(stage(block, expansion, depths[2], 2)),
        layer4(stage(block, expansion, depths[3], 3)),
        fc(512 * expansion, o.classes) {}

  void parts(Parts& p) {
    p("conv1", conv1)("bn1", bn1);
    p("layer1", layer1)("layer2", layer2)("layer3", layer3)("layer4", layer4);
    p("fc", fc);
  }
  Tensor operator()(const Tensor& x) const {
    const Tensor stem = max_pool2d(relu(bn1(conv1(x))), {.kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1, 1, 1}});
    return fc(flatten(global_avg_pool2d(layer4(layer3(layer2(layer1(stem)))))));
  }

  nn::Conv2d conv1;
  nn::BatchNorm2d bn1;
  nn::Sequential layer1, layer2, layer3, layer4;
  nn::Linear fc;
};

Entry resnet(std::string name, const MakeBlock& block, std::int64_t expansion, const Depths& depths) {
  return {.name = std::move(name), .build = [=](const Options& o) { return ResNet(block, expansion, depths, o); }};
}

template <class Block>
nn::Layer plain(std::int64_t in, std::int64_t channels, std::int64_t stride) {
  return Block(in, channels, stride);
}

Entry bottleneck(std::string name, const Depths& depths, const nn::Bottleneck::Config& config = {}) {
  return resnet(
      std::move(name),
      [=](std::int64_t in, std::int64_t channels, std::int64_t stride) {
        return nn::Bottleneck(in, channels, stride, config);
      },
      nn::Bottleneck::kExpansion, depths);
}

}  // namespace

Entries resnet_models() {
  const Depths fifty{3, 4, 6, 3}, hundred{3, 4, 23, 3};
  return with_timm({resnet("resnet18", plain<nn::BasicBlock>, 1, {2, 2, 2, 2}),
                    resnet("resnet34", plain<nn::BasicBlock>, 1, {3, 4, 6, 3}), bottleneck("resnet50", fifty),
                    bottleneck("resnet101", hundred), bottleneck("resnet152", {3, 8, 36, 3}),
                    bottleneck("resnext50_32x4d", fifty, {.groups = 32, .base_width = 4}),
                    bottleneck("resnext101_32x8d", hundred, {.groups = 32, .base_width = 8}),
                    bottleneck("resnext101_64x4d", hundred, {.groups = 64, .base_width = 4}),
                    bottleneck("wide_resnet50_2", fifty, {.base_width = 128}),
                    bottleneck("wide_resnet101_2", hundred, {.base_width = 128}),
                    resnet("seresnet50", plain<SqueezeBottleneck>, nn::Bottleneck::kExpansion, fifty)});
}

}  // namespace neurim::zoo
