// Ma et al., "ShuffleNet V2: practical guidelines for efficient CNN architecture design", ECCV'18, as
// torchvision has it.
#include "neurim/model/zoo/entry.h"
#include "neurim/nn/activations.h"
#include "neurim/nn/batch_norm2d.h"
#include "neurim/nn/conv.h"
#include "neurim/nn/linear.h"
#include "neurim/nn/pool.h"
#include "neurim/nn/sequential.h"
#include "neurim/ops/concat.h"
#include "neurim/ops/flatten.h"
#include "neurim/ops/global_avg_pool2d.h"
#include "neurim/ops/reshape.h"
#include "neurim/ops/slice.h"
#include "neurim/ops/transpose.h"

namespace neurim::zoo {

namespace {

nn::Conv2d pointwise(std::int64_t in, std::int64_t out) { return {in, out, {.kernel = 1, .bias = false}}; }

nn::Conv2d depthwise(std::int64_t channels, std::int64_t stride) {
  return {channels, channels, {.kernel = 3, .stride = stride, .pad = 1, .groups = channels, .bias = false}};
}

/// The channels of the two halves by turns.
Tensor shuffled(const Tensor& x) {
  const Dim n = x.size(0), half = x.size(1) / 2, h = x.size(2), w = x.size(3);
  return reshape(transpose(reshape(x, {n, 2, half, h, w}), {0, 2, 1, 3, 4}), x.shape());
}

/// With stride 1, half of the channels pass by branch2; with stride 2, both branches see all.
struct InvertedResidual {
  InvertedResidual(std::int64_t in, std::int64_t out, std::int64_t stride) {
    const std::int64_t half = out / 2, seen = stride == 1 ? half : in;
    if (stride > 1)
      branch1 = {depthwise(in, stride), nn::BatchNorm2d(in), pointwise(in, half), nn::BatchNorm2d(half), nn::ReLU()};
    branch2 = {pointwise(seen, half), nn::BatchNorm2d(half), nn::ReLU(), depthwise(half, stride), nn::BatchNorm2d(half),
               pointwise(half, half), nn::BatchNorm2d(half), nn::ReLU()};
  }

  void parts(Parts& p) { p("branch1", branch1)("branch2", branch2); }
  Tensor operator()(const Tensor& x) const {
    if (branch1.size()) return shuffled(concat({branch1(x), branch2(x)}, 1));
    const std::int64_t half = x.size(1) / 2;
    return shuffled(concat({slice(x, {0}, {half}, {1}), branch2(slice(x, {half}, {2 * half}, {1}))}, 1));
  }

  nn::Sequential branch1, branch2;
};

nn::Sequential stage(int depth, std::int64_t in, std::int64_t out) {
  nn::Sequential layers;
  layers.add(InvertedResidual(in, out, 2));
  for (int i = 1; i < depth; ++i) layers.add(InvertedResidual(out, out, 1));
  return layers;
}

using Channels = std::array<std::int64_t, 5>;

struct ShuffleNetV2 {
  ShuffleNetV2(const Channels& c, const Options& o)
      : conv1(nn::Conv2d(o.in_chans, c[0], {.kernel = 3, .stride = 2, .pad = 1, .bias = false}), nn::BatchNorm2d(c[0]),
              nn::ReLU()),
        stage2(stage(4, c[0], c[1])),
        stage3(stage(8, c[1], c[2])),
        stage4(stage(4, c[2], c[3])),
        conv5(pointwise(c[3], c[4]), nn::BatchNorm2d(c[4]), nn::ReLU()),
        fc(c[4], o.classes) {}

  void parts(Parts& p) {
    p("conv1", conv1)("stage2", stage2)("stage3", stage3)("stage4", stage4)("conv5", conv5)("fc", fc);
  }
  Tensor operator()(const Tensor& x) const {
    const Tensor stem = nn::MaxPool2d{.kernel = 3, .stride = 2, .pad = 1}(conv1(x));
    return fc(flatten(global_avg_pool2d(conv5(stage4(stage3(stage2(stem)))))));
  }

  nn::Sequential conv1, stage2, stage3, stage4, conv5;
  nn::Linear fc;
};

Entry shufflenet(std::string name, const Channels& channels) {
  return {.name = std::move(name), .build = [=](const Options& o) { return ShuffleNetV2(channels, o); }};
}

}  // namespace

Entries shufflenet_models() {
  return {shufflenet("shufflenet_v2_x0_5", {24, 48, 96, 192, 1024}),
          shufflenet("shufflenet_v2_x1_0", {24, 116, 232, 464, 1024}),
          shufflenet("shufflenet_v2_x1_5", {24, 176, 352, 704, 1024}),
          shufflenet("shufflenet_v2_x2_0", {24, 244, 488, 976, 2048})};
}

}  // namespace neurim::zoo
