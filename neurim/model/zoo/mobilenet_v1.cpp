// Howard et al., "MobileNets: efficient convolutional neural networks for mobile vision applications", 2017,
// table 1; timm's has ReLU6.
#include "neurim/model/zoo/entry.h"
#include "neurim/model/zoo/layers.h"
#include "neurim/nn/activations.h"
#include "neurim/nn/linear.h"
#include "neurim/ops/flatten.h"
#include "neurim/ops/global_avg_pool2d.h"

namespace neurim::zoo {

namespace {

/// Blocks of a depthwise 3x3 and a 1x1 convolution; the first of a stage strides.
struct Stage {
  std::int64_t channels, stride;
  int depth;
};
constexpr Stage kStages[]{{64, 1, 1}, {128, 2, 2}, {256, 2, 2}, {512, 2, 6}, {1024, 2, 2}};

struct MobileNetV1 {
  MobileNetV1(const nn::Layer& activation, const Options& o) : fc(1024, o.classes) {
    features.add(conv_norm(o.in_chans, 32, {.stride = 2}, activation));
    std::int64_t in = 32;
    for (const Stage& s : kStages)
      for (int i = 0; i < s.depth; ++i) {
        features.add(conv_norm(in, in, {.stride = i == 0 ? s.stride : 1, .groups = in}, activation));
        features.add(conv_norm(in, s.channels, {.kernel = 1}, activation));
        in = s.channels;
      }
  }

  void parts(Parts& p) { p("features", features)("fc", fc); }
  Tensor operator()(const Tensor& x) const { return fc(flatten(global_avg_pool2d(features(x)))); }

  nn::Sequential features;
  nn::Linear fc;
};

Renames timm_names() {
  Renames names{{"features.0.0", "conv_stem"}, {"features.0.1", "bn1"}, {"fc", "classifier"}};
  int layer = 1;
  for (std::size_t s = 0; s < std::size(kStages); ++s)
    for (int i = 0; i < kStages[s].depth; ++i, layer += 2)
      add_inverted_residual(names, "features", text("blocks.", s, '.', i),
                            {text(layer, ".0"), text(layer, ".1"), text(layer + 1, ".0"), text(layer + 1, ".1")});
  return names;
}

Entry mobilenet(const nn::Layer& activation) {
  return {.name = "mobilenet_v1",
          .build = [=](const Options& o) { return MobileNetV1(activation, o); },
          .other_names = timm_names};
}

}  // namespace

Entries mobilenet_v1_models() {
  Entries entries{mobilenet(nn::ReLU()), timm(mobilenet(nn::ReLU6()), "mobilenetv1_100")};
  entries.back().mean = entries.back().std = {0.5, 0.5, 0.5};
  return entries;
}

}  // namespace neurim::zoo
