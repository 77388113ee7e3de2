#include "neurim/model/zoo/resnet.h"

#include "neurim/nn/residual.h"
#include "neurim/ops/flatten.h"
#include "neurim/ops/global_avg_pool2d.h"
#include "neurim/ops/max_pool.h"
#include "neurim/ops/relu.h"

namespace neurim {

namespace {

template <class Block>
nn::Sequential stage_of(int blocks, std::int64_t in, std::int64_t channels, std::int64_t stride) {
  nn::Sequential layers;
  layers.add(Block(in, channels, stride));
  for (int i = 1; i < blocks; ++i) layers.add(Block(channels * Block::kExpansion, channels));
  return layers;
}

/// Stage `index` (0 to 3): 64 * 2^index channels; all but the first halve the image.
nn::Sequential stage(ResNet::Block block, int blocks, int index) {
  const std::int64_t channels = 64 << index, before = index == 0 ? 64 : channels / 2,
                     stride = index == 0 ? 1 : 2;
  if (block == ResNet::Block::basic) return stage_of<nn::BasicBlock>(blocks, before, channels, stride);
  const std::int64_t in = index == 0 ? before : before * nn::Bottleneck::kExpansion;
  return stage_of<nn::Bottleneck>(blocks, in, channels, stride);
}

}  // namespace

ResNet::ResNet(Block block, const std::array<int, 4>& blocks, std::int64_t classes, std::int64_t in_chans)
    : conv1(in_chans, 64, {.kernel = 7, .stride = 2, .pad = 3, .bias = false, .init = nn::fan_out_normal}),
      bn1(64),
      layer1(stage(block, blocks[0], 0)),
      layer2(stage(block, blocks[1], 1)),
      layer3(stage(block, blocks[2], 2)),
      layer4(stage(block, blocks[3], 3)),
      fc(block == Block::basic ? 512 : 512 * nn::Bottleneck::kExpansion, classes) {}

void ResNet::parts(Parts& p) {
  p("conv1", conv1)("bn1", bn1)("layer1", layer1)("layer2", layer2)("layer3", layer3)("layer4", layer4)("fc",
                                                                                                        fc);
}

Tensor ResNet::operator()(const Tensor& x) const {
  const Tensor stem =
      max_pool2d(relu(bn1(conv1(x))), {.kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1, 1, 1}});
  return fc(flatten(global_avg_pool2d(layer4(layer3(layer2(layer1(stem)))))));
}

}  // namespace neurim
